"""Users sorted into few leaves by a tree of linear splits, and a value for each leaf.

A split asks whether w'x is at most a threshold. The sum is taken feature by feature, in their order and in double
precision, so that a user falls into the same leaf alone, among thousands, and in another language.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaves:
    """A tree with S splits and S + 1 leaves.

    Attributes
    ----------
    weights : w of each split, (S, d)
    thresholds : (S,)
    below, above : where users go whose w'x is at most the threshold, and the others, (S,): a later split from 0 on, or
        leaf k as -1 - k
    """

    weights: FloatArray
    thresholds: FloatArray
    below: np.ndarray
    above: np.ndarray

    @property
    def n_leaves(self) -> int:
        """How many leaves there are."""
        return len(self.thresholds) + 1

    def of(self, users: FloatArray) -> np.ndarray:
        """The leaf of each of the users (U, d), (U,)."""
        if len(users) == 1:
            return np.array([self.one(users[0].tolist())])
        at = np.full(len(users), 0 if len(self.thresholds) else -1)
        while True:
            asked = np.flatnonzero(at >= 0)
            if not len(asked):
                return -1 - at
            splits = at[asked]
            w, x = self.weights[splits], users[asked]
            total = w[:, 0] * x[:, 0]
            for j in range(1, x.shape[1]):  # in turn, as for a single user: a sum may regroup
                total += w[:, j] * x[:, j]
            at[asked] = np.where(total <= self.thresholds[splits], self.below[splits], self.above[splits])

    def one(self, x: list[float]) -> int:
        """The leaf of one user, without the cost of arrays."""
        splits = self._splits
        at = 0 if splits else -1
        while at >= 0:
            axis, w, threshold, below, above = splits[at]
            if axis >= 0:
                total = x[axis]
            else:
                total = w[0] * x[0]
                for j in range(1, len(w)):
                    total += w[j] * x[j]
            at = below if total <= threshold else above
        return -1 - at

    @cached_property
    def _splits(self) -> list[tuple[int, list[float], float, int, int]]:
        """Splits as plain numbers; a split on a single feature has its place, for zeros add nothing."""
        axes = [_axis(w) for w in self.weights]
        columns = (self.weights, self.thresholds, self.below, self.above)
        return list(zip(axes, *(column.tolist() for column in columns), strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class Hopes:
    """What users expect before any data, as far as cuts look at it.

    Of each group of values that is the lead of its arms: the most that users expect of one of them, less the most of
    any. All groups have the crowd, the sum over arms of max(1 - g / width, 0)^2 with g by how much an arm is expected
    to be worse than the best.

    Attributes
    ----------
    means : prior means, (K, d)
    arms : 1 for the arms of each group, else 0, (G, K)
    width : of a crowd
    """

    means: FloatArray
    arms: np.ndarray
    width: float

    def of(self, users: FloatArray) -> FloatArray:
        """Leads and crowd of users (U, d), (U, G + 1)."""
        expected = users[:, :1] * self.means[:, 0]
        for j in range(1, users.shape[1]):  # in turn, as for a single user
            expected += users[:, j : j + 1] * self.means[:, j]
        best = expected.max(axis=1)
        out = np.zeros((len(users), len(self.arms) + 1))
        for group, arms in enumerate(self.arms):
            out[:, group] = expected[:, arms == 1].max(axis=1) - best
        for arm in range(len(self.means)):
            near = np.maximum(1.0 - (best - expected[:, arm]) / self.width, 0.0)
            out[:, -1] += near * near
        return out

    def one(self, x: list[float]) -> list[float]:
        """The same of one user."""
        means, groups = self._plain
        expected = []
        for mean in means:
            total = x[0] * mean[0]
            for j in range(1, len(mean)):
                total += x[j] * mean[j]
            expected.append(total)
        best, crowd = max(expected), 0.0
        for value in expected:
            near = 1.0 - (best - value) / self.width
            if near > 0.0:
                crowd += near * near
        return [*(max([expected[arm] for arm in arms]) - best for arms in groups), crowd]

    @cached_property
    def _plain(self) -> tuple[list[list[float]], list[list[int]]]:
        return self.means.tolist(), [np.flatnonzero(arms).tolist() for arms in self.arms]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cuts:
    """One further split in every leaf for each of G groups of values: users with a'z > t are given ``above``.

    z are a user's features, the lead of the group's arms and the crowd (``Hopes``).

    Attributes
    ----------
    hopes : what users expect
    groups : the group of each value, (q,); those of a group that is not cut, or beyond the last, are never above
    weights, thresholds : a and t, (n_leaves, G, d + 2) and (n_leaves, G); without a cut both are zero
    above : (n_leaves, q)
    """

    hopes: Hopes
    groups: np.ndarray
    weights: FloatArray
    thresholds: FloatArray
    above: FloatArray

    @property
    def n_groups(self) -> int:
        """How many groups may be cut."""
        return self.thresholds.shape[1]

    def sides(self, users: FloatArray, leaf: np.ndarray) -> np.ndarray:
        """Beyond which groups' cuts users (U, d) in leaves (U,) are, (U, G)."""
        d, looks = users.shape[1], self.hopes.of(users)
        total = self.weights[leaf, :, 0] * users[:, :1]
        for j in range(1, d):  # in turn, as for a single user
            total += self.weights[leaf, :, j] * users[:, j : j + 1]
        total += self.weights[leaf, :, d] * looks[:, :-1]
        total += self.weights[leaf, :, d + 1] * looks[:, -1:]
        return total > self.thresholds[leaf]

    def is_above(self, users: FloatArray, leaf: np.ndarray) -> np.ndarray:
        """Which values of users (U, d) in leaves (U,) are those above, (U, q)."""
        found = self.sides(users, leaf)
        uncut = np.zeros((len(users), 1), dtype=bool)
        return np.concatenate([found, uncut], axis=1)[:, np.minimum(self.groups, self.n_groups)]

    def columns(self, some: np.ndarray) -> "Cuts":
        """Of some of the values."""
        used, groups = np.unique(np.minimum(self.groups[some], self.n_groups), return_inverse=True)
        cut = used[used < self.n_groups]  # the uncut are the last, and stay so
        return Cuts(
            hopes=replace(self.hopes, arms=self.hopes.arms[cut]),
            groups=groups.astype(np.int64),
            weights=self.weights[:, cut],
            thresholds=self.thresholds[:, cut],
            above=self.above[:, some],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LeafTable:
    """Values of leaves, (n_leaves, q): a rate, or a factor for every arm; more for those above a leaf's cuts."""

    leaves: Leaves
    values: FloatArray
    cuts: Cuts | None = None

    def of(self, users: FloatArray) -> FloatArray:
        """The values of users (U, d), (U, q)."""
        leaf = self.leaves.of(users)
        if self.cuts is None:
            return self.values[leaf]
        return np.where(self.cuts.is_above(users, leaf), self.cuts.above[leaf], self.values[leaf])

    def one(self, x: list[float]) -> list[float]:
        """The values of one user."""
        low, places = self._rows[self.leaves.one(x)]
        if not places:
            return low
        assert self.cuts is not None  # the leaf has some
        found, looks = low.copy(), self.cuts.hopes.one(x)
        d = len(x)
        for group, w, threshold, columns in places:
            total = w[0] * x[0]
            for j in range(1, d):
                total += w[j] * x[j]
            total += w[d] * looks[group]
            total += w[d + 1] * looks[-1]
            if total > threshold:
                for column, value in columns:
                    found[column] = value
        return found

    def columns(self, some: np.ndarray) -> "LeafTable":
        """Of some of the values."""
        cuts = None if self.cuts is None else self.cuts.columns(some)
        return LeafTable(leaves=self.leaves, values=self.values[:, some], cuts=cuts)

    @property
    def largest(self) -> FloatArray:
        """The most that a leaf gives of each value, (n_leaves, q)."""
        return self.values if self.cuts is None else np.maximum(self.values, self.cuts.above)

    @cached_property
    def _rows(self) -> list[tuple[list[float], list[tuple[int, list[float], float, list[tuple[int, float]]]]]]:
        """Of each leaf its values, and its cuts: weights, threshold, and what changes above it."""
        out = []
        for leaf, low in enumerate(self.values.tolist()):
            places = []
            for group in range(0 if self.cuts is None else self.cuts.n_groups):
                assert self.cuts is not None  # it has groups
                above = self.cuts.above[leaf].tolist()
                columns = [(int(c), above[c]) for c in np.flatnonzero(self.cuts.groups == group) if above[c] != low[c]]
                w = self.cuts.weights[leaf, group]
                if columns and w.any():
                    places.append((group, w.tolist(), float(self.cuts.thresholds[leaf, group]), columns))
            out.append((low, places))
        return out


def single_leaf(n_features: int) -> Leaves:
    """One leaf for everybody."""
    nobody = np.zeros(0, dtype=np.int64)
    return Leaves(weights=np.zeros((0, n_features)), thresholds=np.zeros(0), below=nobody, above=nobody)


def count_leaves(leaves: Iterable[int]) -> int:
    """Leaves of tables with so many each; a table with one is the same for all users, and such tables share it."""
    return max(sum(n for n in leaves if n > 1), 1)


def leaf_faults(leaves: Leaves, *, n_features: int) -> Iterator[str]:
    """What is wrong with a tree: splits and leaves are reached once each, and no way leads back."""
    s = len(leaves.thresholds)
    if leaves.weights.shape != (s, n_features) or not np.isfinite(leaves.weights).all():
        yield f"splits of a rule have {n_features} finite weights each"
    if leaves.thresholds.shape != (s,) or not np.isfinite(leaves.thresholds).all():
        yield "thresholds of a rule are finite numbers"
    ways = [np.asarray(part) for part in (leaves.below, leaves.above)]
    if any(part.shape != (s,) or part.dtype.kind != "i" for part in ways):
        yield "a split of a rule has two ways on"
        return
    expected = [*range(-s - 1, 0), *range(1, s)] if s else []
    if np.sort(np.concatenate(ways)).tolist() != expected:
        yield "splits and leaves of a rule are reached once each"
    if any(((part >= 0) & (part <= np.arange(s))).any() for part in ways):
        yield "a way through a rule leads back"


def table_faults(table: LeafTable, *, n_features: int, n_values: int) -> Iterator[str]:
    """What is wrong with a table of rates or factors."""
    yield from leaf_faults(table.leaves, n_features=n_features)
    shape = (table.leaves.n_leaves, n_values)
    tables = [table.values] if table.cuts is None else [table.values, table.cuts.above]
    for values in tables:
        if values.shape != shape or values.dtype.kind != "f" or not ((values >= 0.0) & (values <= 1.0)).all():
            yield f"values of a rule's leaves are in [0, 1], of shape {shape}"
    if table.cuts is not None:
        yield from _cut_faults(table.cuts, shape=shape, n_features=n_features)


def _cut_faults(cuts: Cuts, *, shape: tuple[int, int], n_features: int) -> Iterator[str]:
    n_groups = cuts.thresholds.shape[1] if cuts.thresholds.ndim == 2 else -1
    if cuts.thresholds.shape != (shape[0], n_groups) or cuts.weights.shape != (shape[0], n_groups, n_features + 2):
        yield f"cuts of a rule have {n_features + 2} weights and a threshold each"
    elif not (np.isfinite(cuts.weights).all() and np.isfinite(cuts.thresholds).all()):
        yield "cuts of a rule are finite numbers"
    if cuts.groups.shape != (shape[1],) or cuts.groups.dtype.kind != "i" or (cuts.groups < 0).any():
        yield "each value of a rule belongs to a group"
    hopes = cuts.hopes
    if hopes.means.ndim != 2 or hopes.means.shape[1] != n_features or not np.isfinite(hopes.means).all():
        yield f"what users expect of an arm has {n_features} finite weights"
    elif hopes.arms.shape != (n_groups, len(hopes.means)) or not np.isin(hopes.arms, (0, 1)).all():
        yield "each group of a rule's values has arms"
    elif (hopes.arms.sum(axis=1) == 0).any() or not 0.0 < hopes.width < np.inf:
        yield "a group has an arm at least, and a crowd its width"


def _axis(w: FloatArray) -> int:
    """The one feature that a split looks at; -1 where there are several."""
    used = np.flatnonzero(w)
    return int(used[0]) if len(used) == 1 and w[used[0]] == 1.0 else -1
