"""Cubic splines: curves of a few pieces for each arm.

    mu[i](x) = mean[i] + a[i] + sum_k s[i, k](x[k])
    s[i, k](t) = b1 t + b2 t^2 + b3 t^3 + sum_j c[j] max(t - knot[j], 0)^3

with a, b ~ Normal(0, scale^2) and c ~ Normal(0, bend^2). Use it where rewards bend at places that are known.

Applicability
-------------
Covariates lie in about [-1, 1]: powers of larger numbers make beliefs about the far ends absurdly wide. The belief is
Gaussian and solved exactly.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from rcb_bayes.authoring import labelled_coords, number_above, per_coefficient


def build_model(
    *,
    n_arms: int = 2,
    n_features: int = 1,
    mean: ArrayLike = 0.0,
    scale: float = 0.3,
    bend: float = 0.3,
    knots: ArrayLike = (-0.5, 0.0, 0.5),
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of splines, a regression with mean ``mu`` (user, arm) of ``x``; ``mean`` is one number, or one per arm."""
    scale, bend = number_above(scale, name="scale"), number_above(bend, name="bend")
    places = np.atleast_1d(np.asarray(knots, dtype=float))
    if places.ndim != 1 or not np.isfinite(places).all():
        raise ValueError(f"knots must be numbers, got {knots!r}.")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    offset = per_coefficient(mean, name="mean", coords=coords | {"feature": ["level"]})[:, 0]
    k, d = len(coords["arm"]), len(coords["feature"])
    with pm.Model(coords=coords) as model:
        x: Any = pm.Data("x", np.tile(np.linspace(-1.0, 1.0, 9)[:, None], d), dims=("user", "feature"))
        levels = pm.Normal("a", 0.0, scale, dims="arm")
        b = pm.Normal("b", 0.0, scale, shape=(3, d, k))
        c = pm.Normal("c", 0.0, bend, shape=(len(places), d, k))
        mu = offset + levels + x @ b[0] + x**2 @ b[1] + x**3 @ b[2]
        for j, knot in enumerate(places):
            above: Any = pt.maximum(x - knot, 0.0)
            mu = mu + above**3 @ c[j]
        pm.Deterministic("mu", mu, dims=("user", "arm"))
    return model
