r"""The sampled plan, with N given or chosen; what an audit says of it is told by whoever can audit.

Rates, guards and spreads come from simulations of the mechanism under the users' belief. So does N, unless it is given:
with a guard any N would pass an audit, and the smallest is often ruinous (few samples make few organic rounds that
exploration can hide among), so that N is the one with the least expected regret over the horizon,

.. math:: R(N) = R_{\text{cold start}}(N) + R_{\text{exploitation}}(N),

among those whose plan passes an audit in fresh worlds. Regrets are looked at roughly first: in few worlds, on a small
panel, in one simulation for every N, so that users, engines, coefficients and noise are the same for all of them and
differences between two N are known better than either regret. Only the best of them is then planned in full.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import Store, part_file, part_format, read_part, write_part
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import as_agenda
from rcb_bayes.mechanism.exploiting import Exploiting, as_words, spread_multiple
from rcb_bayes.mechanism.handing_out import HandOut
from rcb_bayes.mechanism.knowledge import LEVEL, MECHANISM, STAGE, as_knowledge
from rcb_bayes.mechanism.margins import Verdict
from rcb_bayes.mechanism.simulator import Simulator
from rcb_bayes.mechanism.streams import Stream, derived_seed
from rcb_bayes.planning.checks import check_plan
from rcb_bayes.planning.cold_start_plan import as_plan
from rcb_bayes.planning.exploitation import PlannedExploitation
from rcb_bayes.planning.goal import PlanRequest, as_knows
from rcb_bayes.planning.guard_rules import (
    MAX_WORLDS,
    GuardSetting,
    compute_guards,
    exploitation_regret,
    later_worlds,
    tuned_multiple,
)
from rcb_bayes.planning.parts import SampleChoice
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.planned_walk import PlannedWalk, plan_walk
from rcb_bayes.planning.pooled_rates import pooled_walk, shorter
from rcb_bayes.planning.stages import LaterWorlds
from rcb_bayes.schema import as_count
from rcb_bayes.workers import Workers, run_kept

GRID = (2, 5, 10, 20, 50, 100, 200)
_SEARCH_WORLDS = 400
_FEW_USERS = 512
_FEW_PATHS = 4000
_CLEARLY = 3.0  # errors
_LARGEST_SHARE = 0.25  # of the horizon, for K N
_AUDIT_WORLDS = 1000
_TRIALS, _STEP = 12, 1.1  # epsilons that are tried, and by how much they grow at least
_ONLY_THE_BEST = (
    "Exploitation recommends the best arm only. More cannot be promised, since epochs of 0/1 rewards are not simulated "
    "when a plan is made. Exploiting(guard=False) runs the paper's kernel, for an audit to judge."
)


class Judge(Protocol):
    """The verdict of an audit of a plan, by its own notion, in worlds of a seed of their own."""

    def __call__(
        self,
        market: Market,
        plan: Plan,
        *,
        horizon: int,
        n_worlds: int,
        options: Exploiting,
        seed: int,
        workers: Workers = None,
        store: Store | None = None,
    ) -> Verdict:
        """Pass, fail or inconclusive."""
        ...


def planned(
    market: Market,
    request: PlanRequest,
    *,
    guard: bool,
    spread: str,
    horizon: int,
    simulator: Simulator | None = None,
    hand_out: HandOut | None = None,
) -> Plan:
    """The plan with a given N; in a simulation of its own, or in one that several plans share.

    ``hand_out`` says who fits posteriors that take long, where the simulation is the plan's own.
    """
    if hand_out is not None and simulator is None:
        simulator = Simulator(market, engine=request.engine, seed=request.seed, hand_out=hand_out)
    walked = _walked(market, request, guard=guard, horizon=horizon, simulator=simulator)
    plan = _made_for(as_plan(walked), request, horizon)
    if not plan.feasible:
        return plan
    setting = _guard_setting(walked)
    multiple = tuned_multiple(setting, guard=guard, horizon=horizon)[0] if spread == "tuned" else 1.0
    plan = replace(plan, exploitation=PlannedExploitation(spread_multiple=multiple))
    return _guarded(setting, plan, Exploiting(spread_multiple=multiple)) if guard else plan


def with_tried_epsilon(market: Market, request: PlanRequest, plan: Plan, *, guard: bool, horizon: int) -> Plan:
    """A plan that is not feasible, told the epsilon at which one is: rounded up, and planned for before it is named.

    What a stage's worlds ask for is where to begin: at another epsilon others are sampled, and later stages are
    reached.
    """
    found = plan.feasibility
    if found.feasible or found.nearest_epsilon is None:
        return plan
    nearest, told = _up(found.nearest_epsilon), "By the same worlds that stage asks for epsilon {}."
    if not plan.provenance.engine.startswith("nuts"):  # else a trial takes hours
        for _ in range(_TRIALS):
            walked = _walked(market, replace(request, epsilon=nearest), guard=guard, horizon=horizon)
            tried = as_plan(walked, roughly=True)
            if tried.feasible:
                told = f"With {request.n_worlds:,} worlds a plan is found from about epsilon {{}} on."
                break
            nearest = max(_up(tried.nearest_epsilon or 0.0), _up(_STEP * nearest))
            told = "No plan is found below epsilon {}."
    reason = f"{found.reason} {told.format(f'{nearest:.3g}')}"
    return replace(plan, feasibility=replace(found, reason=reason, nearest_epsilon=nearest))


def _up(epsilon: float) -> float:
    """The next number of three digits."""
    digits = 2 - int(np.floor(np.log10(max(epsilon, 1e-12))))
    return float(f"{np.ceil(epsilon * 10.0**digits) / 10.0**digits:.3g}")


def planned_cold_start(market: Market, request: PlanRequest, *, horizon: int) -> Plan:
    """The same plan up to the end of its cold start; the guards that follow it are reckoned with, and not kept."""
    return _made_for(as_plan(_walked(market, request, guard=True, horizon=horizon)), request, horizon)


def _made_for(plan: Plan, request: PlanRequest, horizon: int) -> Plan:
    """The plan with its horizon; it says so where it holds for users who know more than was asked for."""
    known = f"Followed by users who know {as_knowledge(plan.knows).words}, too: no plan for others is shorter."
    notes = (*plan.notes, known) if plan.knows != request.knows else plan.notes
    return replace(plan, provenance=replace(plan.provenance, horizon=horizon, notes=notes))


def _walked(
    market: Market, request: PlanRequest, *, guard: bool, horizon: int, simulator: Simulator | None = None
) -> PlannedWalk:
    """The shortest cold start that users follow who know so much of the clock, or more."""
    if request.knows == STAGE.name:
        return plan_walk(market, request, simulator=simulator)

    def later(forward: PlannedWalk) -> LaterWorlds | None:
        return later_worlds(_guard_setting(forward), guard=guard, horizon=horizon)

    if request.knows == LEVEL.name:
        found = plan_walk(market, request, simulator=simulator)
    else:
        found = pooled_walk(market, request, simulator=simulator)
    if request.knows == MECHANISM.name:
        found = shorter(found, pooled_walk(market, request, later=later, simulator=simulator))
    if request.personalised and as_knows("auto", market, request.n_per_arm) == STAGE.name:
        by_stage = plan_walk(market, replace(request, knows=STAGE.name), simulator=simulator)
        found = shorter(found, by_stage, clearly=True)
    return found


def _guard_setting(walked: PlannedWalk) -> GuardSetting:
    """What the exploitation stage comes after, and what it is to pass."""
    request = walked.settings
    return GuardSetting(
        simulator=walked.simulator,
        walk=walked.walk,
        epsilon=request.epsilon,
        notion=request.sense,
        n_worlds=request.n_worlds,
        audit_worlds=request.audit_worlds,
    )


def guard_anew(market: Market, plan: Plan, *, options: Exploiting, seed: int | None = None) -> Plan:
    """The plan with guards for another way to exploit: another feed, spread or inflation of prior variances.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan
        A sampled plan.
    options : Exploiting
        Of the exploitation stage as it will be run.
    seed : int, optional
        Of the worlds that guards are computed in; the plan's own unless given.

    Returns
    -------
    Plan
        With the same cold start. Its ``spread_multiple`` is that of the options, where they have one.

    Raises
    ------
    RcbError
        A plan that is not feasible, the global clock, whose epochs are not simulated side by side.

    Applicability
    -------------
    A guard cuts what is not the platform's best arm. Where the platform acts on less than users reckon with
    (``feed="last"``), its best arm itself may not be theirs, which no guard mends: audit what you run.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> last = rcb.guard_anew(market, plan, options=rcb.Exploiting(feed="last"))
    >>> last.guarded_for
    ('clock relative', 'feed last', 'spread posterior', 'inflation none')
    """
    if not plan.feasible:
        raise RcbError(f"This plan cannot be run: {plan.reason}")
    if plan.types is not None:
        raise RcbError("Guards of a plan for several types are made with it. Calibrate one: calibrate(..., types=).")
    if options.clock != "relative":
        raise RcbError("Guards are computed for the relative clock. Use clock='relative', or run without a guard.")
    check_plan(market, plan)
    multiple = spread_multiple(options, plan.spread_multiple)
    simulator = Simulator(market, seed=plan.seed if seed is None else as_count(seed, name="seed")).under(plan.agenda)
    setting = GuardSetting(
        simulator=simulator,
        walk=simulator.walk_under(plan.by_features),
        epsilon=plan.epsilon,
        notion=plan.goal.sense,
        n_worlds=max(plan.n_worlds, MAX_WORLDS),
        audit_worlds=plan.audit_worlds or _AUDIT_WORLDS,
    )
    plan = replace(plan, feasibility=replace(plan.feasibility, verdict=""))
    return _guarded(setting, plan, replace(options, spread_multiple=multiple))


def _guarded(setting: GuardSetting, plan: Plan, options: Exploiting) -> Plan:
    """The plan with guards computed for the options, and their multiple of the spread."""
    earlier = replace(setting.simulator.engines.counts)
    guards = compute_guards(setting, options=options)
    counts = setting.simulator.engines.counts
    exploitation = PlannedExploitation(
        spread_multiple=spread_multiple(options, plan.spread_multiple),
        guards=guards,
        guarded_for=as_words(options) if guards else (),
    )
    before = plan.provenance
    provenance = replace(
        before,
        n_posteriors=before.n_posteriors + counts.n_fitted - earlier.n_fitted,
        n_not_vouched=before.n_not_vouched + counts.n_not_vouched - earlier.n_not_vouched,
        notes=before.notes if setting.market.noise.is_gaussian else (*before.notes, _ONLY_THE_BEST),
    )
    return replace(plan, exploitation=exploitation, provenance=provenance)


# --- N ---------------------------------------------------------------------------------------------------------------


def with_best_n(
    market: Market,
    request: PlanRequest,
    *,
    guard: bool,
    spread: str,
    horizon: int,
    judge: Judge,
    hand_out: HandOut | None = None,
) -> Plan:
    """The plan with the least expected regret of those that pass an audit; the best of all, noted, if none does."""
    asked = as_agenda(request.n_per_arm, market.n_arms)
    n_explored = int((asked.missing > 0).sum())
    sizes = [n for n in GRID if n * n_explored <= _LARGEST_SHARE * horizon] or [1]
    how = hand_out or HandOut()
    choices = rough_choices(market, request, sizes, guard=guard, horizon=horizon, hand_out=how)
    order = sorted((k for k, choice in enumerate(choices) if choice.feasible), key=lambda k: choices[k].regret)
    best: Plan | None = None

    def made(n: int) -> Plan:
        return planned(market, request.asking(n), guard=guard, spread=spread, horizon=horizon, hand_out=how)

    for k in order:
        plan = made(choices[k].n_per_arm)
        verdict = _audited(market, plan, horizon=horizon, judge=judge, hand_out=how) if plan.feasible else plan.verdict
        choices[k] = replace(choices[k], verdict=verdict)
        plan = replace(plan, feasibility=replace(plan.feasibility, verdict=verdict))
        best = best or plan
        if verdict == "pass":
            return _chosen(plan, choices)
    if best is None:
        return _chosen(made(sizes[-1]), choices)
    tried = ", ".join(str(n) for n in sizes)
    note = f"None of N = {tried} is predicted to pass an audit of {request.audit_worlds:,} worlds."
    provenance = replace(best.provenance, notes=(*best.notes, note))
    return _chosen(replace(best, provenance=provenance), choices)


def few_users(market: Market, request: PlanRequest) -> Simulator:
    """A simulation for several plans whose errors may be larger: fewer cold starts and, with rates of their own, users.

    One rate for all is the least over users, or leaves room for the error of their average: with fewer of them it would
    be another one.
    """
    return Simulator(
        market,
        engine=request.engine,
        seed=request.seed,
        n_users=_FEW_USERS if request.personalised else None,
        n_paths=_FEW_PATHS,
        remember=True,
    )


def rough_choices(
    market: Market,
    request: PlanRequest,
    sizes: Sequence[int],
    *,
    guard: bool,
    horizon: int,
    hand_out: HandOut | None = None,
) -> list[SampleChoice]:
    """What each number of samples would come to, roughly; none after those from which on regret clearly rises.

    Workers look at several numbers at a time: more than are wanted, and these are forgotten.
    """
    how = hand_out or HandOut()
    rough = replace(request, n_worlds=min(request.n_worlds, _SEARCH_WORLDS))
    choices: list[SampleChoice] = []
    found: dict[int, SampleChoice] = {}
    # One by one, as each may be the last; by workers as many at a time as they are.
    step = 1 if how.workers in (None, 1) else len(sizes)
    make = cache(partial(few_users, market, request)) if step == 1 else partial(few_users, market, request)
    for start in range(0, len(sizes), step):
        some = sizes[start : start + step]
        parts = run_kept(
            how.store,
            {part_file(f"samples-{n}"): n for n in some},
            function=partial(_choice, asked=rough, guard=guard, horizon=horizon),
            make=make,
            save=_save_choice,
            load=_load_choice,
            workers=how.workers,
            description="samples per arm" if step > 1 else f"{some[0]} samples per arm",
        )
        found |= dict(enumerate(parts, start))
        while len(choices) in found:
            choices.append(found[len(choices)])
            if _is_past_the_best(choices):
                return choices
    return choices


def _save_choice(n_per_arm: int, choice: SampleChoice, path: Path) -> None:
    import xarray as xr

    form = part_format(f"samples-{n_per_arm}")
    write_part(form, xr.Dataset({name: value for name, value in asdict(choice).items() if name != "verdict"}), path)


def _load_choice(n_per_arm: int, path: Path) -> SampleChoice:
    data = read_part(part_format(f"samples-{n_per_arm}"), path)
    kinds = {"n_per_arm": int, "feasible": bool, "needs_guard": bool}
    return SampleChoice(**{str(name): kinds.get(str(name), float)(part.item()) for name, part in data.items()})


def _chosen(plan: Plan, choices: list[SampleChoice]) -> Plan:
    """The plan with what its N was chosen from."""
    return replace(plan, feasibility=replace(plan.feasibility, choices=tuple(choices)))


def _is_past_the_best(choices: list[SampleChoice]) -> bool:
    """Whether regret has risen twice in a row, clearly in all: more samples only lengthen the cold start."""
    if len(choices) < 3 or not choices[-3].feasible:
        return False
    first, second, third = choices[-3:]
    clearly = _CLEARLY * np.hypot(first.regret_mcse, third.regret_mcse)
    return first.regret < second.regret < third.regret and third.regret > first.regret + clearly


def _choice(simulator: Simulator, n_per_arm: int, *, asked: PlanRequest, guard: bool, horizon: int) -> SampleChoice:
    """What a number of samples would come to, roughly."""
    request = asked.asking(n_per_arm)
    walked = _walked(simulator.market, request, guard=guard, horizon=horizon, simulator=simulator)
    plan = as_plan(walked, roughly=True)
    left = horizon - plan.expected_cold_start
    if not plan.feasible or left <= 0:
        return SampleChoice(n_per_arm=n_per_arm, feasible=False)
    found = exploitation_regret(_guard_setting(walked), multiple=1.0, guard=guard, horizon=int(left))
    return SampleChoice(
        n_per_arm=n_per_arm,
        feasible=True,
        regret=plan.expected_regret + found.regret,
        regret_mcse=float(np.hypot(plan.expected_regret_mcse, found.regret_mcse)),
        cold_start=plan.expected_cold_start,
        needs_guard=found.needs_guard,
    )


def _audited(market: Market, plan: Plan, *, horizon: int, judge: Judge, hand_out: HandOut) -> str:
    """The verdict in worlds that neither rates nor guards have seen."""
    fresh = derived_seed(plan.seed, Stream.FRESH_AUDIT)
    options = Exploiting(guard=bool(plan.guards))
    folder, name = hand_out.store.folder, "-".join(str(n) for n in plan.agenda.totals)
    return judge(
        market,
        plan,
        horizon=horizon,
        n_worlds=plan.audit_worlds,
        options=options,
        seed=fresh,
        workers=hand_out.workers,
        store=Store(folder=None if folder is None else folder / f"audit-{name}", by_itself=True),
    )
