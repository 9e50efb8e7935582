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
from rcb_bayes.posterior.kernels import N_SITE_VALUES, SITE_REACH, SITE_UNIT, mixture_draws, single_draws, site_sweeps
from rcb_bayes.posterior.lumps import mixture_weights
from rcb_bayes.schema import FloatArray

_SURROGATE_DRAWS = 4096
_IMPOSSIBLE = -1e4  # log density of values that a belief rules out
_SCALES = np.array([0.3, 0.6, 1.0, 1.8, 3.5, 8.0, 30.0])


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Mixture proposals for B groups of equal size: ``mean`` (M, B, C, p), ``root`` (M, B, C, p, p), triangular, and
    ``log_weight`` (M, B, C)."""

    mean: FloatArray
    root: FloatArray
    log_weight: FloatArray

    def part(self, rows: np.ndarray, group: int) -> "Proposal":
        """Those of some data sets for one of the groups."""
        some = rows, slice(group, group + 1)
        return Proposal(self.mean[some], self.root[some], self.log_weight[some])

    def weigher(self, base: FloatArray, information: FloatArray, pull: FloatArray) -> "Weigher":
        """What draws and weighs, with the part of the work that data sets need not do one by one.

        ``base`` (S, 1 + p) holds a uniform variable, which picks the component, and standard normal ones; the
        likelihood has precision ``information`` (M, B, p, p) and linear part ``pull`` (M, B, p).
        """
        normal = base[:, 1:]
        if self.mean.shape[2] > 1:
            return Weigher(self, base, normal.T, information, pull)
        # The log ratio of a single Gaussian is a quadratic form of the base draws.
        root, mean = self.root[:, :, 0], self.mean[:, :, 0]
        adjoint = root.swapaxes(-1, -2)
        slope = (adjoint @ (pull - (information @ mean[..., None])[..., 0])[..., None])[..., 0]
        rows, columns = np.tril_indices(normal.shape[1])
        curvature = 0.5 * np.eye(normal.shape[1]) - 0.5 * (adjoint @ information @ root)
        curvature = np.where(rows == columns, 1.0, 2.0) * curvature[..., rows, columns]
        terms = np.concatenate([normal, normal[:, rows] * normal[:, columns]], axis=1).T  # (p + p (p + 1) / 2, S)
        form = np.concatenate([slope, curvature], axis=-1)
        return Weigher(self, base, np.ascontiguousarray(terms), form, pull)

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

    def _log_det(self) -> FloatArray:
        return np.log(np.diagonal(self.root, axis1=-2, axis2=-1)).sum(axis=-1)  # (M, B, C)


@dataclass(frozen=True, slots=True, eq=False)
class Weigher:
    """Draws of a proposal for M data sets, and the log likelihood less the log density of each.

    What is left out is one constant for each data set and group. Of single Gaussians ``terms`` (T, S) are products of
    base draws and ``form`` (M, B, T) their coefficients; of mixtures they are the base draws and the likelihood's
    precision.
    """

    proposal: Proposal
    base: FloatArray
    terms: FloatArray
    form: FloatArray
    pull: FloatArray

    def write(
        self, rows: slice, index: np.ndarray, group: np.ndarray, draws: FloatArray, log_ratio: FloatArray
    ) -> None:
        """Write those of some data sets to the coefficients ``index`` (B, p) of ``draws`` (m, S, P), and to the groups
        (B,) of ``log_ratio`` (m, G, S)."""
        mean, root = self.proposal.mean[rows], self.proposal.root[rows]
        n_sets, _, n_components, p = mean.shape
        if n_components == 1:
            of_rows = mean[:, :, 0], root[:, :, 0], self.form[rows]
            single_draws(*of_rows, self.terms[:p], self.terms, index, group, draws, log_ratio)
            return
        shape = (-1, n_components, p)
        values, ratio = mixture_draws(
            mean.reshape(shape),
            root.reshape(*shape, p),
            np.linalg.inv(root).reshape(*shape, p),
            self.proposal.log_weight[rows].reshape(shape[:2]),
            self.form[rows].reshape(-1, p, p),
            self.pull[rows].reshape(-1, p),
            self.base,
        )
        for b, own in enumerate(group):
            draws[:, :, index[b]] = values.reshape(n_sets, len(group), -1, p)[:, b]
            log_ratio[:, own] = ratio.reshape(n_sets, len(group), -1)[:, b]


def surrogate_posterior(surrogate: Components, data: Statistics, *, sigma: float) -> Proposal:
    """The exact posterior of surrogate blocks of equal shape."""
    found = component_posterior(surrogate, data, precision=1.0 / sigma**2)
    assert found.covariance is not None  # asked for
    return Proposal(found.mean, _triangular_roots(found.covariance), found.log_weight)


def mixed(first: Proposal, second: Proposal, *, share: float = 0.5) -> Proposal:
    """The mixture of two proposals, with a ``share`` of the first."""
    return Proposal(
        np.concatenate([first.mean, second.mean], axis=2),
        np.concatenate([first.root, second.root], axis=2),
        np.concatenate([first.log_weight + np.log(share), second.log_weight + np.log1p(-share)], axis=2),
    )


def with_least_weight(proposal: Proposal, least: float) -> Proposal:
    """The same components, none with a weight below ``least`` before they are made to sum to one."""
    log_weight = np.maximum(proposal.log_weight, np.log(least))
    return Proposal(proposal.mean, proposal.root, log_weight - np.logaddexp.reduce(log_weight, axis=2, keepdims=True))


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
        self.grid = SITE_UNIT * np.sinh(np.linspace(-SITE_REACH, SITE_REACH, N_SITE_VALUES))
        self.table = self._tabulate(prior)  # (P, N_SITE_VALUES)
        self.is_log_concave = _is_concave(self.grid, self.table) and _is_product(prior)

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
        return np.maximum(out - out.max(axis=1, keepdims=True), _IMPOSSIBLE)


def _is_concave(grid: FloatArray, table: FloatArray) -> bool:
    """Whether every row of log densities (P, J) bends down on the grid (J,), and is not cut off but at its ends.

    A posterior under such a belief has one mode, whatever the data.
    """
    for row in table:
        inside = np.flatnonzero(row > _IMPOSSIBLE)
        if len(inside) != inside[-1] - inside[0] + 1:
            return False
        slopes = np.diff(row[inside]) / np.diff(grid[inside])
        if (np.diff(slopes) > 1e-6 * (1.0 + np.abs(slopes[1:]))).any():
            return False
    return True


def _is_product(prior: Prior) -> bool:
    """Whether coefficients are independent under the belief: two draws may swap any one without changing their sum.

    Log densities are those of each group, which are independent anyway.
    """
    first, second = np.split(prior.draw_arrays(64, rng=np.random.default_rng(6))[0], 2)
    together = prior.group_log_density(first) + prior.group_log_density(second)
    for arm, feature in np.ndindex(first.shape[1:]):
        one, other = first.copy(), second.copy()
        one[:, arm, feature], other[:, arm, feature] = second[:, arm, feature], first[:, arm, feature]
        swapped = prior.group_log_density(one) + prior.group_log_density(other)
        if not np.allclose(swapped, together, rtol=1e-9, atol=1e-9):
            return False
    return True


def expectation_propagation(
    sites: Sites, arms: np.ndarray, data: Statistics, *, sigma: float, n_sweeps: int = 3
) -> Proposal:
    """Gaussian proposals whose one-coefficient sites match the belief where the data put each coefficient.

    ``arms`` (B, k) are the groups; the sites are damped, so that a few parallel sweeps settle.
    """
    gram, moment = (part / sigma**2 for part in block_statistics(arms, data))  # (M, B, p, p), (M, B, p)
    d = data.xty.shape[-1]
    index = (arms[..., None] * d + np.arange(d)).reshape(len(arms), -1)  # (B, p)
    precision, shift = site_sweeps(gram, moment, index, sites.mean, sites.sd, sites.table, n_sweeps=n_sweeps)
    covariance = np.linalg.inv(gram + precision[..., None] * np.eye(gram.shape[-1]))
    mean = (covariance @ (moment + shift)[..., None])[..., 0]
    root = _triangular_roots(0.5 * (covariance + covariance.swapaxes(-1, -2)))
    return Proposal(mean[:, :, None], root[:, :, None], np.zeros((*mean.shape[:2], 1)))
