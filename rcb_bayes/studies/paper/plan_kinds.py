"""Plans for a market side by side: the theorem's with constants given or measured, with a fixed N, and by sampling."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.calibration import guard_anew
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.theorem import theorem_plan
from rcb_bayes.schema import DEFAULT_HORIZON
from rcb_bayes.studies.paper.measures import Run
from rcb_bayes.studies.paper.settings import PRIOR_GAP, RHO, TAU, TAU_STAR, Cell, Effort

_GIVEN = {"tau": TAU, "rho": RHO, "tau_star": TAU_STAR, "prior_gap": PRIOR_GAP}
_MEASURED: dict[str, float | None] = dict.fromkeys(_GIVEN)


def plans_for(market: Market, cell: Cell, *, effort: Effort, seed: int) -> list[Run]:
    """The plans of a cell, each run and audited under every inflation; a personalised one, which is slow, under one."""
    horizon = effort.horizon(cell)
    theorem = timed(theorem_run, market, cell, horizon=horizon)
    assert isinstance(theorem.plan, Plan)
    made: dict[str, Callable[[], list[Run]]] = {
        "theorem": lambda: [theorem],
        "measured": lambda: [timed(measured_run, market, cell, horizon=horizon)],
        "fixed": lambda: [fixed_run(market, n, rate, epsilon=cell.epsilon) for n in cell.fixed],
        "uniform": lambda: [sampled(personalised=False)],
        "personalised": lambda: [sampled(personalised=True)],
    }
    rate = theorem.plan.exploration_rate
    sampled = partial(timed, sampled_run, market, cell.epsilon, effort=effort, seed=seed)
    schedules = dict.fromkeys(cell.kinds, cell.inflations) | {"personalised": cell.inflations[:1]}
    return [entry for kind in cell.kinds for run in made[kind]() for entry in _inflated(market, run, schedules[kind])]


def theorem_run(market: Market, cell: Cell, *, horizon: int) -> Run:
    """Theorem 1's plan with the paper's tau and rho; its note says where its cold start outlasts the horizon."""
    return _by_theorem("theorem", market, cell, horizon=horizon, **_GIVEN)


def measured_run(market: Market, cell: Cell, *, horizon: int) -> Run:
    """Theorem 1's plan with the constants that the belief has; its note says what they are."""
    try:
        return _by_theorem("measured", market, cell, horizon=horizon, **_MEASURED)
    except RcbError as error:  # constants of which there is no plan
        return Run(name="theorem, measured", kind="measured", plan=None, note=str(error))


def _by_theorem(kind: str, market: Market, cell: Cell, *, horizon: int, **constants: Any) -> Run:
    plan = theorem_plan(market, epsilon=cell.epsilon, horizon=horizon, **constants)
    notes = (*plan.notes, *(() if plan.feasible else (plan.reason,)))
    name = "theorem" if kind == "theorem" else "theorem, measured"
    return Run(name=name, kind=kind, plan=plan, note=" ".join(notes))


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
