"""The physician's belief in the warfarin study: the medium dose, by default.

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

from rcb_bayes.authoring import labelled_coords


def build_model(
    *,
    n_arms: int = 3,
    n_features: int = 70,
    variance: float = 0.4,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """The physician's prior over the doses low, medium and high."""
    if not 0 < variance < np.inf:
        raise ValueError(f"variance must be positive and finite, got {variance}.")
    if arms is None:
        arms = ["low", "medium", "high"]
    if not n_arms == len(arms) == 3:
        raise ValueError(f"Warfarin has three arms (low, medium, high), got n_arms={n_arms} and arms={list(arms)}.")
    coords = labelled_coords(n_arms, n_features, arms=arms, features=features)
    mean = np.zeros((3, len(coords["feature"])))
    mean[1] = 0.05
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", mean, float(variance) ** 0.5, dims=("arm", "feature"))
    return model
