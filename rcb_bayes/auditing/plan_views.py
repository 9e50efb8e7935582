r"""A plan as an audit looks at it: its cold start under its own rates, its exploitation under its own guard.

All worlds go side by side: rates, guards and the kernel are known functions of x, and the rewards of a stage are drawn
as sums given its users. How long each stage of a cold start takes is drawn, too: what a run does not get to before the
horizon is not looked at, and what it does get to is, however long others take.

A scene is what users who can tell it from others see of the plan: a stage, a level, an epoch, or all that they cannot
tell apart. It is known by its name and place, so that whoever has the plan's run (``plan_run``) and the worlds that it
rests on (``drawing``) can look at it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes.auditing.averaging import Fixed, averages_of, fixed_mean
from rcb_bayes.auditing.drawing import (
    Drawn,
    OutlookParts,
    Source,
    draw,
    in_epoch,
    joined,
    outlook_of,
    without_counts,
)
from rcb_bayes.auditing.guards import RememberedGuards, RememberedRates
from rcb_bayes.auditing.plan_run import LEAST_SHARE, PlanRun, begin_run
from rcb_bayes.auditing.pooled_views import LevelLooks, Part, exploitation_part, level_part, pooled
from rcb_bayes.auditing.search import SEARCH_WORLDS, ViewOf, worst_in
from rcb_bayes.auditing.sharpening import smoothed_stage
from rcb_bayes.auditing.view import Asked, Averages, Looked, View
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares, is_best, promotion_shares
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import LEVEL, PHASE, STAGE, Moment
from rcb_bayes.mechanism.loops import kernel_table
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.mechanism.walk import Walk, arms_of
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import percent

JUDGED = slice(SEARCH_WORLDS, None)  # of the worlds of a scene
_FEWEST_WORLDS = 50
_MOST_TIMES = 8.0  # as many worlds as a stage has, for all levels of a cold start together


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What users see who can tell it from the rest.

    Attributes
    ----------
    sources : the worlds that it rests on
    moment : where it is in the clock, for its name
    place : among the epochs of its generation
    share : of runs that get there before the horizon
    """

    sources: tuple[Source, ...]
    moment: Moment
    place: int = 0
    share: float = 1.0


Worlds = Mapping[str, Drawn]
"""Worlds that were drawn, by the name of their source."""


def scenes(run: PlanRun) -> Iterator[Scene]:
    """One for all that users can tell apart, but for the first phase; those that share worlds come together."""
    knows = run.asked.knows
    if knows is STAGE:
        for code, members in run.stages.items():
            source = Source(kind="stage", number=code, n_worlds=run.n_worlds)
            moment = Moment(saturated=arms_of(code))
            yield Scene(sources=(source,), moment=moment, share=len(members) / run.walk.n_paths)
    elif knows is LEVEL:
        for level, there in run.levels.items():
            source = Source(kind="level", number=level, n_worlds=run.n_worlds)
            moment = Moment(saturated=tuple(range(level)))
            yield Scene(sources=(source,), moment=moment, share=len(there) / run.walk.n_paths)
    if knows is STAGE or knows is LEVEL:
        for number, generation in enumerate(run.generations):
            source = Source(kind="epochs", number=number, n_worlds=run.n_worlds)
            for place, (epoch, share) in enumerate(generation.looks):
                yield Scene(sources=(source,), moment=Moment(epoch=epoch), place=place, share=share)
        return
    cold, after = _cold_sources(run), _exploitation_source(run)
    groups = [cold, after] if knows is PHASE else [cold + after]
    for group, moment in zip(groups, (Moment(), Moment(epoch=0)), strict=False):
        if group:
            yield Scene(sources=group, moment=moment)


def _cold_sources(run: PlanRun) -> tuple[Source, ...]:
    """The whole cold start, level by level; many levels have fewer worlds each."""
    most = int(run.asked.n_worlds * min(1.0, _MOST_TIMES / max(len(run.levels), 1)))
    n_worlds = SEARCH_WORLDS + max(_FEWEST_WORLDS, most)
    return tuple(Source(kind="level", number=level, n_worlds=n_worlds) for level in run.levels)


def _exploitation_source(run: PlanRun) -> tuple[Source, ...]:
    """All of exploitation, as far as runs get to it before the horizon."""
    if not len(run.exploiting_paths):
        return ()
    return (Source(kind="exploitation", number=0, n_worlds=run.n_worlds),)


def plan_views(
    market: Market,
    plan: Plan,
    asked: Asked,
    *,
    horizon: int,
    options: Exploiting,
    look: Callable[[View], Any] | None = None,
) -> Looked:
    """The first phase, and every stage and epoch that runs get to before the horizon often enough.

    ``look`` makes of each view what is kept of it; all unless given.
    """
    run = begin_run(market, plan, asked, horizon=horizon, options=options)
    kept = look or (lambda view: view)
    views = [kept(view) for view in first_views(run)]
    for found in _lookings(run):
        views.append(kept(found.judged(found.users())))
    counts = run.simulator.engines.counts
    return Looked(
        crowd=run.crowd,
        views=views,
        notes=unfinished(run),
        n_posteriors=counts.n_fitted,
        n_not_vouched=counts.n_not_vouched,
    )


def views_for_anybody(
    market: Market, plan: Plan, asked: Asked, *, horizon: int, options: Exploiting
) -> dict[Hashable, ViewOf]:
    """The same views, for any users: by what can be told of a moment (``Knowledge.key``), and however rare it is.

    Arms keep their names.
    """
    run = begin_run(market, plan, asked, horizon=horizon, options=options, anybody=True)
    first = {asked.knows.key(Moment()): _first_phase(run)} if _sees_first_phase(run) else {}
    return first | {asked.knows.key(found.scene.moment): found.view_of for found in _lookings(run)}


def _lookings(run: PlanRun) -> "Iterator[Looking]":
    """Every scene with its worlds, which are drawn here."""
    known: dict[str, Drawn] = {}
    for scene in scenes(run):
        for source in scene.sources:
            if source.name not in known:
                known[source.name] = joined([draw(run, (source, block)) for block in range(source.n_blocks(run))])
        yield Looking(run, scene, worlds_of(run, scene, known))


def worlds_of(run: PlanRun, scene: Scene, known: Worlds) -> Worlds:
    """The worlds that a scene rests on; of a generation in the one epoch."""
    if scene.sources[0].kind == "epochs":
        (source,) = scene.sources
        return {source.name: in_epoch(run, known[source.name], generation=source.number, place=scene.place)}
    return {source.name: without_counts(known[source.name]) for source in scene.sources}


def unfinished(run: PlanRun) -> tuple[str, ...]:
    """What the horizon leaves out."""
    share = float((run.begins[-1] >= run.horizon).mean())
    if share < LEAST_SHARE:
        return ()
    return (f"{percent(share)} of runs are still in the cold start when the horizon ends",)


def first_views(run: PlanRun) -> list[View]:
    """The most popular arm's phase as the crowd sees it, where it is seen: nobody stands worse than at nothing lost."""
    if not _sees_first_phase(run):
        return []
    view_of, everybody, all_worlds = _first_phase(run), run.crowd.population, slice(None)
    averages = averages_of(
        lambda some: view_of(everybody.users[some], all_worlds), everybody, epsilon=run.asked.epsilon, n_worlds=2
    )
    judged = run.crowd.judged.users
    return [replace(view_of(judged, all_worlds), averages=averages, users=judged)]


def _sees_first_phase(run: PlanRun) -> bool:
    """Whether users tell it from what follows; those who cannot see it by itself only where nothing follows."""
    knows = run.asked.knows
    if run.walk.agenda.first_level:
        return False
    if knows is STAGE or knows is LEVEL:
        return True
    return not run.levels and (knows is PHASE or not len(run.exploiting_paths))


def _first_phase(run: PlanRun) -> ViewOf:
    """The most popular arm's phase: everybody gets the arm that the platform's prior means put first."""
    knows = run.asked.knows
    label = (STAGE if knows is LEVEL else knows).label(Moment(), run.market.arms)

    def view(users: FloatArray, worlds: slice) -> View:
        seats = run.seats(users)
        two = np.ones(2)  # worlds, all alike
        return View(
            name=label,
            chances=run.first(seats).T[:, :, None] * two,
            rewards=seats.prior_rewards.T[:, :, None] * two,
            prior_rewards=seats.prior_rewards,
            best=best_shares(seats.promoted_by).T[:, :, None] * two,
        )

    return view


class Looking:
    """A scene that is looked at, in worlds that were drawn.

    Rates and guards that it is asked for are remembered here only: what is worked out for whom, and beside whom, does
    not depend on who looked at what before. ``outlooks`` is filled with what is known of the worlds, for the next one
    who looks at them.
    """

    def __init__(
        self, run: PlanRun, scene: Scene, worlds: Worlds, *, outlooks: dict[str, OutlookParts] | None = None
    ) -> None:
        self.run, self.scene = run, scene
        self.explored: Fixed | None = None
        self._worlds, self._outlooks = worlds, {} if outlooks is None else outlooks
        kind = scene.sources[0].kind
        knows = run.asked.knows
        self.name = knows.label(scene.moment, run.market.arms)
        if kind == "stage":
            self.name = _stage_name(run, scene.sources[0].number)
            self.view_of = self._stage(scene.sources[0])
        elif kind == "epochs":
            self.name = STAGE.label(scene.moment, run.market.arms)
            self.view_of = self._epoch(scene.sources[0])
        else:
            self.view_of = pooled(self._parts(), run.seats, name=self.name, share=scene.share)

    # --- users ---

    def users(self) -> FloatArray:
        """The crowd and, unless users were given, the worst users, in other worlds than those they are judged in."""
        run, users = self.run, self.run.crowd.judged.users
        if run.asked.users is not None:
            return users
        rng = run.simulator.rng(Stream.WORST_USERS)
        worst = worst_in(self.view_of, run.market, run.simulator.panel, run.asked, rng=rng)
        return np.concatenate([users, worst])

    def judged(self, users: FloatArray) -> View:
        """The scene as users see it, with averages over the population where somebody may ask for them."""
        view = replace(self.view_of(users, JUDGED), users=users)
        return replace(view, averages=self.averages(view)) if self.wants_averages else view

    @property
    def wants_averages(self) -> bool:
        """Whether some notion averages over users."""
        return not (self.run.asked.alone and self.run.asked.notion.is_per_user)

    def averages(self, view: View | None = None) -> Averages:
        """Averages over the population, from a view that begins with the crowd, if there is one."""
        run, asked = self.run, self.run.asked
        population, explored = run.crowd.population, self.explored
        # Where p_i is fixed for anybody, as with one rate for all, that part is averaged over users of its own.
        known = explored is not None and not asked.notion.is_per_user and not population.is_exact
        known = known and asked.users is None

        def of_population(some: slice) -> View:
            if view is not None and population is run.crowd.judged:
                return view.of_users(some)
            return self.view_of(population.users[some], JUDGED)

        many = run.simulator.many_users if known else None
        return averages_of(
            of_population,
            population,
            epsilon=asked.epsilon,
            n_worlds=run.asked.n_worlds if view is None else view.n_worlds,
            fixed=explored if known else None,
            fixed_mean=fixed_mean(explored, many, epsilon=asked.epsilon) if explored and many is not None else None,
        )

    # --- what they see ---

    def _stage(self, source: Source) -> ViewOf:
        run, code = self.run, source.number
        plan, market = run.plan, run.market
        labels = [market.arms[arm] for arm in arms_of(code)]
        outlook, name, share = self._outlook(source), self.name, self.scene.share
        assert isinstance(run.walk, Walk)  # sets are followed one by one
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
                name=name,
                chances=q * promoted.T[:, :, None] + (1.0 - q) * organic,
                rewards=rewards,
                prior_rewards=seats.prior_rewards,
                best=organic,
                share=share,
                smoothed=smoothed_stage(
                    part.law if isinstance(part, LinearOutlook) else None,
                    seats,
                    rates=q[0, :, 0],
                    promoted=promoted,
                ),
            )

        self.explored = None if plan.personalised else explored
        return view

    def _epoch(self, source: Source) -> ViewOf:
        """The epoch that has begun, in the worlds that are there."""
        run, epoch, drawn = self.run, self.scene.moment.epoch, self._worlds[source.name]
        assert epoch is not None  # of exploitation
        guards, outlook = self._guards((epoch,)), self._outlook(source)
        name, share, gamma = self.name, self.scene.share, drawn["gamma"]

        def view(users: FloatArray, worlds: slice) -> View:
            seats = run.seats(users)
            users = seats.users
            guard = guards(users, epoch)
            part = outlook.in_worlds(worlds)
            rewards = part.rewards(users)
            scores = rewards if len(part.tables) == 1 else part.acted_on(users)
            return View(
                name=name,
                chances=kernel_table(scores, gamma[worlds], guard),
                rewards=rewards,
                prior_rewards=seats.prior_rewards,
                best=is_best(scores, axis=0),
                share=share,
            )

        return view

    def _outlook(self, source: Source) -> OutlookParts:
        """What is expected in the worlds of a source."""
        if source.name not in self._outlooks:
            code = source.number if source.kind == "stage" else None
            self._outlooks[source.name] = OutlookParts(outlook_of(self.run, self._worlds[source.name], code=code))
        return self._outlooks[source.name]

    def _guards(self, epochs: Iterable[int]) -> RememberedGuards:
        """Guards, those of the panel's users worked out all at once."""
        guards = RememberedGuards(self.run.plan, self.run.options)
        for epoch in epochs:
            guards.note(self.run.everybody, epoch, self.run.guard_at(epoch))
        return guards

    def _parts(self) -> list[Part]:
        """Moments that users cannot tell apart."""
        run = self.run
        looks = LevelLooks(run.plan, run.market, run.seats)
        parts = [self._part(source, looks) for source in self.scene.sources]
        if run.asked.knows is LEVEL or self.scene.moment.epoch is not None or run.walk.agenda.first_level:
            return parts
        first = Part(
            rounds=float(run.spent[0].mean()),
            fixed=lambda seats: run.first(seats).T,
            moving=None,
        )
        return [first, *parts]

    def _part(self, source: Source, looks: LevelLooks) -> Part:
        run, drawn = self.run, self._worlds[source.name]
        if source.kind == "exploitation":
            guards = self._guards(np.unique(drawn["epoch"]).tolist())
            rounds = float(run.rounds_left.mean())
            outlook = outlook_of(run, drawn)
            return exploitation_part(outlook, drawn["gamma"], drawn["epoch"], guards, run.seats, rounds=rounds)
        own = run.level_paths(source.number, source.n_worlds)
        return level_part(
            looks,
            outlook_of(run, drawn).weighted(own.weights),
            level=source.number,
            rounds=float(own.spent.sum() / run.walk.n_paths),
            saturated=own.saturated,
            spent=own.spent,
            chosen=own.chosen,
        )


def _stage_name(run: PlanRun, code: int) -> str:
    """The plan's own name of a stage, which may stand for several of arms that are alike, else what users know."""
    arms = run.market.arms
    labels = tuple(arms[arm] for arm in arms_of(code))
    planned = [stage for stage in run.plan.stages if stage.saturated == labels]
    return run.plan.stage_name(planned[0]) if planned else STAGE.label(Moment(saturated=arms_of(code)), arms)
