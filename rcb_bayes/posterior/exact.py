r"""Exact posteriors of Gaussian beliefs and finite mixtures of them, batched over data sets.

For a block of arms with prior component :math:`N(m, RR')` and data precision :math:`\Lambda = X'X/\sigma^2`,
:math:`h = X'y/\sigma^2 - \Lambda m`,

.. math::

    P = R (I + R'\Lambda R)^{-1} R', \qquad E[b | S] = m + P h, \qquad
    \log p(S) = -\tfrac12 \log|I + R'\Lambda R| + m'X'y/\sigma^2 - \tfrac12 m'\Lambda m + \tfrac12 h'Ph + \mathrm{const}

Nothing is inverted that can be singular: neither the prior covariance nor X'X.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rcb_bayes.posterior.data import Statistics
from rcb_bayes.prior.law import Block, GaussianLaw, square_root
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ComponentPosterior:
    """Posterior of each component of blocks of equal shape: B blocks, C components, p coefficients.

    ``mean`` (M, B, C, p), ``covariance`` (M, B, C, p, p) and log weights (M, B, C), normalised over C.
    """

    mean: FloatArray
    covariance: FloatArray
    log_weight: FloatArray

    def mixed_mean(self) -> FloatArray:
        """Posterior mean over components, (M, B, p)."""
        if self.mean.shape[2] == 1:
            return self.mean[:, :, 0]
        return (np.exp(self.log_weight)[..., None] * self.mean).sum(axis=2)

    def mixed_covariance(self) -> FloatArray:
        """Posterior covariance over components, (M, B, p, p)."""
        if self.mean.shape[2] == 1:
            return self.covariance[:, :, 0]
        weight = np.exp(self.log_weight)[..., None, None]
        centred = self.mean - self.mixed_mean()[:, :, None]
        spread = centred[..., :, None] * centred[..., None, :]
        return (weight * (self.covariance + spread)).sum(axis=2)


def component_posterior(
    blocks: list[Block], data: Statistics, *, precision: FloatArray | float, n_features: int
) -> ComponentPosterior:
    """Posteriors of blocks with the same number of arms and components.

    Parameters
    ----------
    blocks : B blocks of equal shape
    precision : 1/sigma^2, a number or one per component (C,)
    """
    means = np.stack([block.means for block in blocks])  # (B, C, p)
    roots = np.stack([[square_root(cov) for cov in block.covariances] for block in blocks])  # (B, C, p, p)
    weights = np.stack([block.weights for block in blocks])  # (B, C)
    gram, moment = block_statistics(blocks, data, n_features=n_features)  # (M, B, p, p), (M, B, p)
    tau = np.broadcast_to(np.asarray(precision, dtype=float), weights.shape[1:])  # (C,)
    information = gram[:, :, None] * tau[:, None, None]  # (M, B, C, p, p)
    inner = roots.swapaxes(-1, -2) @ information @ roots
    inner += np.eye(inner.shape[-1])
    chol = np.linalg.cholesky(inner)
    half = np.linalg.solve(chol, np.broadcast_to(roots.swapaxes(-1, -2), inner.shape))  # chol^-1 R'
    covariance = half.swapaxes(-1, -2) @ half
    pull = moment[:, :, None] * tau[:, None] - (information @ means[..., None])[..., 0]  # h, (M, B, C, p)
    mean = means + (covariance @ pull[..., None])[..., 0]
    if weights.shape[1] == 1:
        return ComponentPosterior(mean, covariance, np.zeros(mean.shape[:3]))
    log_det = 2.0 * np.log(np.diagonal(chol, axis1=-2, axis2=-1)).sum(axis=-1)
    fit = (means * (moment[:, :, None] * tau[:, None] + pull)).sum(axis=-1)  # 2 m'X'y/s2 - m'Lm
    quadratic = (pull * (mean - means)).sum(axis=-1)  # h'Ph
    with np.errstate(divide="ignore"):
        log_weight = np.log(weights) - 0.5 * log_det + 0.5 * (fit + quadratic)
    if np.ndim(precision):
        log_weight = log_weight + _noise_terms(blocks, data, tau)
    log_weight = log_weight - np.logaddexp.reduce(log_weight, axis=2)[..., None]
    return ComponentPosterior(mean, covariance, log_weight)


def blocks_by_shape(law: GaussianLaw) -> Iterator[list[Block]]:
    """The law's blocks in lists of equal shape, so that each list is one batch."""
    shapes: dict[tuple[int, int], list[Block]] = {}
    for block in law.blocks:
        shapes.setdefault((len(block.arms), block.n_components), []).append(block)
    yield from shapes.values()


def exact_moments(
    law: GaussianLaw, data: Statistics, *, sigma: float, covariance: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Posterior means (M, K, d) and, on request, joint covariances (M, K d, K d)."""
    k, d = law.n_arms, law.n_features
    mean = np.empty((data.n_sets, k * d))
    joint = np.zeros((data.n_sets, k * d, k * d)) if covariance else None
    for blocks in blocks_by_shape(law):
        found = component_posterior(blocks, data, precision=1.0 / sigma**2, n_features=d)
        mixed = found.mixed_mean()
        spread = found.mixed_covariance() if joint is not None else None
        for b, block in enumerate(blocks):
            index = law.flat_index(block)
            mean[:, index] = mixed[:, b]
            if joint is not None and spread is not None:
                joint[:, np.array(index)[:, None], index] = spread[:, b]
    return mean.reshape(-1, k, d), joint


def block_statistics(
    blocks: list[Block], data: Statistics, *, n_features: int
) -> tuple[FloatArray, FloatArray]:
    """X'X (M, B, p, p), block diagonal over a block's arms, and X'y (M, B, p)."""
    arms = np.array([block.arms for block in blocks])  # (B, k)
    moment = data.xty[:, arms].reshape(data.n_sets, len(blocks), -1)
    if arms.shape[1] == 1:
        return data.xtx[:, arms[:, 0]], moment
    p, d = moment.shape[-1], n_features
    gram = np.zeros((data.n_sets, len(blocks), p, p))
    for k in range(arms.shape[1]):
        gram[:, :, k * d : (k + 1) * d, k * d : (k + 1) * d] = data.xtx[:, arms[:, k]]
    return gram, moment


def _noise_terms(blocks: list[Block], data: Statistics, tau: FloatArray) -> FloatArray:
    """What the log evidence adds when components differ in sigma: (M, B, C)."""
    arms = np.array([block.arms for block in blocks])
    n = data.n[:, arms].sum(axis=2)[..., None]
    square = data.yty[:, arms].sum(axis=2)[..., None]
    return 0.5 * n * np.log(tau) - 0.5 * square * tau
