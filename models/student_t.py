"""Student-t effects: mostly modest, rare large surprises.

    beta[i, k] ~ mean[i, k] + scale[i, k] * t(nu), independent; variance scale^2 nu/(nu - 2)

Use it when users grant that an effect may be far from what they expect: evidence that contradicts the prior then wins
sooner than under a Gaussian.

Applicability
-------------
Needs nu > 1, for the prior mean that users act on to exist. The variance exists from nu > 2; below that, and with few
data, posteriors are left to MCMC more often. Up to nu = 4 Monte Carlo errors of variances mean little.
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
    nu = number_above(nu, 1.0, name="nu", why="for the mean to exist")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    location = per_coefficient(mean, name="mean", coords=coords)
    spread = per_coefficient(scale, name="scale", coords=coords, positive=True)
    with pm.Model(coords=coords) as model:
        pm.StudentT("beta", nu=np.float64(nu), mu=location, sigma=spread, dims=("arm", "feature"))
    return model
