"""The course of a simulated cold start: its length, pulls, regret and coverage, and who is explored in it."""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.mechanism.level_rates import LevelRates
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.walk import Walk, arms_of
from rcb_bayes.mechanism.worlds import Design, draw_worlds
from rcb_bayes.planning.parts import Course
from rcb_bayes.planning.planned_walk import PlannedWalk
from rcb_bayes.planning.stage_rates import StageRates
from rcb_bayes.schema import FloatArray

MOST_STUCK = 0.01  # of cold starts
USUAL_STAGE = 0.05  # of cold starts that pass a stage, for it to count in who is explored
_BEST_DRAWS = 1000
_COVERAGE_PATHS = 1000


def course_of(forward: PlannedWalk, *, rate: float, rate_mcse: float, roughly: bool = False) -> Course:
    """How a simulated cold start goes, at an overall rate with its error; ``roughly`` leaves out the coverage."""
    coverage, coverage_mcse = ((), ()) if roughly else _coverage(forward)
    share_explored, share_free = _shares_of_users(forward, rate)
    return replace(
        _rounds_course(forward, rate=rate, rate_mcse=rate_mcse),
        coverage=coverage,
        coverage_mcse=coverage_mcse,
        share_explored=share_explored,
        share_free=share_free,
    )


def _shares_of_users(forward: PlannedWalk, rate: float) -> tuple[float, float]:
    """Users who are explored at some usual stage, and users who need no subsidy, averaged over stages."""
    stages = list(forward.stages.values())
    if not stages:
        return 1.0, 1.0
    passed = np.array([stage.share for stage in stages])
    passed = passed / passed.sum()
    free = passed @ [stage.is_free.astype(float) for stage in stages]  # (P,): how often each user needs no subsidy
    usual = [stage for stage in stages if stage.share >= USUAL_STAGE] or stages
    explored = np.any([stage.rates > 0 for stage in usual], axis=0)
    panel = forward.panel
    share_explored = panel.mean(explored.astype(float))[0] if forward.settings.personalised else float(rate > 0)
    return share_explored, panel.mean(free)[0]


def _coverage(forward: PlannedWalk) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Each arm's smallest eigenvalue of X'X/N over cold starts that saturate it, with errors; NaN where none does."""
    walked, n, past = forward.walk, forward.walk.agenda.totals, forward.market.past
    means, errors = np.full((2, forward.market.n_arms), np.nan)
    for arm in range(forward.market.n_arms):
        rng = generator(forward.settings.seed, Stream.COVERAGE, arm)
        some = np.flatnonzero(walked.has(arm))[:_COVERAGE_PATHS]
        if len(some) < 2:
            continue
        least = np.empty(len(some))
        for start in range(0, len(some), 100):
            rows = slice(start, start + 100)
            x = forward.panel.users[walked.design(some[rows], arm, rng=rng)]
            design = Design(some[rows], x, past=None if past is None else past.users_of(arm))
            least[rows] = np.maximum(np.linalg.eigvalsh(design.grams() / n[arm])[:, 0], 0.0)
        means[arm], errors[arm] = least.mean(), least.std(ddof=1) / np.sqrt(len(some))
    return _floats(_among_alike(means, forward)), _floats(_among_alike(errors, forward))


def _among_alike(values: FloatArray, forward: PlannedWalk) -> FloatArray:
    """Figures of each arm, (..., K), averaged over arms that are alike: paths name those in the order they fill up."""
    out = values.copy()
    for arms in forward.simulator.alike(forward.walk.agenda):
        known = [arm for arm in arms if not np.isnan(values[..., arm]).any()]
        if known:
            out[..., list(arms)] = values[..., known].mean(axis=-1, keepdims=True)
    return out


def _floats(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _rounds_course(forward: PlannedWalk, *, rate: float, rate_mcse: float) -> Course:
    """Length, pulls and regret of the cold start, with errors; infinite where it does not end."""
    k, personalised = forward.market.n_arms, forward.settings.personalised
    rng = generator(forward.settings.seed, Stream.ROUNDS)
    walked = forward.walk
    ends = walked.ended
    if ends.mean() < 1.0 - MOST_STUCK or (not personalised and rate <= 0):
        return _endless(k)
    rounds = walked.rounds(thinning=1.0 if personalised else rate, rng=rng)
    best = _best_rewards(forward)
    pulls, regret = np.zeros((walked.n_paths, k)), np.zeros(walked.n_paths)
    drift = np.zeros(2 + k)  # errors that more paths do not average out: how far plans of other seeds are
    influence = np.zeros(forward.panel.n_users)  # of each user of the panel on the length
    for level in range(walked.agenda.first_level, walked.agenda.n_levels):
        for place in _places(forward, level):
            here = place.members[ends[place.members]]
            one = _per_round(forward, place, (rate, rate_mcse), best)
            pulls[here] += rounds[level, here, None] * one.chances
            regret[here] += rounds[level, here] * one.regret
            total = rounds[level, here].sum() / ends.sum()
            # Explored pulls are counted and do not depend on how long it takes; organic ones do.
            drift += total * np.array([one.time_error, one.regret_error, *(one.time_error * one.organic)])
            influence += total * one.sampled
    length, regret, pulls = rounds[:, ends].sum(axis=0), regret[ends], _among_alike(pulls[ends], forward)
    n = np.sqrt(len(length))
    of_paths = length.std(ddof=1) / n
    pulls_error = np.hypot(pulls.std(axis=0, ddof=1) / n, _among_alike(drift[2:], forward))
    return Course(
        expected_cold_start=float(length.mean()),
        expected_cold_start_mcse=float(np.hypot(of_paths, forward.panel.mean(influence)[1])),
        cold_start_scatter=float(np.hypot(of_paths, drift[0])),
        expected_pulls=_floats(pulls.mean(axis=0)),
        expected_pulls_mcse=_floats(pulls_error),
        expected_regret=float(regret.mean()),
        expected_regret_mcse=float(np.hypot(regret.std(ddof=1) / n, drift[1])),
    )


def _endless(n_arms: int) -> Course:
    return Course(
        expected_cold_start=np.inf,
        expected_cold_start_mcse=0.0,
        expected_pulls=(np.inf,) * n_arms,
        expected_pulls_mcse=(0.0,) * n_arms,
        expected_regret=np.inf,
        expected_regret_mcse=0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Round:
    """A round of one stage: how often it goes to each arm, in all and organically, (K,), and its expected regret.

    ``sampled`` is how often it brings a sample of each user, as a share of the average, (P,). ``time_error`` is
    relative: that of this average, from the users of the panel and from the worlds that the rates were computed in.
    """

    sampled: FloatArray
    chances: FloatArray
    organic: FloatArray
    regret: float
    time_error: float
    regret_error: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Place:
    """Paths that stand at one stage of a level: what is promoted there, (P, K), and at which rates, (P,) or of all."""

    level: int
    members: np.ndarray
    promoted: FloatArray
    rates: FloatArray | float
    stage: StageRates | None


def _places(forward: PlannedWalk, level: int) -> list[_Place]:
    """The stages of a level.

    One that only counts arms is an average over its sets by the rounds spent there; times the average of these rounds
    that is what its paths come to, on average over them.
    """
    walked, panel = forward.walk, forward.panel
    if level and forward.settings.knows != STAGE.name:
        stage, members = forward.stages[level], walked.at(level)
        rates = stage.rates if forward.settings.personalised else 1.0
        return [_Place(level=level, members=members, promoted=stage.promoted, rates=rates, stage=stage)]
    if level == 0:
        promoted = promotion_shares(panel.promoted_by, walked.agenda.open_arms(()))
        return [_Place(level=0, members=walked.at(0), promoted=promoted, rates=forward.planner.first, stage=None)]
    assert isinstance(walked, Walk)  # sets are known one by one
    return [
        _Place(
            level=level,
            members=members,
            promoted=promotion_shares(panel.promoted_by, walked.agenda.open_arms(arms_of(code))),
            rates=walked.rates[code],
            stage=forward.stages.get(code),
        )
        for code, members in walked.paths.members(level).items()
    ]


def _per_round(
    forward: PlannedWalk, place: _Place, one_rate: tuple[float, float], best: tuple[FloatArray, float]
) -> _Round:
    panel, settings = forward.panel, forward.settings
    rate, rate_mcse = one_rate
    stage, promoted = place.stage, place.promoted
    rates = np.broadcast_to(place.rates, panel.n_users)
    if place.level and not settings.personalised:
        rates = rates * rate
    best_reward, best_error = best
    if stage is not None and stage.found is not None:
        return _per_round_of_level(forward, stage, stage.found, best)
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
    if place.level and stage is not None:
        stage_rate, error = (stage.rate, stage.rate_mcse) if settings.personalised else (rate, rate_mcse)
        time_error = max(time_error, error / stage_rate if stage_rate > 0 else 0.0)
    return _Round(
        sampled=rates / sampled if sampled > 0 else rates,
        chances=panel.weights @ (rates[:, None] * promoted + organic),
        organic=panel.weights @ organic,
        regret=loss,
        time_error=time_error,
        regret_error=float(np.sqrt(loss_error**2 + best_error**2 + organic_error**2 + (loss * time_error) ** 2)),
    )


def _per_round_of_level(
    forward: PlannedWalk, stage: StageRates, found: LevelRates, best: tuple[FloatArray, float]
) -> _Round:
    """The same where rates are by promoted arm: all is averaged over the level's worlds already."""
    panel = forward.panel
    best_reward, best_error = best
    gained = (found.explored * panel.prior_rewards).sum(axis=1) + found.organic_value
    loss, loss_error = panel.mean(best_reward - gained)
    sampled, sampled_error = panel.mean(found.rate)
    time_error = max(sampled_error, stage.rate_mcse) / sampled if sampled > 0 else 0.0
    return _Round(
        sampled=found.rate / sampled if sampled > 0 else found.rate,
        chances=panel.weights @ (found.explored + found.organic),
        organic=panel.weights @ found.organic,
        regret=loss,
        time_error=time_error,
        regret_error=float(np.sqrt(loss_error**2 + best_error**2 + (loss * time_error) ** 2)),
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
        eta = worlds.beta[start : start + 100].swapaxes(0, 1) @ panel.users.T  # (K, draws, P)
        mean = market.noise.mean_reward(eta)
        beyond[start : start + 100] = mean.max(axis=0) - np.take_along_axis(mean, favourite[None, None], axis=0)[0]
    error = float((beyond @ panel.weights).std(ddof=1) / np.sqrt(_BEST_DRAWS))
    return panel.prior_rewards[users, favourite] + beyond.mean(axis=0), error
