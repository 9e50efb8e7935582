"""Regularised horseshoe: few features matter, but much.

    beta[i, k] ~ Normal(mean[i, k], s[i, k]^2),    1/s[i, k]^2 = 1/(tau[i] lam[i, k])^2 + 1/c[i]^2
    tau[i] ~ HalfCauchy(scale),  lam[i, k] ~ HalfCauchy(1),  c[i]^2 ~ InverseGamma(slab_nu/2, slab_nu slab_scale^2/2)

after Piironen and Vehtari (2017). A feature is either shrunk to its mean or drawn from the slab, a Student-t with
``slab_nu`` degrees of freedom and scale ``slab_scale``; ``scale`` says how rarely the latter happens.

Use it with many features (warfarin's 70) of which users expect a handful to decide.

Applicability
-------------
The plain horseshoe, without the slab c, has no mean: users could not compare two arms, and it is refused. The slab
gives mean and variance (slab_nu > 2). The scales are unknown, so beta has no density in closed form: the posterior is
sampled, through z = (beta - mean)/s, since in beta itself the sampler sticks where s is small. Every arm has its own
tau and c, which keeps the arms independent.
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
    scale: float = 0.1,
    slab_scale: float = 1.0,
    slab_nu: float = 4.0,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of sparse effects; ``mean`` is one number, one per arm, or one per arm and feature."""
    scale, slab_scale = number_above(scale, name="scale"), number_above(slab_scale, name="slab_scale")
    slab_nu = number_above(slab_nu, 2.0, name="slab_nu", why="for the variance to exist")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    location = per_coefficient(mean, name="mean", coords=coords)
    with pm.Model(coords=coords) as model:
        tau = pm.HalfCauchy("tau", scale, dims="arm")
        lam = pm.HalfCauchy("lam", 1.0, dims=("arm", "feature"))
        slab = pm.InverseGamma("slab", 0.5 * slab_nu, 0.5 * slab_nu * slab_scale**2, dims="arm")
        spread = (1.0 / (tau[:, None] * lam) ** 2 + 1.0 / slab[:, None]) ** -0.5
        z = pm.Normal("z", 0.0, 1.0, dims=("arm", "feature"))
        pm.Deterministic("beta", location + spread * z, dims=("arm", "feature"))
    return model
