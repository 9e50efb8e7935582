"""The paper's Setting 1 (environment effects): zero means.

    beta[i, :] ~ Normal(0, variance I), independent; K in {2, 5, 10}, d in {3, 5, 10}, variance 1/5

The paper runs it with T = 100,000, sigma = 0.05, epsilon = 0.05, tau = 0.01 and rho = 0.95.

Applicability
-------------
All arms look the same beforehand, so nobody has to be persuaded of anything: exploring costs a user nothing that she
can foresee. And rho = 0.95 cannot hold: a fresh arm beats one saturated arm half of the time, several ones less often.
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
    """The users' prior of Setting 1."""
    variance = number_above(variance, name="variance")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", 0.0, variance**0.5, dims=("arm", "feature"))
    return model
