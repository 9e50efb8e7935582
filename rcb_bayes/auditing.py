r"""The audit: would users who know the mechanism follow it, at each stage, and how sure is that?

Worlds are drawn from the users' belief: whatever nature and the platform believe, it is their arithmetic. In world w a
user x of a panel is recommended arm i with probability :math:`p_w(i | x)`, by the platform's own state, and expects
:math:`m_w(x, j)` of every arm given all the data that drove it. Neither a recommendation nor a reward is drawn for her;
the constraint is the linear form of ``margins``, and all cells (user, arm, rival) of a stage get bands at once.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.exploit import Exploiting
from rcb_bayes.margins import Notion, Verdict, as_notion, judge_bands, simultaneous_bands
from rcb_bayes.market import Market
from rcb_bayes.plan import Plan
from rcb_bayes.schema import ARM, FloatArray, as_count, is_number
from rcb_bayes.simulation import PolicyMaker
from rcb_bayes.views import Asked, View, cell_terms, plan_views, policy_views

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

VERDICTS: tuple[Verdict, ...] = ("pass", "inconclusive", "fail")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """What was found.

    Attributes
    ----------
    verdict : "pass" only if every cell's lower bound holds, "fail" if some upper bound does not
    margins : Dataset, dims (stage, user, arm, rival): ``estimate``, the conditional margin E[m_i - m_j | i recommended]
        (under ``proof`` that times its probability), with ``mcse``, ``lower``, ``upper``; ``mass``, how often the arm
        is recommended; ``verdict``, a position in "pass", "inconclusive", "fail", -1 for no cell
    compliance : Dataset over epsilon: the share of users all of whose margins are at or above -epsilon, at every stage

    A statement about the users of the panel: the first ``n_random`` are drawn at random, the others are the worst of
    many, looked for in worlds of their own.
    """

    verdict: Verdict
    notion: Notion
    epsilon: float
    margins: "xr.Dataset"
    compliance: "xr.Dataset"
    n_worlds: int
    n_random: int
    seed: int

    def summary(self) -> str:
        """Verdict, and the worst cell of every stage."""
        lines = [
            f"{self.verdict}: {self.notion} notion, epsilon {self.epsilon:g}, {self.n_worlds:,} worlds a stage, "
            f"{self.margins.sizes['user']} users ({self.n_random} at random, the rest the worst of many)"
        ]
        for stage in self.margins["stage"].values:
            part = self.margins.sel(stage=stage)
            lowest = part["estimate"].where(
                part["verdict"] == part["verdict"].max()
            )  # of the cells with the worst verdict
            place = np.unravel_index(np.nanargmin(lowest.values), lowest.shape)
            cell = part.isel(dict(zip(lowest.dims, (int(k) for k in place), strict=True)))
            counts = [int((part["verdict"] == k).sum()) for k in range(len(VERDICTS))]
            lines.append(
                f"{stage}: {_worst(counts)}, worst {cell['arm'].item()} against {cell['rival'].item()}: "
                f"{cell['estimate'].item():.3g} ± {cell['mcse'].item():.2g}, bounds {cell['lower'].item():.3g} to "
                f"{cell['upper'].item():.3g}"
            )
        share = float(self.compliance["share"].sel(epsilon=self.epsilon, method="nearest"))
        lines.append(f"{100 * share:.1f} % of users at random stand at -epsilon or above, by the point estimates")
        return "\n".join(lines)

    def plot(self, *, axes: "Axes | None" = None) -> "Axes":
        """The worst margin of every stage with its bounds, and -epsilon."""
        from rcb_bayes.plots import plot_margins

        return plot_margins(self.margins, epsilon=self.epsilon, axes=axes)

    def to_netcdf(self, path: str | Path) -> None:
        """Write the margins, with verdict and settings as attributes."""
        self.margins.to_netcdf(path)


def audit(
    market: Market,
    plan: Plan | PolicyMaker,
    *,
    horizon: int = 10_000,
    n_worlds: int = 1000,
    notion: str | None = None,
    epsilon: float | None = None,
    n_users: int = 100,
    level: float = 0.05,
    options: Exploiting | None = None,
    seed: int = 1,
) -> Audit:
    """Audit a plan, or any policy, in fresh worlds of the users' belief.

    Parameters
    ----------
    plan : a plan; or a function (market, seed) -> policy, which is run world by world
    horizon : rounds; exploitation is audited as each of its epochs begins, other policies at rounds 1, 2, 4, ...
    notion, epsilon : the plan's own unless given; "user" and .05 for a policy
    n_users : users drawn at random; the worst of many are added for plans
    level : of the bands, over all cells of all stages together

    Raises
    ------
    RcbError
        A plan for another market or one that is not feasible, counts too small, an unknown notion.
    DataError
        A policy whose probabilities are negative, not finite or do not sum to one.

    Applicability
    -------------
    Gaussian rewards, for plans. Stages that fewer than 1 % of cold starts pass are not looked at.
    """
    n_worlds = as_count(n_worlds, name="n_worlds", least=50)
    n_users = as_count(n_users, name="n_users", least=1)
    horizon = as_count(horizon, name="horizon", least=1)
    if not (is_number(level) and 0 < level < 1):
        raise RcbError(f"level is a probability between 0 and 1, got {level!r}.")
    is_plan = isinstance(plan, Plan)
    judged: Notion = as_notion(notion or (plan.notion if is_plan else "user"))
    allowed = epsilon if epsilon is not None else plan.epsilon if is_plan else 0.05
    if not (is_number(allowed) and allowed >= 0):
        raise RcbError(f"epsilon must be a finite number of at least 0, got {allowed!r}.")
    if judged == "definition" and is_plan and plan.personalised:
        raise RcbError("A personalised plan is audited user by user: use notion='user' or 'proof'.")
    asked = Asked(
        notion=judged, epsilon=float(allowed), n_worlds=n_worlds, n_users=n_users, level=float(level), seed=seed
    )
    if isinstance(plan, Plan):
        stages = plan_views(market, plan, asked, horizon=horizon, options=options or Exploiting())
    else:
        stages = policy_views(market, plan, asked, horizon=horizon)
    return _judged(market, stages, asked)


def _judged(market: Market, views: list[View], asked: Asked) -> Audit:
    import xarray as xr

    arms = list(market.arms)
    parts = []
    for number, view in enumerate(views):
        cells = _stage_cells(view, asked, level=asked.level / len(views), seed=asked.seed + number)
        variables = {name: ((ARM, "rival", "user"), values) for name, values in cells.items()}
        parts.append(xr.Dataset(variables, coords={"user": np.arange(view.chances.shape[1])}))
    margins = xr.concat(parts, dim="stage", join="outer", fill_value={"verdict": -1}).transpose(
        "stage", "user", ARM, "rival"
    )
    margins = margins.assign_coords({"stage": _distinct([view.name for view in views]), ARM: arms, "rival": arms})
    margins["verdict"] = margins["verdict"].fillna(-1).astype(np.int8)
    counts = [int((margins["verdict"] == k).sum()) for k in range(len(VERDICTS))]
    verdict = _worst(counts)
    margins.attrs = {
        "notion": asked.notion,
        "epsilon": asked.epsilon,
        "n_worlds": asked.n_worlds,
        "seed": asked.seed,
        "verdict": verdict,
        "belief": market.prior.name,
        "version": __version__,
    }
    return Audit(
        verdict=verdict,
        notion=asked.notion,
        epsilon=asked.epsilon,
        margins=margins,
        compliance=_compliance(margins, asked),
        n_worlds=asked.n_worlds,
        n_random=asked.n_users,
        seed=asked.seed,
    )


def _stage_cells(view: View, asked: Asked, *, level: float, seed: int) -> dict[str, FloatArray]:
    """Estimates, bounds and verdicts of every cell of a stage, (K, K, U); NaN, and -1, where there is no cell."""
    k, u, _ = view.chances.shape
    names = ("estimate", "mcse", "lower", "upper", "mass")
    out = {name: np.full((k, k, u), np.nan) for name in names} | {"verdict": np.full((k, k, u), -1.0)}
    terms, places = [], []
    seen: dict[str, list[FloatArray]] = {
        name: [] for name in ("always_holds", "n_events", "n_negative", "gain", "loss")
    }
    for arm in range(k):
        found = cell_terms(view, arm, asked)  # (W, U, K)
        chances = view.chances[arm]  # (U, W)
        varying = chances - chances.min(axis=1, keepdims=True)
        for rival in range(k):
            if rival == arm:
                continue
            lead = view.rewards[arm] - view.rewards[rival] + asked.epsilon  # (U, W)
            used = chances.max(axis=1) > 0.0
            terms.append(found[:, used, rival])
            places += [(arm, rival, user) for user in np.flatnonzero(used)]
            not_best = view.best[arm] == 0.0
            for name, values in {
                "always_holds": ((lead >= 0.0) | (chances <= 0.0)).all(axis=1),
                "n_events": (~not_best).sum(axis=1),
                "n_negative": (varying * lead < 0.0).sum(axis=1),
                "gain": np.maximum(lead.std(axis=1) + asked.epsilon, np.where(not_best, 0.0, lead).max(axis=1)),
                "loss": np.abs(lead).max(axis=1) * np.where(not_best, varying, 0.0).max(axis=1),
            }.items():
                seen[name].append(values[used])
        out["mass"][arm] = chances.mean(axis=1)
    values = np.concatenate(terms, axis=1)
    if asked.notion == "definition":
        return _averaged(view, out, asked, level=level, seed=seed)
    bands = simultaneous_bands(values, level=level, seed=seed)
    joined: dict[str, Any] = {name: np.concatenate(part) for name, part in seen.items()}
    verdicts = judge_bands(bands, n_worlds=len(values), **joined)
    at = tuple(np.array(places).T)
    mass = np.ones(len(places)) if asked.notion == "proof" else out["mass"][at[0], at[1], at[2]]
    for name in ("estimate", "lower", "upper"):
        out[name][at] = getattr(bands, name) / mass - asked.epsilon
    out["mcse"][at] = bands.mcse / mass
    out["verdict"][at] = [VERDICTS.index(verdict) for verdict in verdicts]
    return out


def _averaged(
    view: View, out: dict[str, FloatArray], asked: Asked, *, level: float, seed: int
) -> dict[str, FloatArray]:
    """``definition``: a cell for each arm and rival, averaged over users drawn at random; in the first user's place."""
    k = len(view.chances)
    n = min(asked.n_users, view.chances.shape[1])
    pairs = [(i, j) for i in range(k) for j in range(k) if i != j]
    found = {arm: cell_terms(view, arm, asked)[:, :n] for arm in range(k)}
    values = np.stack([found[i][:, :, j].mean(axis=1) for i, j in pairs], axis=1)
    # Users are a sample too: their share of the error is added.
    spread = np.array([found[i][:, :, j].mean(axis=0).std(ddof=1) / np.sqrt(n) if n > 1 else 0.0 for i, j in pairs])
    bands = simultaneous_bands(values, level=level, seed=seed)
    error = np.hypot(bands.mcse, spread)
    bands = replace(
        bands, mcse=error, lower=bands.estimate - bands.critical * error, upper=bands.estimate + bands.critical * error
    )
    mass = np.array([view.chances[i, :n].mean() for i, _ in pairs])
    used = mass > 0.0
    verdicts = judge_bands(
        bands,
        always_holds=~used,
        n_events=np.full(len(pairs), values.shape[0]),
        n_negative=np.zeros(len(pairs)),
        gain=np.zeros(len(pairs)),
        loss=np.zeros(len(pairs)),
        n_worlds=len(values),
    )
    for c, (i, j) in enumerate(pairs):
        if used[c]:
            for name in ("estimate", "lower", "upper"):
                out[name][i, j, 0] = getattr(bands, name)[c] / mass[c] - asked.epsilon
            out["mcse"][i, j, 0] = error[c] / mass[c]
            out["verdict"][i, j, 0] = VERDICTS.index(verdicts[c])
    return out


def _worst(counts: list[int]) -> Verdict:
    if counts[VERDICTS.index("fail")]:
        return "fail"
    return "inconclusive" if counts[VERDICTS.index("inconclusive")] else "pass"


def _distinct(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({k})" for k, name in enumerate(names)]


def _compliance(margins: "xr.Dataset", asked: Asked) -> "xr.Dataset":
    """Share of the users at random whose margins are all at or above -epsilon, over a grid of epsilon."""
    import xarray as xr

    own = margins["estimate"].isel(user=slice(0, asked.n_users))
    lowest = np.nanmin(np.where(np.isnan(own.values), np.inf, own.values), axis=(0, 2, 3))
    reach = float(np.max(-lowest[np.isfinite(lowest)], initial=asked.epsilon))
    grid = np.unique(np.append(np.linspace(0.0, max(1.2 * reach, 2 * asked.epsilon, 1e-3), 101), asked.epsilon))
    share = (lowest[:, None] >= -grid - 1e-12).mean(axis=0)
    error = np.sqrt(np.maximum(share * (1 - share), 1 / len(lowest)) / len(lowest))
    return xr.Dataset({"share": ("epsilon", share), "share_mcse": ("epsilon", error)}, coords={"epsilon": grid})
