"""The plan that a simulated cold start amounts to: rates, length, regret, coverage, and why where there is none."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.compact import compact_outlook
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.panel import Panel, panel_of
from rcb_bayes.mechanism.rates import broken_constraints, explored_terms
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.walk import arms_of, open_arms
from rcb_bayes.mechanism.worlds import draw_worlds
from rcb_bayes.planning.plan import KnownUsers, Plan, PlannedStage, SampledRule, TableRule
from rcb_bayes.planning.stage_rates import PlannedWalk, StageRates
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import figure, percent

LEAST_RATE = 1e-4  # one rate for all below this is no plan
_MOST_STUCK = 0.01  # of cold starts
_MOST_BROKEN = 0.0  # of users
_USUAL_STAGE = 0.05  # of cold starts that pass a stage, for it to count in who is explored
_BEST_DRAWS = 1000
_COVERAGE_PATHS = 1000
_MOST_UNKNOWN = 2.0  # lengths of a cold start, for its error: then what is certified is noise
_DOUBLINGS = 5


def as_plan(forward: PlannedWalk) -> Plan:
    """The plan that a simulated cold start amounts to."""
    market, settings, panel = forward.market, forward.settings, forward.panel
    rate, rate_mcse = _overall_rate(forward)
    stuck = float((~forward.walk.paths.ended).mean())
    broken = _broken(forward, rate)
    explores = rate >= LEAST_RATE if not settings.personalised else stuck <= _MOST_STUCK
    course = _course(forward, rate=rate, rate_mcse=rate_mcse)
    length, length_mcse = course["expected_cold_start"], course["expected_cold_start_mcse"]
    # One rate for all is published, and with it the length; rates of their own hang on who comes.
    is_known = not (settings.personalised and length_mcse > _MOST_UNKNOWN * length)
    feasible = explores and broken <= _MOST_BROKEN and is_known
    reason = "" if feasible else _reason(forward, rate=rate, stuck=stuck, broken=broken)
    if explores and broken <= _MOST_BROKEN and not is_known:
        reason = _unknown_length(forward, length, length_mcse)
    tau, tau_mcse, rho, rho_mcse = min(
        (stage.gap for stage in forward.stages.values() if stage.gap is not None), key=lambda gap: gap[0] * gap[2]
    )
    stages = list(forward.stages.values())
    passed = np.array([stage.share for stage in stages])
    passed = passed / passed.sum()
    free = passed @ [stage.is_free.astype(float) for stage in stages]  # (P,): how often each user needs no subsidy
    usual = [stage for stage in stages if stage.share >= _USUAL_STAGE] or stages
    explored = np.any([stage.rates > 0 for stage in usual], axis=0)
    plan = Plan(
        kind="sampled",
        epsilon=settings.epsilon,
        notion=settings.notion.name,
        personalised=settings.personalised,
        n_per_arm=settings.n_per_arm,
        exploration_rate=rate,
        exploration_rate_mcse=rate_mcse,
        inverse_rate=1.0 / rate if rate > 0 else np.inf,
        inverse_rate_mcse=rate_mcse / rate**2 if rate > 0 else np.inf,
        tau=tau,
        tau_mcse=tau_mcse,
        rho=rho,
        rho_mcse=rho_mcse,
        feasible=feasible,
        reason=reason,
        nearest_epsilon=None if feasible else nearest_epsilon(forward),
        arms=market.arms,
        features=market.features,
        prior_mean=market.prior.mean.values,
        platform_mean=None if market.platform_prior is market.prior else market.platform_prior.mean.values,
        known=None if market.noise.is_gaussian else KnownUsers(panel.users, panel.prior_rewards, panel.promoted_by),
        alike=tuple(tuple(market.arms[arm] for arm in arms) for arms in forward.simulator.alike),
        stages=tuple(_planned(forward, stage) for stage in forward.stages.values()),
        share_explored=panel.mean(explored.astype(float))[0] if settings.personalised else float(rate > 0),
        share_free=panel.mean(free)[0],
        ideal_rate=_ideal_rate(forward),
        made_for=market.describe(),
        made_of=market.fingerprint(),
        belief=market.prior.name,
        engine=forward.simulator.engines.users.reason,
        n_worlds=settings.n_worlds,
        audit_worlds=settings.audit_worlds,
        n_posteriors=forward.simulator.engines.counts.n_fitted,
        n_not_vouched=forward.simulator.engines.counts.n_not_vouched,
        seed=settings.seed,
        version=__version__,
        notes=_notes(forward, stuck=stuck),
        **_coverage(forward),
        **course,
    )
    if plan.nearest_epsilon is not None:
        nearest = f"With {settings.n_worlds:,} worlds a plan is found from about epsilon {plan.nearest_epsilon:.2g} on."
        plan = replace(plan, reason=f"{plan.reason} {nearest}")
    return plan


def _ideal_rate(forward: PlannedWalk) -> float:
    """The rate by the point estimates: the mean over stages, or, of one rate for all, the least."""
    stages = list(forward.stages.values())
    if not forward.settings.personalised:
        return min(stage.ideal for stage in stages)
    shares = np.array([stage.share for stage in stages])
    return min(float(shares @ [stage.ideal for stage in stages] / shares.sum()), 1.0)


def _unknown_length(forward: PlannedWalk, length: float, error: float) -> str:
    n = forward.settings.n_worlds
    stage = min(forward.stages.values(), key=lambda part: part.rate)
    needed = max(4.0 * stage.worlds_needed, 4.0 * n)
    return (
        f"The cold start takes {figure(length, error)} rounds, so that its length is not known: {n:,} worlds certify "
        f"next to nothing where the point estimates allow a rate of {stage.ideal:.2g}. "
        f"About {_round_up(needed):,} worlds (n_worlds, audit_worlds) would tell, or a larger epsilon."
    )


def _round_up(count: float) -> int:
    """A count to two digits, upwards."""
    unit = 10 ** max(int(np.floor(np.log10(max(count, 1.0)))) - 1, 0)
    return int(np.ceil(count / unit)) * unit


def nearest_epsilon(forward: PlannedWalk) -> float | None:
    """About the smallest epsilon at which the stages that stopped the plan would allow exploration.

    By bisection, with the worlds and designs at hand; a personalised plan's own designs would move with epsilon.
    """
    blocked = [stage for stage in forward.stages.values() if stage.outlook is not None and _is_blocked(forward, stage)]
    if not blocked:
        return None
    return max(_nearest_at(forward, stage) for stage in blocked)


def _overall_rate(forward: PlannedWalk) -> tuple[float, float]:
    """The mean over stages, or, of one rate for all, the least."""
    stages = list(forward.stages.values())
    if not forward.settings.personalised:
        worst = min(stages, key=lambda stage: stage.rate)
        return worst.rate, worst.rate_mcse
    shares = np.array([stage.share for stage in stages])
    shares = shares / shares.sum()
    rate = min(float(shares @ [stage.rate for stage in stages]), 1.0)
    # Stages share the panel of users, so their errors may add up.
    return rate, float(shares @ [stage.rate_mcse for stage in stages])


def _planned(forward: PlannedWalk, stage: StageRates) -> PlannedStage:
    panel, settings = forward.panel, forward.settings
    rule: SampledRule | TableRule | None = None
    if settings.personalised and stage.outlook is not None:
        if isinstance(stage.outlook, LinearOutlook):
            means = forward.market.prior.mean.values, forward.market.platform_prior.mean.values
            rule = SampledRule(compact_outlook(stage.outlook, *means), stage.slack)
        else:
            rule = TableRule(panel.users, stage.rates)
    elif settings.personalised and not forward.market.noise.is_gaussian:
        rule = TableRule(panel.users, stage.rates)
    return PlannedStage(
        saturated=tuple(forward.market.arms[arm] for arm in arms_of(stage.code)),
        share=stage.share,
        rate=stage.rate,
        rate_mcse=stage.rate_mcse,
        share_explored=panel.mean((stage.rates > 0).astype(float))[0],
        share_free=panel.mean(stage.is_free.astype(float))[0],
        rule=rule,
    )


def _coverage(forward: PlannedWalk) -> dict[str, Any]:
    """Each arm's smallest eigenvalue of X'X/N over cold starts that saturate it; NaN where none does."""
    walked, n = forward.walk, forward.settings.n_per_arm
    means, errors = np.full((2, forward.market.n_arms), np.nan)
    for arm in range(forward.market.n_arms):
        rng = generator(forward.settings.seed, Stream.COVERAGE, arm)
        some = np.flatnonzero(walked.paths.taken[:, :, arm].sum(axis=0) == n)[:_COVERAGE_PATHS]
        if len(some) < 2:
            continue
        least = np.empty(len(some))
        for start in range(0, len(some), 100):
            rows = slice(start, start + 100)
            x = forward.panel.users[walked.design(some[rows], arm, rng=rng)]
            least[rows] = np.maximum(np.linalg.eigvalsh(x.swapaxes(1, 2) @ x / n)[:, 0], 0.0)
        means[arm], errors[arm] = least.mean(), least.std(ddof=1) / np.sqrt(len(some))
    return {
        "coverage": tuple(float(part) for part in _among_alike(means, forward)),
        "coverage_mcse": tuple(float(part) for part in _among_alike(errors, forward)),
    }


def _among_alike(values: FloatArray, forward: PlannedWalk) -> FloatArray:
    """Figures of each arm, (..., K), averaged over arms that are alike: paths name those in the order they fill up."""
    out = values.copy()
    for arms in forward.simulator.alike:
        known = [arm for arm in arms if not np.isnan(values[..., arm]).any()]
        if known:
            out[..., list(arms)] = values[..., known].mean(axis=-1, keepdims=True)
    return out


def _course(forward: PlannedWalk, *, rate: float, rate_mcse: float) -> dict[str, Any]:
    """Length, pulls and regret of the cold start, with errors; infinite where it does not end."""
    k, personalised = forward.market.n_arms, forward.settings.personalised
    rng = generator(forward.settings.seed, Stream.ROUNDS)
    paths = forward.walk.paths
    ends = paths.ended
    endless = {
        "expected_cold_start": np.inf,
        "expected_cold_start_mcse": 0.0,
        "expected_pulls": (np.inf,) * k,
        "expected_pulls_mcse": (0.0,) * k,
        "expected_regret": np.inf,
        "expected_regret_mcse": 0.0,
    }
    if ends.mean() < 1.0 - _MOST_STUCK or (not personalised and rate <= 0):
        return endless
    rounds = forward.walk.rounds(thinning=1.0 if personalised else rate, rng=rng)
    best = _best_rewards(forward)
    pulls, regret = np.zeros((paths.n_paths, k)), np.zeros(paths.n_paths)
    drift = np.zeros(2 + k)  # errors that more paths do not average out
    for level in range(k):
        for code, members in paths.members(level).items():
            some = members[ends[members]]
            each = _per_round(forward, code, (rate, rate_mcse), best)
            pulls[some] += rounds[level, some, None] * each.chances
            regret[some] += rounds[level, some] * each.regret
            total = rounds[level, some].sum() / ends.sum()
            # Explored pulls are counted and do not depend on how long it takes; organic ones do.
            drift += total * np.array([each.time_error, each.regret_error, *(each.time_error * each.organic)])
    rounds, regret = rounds[:, ends], regret[ends]
    length, pulls = rounds.sum(axis=0), _among_alike(pulls[ends], forward)
    n = np.sqrt(len(length))
    pulls_error = np.hypot(pulls.std(axis=0, ddof=1) / n, _among_alike(drift[2:], forward))
    return {
        "expected_cold_start": float(length.mean()),
        "expected_cold_start_mcse": float(np.hypot(length.std(ddof=1) / n, drift[0])),
        "expected_pulls": tuple(float(part) for part in pulls.mean(axis=0)),
        "expected_pulls_mcse": tuple(float(part) for part in pulls_error),
        "expected_regret": float(regret.mean()),
        "expected_regret_mcse": float(np.hypot(regret.std(ddof=1) / n, drift[1])),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Round:
    """A round of one stage: how often it goes to each arm, in all and organically, (K,), and its expected regret.

    ``time_error`` is relative: that of the chance that a round brings a sample, from the users of the panel and from
    the worlds that the rates were computed in.
    """

    chances: FloatArray
    organic: FloatArray
    regret: float
    time_error: float
    regret_error: float


def _per_round(
    forward: PlannedWalk, code: int, one_rate: tuple[float, float], best: tuple[FloatArray, float]
) -> _Round:
    panel, settings = forward.panel, forward.settings
    rate, rate_mcse = one_rate
    stage = forward.stages.get(code)
    promoted = promotion_shares(panel.promoted_by, open_arms(code, forward.market.n_arms))
    rates = np.broadcast_to(forward.walk.rates[code], panel.n_users)
    if code and not settings.personalised:
        rates = rates * rate
    best_reward, best_error = best
    gained = rates * (promoted * panel.prior_rewards).sum(axis=1)
    organic, organic_error = np.zeros(promoted.shape), 0.0
    if (rates < 1.0).any():
        shares, value = _organic(stage, panel)
        organic = (1.0 - rates)[:, None] * shares
        gained = gained + (1.0 - rates) * value
        organic_error = 0.0 if stage is None else stage.organic_error * (1.0 if settings.personalised else 1.0 - rate)
    sampled, sampled_error = panel.mean(rates)
    loss, loss_error = panel.mean(best_reward - gained)
    time_error = sampled_error / sampled if sampled > 0 else 0.0
    if code and stage is not None:
        own, own_error = (stage.rate, stage.rate_mcse) if settings.personalised else (rate, rate_mcse)
        time_error = max(time_error, own_error / own if own > 0 else 0.0)
    return _Round(
        chances=panel.weights @ (rates[:, None] * promoted + organic),
        organic=panel.weights @ organic,
        regret=loss,
        time_error=time_error,
        regret_error=float(np.sqrt(loss_error**2 + best_error**2 + organic_error**2 + (loss * time_error) ** 2)),
    )


def _organic(stage: StageRates | None, panel: Panel) -> tuple[FloatArray, FloatArray]:
    """Organic shares (P, K) and values (P,) of all users.

    At stages too rare to be planned a user is put on the arm that is best before any data; they hardly count.
    """
    if stage is not None and stage.organic is not None and stage.organic_value is not None:
        return stage.organic, stage.organic_value
    before = best_shares(panel.promoted_by)
    return before, (before * panel.prior_rewards).sum(axis=1)


def _best_rewards(forward: PlannedWalk) -> tuple[FloatArray, float]:
    """E[max over arms of the true mean reward] of each user of the panel, under the users' belief, and the error.

    Sampled is only what the best arm gives beyond the one that is best before any data: of that the mean is known.
    """
    market, panel = forward.market, forward.panel
    worlds = draw_worlds(market.prior, _BEST_DRAWS, rng=generator(forward.settings.seed, Stream.BEST_REWARDS))
    favourite = panel.prior_rewards.argmax(axis=1)
    users = np.arange(panel.n_users)
    beyond = np.empty((_BEST_DRAWS, panel.n_users))
    for start in range(0, _BEST_DRAWS, 100):
        eta = panel.users @ worlds.beta[start : start + 100].swapaxes(1, 2)  # (draws, P, K)
        mean = market.noise.mean_reward(eta)
        beyond[start : start + 100] = mean.max(axis=2) - mean[:, users, favourite]
    error = float((beyond @ panel.weights).std(ddof=1) / np.sqrt(_BEST_DRAWS))
    return panel.prior_rewards[users, favourite] + beyond.mean(axis=0), error


def _is_blocked(forward: PlannedWalk, stage: StageRates) -> bool:
    if not forward.settings.personalised:
        return stage.rate < LEAST_RATE
    return not (stage.rates > 0).any()


def _nearest_at(forward: PlannedWalk, stage: StageRates) -> float:
    """The smallest epsilon at which the stage is no longer blocked."""
    panel, settings = forward.panel, forward.settings
    promoted = promotion_shares(panel.promoted_by, open_arms(stage.code, forward.market.n_arms))
    gap = panel.prior_rewards[:, :, None] - panel.prior_rewards[:, None, :]
    loss = np.where(promoted[:, :, None] > 0, -gap, 0.0).max(axis=(1, 2))  # at this epsilon she is free

    def opens(epsilon: float) -> bool:
        planner = forward.planner
        if not settings.notion.is_per_user:
            return planner.rate_of_all(stage, epsilon=epsilon)[0] >= LEAST_RATE
        assert stage.outlook is not None  # the stage was simulated
        asked = {"code": stage.code, "slack": stage.slack, "epsilon": epsilon}
        found = planner.rates_of(stage.outlook, panel, **asked).rate
        if settings.personalised:
            return bool((found > 0).any())
        looked_for = None if stage.worst is None else panel_of(forward.market, stage.worst)
        worst = np.ones(0) if looked_for is None else planner.rates_of(stage.outlook, looked_for, **asked).rate
        return bool(min(found.min(), worst.min(initial=1.0)) >= LEAST_RATE)

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
    k = forward.market.n_arms
    first = promotion_shares(panel.promoted_by, range(k))
    terms = explored_terms(panel.prior_rewards, first, epsilon=settings.epsilon, notion=settings.notion)
    broken = (terms < 0.0).any(axis=(1, 2))
    for stage in forward.stages.values():
        if stage.outlook is not None:
            broken |= broken_constraints(
                stage.outlook,
                panel.users,
                stage.rates if settings.personalised else np.full(panel.n_users, rate),
                prior_rewards=panel.prior_rewards,
                promoted_by=panel.promoted_by,
                open_arms=open_arms(stage.code, k),
                epsilon=settings.epsilon,
                notion=settings.notion,
            )
    return panel.mean(broken.astype(float))[0]


def _reason(forward: PlannedWalk, *, rate: float, stuck: float, broken: float) -> str:
    arms = forward.market.arms
    if broken > _MOST_BROKEN:
        return (
            f"{percent(broken)} of users would lose more than epsilon by what the platform takes for their best "
            "arm: it believes otherwise than they do. Plan with the users' belief, or allow a larger epsilon."
        )
    if not forward.settings.personalised:
        stage = min(forward.stages.values(), key=lambda part: part.rate)
        names = ", ".join(arms[arm] for arm in arms_of(stage.code))
        return f"Once {names} is saturated {_why_blocked(forward, stage)}"
    blocked = [stage for stage in forward.stages.values() if _is_blocked(forward, stage)]
    if not blocked:
        return f"{percent(stuck)} of cold starts reach a stage at which nobody can be explored."
    names = ", ".join(arms[arm] for arm in arms_of(blocked[0].code))
    return f"Once {names} is saturated ({percent(stuck)} of cold starts end there) {_why_blocked(forward, blocked[0])}"


def _why_blocked(forward: PlannedWalk, stage: StageRates) -> str:
    """Whether no rate would do, or these worlds cannot certify one, and how many could."""
    n = forward.settings.n_worlds
    one = not forward.settings.personalised
    if stage.ideal < LEAST_RATE or not np.isfinite(stage.worlds_needed):
        who = "some users cannot be explored, and one rate must suit all" if one else "no user can be explored"
        return (
            f"{who}: in none of {n:,} worlds, or hardly any, do the data speak for the arm promoted to them, and "
            "exploration has nothing to hide among."
        )
    # At four times the worlds that certify more than nothing, about half of the point estimate is certified.
    what = "the one rate that suits all" if one else "a rate for anybody"
    return (
        f"{what} is not certified: the point estimates allow about {stage.ideal:.2g}, and {n:,} worlds do not tell "
        "that from 0. "
        f"About {_round_up(4.0 * stage.worlds_needed):,} worlds (n_worlds, audit_worlds) would certify half of it."
    )


def _notes(forward: PlannedWalk, *, stuck: float) -> tuple[str, ...]:
    notes = []
    if 0 < stuck <= _MOST_STUCK:
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
    paths, n_arms = forward.walk.paths, forward.market.n_arms
    planned = [code in forward.stages for code in paths.codes]
    passed = paths.sets[1:n_arms]
    return float((~np.append(planned, True)[passed]).mean()) if passed.size else 0.0  # the last place is STUCK's
