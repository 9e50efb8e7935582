"""The walk through a cold start, sample by sample: where arms differ and there are many of them.

There are then 2^K saturated sets, and shares of each cannot be kept (``walk`` does). Rates ask how many arms are
saturated, and which one is promoted (``level_rates``). So cold starts are followed side by side: for each of them it is
worked out at every level what is promoted to whom, and samples are drawn one of each path at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.promotion import dense_ranks, first_open, is_torn
from rcb_bayes.mechanism.walk import waiting_time
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.telling.progress import track

_MOST_VALUES = 2e8  # samples that are kept: paths, arms and samples of each multiplied
_MOST_STEPS = 2e9  # samples that are drawn
_CHUNK_VALUES = 4_000_000
_FEWEST_PATHS, _MOST_PATHS = 500, 2000

RatesOfLevel = Callable[["SampleWalk", int], FloatArray | float]
"""Rates of the panel's users by promoted arm, (P, K), or of all, at a level: from the walk so far, and the level."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleWalk:
    """R cold starts of a panel's users, followed to the end or as far as they have got.

    Attributes
    ----------
    agenda : samples of each arm, and which arms may be promoted when
    samples : whom the samples of each arm came from, by place in the panel, (R, K, N); those to come, or beyond what an
        arm needs, are -1
    filled : the level from which on each arm is saturated, (R, K); K + 1 where it is not yet
    taken : samples taken during levels 0, ..., l - 1, (R,) each
    chances : that a round brings a sample at these levels, (R,) each
    """

    panel: Panel
    agenda: Agenda
    samples: np.ndarray
    filled: np.ndarray
    taken: list[np.ndarray] = field(default_factory=list)
    chances: list[FloatArray] = field(default_factory=list)

    @property
    def n_paths(self) -> int:
        """R, the number of cold starts."""
        return len(self.filled)

    @property
    def n_levels(self) -> int:
        """How many levels the cold starts have been followed through."""
        return len(self.taken)

    @property
    def ended(self) -> BoolArray:
        """Which paths have not got stuck, (R,)."""
        return (self.filled <= self.n_levels).sum(axis=1) == self.n_levels

    def at(self, level: int) -> np.ndarray:
        """The paths that get to a level."""
        return np.flatnonzero((self.filled <= level).sum(axis=1) == level)

    def saturated(self, level: int, members: np.ndarray) -> BoolArray:
        """Which arms are saturated at a level, in some of the paths, (len(members), K)."""
        return self.filled[members] <= level

    def rounds(self, *, thinning: float = 1.0, rng: np.random.Generator) -> FloatArray:
        """Rounds that each level of each path takes, (l, R): infinite for a level that never ends.

        ``thinning`` multiplies the rate of every level but the first.
        """
        rounds = np.full((self.n_levels, self.n_paths), np.inf)
        rounds[: self.agenda.first_level] = 0.0
        for level in range(self.agenda.first_level, self.n_levels):
            there = self.at(level + 1)
            if len(there):
                chance = np.minimum(self.chances[level][there] * (thinning if level else 1.0), 1.0)
                rounds[level, there] = waiting_time(self.taken[level][there], chance, rng=rng)
        return rounds

    def n_samples(self, level: int) -> np.ndarray:
        """Samples that each path takes during a level, (R,)."""
        return self.taken[level]

    def has(self, arm: int) -> BoolArray:
        """Which paths have saturated an arm, (R,)."""
        return self.filled[:, arm] <= self.n_levels

    def design(self, members: np.ndarray, arm: int, *, rng: np.random.Generator) -> np.ndarray:
        """Which of the panel's users the samples of a saturated arm came from, without those of before: (n, N)."""
        return self.samples[members, arm, : self.agenda.missing[arm]]

    def trial(
        self, level: int, members: np.ndarray, *, users: Panel, by_arm: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Rounds that some paths would spend at a level with these users and their rates by promoted arm, (U, K).

        Expected given the samples taken, (len(members),).
        """
        counts = (self.samples[members] >= 0).sum(axis=2)
        is_open = self.agenda.open(self.saturated(level, members))
        step = Step(users=users, by_arm=by_arm, missing=self.agenda.missing)
        taken, _, chances = step.until_full(counts, is_open, rng=rng)
        return np.divide(taken, chances, out=np.zeros(len(members)), where=chances > 0)


def walk_by_samples(
    panel: Panel,
    rates_at: RatesOfLevel,
    *,
    n_per_arm: int | Agenda,
    n_paths: int,
    rng_of: Callable[[int], np.random.Generator],
    first: FloatArray | float = 1.0,
) -> SampleWalk:
    """The walk through a cold start, to its end.

    Parameters
    ----------
    n_per_arm : samples of every arm, or an agenda
    rng_of : the random numbers of each level
    first : how often the panel's users are sampled while no arm is saturated, (P,), or all of them

    Raises
    ------
    RcbError
        Users who follow some arms more often than others that are promoted alike.
    """
    n_arms = panel.promoted_by.shape[1]
    agenda = as_agenda(n_per_arm, n_arms)
    _check_followed(panel)
    walked = SampleWalk(
        panel=panel,
        agenda=agenda,
        samples=np.full((n_paths, n_arms, int(agenda.missing.max())), -1, dtype=np.int32),
        filled=np.full((n_paths, n_arms), n_arms + 1, dtype=np.int32),
        taken=[np.zeros(n_paths, dtype=np.int64)] * agenda.first_level,
        chances=[np.ones(n_paths)] * agenda.first_level,
    )
    walked.filled[:, list(agenda.begun)] = 1 + np.arange(agenda.first_level)
    counts = np.zeros((n_paths, n_arms), dtype=np.int64)
    by_arm: FloatArray | float
    for level in track(range(agenda.first_level, agenda.n_levels), description="levels of the cold start"):
        by_arm = rates_at(walked, level) if level else _of_every_arm(first, n_arms)
        there = walked.at(level)
        all_there = len(there) == n_paths
        here, own = (counts, walked.samples) if all_there else (counts[there], walked.samples[there])
        step = Step(users=panel, by_arm=by_arm, missing=agenda.missing)
        is_open = agenda.open(walked.saturated(level, there))
        of_paths = step.until_full(here, is_open, rng=rng_of(level), samples=own)
        taken, full, chances = np.zeros(n_paths, dtype=np.int64), np.full(n_paths, -1), np.zeros(n_paths)
        taken[there], full[there], chances[there] = of_paths
        if not all_there:
            counts[there], walked.samples[there] = here, own
        ended = np.flatnonzero(full >= 0)
        walked.filled[ended, full[ended]] = level + 1
        walked.taken.append(taken)
        walked.chances.append(chances)
    return walked


def _of_every_arm(rates: FloatArray | float, n_arms: int) -> FloatArray | float:
    """Rates of users, (P,), whichever arm is promoted to them, (P, K)."""
    return np.tile(rates[:, None], n_arms) if isinstance(rates, np.ndarray) else rates


def _check_followed(panel: Panel) -> None:
    follows, ranks = panel.follows, dense_ranks(panel.promoted_by)
    if follows is None or not is_torn(ranks):
        return
    for rank in range(ranks.shape[1]):
        own = ranks == rank
        most, least = np.where(own, follows, 0.0).max(axis=1), np.where(own, follows, 1.0).min(axis=1)
        if np.max(most - least) > 0.0:
            raise RcbError(
                "Many arms that are promoted alike, and users who follow some of them more often: this is not planned "
                "for. Plan for users who name no arm."
            )


def fitting_paths(n_arms: int, n_per_arm: int) -> int:
    """How many paths can be followed sample by sample; 0 where even few would take too much memory or time."""
    n_paths = int(min(min(_MOST_VALUES, _MOST_STEPS) / (n_arms * max(n_per_arm, 1)), _MOST_PATHS))
    return n_paths if n_paths >= _FEWEST_PATHS else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One level of a cold start: users as they come, with rates by promoted arm, (U, K), or one for all.

    ``missing`` (K,) are the samples that an arm is full with.
    """

    users: Panel
    by_arm: FloatArray | float
    missing: np.ndarray

    @property
    def _is_torn(self) -> bool:
        return is_torn(dense_ranks(self.users.promoted_by))

    def until_full(
        self, counts: np.ndarray, is_open: BoolArray, *, rng: np.random.Generator, samples: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, FloatArray]:
        """Samples of n paths until one more arm of each is full, which one that is, the chance of a sample; (n,) each.

        ``counts`` (n, K), samples of each arm so far, are counted on; ``samples`` (n, K, N) get the users. An arm is -1
        where nobody is explored.
        """
        taken, full = np.zeros(len(counts), dtype=np.int64), np.full(len(counts), -1)
        chances = np.zeros(len(counts))
        size = max(1, _CHUNK_VALUES // (self.users.n_users * (counts.shape[1] if self._is_torn else 1)))
        for start in range(0, len(counts), size):
            some = slice(start, start + size)
            parts = self._some(counts[some], is_open[some], None if samples is None else samples[some], rng=rng)
            taken[some], full[some], chances[some] = parts
        return taken, full, chances

    def _some(
        self, counts: np.ndarray, is_open: BoolArray, samples: np.ndarray | None, *, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, FloatArray]:
        ranks = dense_ranks(self.users.promoted_by)
        torn = is_torn(ranks)
        if torn:
            first = np.where(is_open[:, None], ranks, ranks.shape[1]).argmin(axis=2).T  # (U, n)
        else:
            first = first_open(ranks, is_open)
        upto = self._who(first)
        taken, full = np.zeros(len(counts), dtype=np.int64), np.full(len(counts), -1)
        chances = upto[:, -1].copy()
        still = np.flatnonzero(chances > 0)
        while len(still):
            who = _drawn(upto, still, rng.random(len(still)) * chances[still])
            arm = first[who, still].astype(np.int64)
            if torn:  # arms of one rank are as likely each
                rank = np.where(is_open[still], ranks[who], ranks.shape[1])
                arm = (rank + rng.random(rank.shape)).argmin(axis=1)
            if samples is not None:
                samples[still, arm, counts[still, arm]] = who
            counts[still, arm] += 1
            taken[still] += 1
            is_full = counts[still, arm] == self.missing[arm]
            full[still[is_full]] = arm[is_full]
            still = still[~is_full]
        return taken, full, chances

    def _who(self, first: np.ndarray) -> FloatArray:
        """Sums of the users' chances to be explored in each path, (n, U), from what is promoted to them, (U, n)."""
        weights, (u, n), follows = self.users.weights, first.shape, self.users.follows
        if not isinstance(self.by_arm, np.ndarray) and follows is None:
            return np.broadcast_to(np.cumsum(weights * self.by_arm), (n, u))
        places = first.astype(np.int64)
        by_arm = self.by_arm
        rates = np.take_along_axis(by_arm, places, axis=1) if isinstance(by_arm, np.ndarray) else by_arm
        chances = np.broadcast_to(weights[:, None] * rates, first.shape)
        if follows is not None:  # those of arms of one rank are alike, see ``walk_by_samples``
            chances = chances * np.take_along_axis(follows, places, axis=1)
        return np.cumsum(chances.T, axis=1)


def _drawn(upto: FloatArray, rows: np.ndarray, points: FloatArray) -> np.ndarray:
    """For some rows of rising sums (n, U) the first place that is above a point, (len(rows),)."""
    low, high = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), upto.shape[1] - 1)
    while (low < high).any():
        middle = (low + high) // 2
        above = upto[rows, middle] > points
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return low
