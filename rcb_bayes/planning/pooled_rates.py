"""Plans for users who know less than the level: a level by level plan, raised by what other levels and epochs leave.

The rates of each level are computed first as if users knew it, with the law of data that the walk gives. A linear
programme then raises them (``mechanism.programme``). Raised rates change who is sampled, and so the law: the walk is
simulated again with them in force, a few times.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import first_chances
from rcb_bayes.mechanism.level_rates import LevelRates
from rcb_bayes.mechanism.programme import NoAnswer, priced, settled
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.planning.course import MOST_STUCK
from rcb_bayes.planning.goal import PlanRequest
from rcb_bayes.planning.level_planner import LevelPlanner
from rcb_bayes.planning.planned_walk import PlannedWalk
from rcb_bayes.planning.stage_rates import StageRates
from rcb_bayes.planning.stages import COUNTED, COUNTED_OF_ALL, LaterWorlds, Programme, forms_of
from rcb_bayes.schema import FloatArray

_PASSES = 3  # walks, each with the shares that the one before leads to
_PROGRAMME_USERS = 256
_CLEARLY = 0.97  # of a length among users of whom a panel is a sample
_ENOUGH = 1.01  # of the length with everybody explored who ever is
_STARTS = (0.0, 0.05, 1.0)  # by which rates are raised at first; by nothing where cold starts end without

Later = Callable[[PlannedWalk], LaterWorlds | None]
"""Exploitation after a cold start, where users cannot tell the two apart."""


def pooled_walk(
    market: Market, settings: PlanRequest, *, later: Later | None = None, simulator: Simulator | None = None
) -> PlannedWalk:
    """Walk through the cold start, with rates raised by what users cannot tell apart; see ``plan_walk``.

    The programme starts from several walks: that of users who know the level, and one with everybody always explored.
    From slow rates alone little is left of the horizon to pay for faster ones.

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
    first = _walked_again(market, settings, {}, simulator)
    levels = range(max(first.walk.agenda.first_level, 1), first.walk.agenda.n_levels)
    best = first
    for start in _STARTS[0 if first.walk.ended.any() else 1 :]:
        shares = {level: np.full(first.panel.n_users, start) for level in levels}
        forward = _walked_again(market, settings, shares, simulator) if start else first
        if forward is not first and _length(best) <= _ENOUGH * _length(forward):
            break
        # Rates raised at one level change who is sampled, and may cost another more than they gain.
        best = shorter(best, _raised(market, settings, forward, later=later, simulator=simulator))
    if best is first and later is not None and first.simulator.engines.platform is not None:
        first.later = later(first)
    return best


def shorter(one: PlannedWalk, other: PlannedWalk | None, *, clearly: bool = False) -> PlannedWalk:
    """The one whose cold start is shorter on average; the first of two that are as long.

    ``clearly`` asks for a difference that other users than the panel's do not undo.
    """
    most = _CLEARLY if clearly and not one.panel.is_exact else 1.0
    return one if other is None or _length(other) >= most * _length(one) else other


def _raised(
    market: Market, settings: PlanRequest, forward: PlannedWalk, *, later: Later | None, simulator: Simulator | None
) -> PlannedWalk | None:
    """Rates and the rounds they lead to, found in turns from a walk on; None where nothing is to be raised."""
    shares: dict[int, FloatArray] = {}
    programme: Programme | None = None
    for turn in range(_PASSES):
        if turn:
            forward = _walked_again(market, settings, shares, simulator)
        levels = [level for level, stage in forward.stages.items() if stage.found is not None]
        if not levels or not forward.walk.ended.any():
            return None
        try:
            programme, found = _programme(forward, levels, None if later is None else later(forward))
        except NoAnswer:
            return None
        shares = dict(zip(levels, found.T, strict=True))
    raised = _as_raised(forward, shares)
    return replace(raised, programme=programme, later=None if programme is None else programme.later)


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


def _length(forward: PlannedWalk) -> float:
    """Rounds of a cold start on average; infinite where more than a few do not end."""
    ended = forward.walk.ended
    if ended.mean() < 1.0 - MOST_STUCK:
        return np.inf
    return float(forward.walk.rounds(rng=forward.simulator.rng(Stream.ROUNDS))[:, ended].sum(axis=0).mean())


def _programme(forward: PlannedWalk, levels: list[int], later: LaterWorlds | None) -> tuple[Programme, FloatArray]:
    """The programme of a walk, and the shares by which it raises the rates of the panel's users, (P, L)."""
    panel, walked, goal = forward.panel, forward.walk, forward.settings.goal
    found = [_of_level(forward.stages[level]) for level in levels]
    rounds, samples = usual(walked, rng=forward.simulator.rng(Stream.ROUNDS))
    at = np.array(levels)
    agenda = walked.agenda
    left = None if later is None else later.rounds * later.forms(panel.users, goal=goal, agenda=agenda)
    first = first_chances(agenda, panel.promoted_by, forward.planner.first)
    counted = COUNTED_OF_ALL if panel.is_exact else COUNTED
    told = {"first_rounds": float(rounds[0]), "later": left, "counted": counted}
    forms = forms_of(found, panel.prior_rewards, first, goal=goal, **told)
    some, weights = panel.some(_PROGRAMME_USERS, rng=forward.simulator.rng(Stream.PROGRAMME_USERS))
    prices = priced(forms.at(some), weights, samples[at], rounds=rounds[at])
    prices, shares = settled(forms, panel.weights, samples[at], prices)
    made = Programme(
        levels=tuple(levels),
        rounds=prices.rounds,
        worth=prices.worth,
        first_rounds=float(rounds[0]),
        later=later,
        counted=counted,
    )
    return made, shares


def _of_level(stage: StageRates) -> LevelRates:
    assert stage.found is not None  # asked for where it is
    return stage.found


def usual(walked: ColdStarts, *, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
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
    stage.rate_mcse *= float(forward.panel.weights @ (1.0 - share))  # what is raised to 1 has no error left


def _by_arm(forward: PlannedWalk, level: int) -> FloatArray | float:
    stage = forward.stages.get(level)
    return 1.0 if stage is None else stage.by_arm
