r"""Where to look for the posterior: Gaussian-mixture proposals built from a surrogate of the belief.

Replace the belief, group by group, by a Gaussian or a small mixture of Gaussians; the posterior of that surrogate is
exact, follows the likelihood wherever it points, and covers what the belief allows. Three surrogates, from cheap to
careful:

- ``moment_surrogate``: the Gaussian with the belief's mean and covariance;
- ``scale_surrogate``: Gaussians with the belief's mean and multiples of its covariance, weighted to match the belief's
  draws, for heavy tails where the data say little;
- ``expectation_propagation``: one Gaussian site per coefficient, fitted to the belief's density where the data put it
  (Minka 2001), for many features.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.exact import Components, block_statistics, component_posterior, square_roots
from rcb_bayes.posterior.lumps import mixture_weights
from rcb_bayes.schema import FloatArray

_SURROGATE_DRAWS = 4096
_SCALES = np.array([0.3, 0.6, 1.0, 1.8, 3.5, 8.0, 30.0])


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Mixture proposals for B groups of equal size: ``mean`` (M, B, C, p), ``root`` (M, B, C, p, p), triangular, and
    ``log_weight`` (M, B, C)."""

    mean: FloatArray
    root: FloatArray
    log_weight: FloatArray

    def draw(self, base: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Draws (M, B, S, p) and their log densities (M, B, S), up to a constant.

        ``base`` (S, 1 + p) holds a uniform variable, which picks the component, and standard normal ones.
        """
        uniform, normal = base[:, 0], base[:, 1:]
        values = self._moved(normal, 0)
        if self.mean.shape[2] == 1:
            return values, -0.5 * (normal**2).sum(axis=1) - self._log_det()
        edges = np.cumsum(np.exp(self.log_weight), axis=2)  # (M, B, C)
        label = (uniform > edges[..., :-1, None]).sum(axis=2)  # (M, B, S)
        for c in range(1, self.mean.shape[2]):
            np.copyto(values, self._moved(normal, c), where=(label == c)[..., None])
        return values, self.log_density(values)

    def log_density(self, values: FloatArray) -> FloatArray:
        """Log densities at values (M, B, S, p), up to a constant: (M, B, S)."""
        log_det = self._log_det()
        inverse = np.linalg.inv(self.root).swapaxes(-1, -2)
        total = np.full(values.shape[:-1], -np.inf)
        for c in range(self.mean.shape[2]):
            scaled = (values - self.mean[:, :, c, None]) @ inverse[:, :, c]
            constant = (self.log_weight[..., c] - log_det[..., c])[..., None]
            np.logaddexp(total, constant - 0.5 * np.einsum("...p,...p->...", scaled, scaled), out=total)
        return total

    def _moved(self, normal: FloatArray, component: int) -> FloatArray:
        moved = normal @ self.root[:, :, component].swapaxes(-1, -2)
        moved += self.mean[:, :, component, None]
        return moved

    def _log_det(self) -> FloatArray:
        return np.log(np.diagonal(self.root, axis1=-2, axis2=-1)).sum(axis=-1)  # (M, B, C)


def surrogate_posterior(surrogate: Components, data: Statistics, *, sigma: float) -> Proposal:
    """The exact posterior of surrogate blocks of equal shape."""
    found = component_posterior(surrogate, data, precision=1.0 / sigma**2)
    assert found.covariance is not None  # asked for
    return Proposal(found.mean, _triangular_roots(found.covariance), found.log_weight)


def half_and_half(first: Proposal, second: Proposal) -> Proposal:
    """The equal mixture of two proposals."""
    log_half = np.log(0.5)
    return Proposal(
        np.concatenate([first.mean, second.mean], axis=2),
        np.concatenate([first.root, second.root], axis=2),
        np.concatenate([first.log_weight + log_half, second.log_weight + log_half], axis=2),
    )


def moment_surrogate(prior: Prior) -> GaussianLaw:
    """One Gaussian per independent group of arms, with the belief's mean and (robust, where infinite) covariance."""
    mean = prior.mean.values
    size = mean.size
    covariance = prior.covariance.values.reshape(size, size)
    if not np.isfinite(covariance).all():
        covariance = np.diag(_robust_variances(prior))
    return _by_group(prior, mean, covariance)


def scale_surrogate(prior: Prior, gaussian: GaussianLaw) -> GaussianLaw:
    """Scaled copies of the Gaussian surrogate, their weights fitted to draws of the belief by EM."""
    draws, _ = prior.draw_arrays(_SURROGATE_DRAWS, rng=np.random.default_rng(1))
    flat = draws.reshape(len(draws), -1)
    blocks = []
    for block in gaussian.blocks:
        centred = flat[:, gaussian.flat_index(block)] - block.means[0]
        scaled = np.linalg.solve(np.linalg.cholesky(block.covariances[0]), centred.T)
        radius2 = (scaled**2).sum(axis=0)
        # No weight below 1 %, so that tails stay covered.
        weights = mixture_weights(-0.5 * radius2[:, None] / _SCALES**2 - len(scaled) * np.log(_SCALES), least=0.01)
        blocks.append(
            Block(
                arms=block.arms,
                weights=weights,
                means=np.repeat(block.means, len(_SCALES), axis=0),
                covariances=block.covariances[0] * (_SCALES**2)[:, None, None],
            )
        )
    return GaussianLaw(n_arms=gaussian.n_arms, n_features=gaussian.n_features, blocks=tuple(blocks))


def _robust_variances(prior: Prior) -> FloatArray:
    """Squared interquartile scales of the belief's coefficients, (K d,), for beliefs without a variance."""
    draws, _ = prior.draw_arrays(_SURROGATE_DRAWS, rng=np.random.default_rng(1))
    low, high = np.quantile(draws.reshape(len(draws), -1), [0.25, 0.75], axis=0)
    return (2.0 * (high - low) / 1.349) ** 2


def _by_group(prior: Prior, mean: FloatArray, covariance: FloatArray) -> GaussianLaw:
    d = prior.n_features
    blocks = []
    for arms in prior.groups:
        index = [arm * d + k for arm in arms for k in range(d)]
        blocks.append(
            Block(
                arms=arms,
                weights=np.ones(1),
                means=mean.reshape(1, -1)[:, index],
                covariances=lifted(covariance[np.ix_(index, index)])[None],
            )
        )
    return GaussianLaw(n_arms=prior.n_arms, n_features=d, blocks=tuple(blocks))


def lifted(covariance: FloatArray) -> FloatArray:
    """Add a trace of the identity, so that a covariance with a lost digit is still positive definite."""
    diagonal = np.diagonal(covariance, axis1=-2, axis2=-1)
    return covariance + 1e-12 * diagonal.mean(axis=-1)[..., None, None] * np.eye(covariance.shape[-1])


def _triangular_roots(covariances: FloatArray) -> FloatArray:
    """Lower triangular roots with a positive diagonal, of covariances that rounding may have made singular."""
    roots = square_roots(lifted(covariances))
    if not np.triu(roots, 1).any():
        return roots
    lower = np.linalg.qr(roots.swapaxes(-1, -2), mode="r").swapaxes(-1, -2)
    diagonal = np.diagonal(lower, axis1=-2, axis2=-1)
    lower = lower * np.where(diagonal < 0, -1.0, 1.0)[..., None, :]
    least = 1e-8 * np.abs(diagonal).max(axis=-1)[..., None]
    return lower + np.maximum(least - np.abs(diagonal), 0.0)[..., None] * np.eye(lower.shape[-1])


class Sites:
    """The belief's density along each coefficient, tabulated once, for expectation propagation."""

    def __init__(self, prior: Prior, gaussian: GaussianLaw) -> None:
        covariance = gaussian.covariance()
        self.mean = gaussian.mean().reshape(-1)  # (P,)
        self.sd = np.sqrt(np.diag(covariance))
        # Dense near the middle, far out in the tails: the density of a spike and of an outlier alike.
        self.grid = np.sinh(np.linspace(-6.5, 6.5, 801)) * 0.05
        self.table = self._tabulate(prior)  # (P, 801)

    def _tabulate(self, prior: Prior) -> FloatArray:
        size, d = len(self.mean), prior.n_features
        group_of = {arm: g for g, arms in enumerate(prior.groups) for arm in arms}
        typical = np.median(prior.draw_arrays(1001, rng=np.random.default_rng(2))[0], axis=0).reshape(-1)
        out = np.empty((size, len(self.grid)))
        for k in range(size):
            values = np.tile(typical, (len(self.grid), 1))
            values[:, k] = self.mean[k] + self.sd[k] * self.grid
            out[k] = prior.group_log_density(values.reshape(len(values), -1, d))[:, group_of[k // d]]
        out[~np.isfinite(out)] = -np.inf
        return np.maximum(out - out.max(axis=1, keepdims=True), -1e4)

    def log_density(self, values: FloatArray, index: np.ndarray) -> FloatArray:
        """Interpolated log density of coefficients ``index`` (P',) at ``values`` (..., P', Q)."""
        scaled = (values - self.mean[index][:, None]) / self.sd[index][:, None]
        # Position on the sinh grid in closed form: no search.
        position = (np.arcsinh(np.clip(scaled / 0.05, -400.0, 400.0)) / 6.5 + 1.0) * 400.0
        position = np.clip(position, 0.0, 799.999)
        left = position.astype(np.int64)
        share = position - left
        table = self.table[index]
        rows = np.broadcast_to(np.arange(len(index))[:, None], left.shape)
        return table[rows, left] * (1.0 - share) + table[rows, left + 1] * share


def expectation_propagation(
    sites: Sites, arms: np.ndarray, data: Statistics, *, sigma: float, n_sweeps: int = 6
) -> Proposal:
    """Gaussian proposals whose one-coefficient sites match the belief where the data put each coefficient.

    ``arms`` (B, k) are the groups; the sites are damped, so that a few parallel sweeps settle.
    """
    gram, moment = (part / sigma**2 for part in block_statistics(arms, data))  # (M, B, p, p), (M, B, p)
    d = data.xty.shape[-1]
    index = (arms[..., None] * d + np.arange(d)).reshape(len(arms), -1)  # (B, p)
    precision = np.broadcast_to(1.0 / sites.sd[index] ** 2, moment.shape).copy()
    shift = precision * sites.mean[index]
    nodes = np.linspace(-7.0, 7.0, 57)
    for _ in range(n_sweeps):
        covariance = _inverse(gram, precision)
        mean = (covariance @ (moment + shift)[..., None])[..., 0]
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        cavity_precision = np.maximum(1.0 / variance - precision, 1e-3 / sites.sd[index] ** 2)
        cavity_mean = (mean / variance - shift) / cavity_precision
        tilted_mean, tilted_variance = _tilted(sites, index, cavity_mean, cavity_precision, nodes=nodes)
        new_precision = 1.0 / tilted_variance - cavity_precision
        new_precision = np.clip(new_precision, 1e-3 / sites.sd[index] ** 2, 1e8 / sites.sd[index] ** 2)
        new_shift = tilted_mean * (new_precision + cavity_precision) - cavity_mean * cavity_precision
        precision = np.sqrt(precision * new_precision)  # damped
        shift = 0.5 * (shift + new_shift)
    covariance = _inverse(gram, precision)
    mean = (covariance @ (moment + shift)[..., None])[..., 0]
    root = _triangular_roots(0.5 * (covariance + covariance.swapaxes(-1, -2)))
    return Proposal(mean[:, :, None], root[:, :, None], np.zeros((*mean.shape[:2], 1)))


def _tilted(
    sites: Sites, index: np.ndarray, mean: FloatArray, precision: FloatArray, *, nodes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of cavity times density, by the trapezoid rule on cavity-centred nodes."""
    sd = np.minimum(1.0 / np.sqrt(precision), 3.0 * sites.sd[index])
    values = mean[..., None] + sd[..., None] * nodes  # (M, B, p, Q)
    log_density = np.empty_like(values)
    for b in range(index.shape[0]):
        log_density[:, b] = sites.log_density(values[:, b], index[b])
    log_weight = log_density - 0.5 * precision[..., None] * (values - mean[..., None]) ** 2
    weight = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    first = (weight * values).sum(axis=-1)
    second = (weight * (values - first[..., None]) ** 2).sum(axis=-1)
    return first, np.maximum(second, 1e-10 * sites.sd[index] ** 2)


def _inverse(gram: FloatArray, precision: FloatArray) -> FloatArray:
    p = gram.shape[-1]
    return np.linalg.inv(gram + precision[..., None] * np.eye(p))
