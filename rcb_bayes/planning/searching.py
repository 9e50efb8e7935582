"""Users that tables are grown from, and the search for those who are given more than the plan gives them.

Such users are rare, and an audit finds them. They are looked for at random, among users moved within the support, among
those who expect to lose the most, and on both sides of every cut: from users who have the least room on, each step to
one with less room who is still on that side of that cut in that leaf.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.mechanism.bands import clopper_pearson
from rcb_bayes.mechanism.panel import some_users
from rcb_bayes.mechanism.streams import Stream, generator
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
_N_LOOKED = 1024  # at random, and as many moved, in each search
_N_POOL = 32_768  # among whom those who expect to lose the most are looked for
_N_LOSERS = 4096  # of them at most, in each search
_N_KEPT = 8192  # that the share kept is estimated with, and how many are given more
_LEVEL = 0.05  # of the bound on these
_SEARCHES = 1  # after each of which the table is grown anew
_CLOSER = 3  # after which its leaves stay
_FEWEST = 1 / 1365  # of the users, on either side of a split, but no fewer than 8
_WORTH = 1e-4  # of what is to be kept, for a cut
_CLIMBS, _TRIES = 15, 6  # steps of those who expect to lose the most, and tries of each
_STARTS, _BEST = 8, 2  # users of a side of a cut who are looked at, and who climb on
_SIDE_STEPS = np.geomspace(0.4, 0.004, 12)  # of the way towards another user
_STEPS = (0.3, 0.1, 0.03, 0.01, 0.003)  # of the way towards another user
_LOWEST = 0.1  # share of users that count as the lowest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """What a table is made of: values of users (U, d) -> (U, q), and what each weighs, (U, q).

    ``groups`` are those of values that are cut together, (q,), and ``arms`` the arms of each, (G, K). ``room`` is what
    is left of users' bounds at values that are given, (U, q), unless it is their own values less these. ``outlooks``
    are what users expect to gain by prior means alone, (U, m): where they are lowest, so may values be. A part in which
    some values are not for every user, those of no weight, ``is_partial``. ``columns`` are places among the values, for
    those of a rule, unless it has them as they are: the same one may stand for several. Users whose lead of a group's
    arms is above the ``border`` are given 1 by the plan, all of them.
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
            return grow(samples, prior_mean, max_leaves=max_leaves, fewest=1), len(self.users)
        fewest, seen = max(8, int(_FEWEST * len(self.users))), list(samples)
        for _ in track(range(_SEARCHES), description="leaves"):
            grown = grow(samples, prior_mean, max_leaves=max_leaves, fewest=fewest, worth=_WORTH)
            for k, part in enumerate(parts):
                users, values = self._looked(part, samples[k], grown[k])
                seen[k] = seen[k].joined(users, values)
                below = (values < grown[k].table.of(users)).any(axis=1)
                samples[k] = samples[k].joined(users[below], values[below])
        grown = grow(samples, prior_mean, max_leaves=max_leaves, fewest=fewest, worth=_WORTH)
        found = []
        for part, one, sample in zip(parts, grown, seen, strict=True):
            now = one.renewed(sample, since=len(self.users))
            for _ in track(range(_CLOSER), description="borders"):
                since = len(sample.users)
                sample = sample.joined(*self._looked(part, sample, now, is_last=True))
                now = now.renewed(sample, since=since)
            found.append((now, len(sample.users)))
        return [one for one, _ in found], sum(n for _, n in found) - (len(parts) - 1) * len(self.users)

    def table(self, part: Part, grown: Grown) -> LeafTable:
        """The table of a part; nothing where no user of a leaf asks for it, if not all ask for everything."""
        if not part.is_partial:
            return grown.table
        return _emptied(grown.table, self.users, part.weights(self.users))

    def kept(self, parts: list[Part], found: dict[str, LeafTable]) -> Kept:
        """What tables keep, over users of their own; over all there are, where those are a table."""
        users, shares, _ = (self.users, self.shares, True) if self.is_exact else self._some(_N_KEPT, self.others)
        figures: dict[str, float] = {}
        exceeded, most = np.zeros(len(users), dtype=bool), 0.0
        for part in parts:
            own, given, weights = part.values(users), found[part.name].of(users), part.weights(users)
            before = (weights * own).sum(axis=1)
            after = (weights * np.minimum(own, given)).sum(axis=1)
            mean = float(shares @ before)
            share = float(shares @ after) / mean if mean > 0.0 else 1.0
            spread = float(shares @ (after - share * before) ** 2)
            figures[part.name] = share
            error = np.sqrt(spread / len(users)) / mean if mean > 0.0 and not self.is_exact else 0.0
            figures[f"{part.name}_mcse"] = float(error)
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

    def _some(self, n_users: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, bool]:
        return some_users(self.covariates, n_users=max(1, int(self.part * n_users)), rng=rng)

    def _sample(self, part: Part, prior_mean: FloatArray) -> Sample:
        """The users that a table is grown from."""
        weights = part.weights(self.users) * self.shares[:, None]
        values, expected = part.values(self.users), self.users @ prior_mean.T
        width = 2.0 * float((expected.max(axis=1, keepdims=True) - expected).mean())
        hopes = Hopes(means=prior_mean, arms=part.arms, width=width if width > 0.0 else 1.0)
        whole = Sample(users=self.users, values=values, weights=weights, hopes=hopes)
        if part.border is not None:
            looks = hopes.of(self.users)
            is_certain = looks[:, part.groups] > part.border
            certain, others = float(weights[is_certain].sum()), np.where(is_certain, 0.0, weights)
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
            [some, self._moved(sample, grown), self._losers(part, grown), self._beside_cuts(part, sample, grown.table)]
        )
        users = users[(grown.table.of(users) > 0.0).any(axis=1)]
        return users, part.values(users) if len(users) else np.zeros((0, grown.values.shape[1]))

    def _moved(self, sample: Sample, grown: Grown) -> FloatArray:
        """Users moved towards others, or away from them, within the support; half of them from the lowest."""
        project = getattr(self.covariates, "project", None)
        if project is None:
            return sample.users[:0]
        given = grown.table.of(sample.users)
        room = np.where(given > 0.0, sample.values - given, np.inf).min(axis=1)
        lowest = np.argsort(room, kind="stable")[: max(1, int(_LOWEST * len(room)))]
        half = max(1, int(self.part * _N_LOOKED) // 2)
        start = np.concatenate([self.rng.choice(lowest, size=half), self.rng.integers(len(room), size=half)])
        other = self.rng.integers(len(room), size=2 * half)
        size = self.rng.choice(_STEPS, size=(2 * half, 1)) * self.rng.choice([-1.0, 1.0], size=(2 * half, 1))
        return project(sample.users[start] + size * (sample.users[other] - sample.users[start]))

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
        """On each side of every cut users with little room, climbed down to from others there."""
        project, cuts = getattr(self.covariates, "project", None), table.cuts
        if project is None or cuts is None or sample.border is not None:
            return sample.users[:0]
        own = np.arange(cuts.n_groups)[:, None] == np.minimum(cuts.groups, cuts.n_groups)  # (G, q)
        place, side = self._starts(sample.users, table, own)
        group, users = side % cuts.n_groups, sample.users[place]

        def left(users: FloatArray, group: np.ndarray) -> FloatArray:
            return np.where(own[group], part.left(users, table.of(users)), np.inf).min(axis=1)

        room = left(users, group)
        best = _first_of_each(side, room, _BEST)
        users, side, group, room = users[best], side[best], group[best], room[best]
        for size in _SIDE_STEPS:
            other = sample.users[self.rng.integers(len(sample.users), size=len(users))]
            moved = project(users + self.rng.choice([-size, size], size=(len(users), 1)) * (other - users))
            stays = np.flatnonzero(_side(table, moved, group) == side)
            found = left(moved[stays], group[stays])
            better = found < room[stays]
            users[stays[better]], room[stays[better]] = moved[stays[better]], found[better]
        return users

    def _starts(self, users: FloatArray, table: LeafTable, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some of the users on each side of every cut on which something is given, and the side, as a number."""
        assert table.cuts is not None  # asked for where there are some
        given = table.of(users)
        places, sides = [], []
        for group in range(table.cuts.n_groups):
            some = np.flatnonzero((given[:, own[group]] > 0.0).any(axis=1))
            side = _side(table, users[some], np.full(len(some), group))
            chosen = _first_of_each(side, self.rng.random(len(some)), _STARTS)
            places.append(some[chosen])
            sides.append(side[chosen])
        return np.concatenate(places), np.concatenate(sides)


def _side(table: LeafTable, users: FloatArray, group: np.ndarray) -> np.ndarray:
    """A number for the leaf of users (U, d) and the side of the cut of a group (U,) that they are on there, (U,)."""
    assert table.cuts is not None  # asked for where there are some
    leaf = table.leaves.of(users)
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
