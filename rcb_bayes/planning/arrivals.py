"""A plan's successor in a market with one arm more.

While the cold start lasts the new arm is to be explored as the others are: the plan is made anew for the market with
it, by the same goal. Later nothing is promoted any more, and what is recommended then need not rest on a plan's guards:
``running.moves`` has exploitation keep every user's loss within epsilon, whatever the data. The successor is then a
frame without rates to be used: the arms, and that the new one has no samples of its own.
"""

from dataclasses import replace

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.length import cold_start_rounds
from rcb_bayes.planning.calibration import planned
from rcb_bayes.planning.exploitation import PlannedExploitation
from rcb_bayes.planning.fixed import given_plan
from rcb_bayes.planning.goal import PlanRequest, check_request_size
from rcb_bayes.planning.parts import Course
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import DEFAULT_HORIZON


def plan_with_arm(market: Market, plan: Plan, *, lasts: bool) -> Plan:
    """The plan for a market that has one more arm than the plan's, the last.

    Parameters
    ----------
    lasts : whether the cold start does; later the arm is not explored

    Raises
    ------
    RcbError
        A cold start that no plan with the new arm can end, or whose plan is not made from a goal.
    """
    agenda = _agenda_with(plan.agenda, plan.agenda.most if lasts else 0)
    if not lasts:
        frame = _given(market, plan, agenda)
        course = Course(
            expected_cold_start=plan.expected_cold_start, expected_cold_start_mcse=plan.expected_cold_start_mcse
        )
        return replace(frame, course=course, exploitation=PlannedExploitation(spread_multiple=plan.spread_multiple))
    if plan.kind == "fixed":
        length = cold_start_rounds(market, n_per_arm=agenda, exploration_rate=plan.exploration_rate, seed=plan.seed)
        course = Course(expected_cold_start=length.mean, expected_cold_start_mcse=length.mcse)
        return replace(_given(market, plan, agenda), course=course)
    if plan.kind != "sampled" or plan.types is not None:
        what = "for several types of users" if plan.types is not None else "a theorem's"
        raise RcbError(
            f"This plan is {what}, and is not made anew here. Make one for market.with_arm(label, belief), and pass "
            "it: add_arm(label, belief, plan=...)."
        )
    request = PlanRequest(
        **{name: getattr(plan.goal, name) for name in ("epsilon", "notion", "personalised", "knows")},
        n_per_arm=agenda,
        n_worlds=plan.n_worlds,
        audit_worlds=plan.audit_worlds or plan.n_worlds,
        engine="auto",
        seed=plan.seed,
    )
    check_request_size(market, request)
    horizon = plan.provenance.horizon or DEFAULT_HORIZON
    spread = "posterior" if plan.spread_multiple == 1.0 else "tuned"
    found = planned(market, request, guard=plan.has_guard, spread=spread, horizon=horizon)
    if not found.feasible:
        raise RcbError(f"With this arm the cold start would not end: {found.reason} Nothing has changed.")
    return found


def _agenda_with(agenda: Agenda, n: int) -> Agenda:
    """The agenda with one arm more, of which n samples are wanted; in an order it is the last.

    Raises
    ------
    RcbError
        Arms that are explored among some users only: draws of the belief say who, and have no such arm.
    """
    if agenda.regions is not None and n:
        raise RcbError(
            "Arms of this plan are explored among some users only, by a belief that lacks the new arm. Calibrate a "
            "plan for market.with_arm(label, belief), and pass it: add_arm(label, belief, plan=...)."
        )
    return Agenda(
        needed=(*agenda.needed, n),
        past=(*agenda.past, 0) if agenda.past else (),
        order=(*agenda.order, agenda.n_arms) if agenda.order and n else agenda.order,
        first=agenda.first,
        regions=agenda.regions,
    )


def _given(market: Market, plan: Plan, agenda: Agenda) -> Plan:
    """A plan of fixed figures with this agenda."""
    return given_plan(
        market,
        n_per_arm=agenda,
        exploration_rate=plan.exploration_rate if 0.0 < plan.exploration_rate <= 1.0 else 1.0,
        epsilon=plan.epsilon,
        notion=plan.notion,
        knows=plan.goal.knows,
    )
