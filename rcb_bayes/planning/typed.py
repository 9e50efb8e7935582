r"""One plan for several types of users: beliefs, epsilons and knowledge of their own.

A type reckons with worlds of its own belief. Who is sampled when does not depend on beliefs: arms are promoted by the
platform's, and users are explored at the plan's rates. So all types share one walk through the cold start. At each of
its stages every type has a largest rate that it follows, given the designs so far; users are explored at the least of
them, and with that the walk goes on. Guards likewise: epochs are simulated in the worlds of every type side by side,
all under the guard that lets through what every type follows.

Where a share of users may be left out, a user's rate is the largest that types with at least the share asked for
follow: a lower quantile over types in the place of the least.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.exploiting import Exploiting, as_words
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.mechanism.walk import Walk
from rcb_bayes.planning.cold_start_plan import as_plan
from rcb_bayes.planning.exploitation import GuardRule, PlannedExploitation
from rcb_bayes.planning.goal import PlanRequest
from rcb_bayes.planning.guard_rules import GuardSetting, side_by_side_guards
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.planned_walk import PlannedWalk
from rcb_bayes.planning.stage_rates import RatePlanner
from rcb_bayes.planning.types import TypedPlans
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import percent

_GUARD_WORLDS = 2000  # more than one type needs: several guards are to hold at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypeRequest:
    """What a plan is asked for on behalf of one type: its market (its own belief, the platform's as it is), epsilon."""

    name: str
    share: float
    market: Market
    request: PlanRequest


def planned_for_types(
    market: Market, types: Sequence[TypeRequest], *, epsilon: float, guard: bool, least_share: float, horizon: int
) -> Plan:
    """One plan that every type follows, or all but a share of users; the first type's figures stand on it.

    Raises
    ------
    RcbError
        Users who know less than the stage, rewards that are not Gaussian.
    """
    first = types[0]
    if first.request.knows != STAGE.name:
        raise RcbError("Plans for types are made stage by stage. Use knows='stage', or fewer arms.")
    if not first.market.noise.is_gaussian:
        raise RcbError("Plans for types are for Gaussian rewards.")
    shares = tuple(kind.share for kind in types)
    none = TypedPlans(names=tuple(kind.name for kind in types), shares=shares, least_share=least_share, plans=())
    planners = [RatePlanner(kind.market, kind.request) for kind in types]
    walk = _walk(planners, none)
    walks = [PlannedWalk(settings=p.settings, walk=walk, planner=p) for p in planners]
    plans = [_apart(as_plan(each, roughly=True)) for each in walks]
    _enter_rates(planners, none)
    lead = _apart(as_plan(walks[0]))
    lead = replace(lead, goal=replace(lead.goal, epsilon=epsilon))
    if guard and lead.feasible:
        settings = [_setting(each) for each in walks]
        guards, cut = side_by_side_guards(settings, options=Exploiting(), combine=none.followed, most=_GUARD_WORLDS)
        plans = [_guarded(plan, rules) for plan, rules in zip(plans, guards, strict=True)]
        lead = _guarded(lead, cut)
    counts = [p.simulator.engines.counts for p in planners]
    provenance = replace(
        lead.provenance,
        horizon=horizon,
        belief=market.prior.name,
        made_for=market.describe(),
        made_of=market.fingerprint(),
        n_posteriors=sum(each.n_fitted for each in counts),
        n_not_vouched=sum(each.n_not_vouched for each in counts),
        notes=(*lead.notes, _note(types, least_share)),
    )
    return replace(lead, types=replace(none, plans=tuple(plans)), provenance=provenance)


def _walk(planners: list[RatePlanner], types: TypedPlans) -> Walk:
    """The cold start that all types share; arms keep their names, since they may be alike to some types only."""

    def rates_at(so_far: Walk, code: int, members: np.ndarray) -> FloatArray | float:
        each = [planner.rates_at(so_far, code, members) for planner in planners]
        if not planners[0].settings.personalised:
            return 1.0  # who is sampled does not depend on one rate for all
        return types.followed([np.asarray(rates) for rates in each])

    n_users = planners[0].panel.n_users
    firsts = types.followed([np.broadcast_to(planner.first, n_users) for planner in planners])
    return planners[0].simulator.walk(rates_at, n_per_arm=planners[0].agenda, alike=(), first=firsts)


def _enter_rates(planners: list[RatePlanner], types: TypedPlans) -> None:
    """Enter into the first planner's stages what users are explored at: its figures are then those of the plan."""
    first = planners[0]
    for code, stage in first.stages.items():
        each = [planner.stages[code] for planner in planners if code in planner.stages]
        if len(each) < len(planners):
            continue
        if not first.settings.personalised:
            rates = [np.array(one.rate) for one in each]
            at = int(np.argmin(np.abs(np.array(rates) - types.followed(rates))))
            stage.rate, stage.rate_mcse, stage.ideal = each[at].rate, each[at].rate_mcse, each[at].ideal
            continue
        stage.rates = types.followed([one.rates for one in each])
        stage.is_free = types.followed([one.is_free.astype(float) for one in each]) > 0.5
        stage.rate, of_users = first.panel.mean(stage.rates)
        stage.rate_mcse = float(max(of_users, *(one.rate_mcse for one in each)))
        stage.ideal = min(one.ideal for one in each)


def _setting(walked: PlannedWalk) -> GuardSetting:
    request = walked.settings
    return GuardSetting(
        simulator=walked.simulator,
        walk=walked.walk,
        epsilon=request.epsilon,
        notion=request.sense,
        n_worlds=request.n_worlds,
        audit_worlds=request.audit_worlds,
    )


def _apart(plan: Plan) -> Plan:
    """The plan with every saturated set by itself."""
    return replace(plan, cold_start=replace(plan.cold_start, alike=()))


def _guarded(plan: Plan, guards: tuple[GuardRule, ...]) -> Plan:
    words = as_words(Exploiting()) if guards else ()
    return replace(plan, exploitation=PlannedExploitation(guards=guards, guarded_for=words))


def _note(types: Sequence[TypeRequest], least_share: float) -> str:
    told = ", ".join(f"{kind.name} ({percent(kind.share)}, epsilon {kind.request.epsilon:g})" for kind in types)
    whom = "every type" if least_share >= 1 else f"types with {percent(least_share)} of users"
    return f"One plan for {told}: at rates and guards that {whom} would follow. Audit it with audit_types."
