"""Laplace effects: many near the mean, a few far from it.

    beta[i, k] has density exp(-|b - mean[i, k]| / scale[i, k]) / (2 scale[i, k]), independent; variance 2 scale^2

Use it as a mild belief in sparsity (its posterior mode is the lasso) that still has every moment.

Applicability
-------------
The posterior mean, which users act on, is never exactly sparse. For a strong belief that most features do not matter
use `horseshoe`. The density has a kink at the mean: gradient samplers cope, expansions around the mode do not.
"""

from collections.abc import Sequence

import pymc as pm
from numpy.typing import ArrayLike

from rcb_bayes.authoring import labelled_coords, per_coefficient


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
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    location = per_coefficient(mean, name="mean", coords=coords)
    spread = per_coefficient(scale, name="scale", coords=coords, positive=True)
    with pm.Model(coords=coords) as model:
        pm.Laplace("beta", location, spread, dims=("arm", "feature"))
    return model
