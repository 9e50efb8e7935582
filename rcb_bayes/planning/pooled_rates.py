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
from rcb_bayes.mechanism.level_rates import LevelRates
from rcb_bayes.mechanism.programme import priced, settled
from rcb_bayes.mechanism.simulator import ColdStarts
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.planning.goal import PlanRequest
from rcb_bayes.planning.stage_rates import PlannedWalk, RatePlanner, StageRates
from rcb_bayes.planning.stages import LaterWorlds, Programme, forms_of
from rcb_bayes.schema import FloatArray

_PASSES = 3  # walks, each with the shares that the one before leads to
_PROGRAMME_USERS = 256

Later = Callable[[PlannedWalk], LaterWorlds | None]
"""Exploitation after a cold start, where users cannot tell the two apart."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledWalk:
    """A cold start walked to its end with raised rates, and what raises them; None where nothing is to be raised."""

    walked: PlannedWalk
    programme: Programme | None


def pooled_walk(market: Market, settings: PlanRequest, *, later: Later | None = None) -> PooledWalk:
    """Walk through the cold start, with rates raised by what users cannot tell apart.

    Raises
    ------
    RcbError
        One rate for all users.
    """
    if not settings.personalised or not market.noise.is_gaussian:
        raise RcbError(
            f"A plan for users who know '{settings.knows}' of the clock has a rate for each user and Gaussian rewards. "
            "Use personalised=True, or knows='level'."
        )
    shares: dict[int, FloatArray] = {}
    for turn in range(_PASSES):
        planner = RatePlanner(market, settings, raised=shares)
        forward = PlannedWalk(settings=settings, walk=planner.walked(), planner=planner)
        levels = [level for level, stage in forward.stages.items() if stage.found is not None]
        if not levels or not forward.walk.ended.any():
            return PooledWalk(walked=forward, programme=None)
        try:
            programme, found = _programme(forward, levels, None if later is None else later(forward))
        except RcbError:  # no answer: what each level pays for by itself holds for users who know less, too
            planner = RatePlanner(market, settings, raised={})
            return PooledWalk(
                walked=PlannedWalk(settings=settings, walk=planner.walked(), planner=planner), programme=None
            )
        shares = dict(zip(levels, found.T, strict=True))
        if turn == _PASSES - 1:
            return PooledWalk(walked=_as_raised(forward, shares), programme=programme)
    raise AssertionError("unreachable")


def _as_raised(forward: PlannedWalk, shares: Mapping[int, FloatArray]) -> PlannedWalk:
    """The cold start walked once more, with the raised rates in force."""
    for level, stage in forward.stages.items():
        _raise(forward, stage, shares.get(level))
    n = forward.settings.n_per_arm
    walked = forward.simulator.walk_by_level(lambda so_far, level: _by_arm(forward, level), n_per_arm=n)
    return replace(forward, walk=walked)


def _programme(forward: PlannedWalk, levels: list[int], later: LaterWorlds | None) -> tuple[Programme, FloatArray]:
    """The programme of a walk, and the shares by which it raises the rates of the panel's users, (P, L)."""
    panel, walked, goal = forward.panel, forward.walk, forward.settings.goal
    found = [_of_level(forward.stages[level]) for level in levels]
    rounds, samples = _usual(walked, rng=forward.simulator.rng(Stream.ROUNDS))
    at = np.array(levels)
    left = None if later is None else later.rounds * later.forms(panel.users, goal=goal)
    forms = forms_of(
        found, panel.prior_rewards, panel.promoted_by, goal=goal, first_rounds=float(rounds[0]), later=left
    )
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
    found = forward.planner.level_rates_of(stage, forward.panel, slack=stage.slack, by_arm=by_arm)
    stage.found, stage.rates = found, found.rate
    stage.organic_value = found.organic_value
    stage.rate = forward.panel.mean(found.rate)[0]


def _by_arm(forward: PlannedWalk, level: int) -> FloatArray | float:
    stage = forward.stages.get(level)
    return 1.0 if stage is None else stage.by_arm
