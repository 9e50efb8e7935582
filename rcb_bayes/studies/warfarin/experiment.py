"""The warfarin experiment: plans, replays, audits, over epsilon, prior variance, oracle and policy."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import open_store
from rcb_bayes.market import Market
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.theorem import theorem_plan
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.schema import DEFAULT_SEED, as_count, is_number
from rcb_bayes.studies.warfarin.beliefs import PAPER_SIGMA, REWARD_SIGMA, physician_market
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.contenders import (
    Contender,
    bandit_contenders,
    given_contenders,
    heeding_rcb,
    lasso_contender,
    logit_contender,
    paper_contenders,
    practical_contenders,
    rcb_policy,
)
from rcb_bayes.studies.warfarin.joining import ORACLES, Part, Settings, joined
from rcb_bayes.studies.warfarin.judging import Yardstick, audit_cold_starts, audit_exploitation, audit_heeding
from rcb_bayes.studies.warfarin.metrics import replay_metrics, subgroup_metrics
from rcb_bayes.studies.warfarin.part_files import read_parts, write_parts
from rcb_bayes.studies.warfarin.replay import replay, replay_plans
from rcb_bayes.studies.warfarin.result import WarfarinResult
from rcb_bayes.studies.warfarin.sampled_plans import plan_row, sampled_plans
from rcb_bayes.workers import Workers, run_kept

if TYPE_CHECKING:
    import xarray as xr

EPSILONS = (0.025, 0.035, 0.045)
VARIANCES = (0.4, 0.6, 0.8)
PAPER_TAU = 0.005
WIDE_EPSILON = 0.1
"""A looser budget than the paper's: what the notion ``user`` takes for an error below .345."""

_COLD_WORLDS = 500
_AUDIT_USERS = 100


def run_warfarin(
    cohort: Cohort,
    *,
    epsilons: Sequence[float] = EPSILONS,
    variances: Sequence[float] = VARIANCES,
    sigma: float = REWARD_SIGMA,
    n_permutations: int = 10,
    n_plans: int = 3,
    n_worlds: int = 500,
    audit: bool = True,
    audit_worlds: int = 200,
    baselines: bool = True,
    workers: Workers = None,
    folder: Path | None = None,
    seed: int = DEFAULT_SEED,
) -> WarfarinResult:
    """The experiment on a cohort, real or synthetic.

    Parameters
    ----------
    cohort : Cohort
        The patients.
    epsilons, variances : sequence of float
        The paper's budgets and prior variances; policies other than the grid's are replayed at the first epsilon and
        the last variance.
    sigma : float
        The noise the physician reckons with.
    n_permutations : int
        Orders in which patients arrive.
    n_plans : int
        Plans of each sampled kind, seeds ``seed``, ``seed + 1``, ...; plans differ more than orders do, so that figures
        to be quoted take 8 or more. One plan: errors are over orders alone, and too small.
    n_worlds : int
        Simulated worlds behind each plan.
    audit : bool
        Whether plans are audited, too, all by the same yardstick: the cold start of each, and exploitation by the first
        of a kind.
    audit_worlds : int
        Worlds in which exploitation is audited; the cold start has 500 a stage.
    baselines : bool
        Whether bandits, formulas and other oracles are replayed beside RCB.
    workers : None, int, str, Client or Executor
        Who works on the parts: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    folder : path-like, optional
        Where finished parts are kept: asked for the same in the same folder, they are not computed again.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    WarfarinResult
        With ``runs``, ``figures``, ``groups``, ``grid``, ``plans``, ``audits``.

    Raises
    ------
    RcbError
        No epsilon or variance, values out of range, counts too small; a folder of another run.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> cohort = rcb.studies.synthetic_cohort(300, seed=1)
    >>> result = rcb.studies.run_warfarin(
    ...     cohort,
    ...     epsilons=[0.1],
    ...     variances=[0.8],
    ...     n_permutations=2,
    ...     n_plans=2,
    ...     n_worlds=50,
    ...     audit=False,
    ...     baselines=False,
    ... )
    >>> round(result.figures["error"].sel(policy="physician").item(), 2)
    0.39
    """
    asked = Settings(
        epsilons=_numbers(epsilons, name="epsilons", least=0.0),
        variances=_numbers(variances, name="variances", least=1e-9),
        sigma=float(sigma),
        n_permutations=as_count(n_permutations, name="n_permutations", least=1),
        n_plans=as_count(n_plans, name="n_plans", least=1),
        n_worlds=as_count(n_worlds, name="n_worlds", least=50),
        audit=bool(audit),
        audit_worlds=as_count(audit_worlds, name="audit_worlds", least=50),
        baselines=bool(baselines),
        seed=as_count(seed, name="seed"),
    )
    manifest = {"experiment": "warfarin parts", "cohort": cohort.describe(), **asdict(asked)}
    parts = run_kept(
        open_store(None if folder is None else Path(folder), manifest, resume=None),
        {f"{key}.nc": (key, task) for key, task in _tasks(asked).items()},
        function=partial(_run_part, asked=asked),
        make=partial(_same, cohort),
        save=lambda task, part, path: write_parts(task[0], part, path),
        load=lambda task, path: read_parts(task[0], path),
        workers=workers,
        description="warfarin",
    )
    return joined(cohort, asked, parts)


# --- tasks, each of which can run in a process of its own ------------------------------------------------------------


Task = tuple[Callable[..., Part], tuple[Any, ...]]


def _tasks(asked: Settings) -> dict[str, Task]:
    """What is to be done, by name, longest first: a function of the cohort, the settings and what stands here."""
    first, last = asked.epsilons[0], asked.variances[-1]
    found: dict[str, Task] = {f"user-{e!r}": (_user_part, (e,)) for e in (*asked.epsilons, WIDE_EPSILON)}
    found[f"cell-{first!r}-{last!r}"] = (_cell, (first, last))
    found |= {name: (_contenders_part, (name,)) for name in (["lasso", "logit"] if asked.baselines else [])}
    grid = [(epsilon, variance) for epsilon in asked.epsilons for variance in asked.variances]
    found |= {f"cell-{e!r}-{v!r}": (_cell, (e, v)) for e, v in grid if (e, v) != (first, last)}
    found |= {f"definition-{e!r}": (_definition_part, (e,)) for e in asked.epsilons}
    found |= {name: (_contenders_part, (name,)) for name in ("theorem", "practical", "bandits", "given")}
    return found


def _same(cohort: Cohort) -> Cohort:
    return cohort


def _run_part(cohort: Cohort, task: tuple[str, Task], *, asked: Settings) -> Part:
    function, values = task[1]
    return function(cohort, asked, *values)


def _market(cohort: Cohort, asked: Settings, variance: float | None = None) -> Market:
    return physician_market(cohort, variance=asked.variances[-1] if variance is None else variance, sigma=asked.sigma)


def _cell(cohort: Cohort, asked: Settings, epsilon: float, variance: float) -> Part:
    """One cell of the grid: plans for ``proof``, run with the physician's posterior mean and with the dose oracle."""
    market = _market(cohort, asked, variance)
    plans = sampled_plans(market, asked, epsilon=epsilon, notion="proof")
    found = _run_plans(cohort, asked, market, plans)
    part: Part = {"plans": [plan_row(plans, variance=variance)]}
    part["cells"] = {(oracle, epsilon, variance): _curves(runs) for oracle, runs in found.items()}
    if (epsilon, variance) != (asked.epsilons[0], asked.variances[-1]):
        return part
    named = {_name(plans[0], oracle): runs for oracle, runs in found.items()}
    return part | _figures(cohort, named) | _audited(cohort, asked, market, plans)


def _user_part(cohort: Cohort, asked: Settings, epsilon: float) -> Part:
    """The strongest notion: what it allows, run with either oracle; the tightest and the widest budget are audited."""
    market = _market(cohort, asked)
    plans = sampled_plans(market, asked, epsilon=epsilon, notion="user")
    found = _run_plans(cohort, asked, market, plans)
    part: Part = {"plans": [plan_row(plans, variance=asked.variances[-1])]}
    part |= _figures(cohort, {_name(plans[0], oracle): runs for oracle, runs in found.items()})
    return part | (_audited(cohort, asked, market, plans) if epsilon in (asked.epsilons[0], WIDE_EPSILON) else {})


def _definition_part(cohort: Cohort, asked: Settings, epsilon: float) -> Part:
    plans = sampled_plans(_market(cohort, asked), asked, epsilon=epsilon, notion="definition")
    return {"plans": [plan_row(plans, variance=asked.variances[-1])]}


def _name(plan: Plan, oracle: str = "") -> str:
    return f"RCB, {plan.notion}, epsilon {plan.epsilon:g}" + (f", {oracle}" if oracle else "")


def _makers(market: Market, plan: Plan) -> dict[str, PolicyMaker]:
    return dict(zip(ORACLES, (rcb_policy(market, plan), heeding_rcb(market, plan)), strict=True))


def _run_plans(cohort: Cohort, asked: Settings, market: Market, plans: Sequence[Plan]) -> "dict[str, xr.Dataset]":
    """Replays by oracle, dims (plan, permutation, t); nothing where no plan is feasible."""
    made = [_makers(market, plan) for plan in plans if plan.feasible]
    how = {"market": market, "n_permutations": asked.n_permutations, "seed": asked.seed}
    return {oracle: replay_plans(cohort, [one[oracle] for one in made], **how) for oracle in ORACLES if made}


def _audited(cohort: Cohort, asked: Settings, market: Market, plans: Sequence[Plan]) -> Part:
    """The cold start of every plan, and exploitation by the first of them with either oracle."""
    feasible = [plan for plan in plans if plan.feasible]
    if not (asked.audit and feasible):
        return {}
    yardstick = Yardstick(
        cold_worlds=_COLD_WORLDS,
        n_worlds=asked.audit_worlds,
        n_users=_AUDIT_USERS,
        horizon=len(cohort),
        seed=asked.seed + 10_000,  # worlds of its own, whatever the plans' seeds
    )
    first = feasible[0]
    rows = audit_cold_starts(market, feasible, _name(first), yardstick=yardstick)
    posterior, dose = (_name(first, oracle) for oracle in ORACLES)
    rows += audit_exploitation(market, rcb_policy(market, first), first, posterior, yardstick=yardstick)
    rows += audit_heeding(market, heeding_rcb(market, first), first, dose, yardstick=yardstick)
    return {"audits": rows}


def _contenders_part(cohort: Cohort, asked: Settings, which: str) -> Part:
    epsilon, variance = asked.epsilons[0], asked.variances[-1]
    if which == "given":
        return _replayed(cohort, asked, given_contenders(cohort))
    if which == "logit":
        return _replayed(cohort, asked, [logit_contender(cohort, epsilon=epsilon)])
    market = _market(cohort, asked)
    if which == "theorem":
        return _theorem_part(cohort, asked)
    if which == "lasso":
        return _replayed(cohort, asked, [lasso_contender(market)])
    if which == "bandits":
        return _replayed(cohort, asked, bandit_contenders(market)) if asked.baselines else {}
    found = practical_contenders(market, epsilon=epsilon)
    papers = paper_contenders(cohort, variance=variance, epsilon=epsilon)
    return _replayed(cohort, asked, [*found, *papers] if asked.baselines else found[:3])


def _theorem_part(cohort: Cohort, asked: Settings) -> Part:
    """The theorem's plan at the first epsilon and the last variance."""
    epsilon, variance = asked.epsilons[0], asked.variances[-1]
    market = physician_market(cohort, variance=variance, sigma=PAPER_SIGMA)
    plans = [
        theorem_plan(
            market,
            epsilon=epsilon,
            tau=PAPER_TAU,
            tau_star=PAPER_TAU,
            prior_gap=1.0,
            phi0=phi0,
            horizon=len(cohort),
            n_worlds=200,
        )
        for phi0 in (1.0, market.covariates.phi0)
        if phi0 > 0
    ]
    one = Contender(name="RCB, theorem plan", kind="rcb", policy=rcb_policy(market, plans[0]), market=market)
    return {"plans": [plan_row([plan], variance=variance) for plan in plans]} | _replayed(cohort, asked, [one])


def _replayed(cohort: Cohort, asked: Settings, contenders: Sequence[Contender]) -> Part:
    found: Part = {}
    for one in contenders:
        runs = replay(cohort, one.policy, market=one.market, n_permutations=asked.n_permutations, seed=asked.seed)
        found |= _figures(cohort, {one.name: runs}, kind=one.kind)["policies"]
    return {"policies": found}


def _figures(cohort: Cohort, runs: "dict[str, xr.Dataset]", *, kind: str = "rcb") -> Part:
    """Curves averaged over plans, figures and subgroups of each policy."""
    found: Part = {}
    for name, own in runs.items():
        curves = _curves(own)
        mean = curves.mean("plan") if "plan" in curves.dims else curves
        figures = replay_metrics(own).assign_coords(kind=kind)
        found[name] = (mean.astype("float32"), figures, subgroup_metrics(cohort, own))
    return {"policies": found}


def _curves(runs: "xr.Dataset") -> "xr.Dataset":
    """What is kept of every round."""
    return runs[["regret", "gain"]]


def _numbers(values: Sequence[float], *, name: str, least: float) -> tuple[float, ...]:
    found = tuple(float(value) for value in values if is_number(value) and value >= least)
    if not found or len(found) != len(values):
        raise RcbError(f"{name} must be numbers of at least {least:g}, one or more, got {list(values)}.")
    return tuple(sorted(set(found)))
