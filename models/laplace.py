"""Laplace effects: many near the mean, a few far from it.

    beta[i, k] has density exp(-|b - mean[i, k]| / scale[i, k]) / (2 scale[i, k]), independent; variance 2 scale^2

Use it as a mild belief in sparsity (its posterior mode is the lasso) that still has every moment.

Applicability
-------------
The posterior mean, which users act on, is never exactly sparse. For a strong belief that most features do not matter
use `horseshoe`. The density has a kink at the mean: gradient samplers cope, expansions around the mode do not.
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
    scale: ArrayLike = 0.35,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of independent Laplace effects.

    ``mean`` and ``scale`` (the standard deviation over the square root of two) are one number, one per arm, or one per
    arm and feature.
    """
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    shape = len(coords["arm"]), len(coords["feature"])
    location, spread = _grid("mean", mean, shape), _grid("scale", scale, shape, positive=True)
    with pm.Model(coords=coords) as model:
        pm.Laplace("beta", location, spread, dims=("arm", "feature"))
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
