"""The paper's Setting 3 (budget effects): zero means and variance 1/lam, lam in {3, 5, 10}.

    beta[i, :] ~ Normal(0, I / lam), independent; K = 5, d = 5

The paper runs it with T = 50,000, sigma = 0.05 and epsilon in {0.01, 0.03, 0.05}.

Applicability
-------------
As for Setting 1: all arms look the same beforehand. ``lam`` sets the scale of all effects, so that a larger one makes
every gap, and with it the regret, smaller.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm


def build_model(
    *,
    n_arms: int = 5,
    n_features: int = 5,
    lam: float = 5.0,
    arms: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> pm.Model:
    """The users' prior of Setting 3, with precision ``lam``."""
    if not 0 < lam < np.inf:
        raise ValueError(f"lam must be positive and finite, got {lam}.")
    coords = {"arm": _labels("arm", n_arms, arms), "feature": _labels("feature", n_features, features)}
    with pm.Model(coords=coords) as model:
        pm.Normal("beta", 0.0, float(lam) ** -0.5, dims=("arm", "feature"))
    return model


def _labels(dim: str, size: int, given: Sequence[str] | None) -> list[str]:
    """The labels given, or ``arm_0, arm_1, ...``."""
    labels = [f"{dim}_{k}" for k in range(size)] if given is None else [str(label) for label in given]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"Expected one or more distinct {dim} labels, got {labels}.")
    return labels
