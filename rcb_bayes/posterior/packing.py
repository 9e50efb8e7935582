"""Groups of arms of many data sets side by side, in as few rows as hold them.

Independent groups are answered apart, so that a row may take each from another data set. Groups of one arm each that
are alike may even change places: then what nobody has samples of need not be computed beside what somebody has.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.posterior.data import Statistics, unchecked_statistics
from rcb_bayes.schema import BoolArray

if TYPE_CHECKING:
    from rcb_bayes.belief import Prior

Classes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """What stands in the place of each of G groups of R rows: which data set, (R, G), which group of it, (R, G), and
    whether that is wanted or but fills the place, (R, G); and each row's turn, (R,)."""

    sets: np.ndarray
    groups: np.ndarray
    wanted: BoolArray
    turns: np.ndarray

    @classmethod
    def of(cls, still_open: BoolArray, turn: np.ndarray, *, classes: Classes) -> "Packing":
        """Pack the open groups (M, G) of data sets of the same turn (M,); groups of one class may change places."""
        n_groups = still_open.shape[1]
        none = np.zeros((0, n_groups), dtype=int)
        parts: list[tuple[np.ndarray, ...]] = [(none, none, none.astype(bool), turn[:0])]
        for now in np.unique(turn[still_open.any(axis=1)]):
            some = np.flatnonzero(still_open.any(axis=1) & (turn == now))
            own = [np.argwhere(still_open[np.ix_(some, members)]) for members in classes]
            n_rows = max(-(-len(pairs) // len(members)) for pairs, members in zip(own, classes, strict=True))
            sets = np.full((n_rows, n_groups), some[0])
            groups = np.tile(np.arange(n_groups), (n_rows, 1))
            wanted = np.zeros((n_rows, n_groups), dtype=bool)
            for pairs, members in zip(own, classes, strict=True):
                row, place = np.divmod(np.arange(len(pairs)), len(members))
                slot = np.array(members)[place]
                sets[row, slot], groups[row, slot] = some[pairs[:, 0]], np.array(members)[pairs[:, 1]]
                wanted[row, slot] = True
            parts.append((sets, groups, wanted, np.full(n_rows, now)))
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def statistics(self, data: Statistics, groups: Classes) -> Statistics:
        """The rows as data sets."""
        table = np.zeros((len(groups), max(len(arms) for arms in groups)), dtype=int)
        for g, arms in enumerate(groups):
            table[g, : len(arms)] = arms
        sets, source = (np.empty((len(self.sets), data.n.shape[1]), dtype=int) for _ in range(2))
        for g, arms in enumerate(groups):
            for place, arm in enumerate(arms):
                sets[:, arm], source[:, arm] = self.sets[:, g], table[self.groups[:, g], place]
        return unchecked_statistics(*(part[sets, source] for part in (data.xtx, data.xty, data.yty, data.n)))


def alike_groups(prior: "Prior") -> Classes:
    """Classes of groups that may change places: single arms that are alike; any other group is by itself."""
    alone = {arms[0]: g for g, arms in enumerate(prior.groups) if len(arms) == 1}
    classes = [[alone[arm] for arm in members if arm in alone] for members in prior.alike] if len(alone) > 1 else []
    known = {g for members in classes for g in members}
    rest = [(g,) for g in range(len(prior.groups)) if g not in known]
    return (*(tuple(members) for members in classes if members), *rest)
