"""The walk through a cold start: in which order arms fill up, and where their samples come from.

Promotion goes by prior means alone and organic rounds are not counted, so all this depends on the users, on ties and on
the exploration rates, never on rewards: it is simulated without any. Users arrive independently, so that arms fill up
like counters of independent Poisson processes whose rates are the shares of users who are sampled for each arm. A stage
of a cold start is then a few gamma variables, whatever N is.

One arm fills up at a time, so every cold start passes exactly one set of each size: level l is the stage with l
saturated arms. Level 0 is the most popular arm's (MPASC), where everybody is sampled. From there on the walk is told
the rates of each stage by whoever knows them: a planner computes them, an audit asks the plan, a check takes 1.

Arms that are alike, so that exchanging them leaves beliefs as they are, may change places. Paths name them in the order
in which they fill up, so that sets that differ only by such arms are one stage.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.telling.progress import track

STUCK = -1  # in the place of a set: the stage before it never ends
_MOST_ROUNDS = 1e15  # beyond this a length is drawn as a real number

Classes = tuple[tuple[int, ...], ...]
Shares = Mapping[int, FloatArray]
"""For each saturated set, by its code: the chance that a round brings a sample of each arm, (K,)."""


# --- sets of arms ----------------------------------------------------------------------------------------------------


def as_code(arms: Iterable[int]) -> int:
    """A set of arms as a number with a bit for each."""
    return sum(1 << int(arm) for arm in arms)


def arms_of(code: int) -> tuple[int, ...]:
    """The arms of a set."""
    return tuple(arm for arm in range(int(code).bit_length()) if code >> arm & 1)


def open_arms(code: int, n_arms: int) -> list[int]:
    """The arms that are not in a set."""
    return [arm for arm in range(n_arms) if not code >> arm & 1]


def alike_arms(market: Market, agenda: Agenda | None = None) -> Classes:
    """Classes of arms that may change places, under the users' and the platform's belief and an agenda.

    Arms with samples from before have designs of their own, those of an order have places of their own, and those that
    are explored among some users have users of their own.
    """
    place = {arm: k for k, one in enumerate(market.platform_prior.alike) for arm in one}
    both: dict[tuple[int, int], list[int]] = {}  # by class of either belief
    for k, one in enumerate(market.prior.alike):
        for arm in one:
            if arm in place:
                both.setdefault((k, place[arm]), []).append(arm)
    return tuple(sorted(arms for each in both.values() for arms in _asked_alike(tuple(each), agenda) if arms))


def _asked_alike(arms: tuple[int, ...], agenda: Agenda | None) -> Classes:
    """Some arms, those together of which as many samples are asked for."""
    if agenda is None:
        return (arms,)
    own = [arm for arm in arms if agenda.order or agenda.regions or (agenda.past and agenda.past[arm])]
    asked = {agenda.needed[arm] for arm in arms}
    rest = (tuple(arm for arm in arms if agenda.needed[arm] == n and arm not in own) for n in asked)
    return (*((arm,) for arm in own), *rest)


# --- paths -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """R cold starts, followed up to some level.

    Attributes
    ----------
    codes : sets that some path has come to, as codes; other fields name a set by its place here
    sets : the set of saturated arms at levels 0, ..., l, (l + 1, R); ``STUCK`` where a path does not get there
    taken : samples taken of each arm during levels 0, ..., l - 1, (l, R, K)
    """

    codes: tuple[int, ...]
    sets: np.ndarray
    taken: np.ndarray

    @property
    def level(self) -> int:
        """How many arms are saturated where the paths have got to."""
        return len(self.taken)

    @property
    def n_paths(self) -> int:
        """R, the number of cold starts."""
        return self.sets.shape[1]

    @property
    def ended(self) -> np.ndarray:
        """Which paths have not got stuck, (R,)."""
        return self.sets[-1] != STUCK

    def members(self, level: int = -1) -> dict[int, np.ndarray]:
        """The paths that are at each set of a level, the last unless given; most frequented sets first, by code."""
        places, inverse = np.unique(self.sets[level], return_inverse=True)
        groups = {
            self.codes[int(place)]: np.flatnonzero(inverse == k) for k, place in enumerate(places) if place != STUCK
        }
        return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))

    def up_to(self, level: int) -> "Paths":
        """The same paths only as far as a level."""
        return replace(self, sets=self.sets[: level + 1], taken=self.taken[:level])


def first_paths(n_paths: int, agenda: Agenda) -> Paths:
    """Cold starts that have not begun; arms that are saturated before are so one after the other, in no time."""
    n = agenda.first_level + 1
    return Paths(
        codes=tuple(as_code(agenda.begun[:level]) for level in range(n)),
        sets=np.tile(np.arange(n)[:, None], (1, n_paths)),
        taken=np.zeros((n - 1, n_paths, agenda.n_arms), dtype=np.int64),
    )


def follow(paths: Paths, shares_at: Shares, *, agenda: Agenda, rng: np.random.Generator, alike: Classes = ()) -> Paths:
    """All paths, until one more arm is full; of open arms that are ``alike`` the first is then said to be it."""
    n_paths, n_arms = paths.taken.shape[1:]
    before = paths.taken.sum(axis=0)
    taken = np.zeros((n_paths, n_arms), dtype=np.int64)
    reached = np.full(n_paths, STUCK, dtype=np.int64)
    places = {code: place for place, code in enumerate(paths.codes)}
    arm_names = np.tile(np.arange(n_arms), (n_paths, 1))
    for code, members in paths.members().items():
        shares = shares_at[code]
        still_open = agenda.open_arms(arms_of(code))
        if not shares[still_open].any():
            continue
        needed = agenda.missing[still_open] - before[np.ix_(members, still_open)]
        taken[np.ix_(members, still_open)], full = _race(needed, shares[still_open], rng=rng)
        first = np.array(still_open)[full]
        named = _first_alike(still_open, alike, n_arms=n_arms)[first]
        arm_names[members, first], arm_names[members, named] = named, first
        for arm in np.unique(named):
            reached[members[named == arm]] = places.setdefault(code | 1 << int(arm), len(places))
    history = np.concatenate([paths.taken, taken[None]])
    return Paths(
        codes=tuple(places),
        sets=np.vstack([paths.sets, reached]),
        taken=np.take_along_axis(history, arm_names[None], axis=2),
    )


def _first_alike(still_open: list[int], alike: Classes, *, n_arms: int) -> np.ndarray:
    """For each arm the first open one that is like it, (K,)."""
    first = np.arange(n_arms)
    for arms in alike:
        still = [arm for arm in arms if arm in still_open]
        first[still] = still[0] if still else 0
    return first


def _race(needed: np.ndarray, shares: FloatArray, *, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples of each open arm when the first of them is full, (R, open), and which one that is, (R,).

    The last sample that arm k needs comes after a gamma time; the ones before it are uniform on the way there.
    """
    with np.errstate(divide="ignore"):
        full_at = rng.standard_gamma(needed) / shares
    full = full_at.argmin(axis=1)
    first = np.take_along_axis(full_at, full[:, None], axis=1)
    taken = rng.binomial(needed - 1, first / full_at)
    np.put_along_axis(taken, full[:, None], np.take_along_axis(needed, full[:, None], axis=1), axis=1)
    return taken, full


# --- the walk --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """Cold starts of a panel's users, followed to the end or as far as they have got.

    Attributes
    ----------
    agenda : samples of each arm, and which arms may be promoted when
    rates : by saturated set, the exploration rate of each user, (P,), or of all
    shares : by saturated set, the chance that a round brings a sample of each arm, (K,)
    """

    panel: Panel
    agenda: Agenda
    paths: Paths
    rates: dict[int, FloatArray | float] = field(default_factory=dict)
    shares: dict[int, FloatArray] = field(default_factory=dict)
    _sampling: dict[int, FloatArray] = field(default_factory=dict)

    @property
    def n_paths(self) -> int:
        """R, the number of cold starts."""
        return self.paths.n_paths

    @property
    def n_levels(self) -> int:
        """How many levels the cold starts have been followed through."""
        return self.paths.level

    @property
    def ended(self) -> BoolArray:
        """Which paths have not got stuck, (R,)."""
        return self.paths.ended

    def at(self, level: int) -> np.ndarray:
        """The paths that get to a level."""
        return np.flatnonzero(self.paths.sets[level] != STUCK)

    def saturated(self, level: int, members: np.ndarray) -> BoolArray:
        """Which arms are saturated at a level, in some of the paths, (len(members), K)."""
        n_arms = self.paths.taken.shape[2]
        places, inverse = np.unique(self.paths.sets[level, members], return_inverse=True)
        sets = np.zeros((len(places), n_arms), dtype=bool)
        for row, place in enumerate(places):
            sets[row, list(arms_of(self.paths.codes[place]))] = True
        return sets[inverse]

    def n_samples(self, level: int) -> np.ndarray:
        """Samples that each path takes during a level, (R,)."""
        return self.paths.taken[level].sum(axis=1)

    def has(self, arm: int) -> BoolArray:
        """Which paths have saturated an arm, (R,)."""
        if not self.agenda.is_sampled[arm]:
            return np.zeros(self.n_paths, dtype=bool)
        return self.paths.taken[:, :, arm].sum(axis=0) == self.agenda.missing[arm]

    def trial(
        self, level: int, members: np.ndarray, *, users: Panel, by_arm: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Rounds that some paths would spend at a level with these users and their rates by promoted arm, (U, K).

        Expected given the samples taken, (len(members),).
        """
        paths = self.paths.up_to(level)
        some = replace(paths, sets=paths.sets[:, members], taken=paths.taken[:, members])
        shares = {}
        for code in some.members():
            still_open = self.agenda.open_arms(arms_of(code))
            rates = rates_by_arm(by_arm, users.promoted_by, still_open)
            shares[code] = _sampling(users, still_open, rates).sum(axis=0)
        taken = follow(some, shares, agenda=self.agenda, rng=rng).taken[-1].sum(axis=1)
        chances = np.array([shares[code].sum() for code in (self.paths.codes[p] for p in some.sets[-1])])
        return np.divide(taken, chances, out=np.zeros(len(members)), where=chances > 0)

    def sampling(self, code: int) -> FloatArray:
        """The chance that a round at a saturated set brings user u and, as she is explored, a sample of arm i: (P, K).

        Kept once it is asked for: designs ask again and again, lengths never.
        """
        if code not in self._sampling:
            self._sampling[code] = _sampling(self.panel, self.agenda.open_arms(arms_of(code)), self.rates[code])
        return self._sampling[code]

    def rounds(self, *, thinning: float = 1.0, rng: np.random.Generator) -> FloatArray:
        """Rounds that each stage of each path takes, (l, R): infinite for a stage that never ends.

        ``thinning`` multiplies the rate of every stage but the first: one rate for all users changes nothing but the
        time.
        """
        rounds = np.full(self.paths.taken.shape[:2], np.inf)
        rounds[: self.agenda.first_level] = 0.0
        for level in range(self.agenda.first_level, self.paths.level):
            for code, members in sorted(self.paths.members(level).items()):
                chance = float(self.shares[code].sum()) * (thinning if level else 1.0)
                if chance > 0:
                    n = self.paths.taken[level, members].sum(axis=1)
                    rounds[level, members] = waiting_time(n, min(chance, 1.0), rng=rng)
        return rounds

    def design(self, members: np.ndarray, arm: int, *, rng: np.random.Generator) -> np.ndarray:
        """Which of the panel's users the samples of a saturated arm came from, without those of before: (n, N)."""
        users = np.empty((len(members), int(self.agenda.missing[arm])), dtype=np.int64)
        filled = np.zeros(len(members), dtype=np.int64)
        for level in range(self.paths.level):
            sets = self.paths.sets[level, members]
            for place in sorted(np.unique(sets), key=lambda place: self.paths.codes[place]):
                rows = np.flatnonzero(sets == place)
                counts = self.paths.taken[level, members[rows], arm]
                total = int(counts.sum())
                if total == 0:
                    continue
                upto = np.cumsum(self.sampling(self.paths.codes[place])[:, arm])
                who = np.searchsorted(upto, rng.random(total) * upto[-1], side="right")
                row = np.repeat(rows, counts)
                within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
                users[row, filled[row] + within] = np.minimum(who, len(upto) - 1)
                filled[rows] += counts
        return users

    def overlap(self, members: np.ndarray, arms: Iterable[int]) -> float:
        r"""How much of the spread of designs stays in an average over them, however many: all draw on one panel.

        A design has n_g samples in group g (an arm, at a set), drawn from a panel worth P_g users by Kish's count. A
        function of it with variance v has a part that is a sum over its users, with variance n_g v_g in group g, so
        that the sum of these is v at most. Its average over the panel is then off by a variance of at most
        :math:`(\sum_g n_g (v_g / P_g)^{1/2})^2 \le v \sum_g n_g / P_g`, by Cauchy and Schwarz: the sum is returned.
        """
        if self.panel.is_exact:
            return 0.0
        total = 0.0
        for level in range(self.agenda.first_level, self.paths.level):
            sets = self.paths.sets[level, members]
            for place in np.unique(sets):
                taken = self.paths.taken[level, members[sets == place]].sum(axis=0) / len(members)
                sampling = self.sampling(self.paths.codes[place])
                for arm in arms:
                    if taken[arm] > 0.0:
                        share = sampling[:, arm]
                        total += float(taken[arm] * np.square(share).sum() / share.sum() ** 2)
        return total


RatesAt = Callable[[Walk, int, np.ndarray], FloatArray | float]
"""The rates of the panel's users, (P,), at a saturated set: from the walk so far, the set's code, the paths there."""


def walk(
    panel: Panel,
    rates_at: RatesAt,
    *,
    n_per_arm: int | Agenda,
    n_paths: int,
    rng_of: Callable[[int], np.random.Generator],
    alike: Classes = (),
    first: FloatArray | float = 1.0,
) -> Walk:
    """The walk through a cold start, to its end.

    Parameters
    ----------
    n_per_arm : samples of every arm, or an agenda
    rng_of : the random numbers of each level
    first : how often the panel's users are sampled while no arm is saturated, (P,), or all of them
    """
    n_arms = panel.promoted_by.shape[1]
    agenda = as_agenda(n_per_arm, n_arms)
    so_far = Walk(panel=panel, agenda=agenda, paths=first_paths(n_paths, agenda))
    for level in range(agenda.first_level, agenda.n_levels):
        stages = list(so_far.paths.members().items())
        for code, members in track(stages, description=f"stages with {level} of {n_arms} arms saturated"):
            so_far.rates[code] = rates_at(so_far, code, members) if level else first
            still_open = agenda.open_arms(arms_of(code))
            so_far.shares[code] = _sampling(panel, still_open, so_far.rates[code]).sum(axis=0)
        paths = follow(so_far.paths, so_far.shares, agenda=agenda, rng=rng_of(level), alike=alike)
        so_far = replace(so_far, paths=paths)
    return so_far


def rates_by_arm(by_arm: FloatArray, promoted_by: FloatArray, still_open: list[int]) -> FloatArray:
    """The rate of each user at a set, (U,), from those by promoted arm (U, K); of tied arms the first one's."""
    first = promotion_shares(promoted_by, still_open).argmax(axis=1)
    return np.take_along_axis(by_arm, first[:, None], axis=1)[:, 0]


def _sampling(panel: Panel, still_open: list[int], rates: FloatArray | float) -> FloatArray:
    explored = (panel.weights * rates)[:, None]
    sampled = explored * promotion_shares(panel.promoted_by, still_open)
    return sampled if panel.follows is None else sampled * panel.follows


def waiting_time(n_samples: np.ndarray, chance: float | FloatArray, *, rng: np.random.Generator) -> FloatArray:
    """Rounds until there are so many samples, each round bringing one with this chance (negative binomial)."""
    if np.max(n_samples * (1.0 - chance) / chance, initial=0.0) < _MOST_ROUNDS:
        return (n_samples + rng.negative_binomial(n_samples, chance)).astype(float)
    return n_samples + rng.standard_gamma(n_samples) * (1.0 - chance) / chance
