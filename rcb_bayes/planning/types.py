"""What several types of users follow, put together: the plans of each, and how much of all users must follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class TypedPlans:
    """Plans of several types of users, made for one walk through the cold start.

    Attributes
    ----------
    names, shares : of the types; the shares sum to 1
    least_share : of users, of whatever features, who must follow: 1 for all of them
    plans : of each type, a ``Plan`` by itself
    """

    names: tuple[str, ...]
    shares: tuple[float, ...]
    least_share: float
    plans: tuple[Any, ...]

    @property
    def has_guard(self) -> bool:
        """Whether anything may be cut for some type."""
        return any(plan.has_guard for plan in self.plans)

    def followed(self, values: Sequence[FloatArray]) -> FloatArray:
        """The largest value that types with enough of the users reach, element by element; of all types, the least.

        Parameters
        ----------
        values : of each type, arrays of one shape
        """
        stacked = np.stack([np.asarray(value, dtype=float) for value in values])
        if self.least_share >= 1.0:
            return stacked.min(axis=0)
        order = np.argsort(-stacked, axis=0, kind="stable")
        reached = np.cumsum(np.asarray(self.shares)[order], axis=0) >= self.least_share - 1e-9
        at = reached.argmax(axis=0)[None]
        return np.take_along_axis(np.take_along_axis(stacked, order, axis=0), at, axis=0)[0]
