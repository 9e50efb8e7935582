"""What is expected of every arm at a stage: m_j(x) in simulated worlds of the users' belief, arms x users x worlds.

Everywhere in the package the tensor is (K, U, W): arms first, so that the best one is found fast, worlds last, so that
averages over them go along memory. Engines answer data set by data set, and their answers are turned round here.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import FloatArray


class Outlook(Protocol):
    """What is expected of every arm at a stage, in simulated worlds of the users' belief."""

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        ...

    @property
    def tables(self) -> tuple[FloatArray, ...]:
        """What it rests on, worlds first: under the users' belief and, where it is another, the platform's."""
        ...

    @property
    def weights(self) -> FloatArray | None:
        """How many times each world counts, (W,), one on average; None where all count alike."""
        ...

    def in_worlds(self, worlds: slice | np.ndarray) -> "Outlook":
        """The outlook in some of the worlds."""
        ...

    def weighted(self, weights: FloatArray) -> "Outlook":
        """The outlook in worlds that count so many times, (W,)."""
        ...

    def rewards(self, users: FloatArray) -> FloatArray:
        """m_j(x) under the users' belief, (K, U, W): arms first, so that the best is found fast."""
        ...

    def acted_on(self, users: FloatArray) -> FloatArray:
        """m_j(x) under the platform's belief, by which it recommends, (K, U, W)."""
        ...


@dataclass(frozen=True, eq=False)
class LinearOutlook:
    """Rewards linear in the posterior means (W, K, d); ``platform`` where its belief is another.

    ``law`` is that of the means given who is sampled, where it is known.
    """

    means: FloatArray
    platform: FloatArray | None = None
    weights: FloatArray | None = None
    law: MeanLaw | None = None

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return len(self.means)

    def in_worlds(self, worlds: slice | np.ndarray) -> "LinearOutlook":
        """The outlook in some of the worlds."""
        platform, weights = (None if part is None else part[worlds] for part in (self.platform, self.weights))
        law = None if self.law is None else self.law.in_worlds(worlds)
        return LinearOutlook(self.means[worlds], platform, weights, law)

    def weighted(self, weights: FloatArray) -> "LinearOutlook":
        """The outlook in worlds that count so many times, (W,)."""
        return replace(self, weights=weights)

    def arms_first(self) -> "LinearOutlook":
        """The same with arms first in memory, so that ``rewards`` need not turn it round for every few users."""
        turned = [
            None if part is None else np.ascontiguousarray(part.transpose(1, 2, 0)).transpose(2, 0, 1)
            for part in (self.means, self.platform)
        ]
        assert turned[0] is not None  # it has means
        return replace(self, means=turned[0], platform=turned[1])

    @property
    def tables(self) -> tuple[FloatArray, ...]:
        """Posterior means (W, K, d)."""
        return (self.means,) if self.platform is None else (self.means, self.platform)

    def rewards(self, users: FloatArray) -> FloatArray:
        """m_j(x) = x' E[b_j | S] under the users' belief, (K, U, W)."""
        return linear_rewards(users, self.means)

    def acted_on(self, users: FloatArray) -> FloatArray:
        """The same under the platform's belief."""
        return linear_rewards(users, self.means if self.platform is None else self.platform)


@dataclass(frozen=True, eq=False)
class TableOutlook:
    """Rewards known for the users of a table only, (W, P, K): those that are not linear in beta."""

    users: FloatArray
    table: FloatArray
    platform: FloatArray | None = None
    weights: FloatArray | None = None

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return len(self.table)

    def in_worlds(self, worlds: slice | np.ndarray) -> "TableOutlook":
        """The outlook in some of the worlds."""
        platform, weights = (None if part is None else part[worlds] for part in (self.platform, self.weights))
        return TableOutlook(self.users, self.table[worlds], platform, weights)

    def weighted(self, weights: FloatArray) -> "TableOutlook":
        """The outlook in worlds that count so many times, (W,)."""
        return replace(self, weights=weights)

    @property
    def tables(self) -> tuple[FloatArray, ...]:
        """Mean rewards of the users of the table (W, P, K)."""
        return (self.table,) if self.platform is None else (self.table, self.platform)

    def rewards(self, users: FloatArray) -> FloatArray:
        """m_j(x) under the users' belief, (K, U, W)."""
        return arms_first(self.table[:, self._rows(users)])

    def acted_on(self, users: FloatArray) -> FloatArray:
        """The same under the platform's belief."""
        if self.platform is None:
            return self.rewards(users)
        return arms_first(self.platform[:, self._rows(users)])

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return places_of(self.users)

    def _rows(self, users: FloatArray) -> list[int]:
        return find_rows(self._places, users)


def organic_shares(outlook: Outlook, users: FloatArray) -> FloatArray:
    """How often each arm is the organic one for users, in every world as often as it counts, (K, U, W)."""
    shares = best_shares(outlook.acted_on(users), axis=0)
    return shares if outlook.weights is None else shares * outlook.weights


def places_of(users: FloatArray) -> dict[bytes, int]:
    """Where each user of a table stands."""
    return {row: k for k, row in enumerate(row_bytes(users))}


def distinct_rows(users: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Users without repetitions, and where each of the given ones stands among them: those of a table come again."""
    if len(users) < 2:
        return users, np.zeros(len(users), dtype=np.intp)
    known: dict[bytes, int] = {}
    places = [known.setdefault(row, len(known)) for row in row_bytes(users)]
    if len(known) == len(users):
        return users, np.arange(len(users))
    first = np.full(len(known), len(users), dtype=np.intp)
    np.minimum.at(first, places, np.arange(len(users)))
    return users[first], np.array(places, dtype=np.intp)


def row_bytes(users: np.ndarray) -> list[bytes]:
    """Each user by all her digits."""
    rows = np.ascontiguousarray(users + 0.0)  # no negative zeros
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1).tolist()


def find_rows(places: dict[bytes, int], users: FloatArray) -> list[int]:
    """Where the users stand in a table."""
    try:
        return [places[row] for row in row_bytes(users)]
    except KeyError:
        raise DataError(
            "The plan has no rate for a user who is not in the table of covariates: rewards are not linear in beta, so "
            "rates are known row by row. Plan with personalised=False, or add the user's row to the table."
        ) from None


def linear_rewards(users: FloatArray, means: FloatArray) -> FloatArray:
    """x' b_j of users (U, d), from coefficients of every world and arm (W, K, d): (K, U, W).

    Users in single precision have rewards in single precision.
    """
    return np.matmul(users, means.astype(users.dtype, copy=False).transpose(1, 2, 0))


def own_linear_rewards(users: FloatArray, means: FloatArray) -> FloatArray:
    """The same of users of each world's own (W, U, d): (K, U, W)."""
    return arms_first(users @ means.swapaxes(1, 2))


def arms_first(values: FloatArray) -> FloatArray:
    """Rewards as engines give them, (W, U, K), as everybody else has them: (K, U, W)."""
    return np.ascontiguousarray(values.T)
