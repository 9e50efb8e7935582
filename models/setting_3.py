"""The paper's Setting 3 (budget effects): variance 1/lam.

    beta[i, :] ~ Normal(0, I / lam), independent; K = 5, d = 5

The paper runs it with T = 50,000, sigma = 0.05 and epsilon in {0.01, 0.03, 0.05}.

Applicability
-------------
As for Setting 1: all arms look the same beforehand. ``lam`` sets the scale of all effects, so that a larger one makes
every gap, and with it the regret, smaller.
"""

from collections.abc import Sequence

import pymc as pm

from rcb_bayes.authoring import labelled_coords, number_above


def build_model(
    *,
    n_arms: int = 5,
    n_features: int = 5,
    lam: float = 5.0,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """The users' prior of Setting 3, with precision ``lam``."""
    lam = number_above(lam, name="lam")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", 0.0, lam**-0.5, dims=("arm", "feature"))
    return model
