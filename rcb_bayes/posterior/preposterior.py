r"""Posterior means before their data are drawn: of a Gaussian belief they are normal, given who is sampled.

An arm with prior :math:`N(m, V)`, V = RR', and samples at users X has, over its rewards,

.. math:: E[b | S] \sim N(m, C), \qquad C = V - \mathrm{Var}(b | S) = R A (I + A)^{-1} R', \qquad A = R'X'XR/\sigma^2,

so that no reward need be drawn for what depends on posterior means alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.belief.law import GaussianLaw, square_root
from rcb_bayes.schema import FloatArray

_NOTHING = 1e-12  # of the prior variance: what samples that say nothing come to by rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanLaw:
    """The law of independent arms' posterior means in W worlds, given who is sampled there.

    Attributes
    ----------
    covariances : C of every world and arm, (W, K, d, d); zero for an arm without samples
    prior : V of every arm, (K, d, d)
    overlap : how much of the worlds' spread stays in their average, however many they are: they share a panel of users
    """

    covariances: FloatArray
    prior: FloatArray
    overlap: float = 0.0

    def in_worlds(self, worlds: slice | np.ndarray) -> "MeanLaw":
        """The law in some of the worlds."""
        return replace(self, covariances=self.covariances[worlds])

    def variances(self, users: FloatArray) -> FloatArray:
        """Var(m_j(x)) of users (U, d) in every world, (K, U, W); zero exactly where the samples say nothing to them."""
        w, k, d, _ = self.covariances.shape
        squares = (users[:, :, None] * users[:, None, :]).reshape(-1, d * d)
        found = np.matmul(squares, self.covariances.reshape(w, k, d * d).transpose(1, 2, 0))
        before = np.matmul(squares, self.prior.reshape(k, d * d, 1))  # (K, U, 1)
        found[found <= _NOTHING * before] = 0.0
        return found


def mean_law(law: GaussianLaw, grams: FloatArray, *, sigma: float) -> MeanLaw:
    """The law of posterior means, from X'X of every world and arm (W, K, d, d).

    Applicability: a Gaussian belief with independent arms, rewards with a known standard deviation ``sigma``.
    """
    d = law.n_features
    out = np.zeros(grams.shape)
    prior = np.empty((law.n_arms, d, d))
    for block in law.blocks:
        (arm,) = block.arms
        prior[arm] = block.covariances[0]
        if not grams[:, arm].any():
            continue
        root = square_root(prior[arm])
        told = root.T @ grams[:, arm] @ root / sigma**2  # A
        found = root @ np.linalg.solve(np.eye(d) + told, told @ root.T)
        out[:, arm] = 0.5 * (found + found.swapaxes(1, 2))
    return MeanLaw(covariances=out, prior=prior)
