"""Enthusiasts and sceptics: each arm is a hit or a miss.

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

from rcb_bayes.authoring import labelled_coords, number_above, per_coefficient


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
    if not all(isinstance(pair, tuple | list | np.ndarray) and len(pair) == 2 for pair in (weights, means, scales)):
        raise ValueError("weights, means and scales must have two entries each, one per camp.")
    shares = [number_above(weight, name="weights") for weight in weights]
    if not np.isclose(sum(shares), 1.0):
        raise ValueError(f"weights must be positive and sum to one, got {shares}.")
    spreads = [number_above(scale, name="scales") for scale in scales]
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    shape = len(coords["arm"]), len(coords["feature"])
    camps = [
        pm.MvNormal.dist(per_coefficient(mean, name="means", coords=coords), chol=scale * np.eye(shape[1]))  # pyright: ignore
        for mean, scale in zip(means, spreads, strict=True)
    ]
    with pm.Model(coords=coords) as model:
        pm.Mixture("beta", w=np.asarray(shares), comp_dists=camps, dims=("arm", "feature"))
    return model
