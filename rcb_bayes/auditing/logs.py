r"""The audit of a log: what one run came to, under a stated belief.

A log has each user once, and one history. Given that history the margin of a user x who is recommended arm i is what
she would expect if she knew it, :math:`m_i(x) - m_j(x)`; it is averaged over the users of a window of rounds, weighted
with the propensities where they were logged. That is the *realised* margin. The constraint is about the *ex-ante* one,
over all histories that users hold possible: a fair mechanism has runs with negative realised margins, and a log alone
cannot tell whether a mechanism is fair.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing.judging import (
    Evidence,
    clopper_pearson,
    empty_cells,
    entered,
    joined_evidence,
    verdict_of,
)
from rcb_bayes.auditing.policy_views import expectations
from rcb_bayes.auditing.result import Audit
from rcb_bayes.covariates.tables import read_log
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.history import History
from rcb_bayes.margins import MIN_WORLDS, Notion, as_notion, simultaneous_bands
from rcb_bayes.market import Market
from rcb_bayes.posterior import make_engine
from rcb_bayes.schema import ARM, FloatArray, is_number

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_FIRST_WINDOW = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Log:
    """x (T, d), arm positions, rewards, whether counted (T,); weights (T, K): propensities, or what was recommended."""

    x: FloatArray
    arm: np.ndarray
    reward: FloatArray
    weights: FloatArray
    counted: np.ndarray


def audit_log(
    market: Market,
    log: "pd.DataFrame | str | Path",
    *,
    notion: str = "definition",
    epsilon: float = 0.05,
    first_window: int = _FIRST_WINDOW,
    level: float = 0.05,
    seed: int = 1,
) -> Audit:
    """Realised margins of a logged run.

    Parameters
    ----------
    log : a table, or a comma-separated file, a row a round in their order: a column for each feature of the market;
        ``arm``, a label; ``reward``; and, if known, propensities: ``p_<arm>`` for every arm (sharper), or
        ``propensity`` of the arm recommended (checked only). ``counted`` (0 or 1), if there, says which samples
        entered the platform's data
    notion : "definition" (conditional on the recommendation) or "proof" (joint with it), averaged over users
    first_window : rounds of the first window; later ones double. Expectations are those of a window's beginning

    Raises
    ------
    DataError
        Missing columns, values that are not finite, unknown arms, propensities of zero or that do not sum to one.
    RcbError
        The notion ``user``: a log has each user once.

    Applicability
    -------------
    Users who come independently. The verdict is about the realised margins, not about the mechanism.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> import pandas as pd
    >>> users = market.covariates.sample(200, seed=1)
    >>> log = pd.DataFrame(users, columns=market.features).assign(arm="old", reward=users @ [0.5, 0.2])
    >>> found = rcb.audit_log(market, log)
    >>> found.verdict, found.kind
    ('pass', 'realised')
    """
    judged: Notion = as_notion(notion)
    if judged == "user":
        raise RcbError("A log has each user once, so margins are averaged over users. Use 'definition' or 'proof'.")
    if not (is_number(epsilon) and epsilon >= 0):
        raise RcbError(f"epsilon must be a finite number of at least 0, got {epsilon!r}.")
    rows = _as_log(market, log)
    edges = _edges(len(rows.arm), first_window)
    leads = _expected(market, rows, edges)  # (T, K)
    notions: tuple[Notion, ...] = ("proof", "definition")
    found: dict[Notion, Any] = {
        own: _margins(market, rows, leads, edges, own, float(epsilon), level=level, seed=seed) for own in notions
    }
    return Audit(
        verdict=verdict_of(found[judged]),
        notion=judged,
        epsilon=float(epsilon),
        by_notion=found,
        compliance=_compliance(rows, leads, float(epsilon), level=level),
        users=rows.x,
        n_worlds=1,
        n_random=0,
        level=level,
        seed=seed,
        belief=market.prior.name,
        kind="realised",
    )


# --- reading ---------------------------------------------------------------------------------------------------------


def _as_log(market: Market, log: "pd.DataFrame | str | Path") -> _Log:
    table = _read(log)
    wanted = [*market.features, "arm", "reward"]
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise DataError(
            f"The log lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing[:5])}. "
            "It needs one for each feature of the belief, arm and reward."
        )
    if len(table) < MIN_WORLDS:
        raise DataError(f"The log has {len(table)} rounds, and {MIN_WORLDS} are the least that can be judged.")
    labels = np.array([str(label) for label in table["arm"]], dtype=object)
    places = {name: k for k, name in enumerate(market.arms)}
    unknown = sorted({name for name in labels.tolist() if name not in places})
    if unknown:
        raise DataError(f"The log has the arm {unknown[0][:60]!r}, the market {', '.join(market.arms)}.")
    arm = np.array([places[name] for name in labels.tolist()])
    counted = _numbers(table, "counted") if "counted" in table.columns else np.ones(len(table))
    return _Log(
        x=np.stack([_numbers(table, name) for name in market.features], axis=1),
        arm=arm,
        reward=_numbers(table, "reward"),
        weights=_weights(table, market, arm),
        counted=counted > 0,
    )


def _read(log: "pd.DataFrame | str | Path") -> "pd.DataFrame":
    import pandas as pd

    if isinstance(log, pd.DataFrame):
        return log
    try:
        return read_log(Path(log), words=("arm",))
    except (DataError, TypeError) as error:
        raise DataError(f"Cannot read a log: {error}") from None


def _numbers(table: "pd.DataFrame", name: str) -> FloatArray:
    import pandas as pd

    values = np.asarray(pd.to_numeric(table[name], errors="coerce"), dtype=float)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        place = f"line {table.index[row]}" if table.index.name == "line" else f"row {row + 1}"
        raise DataError(
            f"Column '{name}' of the log has no finite number in {place}: {str(table[name].iloc[row])[:40]!r}."
        )
    return values


def _weights(table: "pd.DataFrame", market: Market, arm: np.ndarray) -> FloatArray:
    """Propensities of all arms where they were logged, else what was recommended."""
    rounds = np.arange(len(arm))
    if "propensity" in table.columns:
        _check_own(_numbers(table, "propensity"))
    names = [f"p_{label}" for label in market.arms]
    there = [name for name in names if name in table.columns]
    if not there:
        return np.eye(market.n_arms)[arm]
    if len(there) < len(names):
        lacking = ", ".join(name for name in names if name not in there)
        raise DataError(f"Propensities are needed of every arm, or of none; the log lacks {lacking}.")
    found = np.stack([_numbers(table, name) for name in names], axis=1)
    if (found < 0).any() or np.abs(found.sum(axis=1) - 1.0).max() > 1e-6:
        row = int(np.flatnonzero((found < 0).any(axis=1) | (np.abs(found.sum(axis=1) - 1.0) > 1e-6))[0])
        raise DataError(f"Propensities must not be negative and must sum to one; in row {row + 1} they do not.")
    _check_own(found[rounds, arm])
    return found


def _check_own(propensity: FloatArray) -> None:
    if not ((propensity > 0) & (propensity <= 1)).all():
        row = int(np.flatnonzero(~((propensity > 0) & (propensity <= 1)))[0])
        raise DataError(
            f"The arm recommended in row {row + 1} has the propensity {propensity[row]:g}: what was recommended must "
            "have had a chance, of at most 1."
        )


# --- margins ---------------------------------------------------------------------------------------------------------


def _edges(n: int, first: int) -> list[int]:
    """Where windows begin, and the end; the last is at least half as long as it would be."""
    if not isinstance(first, int) or first < MIN_WORLDS:
        raise RcbError(f"first_window must be an integer of at least {MIN_WORLDS}, got {first!r}.")
    edges, size = [0], first
    while edges[-1] + size + size // 2 <= n:
        edges.append(edges[-1] + size)
        size = edges[-1]
    return [*edges, n]


def _expected(market: Market, rows: _Log, edges: list[int]) -> FloatArray:
    """What users expect of every arm in the light of what came before their window, (T, K)."""
    engine = make_engine(market.prior, market.noise)
    history = History(market.n_arms, market.n_features, keep_rows=not market.noise.is_gaussian)
    out = np.empty((len(rows.arm), market.n_arms))
    for start, stop in pairwise(edges):
        data = history.as_rows(range(market.n_arms)) if history.keeps_rows else history.sums()
        out[start:stop] = expectations(engine, [data], rows.x[start:stop], n_arms=market.n_arms)[:, :, 0].T
        fed = np.arange(start, stop)[rows.counted[start:stop]]
        history.add(rows.x[fed], rows.arm[fed], rows.reward[fed])
    return out


def _margins(
    market: Market,
    rows: _Log,
    expected: FloatArray,
    edges: list[int],
    notion: Notion,
    epsilon: float,
    *,
    level: float,
    seed: int,
) -> "xr.Dataset":
    import xarray as xr

    parts, names = [], []
    for number, (start, stop) in enumerate(pairwise(edges)):
        own = slice(start, stop)
        cells = _window(
            rows.weights[own], expected[own], notion, epsilon, level=level / (len(edges) - 1), seed=seed + number
        )
        parts.append(xr.Dataset({name: ((ARM, "rival"), values) for name, values in cells.items()}))
        names.append(f"rounds {start + 1} to {stop}")
    arms = list(market.arms)
    joined = xr.concat(parts, dim="stage").assign_coords({"stage": names, ARM: arms, "rival": arms})
    joined["verdict"] = joined["verdict"].astype(np.int8)
    return joined


def _window(
    weights: FloatArray, expected: FloatArray, notion: Notion, epsilon: float, *, level: float, seed: int
) -> dict[str, FloatArray]:
    """Cells of a window, (K, K): rounds are to it what worlds are to a stage."""
    k = weights.shape[1]
    out = empty_cells((k, k))
    values, places, evidence = [], [], []
    for arm in range(k):
        out["mass"][arm] = weights[:, arm].mean()
        for rival in range(k):
            if rival == arm or not (weights[:, arm] > 0).any():
                continue
            lead = expected[:, arm] - expected[:, rival]
            terms = weights[:, arm] * lead
            values.append(terms + epsilon if notion == "proof" else terms + epsilon * weights[:, arm])
            places.append((arm, rival))
            evidence.append(_evidence(weights[:, arm], lead + epsilon, epsilon))
    bands = simultaneous_bands(np.stack(values, axis=1), level=level, seed=seed)
    at = tuple(np.array(places).T)
    mass = np.ones(len(places)) if notion == "proof" else out["mass"][at]
    return entered(out, at, bands, joined_evidence(evidence), mass, n_worlds=len(weights), epsilon=epsilon)


def _evidence(weights: FloatArray, lead: FloatArray, epsilon: float) -> Evidence:
    terms = weights * lead
    return Evidence(
        always_holds=np.array([((lead >= 0) | (weights <= 0)).all()]),
        n_events=np.array([((lead >= 0) & (weights > 0)).sum()]),
        n_negative=np.array([(terms < 0).sum()]),
        gain=np.array([max(terms.max(), 0.0)]),
        loss=np.array([max(-terms.min(), 0.0)]),
        least=np.array([np.where(weights > 0, lead, np.inf).min() - epsilon]),
    )


def _compliance(rows: _Log, expected: FloatArray, epsilon: float, *, level: float) -> "xr.Dataset":
    """The share of recommendations that users who knew the history would have followed, over epsilon."""
    import xarray as xr

    rounds = np.arange(len(rows.arm))
    own = expected[rounds, rows.arm]
    rivals = expected.copy()
    rivals[rounds, rows.arm] = -np.inf
    margin = own - rivals.max(axis=1)
    reach = max(1.2 * float(-margin.min()), 2 * epsilon, 1e-3)
    grid = np.unique(np.append(np.linspace(0.0, reach, 101), epsilon))
    count = (margin[:, None] >= -grid - 1e-12).sum(axis=0)
    n = len(margin)
    lower, upper = clopper_pearson(count, n, level)
    share = count / n
    error = np.sqrt(np.maximum(share * (1 - share), 1 / n) / n)
    variables = {"share": share, "share_mcse": error, "share_lower": lower, "share_upper": upper}
    return xr.Dataset({name: ("epsilon", values) for name, values in variables.items()}, coords={"epsilon": grid})
