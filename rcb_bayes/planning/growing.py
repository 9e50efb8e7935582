r"""Growing a table: which splits keep the most of what users may be given, if a leaf gives all the least of its own.

With values v (U, q) and the weights w that each has, a leaf S keeps :math:`\sum_q \min_S v_q \sum_S w_q` of
:math:`\sum w v`. Splits are greedy and best first. The least is a poor guide by itself: where low users stand on both
sides of every split it gains nothing, though two splits would. So a split is judged by what it keeps *and* by how much
it takes off the spread, the sum over leaves of :math:`W \, \mathrm{sd}(v)`, which is in the same units.

Between the last user of one side and the first of the other the threshold stands with the better side's last user: who
is in between gets the lower values.

Where values come in groups, a leaf has cuts (``planning.cutting``) that give more to some of its users. The next leaf
to be split is the one that loses the most in spite of them.

Or it is known for certain to whom everything is given: those who expect to lose no more than some amount. Then that
border is the cut of every leaf that it goes through, whoever was looked at, and all else is about the others.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rcb_bayes.planning.cutting import Cut, best_cuts
from rcb_bayes.planning.leaves import Cuts, Hopes, LeafTable, Leaves
from rcb_bayes.schema import FloatArray

_FEW_GROUPS = 5  # each with a cut in every leaf
_LEAST_KEPT = 0.05  # of a stage, for its weight: one that is closed counts for much, and not for all
_MOST_PAIRS = 24  # of arms, along whose prior means users are split


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Users that a table is grown from.

    Attributes
    ----------
    users : (U, d)
    values : (U, q), which a leaf takes the least of
    weights : (U, q), zero for users who count for the least only
    groups : of values that are cut together, (q,); None for leaves without cuts
    hopes, looks : what cuts look at, and that of the users, (U, G + 1)
    border : users whose lead (``planning.leaves.Hopes``) is above are given everything for certain; None where none are
    certain : what that keeps of each value, (q,)
    stages : of each value, (q,), where values are rates; weights are then such that a stage's sum is its rounds
    """

    users: FloatArray
    values: FloatArray
    weights: FloatArray
    groups: np.ndarray | None = None
    hopes: Hopes | None = None
    looks: FloatArray | None = None
    border: float | None = None
    certain: FloatArray | float = 0.0
    stages: np.ndarray | None = None

    @property
    def total(self) -> float:
        """What is to be kept."""
        return float(((self.weights * self.values).sum(axis=0) + self.certain).sum())

    def kept_by(self, table: LeafTable) -> tuple[FloatArray, FloatArray]:
        """The share that a table keeps of each stage, or of all values, (S,), and what each of them weighs, (S,)."""
        stages = np.zeros(self.values.shape[1], dtype=np.int64) if self.stages is None else self.stages
        given = np.minimum(self.values, table.of(self.users))
        after, before = (
            np.bincount(stages, weights=(self.weights * some).sum(axis=0) + self.certain)
            for some in (given, self.values)
        )
        return np.divide(after, before, out=np.ones(len(before)), where=before > 0.0), before

    def at_least(self, share: float) -> float:
        """A share kept, for comparisons: guards that keep nothing stop nobody, so that stages come first."""
        return share if self.stages is not None else max(share, _LEAST_KEPT)

    def pressed(self, table: LeafTable) -> "Sample":
        """With more weight on stages that a table keeps less of: as much as their rounds grow, to first order."""
        if self.stages is None:
            return self
        factor = np.maximum(self.kept_by(table)[0], _LEAST_KEPT)[self.stages] ** -2
        return replace(self, weights=self.weights * factor, certain=self.certain * factor)

    @property
    def n_groups(self) -> int:
        """How many groups values come in."""
        return 1 if self.groups is None else int(self.groups.max()) + 1

    def least(self, some: np.ndarray) -> FloatArray:
        """The least of some users, (q,); where all of them are certain of everything, nothing for others."""
        least = self.values[some].min(axis=0)
        if self.border is None or self.groups is None or self.looks is None:
            return least
        return np.where((self.looks[some][:, self.groups] <= self.border).any(axis=0), least, 0.0)

    def cuts(
        self,
        some: np.ndarray,
        *,
        worth: float,
        known: Sequence[Cut | None] = (),
        only: np.ndarray | None = None,
        turn: bool = True,
    ) -> list[Cut | None]:
        """The cuts of a leaf with some of the users, each of which keeps so much; see ``best_cuts``.

        Where some of them are certain of everything, the border is the cut.
        """
        if self.groups is None or self.hopes is None or self.looks is None:
            return []
        if self.border is not None:
            told = (self.looks[some, :-1] > self.border).any(axis=0)  # (G,)
            known = [self._at_border(g) if told[g] else (known[g] if known else None) for g in range(len(told))]
            only = np.setdiff1d(np.arange(len(told)) if only is None else only, np.flatnonzero(told))
        own = self.users[some], self.looks[some], self.values[some], self.weights[some], self.groups
        options = {"worth": worth, "known": known, "only": only, "turn": turn}
        return best_cuts(*own, width=self.hopes.width, n_groups=len(self.hopes.arms), **options)

    def _at_border(self, group: int) -> Cut:
        assert self.border is not None  # asked for where there is one
        weights = np.zeros(self.users.shape[1] + 2)
        weights[-2] = 1.0
        return Cut(weights=weights, threshold=self.border, above=np.ones(int((self.groups == group).sum())), worth=0.0)

    def joined(self, users: FloatArray, values: FloatArray) -> "Sample":
        """With more users, who count for the least only."""
        return replace(
            self,
            users=np.concatenate([self.users, users]),
            values=np.concatenate([self.values, values]),
            weights=np.concatenate([self.weights, np.zeros(values.shape)]),
            looks=None
            if self.hopes is None or self.looks is None
            else np.concatenate([self.looks, self.hopes.of(users)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grown:
    """A tree, the least of its users' values in each leaf (n_leaves, q), and the share kept after every split.

    ``cuts`` are those of each leaf, a place for each group of ``groups``; none where values have no groups. Each keeps
    ``worth`` at least.
    """

    leaves: Leaves
    values: FloatArray
    course: tuple[float, ...]
    cuts: tuple[tuple[Cut | None, ...], ...] = ()
    groups: np.ndarray | None = None
    hopes: Hopes | None = None
    worth: float = 0.0

    @property
    def table(self) -> LeafTable:
        """As users are given values by it."""
        if self.groups is None or self.hopes is None or not any(cut is not None for cuts in self.cuts for cut in cuts):
            return LeafTable(leaves=self.leaves, values=self.values)
        shape = (len(self.cuts), max(len(cuts) for cuts in self.cuts))
        weights, thresholds = np.zeros((*shape, self.leaves.weights.shape[1] + 2)), np.zeros(shape)
        above = self.values.copy()
        for leaf, cuts in enumerate(self.cuts):
            for group, cut in enumerate(cuts):
                if cut is not None:
                    weights[leaf, group], thresholds[leaf, group] = cut.weights, cut.threshold
                    above[leaf, self.groups == group] = cut.above
        cuts = Cuts(hopes=self.hopes, groups=self.groups, weights=weights, thresholds=thresholds, above=above)
        return LeafTable(leaves=self.leaves, values=self.values, cuts=cuts)

    def renewed(self, sample: Sample, *, since: int = 0, turn: bool = True) -> "Grown":
        """The same leaves with the least of a sample that has more users, those from ``since`` on.

        What nobody of them asks to be lower stays as it is; other cuts keep their directions unless they ``turn``.
        """
        leaf = self.leaves.of(sample.users)
        low = sample.values[since:] < self.table.of(sample.users[since:])  # (n, q)
        order = np.argsort(leaf, kind="stable")
        ends = np.searchsorted(leaf[order], np.arange(self.leaves.n_leaves + 1))
        values, cuts = self.values.copy(), list(self.cuts)
        asking = np.flatnonzero(low.any(axis=1))
        for k in np.unique(leaf[since:][asking]).tolist():
            some = order[ends[k] : ends[k + 1]]
            values[k] = sample.least(some)
            if self.cuts and sample.groups is not None:
                lower = low[asking[leaf[since:][asking] == k]].any(axis=0)
                only = np.unique(sample.groups[lower])
                cuts[k] = tuple(sample.cuts(some, worth=self.worth, known=self.cuts[k], turn=turn, only=only))
        return replace(self, values=values, cuts=tuple(cuts))

    def lowered_since(self, before: "Grown") -> "Grown":
        """The same leaves, lowered by as much again as since an earlier form of them: room for what was not found."""

        def again(now: FloatArray, then: FloatArray) -> FloatArray:
            return np.maximum(now - np.maximum(then - now, 0.0), 0.0)

        def moved(now: Cut | None, then: Cut | None) -> Cut | None:
            if now is None or then is None:
                return None
            further = now.threshold + max(now.threshold - then.threshold, 0.0)
            return replace(now, above=again(now.above, then.above), threshold=further)

        pairs = zip(self.cuts, before.cuts, strict=True)
        cuts = tuple(tuple(map(moved, own, then)) for own, then in pairs)
        return replace(self, values=again(self.values, before.values), cuts=cuts)


def split_directions(users: FloatArray, prior_mean: FloatArray) -> FloatArray:
    """Directions that splits are looked for along, (M, d): features, and differences of arms' prior means.

    Who is promoted which arm, and who loses by it, is decided along differences of prior means. Of many pairs those are
    taken that are the two best arms for the most users.
    """
    d = users.shape[1]
    best_two = np.sort(np.argsort(users @ prior_mean.T, axis=1, kind="stable")[:, -2:], axis=1)
    pairs = Counter(map(tuple, best_two.tolist()))
    k = len(prior_mean)
    if k * (k - 1) // 2 <= _MOST_PAIRS:
        pairs.update({(i, j): 0 for i in range(k) for j in range(i + 1, k)})
    found = list(np.eye(d))
    for i, j in [pair for pair, _ in pairs.most_common(_MOST_PAIRS)]:
        w = prior_mean[i] - prior_mean[j]
        size = np.abs(w).max()
        if size > 0.0 and not any(_parallel(w / size, other) for other in found):
            found.append(w / size)
    return np.array(found)


def _parallel(one: FloatArray, other: FloatArray) -> bool:
    return min(np.abs(one - other).max(), np.abs(one + other).max()) < 1e-9


# --- growing ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Tree:
    """A tree as it grows; a place in ``ways`` is a split's (from 0) or a leaf's (-1 - k)."""

    sample: Sample
    directions: FloatArray
    fewest: int
    worth: float
    weights: list[FloatArray] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    ways: list[list[int]] = field(default_factory=list)
    least: list[FloatArray] = field(default_factory=list)
    cuts: list[list[Cut | None]] = field(default_factory=list)
    of_leaf: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    heap: list[tuple] = field(default_factory=list)

    def __post_init__(self) -> None:
        everybody = np.arange(len(self.sample.users))
        self._enter(everybody, leaf=0, cut=self.sample.border is not None)
        self.kept.append(self.of_leaf[0] + float(np.sum(self.sample.certain)))
        self._consider(everybody, leaf=0, parent=None)

    @property
    def price(self) -> int:
        """Leaves that another split takes: the one leaf of a table that is the same for all is none."""
        return 1 if self.weights else 2

    @property
    def share(self) -> float:
        """Of what is to be kept; see ``Sample.at_least``."""
        total = self.sample.total
        return self.sample.at_least(self.kept[-1] / total if total > 0.0 else 1.0)

    def _enter(self, some: np.ndarray, *, leaf: int, cut: bool = True) -> None:
        """What a leaf with some of the users gives, and keeps."""
        weights, least = self.sample.weights[some], self.sample.least(some)
        cuts = self.sample.cuts(some, worth=self.worth) if cut else []
        kept = float((least * weights.sum(axis=0)).sum()) + sum(one.worth for one in cuts if one is not None)
        if leaf == len(self.least):
            self.least.append(least)
            self.cuts.append(cuts)
            self.of_leaf.append(kept)
        else:
            self.least[leaf], self.cuts[leaf], self.of_leaf[leaf] = least, cuts, kept

    def _consider(self, some: np.ndarray, *, leaf: int, parent: tuple[int, int] | None) -> None:
        """Find the best split of a leaf, if there is any."""
        sample = self.sample
        values, weights = sample.values[some], sample.weights[some]
        if not (weights * (values - values.min(axis=0))).sum() > 0.0:
            return
        own = local_directions(sample.users[some], values, weights)
        directions = np.concatenate([self.directions, own])
        found = best_split(sample.users[some], directions, values, weights, fewest=self.fewest)
        if found is not None:
            lost = float((weights * values).sum()) - self.of_leaf[leaf]
            first = found[0] if sample.groups is None else lost
            heapq.heappush(self.heap, (-first, leaf, some, parent, found))

    def split(self) -> None:
        """Carry out the best split."""
        _, leaf, some, parent, (_, w, threshold) = heapq.heappop(self.heap)
        place, new = len(self.weights), len(self.least)
        is_below = projected(self.sample.users[some], w[None])[:, 0] <= threshold
        self.weights.append(w)
        self.thresholds.append(threshold)
        self.ways.append([-1 - leaf, -1 - new])
        if parent is not None:
            self.ways[parent[0]][parent[1]] = place
        before = self.of_leaf[leaf]
        for side, (rows, number) in enumerate(((some[is_below], leaf), (some[~is_below], new))):
            self._enter(rows, leaf=number)
            self._consider(rows, leaf=number, parent=(place, side))
        self.kept.append(self.kept[-1] - before + self.of_leaf[leaf] + self.of_leaf[new])

    def finished(self) -> Grown:
        """The tree for good."""
        s, d = len(self.weights), self.sample.users.shape[1]
        ways = np.array(self.ways, dtype=np.int64).reshape(s, 2)
        leaves = Leaves(
            weights=np.array(self.weights).reshape(s, d),
            thresholds=np.array(self.thresholds),
            below=ways[:, 0].copy(),
            above=ways[:, 1].copy(),
        )
        total = self.sample.total
        course = tuple(kept / total if total > 0.0 else 1.0 for kept in self.kept)
        is_cut = s > 0 or self.sample.border is not None
        cuts = tuple(tuple(each) for each in self.cuts) if is_cut else ()
        return Grown(
            leaves=leaves,
            values=np.array(self.least),
            course=course,
            cuts=cuts,
            groups=self.sample.groups if is_cut else None,
            hopes=self.sample.hopes,
            worth=self.worth,
        )


def grow(
    samples: list[Sample], prior_mean: FloatArray, *, max_leaves: int, fewest: int = 8, worth: float = 0.0
) -> list[Grown]:
    """A tree for each sample, with so many leaves together: the next split goes to the one that keeps less.

    ``fewest`` users with weights are on either side of a split, and a cut keeps the share ``worth`` of all at least;
    less in leaves of many cuts.
    """
    trees = []
    for sample in samples:
        part = worth * sample.total * min(1.0, _FEW_GROUPS / sample.n_groups)
        trees.append(_Tree(sample, split_directions(sample.users, prior_mean), fewest, part))
    left = max_leaves
    while True:
        able = [tree for tree in trees if tree.heap and tree.price <= left]
        if not able:
            break
        tree = min(able, key=lambda tree: tree.share)
        left -= tree.price
        tree.split()
    return [tree.finished() for tree in trees]


def local_directions(users: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Directions along which the values of some users change the most, by least squares, (0 to 2, d).

    One is for the weighted values together, one for the value that varies the most.
    """
    centred = users - users.mean(axis=0)
    moments = centred.T @ centred
    moments += 1e-9 * max(np.trace(moments), 1e-300) * np.eye(len(moments))
    mass = weights.sum(axis=0)
    targets = [values @ mass]
    if values.shape[1] > 1:
        targets.append(values[:, int((mass * values.std(axis=0)).argmax())])
    found = []
    for target in targets:
        w = np.linalg.solve(moments, centred.T @ (target - target.mean()))
        size = np.abs(w).max()
        if np.isfinite(size) and size > 0.0:
            found.append(w / size)
    return np.array(found).reshape(len(found), users.shape[1])


def projected(users: FloatArray, directions: FloatArray) -> FloatArray:
    """w'x of every user and direction, summed feature by feature as leaves do it, (U, M)."""
    out = users[:, :1] * directions[:, 0]
    for j in range(1, users.shape[1]):
        out += users[:, j : j + 1] * directions[:, j]
    return out


def best_split(
    users: FloatArray, directions: FloatArray, values: FloatArray, weights: FloatArray, *, fewest: int
) -> tuple[float, FloatArray, float] | None:
    """What the best split is worth, its direction and threshold; None where none is worth anything."""
    along = projected(users, directions)
    counts = (weights.sum(axis=1) > 0.0).astype(float)
    moments = [weights, weights * values, weights * values**2]
    whole = [part.sum(axis=0) for part in moments]
    base = float((whole[0] * values.min(axis=0)).sum()) - float(_spread(*whole).sum())
    best: tuple[float, FloatArray, float] | None = None
    for m in range(len(directions)):
        order = np.argsort(along[:, m], kind="stable")
        z, v = along[order, m], values[order]
        below = [np.cumsum(part[order], axis=0)[:-1] for part in moments]
        above = [total - part for total, part in zip(whole, below, strict=True)]
        low = below[0] * np.minimum.accumulate(v, axis=0)[:-1]
        high = above[0] * np.minimum.accumulate(v[::-1], axis=0)[::-1][1:]
        worth = (low + high - _spread(*below) - _spread(*above)).sum(axis=1) - base
        users_below = np.cumsum(counts[order])
        enough = (users_below[:-1] >= fewest) & (users_below[-1] - users_below[:-1] >= fewest)
        worth = np.where(enough & (z[1:] > z[:-1]), worth, -np.inf)
        k = int(worth.argmax()) if len(worth) else 0
        if len(worth) and worth[k] > (0.0 if best is None else best[0]):
            is_better_below = low[k].sum() * above[0][k].sum() >= high[k].sum() * below[0][k].sum()
            threshold = z[k] if is_better_below else np.nextafter(z[k + 1], -np.inf)
            best = float(worth[k]), directions[m], float(threshold)
    return best


def _spread(mass: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """W sd(v), from sums of w, w v and w v^2."""
    return np.sqrt(np.maximum(mass * second - first**2, 0.0))
