r"""The audit of a log: what one run came to, under a stated belief.

A log has each user once, and one history. Given that history the margin of a user x who is recommended arm i is what
she would expect if she knew it, :math:`m_i(x) - m_j(x)`; it is averaged over the users of a window of rounds, weighted
with the propensities where they were logged. That is the *realised* margin. The constraint is about the *ex-ante* one,
over all histories that users hold possible: a fair mechanism has runs with negative realised margins. So a log gets no
verdict. What can be told is what this run came to, with its bounds, and how many faithful runs of its plan, with the
same users, come to as little (``faithful_runs``). Whether it followed its plan is another question: ``check_log``.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing.evidence import Evidence, joined_evidence
from rcb_bayes.auditing.faithful import faithful_runs
from rcb_bayes.auditing.judging import compliance_curve, empty_cells, entered
from rcb_bayes.auditing.policy_views import expectations
from rcb_bayes.auditing.result import Audit
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.evaluation import evaluate
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import VERDICTS, told_lowest
from rcb_bayes.mechanism.decisions import EXPLOIT, ROUND_KINDS
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.margins import MIN_WORLDS, below_best, simultaneous_bands, user_leads
from rcb_bayes.mechanism.notions import NOTIONS, Notion, as_notion
from rcb_bayes.planning.checks import check_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.posterior import Engine, make_engine
from rcb_bayes.running.history import History
from rcb_bayes.running.log_tables import Log, as_log, read_log
from rcb_bayes.schema import ARM, DEFAULT_SEED, FloatArray, as_amount, as_count, as_probability

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_FIRST_WINDOW = 64
EXPLOITING = ROUND_KINDS[EXPLOIT]
UNDECIDED = VERDICTS.index("inconclusive")


def audit_log(
    market: Market,
    log: "pd.DataFrame | str | Path",
    *,
    plan: Plan | None = None,
    notion: str = "definition",
    epsilon: float | None = None,
    first_window: int = _FIRST_WINDOW,
    level: float = 0.05,
    n_runs: int = 200,
    options: Exploiting | None = None,
    seed: int = DEFAULT_SEED,
) -> Audit:
    """Realised margins of a logged run: what it came to, and how many faithful runs come to as little.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    log : pandas.DataFrame, str or path-like
        A table, or a comma-separated file, a row a round in their order: a column for each feature of the market;
        ``arm``, a label; ``reward``; and, if known, propensities: ``p_<arm>`` for every arm (sharper), or
        ``propensity`` of the arm recommended (checked only). ``counted`` (0 or 1), if there, says which samples entered
        the platform's data; those that did not may lack their reward. ``taken``, if there, is the arm that the user
        took. With ``ticket``, as in ``Recommender.log``, rows may be in any order.
    plan : Plan, optional
        What the platform says it follows. With it ``n_runs`` faithful runs are simulated, in worlds of the users'
        belief, with the users of the log and rewards at once; ``options`` are those of exploitation.
    notion : str
        "definition" (conditional on the recommendation) or "proof" (joint with it), averaged over users.
    epsilon : float, optional
        The plan's, or .05, unless given.
    first_window : int
        Rounds of the first window; later ones double. Expectations are those of a window's beginning.
    level : float
        One minus the confidence of the bounds, which hold for all cells at once.
    n_runs : int
        Faithful runs of the plan that the log is compared with.
    options : Exploiting, optional
        How the platform exploited, where that was not the default.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Audit
        Audit whose ``verdict`` is "realised": one run is no verdict on a mechanism. ``realised`` has the lowest margin,
        its bounds, and the share of faithful runs with as low a one. ``notes`` have what telling everybody one arm
        would have come to, by ``evaluate``, where propensities were logged and reach that far.

    Raises
    ------
    DataError
        Missing columns, values that are not finite, unknown arms, propensities of zero or that do not sum to one.
    RcbError
        The notion ``user``: a log has each user once.

    Applicability
    -------------
    Users who come independently.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> import pandas as pd
    >>> users = market.covariates.sample(200, seed=1)
    >>> log = pd.DataFrame(users, columns=market.features).assign(arm="old", reward=users @ [0.5, 0.2])
    >>> found = rcb.audit_log(market, log)
    >>> found.verdict, round(found.realised["lowest"], 2)
    ('realised', 0.13)
    """
    judged = as_notion(notion)
    if not judged.judges_logs:
        raise RcbError("A log has each user once, so margins are averaged over users. Use 'definition' or 'proof'.")
    if epsilon is None:
        epsilon = 0.05 if plan is None else plan.epsilon
    as_amount(epsilon, name="epsilon")
    as_probability(level, name="level")
    n_runs = as_count(n_runs, name="n_runs", least=1)
    if plan is not None:
        check_plan(market, plan)
    table = read_log(log)
    rows = as_log(market, table)
    edges = _edges(len(rows.arm), first_window)
    engine = make_engine(market.prior, market.noise)
    expected = _expected(market, engine, rows, edges)  # (K, T)
    found = {
        name: _margins(market, rows, expected, edges, notion=one, epsilon=float(epsilon), level=level, seed=seed)
        for name, one in NOTIONS.items()
        if one.judges_logs
    }
    for margins in found.values():
        margins.attrs |= told_lowest(margins)
    notes = ("one run cannot tell whether a mechanism is fair: give its plan, for how many faithful runs look as bad",)
    if plan is not None:
        notes = ()
        runs = faithful_runs(market, plan, rows, n_runs=n_runs, options=options, seed=seed)
        lows = [_lows(run, _expected(market, engine, run, edges), edges) for run in runs]
        for name, low in _lows(rows, expected, edges).items():
            found[name].attrs |= _share([run[name] for run in lows], low)
    return Audit(
        verdict="realised",
        notion=judged.name,
        epsilon=float(epsilon),
        by_notion=found,
        compliance=_compliance(rows, expected, float(epsilon), level=level),
        users=rows.x,
        n_worlds=1,
        n_random=0,
        level=level,
        seed=seed,
        belief=market.prior.name,
        kind="realised",
        notes=(*notes, *_values(market, table, level=level)),
    )


def _values(market: Market, table: "pd.DataFrame", *, level: float) -> tuple[str, ...]:
    """What telling everybody one arm would have come to, where the log's propensities reach that far."""
    exploits = "stage" in table.columns and bool((table["stage"].astype(str) == EXPLOITING).any())
    asked: dict[str, Any] = {"estimators": ["adaptive"], "stages": EXPLOITING if exploits else None, "level": level}
    told = []
    for arm in market.arms:
        try:
            found = evaluate(table, arm, market, **asked)
        except DataError:  # no propensities, or none above zero: a log need not have them
            continue
        own = {name: float(found[name][0]) for name in ("value", "lower", "upper")}
        told.append(
            f"everybody told {arm}{' in exploitation' if exploits else ''}: mean reward {own['value']:.3g}, "
            f"{1 - level:.0%} interval {own['lower']:.3g} to {own['upper']:.3g}; "
            f"as logged {found.attrs['logged_value']:.3g}"
        )
    return tuple(told)


# --- margins ---------------------------------------------------------------------------------------------------------


def _edges(n: int, first: int) -> list[int]:
    """Where windows begin, and the end; the last is at least half as long as it would be."""
    edges, size = [0], as_count(first, name="first_window", least=MIN_WORLDS)
    while edges[-1] + size + size // 2 <= n:
        edges.append(edges[-1] + size)
        size = edges[-1]
    return [*edges, n]


def _expected(market: Market, engine: Engine, rows: Log, edges: list[int]) -> FloatArray:
    """What users expect of every arm in the light of what came before their window, (K, T)."""
    own = market if rows.past is None else replace(market, past=rows.past)
    history = History.of_market(own, keep_rows=not market.noise.is_gaussian)
    out = np.empty((market.n_arms, len(rows.arm)))
    for start, stop in pairwise(edges):
        data = history.as_rows(range(market.n_arms)) if history.keeps_rows else history.sums()
        out[:, start:stop] = expectations(engine, [data], rows.x[start:stop], n_arms=market.n_arms)[:, :, 0]
        fed = np.arange(start, stop)[rows.counted[start:stop]]
        history.add(rows.x[fed], rows.taken[fed], rows.reward[fed])
    return out


def _lows(rows: Log, expected: FloatArray, edges: list[int]) -> dict[str, float]:
    """The lowest margin over windows, arms and rivals, under each notion."""
    lows = {name: np.inf for name, notion in NOTIONS.items() if notion.judges_logs}
    for start, stop in pairwise(edges):
        weights = rows.weights[start:stop].T  # (K, rounds)
        chance = weights.mean(axis=1)
        # Rounds are to a window what worlds are to a stage, and one user stands for all.
        gains = user_leads(weights[:, None], below_best(expected[:, None, start:stop]), 0.0)[0]  # (arm, rival)
        np.fill_diagonal(gains, np.inf)
        used = chance > 0
        for name in lows:
            lows[name] = min(lows[name], float((gains[used] / NOTIONS[name].mass(chance[used])[:, None]).min()))
    return lows


def _share(lows: list[float], low: float) -> dict[str, float]:
    """The share of faithful runs whose lowest margin is as low, the log itself counted as one."""
    n = len(lows)
    share = (1 + sum(own <= low for own in lows)) / (n + 1)
    return {"n_runs": n, "share_as_low": share, "share_as_low_mcse": float(np.sqrt(share * (1 - share) / n))}


def _margins(
    market: Market,
    rows: Log,
    expected: FloatArray,
    edges: list[int],
    *,
    notion: Notion,
    epsilon: float,
    level: float,
    seed: int,
) -> "xr.Dataset":
    import xarray as xr

    parts, names = [], []
    shared: dict[str, Any] = {"notion": notion, "epsilon": epsilon, "level": level / (len(edges) - 1)}
    for number, (start, stop) in enumerate(pairwise(edges)):
        cells = _window(rows.weights[start:stop].T, expected[:, start:stop], seed=seed + number, **shared)
        parts.append(xr.Dataset({name: ((ARM, "rival"), values) for name, values in cells.items()}))
        names.append(f"rounds {start + 1} to {stop}")
    arms = list(market.arms)
    joined = xr.concat(parts, dim="stage").assign_coords({"stage": names, ARM: arms, "rival": arms})
    # One run has no verdict on a mechanism: its cells are told, and not judged.
    joined["verdict"] = joined["verdict"].where(joined["verdict"] < 0, UNDECIDED).astype(np.int8)
    return joined


def _window(
    weights: FloatArray, expected: FloatArray, *, notion: Notion, epsilon: float, level: float, seed: int
) -> dict[str, FloatArray]:
    """Cells of a window, (K, K), from (K, rounds) each: rounds are to it what worlds are to a stage."""
    k = len(weights)
    out = empty_cells((k, k))
    values, places, evidence = [], [], []
    for arm, chances in enumerate(weights):
        out["mass"][arm] = chances.mean()
        for rival in range(k):
            if rival == arm or not (chances > 0).any():
                continue
            lead = expected[arm] - expected[rival]
            values.append(notion.linear_form(chances, lead, epsilon))
            places.append((arm, rival))
            evidence.append(_evidence(chances, lead + epsilon, epsilon))
    bands = simultaneous_bands(np.stack(values, axis=1), level=level, seed=seed)
    at = tuple(np.array(places).T)
    mass = notion.mass(out["mass"][at])
    return entered(out, at, bands, joined_evidence(evidence), mass, n_worlds=weights.shape[1], epsilon=epsilon)


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


def _compliance(rows: Log, expected: FloatArray, epsilon: float, *, level: float) -> "xr.Dataset":
    """The share of recommendations that users who knew the history would have followed, over epsilon."""
    rounds = np.arange(len(rows.arm))
    rivals = expected.copy()
    rivals[rows.arm, rounds] = -np.inf
    margin = expected[rows.arm, rounds] - rivals.max(axis=0)
    lowest: dict[str, FloatArray] = dict.fromkeys(("estimate", "lower", "upper"), margin)
    return compliance_curve(lowest, np.full(len(margin), 1.0 / len(margin)), epsilon=epsilon, level=level)
