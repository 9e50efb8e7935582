"""The paper's Setting 1 (environment effects): zero means and variance 1/5, for any number of arms and features.

    beta[i, :] ~ Normal(0, variance I), independent; K in {2, 5, 10}, d in {3, 5, 10}, variance 1/5

The paper runs it with T = 100,000, sigma = 0.05, epsilon = 0.05, tau = 0.01 and rho = 0.95.

Applicability
-------------
All arms look the same beforehand, so nobody has to be persuaded of anything: exploring costs a user nothing that she
can foresee. And rho = 0.95 cannot hold: a fresh arm beats one saturated arm half of the time, several ones less often.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm


def build_model(
    *,
    n_arms: int = 5,
    n_features: int = 5,
    variance: float = 0.2,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """The users' prior of Setting 1."""
    if not 0 < variance < np.inf:
        raise ValueError(f"variance must be positive and finite, got {variance}.")
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", 0.0, float(variance) ** 0.5, dims=("arm", "feature"))
    return model


def _labels(dim: str, size: int, given: Sequence[str] | None) -> list[str]:
    """The labels given, or ``arm_0, arm_1, ...``."""
    labels = [f"{dim}_{k}" for k in range(size)] if given is None else [str(label) for label in given]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"Expected one or more distinct {dim} labels, got {labels}.")
    return labels
