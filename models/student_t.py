"""Student-t effects: mostly modest, with rare large surprises.

    beta[i, k] ~ mean[i, k] + scale[i, k] * t(nu), independent; variance scale^2 nu/(nu - 2)

Use it when users grant that an effect may be far from what they expect: evidence that contradicts the prior then wins
sooner than under a Gaussian.

Applicability
-------------
Needs nu > 2: the prior mean that users act on exists from nu > 1, the variance that plans are computed with from
nu > 2. Up to nu = 4 the fourth moment is infinite and Monte Carlo errors of variances mean little.
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
    nu: float = 4.0,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of independent Student-t effects.

    ``mean`` and ``scale`` (not the standard deviation: see above) are one number, one per arm, or one per arm and
    feature; ``nu`` is the number of degrees of freedom.
    """
    if not 2 < nu < np.inf:
        raise ValueError(f"nu must be finite and exceed 2, for the variance to exist, got {nu}.")
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    shape = len(coords["arm"]), len(coords["feature"])
    location, spread = _grid("mean", mean, shape), _grid("scale", scale, shape, positive=True)
    with pm.Model(coords=coords) as model:
        pm.StudentT("beta", nu=np.float64(nu), mu=location, sigma=spread, dims=("arm", "feature"))
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
