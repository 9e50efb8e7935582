"""``report``: everything that a page shows, computed once and kept together."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rcb_bayes.auditing import Audit, audit
from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.auditing.directions import direction_of, favourite
from rcb_bayes.auditing.varying import sensitivity
from rcb_bayes.errors import RcbError, WorkersError
from rcb_bayes.gaps.assumptions import check_stages
from rcb_bayes.gaps.checks import Checks
from rcb_bayes.gaps.estimation import gaps_at
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import check_audit_size, check_plan_size, check_run_size, check_stage_size
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.foreseeing import foresee, told
from rcb_bayes.mechanism.length import saturated_sets
from rcb_bayes.planning.checks import check_plan
from rcb_bayes.planning.exploring import Exploring
from rcb_bayes.planning.knowledge_price import price_of_knowledge
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.theorem import theorem_plan
from rcb_bayes.reporting.paying import payments
from rcb_bayes.reporting.result import Report, ReportSizes
from rcb_bayes.reporting.sized import lengths_by_size
from rcb_bayes.reporting.swept import plans_over_epsilon, worlds_behind
from rcb_bayes.reporting.yardsticks import yardsticks
from rcb_bayes.running.need import n_runs, n_sampled, need_and_greedy
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.simulation import simulate
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_count
from rcb_bayes.telling.progress import begin_step, progress
from rcb_bayes.users.directions import users_to_draw
from rcb_bayes.workers import Workers, check_workers

if TYPE_CHECKING:
    import xarray as xr

_MOST_ROUNDS = 2_000_000  # of all worlds, kept one by one
_MOST_CHECKED = 1000  # samples of each arm behind the assumptions; a theorem's N may be millions
_STEPS = 10
_SMALL = (0.125, 0.25, 0.5)  # of the least amount that is usual: a plan that just passes allows little


def report(
    market: Market,
    plan: Plan | None = None,
    *,
    runs: "xr.Dataset | None" = None,
    epsilon: float = 0.05,
    notion: str = "user",
    personalised: bool = True,
    n_per_arm: int = 50,
    guard: bool = True,
    knows: str = "auto",
    exploring: Exploring | None = None,
    horizon: int = DEFAULT_HORIZON,
    sizes: ReportSizes | None = None,
    workers: Workers = None,
    seed: int = DEFAULT_SEED,
) -> Report:
    """Check a belief, plan for it, run and audit the plan, and keep it all for one page.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan, optional
        A plan to report; calibrated with ``epsilon``, ``notion``, ``personalised``, ``n_per_arm`` and ``knows`` unless
        given.
    runs : xarray.Dataset, optional
        Of that plan, by ``simulate``; run here unless given.
    epsilon : float
        What users put up with.
    notion : str
        "user", "proof" or "definition".
    personalised : bool
        A rate for each user instead of one for all.
    n_per_arm : int
        N, samples of every arm.
    guard : bool
        Whether off-best recommendations of the exploitation stage are cut where users would not follow.
    knows : str
        What users know of the clock; see ``calibrate``. Plans at other values of epsilon and the audit are for users
        who know what the plan says.
    exploring : Exploring, optional
        Which of many arms are explored, and in which order; see ``calibrate``.
    horizon : int
        T, of the runs and of the audit.
    sizes : ReportSizes, optional
        How much is simulated.
    workers : None, int, str, Client or Executor
        Who simulates checks, runs and plans at other values of epsilon: this process, so many processes, a Dask cluster
        by its scheduler's address or its client, an executor. The answer is the same.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Report
        With ``save(path)``. A plan that is not feasible is reported as such, without runs and audit.

    Raises
    ------
    RcbError
        A plan or runs for another market, and whatever ``calibrate`` refuses.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> few = {"plan_worlds": 300, "audit_worlds": 300, "run_worlds": 2, "knowledge_worlds": 0, "radius_worlds": 0}
    >>> sizes = rcb.ReportSizes(**few, epsilons=(0.2,))
    >>> page = rcb.report(market, epsilon=0.1, n_per_arm=10, horizon=100, sizes=sizes)
    >>> page.verdict
    'pass'
    >>> page.save("report.html")
    """
    sizes = sizes or ReportSizes()
    check_workers(workers)
    horizon, seed = as_count(horizon, name="horizon", least=1), as_count(seed, name="seed")
    run_worlds = sizes.run_worlds or n_runs(market, horizon=horizon, seed=seed)
    sizes = replace(sizes, run_worlds=run_worlds)
    check_audit_size(market, n_worlds=sizes.audit_worlds, n_users=sizes.audit_users)
    check_stage_size(market, n_per_arm=_MOST_CHECKED, n_worlds=sizes.check_worlds)
    check_run_size(horizon=horizon, n_worlds=run_worlds, every=_every(horizon, run_worlds))
    check_plan_size(market, n_per_arm=1, n_worlds=sizes.knowledge_worlds or 0)
    if plan is not None:
        check_plan(market, plan)
    if runs is not None:
        _check_runs(market, runs)
    made: dict[str, Any] = {"epsilon": epsilon, "notion": notion, "personalised": personalised, "knows": knows}
    made |= {"n_per_arm": n_per_arm, "guard": guard, "exploring": exploring, "horizon": horizon, "seed": seed}

    def study(own: Market, own_plan: Plan | None, workers: Workers) -> Report:
        """Everything that a page shows."""
        begin_step("planning")
        if own_plan is None:
            worlds = {"n_worlds": sizes.plan_worlds, "audit_worlds": sizes.audit_worlds}
            own_plan = calibrate(own, workers=workers, **worlds, **made)
        return _studied(_Study(own, own_plan, horizon, sizes, Exploiting(guard=guard), workers, seed), runs)

    foresee(
        market,
        lambda other: study(other, _for_any_market(plan), None),
        more=n_sampled(market, horizon=horizon, most_worlds=sizes.check_worlds, n_runs=run_worlds),
        workers=workers,
        seed=seed,
    )
    with told(), progress(_STEPS, description="Report", by_steps=True):
        return study(market, plan, workers)


def _for_any_market(plan: Plan | None) -> Plan | None:
    """The plan, for a rehearsal in a market that is not the one it was made for."""
    if plan is None:
        return None
    history = {part: value for part, value in plan.made_of.items() if part == "history"}
    return replace(plan, provenance=replace(plan.provenance, made_of=history))


@dataclass(frozen=True, slots=True)
class _Study:
    """What every part of a page is computed from."""

    market: Market
    plan: Plan
    horizon: int
    sizes: ReportSizes
    options: Exploiting
    workers: Workers
    seed: int


def _studied(study: _Study, runs: "xr.Dataset | None") -> Report:
    market, plan, sizes, seed = study.market, study.plan, study.sizes, study.seed
    checks, gaps = _belief(study)
    found, why_not = _audited(study)
    shown = study.horizon if runs is None else int(runs["t"].values[-1])
    runs = _runs(study) if runs is None else runs
    begin_step("would greedy do?")
    need, beside = need_and_greedy(
        market, plan=plan, runs=runs, horizon=shown, epsilon=plan.epsilon, most_worlds=sizes.check_worlds, seed=seed
    )
    sweep = plans_over_epsilon(market, plan, horizon=study.horizon, sizes=sizes, workers=study.workers)
    return Report(
        market=market,
        need=need,
        checks=checks,
        gaps=gaps,
        plan=plan,
        theorem=_theorem(study),
        sweep=sweep,
        by_size=_by_size(study, sweep),
        knowledge=_knowledge(study),
        radius=_radius(study, found),
        users=users_to_draw(market.covariates, sizes.map_users, seed=seed),
        yardsticks=yardsticks(market, beside, horizon=shown, seed=seed),
        payments=_payments(study, shown),
        runs=runs,
        audit=found,
        not_audited=why_not,
        horizon=shown,
        guard=study.options.guard,
        sizes=sizes,
        seed=seed,
    )


def _check_runs(market: Market, runs: "xr.Dataset") -> None:
    needed = ("regret", "gain", "stage", "n_samples", "cold_start_length")
    missing = [name for name in needed if name not in runs] + ([] if "seed" in runs.attrs else ["the seed"])
    if missing or "world" not in runs.dims:
        raise RcbError(f"These are no runs (missing: {', '.join(missing) or 'world'}). Pass the result of simulate().")
    arms = tuple(str(arm) for arm in runs["arm"].values)
    if arms != market.arms:
        raise RcbError(f"The runs are of arms {', '.join(arms)}, the market has {', '.join(market.arms)}.")


def _belief(study: _Study) -> tuple[Checks, "xr.Dataset"]:
    """The assumptions, and the gaps once the usual first arm is saturated, from the same simulations."""
    begin_step("checking the assumptions")
    market, seed = study.market, study.seed
    n = min(study.plan.agenda.most, _MOST_CHECKED)
    stages = Stages(market, n_per_arm=n, n_worlds=study.sizes.check_worlds, workers=study.workers, seed=seed)
    checks = check_stages(stages)
    sets = saturated_sets(market, n_per_arm=n, seed=seed)
    first = next(arms for arms in sets if len(arms) == 1)
    return checks, gaps_at(stages, [market.arms[k] for k in first])


def _audited(study: _Study) -> tuple[Audit | None, str]:
    if not study.plan.feasible:
        return None, "The plan is not feasible."
    begin_step("auditing the plan")
    try:
        found = audit(
            study.market,
            study.plan,
            horizon=study.horizon,
            n_worlds=study.sizes.audit_worlds,
            n_users=study.sizes.audit_users,
            options=study.options,
            workers=study.workers,
            seed=study.seed + 1,  # not the worlds that the plan was made from
        )
    except WorkersError:
        raise
    except RcbError as error:
        return None, str(error)
    return found, ""


def _every(horizon: int, n_worlds: int) -> int:
    """Rounds that are summed up, so that what is kept stays bounded."""
    return max(1, -(-horizon * n_worlds // _MOST_ROUNDS))


def _runs(study: _Study) -> "xr.Dataset | None":
    if not study.plan.feasible:
        return None
    n_worlds = study.sizes.run_worlds
    assert n_worlds is not None  # chosen before
    begin_step("running the plan")
    market = study.market
    return simulate(
        market,
        study.plan,
        oracle=PosteriorOracle(market.platform_prior, market.noise, read="engine"),  # summaries of many take time
        options=study.options,
        workers=study.workers,
        horizon=study.horizon,
        n_worlds=n_worlds,
        every=_every(study.horizon, n_worlds),
        seed=study.seed,
    )


def _radius(study: _Study, found: Audit | None) -> "xr.Dataset | None":
    """How much more users may expect of their favourite arm before the plan fails, where it passes as it is."""
    market, plan, sizes = study.market, study.plan, study.sizes
    if not sizes.radius_worlds or found is None or found.verdict != "pass" or not market.noise.is_gaussian:
        return None
    begin_step("how wrong the plan may be")
    name = f"shift:{favourite(market)}"
    upwards = [amount for amount in direction_of(name, market, plan).amounts if amount >= 0]
    least = min((amount for amount in upwards if amount > 0), default=0.0)
    amounts = sorted({*upwards, *(float(f"{part * least:.2g}") for part in _SMALL)})
    return sensitivity(
        market,
        plan,
        along=name,
        amounts={name: amounts},
        horizon=study.horizon,
        n_worlds=sizes.radius_worlds,
        n_users=sizes.audit_users,
        n_runs=0,
        options=study.options,
        seed=study.seed + 1,
    )


def _theorem(study: _Study) -> Plan | None:
    """Theorem 1's plan with the tau and rho found; the error of its length has theirs, which enter by their product.

    Tau is where tau rho is largest, so that the product's error is that of rho at it, to first order.
    """
    plan = study.plan
    if plan.kind == "theorem":
        return plan
    asked = {"epsilon": plan.epsilon, "tau": plan.tau, "horizon": study.horizon, "seed": plan.seed}
    try:
        found = theorem_plan(study.market, rho=plan.rho, **asked)
        off = theorem_plan(study.market, rho=max(plan.rho - plan.rho_mcse, 0.0), **asked)
    except RcbError:
        return None
    length = found.course.expected_cold_start
    error = math.hypot(found.course.expected_cold_start_mcse, off.course.expected_cold_start - length)
    return replace(found, course=replace(found.course, expected_cold_start_mcse=error))


def _knowledge(study: _Study) -> "xr.Dataset | None":
    """The plan's cold start for users who know more or less of the clock, where there are such plans."""
    plan, sizes = study.plan, study.sizes
    are_such = plan.kind == "sampled" and plan.personalised and study.market.noise.is_gaussian
    if sizes.knowledge_worlds == 0 or not are_such:
        return None
    begin_step("plans for users who know more or less")
    return price_of_knowledge(
        study.market,
        epsilon=plan.epsilon,
        notion=plan.notion,
        n_per_arm=plan.agenda,
        n_worlds=sizes.knowledge_worlds or plan.n_worlds,
        audit_worlds=plan.audit_worlds or sizes.audit_worlds,
        horizon=study.horizon,
        workers=study.workers,
        seed=plan.seed,
    )


def _payments(study: _Study, horizon: int) -> "xr.Dataset | None":
    """What paying users would cost instead, over so many rounds, where that is asked for."""
    n_worlds = study.sizes.payment_worlds
    if not n_worlds:
        return None
    begin_step("what payments would cost")
    asked: dict[str, Any] = {"horizon": horizon, "n_worlds": n_worlds, "workers": study.workers}
    return payments(study.market, epsilon=study.plan.epsilon, seed=study.seed, **asked)


def _by_size(study: _Study, sweep: tuple[Plan, ...]) -> "xr.Dataset | None":
    """The cold start with fewer and with more samples, where there are such plans."""
    plan, sizes = study.plan, study.sizes
    if plan.kind == "theorem":
        return None
    begin_step("plans with other numbers of samples")
    worlds = worlds_behind(plan, sizes)
    return lengths_by_size(study.market, plan, sweep, multiples=sizes.n_multiples, workers=study.workers, **worlds)
