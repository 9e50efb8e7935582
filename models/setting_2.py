"""The paper's Setting 2 (ad-hoc design): as 1, with any N.

    beta[i, :] ~ Normal(0, variance I), independent; K in {2, 5, 10}, d in {3, 5, 10}, variance 1/5

Setting 2 differs from Setting 1 in the plan alone: N in {10, 100, 1000} whatever the theorem asks for.

Applicability
-------------
As for Setting 1: all arms look the same beforehand, so that any plan is acceptable until the first data are in.
"""

from collections.abc import Sequence

import pymc as pm

from rcb_bayes.authoring import labelled_coords, number_above


def build_model(
    *,
    n_arms: int = 5,
    n_features: int = 5,
    variance: float = 0.2,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """The users' prior of Setting 2."""
    variance = number_above(variance, name="variance")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", 0.0, variance**0.5, dims=("arm", "feature"))
    return model
