"""What is promoted to users where worlds have saturated sets of their own.

Promotion goes by the platform's prior means: the best arm that is still open. So it is a matter of the user and of the
set, and is worked out once for each set that occurs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.posterior.kernels import compiled
from rcb_bayes.schema import BoolArray, FloatArray

_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class Sets:
    """The arms that are saturated in each of W worlds, (W, K); all others may be promoted, or those of an agenda."""

    saturated: BoolArray
    agenda: Agenda | None = None

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return len(self.saturated)

    @cached_property
    def _distinct(self) -> tuple[BoolArray, np.ndarray]:
        """The sets that occur, (S, K), and the place of each world's among them, (W,)."""
        return distinct_sets(self.saturated)

    def _open(self, sets: BoolArray) -> BoolArray:
        return ~sets if self.agenda is None else self.agenda.open(sets)

    def promotion(self, promoted_by: FloatArray) -> "Promotion":
        """What is promoted to users in every world, from the platform's prior means (U, K)."""
        sets, places = self._distinct
        ranks = dense_ranks(promoted_by)
        if not is_torn(ranks):
            return Promotion(first_open(ranks, self._open(sets))[:, places], ranks.shape[1])
        shares = np.ascontiguousarray(_shared(ranks, self._open(sets))[:, :, places])
        return Promotion(shares.argmax(axis=0), ranks.shape[1], shares)

    def promoted(self, promoted_by: FloatArray) -> FloatArray:
        """The chance that each arm is promoted to users in every world, (K, U, W)."""
        found = self.promotion(promoted_by)
        if found.shares is not None:
            return found.shares
        return (found.first == np.arange(found.n_arms)[:, None, None]).astype(float)

    def usually_promoted(self, promoted_by: FloatArray, weights: FloatArray | None) -> FloatArray:
        """The same on average over worlds, which count by their weights (W,), (U, K)."""
        sets, places = self._distinct
        shares = np.bincount(places, weights=weights, minlength=len(sets))
        shares = shares / shares.sum()
        step = max(1, _CHUNK_VALUES // (len(sets) * promoted_by.shape[1]))
        of_sets = Sets(sets, self.agenda)
        parts = [
            of_sets.promotion(promoted_by[start : start + step]).usual(shares)
            for start in range(0, max(len(promoted_by), 1), step)
        ]
        return np.concatenate(parts)


def distinct_sets(saturated: BoolArray) -> tuple[BoolArray, np.ndarray]:
    """The sets that occur among (R, K), in the order of their arms, and the place of each among them, (R,)."""
    packed = np.packbits(saturated, axis=1)  # as bytes they are sorted ten times as fast, into the same order
    keys = np.ascontiguousarray(packed).view(f"S{packed.shape[1]}")[:, 0]
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    return saturated[first], places.reshape(-1)


def rare_sets_too(
    saturated: BoolArray, spent: FloatArray, *, n_worlds: int, rng: np.random.Generator
) -> tuple[np.ndarray, FloatArray]:
    """Paths for W worlds, (W,), and how many times each world counts, (W,), one on average.

    A set is taken in proportion to the square root of the rounds spent there, and its worlds count for less or more:
    users meet rare sets, too, and what is explored there must be seen to be paid for.

    Parameters
    ----------
    saturated, spent : the set of each of R paths, (R, K), and the rounds that it spends there, (R,)
    """
    _, places = distinct_sets(saturated)
    of_set = np.bincount(places, weights=spent)[places]  # (R,)
    scale = np.sqrt(np.where(of_set > 0, of_set, 1.0))
    chosen = by_weight(spent / scale, n_worlds, rng=rng)
    weights = scale[chosen]
    return chosen, weights / weights.mean()


def by_weight(weights: FloatArray, n: int, *, rng: np.random.Generator) -> np.ndarray:
    """n places with chances by weight, one from each nth of the whole, in an order of their own."""
    upto = np.cumsum(weights)
    points = (np.arange(n) + rng.random(n)) / n * upto[-1]
    return rng.permutation(np.minimum(np.searchsorted(upto, points, side="right"), len(upto) - 1))


@dataclass(frozen=True, slots=True, eq=False)
class Promotion:
    """What is promoted to U users in W worlds.

    Attributes
    ----------
    first : the arm, (U, W); the first of those that tie
    shares : where some user is torn between arms, the chance of each arm, (K, U, W); else None
    """

    first: np.ndarray
    n_arms: int
    shares: FloatArray | None = None

    def together(self, weights: FloatArray) -> tuple[np.ndarray, np.ndarray, np.ndarray, FloatArray]:
        """How often i is promoted where k is the first to be, over worlds that count by weights (W,).

        Of what occurs, the user, k, i and how often it is, in their order, (n,) each.
        """
        w, k = self.first.shape[1], self.n_arms
        if self.shares is None:
            user, arm = np.nonzero(self.of_first(None))
            return user, arm, arm, self.of_first(weights)[user, arm] / w
        arm, user, world = np.nonzero(self.shares)
        code = (user * k + self.first[user, world]) * k + arm
        found, place = np.unique(code, return_inverse=True)
        often = np.bincount(place, weights=self.shares[arm, user, world] * weights[world])
        return found // k**2, found // k % k, found % k, often / w

    def usual(self, shares: FloatArray) -> FloatArray:
        """The chance that each arm is promoted to users, over sets with shares (W,), (U, K)."""
        return self.of_first(shares) if self.shares is None else (self.shares @ shares).T

    def of_first(self, weights: FloatArray | None) -> np.ndarray:
        """In how many worlds each arm is the first to be promoted, or their weights (W,) in all, (U, K)."""
        u = len(self.first)
        group = (np.arange(u)[:, None] * self.n_arms + self.first).reshape(-1)
        counts = None if weights is None else np.tile(weights, u)
        return np.bincount(group, weights=counts, minlength=u * self.n_arms).reshape(u, self.n_arms)


def dense_ranks(values: FloatArray) -> np.ndarray:
    """The rank of each arm for each user, 0 the best, arms that tie alike, (U, K)."""
    order = np.argsort(-values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    steps = -np.diff(ranked, axis=1, prepend=ranked[:, :1]) > TIE * np.maximum(np.abs(ranked), 1.0)
    ranks = np.empty(values.shape, dtype=np.int64)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis=1), axis=1)
    return ranks


def is_torn(ranks: np.ndarray) -> bool:
    """Whether some user is torn between arms."""
    return bool((ranks.max(axis=1, initial=0) < ranks.shape[1] - 1).any())


def first_open(ranks: np.ndarray, is_open: BoolArray) -> np.ndarray:
    """The best open arm of each user at each set, from ranks (U, K) without ties and sets (S, K): (U, S), or -1."""
    order = np.argsort(ranks, axis=1).astype(np.int16)
    found = np.empty((len(ranks), len(is_open)), dtype=np.int16)
    compiled(_first_open)(order, np.ascontiguousarray(is_open), found)
    return found


def _first_open(order, is_open, found) -> None:
    n_sets, n_arms = is_open.shape
    for user in range(len(order)):
        for place in range(n_sets):
            arm = -1
            for rank in range(n_arms):
                if is_open[place, order[user, rank]]:
                    arm = order[user, rank]
                    break
            found[user, place] = arm


def _shared(ranks: np.ndarray, is_open: BoolArray) -> FloatArray:
    """The chance of each arm where arms tie, (K, U, S)."""
    there = is_open.T.astype(float)  # (K, S)
    out = np.zeros((ranks.shape[1], len(ranks), len(is_open)))
    left = np.ones(out.shape[1:], dtype=bool)
    for rank in range(int(ranks.max(initial=0)) + 1):
        tied = ranks == rank  # (U, K)
        n_open = tied.astype(float) @ there  # whole numbers
        here = left & (n_open > 0)
        share = np.divide(1.0, n_open, out=np.zeros(n_open.shape), where=here)
        for arm in np.flatnonzero(tied.any(axis=0)):
            out[arm] += np.where(tied[:, arm, None], share * there[arm], 0.0)
        left &= n_open == 0
    return out
