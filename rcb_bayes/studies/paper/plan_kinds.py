"""Plans for a market side by side: the theorem's, with a fixed N, and by sampling, uniform and personalised."""

import time
from collections.abc import Callable
from dataclasses import replace

from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.market import Market
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.calibration import guard_anew
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.theorem import theorem_plan
from rcb_bayes.schema import DEFAULT_HORIZON
from rcb_bayes.studies.paper.measures import Run
from rcb_bayes.studies.paper.settings import PRIOR_GAP, RHO, TAU, TAU_STAR, Cell, Effort


def plans_for(market: Market, cell: Cell, *, effort: Effort, seed: int) -> list[Run]:
    """The plans of a cell, each run and audited under every inflation."""
    theorem = timed(theorem_run, market, cell, horizon=effort.horizon(cell))
    assert isinstance(theorem.plan, Plan)
    made = [theorem]
    made += [fixed_run(market, n, theorem.plan.exploration_rate, epsilon=cell.epsilon) for n in cell.fixed]
    for personalised in (False, True):
        made.append(timed(sampled_run, market, cell.epsilon, personalised=personalised, effort=effort, seed=seed))
    return [entry for run in made for entry in _inflated(market, run, cell.inflations)]


def theorem_run(market: Market, cell: Cell, *, horizon: int) -> Run:
    """Theorem 1's plan with the paper's tau and rho; its note says where its cold start outlasts the horizon."""
    plan = theorem_plan(
        market, epsilon=cell.epsilon, tau=TAU, rho=RHO, tau_star=TAU_STAR, prior_gap=PRIOR_GAP, horizon=horizon
    )
    note = "" if plan.feasible else plan.reason
    return Run(name="theorem", kind="theorem", plan=plan, note=note)


def fixed_run(market: Market, n_per_arm: int, rate: float, *, epsilon: float) -> Run:
    """A fixed N with the theorem's rate: what the paper's practical runs most plausibly are."""
    plan = fixed_plan(market, n_per_arm=n_per_arm, exploration_rate=rate, epsilon=epsilon)
    return Run(name=f"fixed, N = {n_per_arm:,}", kind="fixed", plan=plan)


def sampled_run(
    market: Market,
    epsilon: float,
    *,
    personalised: bool,
    effort: Effort,
    seed: int,
    spread: str = "posterior",
    horizon: int = DEFAULT_HORIZON,
) -> Run:
    """A plan by sampling with N = d samples per arm; where ``user`` allows no rate for all, one for ``proof``."""

    def made(notion: str) -> Plan:
        return calibrate(
            market,
            epsilon=epsilon,
            notion=notion,
            personalised=personalised,
            n_per_arm=market.n_features,
            n_worlds=effort.plan_worlds,
            audit_worlds=effort.planned_worlds,
            spread=spread,
            horizon=horizon,
            seed=seed,
        )

    kind = "tuned" if spread == "tuned" else "personalised" if personalised else "uniform"
    name = f"sampled, {kind}"
    plan = made("user")
    if plan.feasible or personalised:
        return Run(name=name, kind=kind, plan=plan, note="" if plan.feasible else plan.reason)
    return Run(name=name, kind=kind, plan=made("proof"), note="No rate for all under user: planned for proof.")


def timed(make: Callable[..., Run], *arguments: object, **options: object) -> Run:
    """A run with the processor time that making its plan took."""
    begun = time.process_time()
    run = make(*arguments, **options)
    return replace(run, seconds=time.process_time() - begun)


def _inflated(market: Market, run: Run, inflations: tuple[str, ...]) -> list[Run]:
    if inflations == ("none",):
        return [run]
    out = []
    for inflation in inflations:
        options = Exploiting(inflation=inflation)
        plan = run.plan
        if isinstance(plan, Plan) and plan.has_guard and inflation != "none":
            plan = guard_anew(market, plan, options=options)
        out.append(replace(run, name=f"{run.name}, {inflation}", plan=plan, options=options))
    return out
