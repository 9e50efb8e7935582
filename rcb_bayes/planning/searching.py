"""Users that tables are grown from, and the search for those who are given more than the plan gives them.

Such users are rare, and an audit finds them. They are looked for at random, among users moved within the support, among
those who expect to lose the most, and on both sides of every cut: from users who have the least room on, each step to
one with less room who is still on that side of that cut in that leaf.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes.mechanism.bands import clopper_pearson
from rcb_bayes.mechanism.panel import some_users
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.planning.course import MOST_STUCK
from rcb_bayes.planning.cutting import grouped
from rcb_bayes.planning.growing import Grown, Sample, grow
from rcb_bayes.planning.leaves import Hopes, LeafTable
from rcb_bayes.planning.rule import Kept
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track
from rcb_bayes.users import Covariates

_N_USERS = 32_768  # that a table is grown from
_N_FRESH = 65_536  # at random in each of the last searches, once leaves stay
_N_FRESH_TOLD = 8192  # the same where the border is told
_N_LOOKED = 2048  # at random, and as many moved, in each search
_N_POOL = 32_768  # among whom those who expect to lose the most are looked for
_N_LOSERS = 4096  # of them at most, in each search
_N_KEPT = 8192  # that the share kept is estimated with, and how many are given more
_LEVEL = 0.05  # of the bound on these
_BALANCED = 3  # times that trees of a table are grown anew
_SEARCHES = 1  # after each of which the table is grown anew
_CLOSER = 6  # after which its leaves stay; half as many, and cuts may turn, where looking at users takes long
_FEWEST = 1 / 1365  # of the users, on either side of a split, but no fewer than 8
_WORTH = 1e-4  # of what is to be kept, for a cut
_CLIMBS, _TRIES = 15, 6  # steps of those who expect to lose the most, and tries of each
_STARTS, _BEST = 8, 2  # users of a side of a cut who are looked at, and who climb on
_SIDE_TRIES = 4  # of each step
_SIDE_STEPS = np.geomspace(0.4, 0.004, 12)  # of the way towards another user
_STEPS = (0.3, 0.1, 0.03, 0.01, 0.003)  # of the way towards another user
_MOVES = 8  # of each size
_FEWER = 0.125  # of them, where looking at users takes long
_LOWEST = 0.1  # share of users that count as the lowest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds:
    """How long cold starts take that are simulated.

    Attributes
    ----------
    stages : rounds spent at each planned stage, on average over cold starts, (S,)
    length, error : in all, and the error of cold starts being so many
    stuck : the share of them that does not end
    """

    stages: FloatArray
    length: float
    error: float
    stuck: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """What a table is made of: values of users (U, d) -> (U, q), and what each weighs, (U, q).

    ``groups`` are those of values that are cut together, (q,), and ``arms`` the arms of each, (G, K). ``room`` is what
    is left of users' bounds at values that are given, (U, q), unless it is their own values less these. ``outlooks``
    are what users expect to gain by prior means alone, (U, m): where they are lowest, so may values be. A part in which
    some values are not for every user, those of no weight, ``is_partial``. ``columns`` are places among the values, for
    those of a rule, unless it has them as they are: the same one may stand for several. Users whose lead of a group's
    arms is above the ``border`` are given 1 by the plan, all of them. ``stages`` are those of rates, (q,), and
    ``rounds`` what a cold start takes of users (U, d) with weights (U,) at such values (U, q).
    """

    name: str
    groups: np.ndarray
    arms: np.ndarray
    is_partial: bool = False
    values: Callable[[FloatArray], FloatArray]
    weights: Callable[[FloatArray], FloatArray]
    outlooks: Callable[[FloatArray], FloatArray]
    room: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    columns: np.ndarray | None = None
    border: float | None = None
    stages: np.ndarray | None = None
    rounds: Callable[[FloatArray, FloatArray, FloatArray], Rounds] | None = None

    @property
    def is_cheap(self) -> bool:
        """Whether users are looked at quickly: rates at sets are, by levels and factors are not."""
        return self.room is None and not self.is_partial

    def whole(self, table: LeafTable) -> LeafTable:
        """A table of the part's values as a rule has it."""
        return table if self.columns is None else table.columns(self.columns)

    def left(self, users: FloatArray, given: FloatArray) -> FloatArray:
        """The room of users who are given such values, (U, q): below 0 where it is too much."""
        return self.values(users) - given if self.room is None else self.room(users, given)


class Search:
    """Users that tables are grown from, and that leaves are looked through with."""

    def __init__(self, covariates: Covariates, *, part: float, seed: int) -> None:
        self.covariates = covariates
        self.part = part  # of the usual numbers of users
        self.rng = generator(seed, Stream.DISTILLED)
        self.others = generator(seed, Stream.KEPT_USERS)
        self.users, self.shares, self.is_exact = self._some(_N_USERS, self.rng)

    def tables(self, parts: list[Part], prior_mean: FloatArray, *, max_leaves: int) -> tuple[list[Grown], int]:
        """A tree for each part with the least of each leaf, and how many users were looked at."""
        samples = [self._sample(part, prior_mean) for part in parts]
        if self.is_exact:
            return self._balanced(parts, samples, prior_mean, max_leaves), len(self.users)
        fewest, seen = max(8, int(_FEWEST * len(self.users))), list(samples)
        options = {"max_leaves": max_leaves, "fewest": fewest, "worth": _WORTH}
        grown = grow(samples, prior_mean, **options)
        for _ in track(range(_SEARCHES), description="leaves"):
            for k, part in enumerate(parts):
                users, values = self._looked(part, samples[k], grown[k])
                seen[k] = seen[k].joined(users, values)
                below = (values < grown[k].table.of(users)).any(axis=1)
                samples[k] = samples[k].joined(users[below], values[below])
            pressed = [sample.pressed(one.table) for sample, one in zip(samples, grown, strict=True)]
            grown = grow(pressed, prior_mean, **options)
        found = []
        for part, one, sample in zip(parts, grown, seen, strict=True):
            before = now = one.renewed(sample, since=len(self.users))
            for _ in track(range(_CLOSER if part.is_cheap else _CLOSER // 2), description="borders"):
                since = len(sample.users)
                sample = sample.joined(*self._looked(part, sample, now, is_last=True))
                before, now = now, now.renewed(sample, since=since, turn=not part.is_cheap)
            found.append((now.lowered_since(before) if part.is_cheap else now, len(sample.users)))
        return [one for one, _ in found], sum(n for _, n in found) - (len(parts) - 1) * len(self.users)

    def _balanced(
        self, parts: list[Part], samples: list[Sample], prior_mean: FloatArray, max_leaves: int
    ) -> list[Grown]:
        """Of all users there are, the trees that close no stage if any do, and keep the most where they keep the least.

        Stages weigh more from tree to tree, the less is kept of them; at last guards get the leaves that rates leave.
        """

        def grown_from(some: list[Sample], n_leaves: int) -> list[Grown]:
            return grow(some, prior_mean, max_leaves=n_leaves, fewest=1)

        tried = [grown_from(samples, max_leaves)]
        if samples[0].stages is None:
            return tried[0]
        for _ in range(_BALANCED):
            pressed = [sample.pressed(one.table) for sample, one in zip(samples, tried[-1], strict=True)]
            tried.append(grown_from(pressed, max_leaves))
        first = grown_from(samples[:1], max_leaves)
        left = max_leaves - sum(one.leaves.n_leaves for one in first if one.leaves.n_leaves > 1)
        tried.append(first + grown_from(samples[1:], max(left, 1)))

        def worth(grown: list[Grown]) -> tuple[bool, float]:
            rates = self.table(parts[0], grown[0]).of(self.users)
            is_open = parts[0].rounds is None or parts[0].rounds(self.users, self.shares, rates).stuck <= MOST_STUCK
            return is_open, min(map(_length_kept, samples, grown))

        return max(tried, key=worth)

    def table(self, part: Part, grown: Grown) -> LeafTable:
        """The table of a part; nothing where no user of a leaf asks for it, if not all ask for everything."""
        if not part.is_partial:
            return grown.table
        return _emptied(grown.table, self.users, part.weights(self.users))

    def kept(self, parts: list[Part], found: dict[str, LeafTable]) -> Kept:
        """What tables keep, over users of their own; over all there are, where those are a table."""
        users, shares, _ = (self.users, self.shares, True) if self.is_exact else self._some(_N_KEPT, self.others)
        figures: dict[str, Any] = {}
        exceeded, most = np.zeros(len(users), dtype=bool), 0.0
        for part in parts:
            own, given, weights = part.values(users), found[part.name].of(users), part.weights(users)
            figures |= self._kept_of(part, users, shares, (own, given, weights))
            above = np.where(weights > 0.0, given - own, 0.0)
            exceeded |= (above > 0.0).any(axis=1)
            most = max(most, float(above.max(initial=0.0)))
        share = float(shares @ exceeded)
        if self.is_exact:
            return Kept(**figures, exceeded=share, exceeded_upper=share, exceeded_by=most)
        n = len(users)
        upper = float(clopper_pearson(exceeded.sum(), n, _LEVEL)[1])
        error = float(np.sqrt(share * (1.0 - share) / n))
        return Kept(**figures, exceeded=share, exceeded_mcse=error, exceeded_upper=upper, exceeded_by=most)

    def _kept_of(
        self, part: Part, users: FloatArray, shares: FloatArray, found: tuple[FloatArray, FloatArray, FloatArray]
    ) -> dict[str, Any]:
        """What is kept of one part: of guards in all, of rates stage by stage, as rounds, and the rule's own length."""
        own, given, weights = found
        stages = np.zeros(own.shape[1], dtype=np.int64) if part.stages is None else part.stages
        members = np.eye(stages.max() + 1)[stages]  # (q, S)
        before, after, rule = (weights * some @ members for some in (own, np.minimum(own, given), given))  # (U, S)
        mean = shares @ before
        kept = np.divide(shares @ after, mean, out=np.ones(len(mean)), where=mean > 0.0)
        plan = None if part.rounds is None else part.rounds(users, shares, own)
        rounds = mean if plan is None else plan.stages
        share = harmonic(kept, rounds)
        off = np.divide(after - kept * before, mean, out=np.zeros(before.shape), where=mean > 0.0)  # of each user

        def error(of_users: FloatArray) -> FloatArray:
            return np.sqrt(shares @ of_users**2 / len(users)) * (not self.is_exact)

        slope = (
            np.divide(rounds, kept**2, out=np.zeros(len(kept)), where=kept > 0.0) * share**2 / max(rounds.sum(), 1e-300)
        )
        out = {part.name: share, f"{part.name}_mcse": float(error(off @ slope))}
        if plan is None or part.rounds is None:
            return out
        own_rounds, reached = part.rounds(users, shares, given), shares @ rule
        drift = np.divide(rule, reached, out=np.ones(rule.shape), where=reached > 0.0) - 1.0
        return out | {
            "stages": tuple(kept.tolist()),
            "stages_mcse": tuple(error(off).tolist()),
            "length": own_rounds.length,
            "length_mcse": float(np.hypot(own_rounds.error, error(drift @ own_rounds.stages))),
            "length_of_plan": plan.length,
            "stuck": own_rounds.stuck,
        }

    def _some(self, n_users: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, bool]:
        return some_users(self.covariates, n_users=max(1, int(self.part * n_users)), rng=rng)

    def _sample(self, part: Part, prior_mean: FloatArray) -> Sample:
        """The users that a table is grown from."""
        weights = part.weights(self.users) * self.shares[:, None]
        values, expected = part.values(self.users), self.users @ prior_mean.T
        width = 2.0 * float((expected.max(axis=1, keepdims=True) - expected).mean())
        hopes = Hopes(means=prior_mean, arms=part.arms, width=width if width > 0.0 else 1.0)
        whole = Sample(users=self.users, values=values, weights=weights, hopes=hopes, stages=part.stages)
        if part.rounds is not None and part.stages is not None:
            mean = np.bincount(part.stages, weights=(weights * values).sum(axis=0))
            rounds = part.rounds(self.users, self.shares, values).stages
            factor = np.divide(rounds, mean, out=np.zeros(len(mean)), where=mean > 0.0)
            weights = weights * factor[part.stages]
            whole = replace(whole, weights=weights)
        if part.border is not None:
            looks = hopes.of(self.users)
            is_certain = looks[:, part.groups] > part.border
            certain, others = np.where(is_certain, weights, 0.0).sum(axis=0), np.where(is_certain, 0.0, weights)
            told = replace(whole, weights=others, groups=part.groups, looks=looks, border=part.border, certain=certain)
            if (values[is_certain] == 1.0).all():
                return told
        groups, order = grouped(weights, part.groups)
        hopes = replace(hopes, arms=part.arms[order])
        return replace(whole, groups=groups, hopes=hopes, looks=hopes.of(self.users))

    def _looked(
        self, part: Part, sample: Sample, grown: Grown, *, is_last: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Users at random, moved, and with most to lose, with their values; who is in an empty leaf is left out."""
        fresh = _N_FRESH if sample.border is None else _N_FRESH_TOLD
        some = self._some(fresh if is_last else _N_LOOKED, self.rng)[0]
        users = np.concatenate(
            [
                some,
                self._moved(part, sample, grown.table),
                self._losers(part, grown),
                self._beside_cuts(part, sample, grown.table),
            ]
        )
        users = users[(grown.table.of(users) > 0.0).any(axis=1)]
        return users, part.values(users) if len(users) else np.zeros((0, grown.values.shape[1]))

    def _moved(self, part: Part, sample: Sample, table: LeafTable) -> FloatArray:
        """Users moved towards others, or away from them, as long as that leaves less; half of them from the lowest."""
        project = getattr(self.covariates, "project", None)
        if project is None:
            return sample.users[:0]

        def left(users: FloatArray, values: FloatArray) -> FloatArray:
            given = table.of(users)
            return np.where(given > 0.0, values - given, np.inf).min(axis=1)

        room = left(sample.users, sample.values)
        lowest = np.argsort(room, kind="stable")[: max(1, int(_LOWEST * len(room)))]
        half = max(1, int((1.0 if part.is_cheap else _FEWER) * self.part * _N_LOOKED) // 2)
        start = np.concatenate([self.rng.choice(lowest, size=half), self.rng.integers(len(room), size=half)])
        users, least = sample.users[start], room[start]
        for step in np.repeat(_STEPS, _MOVES if part.is_cheap else 1):
            other = sample.users[self.rng.integers(len(room), size=2 * half)]
            moved = project(users + self.rng.choice([-step, step], size=(2 * half, 1)) * (other - users))
            found = left(moved, part.values(moved))
            users, least = np.where((found < least)[:, None], moved, users), np.minimum(found, least)
        return users

    def _losers(self, part: Part, grown: Grown) -> FloatArray:
        """Of each leaf the users who expect the least, by each of the outlooks; climbed down to within the leaf."""
        pool = self._some(_N_POOL, self.rng)[0]
        leaf, outlooks = grown.leaves.of(pool), part.outlooks(pool)
        largest = grown.table.largest
        firsts, columns = [], []
        for column, outlook in enumerate(outlooks.T):
            order = np.lexsort((outlook, leaf))
            first = order[np.flatnonzero(np.diff(leaf[order], prepend=-1))]
            firsts.append(first[(largest[leaf[first]] > 0.0).any(axis=1)])
            columns.append(np.full(len(firsts[-1]), column))
        start, column = np.concatenate(firsts), np.concatenate(columns)
        most = max(1, int(self.part * _N_LOSERS))
        if len(start) > most:
            some = self.rng.choice(len(start), size=most, replace=False)
            start, column = start[some], column[some]
        project = getattr(self.covariates, "project", None)
        users, place, lowest = pool[start], leaf[start], outlooks[start, column]
        if project is None:
            return users
        for size in np.geomspace(0.5, 0.001, _CLIMBS):
            for _ in range(_TRIES):
                other = pool[self.rng.integers(len(pool), size=len(users))]
                moved = project(users + self.rng.choice([-size, size], size=(len(users), 1)) * (other - users))
                found = part.outlooks(moved)[np.arange(len(users)), column]
                better = (found < lowest) & (grown.leaves.of(moved) == place)
                users, lowest = np.where(better[:, None], moved, users), np.where(better, found, lowest)
        return users

    def _beside_cuts(self, part: Part, sample: Sample, table: LeafTable) -> FloatArray:
        """In every leaf, on each side of every cut, users with little room, climbed down to from others there."""
        project = getattr(self.covariates, "project", None)
        if project is None:
            return sample.users[:0]
        n_groups = 1 if table.cuts is None else table.cuts.n_groups
        groups = np.zeros(table.values.shape[1]) if table.cuts is None else np.minimum(table.cuts.groups, n_groups)
        own = np.arange(n_groups)[:, None] == groups  # (G, q)
        place, side = self._starts(sample, table, own)
        group, users = side % n_groups, sample.users[place]
        if not len(users):  # nothing is given anywhere
            return users

        def left(users: FloatArray, group: np.ndarray) -> FloatArray:
            return np.where(own[group], part.left(users, table.of(users)), np.inf).min(axis=1)

        room = left(users, group)
        best = _first_of_each(side, room, _BEST)
        users, side, group, room = users[best], side[best], group[best], room[best]
        for size in np.repeat(_SIDE_STEPS, _SIDE_TRIES if part.is_cheap else 1):
            other = sample.users[self.rng.integers(len(sample.users), size=len(users))]
            moved = project(users + self.rng.choice([-size, size], size=(len(users), 1)) * (other - users))
            stays = np.flatnonzero(_side(table, moved, group) == side)
            found = left(moved[stays], group[stays])
            better = found < room[stays]
            users[stays[better]], room[stays[better]] = moved[stays[better]], found[better]
        return users

    def _starts(self, sample: Sample, table: LeafTable, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some of the users on each side of every cut on which something is given, and the side, as a number.

        Half of them are those who have the least room by their own values.
        """
        given = table.of(sample.users)
        places, sides = [], []
        for group in range(len(own)):
            some = np.flatnonzero((given[:, own[group]] > 0.0).any(axis=1))
            side = _side(table, sample.users[some], np.full(len(some), group))
            room = (sample.values - given)[some][:, own[group]].min(axis=1)
            for order in (room, self.rng.random(len(some))):
                chosen = _first_of_each(side, order, _STARTS // 2)
                places.append(some[chosen])
                sides.append(side[chosen])
        return np.concatenate(places), np.concatenate(sides)


def _length_kept(sample: Sample, grown: Grown) -> float:
    """The share that is kept of a cold start's length, or of guards."""
    return sample.at_least(harmonic(*sample.kept_by(grown.table)))


def harmonic(kept: FloatArray, rounds: FloatArray) -> float:
    """The share of a length that is kept if stages of so many rounds take longer by 1 / kept: 0 where one is closed."""
    if not rounds.sum() > 0.0:
        return 1.0
    with np.errstate(divide="ignore"):
        return float(rounds.sum() / (rounds / kept)[rounds > 0.0].sum())


def _side(table: LeafTable, users: FloatArray, group: np.ndarray) -> np.ndarray:
    """A number for the leaf of users (U, d) and the side of the cut of a group (U,) that they are on there, (U,)."""
    leaf = table.leaves.of(users)
    if table.cuts is None:
        return leaf
    is_above = table.cuts.sides(users, leaf)[np.arange(len(users)), group]
    return (2 * leaf + is_above) * table.cuts.n_groups + group


def _first_of_each(side: np.ndarray, order: FloatArray, n: int) -> np.ndarray:
    """Places of the first n of each side by some order."""
    places = np.lexsort((order, side))
    starts = np.flatnonzero(np.diff(side[places], prepend=-1))
    rank = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
    return places[rank < n]


def _emptied(table: LeafTable, users: FloatArray, weights: FloatArray) -> LeafTable:
    """Nothing is given in a leaf of what none of its users asks for: what no user shows, none has allowed."""
    mass = np.zeros(table.values.shape)
    np.add.at(mass, table.leaves.of(users), weights)
    cuts = table.cuts
    if cuts is not None:
        cuts = replace(cuts, above=np.where(mass > 0.0, cuts.above, 0.0))
    return LeafTable(leaves=table.leaves, values=np.where(mass > 0.0, table.values, 0.0), cuts=cuts)
