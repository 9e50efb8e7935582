"""One curve for all arms: each departs from it a little.

    mu[i](x) = mean[i] + a[i] + sum_k (f[k](x[k]) + b[i, k] x[k]),  a, b ~ Normal(0, scale^2)
    f[k] ~ GP(0, amplitude^2 Matern52(length)), shared by all arms, by ``pm.gp.HSGP``

Use it where users differ more than arms do: what one arm tells about the common curve is news about all.

Applicability
-------------
Arms are coupled, which the paper does not have. Only the departures decide between arms, so that rewards of one arm
move the expectations of all without telling which is best. Covariates lie in [-1, 1]; the belief is Gaussian and solved
exactly.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

from rcb_bayes.authoring import labelled_coords, number_above, per_coefficient


def build_model(
    *,
    n_arms: int = 2,
    n_features: int = 1,
    mean: ArrayLike = 0.0,
    scale: float = 0.3,
    amplitude: float = 0.4,
    length: float = 0.7,
    n_basis: int = 12,
    reach: float = 1.6,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of one curve, a regression with mean ``mu`` (user, arm) of ``x``; ``mean``: a number, or one an arm."""
    scale, amplitude = number_above(scale, name="scale"), number_above(amplitude, name="amplitude")
    length, reach = number_above(length, name="length"), number_above(reach, 1.0, name="reach")
    n_basis = int(number_above(n_basis, name="n_basis"))
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    offset = per_coefficient(mean, name="mean", coords=coords | {"feature": ["level"]})[:, 0]
    k, d = len(coords["arm"]), len(coords["feature"])
    with pm.Model(coords=coords) as model:
        x: Any = pm.Data("x", np.tile(np.linspace(-1.0, 1.0, 9)[:, None], d), dims=("user", "feature"))
        levels = pm.Normal("a", 0.0, scale, dims="arm")
        slopes = pm.Normal("b", 0.0, scale, shape=(d, k))
        z = pm.Normal("z", 0.0, 1.0, shape=(d, n_basis))
        mu = offset + levels + x @ slopes
        for place in range(d):
            process: Any = pm.gp.HSGP(m=[n_basis], L=[reach], cov_func=amplitude**2 * pm.gp.cov.Matern52(1, ls=length))
            phi, root = process.prior_linearized(x[:, place : place + 1])
            mu = mu + (phi @ (z[place] * root))[:, None]
        pm.Deterministic("mu", mu, dims=("user", "arm"))
    return model
