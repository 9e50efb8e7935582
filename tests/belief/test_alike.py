"""Arms that may change places, whatever the belief is written in."""

from typing import Any

import numpy as np
import pymc
import pytest

from rcb_bayes.belief import Prior, load_prior

pm: Any = pymc


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("gaussian", {"scale": [0.5, 0.6, 0.5]}, ((0, 2), (1,))),
        ("student_t", {}, ((0, 1, 2),)),
        ("student_t", {"scale": [0.5, 0.5, 0.6]}, ((0, 1), (2,))),
        ("student_t", {"mean": [0.0, 0.1, 0.0]}, ((0, 2), (1,))),
        ("per_arm", {}, ((0,), (1,), (2,))),
        ("hierarchical", {}, ((0, 1, 2),)),
        ("hierarchical", {"mean": [0.1, 0.0, 0.0]}, ((0,), (1, 2))),
        ("unknown_noise", {}, ((0, 1, 2),)),
        ("unknown_noise", {"scale": [0.5, 0.4, 0.5]}, ((0, 2), (1,))),
    ],
)
def test_classes_of_the_gallery(name: str, parameters: dict[str, Any], expected: tuple[tuple[int, ...], ...]):
    assert load_prior(name, n_arms=3, n_features=2, **parameters).alike == expected


def test_a_level_that_two_arms_share_tells_them_from_the_third():
    with pm.Model(coords={"arm": ["a", "b", "c"], "feature": ["x"]}) as model:
        tau = pm.HalfNormal("tau", 1.0)
        level = pm.Normal("level", 0.0, 1.0)
        own = pm.Normal("own", 0.0, tau, shape=(3, 1))
        pm.Deterministic("beta", own + level * np.array([[1.0], [1.0], [0.0]]), dims=("arm", "feature"))
    assert Prior.from_pymc(model).alike == ((0, 1), (2,))
