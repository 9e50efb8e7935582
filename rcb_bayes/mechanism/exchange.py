"""What it means for posterior means that some arms are alike: exchanging them changes nothing.

Once a cold start is over, users do not know in which order arms filled up. The law of what they expect is then the same
after any exchange of arms that are alike, and so is what an arm gains and loses against a rival. Averages over all
pairs of such arms and such rivals are estimates of the same figure with less error.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.walk import Classes
from rcb_bayes.schema import BoolArray, FloatArray


def class_of_each(classes: Classes, n_arms: int) -> np.ndarray:
    """The number of each arm's class, (K,): an arm that is in none is its own."""
    found = np.arange(n_arms)
    for arms in classes:
        found[list(arms)] = min(arms, default=0)
    return np.unique(found, return_inverse=True)[1]


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """Cells of an arm and a rival that exchanges of arms turn into one another.

    Attributes
    ----------
    order : cells sorted by their kind, (K^2,)
    starts : where each kind begins among them
    kinds : the kind of each cell, (K^2,)
    """

    order: np.ndarray
    starts: np.ndarray
    kinds: np.ndarray

    @classmethod
    def of(cls, classes: Classes | None, n_arms: int) -> "Exchange | None":
        """From classes of arms; None where no two arms are alike."""
        own = class_of_each(classes or (), n_arms)
        if len(np.unique(own)) == n_arms:
            return None
        pairs = 2 * (own[:, None] * n_arms + own) + np.eye(n_arms, dtype=np.int64)  # an arm is no rival of its own
        _, kinds = np.unique(pairs.reshape(-1), return_inverse=True)
        order = np.argsort(kinds, kind="stable")
        return cls(order, np.flatnonzero(np.diff(kinds[order], prepend=-1)), kinds)

    def mean(self, values: FloatArray) -> FloatArray:
        """The average over cells of a kind, (..., K, K), in the place of each."""
        flat = values.reshape(*values.shape[:-2], -1)[..., self.order]
        found = np.add.reduceat(flat, self.starts, axis=-1) / np.diff(self.starts, append=len(self.order))
        return found[..., self.kinds].reshape(values.shape)

    def all(self, flags: BoolArray) -> BoolArray:
        """Whether it is so in all cells of a kind, (..., K, K), in the place of each."""
        flat = flags.reshape(*flags.shape[:-2], -1)[..., self.order]
        return np.logical_and.reduceat(flat, self.starts, axis=-1)[..., self.kinds].reshape(flags.shape)


def random_names(classes: Classes, n_arms: int, *, n_worlds: int, rng: np.random.Generator) -> np.ndarray | None:
    """In each world another order of the arms that are alike, (W, K); None where none are."""
    several = [np.array(sorted(arms)) for arms in classes if len(arms) > 1]
    if not several:
        return None
    names = np.tile(np.arange(n_arms), (n_worlds, 1))
    for arms in several:
        names[:, arms] = rng.permuted(names[:, arms], axis=1)
    return names
