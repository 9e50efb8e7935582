"""A plan's cold start as an audit walks through it: who comes, which stages and epochs runs get to, and when.

Nothing here depends on worlds: whoever makes it from the same question, here or in a worker, has the same.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rcb_bayes.auditing.guards import RememberedGuards
from rcb_bayes.auditing.pooled_views import rounds_before
from rcb_bayes.auditing.search import SEARCH_WORLDS
from rcb_bayes.auditing.seats import SeatsOf, seats_of
from rcb_bayes.auditing.view import Asked, Crowd, make_crowd
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import first_chances
from rcb_bayes.mechanism.epoch import epoch_numbered, epochs_from
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.promotion import by_weight, rare_sets_too
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.mechanism.streams import Stream, derived_seed
from rcb_bayes.mechanism.walk import Walk
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import BoolArray, FloatArray

LEAST_SHARE = 0.01  # of runs that are at a stage before the horizon, for it to be audited
_STILL_THERE = 0.9  # of the worlds of an epoch that get to the next; fewer are drawn anew


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generation:
    """Worlds that go through exploitation together.

    Attributes
    ----------
    epoch : whose prior they are worlds of, the first in which they are looked at
    paths : that they may take
    chosen : the path of each, (W,)
    looks : epochs in which they are looked at, one after the other, and the share of runs that get to each
    """

    epoch: int
    paths: np.ndarray
    chosen: np.ndarray
    looks: list[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelPaths:
    """Paths of a level, and those that its worlds take, with how much each counts.

    Attributes
    ----------
    there : paths that get to it before the horizon, (M,)
    saturated, spent : their sets, (M, K), and the rounds that each spends there, (M,)
    chosen : places among them, one for each world, (W,)
    weights : of the worlds, (W,)
    """

    there: np.ndarray
    saturated: BoolArray
    spent: FloatArray
    chosen: np.ndarray
    weights: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanRun:
    """A plan's cold start; ``begins`` are rounds after which each level begins, and the cold start ends, (K + 1, R).

    What fewer than ``fewest`` paths get to is not looked at.
    """

    simulator: Simulator
    walk: ColdStarts
    plan: Plan
    crowd: Crowd
    asked: Asked
    horizon: int
    options: Exploiting
    begins: FloatArray
    seats: SeatsOf
    fewest: float

    @property
    def market(self) -> Market:
        """The market."""
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

    @cached_property
    def everybody(self) -> Any:
        """The panel's users as they are simulated."""
        users = self.simulator.panel.users
        return users.astype(np.float32) if self.market.noise.is_gaussian else users

    @cached_property
    def panel_guards(self) -> RememberedGuards:
        """Guards of the panel's users: all of them at once, always, so that they are the same wherever that is."""
        return RememberedGuards(self.plan, self.options)

    def guard_at(self, epoch: int) -> FloatArray | None:
        """Factors of the panel's users in an epoch, (P, K)."""
        return self.panel_guards(self.everybody, epoch)

    @cached_property
    def stages(self) -> dict[int, np.ndarray]:
        """Saturated sets that runs get to before the horizon, and which of them do."""
        stages = {}
        assert isinstance(self.walk, Walk)  # sets are followed one by one
        agenda = self.walk.agenda
        for level in range(max(agenda.first_level, 1), agenda.n_levels):
            there = self.begins[level] < self.horizon
            for code, some in self.walk.paths.members(level).items():
                members = some[there[some]]
                if len(members) >= self.fewest:
                    stages[code] = members
        return stages

    @cached_property
    def spent(self) -> FloatArray:
        """Rounds that each path spends at each level before the horizon, (K, R)."""
        return rounds_before(self.begins, self.horizon)

    @cached_property
    def levels(self) -> dict[int, np.ndarray]:
        """Levels that runs get to before the horizon, and which of them do."""
        found = {}
        for level in range(1, self.walk.agenda.n_levels):
            there = np.flatnonzero(np.nan_to_num(self.spent[level]) > 0)
            if len(there) >= self.fewest:
                found[level] = there
        return found

    def level_paths(self, level: int, n_worlds: int) -> LevelPaths:
        """Paths of a level's worlds, which are met there as often as users meet them.

        No set is left out, however rare: an arm that is promoted to somebody in a rare set only has all of its mass
        there.
        """
        there = self.levels[level]
        saturated, spent = self.walk.saturated(level, there), self.spent[level][there]
        rng = self.simulator.rng(Stream.PATHS_OF_WORLDS, 0, level)
        judged = self.simulator.worlds_of_level(self.walk, saturated, n_worlds - SEARCH_WORLDS)
        chosen, weights = rare_sets_too(saturated, spent, n_worlds=judged + SEARCH_WORLDS, rng=rng)
        return LevelPaths(there=there, saturated=saturated, spent=spent, chosen=chosen, weights=weights)

    @cached_property
    def generations(self) -> list[Generation]:
        """Worlds of exploitation, epoch by epoch: drawn anew where too few of them get to the next."""
        found: list[Generation] = []
        market, mechanism, options, cold_starts = self.market, self.plan, self.options, self.begins[-1]
        last = None
        for each in epochs_from(cold_starts, market=market, mechanism=mechanism, options=options):
            there = np.flatnonzero(each.begins < self.horizon)
            if len(there) < self.fewest:
                break
            # Users whose prior has loosened reckon with other worlds, in which all epochs before were other ones, too.
            if last is None or (last.ends < self.horizon).mean() < _STILL_THERE or options.inflation != "none":
                chosen, _ = self.simulator.paths_after_cold_start(there, n_worlds=self.n_worlds)
                found.append(Generation(epoch=each.number, paths=there, chosen=chosen, looks=[]))
            found[-1].looks.append((each.number, len(there) / self.walk.n_paths))
            last = epoch_numbered(
                each.number, cold_starts[found[-1].chosen], market=market, mechanism=mechanism, options=options
            )
        return found

    def in_time(self, generation: Generation, epoch: int) -> np.ndarray:
        """Worlds of a generation in which an epoch begins before the horizon."""
        began = self.begins[-1][generation.chosen]
        each = epoch_numbered(epoch, began, market=self.market, mechanism=self.plan, options=self.options)
        return np.flatnonzero(each.begins < self.horizon)

    @cached_property
    def rounds_left(self) -> FloatArray:
        """Rounds of exploitation of each path before the horizon, (R,)."""
        return np.maximum(self.horizon - self.begins[-1], 0.0)

    @cached_property
    def exploiting_paths(self) -> np.ndarray:
        """Paths as worlds of exploitation take them, which is met as often as rounds are left; empty if too rarely."""
        there = np.flatnonzero(self.rounds_left > 0)
        if len(there) < self.fewest:
            return there[:0]
        return there[by_weight(self.rounds_left[there], self.n_worlds, rng=self.simulator.rng(Stream.MOMENTS))]


def begin_run(
    market: Market,
    plan: Plan,
    asked: Asked,
    *,
    horizon: int,
    options: Exploiting,
    anybody: bool = False,
    walked: ColdStarts | None = None,
) -> PlanRun:
    """The cold start of a plan, under its own rates, and the users who are judged.

    For ``anybody`` all that some path gets to is looked at, and arms keep their names. A walk that was ``walked``
    already, by another process with the same arguments, is not walked again.
    """
    plan = plan.by_features
    simulator = Simulator(market, seed=derived_seed(asked.seed, Stream.AUDIT)).under(plan.agenda)
    walked = walked or simulator.walk_under(plan, knows=asked.knows, names=anybody)
    rounds = walked.rounds(rng=simulator.rng(Stream.AUDITED_ROUNDS))
    return PlanRun(
        simulator=simulator,
        walk=walked,
        plan=plan,
        crowd=make_crowd(market, simulator.panel, asked, rng=simulator.rng(Stream.JUDGED_USERS)),
        asked=asked,
        horizon=horizon,
        options=options,
        begins=np.vstack([np.zeros(rounds.shape[1]), np.cumsum(rounds, axis=0)]),
        seats=seats_of(market, simulator.panel, regions=simulator.regions),
        fewest=1.0 if anybody else max(1.0, LEAST_SHARE * walked.n_paths),
    )
