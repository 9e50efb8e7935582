"""Enthusiasts and sceptics: each arm is a hit or a miss, a mixture of two Gaussians with one label per arm.

    z[i] ~ Categorical(weights);  beta[i, :] | z[i] = c ~ Normal(means[c][i, :], scales[c]^2 I)

Use it when opinion on an arm is split: it works, or it does not, and a few outcomes will tell which.

Applicability
-------------
The prior mean lies between the camps, where nobody believes the effect to be; a Gaussian with the same mean and
variance understates how fast data move opinion. All features of an arm share its label: a mixture over single
elements would be another belief. Solved exactly, component by component; gradient samplers do not mix on it.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike


def build_model(
    *,
    n_arms: int = 3,
    n_features: int = 5,
    weights: tuple[float, float] = (0.5, 0.5),
    means: tuple[ArrayLike, ArrayLike] = (0.5, -0.5),
    scales: tuple[float, float] = (0.3, 0.3),
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief in two camps, enthusiasts first.

    ``weights``, ``means`` and ``scales`` (standard deviations) have two entries; each of the means is one number, one
    per arm, or one per arm and feature.
    """
    if not len(weights) == len(means) == len(scales) == 2:
        raise ValueError("weights, means and scales must have two entries each, one per camp.")
    if not (min(weights) > 0 and np.isclose(sum(weights), 1.0)):
        raise ValueError(f"weights must be positive and sum to one, got {tuple(weights)}.")
    if not 0 < min(scales) <= max(scales) < np.inf:
        raise ValueError(f"scales must be positive and finite, got {tuple(scales)}.")
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    shape = len(coords["arm"]), len(coords["feature"])
    camps = [
        pm.MvNormal.dist(_grid("means", mean, shape), chol=float(scale) * np.eye(shape[1]))  # pyright: ignore
        for mean, scale in zip(means, scales, strict=True)
    ]
    with pm.Model(coords=coords) as model:
        pm.Mixture("beta", w=np.asarray(weights, dtype=float), comp_dists=camps, dims=("arm", "feature"))
    return model


def _labels(dim: str, size: int, given: Sequence[str] | None) -> list[str]:
    """The labels given, or ``arm_0, arm_1, ...``."""
    labels = [f"{dim}_{k}" for k in range(size)] if given is None else [str(label) for label in given]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"Expected one or more distinct {dim} labels, got {labels}.")
    return labels


def _grid(name: str, value: ArrayLike, shape: tuple[int, int]) -> np.ndarray:
    """One number, one per arm, or one per arm and feature, as an array (n_arms, n_features)."""
    array = np.asarray(value, dtype=float)
    array = array[:, None] if array.ndim == 1 else array
    if array.shape not in ((), (shape[0], 1), shape):
        raise ValueError(f"{name} must be one number, one per arm, or of shape {shape}, got shape {np.shape(value)}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array.min():g} to {array.max():g}.")
    return np.broadcast_to(array, shape)
