r"""Beliefs in closed form: independent blocks of arms, each a finite mixture of Gaussians.

A block is a set of arms that share randomness. Within block g the stacked coefficients
:math:`b_g \in R^{p}` (p = arms in the block times features) follow
:math:`\sum_c w_c N(m_c, V_c)`; a Gaussian belief has one component everywhere. Blocks are independent, so the
posterior, the density and the draws factorise over them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.schema import FloatArray

SINGULAR = "its covariance is singular: some combination of coefficients is known for certain"
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """One independent group of arms: ``arms`` (indices), and C Gaussian components over their coefficients.

    ``weights`` (C,), ``means`` (C, p), ``covariances`` (C, p, p) with p = len(arms) * n_features, arm-major.
    """

    arms: tuple[int, ...]
    weights: FloatArray
    means: FloatArray
    covariances: FloatArray

    @property
    def n_components(self) -> int:
        """The number of mixture components C."""
        return len(self.weights)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianLaw:
    """A belief about ``beta`` (n_arms, n_features) as independent blocks of Gaussian mixtures.

    Applicability: exact for Gaussian beliefs and finite mixtures of them, singular covariances included
    (those have no density). Anything else is not in this class.
    """

    n_arms: int
    n_features: int
    blocks: tuple[Block, ...]

    @property
    def is_gaussian(self) -> bool:
        """Whether every block has a single component."""
        return all(block.n_components == 1 for block in self.blocks)

    @property
    def has_density(self) -> bool:
        """Whether every component's covariance is positive definite."""
        return all(is_positive_definite(cov) for block in self.blocks for cov in block.covariances)

    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Classes of independent arms with one and the same law, so that they may change places; each arm in one."""
        classes: dict[Any, list[int]] = {}
        for block in self.blocks:
            law = (block.weights.tobytes(), block.means.tobytes(), block.covariances.tobytes())
            for arm in block.arms:
                classes.setdefault(law if len(block.arms) == 1 else arm, []).append(arm)
        return tuple(sorted(tuple(sorted(arms)) for arms in classes.values()))

    def mean(self) -> FloatArray:
        """Prior mean of beta, (n_arms, n_features)."""
        out = np.empty((self.n_arms, self.n_features))
        for block in self.blocks:
            out[list(block.arms)] = (block.weights @ block.means).reshape(-1, self.n_features)
        return out

    def covariance(self) -> FloatArray:
        """Joint prior covariance of the stacked beta, (K d, K d), arm-major."""
        size = self.n_arms * self.n_features
        out = np.zeros((size, size))
        for block in self.blocks:
            centred = block.means - block.weights @ block.means  # (C, p)
            within = np.einsum("c,cij->ij", block.weights, block.covariances)
            between = np.einsum("c,ci,cj->ij", block.weights, centred, centred)
            index = self.flat_index(block)
            out[np.ix_(index, index)] = within + between
        return out

    def draw(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Independent draws of beta, (n, n_arms, n_features)."""
        out = np.empty((n, self.n_arms * self.n_features))
        for block in self.blocks:
            labels = rng.choice(block.n_components, size=n, p=block.weights)
            normals = rng.standard_normal((n, block.means.shape[1]))
            drawn = np.empty_like(normals)
            for component in range(block.n_components):
                rows = labels == component
                factor = square_root(block.covariances[component])
                drawn[rows] = block.means[component] + normals[rows] @ factor.T
            out[:, self.flat_index(block)] = drawn
        return out.reshape(n, self.n_arms, self.n_features)

    def log_density(self, beta: FloatArray) -> FloatArray:
        """Log density of each block at ``beta`` (n, n_arms, n_features): (n, n_blocks)."""
        flat = beta.reshape(len(beta), self.n_arms * self.n_features)
        return np.stack([_block_log_density(block, flat[:, self.flat_index(block)]) for block in self.blocks], axis=1)

    def flat_index(self, block: Block) -> list[int]:
        """Positions of a block's coefficients in the stacked beta."""
        d = self.n_features
        return [arm * d + k for arm in block.arms for k in range(d)]


def gaussian_law(mean: FloatArray, covariance: FloatArray) -> GaussianLaw:
    """The law of a jointly Gaussian beta, split into the blocks that its zero covariances make independent.

    Parameters
    ----------
    mean : (K, d)
    covariance : (K d, K d), arm-major
    """
    n_arms, d = mean.shape
    tiles = covariance.reshape(n_arms, d, n_arms, d)
    coupled = (tiles != 0).any(axis=(1, 3))
    blocks = []
    for arms in connected_groups(coupled):
        index = [arm * d + k for arm in arms for k in range(d)]
        blocks.append(
            Block(
                arms=arms,
                weights=np.ones(1),
                means=mean[list(arms)].reshape(1, -1),
                covariances=covariance[np.ix_(index, index)][None],
            )
        )
    return GaussianLaw(n_arms=n_arms, n_features=d, blocks=tuple(blocks))


def of_tiles(mean: FloatArray, tiles: FloatArray) -> GaussianLaw:
    """The law of independent arms, (K, d) and (K, d, d): nothing of the size of a joint covariance is made."""
    one = np.ones(1)
    blocks = tuple(
        Block(arms=(arm,), weights=one, means=mean[arm][None], covariances=np.array(tile)[None])
        for arm, tile in enumerate(tiles)
    )
    return GaussianLaw(n_arms=len(mean), n_features=mean.shape[1], blocks=blocks)


def joint_covariance(blocks: Sequence[FloatArray]) -> FloatArray:
    """The block-diagonal joint covariance of independent arms with the given (d, d) covariances."""
    d = len(blocks[0])
    out = np.zeros((len(blocks) * d, len(blocks) * d))
    for k, block in enumerate(blocks):
        out[k * d : (k + 1) * d, k * d : (k + 1) * d] = block
    return out


def connected_groups(coupled: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Connected components of a symmetric boolean matrix, each sorted, in order of their first member."""
    remaining = set(range(len(coupled)))
    groups = []
    while remaining:
        frontier = {min(remaining)}
        group: set[int] = set()
        while frontier:
            group |= frontier
            frontier = {j for i in frontier for j in np.flatnonzero(coupled[i]).tolist()} - group
        remaining -= group
        groups.append(tuple(sorted(group)))
    return tuple(groups)


def square_root(covariance: FloatArray) -> FloatArray:
    """A matrix R with R R' = covariance; works for singular covariances too."""
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return vectors * np.sqrt(np.clip(values, 0.0, None))


def is_covariance(matrices: FloatArray) -> bool:
    """Whether all matrices (..., p, p) are symmetric and positive semi-definite, up to rounding."""
    if not np.allclose(matrices, np.swapaxes(matrices, -1, -2), rtol=1e-10, atol=1e-12):
        return False
    values = np.linalg.eigvalsh(matrices)
    return bool((values[..., 0] >= -1e-10 * np.maximum(values[..., -1], 1e-300)).all())


def is_positive_definite(covariance: FloatArray) -> bool:
    """Whether the smallest eigenvalue clears the rounding error of the largest."""
    values = np.linalg.eigvalsh(covariance)
    return bool(values[0] > len(values) * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny))


def _block_log_density(block: Block, values: FloatArray) -> FloatArray:
    terms = np.empty((len(values), block.n_components))
    for component in range(block.n_components):
        factor = np.linalg.cholesky(block.covariances[component])
        scaled = np.linalg.solve(factor, (values - block.means[component]).T)  # (p, n)
        log_det = 2.0 * np.log(np.diag(factor)).sum()
        terms[:, component] = -0.5 * ((scaled**2).sum(axis=0) + log_det + len(factor) * _LOG_2PI)
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(terms + np.log(block.weights), axis=1)
