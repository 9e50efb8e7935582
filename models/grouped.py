"""Effects by segment: bands of a covariate differ.

    s(x) = how many of the cuts lie below x[0]
    mu[i](x) = g[i, s(x)] + x' b[i],  g[i] ~ Normal(mean[i], tau^2),  b ~ Normal(0, scale^2)

with tau ~ HalfNormal(tau_scale), or a known number. Use it for age bands, regions or devices: segments lend one another
strength by their common spread tau.

Applicability
-------------
Segments are bands of the first covariate; one that nobody belongs to keeps its prior, and counts for nothing. With
``tau`` given the belief is Gaussian and solved exactly; with tau unknown it is integrated on a grid.
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
    cuts: ArrayLike = (-0.4, 0.4),
    tau: float | None = None,
    tau_scale: float = 0.3,
    scale: float = 0.2,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of segments, a regression with mean ``mu`` (user, arm) of ``x``; ``mean`` is a number, or one per arm."""
    scale, tau_scale = number_above(scale, name="scale"), number_above(tau_scale, name="tau_scale")
    tau = None if tau is None else number_above(tau, name="tau")
    bounds = np.sort(np.atleast_1d(np.asarray(cuts, dtype=float)))
    if bounds.ndim != 1 or not np.isfinite(bounds).all():
        raise ValueError(f"cuts must be numbers, got {cuts!r}.")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    offset = per_coefficient(mean, name="mean", coords=coords | {"feature": ["level"]})[:, 0]
    k, d = len(coords["arm"]), len(coords["feature"])
    with pm.Model(coords=coords) as model:
        x: Any = pm.Data("x", np.tile(np.linspace(-1.0, 1.0, 9)[:, None], d), dims=("user", "feature"))
        spread = pm.HalfNormal("tau", tau_scale) if tau is None else tau
        effects = pm.Normal("g", offset, spread, shape=(len(bounds) + 1, k))
        slopes = pm.Normal("b", 0.0, scale, shape=(d, k))
        segment = pt.sum(x[:, 0][:, None] > bounds, axis=1)
        pm.Deterministic("mu", effects[segment] + x @ slopes, dims=("user", "arm"))
    return model
