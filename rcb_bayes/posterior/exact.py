r"""Exact posteriors of Gaussian beliefs and finite mixtures of them, batched over data sets.

For a block of arms with prior component :math:`N(m, RR')` and data precision :math:`\Lambda = X'X/\sigma^2`,
:math:`h = X'y/\sigma^2 - \Lambda m`,

.. math::

    P = R (I + R'\Lambda R)^{-1} R', \qquad E[b | S] = m + P h, \qquad
    \log p(S) = -\tfrac12 \log|I + R'\Lambda R| + m'X'y/\sigma^2 - \tfrac12 m'\Lambda m + \tfrac12 h'Ph + \mathrm{const}

Nothing is inverted that can be singular: neither the prior covariance nor X'X.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rcb_bayes.belief.law import Block, GaussianLaw, square_root
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ComponentPosterior:
    """Posterior of each component of blocks of equal shape: B blocks, C components, p coefficients.

    ``mean`` (M, B, C, p), ``covariance`` (M, B, C, p, p) or None, and log weights (M, B, C), normalised over C.
    """

    mean: FloatArray
    covariance: FloatArray | None
    log_weight: FloatArray

    def mixed_mean(self) -> FloatArray:
        """Posterior mean over components, (M, B, p)."""
        if self.mean.shape[2] == 1:
            return self.mean[:, :, 0]
        return (np.exp(self.log_weight)[..., None, :] @ self.mean)[..., 0, :]

    def mixed_covariance(self) -> FloatArray:
        """Posterior covariance over components, (M, B, p, p)."""
        assert self.covariance is not None  # asked for when fitted
        if self.mean.shape[2] == 1:
            return self.covariance[:, :, 0]
        weight = np.exp(self.log_weight)
        centred = self.mean - self.mixed_mean()[:, :, None]
        within = np.einsum("mbc,mbcij->mbij", weight, self.covariance)
        return within + np.einsum("mbc,mbci,mbcj->mbij", weight, centred, centred)

    def draw(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Draws of every block's coefficients, (M, B, n, p)."""
        assert self.covariance is not None  # asked for when fitted
        n_sets, n_blocks, _, p = self.mean.shape
        edges = np.cumsum(np.exp(self.log_weight), axis=2)
        label = (rng.uniform(size=(n_sets, n_blocks, n, 1)) > edges[:, :, None, :-1]).sum(axis=3)  # (M, B, n)
        normal = rng.standard_normal((n_sets, n_blocks, n, p, 1))
        out = np.empty((n_sets, n_blocks, n, p))
        for m in range(n_sets):  # one data set at a time: a root for every component that is drawn
            for b in range(n_blocks):
                used, position = np.unique(label[m, b], return_inverse=True)
                roots = square_roots(self.covariance[m, b, used])
                out[m, b] = self.mean[m, b, label[m, b]] + (roots[position] @ normal[m, b])[..., 0]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Prior components of B blocks of equal shape: ``means`` (B, C, p), ``roots`` (B, C, p, p), ``log_weights`` (B, C).

    ``roots`` R have R R' = covariance; they are computed once and serve every data set.
    """

    arms: np.ndarray
    means: FloatArray
    roots: FloatArray
    log_weights: FloatArray

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> "Components":
        """Stack blocks with the same number of arms and components."""
        with np.errstate(divide="ignore"):
            return cls(
                arms=np.array([block.arms for block in blocks]),
                means=np.stack([block.means for block in blocks]),
                roots=np.stack([square_roots(block.covariances) for block in blocks]),
                log_weights=np.log(np.stack([block.weights for block in blocks])),
            )


def component_posterior(
    prior: Components, data: Statistics, *, precision: FloatArray | float, covariance: bool = True
) -> ComponentPosterior:
    """Posteriors of every component, and the components' posterior weights.

    Parameters
    ----------
    precision : 1/sigma^2, a number or one per block and component (B, C)
    """
    gram, moment = block_statistics(prior.arms, data)  # (M, B, p, p), (M, B, p)
    n_components = prior.means.shape[1]
    tau = np.atleast_2d(np.asarray(precision, dtype=float))  # (B, C), or (1, 1) where all are alike
    information = gram[:, :, None] * tau[..., None, None]  # (M, B, C or 1, p, p)
    adjoint = prior.roots.swapaxes(-1, -2)
    inner = adjoint @ information @ prior.roots
    inner[..., range(inner.shape[-1]), range(inner.shape[-1])] += 1.0
    pull = moment[:, :, None] * tau[..., None] - (information @ prior.means[..., None])[..., 0]  # h, (M, B, C, p)
    factor, log_det = _factor(inner) if covariance or n_components > 1 else (None, None)
    if factor is not None and covariance:
        half = np.linalg.solve(factor, np.broadcast_to(adjoint, inner.shape))  # chol^-1 R'
        spread = half.swapaxes(-1, -2) @ half
        shift = (spread @ pull[..., None])[..., 0]
    else:
        spread = None
        shift = (prior.roots @ np.linalg.solve(inner, adjoint @ pull[..., None]))[..., 0]
    mean = prior.means + shift
    if log_det is None or n_components == 1:
        return ComponentPosterior(mean, spread, np.zeros(mean.shape[:3]))
    fit = (prior.means * (moment[:, :, None] * tau[..., None] + pull)).sum(axis=-1)  # 2 m'X'y/s2 - m'Lm
    log_weight = prior.log_weights - 0.5 * log_det + 0.5 * (fit + (pull * shift).sum(axis=-1))
    if np.ndim(precision):
        log_weight = log_weight + _noise_terms(prior.arms, data, tau)
    log_weight = log_weight - np.logaddexp.reduce(log_weight, axis=2)[..., None]
    return ComponentPosterior(mean, spread, log_weight)


def blocks_by_shape(law: GaussianLaw) -> Iterator[list[Block]]:
    """The law's blocks in lists of equal shape, so that each list is one batch."""
    shapes: dict[tuple[int, int], list[Block]] = {}
    for block in law.blocks:
        shapes.setdefault((len(block.arms), block.n_components), []).append(block)
    yield from shapes.values()


@lru_cache(maxsize=32)
def _batches(law: GaussianLaw) -> list[tuple[list[Block], Components]]:
    """The blocks of each shape with their roots: computed once, they serve every data set."""
    return [(blocks, Components.of(blocks)) for blocks in blocks_by_shape(law)]


def exact_moments(
    law: GaussianLaw, data: Statistics, *, sigma: float, covariance: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Posterior means (M, K, d) and, on request, joint covariances (M, K d, K d)."""
    k, d = law.n_arms, law.n_features
    mean = np.empty((data.n_sets, k * d))
    joint = np.zeros((data.n_sets, k * d, k * d)) if covariance else None
    for blocks, components in _batches(law):
        found = component_posterior(components, data, precision=1.0 / sigma**2, covariance=covariance)
        mixed = found.mixed_mean()
        spread = found.mixed_covariance() if joint is not None else None
        for b, block in enumerate(blocks):
            index = law.flat_index(block)
            mean[:, index] = mixed[:, b]
            if joint is not None and spread is not None:
                joint[:, np.array(index)[:, None], index] = spread[:, b]
    return mean.reshape(-1, k, d), joint


def exact_arm_moments(law: GaussianLaw, data: Statistics, *, sigma: float) -> tuple[FloatArray, FloatArray]:
    """Posterior means (M, K, d), and the covariance of every arm's own coefficients, (M, K, d, d)."""
    k, d = law.n_arms, law.n_features
    mean, own = np.empty((data.n_sets, k, d)), np.empty((data.n_sets, k, d, d))
    for _, components in _batches(law):
        found = component_posterior(components, data, precision=1.0 / sigma**2)
        mixed, spread = found.mixed_mean(), found.mixed_covariance()
        for place, arms in enumerate(components.arms.T):
            some = slice(place * d, (place + 1) * d)
            mean[:, arms], own[:, arms] = mixed[..., some], spread[..., some, some]
    return mean, own


def exact_draws(
    law: GaussianLaw, data: Statistics, *, precision: FloatArray | float, n: int, rng: np.random.Generator
) -> FloatArray:
    """Posterior draws, (M, n, K, d)."""
    k, d = law.n_arms, law.n_features
    out = np.empty((data.n_sets, n, k * d))
    for blocks, components in _batches(law):
        drawn = component_posterior(components, data, precision=precision).draw(n, rng=rng)
        for b, block in enumerate(blocks):
            out[:, :, law.flat_index(block)] = drawn[:, b]
    return out.reshape(data.n_sets, n, k, d)


def block_statistics(arms: np.ndarray, data: Statistics) -> tuple[FloatArray, FloatArray]:
    """X'X (M, B, p, p), block diagonal over a block's arms, and X'y (M, B, p), for blocks of arms (B, k)."""
    d = data.xty.shape[-1]
    p = arms.shape[1] * d
    moment = data.xty[:, arms].reshape(data.n_sets, len(arms), p)
    if arms.shape[1] == 1:
        return data.xtx[:, arms[:, 0]], moment
    gram = np.zeros((data.n_sets, len(arms), p, p))
    for k in range(arms.shape[1]):
        gram[:, :, k * d : (k + 1) * d, k * d : (k + 1) * d] = data.xtx[:, arms[:, k]]
    return gram, moment


def square_roots(covariances: FloatArray) -> FloatArray:
    """Roots of a batch of covariances (..., p, p): Cholesky factors, or eigenvalue roots of singular ones."""
    try:
        return np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        flat = covariances.reshape(-1, *covariances.shape[-2:])
        return np.stack([square_root(cov) for cov in flat]).reshape(covariances.shape)


def _factor(inner: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roots of I + R'LR and its log determinants; no eigenvalue is below one, whatever rounding makes of it."""
    try:
        factor = np.linalg.cholesky(inner)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(inner)
        values = np.maximum(values, 1.0)
        return vectors * np.sqrt(values)[..., None, :], np.log(values).sum(axis=-1)
    return factor, 2.0 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)


def _noise_terms(arms: np.ndarray, data: Statistics, tau: FloatArray) -> FloatArray:
    """What the log evidence adds when components differ in sigma: (M, B, C)."""
    n = data.n[:, arms].sum(axis=2)[..., None]
    square = data.yty[:, arms].sum(axis=2)[..., None]
    return 0.5 * n * np.log(tau) - 0.5 * square * tau
