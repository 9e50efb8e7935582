r"""A plan as an audit looks at it: its cold start under its own rates, its exploitation under its own guard.

All worlds go side by side: rates, guards and the kernel are known functions of x, and the rewards of a stage are drawn
as sums given its users. How long each stage of a cold start takes is drawn, too: what a run does not get to before the
horizon is not looked at, and what it does get to is, however long others take.
"""

from collections.abc import Callable, Hashable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rcb_bayes.auditing.averaging import Fixed, averages_of, fixed_mean
from rcb_bayes.auditing.guards import RememberedGuards, RememberedRates
from rcb_bayes.auditing.pooled_views import LevelLooks, Part, exploitation_part, level_part, pooled, rounds_before
from rcb_bayes.auditing.search import SEARCH_WORLDS, ViewOf, worst_in
from rcb_bayes.auditing.seats import SeatsOf, seats_of
from rcb_bayes.auditing.sharpening import smoothed_stage
from rcb_bayes.auditing.view import Asked, Crowd, Look, Looked, View, as_it_is, make_crowd
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import first_chances
from rcb_bayes.mechanism.choice import best_shares, is_best, promotion_shares
from rcb_bayes.mechanism.epoch import epochs_from
from rcb_bayes.mechanism.epoch_worlds import EpochWorlds, begin_exploitation
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import LEVEL, PHASE, STAGE, Moment
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.promotion import by_weight, rare_sets_too
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.mechanism.streams import Stream, derived_seed
from rcb_bayes.mechanism.walk import Walk, arms_of
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track
from rcb_bayes.telling.wording import percent

_LEAST_SHARE = 0.01  # of runs that are at a stage before the horizon, for it to be audited
_FEWEST_WORLDS = 50
_MOST_TIMES = 8.0  # as many worlds as a stage has, for all levels of a cold start together
_COMERS = 256  # users of each world's own in a long epoch
_STILL_THERE = 0.9  # of the worlds of an epoch that get to the next; fewer are drawn anew


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """A plan's cold start; ``begins`` are rounds after which each level begins, and the cold start ends, (K + 1, R).

    What fewer than ``fewest`` paths get to is not looked at.
    """

    simulator: Simulator
    walk: ColdStarts
    plan: Plan
    crowd: Crowd
    asked: Asked
    horizon: int
    begins: FloatArray
    seats: SeatsOf
    fewest: float

    @property
    def market(self) -> Market:
        return self.simulator.market

    @property
    def n_worlds(self) -> int:
        """Worlds of a view: those that worst users are looked for in, and those that they are judged in."""
        return self.asked.n_worlds + SEARCH_WORLDS

    def first(self, seats: Panel) -> FloatArray:
        """Chances of each arm while none is saturated, (U, K)."""
        agenda = self.walk.agenda
        rates = 1.0 if agenda.is_plain else self.plan.rate(seats.users.astype(float), saturated=())
        return first_chances(agenda, seats.promoted_by, rates)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Look:
    """What users can tell of a run, as any of them sees it; ``share`` of runs that get there, where views do not say.

    ``explored`` are the chances that do not depend on rewards, where they are the same for all.
    """

    moment: Moment
    view_of: ViewOf
    explored: Fixed | None = None
    share: float | None = None
    is_first: bool = False


def plan_views(
    market: Market, plan: Plan, asked: Asked, *, horizon: int, options: Exploiting, look: Look = as_it_is
) -> Looked:
    """The first phase, and every stage and epoch that runs get to before the horizon often enough.

    ``look`` makes of each view what is kept of it.
    """
    run = _run(market, plan, asked, horizon=horizon)
    views = [look(view) for view in _views(run, options)]
    counts = run.simulator.engines.counts
    return Looked(
        crowd=run.crowd,
        views=views,
        notes=_unfinished(run),
        n_posteriors=counts.n_fitted,
        n_not_vouched=counts.n_not_vouched,
    )


def views_for_anybody(
    market: Market, plan: Plan, asked: Asked, *, horizon: int, options: Exploiting
) -> dict[Hashable, ViewOf]:
    """The same views, for any users: by what can be told of a moment (``Knowledge.key``), and however rare it is.

    Arms keep their names.
    """
    run = _run(market, plan, asked, horizon=horizon, anybody=True)
    return {asked.knows.key(at.moment): at.view_of for at in _looks(run, options)}


def _run(market: Market, plan: Plan, asked: Asked, *, horizon: int, anybody: bool = False) -> _Run:
    plan = plan.by_features
    simulator = Simulator(market, seed=derived_seed(asked.seed, Stream.AUDIT))
    walked = simulator.walk_under(plan, knows=asked.knows, names=anybody)
    rounds = walked.rounds(rng=simulator.rng(Stream.AUDITED_ROUNDS))
    return _Run(
        simulator=simulator,
        walk=walked,
        plan=plan,
        crowd=make_crowd(market, simulator.panel, asked, rng=simulator.rng(Stream.JUDGED_USERS)),
        asked=asked,
        horizon=horizon,
        begins=np.vstack([np.zeros(rounds.shape[1]), np.cumsum(rounds, axis=0)]),
        seats=seats_of(market, simulator.panel),
        fewest=1.0 if anybody else max(1.0, _LEAST_SHARE * walked.n_paths),
    )


def _views(run: _Run, options: Exploiting) -> Iterator[View]:
    """One view for all that users can tell apart, judged."""
    for at in _looks(run, options):
        if at.is_first:
            yield _judged_first(run, at.view_of)
        else:
            view = _judged(run, at.view_of, explored=at.explored)
            yield view if at.share is None else replace(view, share=at.share)


def _looks(run: _Run, options: Exploiting) -> Iterator[_Look]:
    """All that users can tell apart, for any of them."""
    knows, arms = run.asked.knows, run.market.arms
    if (knows is STAGE or knows is LEVEL) and not run.walk.agenda.first_level:
        yield _first_phase(run)
    if knows is STAGE:
        for code, members in track(_stages(run), description="stages"):
            yield _stage(run, code, members)
    elif knows is LEVEL:
        for part in track(_level_parts(run), description="levels"):
            level, share, make = part
            moment = Moment(saturated=tuple(range(level)))
            view_of = pooled([make(run.n_worlds)], run.seats, name=knows.label(moment, arms), share=share)
            yield _Look(moment=moment, view_of=view_of)
    if knows is STAGE or knows is LEVEL:
        yield from _epoch_looks(run, options)
        return
    cold, after = _cold_parts(run), _exploitation(run, options)
    groups = [cold, after] if knows is PHASE else [[*cold, *after]]
    for group, moment in zip(groups, (Moment(), Moment(epoch=0)), strict=False):
        if group and all(part.moving is None for part in group):  # nothing but the most popular arm before the horizon
            yield _first_phase(run)
        elif group:
            yield _Look(moment=moment, view_of=pooled(group, run.seats, name=knows.label(moment, arms), share=1.0))


def _unfinished(run: _Run) -> tuple[str, ...]:
    share = float((run.begins[-1] >= run.horizon).mean())
    if share < _LEAST_SHARE:
        return ()
    return (f"{percent(share)} of runs are still in the cold start when the horizon ends",)


# --- the cold start --------------------------------------------------------------------------------------------------


def _stages(run: _Run) -> list[tuple[int, np.ndarray]]:
    """Saturated sets that runs get to before the horizon, and which of them do."""
    stages = []
    assert isinstance(run.walk, Walk)  # sets are followed one by one
    agenda = run.walk.agenda
    for level in range(max(agenda.first_level, 1), agenda.n_levels):
        there = run.begins[level] < run.horizon
        for code, some in run.walk.paths.members(level).items():
            members = some[there[some]]
            if len(members) >= run.fewest:
                stages.append((code, members))
    return stages


def _first_phase(run: _Run) -> _Look:
    """The most popular arm's phase: everybody gets the arm that the platform's prior means put first."""
    market, knows = run.market, run.asked.knows
    label = (STAGE if knows is LEVEL else knows).label(Moment(), market.arms)

    def view(users: FloatArray, worlds: slice) -> View:
        seats = run.seats(users)
        two = np.ones(2)  # worlds, all alike
        chances = run.first(seats).T[:, :, None] * two
        return View(
            name=label,
            chances=chances,
            rewards=seats.prior_rewards.T[:, :, None] * two,
            prior_rewards=seats.prior_rewards,
            best=best_shares(seats.promoted_by).T[:, :, None] * two,
        )

    return _Look(moment=Moment(), view_of=view, is_first=True)


def _level_parts(run: _Run) -> list[tuple[int, float, Callable[[int], Part]]]:
    """Levels that runs get to before the horizon, the share of runs that do, and what makes a part of each."""
    looks = LevelLooks(run.plan, run.market, run.seats)
    spent = rounds_before(run.begins, run.horizon)  # (K, R)
    found = []
    for level in range(1, run.walk.agenda.n_levels):
        there = np.flatnonzero(np.nan_to_num(spent[level]) > 0)
        if len(there) >= run.fewest:
            found.append(
                (level, len(there) / run.walk.n_paths, partial(_level, run, looks, level, there, spent[level]))
            )
    return found


def _level(run: _Run, looks: LevelLooks, level: int, there: np.ndarray, spent: FloatArray, n_worlds: int) -> Part:
    """A level of the cold start, in worlds whose paths are met there as often as users meet them.

    No set is left out, however rare: an arm that is promoted to somebody in a rare set only has all of its mass there.
    """
    key, saturated = (0, level), run.walk.saturated(level, there)
    rng = run.simulator.rng(Stream.PATHS_OF_WORLDS, *key)
    judged = run.simulator.worlds_of_level(run.walk, saturated, n_worlds - SEARCH_WORLDS)
    chosen, weights = rare_sets_too(saturated, spent[there], n_worlds=judged + SEARCH_WORLDS, rng=rng)
    outlook = run.simulator.outlook(run.walk, there[chosen], level=level, key=key)
    return level_part(
        looks,
        outlook.weighted(weights),
        level=level,
        rounds=float(spent[there].sum() / run.walk.n_paths),
        saturated=saturated,
        spent=spent[there],
        chosen=chosen,
    )


def _cold_parts(run: _Run) -> list[Part]:
    """The whole cold start, level by level; many levels have fewer worlds each."""
    spent = rounds_before(run.begins, run.horizon)
    levels = _level_parts(run)
    n_worlds = SEARCH_WORLDS + max(
        _FEWEST_WORLDS, int(run.asked.n_worlds * min(1.0, _MOST_TIMES / max(len(levels), 1)))
    )
    first = Part(
        rounds=float(spent[0].mean()),
        fixed=lambda seats: run.first(seats).T,
        moving=None,
    )
    made = [make(n_worlds) for _, _, make in track(levels, description="levels")]
    return made if run.walk.agenda.first_level else [first, *made]


def _exploitation(run: _Run, options: Exploiting) -> list[Part]:
    """All of exploitation, as far as runs get to it before the horizon."""
    cold_starts = run.begins[-1]
    left = np.maximum(run.horizon - cold_starts, 0.0)
    there = np.flatnonzero(left > 0)
    if len(there) < run.fewest:
        return []
    rng = run.simulator.rng(Stream.MOMENTS)
    paths = there[by_weight(left[there], run.n_worlds, rng=rng)]
    epochs, _ = begin_exploitation(
        run.simulator,
        run.walk,
        paths,
        mechanism=run.plan,
        options=options,
        n_worlds=run.n_worlds,
        purpose=Stream.AUDITED_EPOCHS,
        rounds=cold_starts,
        comers=_COMERS,
    )
    guards = RememberedGuards(run.plan, options)
    rounds = float(left.mean())
    return [exploitation_part(epochs, guards, run.seats, horizon=run.horizon, rounds=rounds, rng=rng)]


def _stage(run: _Run, code: int, members: np.ndarray) -> _Look:
    plan, market = run.plan, run.market
    labels = [market.arms[arm] for arm in arms_of(code)]
    chosen = run.simulator.paths_of_worlds(members, n_worlds=run.n_worlds, key=(code,))
    assert isinstance(run.walk, Walk)  # sets are followed one by one
    overlap = partial(run.walk.overlap, members, arms_of(code))
    outlook = run.simulator.outlook(run.walk, chosen, level=len(labels), key=(code,), overlap=overlap)
    still_open = run.walk.agenda.open_arms(arms_of(code))
    rates = RememberedRates(plan, labels)
    rates.note(run.simulator.panel.users, run.walk.rates[code])

    def explored(users: FloatArray) -> FloatArray:
        promoted = promotion_shares(run.seats(users).promoted_by, still_open)
        return plan.rate(users, saturated=labels)[:, None] * promoted

    def view(users: FloatArray, worlds: slice) -> View:
        seats = run.seats(users)
        users = seats.users
        part = outlook.in_worlds(worlds)
        rewards = part.rewards(users)
        organic = best_shares(rewards if len(part.tables) == 1 else part.acted_on(users), axis=0)  # (K, U, W)
        promoted = promotion_shares(seats.promoted_by, still_open).astype(users.dtype)
        q = rates(users).astype(users.dtype)[None, :, None]
        return View(
            name=_stage_name(run, code),
            chances=q * promoted.T[:, :, None] + (1.0 - q) * organic,
            rewards=rewards,
            prior_rewards=seats.prior_rewards,
            best=organic,
            share=len(members) / run.walk.n_paths,
            smoothed=smoothed_stage(
                part.law if isinstance(part, LinearOutlook) else None,
                seats,
                rewards,
                rates=q[0, :, 0],
                promoted=promoted,
            ),
        )

    moment = Moment(saturated=arms_of(code))
    return _Look(moment=moment, view_of=view, explored=None if plan.personalised else explored)


def _stage_name(run: _Run, code: int) -> str:
    """The plan's own name of a stage, which may stand for several of arms that are alike, else what users know."""
    arms = run.market.arms
    labels = tuple(arms[arm] for arm in arms_of(code))
    planned = [stage for stage in run.plan.stages if stage.saturated == labels]
    return run.plan.stage_name(planned[0]) if planned else STAGE.label(Moment(saturated=arms_of(code)), arms)


# --- exploitation ----------------------------------------------------------------------------------------------------


def _epoch_looks(run: _Run, options: Exploiting) -> Iterator[_Look]:
    """The beginning of every epoch that runs get to before the horizon."""
    epochs: EpochWorlds | None = None
    guards = RememberedGuards(run.plan, options)
    everybody: Any = run.simulator.panel.users
    everybody = everybody.astype(np.float32) if run.market.noise.is_gaussian else everybody
    cold_starts = run.begins[-1]
    for each in epochs_from(cold_starts, market=run.market, mechanism=run.plan, options=options):
        there = np.flatnonzero(each.begins < run.horizon)
        if len(there) < run.fewest:
            break
        still = np.zeros(0, dtype=bool) if epochs is None else epochs.state.ends < run.horizon
        # Users whose prior has loosened reckon with other worlds, in which all epochs before were other ones, too.
        if epochs is None or still.mean() < _STILL_THERE or options.inflation != "none":
            epochs, _ = begin_exploitation(
                run.simulator,
                run.walk,
                there,
                mechanism=run.plan,
                options=options,
                n_worlds=run.n_worlds,
                purpose=Stream.AUDITED_EPOCHS,
                epoch=each.number,
                rounds=cold_starts,
                comers=_COMERS,
            )
        epochs.advance_to(each.number, lambda number: guards(everybody, number))
        in_time = np.flatnonzero(epochs.state.begins < run.horizon)
        view_of = _epoch_view(run, copy(epochs), guards, in_time)  # epochs go on
        yield _Look(moment=Moment(epoch=each.number), view_of=view_of, share=len(there) / run.walk.n_paths)


def _epoch_view(run: _Run, epochs: EpochWorlds, guards: RememberedGuards, there: np.ndarray) -> ViewOf:
    """The epoch that has begun, in the worlds that are there."""

    def view(users: FloatArray, worlds: slice) -> View:
        some = there[worlds]
        seats = run.seats(users)
        users = seats.users
        guard = guards(users, epochs.epoch)
        outlook = epochs.outlook.in_worlds(some)
        rewards = outlook.rewards(users)
        scores = rewards if len(outlook.tables) == 1 else outlook.acted_on(users)
        return View(
            name=STAGE.label(Moment(epoch=epochs.epoch), run.market.arms),
            chances=epochs.probabilities(users, guard=guard, worlds=some, scores=scores),
            rewards=rewards,
            prior_rewards=seats.prior_rewards,
            best=is_best(scores, axis=0),
        )

    return view


# --- users -----------------------------------------------------------------------------------------------------------


def _judged_first(run: _Run, view_of: ViewOf) -> View:
    """The crowd at the most popular arm's phase: nobody stands worse there than at nothing lost."""
    everybody, all_worlds = run.crowd.population, slice(None)
    averages = averages_of(
        lambda some: view_of(everybody.users[some], all_worlds), everybody, epsilon=run.asked.epsilon, n_worlds=2
    )
    judged = run.crowd.judged.users
    return replace(view_of(judged, all_worlds), averages=averages, users=judged)


def _judged(run: _Run, view_of: ViewOf, *, explored: Fixed | None = None) -> View:
    """The crowd and, unless users were given, the worst users, in other worlds than those they were looked for in."""
    users, asked, simulator = run.crowd.judged.users, run.asked, run.simulator
    if asked.users is None:
        worst = worst_in(view_of, run.market, simulator.panel, asked, rng=simulator.rng(Stream.WORST_USERS))
        users = np.concatenate([users, worst])
    judged = slice(SEARCH_WORLDS, None)
    view = replace(view_of(users, judged), users=users)
    if asked.alone and asked.notion.is_per_user:
        return view  # nobody asks for averages over users
    population = run.crowd.population
    known = explored is not None and not asked.notion.is_per_user and not population.is_exact and asked.users is None

    def of_population(some: slice) -> View:
        return view.of_users(some) if population is run.crowd.judged else view_of(population.users[some], judged)

    averages = averages_of(
        of_population,
        population,
        epsilon=asked.epsilon,
        n_worlds=view.n_worlds,
        fixed=explored if known else None,
        fixed_mean=fixed_mean(explored, simulator.many_users, epsilon=asked.epsilon) if explored and known else None,
    )
    return replace(view, averages=averages)
