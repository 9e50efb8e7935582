"""Gaussian effects, and a noise level that is not known.

    beta[i, k] ~ Normal(mean[i, k], scale[i, k]^2),  sigma ~ HalfNormal(noise_scale)

The reward is x' beta[i, :] plus noise of standard deviation sigma, the model's second variable. Use it when outcomes
are noisy to an unknown degree; the data then teach both.

Applicability
-------------
sigma is common to all arms and independent of beta before any data. Posterior means no longer follow from X'X and X'y
alone by a linear formula, so they are sampled. A plan made with a known sigma is too bold if the noise may be larger.
"""

from collections.abc import Sequence

import pymc as pm
from numpy.typing import ArrayLike

from rcb_bayes.authoring import labelled_coords, number_above, per_coefficient


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
    noise_scale = number_above(noise_scale, name="noise_scale")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    location = per_coefficient(mean, name="mean", coords=coords)
    spread = per_coefficient(scale, name="scale", coords=coords, positive=True)
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", location, spread, dims=("arm", "feature"))
        pm.HalfNormal("sigma", noise_scale)
    return model
