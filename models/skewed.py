"""Positive, skewed effects: no harm, and a few do much good.

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

from rcb_bayes.authoring import labelled_coords, per_coefficient


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
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    location = per_coefficient(mean, name="mean", coords=coords, positive=True)
    spread = per_coefficient(scale, name="scale", coords=coords, positive=True)
    with pm.Model(coords=coords) as model:
        if family == "gamma":
            pm.Gamma("beta", mu=location, sigma=spread, dims=("arm", "feature"))
        else:
            log_variance = np.log1p((spread / location) ** 2)
            log_mean = np.log(location) - log_variance / 2
            pm.LogNormal("beta", log_mean, np.sqrt(log_variance), dims=("arm", "feature"))
    return model
