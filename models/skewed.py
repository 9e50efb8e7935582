"""Positive, skewed effects (gamma or log-normal): no feature does harm, and a few do a lot of good.

    beta[i, k] ~ Gamma or LogNormal with mean mean[i, k] and standard deviation scale[i, k], independent

Use it when users rule out harm: doses, prices saved, minutes won. The log-normal has the longer tail.

Applicability
-------------
No data will make an effect negative. If harm is possible the posterior piles up at zero and the plan explores an arm
that hurts. A Gaussian with the same two moments puts Pr(beta < 0) = Phi(-mean/scale) where this belief has none.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike


def build_model(
    *,
    n_arms: int = 3,
    n_features: int = 5,
    family: str = "gamma",
    mean: ArrayLike = 0.5,
    scale: ArrayLike = 0.4,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of positive effects, ``family`` "gamma" or "lognormal".

    ``mean`` and ``scale`` (standard deviation) are one number, one per arm, or one per arm and feature.
    """
    if family not in ("gamma", "lognormal"):
        raise ValueError(f'family must be "gamma" or "lognormal", got {family!r}.')
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    shape = len(coords["arm"]), len(coords["feature"])
    location, spread = _grid("mean", mean, shape, positive=True), _grid("scale", scale, shape, positive=True)
    with pm.Model(coords=coords) as model:
        if family == "gamma":
            pm.Gamma("beta", mu=location, sigma=spread, dims=("arm", "feature"))
        else:
            log_variance = np.log1p((spread / location) ** 2)
            log_mean = np.log(location) - log_variance / 2
            pm.LogNormal("beta", log_mean, np.sqrt(log_variance), dims=("arm", "feature"))
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
