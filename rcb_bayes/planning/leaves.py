"""Users sorted into few leaves by a tree of linear splits, and a value for each leaf.

A split asks whether w'x is at most a threshold. The sum is taken feature by feature, in their order and in double
precision, so that a user falls into the same leaf alone, among thousands, and in another language.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
class LeafTable:
    """Values of leaves, (n_leaves, q): a rate, or a factor for every arm."""

    leaves: Leaves
    values: FloatArray

    def of(self, users: FloatArray) -> FloatArray:
        """The values of users (U, d), (U, q)."""
        return self.values[self.leaves.of(users)]

    def one(self, x: list[float]) -> list[float]:
        """The values of one user."""
        return self._rows[self.leaves.one(x)]

    @cached_property
    def _rows(self) -> list[list[float]]:
        return self.values.tolist()


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
    values = table.values
    if values.shape != shape or values.dtype.kind != "f" or not ((values >= 0.0) & (values <= 1.0)).all():
        yield f"values of a rule's leaves are in [0, 1], of shape {shape}"


def _axis(w: FloatArray) -> int:
    """The one feature that a split looks at; -1 where there are several."""
    used = np.flatnonzero(w)
    return int(used[0]) if len(used) == 1 and w[used[0]] == 1.0 else -1
