"""Independent Gaussian effects: the plainest belief, and the one every engine solves exactly.

    beta[i, k] ~ Normal(mean[i, k], scale[i, k]^2), independent over arms and features

Use it when a mean and a standard deviation say all that users believe, or as the reference next to a richer model.
An arm that users favour has a larger mean: ``mean=[0.3, 0.0, 0.0]``.

Applicability
-------------
Tails are light. Users who hold surprises possible (`student_t`), who think most features irrelevant (`horseshoe`)
or who fall into camps (`mixture`) change their minds at another pace, so that the exploration rate found here would
not keep their trust.
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
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of independent Gaussian effects.

    ``mean`` and ``scale`` (standard deviation) are one number, one per arm, or one per arm and feature.
    """
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    shape = len(coords["arm"]), len(coords["feature"])
    location, spread = _grid("mean", mean, shape), _grid("scale", scale, shape, positive=True)
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", location, spread, dims=("arm", "feature"))
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
