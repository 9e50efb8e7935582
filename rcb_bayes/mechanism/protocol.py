"""What a mechanism is: how many samples an arm gets, how often each user is explored, how much is let through after.

A plan is one; so are a few lines of one's own. The walk through a cold start, the epochs of exploitation, live runs and
audits ask for nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rcb_bayes.mechanism.agenda import Agenda, as_agenda
from rcb_bayes.mechanism.knowledge import Knows
from rcb_bayes.schema import FloatArray


class Mechanism(Protocol):
    """The paper's mechanism, as far as it is not the same for everybody."""

    @property
    def agenda(self) -> Agenda:
        """N, samples of each arm in the cold start, and which arms may be promoted when."""
        ...

    @property
    def spread_multiple(self) -> float:
        """What the spread of exploitation is multiplied by."""
        ...

    @property
    def has_guard(self) -> bool:
        """Whether anything may be cut in exploitation."""
        ...

    @property
    def knows(self) -> Knows:
        """What rates may depend on beside the user: on which arms are saturated ("stage"), else on how many."""
        ...

    @property
    def types(self) -> Any:
        """The types of users that it is for, where it tells arms apart that are alike to some of them; else None."""
        ...

    def rate(self, x: FloatArray, *, saturated: Sequence[str]) -> FloatArray:
        """How often users (U, d) are explored once these arms are saturated, (U,).

        While none is, asked for where some arm is not promoted from the start: how often users are sampled then.
        """
        ...

    def rates_by_arm(self, x: FloatArray, *, level: int) -> FloatArray:
        """How often users (U, d) are explored where an arm is promoted to them, once so many are saturated, (U, K).

        Asked for where rates do not depend on which arms are saturated.
        """
        ...

    def guard(self, x: FloatArray, epoch: int) -> FloatArray:
        """Factors on each arm's off-best probability in an epoch, (U, d) -> (U, K)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRate:
    """One rate for all users, and no guard; while no arm is saturated, everybody is sampled."""

    n_per_arm: int | Agenda
    n_arms: int
    exploration_rate: float = 1.0
    spread_multiple: float = 1.0
    has_guard: bool = False
    knows: Knows = "stage"
    types: None = None

    @property
    def agenda(self) -> Agenda:
        """Samples of each arm."""
        return as_agenda(self.n_per_arm, self.n_arms)

    def rate(self, x: FloatArray, *, saturated: Sequence[str]) -> FloatArray:
        """The same for everybody; 1 while no arm is saturated."""
        return np.full(len(x), self.exploration_rate if saturated else 1.0)

    def rates_by_arm(self, x: FloatArray, *, level: int) -> FloatArray:
        """The same for everybody and every arm."""
        return np.full((len(x), self.n_arms), self.exploration_rate if level else 1.0)

    def guard(self, x: FloatArray, epoch: int) -> FloatArray:
        """Nothing is cut."""
        return np.ones((len(x), self.n_arms))
