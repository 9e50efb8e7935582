r"""The density of a belief that is Gaussian given one scale: the scale integrated out on its grid.

.. math:: p(b) = \sum_j w_j N(b; m, C_j)

with the weights of a trapezoid rule over the scale. Where all :math:`C_j` are diagonal along the same axes, as those of
arms around a shared level are, a value is turned once, and its distances from all components are one matrix product.
"""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.posterior.proposal import lifted
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.belief.conditional import ConditionalLaw


class ScaleDensity:
    """The log density of a belief in one block, at many values."""

    def __init__(self, given: "ConditionalLaw") -> None:
        block = given.law.blocks[0]
        self._law = given.law
        self._centre = block.means[0]
        rng = np.random.default_rng(0)
        # Axes that need not be at right angles: columns in other units have other eigenvectors, but the same axes.
        first, second = (np.tensordot(rng.uniform(0.5, 1.0, len(block.means)), block.covariances, axes=1) for _ in "ab")
        scale = np.sqrt(np.diagonal(first))
        back = np.linalg.inv(np.linalg.cholesky(lifted(first / (scale[:, None] * scale)))) / scale
        self._axes = back.T @ np.linalg.eigh(back @ second @ back.T)[1]
        rotated = self._axes.T @ block.covariances @ self._axes
        self.spectrum = np.diagonal(rotated, axis1=1, axis2=2).copy()  # (J, p)
        rest = rotated - self.spectrum[:, None] * np.eye(len(self._centre))
        self.is_shared = bool((np.abs(rest).max(axis=(1, 2)) < 1e-8 * self.spectrum.max(axis=1)).all())
        self.is_centred = bool((block.means == self._centre).all())
        with np.errstate(divide="ignore"):
            log_weight = np.log(block.weights)
        constant = np.linalg.slogdet(self._axes)[1] - 0.5 * len(self._centre) * np.log(2.0 * np.pi)
        self._log_weight = log_weight - 0.5 * np.log(self.spectrum).sum(axis=1) + constant

    @classmethod
    def of(cls, given: "ConditionalLaw | None") -> "ScaleDensity | None":
        """The density of a belief in one block without a noise of its own, or None where it is not of this kind."""
        if given is None or given.sigma is not None or len(given.law.blocks) != 1:
            return None
        density = cls(given)
        return density if density.is_shared and density.is_centred and (density.spectrum > 0).all() else None

    def __call__(self, values: FloatArray) -> FloatArray:
        """Log densities at values (n, K, d), of the only group: (n, 1)."""
        squares = ((values.reshape(len(values), -1) - self._centre) @ self._axes) ** 2
        terms = squares @ (-0.5 / self.spectrum).T + self._log_weight  # (n, J)
        top = terms.max(axis=1, keepdims=True)
        return top + np.log(np.exp(terms - top).sum(axis=1, keepdims=True))

    def typical(self, n: int) -> GaussianLaw:
        """The belief given n values of the scale that are equally likely."""
        block = self._law.blocks[0]
        chosen = np.searchsorted(np.cumsum(block.weights), (np.arange(n) + 0.5) / n)
        few = Block(
            arms=block.arms,
            weights=np.full(n, 1.0 / n),
            means=block.means[chosen],
            covariances=block.covariances[chosen],
        )
        return GaussianLaw(n_arms=self._law.n_arms, n_features=self._law.n_features, blocks=(few,))
