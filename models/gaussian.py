"""Independent Gaussian effects: the plainest belief, exact.

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

import pymc as pm
from numpy.typing import ArrayLike

from rcb_bayes.authoring import labelled_coords, per_coefficient


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
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    location = per_coefficient(mean, name="mean", coords=coords)
    spread = per_coefficient(scale, name="scale", coords=coords, positive=True)
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", location, spread, dims=("arm", "feature"))
    return model
