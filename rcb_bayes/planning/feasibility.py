"""Whether a simulated cold start can end with users following; if not why, and the epsilon that its stages ask for."""

from dataclasses import replace

import numpy as np

from rcb_bayes.mechanism.agenda import first_chances
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.mechanism.knowledge import MECHANISM, PHASE
from rcb_bayes.mechanism.level_rates import level_rates
from rcb_bayes.mechanism.outlook import Outlook
from rcb_bayes.mechanism.panel import panel_of
from rcb_bayes.mechanism.rates import broken_constraints, explored_terms
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.planning.course import MOST_STUCK
from rcb_bayes.planning.level_planner import LevelPlanner
from rcb_bayes.planning.parts import Course, Feasibility
from rcb_bayes.planning.planned_walk import PlannedWalk
from rcb_bayes.planning.pooled_rates import usual
from rcb_bayes.planning.stage_rates import LEAST_RATE, StageRates
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import figure, percent

_MOST_BROKEN = 0.0  # of users
_MOST_UNKNOWN = 2.0  # lengths of a cold start, for its error: then what is certified is noise
_DOUBLINGS = 5


def feasibility_of(forward: PlannedWalk, course: Course, *, rate: float) -> Feasibility:
    """Whether a simulated cold start of this course and overall rate can be run."""
    request = forward.settings
    stuck = share_stuck(forward)
    broken = _broken(forward, rate)
    explores = rate >= LEAST_RATE if not request.personalised else stuck <= MOST_STUCK
    length, scatter = course.expected_cold_start, course.cold_start_scatter or 0.0
    # One rate for all is published, and with it the length; rates of their own hang on who comes.
    is_known = not (request.personalised and scatter > _MOST_UNKNOWN * length)
    holds = explores and broken <= _MOST_BROKEN
    if holds and is_known:
        return Feasibility()
    stopped = _stopped_at(forward)
    if holds:
        reason = _unknown_length(forward, length, scatter)
    else:
        reason = _reason(forward, stopped, stuck=stuck, broken=broken)
    more_tell = holds or (broken <= _MOST_BROKEN and stopped is not None and not _is_closed(stopped))
    verdict = "inconclusive" if more_tell else "infeasible"
    return Feasibility(feasible=False, reason=reason, nearest_epsilon=nearest_epsilon(forward), verdict=verdict)


def share_stuck(forward: PlannedWalk) -> float:
    """The share of cold starts that reach a stage at which nobody is explored."""
    return float((~forward.walk.ended).mean())


def nearest_epsilon(forward: PlannedWalk) -> float | None:
    """About the smallest epsilon at which the stages that stopped the plan would allow exploration.

    By bisection, with the worlds and designs at hand; a personalised plan's own designs would move with epsilon.
    """
    blocked = [stage for stage in forward.stages.values() if stage.outlook is not None and _is_blocked(forward, stage)]
    if not blocked:
        return None
    return max(_nearest_at(forward, stage) for stage in blocked)


def _is_blocked(forward: PlannedWalk, stage: StageRates) -> bool:
    if not forward.settings.personalised:
        return stage.rate < LEAST_RATE
    return not (stage.rates > 0).any()


def _nearest_at(forward: PlannedWalk, stage: StageRates) -> float:
    """The smallest epsilon at which the stage is no longer blocked."""
    panel, settings = forward.panel, forward.settings
    promoted = stage.promoted
    gap = panel.prior_rewards[:, :, None] - panel.prior_rewards[:, None, :]
    loss = np.where(promoted[:, :, None] > 0, -gap, 0.0).max(axis=(1, 2))  # at this epsilon she is free

    def opens(epsilon: float) -> bool:
        planner = forward.planner
        if not settings.sense.is_per_user:
            return planner.rate_of_all(stage, epsilon=epsilon)[0] >= LEAST_RATE
        assert stage.outlook is not None  # the stage was simulated
        if stage.found is not None:
            assert isinstance(planner, LevelPlanner)  # it is a level
            found = planner.level_rates_of(stage, panel, slack=stage.slack, epsilon=epsilon)
            return panel.mean(found.rate)[0] >= LEAST_RATE
        asked = {"slack": stage.slack, "epsilon": epsilon}
        rates = planner.rates_of(stage.outlook, panel, promoted=stage.promoted, **asked).rate
        if settings.personalised:
            return panel.mean(rates)[0] >= LEAST_RATE
        looked_for = None if stage.worst is None else panel_of(forward.market, stage.worst)
        worst = np.ones(1)
        if looked_for is not None:
            promoted = stage.promoted_to(looked_for, agenda=forward.walk.agenda)
            worst = planner.rates_of(stage.outlook, looked_for, promoted=promoted, **asked).rate
        return bool(min(rates.min(), worst.min()) >= LEAST_RATE)

    low, high = settings.epsilon, float(loss.max() if not settings.personalised else loss.min())
    high = max(high, low)
    for _ in range(_DOUBLINGS):  # users outside the panel may lose more than anybody in it
        if opens(high):
            break
        low, high = high, 2.0 * max(high, 1e-6)
    while high - low > 2e-3 * max(high, 1e-6):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if opens(middle) else (middle, high)
    return high


def _broken(forward: PlannedWalk, rate: float) -> float:
    """The share of users for whom some constraint fails whatever the rates; 0 where the platform believes what they do.

    It recommends by its own belief, in the first phase and in organic rounds, and that may be no good by theirs.
    """
    if forward.simulator.engines.platform is None:
        return 0.0
    panel, settings = forward.panel, forward.settings
    first = first_chances(forward.walk.agenda, panel.promoted_by, forward.planner.first)
    terms = explored_terms(panel.prior_rewards, first, epsilon=settings.epsilon, notion=settings.sense)
    if settings.knows in (PHASE.name, MECHANISM.name) and forward.walk.ended.any():
        broken = (_pooled(forward, terms) < -TIE).any(axis=(1, 2))
        return panel.mean(broken.astype(float))[0]
    broken = (terms < 0.0).any(axis=(1, 2))
    for stage in forward.stages.values():
        if stage.outlook is not None:
            broken |= _broken_at(forward, stage, rate)
    return panel.mean(broken.astype(float))[0]


def _pooled(forward: PlannedWalk, first: FloatArray) -> FloatArray:
    """The form of users who cannot tell levels apart, three errors upwards, (P, K, K), from that of the first phase."""
    walked, panel, settings = forward.walk, forward.panel, forward.settings
    rounds = usual(walked, rng=forward.simulator.rng(Stream.ROUNDS))[0]
    total = rounds[0] * first
    for level, stage in forward.stages.items():
        if stage.outlook is None:
            sense = {"epsilon": settings.epsilon, "notion": settings.sense}
            own = explored_terms(panel.prior_rewards, stage.promoted, **sense)
        else:
            own = _form_of_level(forward, stage, stage.outlook)
        total = total + rounds[level] * own
    if forward.later is not None:
        later = replace(forward.later, slack=-3.0 / np.sqrt(forward.later.outlook.n_worlds))
        total = total + later.rounds * later.forms(panel.users, goal=settings.goal, agenda=walked.agenda)
    total[:, range(total.shape[1]), range(total.shape[1])] = 0.0
    return total


def _broken_at(forward: PlannedWalk, stage: StageRates, rate: float) -> np.ndarray:
    """Users for whom some constraint fails at a stage by more than three errors, (P,)."""
    panel, settings = forward.panel, forward.settings
    assert stage.outlook is not None  # the stage was simulated
    if stage.sets is not None and settings.personalised:
        return (_form_of_level(forward, stage, stage.outlook) < 0.0).any(axis=(1, 2))
    asked = {"prior_rewards": panel.prior_rewards, "epsilon": settings.epsilon, "notion": settings.sense}
    rates = stage.rates if settings.personalised else np.full(panel.n_users, rate)
    return broken_constraints(stage.outlook, panel.users, rates, promoted=stage.promoted, **asked)


def _form_of_level(forward: PlannedWalk, stage: StageRates, outlook: Outlook) -> FloatArray:
    """The form at a level with the rates in force, three errors upwards, (P, K, K); zero on the diagonal."""
    panel, settings = forward.panel, forward.settings
    assert stage.sets is not None  # it is a level
    own = level_rates(
        outlook,
        stage.sets,
        panel.users,
        prior_rewards=panel.prior_rewards,
        promoted_by=panel.promoted_by,
        epsilon=settings.epsilon,
        notion=settings.sense,
        slack=-3.0 / np.sqrt(outlook.n_worlds),
        by_arm=stage.by_arm,
        forms=True,
    ).own.copy()
    own[:, range(own.shape[1]), range(own.shape[1])] = 0.0
    return own


def _stopped_at(forward: PlannedWalk) -> StageRates | None:
    """The stage that stops the plan; None where no single one does."""
    if not forward.settings.personalised:
        return min(forward.stages.values(), key=lambda part: part.rate, default=None)
    return next((stage for stage in forward.stages.values() if _is_blocked(forward, stage)), None)


def _is_closed(stage: StageRates) -> bool:
    """Whether the point estimates allow no rate there, so that more worlds would not either."""
    return stage.ideal < LEAST_RATE or not np.isfinite(stage.worlds_needed)


def _reason(forward: PlannedWalk, stopped: StageRates | None, *, stuck: float, broken: float) -> str:
    if broken > _MOST_BROKEN:
        return (
            f"{percent(broken)} of users would lose more than epsilon by what the platform takes for their best "
            "arm: it believes otherwise than they do. Plan with the users' belief, or allow a larger epsilon."
        )
    if stopped is None:
        return f"{percent(stuck)} of cold starts reach a stage at which nobody can be explored."
    ends = f" ({percent(stuck)} of cold starts end there)" if forward.settings.personalised else ""
    return f"Once {_named(forward, stopped)} saturated{ends} {_why_blocked(forward, stopped)}"


def _named(forward: PlannedWalk, stage: StageRates) -> str:
    """A stage, and a verb."""
    if stage.saturated:
        return ", ".join(forward.market.arms[arm] for arm in stage.saturated) + " is"
    n, k = stage.level, forward.market.n_arms
    return f"{n} of {k} arms {'is' if n == 1 else 'are'}"


def _why_blocked(forward: PlannedWalk, stage: StageRates) -> str:
    """Whether no rate would do, or these worlds cannot certify one, and how many could."""
    n = forward.settings.n_worlds
    one = not forward.settings.personalised
    if _is_closed(stage):
        who = "some users cannot be explored, and one rate must suit all" if one else "no user can be explored"
        often = f" more often than once in {1.0 / stage.ideal:.2g} rounds" if 0.0 < stage.ideal < LEAST_RATE else ""
        return (
            f"{who}{often}: data speak for the arm promoted to them in hardly any of {n:,} worlds, or in none, so that "
            "exploration has nothing to hide among."
        )
    # At four times the worlds that certify more than nothing, about half of the point estimate is certified.
    what = "the one rate that suits all" if one else "a rate for anybody"
    return (
        f"{what} is not certified: the point estimates allow about {stage.ideal:.2g}, and {n:,} worlds do not tell "
        "that from 0. "
        f"About {_round_up(4.0 * stage.worlds_needed):,} worlds (n_worlds, audit_worlds) would certify half of it."
    )


def _unknown_length(forward: PlannedWalk, length: float, scatter: float) -> str:
    n = forward.settings.n_worlds
    stage = min(forward.stages.values(), key=lambda part: part.rate)
    needed = max(4.0 * stage.worlds_needed, 4.0 * n)
    return (
        f"Nobody can tell how long the cold start takes ({figure(length, scatter)} rounds, by seed). The point "
        f"estimates allow a rate of {stage.ideal:.2g}, of which {n:,} worlds certify next to nothing. "
        f"About {_round_up(needed):,} worlds (n_worlds, audit_worlds) would settle it; so would a larger epsilon."
    )


def _round_up(count: float) -> int:
    """A count to two digits, upwards."""
    unit = 10 ** max(int(np.floor(np.log10(max(count, 1.0)))) - 1, 0)
    return int(np.ceil(count / unit)) * unit
