"""The warfarin experiment: plans, replays, audits, over epsilon, prior variance, oracle and policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.calibration import calibrate
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.plan import Plan
from rcb_bayes.schema import as_count, is_number
from rcb_bayes.theorem import theorem_plan
from rcb_bayes.warfarin.beliefs import PAPER_SIGMA, REWARD_SIGMA, physician_market
from rcb_bayes.warfarin.cohort import Cohort
from rcb_bayes.warfarin.contenders import (
    Contender,
    bandit_contenders,
    given_contenders,
    heeding_rcb,
    lasso_contender,
    logit_contender,
    practical_contenders,
    rcb_policy,
)
from rcb_bayes.warfarin.judging import audit_rows
from rcb_bayes.warfarin.metrics import replay_metrics, subgroup_metrics
from rcb_bayes.warfarin.replay import replay
from rcb_bayes.warfarin.result import WarfarinResult

if TYPE_CHECKING:
    import xarray as xr

EPSILONS = (0.025, 0.035, 0.045)
VARIANCES = (0.4, 0.6, 0.8)
PAPER_TAU = 0.005
WIDE_EPSILON = 0.1
"""A looser budget than the paper's: what the notion ``user`` takes for an error below .345."""

_N_PER_ARM = 20
_N_PER_ARM_USER = 10  # of notions that make a long cold start
_AUDIT_WORLDS = 500
Part = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the experiment is asked for; see ``run_warfarin``."""

    epsilons: tuple[float, ...]
    variances: tuple[float, ...]
    sigma: float
    n_permutations: int
    n_worlds: int
    audit: bool
    baselines: bool
    seed: int


def run_warfarin(
    cohort: Cohort,
    *,
    epsilons: Sequence[float] = EPSILONS,
    variances: Sequence[float] = VARIANCES,
    sigma: float = REWARD_SIGMA,
    n_permutations: int = 10,
    n_worlds: int = 500,
    audit: bool = True,
    baselines: bool = True,
    workers: int = 1,
    seed: int = 0,
) -> WarfarinResult:
    """The experiment on a cohort, real or synthetic.

    Parameters
    ----------
    epsilons, variances : the paper's budgets and prior variances; policies other than the grid's are replayed at the
        first epsilon and the last variance
    sigma : the noise the physician reckons with
    n_permutations : orders in which patients arrive
    n_worlds : simulated worlds behind each plan
    audit : whether plans are audited, too
    baselines : whether bandits, formulas and other oracles are replayed beside RCB
    workers : processes; the answer is the same for any number

    Returns
    -------
    WarfarinResult with ``runs``, ``figures``, ``groups``, ``grid``, ``plans``, ``audits``.

    Raises
    ------
    RcbError
        No epsilon or variance, values out of range, counts too small.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> cohort = rcb.synthetic_cohort(300, seed=1)
    >>> result = rcb.run_warfarin(
    ...     cohort, epsilons=[0.1], variances=[0.8], n_permutations=2, n_worlds=50, audit=False, baselines=False
    ... )
    >>> round(result.figures["error"].sel(policy="physician").item(), 2)
    0.39
    """
    asked = Settings(
        epsilons=_numbers(epsilons, name="epsilons", least=0.0),
        variances=_numbers(variances, name="variances", least=1e-9),
        sigma=float(sigma),
        n_permutations=as_count(n_permutations, name="n_permutations", least=1),
        n_worlds=as_count(n_worlds, name="n_worlds", least=50),
        audit=bool(audit),
        baselines=bool(baselines),
        seed=as_count(seed, name="seed"),
    )
    parts = _done(_tasks(cohort, asked), workers=as_count(workers, name="workers", least=1))
    return _joined(cohort, asked, parts)


# --- tasks, each of which can run in a process of its own ------------------------------------------------------------


def _tasks(cohort: Cohort, asked: Settings) -> list[Callable[[], Part]]:
    """Longest first."""
    named = [*(["lasso", "logit"] if asked.baselines else []), "reference"]
    found = [partial(_contenders_part, cohort, asked, name) for name in named]
    found += [partial(_user_part, cohort, asked, epsilon) for epsilon in (*asked.epsilons, WIDE_EPSILON)]
    found += [partial(_cell, cohort, asked, epsilon, v) for epsilon in asked.epsilons for v in asked.variances]
    found += [partial(_definition_part, cohort, asked, epsilon) for epsilon in asked.epsilons]
    found += [partial(_contenders_part, cohort, asked, name) for name in ("practical", "bandits", "given")]
    return found


def _done(tasks: list[Callable[[], Part]], *, workers: int) -> list[Part]:
    """All parts, in the order of the tasks; one thread each: small matrices gain nothing from more."""
    from joblib import Parallel, delayed

    if workers == 1:
        return [_single_threaded(task) for task in tasks]
    found: Any = Parallel(n_jobs=workers, backend="loky")(delayed(_single_threaded)(task) for task in tasks)
    return list(found)


def _single_threaded(task: Callable[[], Part]) -> Part:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return task()


def _market(cohort: Cohort, asked: Settings, variance: float | None = None) -> Market:
    return physician_market(cohort, variance=asked.variances[-1] if variance is None else variance, sigma=asked.sigma)


def _planned(market: Market, asked: Settings, *, epsilon: float, notion: str, n_per_arm: int) -> Plan:
    return calibrate(
        market,
        epsilon=epsilon,
        notion=notion,
        personalised=notion != "definition",
        n_per_arm=n_per_arm,
        n_worlds=asked.n_worlds,
        audit_worlds=_AUDIT_WORLDS,
        guard=False,  # proof leaves nothing to cut, and heeding cuts more
        seed=asked.seed,
    )


def _cell(cohort: Cohort, asked: Settings, epsilon: float, variance: float) -> Part:
    """One cell of the grid: a sampled plan, run with the physician's posterior mean and with the dose oracle."""
    market = _market(cohort, asked, variance)
    plan = _planned(market, asked, epsilon=epsilon, notion="proof", n_per_arm=_N_PER_ARM)
    rows: Part = {"plans": [_plan_row(plan, variance)]}
    if not plan.feasible:
        return rows
    makers = {"posterior mean": rcb_policy(market, plan), "dose, heeding": heeding_rcb(market, plan)}
    for oracle, maker in makers.items():
        runs = replay(cohort, maker, market=market, n_permutations=asked.n_permutations, seed=asked.seed)
        rows.setdefault("cells", {})[oracle, epsilon, variance] = _curves(runs)
    return rows


def _user_part(cohort: Cohort, asked: Settings, epsilon: float) -> Part:
    """The strongest notion: what it allows, run with the dose oracle within it."""
    market = _market(cohort, asked)
    plan = _planned(market, asked, epsilon=epsilon, notion="user", n_per_arm=_N_PER_ARM_USER)
    rows: Part = {"plans": [_plan_row(plan, asked.variances[-1])]}
    if plan.feasible:
        name = f"RCB, user, epsilon {epsilon:g}, dose heeding"
        heeding = Contender(name=name, kind="rcb", policy=heeding_rcb(market, plan), market=market)
        rows |= _replayed(cohort, asked, [heeding])
        if asked.audit and epsilon in (asked.epsilons[0], WIDE_EPSILON):  # the tightest, and the widest
            rows["audits"] = audit_rows(market, plan, name, horizon=len(cohort), heeding=True, seed=asked.seed)
    return rows


def _definition_part(cohort: Cohort, asked: Settings, epsilon: float) -> Part:
    market = _market(cohort, asked)
    plan = _planned(market, asked, epsilon=epsilon, notion="definition", n_per_arm=_N_PER_ARM_USER)
    return {"plans": [_plan_row(plan, asked.variances[-1])]}


def _contenders_part(cohort: Cohort, asked: Settings, which: str) -> Part:
    epsilon = asked.epsilons[0]
    if which == "given":
        return _replayed(cohort, asked, given_contenders(cohort))
    if which == "logit":
        return _replayed(cohort, asked, [logit_contender(cohort, epsilon=epsilon)])
    market = _market(cohort, asked)
    if which == "lasso":
        return _replayed(cohort, asked, [lasso_contender(market)])
    if which == "bandits":
        return _replayed(cohort, asked, bandit_contenders(market)) if asked.baselines else {}
    if which == "practical":
        found = practical_contenders(market, epsilon=epsilon)
        return _replayed(cohort, asked, found if asked.baselines else found[:3])
    return _reference(cohort, asked, market)


def _reference(cohort: Cohort, asked: Settings, market: Market) -> Part:
    """The theorem's plan and the sampled one at the first epsilon and the last variance."""
    epsilon, variance = asked.epsilons[0], asked.variances[-1]
    papers = physician_market(cohort, variance=variance, sigma=PAPER_SIGMA)
    theorems = [
        theorem_plan(
            papers,
            epsilon=epsilon,
            tau=PAPER_TAU,
            tau_star=PAPER_TAU,
            prior_gap=1.0,
            phi0=phi0,
            horizon=len(cohort),
            n_worlds=200,
        )
        for phi0 in (1.0, papers.covariates.phi0)
        if phi0 > 0
    ]
    plan = _planned(market, asked, epsilon=epsilon, notion="proof", n_per_arm=_N_PER_ARM)
    names = "RCB, theorem plan", "RCB, sampled plan", "RCB, sampled plan, dose heeding"
    found = [Contender(name=names[0], kind="rcb", policy=rcb_policy(papers, theorems[0]), market=papers)]
    rows: Part = {"plans": [_plan_row(one, variance) for one in theorems]}
    if plan.feasible:
        found.append(Contender(name=names[1], kind="rcb", policy=rcb_policy(market, plan), market=market))
        found.append(Contender(name=names[2], kind="rcb", policy=heeding_rcb(market, plan), market=market))
        if asked.audit:
            plain = audit_rows(market, plan, names[1], horizon=len(cohort), heeding=False, seed=asked.seed)
            cut = audit_rows(market, plan, names[2], horizon=len(cohort), heeding=True, seed=asked.seed)
            rows["audits"] = plain + cut
    return rows | _replayed(cohort, asked, found)


def _replayed(cohort: Cohort, asked: Settings, contenders: Sequence[Contender]) -> Part:
    found: Part = {}
    for one in contenders:
        runs = replay(cohort, one.policy, market=one.market, n_permutations=asked.n_permutations, seed=asked.seed)
        figures = replay_metrics(runs).assign_coords(kind=one.kind)
        found[one.name] = (_curves(runs), figures, subgroup_metrics(cohort, runs))
    return {"policies": found}


def _curves(runs: "xr.Dataset") -> "xr.Dataset":
    """What is kept of every round."""
    return runs[["regret", "gain"]]


def _plan_row(plan: Plan, variance: float) -> dict[str, Any]:
    names = ("kind", "notion", "epsilon", "n_per_arm", "exploration_rate", "exploration_rate_mcse")
    more = ("expected_cold_start", "expected_cold_start_mcse", "feasible", "reason")
    return {name: getattr(plan, name) for name in (*names, *more)} | {"variance": variance}


# --- the result ------------------------------------------------------------------------------------------------------


def _joined(cohort: Cohort, asked: Settings, parts: list[Part]) -> WarfarinResult:
    import xarray as xr

    policies: dict[str, tuple[Any, Any, Any]] = {}
    cells: dict[tuple[str, float, float], Any] = {}
    plans: list[dict[str, Any]] = []
    audits: list[dict[str, Any]] = []
    for part in parts:
        policies |= part.get("policies", {})
        cells |= part.get("cells", {})
        plans += part.get("plans", [])
        audits += part.get("audits", [])
    ordered = sorted(policies, key=lambda name: ("given", "bandit", "rcb").index(policies[name][1]["kind"].item()))
    index = xr.DataArray(ordered, dims="policy", name="policy")
    runs, figures, groups = (
        xr.concat([policies[name][k] for name in ordered], dim=index, combine_attrs="drop") for k in range(3)
    )
    attrs = {
        "seed": asked.seed,
        "version": __version__,
        "cohort": cohort.source,
        "rule": cohort.rule,
        "synthetic": int(cohort.is_synthetic),
        "sigma": asked.sigma,
        "n_permutations": asked.n_permutations,
    }
    made = {
        "runs": runs,
        "figures": figures,
        "groups": groups,
        "grid": _grid(cells, asked, n=len(cohort)),
        "plans": _as_rows(plans, "plan"),
        "audits": _as_rows(audits, "audit"),
    }
    return WarfarinResult(cohort=cohort.describe(), **{name: data.assign_attrs(attrs) for name, data in made.items()})


def _grid(cells: dict[tuple[str, float, float], Any], asked: Settings, *, n: int) -> "xr.Dataset":
    """Curves and errors over oracle, epsilon and variance; NaN, and -1, where no plan is feasible."""
    import xarray as xr

    oracles = ("posterior mean", "dose, heeding")
    shape = (len(oracles), len(asked.epsilons), len(asked.variances), asked.n_permutations, n)
    regret, gain = np.full(shape, -1, dtype=np.int8), np.full(shape, np.nan, dtype=np.float32)
    for (oracle, epsilon, variance), runs in cells.items():
        place = oracles.index(oracle), asked.epsilons.index(epsilon), asked.variances.index(variance)
        regret[place], gain[place] = runs["regret"].values, runs["gain"].values
    share = np.where(regret[..., 0] < 0, np.nan, regret.mean(axis=-1))  # (oracle, epsilon, variance, permutation)
    spread = share.std(axis=-1, ddof=1) if asked.n_permutations > 1 else np.full(share.shape[:-1], np.nan)
    cell = ("oracle", "epsilon", "variance")
    return xr.Dataset(
        {
            "regret": ((*cell, "permutation", "t"), regret),
            "gain": ((*cell, "permutation", "t"), gain),
            "error": (cell, share.mean(axis=-1)),
            "error_mcse": (cell, spread / np.sqrt(asked.n_permutations)),
        },
        coords={
            "oracle": list(oracles),
            "epsilon": list(asked.epsilons),
            "variance": list(asked.variances),
            "t": np.arange(1, n + 1),
        },
    )


def _as_rows(rows: list[dict[str, Any]], dim: str) -> "xr.Dataset":
    import xarray as xr

    names = list(rows[0]) if rows else []
    return xr.Dataset(
        {name: (dim, np.array([row[name] for row in rows])) for name in names}, coords={dim: np.arange(len(rows))}
    )


def _numbers(values: Sequence[float], *, name: str, least: float) -> tuple[float, ...]:
    found = tuple(float(value) for value in values if is_number(value) and value >= least)
    if not found or len(found) != len(values):
        raise RcbError(f"{name} must be numbers of at least {least:g}, one or more, got {list(values)}.")
    return tuple(sorted(set(found)))
