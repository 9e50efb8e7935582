r"""Posterior means before their data are drawn: of a Gaussian belief they are normal, given who is sampled.

An arm with prior :math:`N(m, V)`, V = RR', and samples at users X has, over its rewards,

.. math:: E[b | S] \sim N(m, C), \qquad C = V - \mathrm{Var}(b | S) = R A (I + A)^{-1} R', \qquad A = R'X'XR/\sigma^2,

so that no reward need be drawn for what depends on posterior means alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcb_bayes.belief.law import GaussianLaw, square_root
from rcb_bayes.schema import FloatArray

_NOTHING = 1e-12  # of the prior variance: what samples that say nothing come to by rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanLaw:
    """The law of independent arms' posterior means in W worlds, given who is sampled there; computed once asked for.

    Attributes
    ----------
    belief : Gaussian, with independent arms
    grams : X'X of every world and arm, (W, K, d, d); zero for an arm without samples
    sigma : standard deviation of rewards
    overlap : how much of the worlds' spread stays in their average, however many they are: they share a panel of users
    """

    belief: GaussianLaw
    grams: FloatArray
    sigma: float
    overlap: Callable[[], float]

    def in_worlds(self, worlds: slice | np.ndarray) -> "MeanLaw":
        """The law in some of the worlds."""
        return replace(self, grams=self.grams[worlds])

    @cached_property
    def covariances(self) -> FloatArray:
        """C of every world and arm, (W, K, d, d)."""
        out = np.zeros(self.grams.shape)
        for arm, prior in enumerate(self._prior):
            grams = self.grams[:, arm]
            if not grams.any():
                continue
            root = square_root(prior)
            told = root.T @ grams @ root / self.sigma**2  # A
            found = root @ np.linalg.solve(np.eye(len(root)) + told, told @ root.T)
            out[:, arm] = 0.5 * (found + found.swapaxes(1, 2))
        return out

    @cached_property
    def _prior(self) -> FloatArray:
        """V of every arm, (K, d, d)."""
        d = self.belief.n_features
        out = np.empty((self.belief.n_arms, d, d))
        for block in self.belief.blocks:
            (arm,) = block.arms
            out[arm] = block.covariances[0]
        return out

    def variances(self, users: FloatArray) -> FloatArray:
        """Var(m_j(x)) of users (U, d) in every world, (K, U, W); zero exactly where the samples say nothing to them."""
        w, k, d, _ = self.grams.shape
        squares = (users[:, :, None] * users[:, None, :]).reshape(-1, d * d)
        found = np.matmul(squares, self.covariances.reshape(w, k, d * d).transpose(1, 2, 0))
        before = np.matmul(squares, self._prior.reshape(k, d * d, 1))  # (K, U, 1)
        found[found <= _NOTHING * before] = 0.0
        return found


def has_mean_law(belief: GaussianLaw | None) -> bool:
    """Whether posterior means of a belief are normal and independent given who is sampled."""
    return belief is not None and belief.is_gaussian and all(len(block.arms) == 1 for block in belief.blocks)
