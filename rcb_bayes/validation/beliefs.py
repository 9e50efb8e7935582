"""The beliefs that engines are validated on: small ones of the gallery, one of each kind an engine is for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief import Prior, load_prior

if TYPE_CHECKING:
    import pymc as pm


def independent() -> Prior:
    """Gaussian, arms independent, coefficients of an arm correlated."""
    return Prior.gaussian(np.full((3, 3), 0.3), np.full((3, 3), 0.1) + 0.2 * np.eye(3))


def coupled() -> Prior:
    """Gaussian, arms correlated."""
    factor = np.random.default_rng(1).standard_normal((9, 9))
    return Prior.gaussian(np.linspace(-0.5, 0.5, 9).reshape(3, 3), factor @ factor.T / 9 + 0.2 * np.eye(9))


def of_gallery(name: str, n_arms: int, n_features: int, **parameters: Any) -> Callable[[], Prior]:
    """A belief of the gallery in these sizes."""
    return lambda: load_prior(name, n_arms=n_arms, n_features=n_features, **parameters)


def one_scale() -> Prior:
    """Two arms, one feature: effects are N(0, scale^2), their scale is half-normal with sd .5."""
    import pymc as pm

    with pm.Model(coords=_coords()) as model:
        scale = pm.HalfNormal("scale", 0.5)
        pm.Normal("beta", 0.0, scale, dims=("arm", "feature"))
    return _read(model, "one unknown scale")


def two_effects() -> Prior:
    """Two arms, one feature: effects have density t with 4 degrees of freedom and scale .5."""
    import pymc as pm

    with pm.Model(coords=_coords()) as model:
        pm.StudentT("beta", nu=4.0, mu=0.0, sigma=0.5, dims=("arm", "feature"))
    return _read(model, "two Student-t effects")


def two_normals() -> Prior:
    """Two arms, one feature: effects are N(.2, .25)."""
    return Prior.gaussian([[0.2], [0.2]], 0.25)


def _coords() -> dict[str, list[str]]:
    return {"arm": ["arm_0", "arm_1"], "feature": ["feature_0"]}


def _read(model: "pm.Model", name: str) -> Prior:
    return Prior.from_pymc(model).renamed(name)
