"""The paper's Setting 4 (misspecified): first arm favoured.

    beta[0, :] ~ Normal(1, variance I),  beta[i, :] ~ Normal(0, variance I) for the others; variance in {.02, .04, .1}

The paper runs it with K = 5, d = 5, T = 50,000, epsilon = 0.05 and prior variances that grow as log t, sqrt(t) or t.

Applicability
-------------
The hard case: a user whose features sum to more than epsilon loses by trying another arm, and at these variances
little that the first arm shows changes that. Where no single exploration rate is feasible for all users, a rate for
each still is for some.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm

from rcb_bayes.authoring import labelled_coords, number_above


def build_model(
    *,
    n_arms: int = 5,
    n_features: int = 5,
    variance: float = 0.02,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """The users' prior of Setting 4, the first arm favoured."""
    variance = number_above(variance, name="variance")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    mean = np.zeros((len(coords["arm"]), len(coords["feature"])))
    mean[0] = 1.0
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", mean, variance**0.5, dims=("arm", "feature"))
    return model
