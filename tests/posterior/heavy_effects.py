"""Beliefs of many heavy-tailed effects around shared levels."""

from typing import Any

import pymc

from rcb_bayes.belief import Prior

pm: Any = pymc  # annotations that do not fit their own use
KINDS = ("student", "laplace", "horseshoe")


def around_a_level(kind: str, n_arms: int, d: int) -> Prior:
    """Heavy-tailed effects of every arm around a level of each feature, their scale unknown."""
    coords = {"arm": [f"a{i}" for i in range(n_arms)], "feature": [f"x{k}" for k in range(d)]}
    dims = ("arm", "feature")
    with pm.Model(coords=coords) as model:
        level = pm.Normal("level", 0.0, 0.4, dims="feature")
        tau = pm.HalfNormal("tau", 0.3)
        if kind == "student":
            pm.StudentT("beta", nu=4.0, mu=level, sigma=tau, dims=dims)
        elif kind == "laplace":
            pm.Laplace("beta", level, tau, dims=dims)
        else:
            lam = pm.HalfCauchy("lam", 1.0, dims=dims)
            slab = pm.InverseGamma("slab", 2.0, 2.0)
            z = pm.Normal("z", 0.0, 1.0, dims=dims)
            pm.Deterministic("beta", level + z * (1.0 / (tau * lam) ** 2 + 1.0 / slab) ** -0.5, dims=dims)
    return Prior.from_pymc(model, name=kind)
