"""Gaussian effects and an unknown noise level: users do not know how much a single outcome tells.

    beta[i, k] ~ Normal(mean[i, k], scale[i, k]^2),  sigma ~ HalfNormal(noise_scale)

The reward is x' beta[i, :] plus noise of standard deviation sigma, the model's second variable. Use it when outcomes
are noisy to an unknown degree; the data then teach both.

Applicability
-------------
sigma is common to all arms and independent of beta before any data. Posterior means no longer follow from X'X and X'y
alone by a linear formula, so they are sampled. A plan made with a known sigma is too bold if the noise may be larger.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike


def build_model(
    *,
    n_arms: int = 3,
    n_features: int = 5,
    mean: ArrayLike = 0.0,
    scale: ArrayLike = 0.5,
    noise_scale: float = 0.1,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of Gaussian effects with unknown noise.

    ``mean`` and ``scale`` (standard deviation) are one number, one per arm, or one per arm and feature.
    """
    if not 0 < noise_scale < np.inf:
        raise ValueError(f"noise_scale must be positive and finite, got {noise_scale}.")
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    shape = len(coords["arm"]), len(coords["feature"])
    location, spread = _grid("mean", mean, shape), _grid("scale", scale, shape, positive=True)
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", location, spread, dims=("arm", "feature"))
        pm.HalfNormal("sigma", float(noise_scale))
    return model


def _labels(dim: str, size: int, given: Sequence[str] | None) -> list[str]:
    """The labels given, or ``arm_0, arm_1, ...``."""
    labels = [f"{dim}_{k}" for k in range(size)] if given is None else [str(label) for label in given]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"Expected one or more distinct {dim} labels, got {labels}.")
    return labels


def _grid(name: str, value: ArrayLike, shape: tuple[int, int], *, positive: bool = False) -> np.ndarray:
    """One number, one per arm, or one per arm and feature, as an array (n_arms, n_features)."""
    array = np.asarray(value, dtype=float)
    array = array[:, None] if array.ndim == 1 else array
    if array.shape not in ((), (shape[0], 1), shape):
        raise ValueError(f"{name} must be one number, one per arm, or of shape {shape}, got shape {np.shape(value)}.")
    if not np.isfinite(array).all() or (positive and array.min() <= 0):
        raise ValueError(f"{name} must be finite{' and positive' * positive}, got {array.min():g} to {array.max():g}.")
    return np.broadcast_to(array, shape)
