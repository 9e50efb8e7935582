"""Arms of one family: each tells about the others.

    m[k] ~ Normal(0, scale^2),  tau ~ HalfNormal(tau_scale) or a known number
    beta[i, k] ~ Normal(mean[i, k] + m[k], tau^2)

Two arms have covariance scale^2 in each feature, and variance scale^2 + tau^2 (tau_scale^2 for an unknown tau). Use it
for variants of one product: news about one is news about all.

Applicability
-------------
The paper takes arms as independent; here data on one arm move the expectation of an arm never tried, for better or
worse. With ``tau`` given the belief is jointly Gaussian and solved exactly; with tau unknown it is sampled, and then
``centred=False``, which samples (beta - mean - m)/tau in place of beta, does better if arms hardly differ or data are
few.
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
    scale: float = 0.4,
    tau: float | None = None,
    tau_scale: float = 0.3,
    centred: bool = True,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of related arms; ``mean``, added to the shared m, is one number, one per arm, or one per element."""
    scale, tau_scale = number_above(scale, name="scale"), number_above(tau_scale, name="tau_scale")
    tau = None if tau is None else number_above(tau, name="tau")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    offset = per_coefficient(mean, name="mean", coords=coords)
    with pm.Model(coords=coords) as model:
        shared = pm.Normal("m", 0.0, scale, dims="feature")
        spread = pm.HalfNormal("tau", tau_scale) if tau is None else tau
        if centred:
            pm.Normal("beta", offset + shared, spread, dims=("arm", "feature"))
        else:
            z = pm.Normal("z", 0.0, 1.0, dims=("arm", "feature"))
            pm.Deterministic("beta", offset + shared + spread * z, dims=("arm", "feature"))
    return model
