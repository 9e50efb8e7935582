"""Plans at other values of epsilon: what the page can be turned to."""

from dataclasses import replace
from functools import partial
from typing import Any

from rcb_bayes.market import Market
from rcb_bayes.mechanism.simulator import Simulator
from rcb_bayes.planning.calibration import planned
from rcb_bayes.planning.goal import PlanRequest, as_request, check_request_size
from rcb_bayes.planning.plan import Plan
from rcb_bayes.reporting.result import ReportSizes
from rcb_bayes.telling.progress import begin_step
from rcb_bayes.workers import Workers, run_tasks

_MULTIPLES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the plan's epsilon
_AROUND = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 6.0)  # of the epsilon that opens the stage at which a plan ends
_USUAL_EPSILON = 0.05


def plans_over_epsilon(
    market: Market, plan: Plan, *, horizon: int, sizes: ReportSizes, workers: Workers
) -> tuple[Plan, ...]:
    """Plans at other values of epsilon, made as the plan was, in one simulation.

    They have no guards, which no figure here depends on, and as many cold starts and users behind them as the plan:
    with fewer users a cold start could seem to grow with epsilon. Posterior means are computed once wherever the law of
    the data is the same for every epsilon.
    """
    if plan.kind == "theorem":
        return (plan,)
    begin_step("plans at other values of epsilon")
    grid = grid_of(plan) if sizes.epsilons is None else sorted({*sizes.epsilons, plan.epsilon})
    others = [epsilon for epsilon in grid if epsilon != plan.epsilon]
    requests = [
        as_request(
            market,
            epsilon=epsilon,
            notion=plan.notion,
            personalised=plan.personalised,
            knows=plan.knows,
            n_per_arm=plan.agenda,
            **worlds_behind(plan, sizes),
            engine="auto",
            seed=plan.seed,
        )
        for epsilon in others
    ]
    for request in requests:
        check_request_size(market, request)
    function = partial(_planned, horizon=horizon)
    make = partial(_simulator, market, requests)
    done = dict(run_tasks(function, requests, make=make, workers=workers, description="plans"))
    plans = {epsilon: done[k] for k, epsilon in enumerate(others)}
    plans[plan.epsilon] = replace(plan, exploitation=replace(plan.exploitation, guards=()))
    return tuple(plans[epsilon] for epsilon in grid)


def worlds_behind(plan: Plan, sizes: ReportSizes) -> dict[str, int]:
    """Worlds behind plans that are made as this one was."""
    return {
        "n_worlds": sizes.sweep_worlds or plan.n_worlds or sizes.plan_worlds,
        "audit_worlds": plan.audit_worlds or sizes.audit_worlds,
    }


def _simulator(market: Market, requests: list[PlanRequest]) -> Simulator | None:
    """What plans of a sweep share: one simulation."""
    return Simulator(market, engine="auto", seed=requests[0].seed, remember=True) if requests else None


def _planned(simulator: Simulator | None, request: PlanRequest, *, horizon: int) -> Plan:
    assert simulator is not None  # there is a request
    made: dict[str, Any] = {"guard": False, "spread": "posterior", "horizon": horizon}
    return planned(simulator.market, request, simulator=simulator.again(), **made)


def grid_of(plan: Plan) -> list[float]:
    """Values of epsilon around the plan's own, and around the one that opens the stage at which it ends."""
    values = [m * (plan.epsilon or _USUAL_EPSILON) for m in _MULTIPLES]
    if plan.nearest_epsilon is not None:
        values = [0.0, *(m * plan.nearest_epsilon for m in _AROUND)]
    return sorted({plan.epsilon, *(float(f"{value:.3g}") for value in values)})
