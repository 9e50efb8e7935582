r"""Lumps of a belief: parts of it that a smooth surrogate hides from importance sampling.

S draws of a surrogate g hold on average fewer than ten draws of the region :math:`H = \{b : p(b) > g(b) S / 10\}`,
such as a spike or a narrow camp. Weights tell nothing about a region without draws: k-hat and the effective size look
perfect while half of the posterior is missing. Draws of the belief itself do visit H, in proportion to its mass. What
they show to be hidden is clustered, and the clusters become further components of the surrogate.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.schema import FloatArray

_N_DRAWS = 8192
_FEW = 10.0
_NEGLIGIBLE = 0.01  # share of the belief that may stay hidden
_LITTLE = 0.5  # rise of the log density that is not worth another round
_ROUNDS = 6
_CLUSTERS = 8
_MOST_LUMPS = 32


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """A surrogate with the belief's lumps among its components, and whether the plain Gaussian hides anything."""

    law: GaussianLaw
    gaussian_hides: bool


def log_hiding(n_draws: int) -> float:
    """The log ratio of two densities above which n draws of the lower one hide the higher one."""
    return float(np.log(n_draws / _FEW))


def find_lumps(prior: Prior, gaussian: GaussianLaw, smooth: GaussianLaw, *, fewest: int, most: int) -> Cover:
    """Add a belief's lumps to a smooth surrogate, group by group.

    Parameters
    ----------
    gaussian : the Gaussian with the belief's moments, which ``fewest`` draws are to be proposed from
    smooth : the surrogate to complete, which up to ``most`` draws are to be proposed from

    Lumps are added only where they leave next to nothing hidden from ``most`` draws: with some of the lumps missing the
    weights of the others look fine, with all of them missing nothing does.
    """
    beta, _ = prior.draw_arrays(_N_DRAWS, rng=np.random.default_rng(3))
    log_p = prior.group_log_density(beta)  # (n, G)
    flat = beta.reshape(len(beta), -1)
    blocks, hides = [], False
    for g, (plain, block) in enumerate(zip(gaussian.blocks, smooth.blocks, strict=True)):
        draws = flat[:, smooth.flat_index(block)]
        completed = _completed(block, draws, log_p[:, g], fewest=fewest, most=most)
        still = float((log_p[:, g] - _log_density(completed, draws) > log_hiding(fewest)).mean())
        shown = _share_in_bulk(plain, draws, log_p[:, g], n_draws=fewest) - still
        hides |= completed is not block or shown > _NEGLIGIBLE
        blocks.append(completed)
    law = GaussianLaw(n_arms=smooth.n_arms, n_features=smooth.n_features, blocks=tuple(blocks))
    return Cover(law, hides)


def mixture_weights(log_density: FloatArray, *, least: float) -> FloatArray:
    """Weights (C,) that fit a mixture of given densities to draws (n, C), by EM; none much below ``least``."""
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    weights = np.full(density.shape[1], 1.0 / density.shape[1])
    for _ in range(40):
        share = density * weights
        weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    weights = np.maximum(weights, least)
    return weights / weights.sum()


def _share_in_bulk(plain: Block, draws: FloatArray, log_p: FloatArray, *, n_draws: int) -> float:
    """The share of the belief that a Gaussian hides where it has 99 % of its own mass; its tails show in k-hat."""
    from scipy.stats import chi2

    root = np.linalg.cholesky(plain.covariances[0])
    radius2 = (np.linalg.solve(root, (draws - plain.means[0]).T) ** 2).sum(axis=0)
    hidden = log_p - _log_density(plain, draws) > log_hiding(n_draws)
    return float((hidden & (radius2 < chi2.ppf(0.99, len(root)))).mean())


def _completed(block: Block, draws: FloatArray, log_p: FloatArray, *, fewest: int, most: int) -> Block:
    """The block with the lumps that it hides, or the block itself where there are none, or too many to be found."""
    fitted, held_out = slice(None, len(draws) // 2), slice(len(draws) // 2, None)
    terms = _log_density(block, draws)[:, None]  # log densities of the block and of every lump, (n, 1 + lumps)
    before = after = log_p - terms[:, 0]
    lumps: list[tuple[FloatArray, FloatArray]] = []
    weights = np.ones(1)
    rng = np.random.default_rng(4)
    for _ in range(_ROUNDS):
        hidden = after > log_hiding(fewest)
        if hidden.mean() < _NEGLIGIBLE or len(lumps) >= _MOST_LUMPS:
            break
        # The most hidden draws first: a spike would drown among thousands of draws that are hidden a little.
        hidden &= after > 0.5 * np.quantile(after[hidden], 0.9)
        new = _clusters(draws[fitted][hidden[fitted]], rng=rng)
        if not new:
            break
        lumps = lumps + new
        terms = np.concatenate([terms, _component_log_density(new, draws)], axis=1)
        weights = mixture_weights(terms[fitted], least=0.002)
        weights[0] = max(weights[0], 0.1)
        weights /= weights.sum()
        last, after = after, log_p - np.logaddexp.reduce(terms + np.log(weights), axis=1)
        if (last - after)[held_out][hidden[held_out]].mean() < _LITTLE:
            break
    is_gain = (before - after > log_hiding(fewest))[held_out].mean() > _NEGLIGIBLE
    is_complete = (after > log_hiding(most))[held_out].mean() < _NEGLIGIBLE
    if not (is_gain and is_complete):
        return block
    return Block(
        arms=block.arms,
        weights=np.concatenate([weights[0] * block.weights, weights[1:]]),
        means=np.concatenate([block.means, [mean for mean, _ in lumps]]),
        covariances=np.concatenate([block.covariances, [cov for _, cov in lumps]]),
    )


def _clusters(draws: FloatArray, *, rng: np.random.Generator) -> list[tuple[FloatArray, FloatArray]]:
    """Means and covariances of clusters of draws (n, p)."""
    from scipy.cluster.vq import kmeans2

    n, p = draws.shape
    k = max(1, min(_CLUSTERS, n // (4 * p)))
    spread = np.maximum(draws.std(axis=0), np.finfo(float).tiny)
    label = kmeans2(draws / spread, k, minit="++", rng=rng, missing="warn")[1] if k > 1 else np.zeros(n, dtype=int)
    clusters = []
    for c in range(k):
        own = draws[label == c]
        if len(own) > p + 1:
            variance = own.var(axis=0) + 1e-12 * spread**2
            # A little wider than seen, and never flat.
            clusters.append((own.mean(axis=0), 1.2 * np.cov(own.T).reshape(p, p) + np.diag(1e-6 * variance)))
    return clusters


def _log_density(block: Block, values: FloatArray) -> FloatArray:
    parts = list(zip(block.means, block.covariances, strict=True))
    return np.logaddexp.reduce(_component_log_density(parts, values) + np.log(block.weights), axis=1)


def _component_log_density(parts: list[tuple[FloatArray, FloatArray]], values: FloatArray) -> FloatArray:
    """Log density of every component, given by mean and covariance, at values (n, p): (n, C)."""
    out = np.empty((len(values), len(parts)))
    for c, (mean, covariance) in enumerate(parts):
        root = np.linalg.cholesky(covariance)
        scaled = np.linalg.inv(root) @ (values - mean).T
        constant = np.log(np.diag(root)).sum() + 0.5 * len(root) * np.log(2.0 * np.pi)
        out[:, c] = -0.5 * np.einsum("pn,pn->n", scaled, scaled) - constant
    return out
