r"""Posterior means before their data are drawn: of a Gaussian belief they are normal, given who is sampled.

A block of arms with prior :math:`N(m, V)`, V = RR', and samples at users X has, over their rewards,

.. math:: E[b | S] \sim N(m, C), \qquad C = V - \mathrm{Var}(b | S) = R A (I + A)^{-1} R', \qquad A = R'X'XR/\sigma^2,

so that no reward need be drawn for what depends on posterior means alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcb_bayes.belief.law import GaussianLaw, square_root
from rcb_bayes.schema import FloatArray

_NOTHING = 1e-12  # of the prior variance: what samples that say nothing come to by rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanLaw:
    """The law of posterior means in W worlds, given who is sampled there; computed once asked for.

    Attributes
    ----------
    belief : Gaussian
    grams : X'X of every world and arm, (W, K, d, d); zero for an arm without samples
    sigma : standard deviation of rewards
    overlap : how much of the worlds' spread stays in their average, however many they are: they share a panel of users
    """

    belief: GaussianLaw
    grams: FloatArray
    sigma: float
    overlap: Callable[[], float] = float

    def in_worlds(self, worlds: slice | np.ndarray) -> "MeanLaw":
        """The law in some of the worlds."""
        return replace(self, grams=self.grams[worlds])

    @property
    def is_coupled(self) -> bool:
        """Whether the samples of one arm tell of others."""
        return any(len(block.arms) > 1 for block in self.belief.blocks)

    @cached_property
    def blocks(self) -> list[FloatArray]:
        """C of every world, block of the belief by block, (W, p, p), arm-major."""
        found = []
        for block in self.belief.blocks:
            gram = _diagonal(self.grams[:, block.arms])
            root = square_root(block.covariances[0])
            told = root.T @ gram @ root / self.sigma**2  # A
            within = root @ np.linalg.solve(np.eye(len(root)) + told, told @ root.T)
            found.append(0.5 * (within + within.swapaxes(1, 2)))
        return found

    def variances(self, users: FloatArray) -> FloatArray:
        """Var(m_j(x)) of users (U, d) in every world, (K, U, W); zero exactly where the samples say nothing to them."""
        out = np.empty((self.belief.n_arms, len(users), len(self.grams)))
        for arm in range(len(out)):
            out[arm] = self.covariances(users, arm, rivals=(arm,))[arm]
            place, block = self._place(arm)
            own = self.belief.blocks[block].covariances[0][place, place]
            out[arm][out[arm] <= _NOTHING * ((users @ own) * users).sum(axis=1)[:, None]] = 0.0
        return out

    def covariances(self, users: FloatArray, arm: int, *, rivals: Iterable[int] | None = None) -> FloatArray:
        """Cov(m_i(x), m_j(x)) of an arm i with every arm, or some of them, (K, U, W); zero for all others."""
        w, k, d, _ = self.grams.shape
        squares = (users[:, :, None] * users[:, None, :]).reshape(-1, d * d)
        out = np.zeros((k, len(users), w))
        own, block = self._place(arm)
        for rival in range(k) if rivals is None else rivals:
            other, theirs = self._place(rival)
            if theirs == block:
                part = self.blocks[block][:, own, other].reshape(w, d * d)
                out[rival] = squares @ part.T
        return out

    def leads(self, users: FloatArray, arm: int) -> FloatArray:
        """Cov(m_i - m_j, m_i - m_k) of an arm i over all j and k, for users (U, d), (K, K, U, W)."""
        of_arms = np.stack([self.covariances(users, rival) for rival in range(self.belief.n_arms)])
        return of_arms[arm, arm] - of_arms[arm][:, None] - of_arms[arm][None] + of_arms

    def _place(self, arm: int) -> tuple[slice, int]:
        """Where an arm's coefficients are: among those of its block, and which block that is."""
        d = self.belief.n_features
        for number, block in enumerate(self.belief.blocks):
            if arm in block.arms:
                first = block.arms.index(arm) * d
                return slice(first, first + d), number
        raise AssertionError("unreachable")


def _diagonal(grams: FloatArray) -> FloatArray:
    """(W, k, d, d) as block-diagonal matrices (W, k d, k d)."""
    w, k, d, _ = grams.shape
    out = np.zeros((w, k, d, k, d))
    out[:, range(k), :, range(k)] = grams.swapaxes(0, 1)
    return out.reshape(w, k * d, k * d)
