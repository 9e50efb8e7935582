"""Two helpers for writing a belief: labelled coordinates, and parameters given once, per arm or per coefficient."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.schema import ARM, FEATURE, FloatArray, default_labels


def labelled_coords(
    n_arms: int, n_features: int, *, arms: Sequence[str] | None = None, features: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Coordinates for ``pm.Model(coords=...)``: the labels given, or ``arm_0, ...`` and ``feature_0, ...``.

    Raises
    ------
    ValueError
        When a dimension is empty or a label stands twice.
    """
    return {ARM: _labels(ARM, n_arms, arms), FEATURE: _labels(FEATURE, n_features, features)}


def per_coefficient(value: ArrayLike, *, name: str, coords: dict[str, list[str]], positive: bool = False) -> FloatArray:
    """One number, one per arm, or one per arm and feature, as an array (n_arms, n_features).

    Raises
    ------
    ValueError
        When the value has another shape, is not finite or, on request, not positive.
    """
    shape = len(coords[ARM]), len(coords[FEATURE])
    array = np.asarray(value, dtype=float)
    array = array[:, None] if array.ndim == 1 else array
    if array.shape not in ((), (shape[0], 1), shape):
        raise ValueError(f"{name} must be one number, one per arm, or of shape {shape}, got shape {np.shape(value)}.")
    if not np.isfinite(array).all() or (positive and array.min() <= 0):
        raise ValueError(f"{name} must be finite{' and positive' * positive}, got {array.min():g} to {array.max():g}.")
    return np.broadcast_to(array, shape)


def _labels(dim: str, size: int, given: Sequence[str] | None) -> list[str]:
    labels = list(default_labels(dim, size)) if given is None else [str(label) for label in given]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"Expected one or more distinct {dim} labels, got {labels}.")
    return labels
