"""Correlated features, in a way that is learnt (LKJ).

    C ~ LKJ(eta);  beta[i, :] ~ Normal(mean[i, :], scale^2 C), with one C for all arms

Each correlation has mean zero and variance 1/(2 eta + n_features - 1); eta = 1 is uniform over correlation matrices.
Use it when features overlap (age and years of use) and users know it, but not by how much. If they do know, write
``pm.MvNormal`` with that covariance: it is solved exactly.

Applicability
-------------
Arms share C, so they are dependent though uncorrelated; the expectation of an arm never tried stays at its prior mean.
C is unknown, so beta has no density in closed form: the posterior is sampled, through z = L^-1 (beta - mean)/scale with
LL' = C. The factor L comes from independent partial correlations (the C-vine of Lewandowski, Kurowicka and Joe) rather
than from ``pm.LKJCholeskyCov``, whose forward draws in PyMC 6.3 miss its own density from three features on.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from rcb_bayes.authoring import labelled_coords, number_above, per_coefficient


def build_model(
    *,
    n_arms: int = 3,
    n_features: int = 5,
    mean: ArrayLike = 0.0,
    scale: float = 0.5,
    eta: float = 2.0,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief of correlated effects; ``mean`` is one number, one per arm, or one per arm and feature."""
    scale, eta = number_above(scale, name="scale"), number_above(eta, name="eta")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    shape = len(coords["arm"]), len(coords["feature"])
    if shape[1] < 2:
        raise ValueError("Correlated features must be two or more, got one: use gaussian.py.")
    coords["feature_bis"] = coords["feature"]
    location = per_coefficient(mean, name="mean", coords=coords)
    row, column = np.tril_indices(shape[1], k=-1)
    concentration = eta + (shape[1] - 2 - column) / 2
    with pm.Model(coords=coords) as model:
        partial = 2.0 * pm.Beta("partial", concentration, concentration) - 1.0
        share = pt.as_tensor(np.eye(shape[1]))[row, column].set(partial)
        left = (1.0 - pt.tril(share, k=-1) ** 2).cumprod(axis=1)  # of a row's unit variance, after each column
        chol = share * pt.sqrt(pt.concatenate([pt.ones((shape[1], 1)), left[:, :-1]], axis=1))
        pm.Deterministic("correlation", (chol[:, None] * chol).sum(axis=-1), dims=("feature", "feature_bis"))
        z = pm.Normal("z", 0.0, 1.0, dims=("arm", "feature"))
        pm.Deterministic("beta", location + scale * (z[:, None] * chol).sum(axis=-1), dims=("arm", "feature"))
    return model
