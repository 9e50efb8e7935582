"""A family for each arm: Gaussian, Student-t or Laplace.

    beta[i, k] ~ mean[i, k] + scale[i, k] * family_i, with family_i from ``families``, repeated as needed

The usual way to write what one knows arm by arm: define each arm's vector with any distribution, stack them, and call
the result beta. Copy this file and edit its branches.

Applicability
-------------
Arms are independent. Keep each arm's vector a plain distribution (or one shifted and scaled), since then beta still has
a density; a sum of several unknowns has none, and its posterior must be sampled.
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
    families: Sequence[str] = ("gaussian", "student_t", "laplace"),
    mean: ArrayLike = 0.0,
    scale: ArrayLike = 0.5,
    nu: float = 4.0,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """Belief with one family per arm.

    ``mean`` and ``scale`` (of each family as its own file defines it) are one number, one per arm, or one per arm and
    feature; ``nu`` is the Student-t's.
    """
    known = ("gaussian", "student_t", "laplace")
    if not isinstance(families, tuple | list) or not families or any(family not in known for family in families):
        raise ValueError(f'families must be a list of "gaussian", "student_t" or "laplace", got {families!r}.')
    nu = number_above(nu, 2.0, name="nu", why="for the variance to exist")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    location = per_coefficient(mean, name="mean", coords=coords)
    spread = per_coefficient(scale, name="scale", coords=coords, positive=True)
    with pm.Model(coords=coords) as model:
        rows = []
        for i, arm in enumerate(coords["arm"]):
            family, name = families[i % len(families)], f"beta_{arm}"
            if family == "gaussian":
                row = pm.Normal(name, location[i], spread[i], dims="feature")
            elif family == "student_t":
                row = pm.StudentT(name, nu=np.float64(nu), mu=location[i], sigma=spread[i], dims="feature")
            else:
                row = pm.Laplace(name, location[i], spread[i], dims="feature")
            rows.append(row)
        pm.Deterministic("beta", pm.math.stack(rows), dims=("arm", "feature"))
    return model
