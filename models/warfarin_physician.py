"""The physician's belief on warfarin: the medium dose.

    beta[medium, :] ~ Normal(0.05, variance I),  beta[i, :] ~ Normal(0, variance I) for low and high

with variance .4, .6 or .8: the smaller, the firmer the opinion. The paper has 5,528 patients with 70 features, noise
0.054, tau = 0.005 and epsilon in {0.025, 0.035, 0.045}.

Applicability
-------------
A mean of 0.05 on every feature makes the medium dose's advantage 0.05 times the sum of a patient's features, so it
grows with the number of dummies that are one. The reward is binary: a linear belief is an approximation there.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm

from rcb_bayes.authoring import labelled_coords, number_above


def build_model(
    *,
    n_arms: int = 3,
    n_features: int = 70,
    variance: float = 0.4,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """The physician's prior over the doses low, medium and high."""
    variance = number_above(variance, name="variance")
    doses = ["low", "medium", "high"] if arms is None else arms
    coords = labelled_coords(n_arms, n_features, arms=doses, features=features)
    if not n_arms == len(coords["arm"]) == 3:
        raise ValueError(f"Warfarin has three arms, low, medium and high: got n_arms={n_arms!r}, arms={coords['arm']}.")
    mean = np.zeros((3, len(coords["feature"])))
    mean[1] = 0.05
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", mean, variance**0.5, dims=("arm", "feature"))
    return model
