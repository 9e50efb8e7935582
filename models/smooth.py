"""Smooth curves: a Gaussian process for each arm.

    mu[i](x) = mean[i] + a[i] + sum_k f[i, k](x[k]),  a[i] ~ Normal(0, level^2)
    f[i, k] ~ GP(0, amplitude^2 Matern52(length)),  amplitude ~ HalfNormal(amplitude_scale), length ~ LogNormal

in its Hilbert space approximation (``pm.gp.HSGP``): n_basis sines on [-reach, reach] for every covariate, so that the
belief has coefficients. Use it where rewards bend and nobody knows how.

Applicability
-------------
Covariates lie in [-1, 1], and reach exceeds that: a process is forced to 0 there. With ``amplitude`` and ``length``
given the belief is Gaussian and solved exactly; with both unknown they are integrated on a lattice. A length below
2 reach / n_basis is more wiggly than the sines can follow.
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
    level: float = 0.3,
    amplitude: float | None = None,
    amplitude_scale: float = 0.4,
    length: float | None = None,
    n_basis: int = 12,
    reach: float = 1.6,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of curves, a regression with mean ``mu`` (user, arm) of ``x``; ``mean``: a number, or one an arm."""
    level, amplitude_scale = number_above(level, name="level"), number_above(amplitude_scale, name="amplitude_scale")
    reach = number_above(reach, 1.0, name="reach", why="covariates lie in [-1, 1]")
    n_basis = int(number_above(n_basis, name="n_basis"))
    known = {"amplitude": amplitude, "length": length}
    known = {name: None if value is None else number_above(value, name=name) for name, value in known.items()}
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    offset = per_coefficient(mean, name="mean", coords=coords | {"feature": ["level"]})[:, 0]
    k, d = len(coords["arm"]), len(coords["feature"])
    with pm.Model(coords=coords) as model:
        x: Any = pm.Data("x", np.tile(np.linspace(-1.0, 1.0, 9)[:, None], d), dims=("user", "feature"))
        eta = pm.HalfNormal("amplitude", amplitude_scale) if known["amplitude"] is None else known["amplitude"]
        ell = pm.LogNormal("length", np.log(0.7), 0.4) if known["length"] is None else known["length"]
        levels = pm.Normal("a", 0.0, level, dims="arm")
        z = pm.Normal("z", 0.0, 1.0, shape=(d, n_basis, k))
        mu = offset + levels
        for place in range(d):
            process: Any = pm.gp.HSGP(m=[n_basis], L=[reach], cov_func=eta**2 * pm.gp.cov.Matern52(1, ls=ell))
            phi, root = process.prior_linearized(x[:, place : place + 1])
            mu = mu + phi @ (z[place] * root[:, None])
        pm.Deterministic("mu", pt.as_tensor(mu), dims=("user", "arm"))
    return model
