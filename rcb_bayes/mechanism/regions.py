r"""For whom each arm is explored, where it need not be for all: users for whom it may be the best under the belief.

Arm i is *admitted* for user x where

.. math:: p_i(x) = \Pr(\mu(x, i) = \max_j \mu(x, j))

is not surely below a share, or i is her favourite before any data: what greedy recommends costs nobody anything. Of the
open arms she is promoted the one of which most is expected among those that are admitted for her; where none of them
is, she is not explored. The probability is a frequency over draws of the belief that are settled before the first
reward and stand in the plan, so that who is explored says nothing about rewards, and is the same wherever it is asked.

An arm that stands for others of its cluster counts as the best where one of these is.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.choice import is_best
from rcb_bayes.schema import BoolArray, FloatArray, is_number

_SURELY = 3.0  # errors below the share, for an arm not to be explored
_CHUNK_VALUES = 4_000_000
_MOST_KNOWN = 100_000  # users


@dataclass(frozen=True, kw_only=True, eq=False)
class Regions:
    """Draws of the belief, and the share of them in which an arm has to be the best for a user.

    Attributes
    ----------
    share : below which an arm is not explored for a user
    draws : coefficients of A arms in D worlds, (D, A, d)
    arms : their positions among all arms, (A,)
    stands_for : the arm that is explored in the place of each, (A,)

    Raises
    ------
    RcbError
        A share outside (0, 1), draws of other arms than those named.
    """

    share: float
    draws: FloatArray = field(repr=False)
    arms: tuple[int, ...]
    stands_for: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (is_number(self.share) and 0.0 < self.share < 1.0):
            raise RcbError(f"The share of a region is between 0 and 1, got {self.share!r}.")
        named = len(self.arms) == len(self.stands_for) == len(set(self.arms)) and set(self.stands_for) <= set(self.arms)
        if self.draws.ndim != 3 or self.draws.shape[1] != len(self.arms) or not len(self.draws) or not named:
            raise RcbError("Regions have draws of each of their arms, and an arm of them is explored for each.")
        if not np.isfinite(self.draws).all() or min(self.arms, default=0) < 0:
            raise RcbError("Draws of regions are finite, and their arms are positions.")

    def __eq__(self, other: object) -> bool:
        """Whether they are the same for everybody."""
        if not isinstance(other, Regions):
            return NotImplemented
        if self is other:
            return True
        mine, theirs = ((one.share, one.arms, one.stands_for) for one in (self, other))
        return mine == theirs and np.array_equal(self.draws, other.draws)

    def __hash__(self) -> int:
        return hash((self.share, self.arms, self.stands_for, len(self.draws)))

    def likely(self, users: FloatArray, n_arms: int) -> BoolArray:
        """Arms that are not surely best with a chance below the share, (U, d) -> (U, K)."""
        users = np.ascontiguousarray(users, dtype=float)
        known = self._known.setdefault(n_arms, {})
        if len(known) > _MOST_KNOWN:
            known.clear()
        keys = [row.tobytes() for row in users]
        fresh = {key: place for place, key in enumerate(keys) if key not in known}
        if fresh:
            found = self._likely(users[list(fresh.values())], n_arms)
            known.update(zip(fresh, found, strict=True))
        return np.array([known[key] for key in keys]).reshape(len(users), n_arms)

    @cached_property
    def _known(self) -> dict[int, dict[bytes, BoolArray]]:
        """Users that were asked for before, by the number of arms: audits ask again and again."""
        return {}

    def _likely(self, users: FloatArray, n_arms: int) -> BoolArray:
        n, (d, a) = len(users), self.draws.shape[:2]
        often = np.zeros((n, n_arms))
        explored = np.array(self.stands_for)
        flat = self.draws.reshape(d * a, -1)
        step = max(1, _CHUNK_VALUES // (d * a))
        for start in range(0, n, step):
            some = users[start : start + step]
            best = (some @ flat.T).reshape(len(some), d, a).argmax(axis=2)  # rewards rise with x'b
            at = np.arange(len(some))[:, None] * n_arms + explored[best]
            counts = np.bincount(at.reshape(-1), minlength=len(some) * n_arms)
            often[start : start + step] = counts.reshape(len(some), n_arms)
        chance = often / d
        error = np.sqrt(np.maximum(chance * (1.0 - chance), 1.0 / d) / d)
        return chance + _SURELY * error >= self.share

    def admitted(self, users: FloatArray, promoted_by: FloatArray) -> BoolArray:
        """For whom each arm is explored, from users (U, d) and the platform's prior means (U, K): (U, K)."""
        return self.likely(users, promoted_by.shape[1]) | is_best(promoted_by)

    def ranked(self, promoted_by: FloatArray, admitted: BoolArray) -> FloatArray:
        """Prior means with those of arms that are not admitted below all others, in their order, (U, K)."""
        low, high = promoted_by.min(axis=1, keepdims=True), promoted_by.max(axis=1, keepdims=True)
        return np.where(admitted, promoted_by, promoted_by - (high - low) - np.maximum(1.0, np.abs(low)))

    def of_arms(self, kept: BoolArray, stands_for: np.ndarray) -> "Regions":
        """The same of some arms, (K,), each of which has one that is explored in its place, (K,).

        Draws of arms that are left out are dropped: an arm that is kept is best all the more often.
        """
        places = [place for place, arm in enumerate(self.arms) if kept[arm]]
        arms = tuple(self.arms[place] for place in places)
        return Regions(
            share=self.share,
            draws=np.ascontiguousarray(self.draws[:, places]),
            arms=arms,
            stands_for=tuple(int(stands_for[arm]) for arm in arms),
        )


def explored_at(promoted: FloatArray, admitted: BoolArray | None) -> BoolArray | None:
    """Users to whom an arm is promoted that is admitted for them, (U,), from chances (U, K); None where all are.

    Arms that tie are all admitted, or none of them is.
    """
    return None if admitted is None else ~((promoted > 0.0) & ~admitted).any(axis=1)
