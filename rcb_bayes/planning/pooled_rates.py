"""Plans for users who know less than the level: a level by level plan, raised by what other levels and epochs leave.

The rates of each level are computed first as if users knew it, with the law of data that the walk gives. A linear
programme then raises them (``mechanism.programme``). Raised rates change who is sampled, and so the law: the walk is
simulated again with them in force, a few times.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import first_chances
from rcb_bayes.mechanism.level_rates import LevelRates
from rcb_bayes.mechanism.programme import NoAnswer, priced, settled
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.planning.goal import PlanRequest
from rcb_bayes.planning.level_planner import LevelPlanner
from rcb_bayes.planning.planned_walk import PlannedWalk
from rcb_bayes.planning.stage_rates import StageRates
from rcb_bayes.planning.stages import LaterWorlds, Programme, forms_of
from rcb_bayes.schema import FloatArray

_PASSES = 3  # walks, each with the shares that the one before leads to
_PROGRAMME_USERS = 256
_START = 0.05  # by which rates are raised at first, where cold starts do not end without

Later = Callable[[PlannedWalk], LaterWorlds | None]
"""Exploitation after a cold start, where users cannot tell the two apart."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledWalk:
    """A cold start walked to its end with raised rates, and what raises them; None where nothing is to be raised."""

    walked: PlannedWalk
    programme: Programme | None


def pooled_walk(
    market: Market, settings: PlanRequest, *, later: Later | None = None, simulator: Simulator | None = None
) -> PooledWalk:
    """Walk through the cold start, with rates raised by what users cannot tell apart; see ``plan_walk``.

    Raises
    ------
    RcbError
        One rate for all users.
    """
    if not settings.personalised or not market.noise.is_gaussian:
        raise RcbError(
            f"knows='{settings.knows}' needs a rate for each user and Gaussian rewards. Use personalised=True, or "
            "knows='level'."
        )
    planner = LevelPlanner(market, settings, simulator=simulator)
    first = forward = PlannedWalk(settings=settings, walk=planner.walked(), planner=planner)
    unraised = PooledWalk(walked=first, programme=None)
    shares: dict[int, FloatArray] = {}
    if not forward.walk.ended.any():  # what no level pays for by itself, others may
        levels = range(max(planner.agenda.first_level, 1), planner.agenda.n_levels)
        shares = {level: np.full(forward.panel.n_users, _START) for level in levels}
        forward = _walked_again(market, settings, shares, simulator)
    for turn in range(_PASSES):
        forward = forward if turn == 0 else _walked_again(market, settings, shares, simulator)
        levels = [level for level, stage in forward.stages.items() if stage.found is not None]
        if not levels or not forward.walk.ended.any():
            return unraised
        try:
            programme, found = _programme(forward, levels, None if later is None else later(forward))
        except NoAnswer:
            return unraised
        shares = dict(zip(levels, found.T, strict=True))
        if turn < _PASSES - 1:
            continue
        raised = _as_raised(forward, shares)
        # Rates raised at one level change who is sampled, and may cost another more than they gain.
        if _length(raised.walk, forward) < _length(first.walk, forward):
            return PooledWalk(walked=raised, programme=programme)
    return unraised


def _as_raised(forward: PlannedWalk, shares: Mapping[int, FloatArray]) -> PlannedWalk:
    """The cold start walked once more, with the raised rates in force."""
    for level, stage in forward.stages.items():
        _raise(forward, stage, shares.get(level))
    planner = forward.planner
    walked = forward.simulator.walk_by_level(
        lambda so_far, level: _by_arm(forward, level), n_per_arm=planner.agenda, first=planner.first
    )
    return replace(forward, walk=walked)


def _walked_again(
    market: Market, settings: PlanRequest, shares: dict[int, FloatArray], simulator: Simulator | None
) -> PlannedWalk:
    planner = LevelPlanner(market, settings, raised=shares, simulator=simulator)
    return PlannedWalk(settings=settings, walk=planner.walked(), planner=planner)


def _length(walked: ColdStarts, forward: PlannedWalk) -> float:
    """Rounds of a cold start on average; infinite where some do not end."""
    return float(walked.rounds(rng=forward.simulator.rng(Stream.ROUNDS)).sum(axis=0).mean())


def _programme(forward: PlannedWalk, levels: list[int], later: LaterWorlds | None) -> tuple[Programme, FloatArray]:
    """The programme of a walk, and the shares by which it raises the rates of the panel's users, (P, L)."""
    panel, walked, goal = forward.panel, forward.walk, forward.settings.goal
    found = [_of_level(forward.stages[level]) for level in levels]
    rounds, samples = _usual(walked, rng=forward.simulator.rng(Stream.ROUNDS))
    at = np.array(levels)
    agenda = walked.agenda
    left = None if later is None else later.rounds * later.forms(panel.users, goal=goal, agenda=agenda)
    first = first_chances(agenda, panel.promoted_by, forward.planner.first)
    forms = forms_of(found, panel.prior_rewards, first, goal=goal, first_rounds=float(rounds[0]), later=left)
    some, weights = panel.some(_PROGRAMME_USERS, rng=forward.simulator.rng(Stream.PROGRAMME_USERS))
    prices = priced(forms.at(some), weights, samples[at], rounds=rounds[at])
    prices, shares = settled(forms, panel.weights, samples[at], prices)
    made = Programme(
        levels=tuple(levels),
        rounds=prices.rounds,
        worth=prices.worth,
        first_rounds=float(rounds[0]),
        later=later,
    )
    return made, shares


def _of_level(stage: StageRates) -> LevelRates:
    assert stage.found is not None  # asked for where it is
    return stage.found


def _usual(walked: ColdStarts, *, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Rounds and samples of each level, on average over cold starts that end, (K,) each."""
    ends = walked.ended
    rounds = walked.rounds(rng=rng)[:, ends].mean(axis=1)
    samples = np.array([walked.n_samples(level)[ends].mean() for level in range(walked.n_levels)])
    return rounds, samples


def _raise(forward: PlannedWalk, stage: StageRates, share: FloatArray | None) -> None:
    """Enter the rates of a level as they are raised."""
    if stage.found is None or share is None:
        return
    by_arm = stage.found.by_arm + share[:, None] * (stage.found.most - stage.found.by_arm)
    assert isinstance(forward.planner, LevelPlanner)  # stages are levels
    found = forward.planner.level_rates_of(stage, forward.panel, slack=stage.slack, by_arm=by_arm)
    stage.found, stage.rates = found, found.rate
    stage.organic_value = found.organic_value
    stage.rate = forward.panel.mean(found.rate)[0]


def _by_arm(forward: PlannedWalk, level: int) -> FloatArray | float:
    stage = forward.stages.get(level)
    return 1.0 if stage is None else stage.by_arm
