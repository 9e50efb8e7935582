"""The plan that a simulated cold start amounts to, part by part."""

from dataclasses import replace

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.compact import compact_outlook
from rcb_bayes.mechanism.knowledge import MECHANISM, PHASE, STAGE
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.walk import Walk
from rcb_bayes.planning.course import MOST_STUCK, course_of
from rcb_bayes.planning.expectations import expectations_of
from rcb_bayes.planning.feasibility import feasibility_of, share_stuck
from rcb_bayes.planning.parts import Constants, Provenance
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.planned_walk import PlannedWalk
from rcb_bayes.planning.stage_rates import StageRates
from rcb_bayes.planning.stages import LevelRule, PlannedColdStart, PlannedStage, SampledRule, TableRule
from rcb_bayes.telling.wording import percent


def as_plan(forward: PlannedWalk, *, roughly: bool = False) -> Plan:
    """The plan that a simulated cold start amounts to; guards and the spread are added later.

    ``roughly`` leaves out what nothing is decided by.
    """
    market = forward.market
    rate, rate_mcse = _overall_rate(forward)
    course = course_of(forward, rate=rate, rate_mcse=rate_mcse, roughly=roughly)
    return Plan(
        goal=forward.settings.goal,
        constants=_constants(forward, rate=rate, rate_mcse=rate_mcse),
        before=expectations_of(
            market,
            known=None if market.noise.is_gaussian else replace(forward.panel, response=None, admitted=None),
            admission=_told(forward.walk.agenda),
        ),
        cold_start=_cold_start(forward),
        course=course,
        feasibility=feasibility_of(forward, course, rate=rate),
        provenance=_provenance(forward),
    )


def _told(agenda: Agenda) -> Agenda | None:
    """An agenda that says more than a number does."""
    is_one_number = agenda.is_plain and len(set(agenda.needed)) == 1 and not any(agenda.past)
    return None if is_one_number and agenda.regions is None else agenda


def _constants(forward: PlannedWalk, *, rate: float, rate_mcse: float) -> Constants:
    gaps = [stage.gap for stage in forward.stages.values() if stage.gap is not None]
    tau, tau_mcse, rho, rho_mcse = min(gaps, key=lambda gap: gap[0] * gap[2], default=(np.nan,) * 4)
    return Constants(
        kind="sampled",
        n_per_arm=forward.walk.agenda.n_per_arm,
        exploration_rate=rate,
        exploration_rate_mcse=rate_mcse,
        inverse_rate=1.0 / rate if rate > 0 else np.inf,
        inverse_rate_mcse=rate_mcse / rate**2 if rate > 0 else np.inf,
        tau=tau,
        tau_mcse=tau_mcse,
        rho=rho,
        rho_mcse=rho_mcse,
        ideal_rate=_ideal_rate(forward),
    )


def _overall_rate(forward: PlannedWalk) -> tuple[float, float]:
    """The mean over stages, or, of one rate for all, the least; 1 where no stage comes after the first phase."""
    stages = list(forward.stages.values())
    if not stages:
        return 1.0, 0.0
    if not forward.settings.personalised:
        worst = min(stages, key=lambda stage: stage.rate)
        return worst.rate, worst.rate_mcse
    shares = np.array([stage.share for stage in stages])
    shares = shares / shares.sum()
    rate = min(float(shares @ [stage.rate for stage in stages]), 1.0)
    errors = shares * [stage.rate_mcse for stage in stages]
    # Stages share a panel of users, so that their errors may add up; where these are everybody, each has worlds alone.
    return rate, float(np.linalg.norm(errors) if forward.panel.is_exact else errors.sum())


def _ideal_rate(forward: PlannedWalk) -> float:
    """The rate by the point estimates: the mean over stages, or, of one rate for all, the least."""
    stages = list(forward.stages.values())
    if not stages:
        return 1.0
    if not forward.settings.personalised:
        return min(stage.ideal for stage in stages)
    shares = np.array([stage.share for stage in stages])
    return min(float(shares @ [stage.ideal for stage in stages] / shares.sum()), 1.0)


def _cold_start(forward: PlannedWalk) -> PlannedColdStart:
    arms = forward.market.arms
    return PlannedColdStart(
        stages=tuple(_planned(forward, stage) for stage in forward.stages.values()),
        alike=tuple(tuple(arms[arm] for arm in alike) for alike in forward.simulator.alike(forward.walk.agenda)),
        programme=forward.programme,
    )


def _planned(forward: PlannedWalk, stage: StageRates) -> PlannedStage:
    panel, settings = forward.panel, forward.settings
    rule: SampledRule | LevelRule | TableRule | None = None
    is_linear = forward.market.noise.is_gaussian
    is_open = bool((stage.rates[~stage.is_free] > 0.0).any())  # to others than those who need no subsidy
    if settings.personalised and is_linear and is_open and isinstance(stage.outlook, LinearOutlook):
        means = forward.market.prior.mean.values, forward.market.platform_prior.mean.values
        worlds = compact_outlook(stage.outlook, *means)
        slack, sets = stage.slack, stage.sets
        rule = SampledRule(worlds, slack) if sets is None else LevelRule(worlds, sets.saturated, slack)
    elif settings.personalised and not is_linear:
        rule = TableRule(panel.users, stage.rates if stage.sets is None else stage.by_arm)
    return PlannedStage(
        saturated=tuple(forward.market.arms[arm] for arm in stage.saturated),
        level=stage.level,
        share=stage.share,
        rate=stage.rate,
        rate_mcse=stage.rate_mcse,
        share_explored=panel.mean((stage.rates > 0).astype(float))[0],
        share_free=panel.mean(stage.is_free.astype(float))[0],
        rule=rule,
    )


def _provenance(forward: PlannedWalk) -> Provenance:
    market, request, simulator = forward.market, forward.settings, forward.simulator
    return Provenance(
        belief=market.prior.name,
        made_for=market.describe(),
        made_of=market.fingerprint(),
        engine=simulator.engines.users.reason,
        n_worlds=request.n_worlds,
        audit_worlds=request.audit_worlds,
        n_posteriors=simulator.engines.counts.n_fitted,
        n_not_vouched=simulator.engines.counts.n_not_vouched,
        seed=request.seed,
        version=__version__,
        notes=_notes(forward),
    )


def _notes(forward: PlannedWalk) -> tuple[str, ...]:
    notes, stuck = [], share_stuck(forward)
    if forward.settings.knows in (PHASE.name, MECHANISM.name) and forward.programme is None:
        notes.append(
            "No level's rates could be raised by what others leave: they are those of users who know the level."
        )
    if 0 < stuck <= MOST_STUCK:
        notes.append(
            f"{percent(stuck)} of cold starts"
            " reach a rare stage at which nobody is explored; the figures leave them out."
        )
    unplanned = _unplanned(forward)
    if unplanned > 0.001:
        notes.append(
            f"{percent(unplanned)} of stages passed are too rare or too many to be planned: there only users who "
            "lose at most epsilon are explored."
        )
    if forward.market.is_misspecified:
        notes.append("Rates, lengths and regret are under the users' belief; the platform's or nature's differs.")
    return tuple(notes)


def _unplanned(forward: PlannedWalk) -> float:
    """The share of stages passed, over cold starts and levels, that have no rates of their own."""
    if not isinstance(forward.walk, Walk) or forward.settings.knows != STAGE.name:
        return 0.0
    paths = forward.walk.paths
    planned = [code in forward.stages for code in paths.codes]
    passed = paths.sets[1:-1]
    return float((~np.append(planned, True)[passed]).mean()) if passed.size else 0.0  # the last place is STUCK's
