"""What a belief in closed form says of one user: quantiles of every arm's mean, and how often each beats the first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from rcb_bayes.belief.law import GaussianLaw
from rcb_bayes.belief.pooling import mixture_law
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.belief.prior import Prior

_FAR = 12.0


def quantiles_of(prior: "Prior", features: FloatArray, *, levels: Sequence[float]) -> FloatArray:
    """Quantiles of what each arm gives a user with these features (d,), (K, levels)."""
    weights, means, covariances = _arms(prior, features)
    spreads = np.sqrt(np.einsum("ckk->ck", covariances))
    out = np.empty((prior.n_arms, len(levels)))
    for arm in range(prior.n_arms):
        for k, level in enumerate(levels):
            out[arm, k] = _quantile(weights, means[:, arm], spreads[:, arm], level)
    return out


def chance_better(prior: "Prior", features: FloatArray) -> FloatArray:
    """How probable it is that each arm gives this user more than the first arm does, (K,); 0 for itself."""
    weights, means, covariances = _arms(prior, features)
    gap = means - means[:, :1]
    variance = np.einsum("ckk->ck", covariances) + covariances[:, :1, 0] - 2.0 * covariances[:, :, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = np.where(variance > 1e-18, ndtr(gap / np.sqrt(np.maximum(variance, 1e-300))), gap > 0)
    return weights @ chance


def _arms(prior: "Prior", features: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Components of the joint law of all arms' means for a user: weights (C,), means (C, K), covariances (C, K, K)."""
    assert prior.law is not None  # asked of beliefs in closed form
    joint: GaussianLaw = mixture_law([prior.law], np.ones(1))
    block, (k, d) = joint.blocks[0], (prior.n_arms, prior.n_features)
    means = block.means.reshape(-1, k, d) @ features
    tiles = block.covariances.reshape(-1, k, d, k, d)
    return block.weights, means, np.einsum("cidje,d,e->cij", tiles, features, features)


def _quantile(weights: FloatArray, means: FloatArray, spreads: FloatArray, level: float) -> float:
    spreads = np.maximum(spreads, 1e-12)
    low, high = (means - _FAR * spreads).min(), (means + _FAR * spreads).max()
    found: Any = brentq(lambda value: weights @ ndtr((value - means) / spreads) - level, low, high, xtol=1e-12)
    return float(found)
