"""``report``: everything that a page shows, computed once and kept together."""

from dataclasses import replace
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
from rcb_bayes.running.need import n_sampled, need_and_greedy
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
    check_audit_size(market, n_worlds=sizes.audit_worlds, n_users=sizes.audit_users)
    check_stage_size(market, n_per_arm=_MOST_CHECKED, n_worlds=sizes.check_worlds)
    check_run_size(horizon=horizon, n_worlds=sizes.run_worlds, every=_every(horizon, sizes))
    check_plan_size(market, n_per_arm=1, n_worlds=sizes.knowledge_worlds)
    if plan is not None:
        check_plan(market, plan)
    if runs is not None:
        _check_runs(market, runs)
    asked: dict[str, Any] = {
        "epsilon": epsilon,
        "notion": notion,
        "personalised": personalised,
        "n_per_arm": n_per_arm,
        "guard": guard,
        "knows": knows,
        "exploring": exploring,
        "horizon": horizon,
        "sizes": sizes,
        "seed": seed,
    }
    foresee(
        market,
        lambda other: _study(other, _for_any_market(plan), runs, workers=None, **asked),
        more=n_sampled(market, horizon=horizon, most_worlds=sizes.check_worlds),
        workers=workers,
        seed=seed,
    )
    with told(), progress(_STEPS, description="Report", by_steps=True):
        return _study(market, plan, runs, workers=workers, **asked)


def _for_any_market(plan: Plan | None) -> Plan | None:
    """The plan, for a rehearsal in a market that is not the one it was made for."""
    if plan is None:
        return None
    history = {part: value for part, value in plan.made_of.items() if part == "history"}
    return replace(plan, provenance=replace(plan.provenance, made_of=history))


def _study(
    market: Market,
    plan: Plan | None,
    runs: "xr.Dataset | None",
    *,
    epsilon: float,
    notion: str,
    personalised: bool,
    n_per_arm: int,
    guard: bool,
    knows: str,
    exploring: Exploring | None,
    horizon: int,
    sizes: ReportSizes,
    workers: Workers,
    seed: int,
) -> Report:
    """Everything that a page shows."""
    begin_step("planning")
    made: dict[str, Any] = {"notion": notion, "personalised": personalised, "n_per_arm": n_per_arm, "seed": seed}
    if plan is None:
        plan = calibrate(
            market,
            epsilon=epsilon,
            guard=guard,
            n_worlds=sizes.plan_worlds,
            audit_worlds=sizes.audit_worlds,
            knows=knows,
            exploring=exploring,
            horizon=horizon,
            workers=workers,
            **made,
        )
    checks, gaps = _belief(market, plan, n_worlds=sizes.check_worlds, workers=workers, seed=seed)
    users = users_to_draw(market.covariates, sizes.map_users, seed=seed)
    options = Exploiting(guard=guard)
    found, why_not = _audited(market, plan, options, horizon=horizon, sizes=sizes, workers=workers, seed=seed)
    shown = horizon if runs is None else int(runs["t"].values[-1])
    if runs is None:
        runs = _runs(market, plan, options, horizon=horizon, sizes=sizes, workers=workers, seed=seed)
    begin_step("would greedy do?")
    need, greedy = need_and_greedy(
        market, plan=plan, runs=runs, horizon=shown, epsilon=plan.epsilon, most_worlds=sizes.check_worlds, seed=seed
    )
    sweep = plans_over_epsilon(market, plan, horizon=horizon, sizes=sizes, workers=workers)
    return Report(
        market=market,
        need=need,
        checks=checks,
        gaps=gaps,
        plan=plan,
        theorem=_theorem(market, plan, horizon=horizon),
        sweep=sweep,
        by_size=_by_size(market, plan, sweep, sizes=sizes, workers=workers),
        knowledge=_knowledge(market, plan, horizon=horizon, sizes=sizes, workers=workers),
        radius=_radius(market, plan, found, options, horizon=horizon, sizes=sizes, seed=seed),
        users=users,
        yardsticks=yardsticks(market, greedy, horizon=shown, seed=seed),
        payments=_payments(market, plan, horizon=shown, sizes=sizes, workers=workers, seed=seed),
        runs=runs,
        audit=found,
        not_audited=why_not,
        horizon=shown,
        guard=guard,
        sizes=sizes,
        seed=seed,
    )


def _check_runs(market: Market, runs: "xr.Dataset") -> None:
    missing = [name for name in ("regret", "gain", "n_samples", "cold_start_length") if name not in runs]
    if missing or "world" not in runs.dims:
        raise RcbError(f"These are no runs (missing: {', '.join(missing) or 'world'}). Pass the result of simulate().")
    arms = tuple(str(arm) for arm in runs["arm"].values)
    if arms != market.arms:
        raise RcbError(f"The runs are of arms {', '.join(arms)}, the market has {', '.join(market.arms)}.")


def _belief(market: Market, plan: Plan, *, n_worlds: int, workers: Workers, seed: int) -> tuple[Checks, "xr.Dataset"]:
    """The assumptions, and the gaps once the usual first arm is saturated, from the same simulations."""
    begin_step("checking the assumptions")
    n = min(plan.agenda.most, _MOST_CHECKED)
    stages = Stages(market, n_per_arm=n, n_worlds=n_worlds, workers=workers, seed=seed)
    checks = check_stages(stages)
    sets = saturated_sets(market, n_per_arm=n, seed=seed)
    first = next(arms for arms in sets if len(arms) == 1)
    return checks, gaps_at(stages, [market.arms[k] for k in first])


def _audited(
    market: Market, plan: Plan, options: Exploiting, *, horizon: int, sizes: ReportSizes, workers: Workers, seed: int
) -> tuple[Audit | None, str]:
    if not plan.feasible:
        return None, "The plan is not feasible."
    begin_step("auditing the plan")
    try:
        found = audit(
            market,
            plan,
            horizon=horizon,
            n_worlds=sizes.audit_worlds,
            n_users=sizes.audit_users,
            options=options,
            workers=workers,
            seed=seed + 1,  # not the worlds that the plan was made from
        )
    except WorkersError:
        raise
    except RcbError as error:
        return None, str(error)
    return found, ""


def _every(horizon: int, sizes: ReportSizes) -> int:
    """Rounds that are summed up, so that what is kept stays bounded."""
    return max(1, -(-horizon * sizes.run_worlds // _MOST_ROUNDS))


def _runs(
    market: Market,
    plan: Plan,
    options: Exploiting,
    *,
    horizon: int,
    sizes: ReportSizes,
    workers: Workers,
    seed: int,
) -> "xr.Dataset | None":
    if not plan.feasible:
        return None
    begin_step("running the plan")
    oracle = PosteriorOracle(market.platform_prior, market.noise, read="engine")  # summaries of many worlds take time
    worlds: dict[str, Any] = {
        "horizon": horizon,
        "n_worlds": sizes.run_worlds,
        "every": _every(horizon, sizes),
        "seed": seed,
    }
    return simulate(market, plan, oracle=oracle, options=options, workers=workers, **worlds)


def _radius(
    market: Market, plan: Plan, found: Audit | None, options: Exploiting, *, horizon: int, sizes: ReportSizes, seed: int
) -> "xr.Dataset | None":
    """How much more users may expect of their favourite arm before the plan fails, where it does not as it is."""
    if not sizes.radius_worlds or found is None or found.verdict == "fail" or not market.noise.is_gaussian:
        return None
    begin_step("how wrong the plan may be")
    name = f"shift:{favourite(market)}"
    upwards = [amount for amount in direction_of(name, market, plan).amounts if amount >= 0]
    return sensitivity(
        market,
        plan,
        along=name,
        amounts={name: upwards},
        horizon=horizon,
        n_worlds=sizes.radius_worlds,
        n_users=sizes.audit_users,
        n_runs=0,
        options=options,
        seed=seed + 1,
    )


def _theorem(market: Market, plan: Plan, *, horizon: int) -> Plan | None:
    if plan.kind == "theorem":
        return plan
    try:
        return theorem_plan(market, epsilon=plan.epsilon, tau=plan.tau, rho=plan.rho, horizon=horizon, seed=plan.seed)
    except RcbError:
        return None


def _knowledge(
    market: Market, plan: Plan, *, horizon: int, sizes: ReportSizes, workers: Workers
) -> "xr.Dataset | None":
    """The plan's cold start for users who know more or less of the clock, where there are such plans."""
    if not sizes.knowledge_worlds or plan.kind != "sampled" or not plan.personalised or not market.noise.is_gaussian:
        return None
    begin_step("plans for users who know more or less")
    return price_of_knowledge(
        market,
        epsilon=plan.epsilon,
        notion=plan.notion,
        n_per_arm=plan.agenda,
        n_worlds=sizes.knowledge_worlds,
        audit_worlds=plan.audit_worlds or sizes.audit_worlds,
        horizon=horizon,
        workers=workers,
        seed=plan.seed,
    )


def _payments(
    market: Market, plan: Plan, *, horizon: int, sizes: ReportSizes, workers: Workers, seed: int
) -> "xr.Dataset | None":
    """What paying users would cost instead, where that is asked for."""
    if not sizes.payment_worlds:
        return None
    begin_step("what payments would cost")
    asked: dict[str, Any] = {"horizon": horizon, "n_worlds": sizes.payment_worlds}
    return payments(market, epsilon=plan.epsilon, workers=workers, seed=seed, **asked)


def _by_size(
    market: Market, plan: Plan, sweep: tuple[Plan, ...], *, sizes: ReportSizes, workers: Workers
) -> "xr.Dataset | None":
    """The cold start with fewer and with more samples, where there are such plans."""
    if plan.kind == "theorem":
        return None
    begin_step("plans with other numbers of samples")
    return lengths_by_size(
        market, plan, sweep, multiples=sizes.n_multiples, workers=workers, **worlds_behind(plan, sizes)
    )
