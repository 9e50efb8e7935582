"""Populations of every kind, for the tests of what they have in common."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.users import Ball, Covariates, Empirical, Gaussian, Sphere, Uniform

COV = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]])
TABLE = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0], [2.0, 2.0]])

POPULATIONS: dict[str, Callable[[], Covariates]] = {
    "sphere": lambda: Sphere(5),
    "sphere, d = 1": lambda: Sphere(1),
    "ball": lambda: Ball(3),
    "ball, d = 1": lambda: Ball(1),
    "gaussian": lambda: Gaussian(COV, mean=[0.5, -1.0, 0.0]),
    "gaussian, variances": lambda: Gaussian([1.0, 0.2]),
    "gaussian, intercept": lambda: Gaussian([0.0, 0.4], mean=[1.0, 0.3]),
    "uniform": lambda: Uniform([-1.0, 0.0, 2.0], [1.0, 0.5, 5.0]),
    "uniform, scalars": lambda: Uniform(-1, 1, n_features=2),
    "empirical": lambda: Empirical(TABLE),
    "empirical, weights": lambda: Empirical(TABLE, weights=[1, 2, 0, 5]),
}


@pytest.fixture(params=POPULATIONS.values(), ids=list(POPULATIONS))
def population(request: pytest.FixtureRequest) -> Covariates:
    return request.param()


@pytest.fixture
def dummies_with_intercept() -> Callable[[int], pd.DataFrame]:
    """Users with an intercept beside a full set of dummies, so that one direction is never visited."""

    def build(n: int) -> pd.DataFrame:
        sex = np.arange(n) % 2 == 0
        return pd.DataFrame({"intercept": 1.0, "female": sex, "male": ~sex, "age": np.linspace(-1, 1, n)})

    return build
