"""Populations in closed form: their moments, their supports, and what bad input says."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.errors import RcbError
from rcb_bayes.users import Ball, Covariates, Empirical, Gaussian, Sphere, Uniform

COV = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]])


@pytest.mark.parametrize(
    ("population", "moment", "phi0", "max_norm"),
    [
        (Sphere(4), np.eye(4) / 4, 1 / 4, 1.0),
        (Ball(4), np.eye(4) / 6, 1 / 6, 1.0),
        (Gaussian(COV), COV, np.linalg.eigvalsh(COV)[0], np.inf),
        (Gaussian([0.0, 0.0], mean=[3.0, 4.0]), [[9.0, 12.0], [12.0, 16.0]], 0.0, 5.0),
        (Uniform([0.0, -1.0], [1.0, 1.0]), [[1 / 3, 0.0], [0.0, 1 / 3]], 1 / 3, np.sqrt(2)),
    ],
)
def test_closed_forms(population: Covariates, moment: Any, phi0: float, max_norm: float):
    np.testing.assert_allclose(population.second_moment, moment, atol=1e-15)
    assert population.phi0 == pytest.approx(phi0, abs=1e-15)
    assert population.max_norm == pytest.approx(max_norm)


def test_permuting_features_permutes_the_second_moment():
    order = np.ix_([2, 0, 1], [2, 0, 1])
    permuted = Gaussian(COV[order])
    np.testing.assert_allclose(permuted.second_moment, Gaussian(COV).second_moment[order], rtol=1e-13, atol=1e-15)
    assert permuted.phi0 == pytest.approx(Gaussian(COV).phi0)


def test_sphere_points_have_norm_one():
    np.testing.assert_allclose(np.linalg.norm(Sphere(7).sample(1000, seed=5), axis=1), 1.0, rtol=1e-14)


def test_ball_radius_to_the_power_d_is_uniform():
    radius = np.linalg.norm(Ball(3).sample(20_000, seed=6), axis=1)
    assert stats.kstest(radius**3, "uniform").pvalue > 1e-4
    assert stats.kstest(radius**2.9, "uniform").pvalue < 1e-4  # a volume off by a tenth of a dimension is seen


@pytest.mark.parametrize(
    ("population", "inside", "outside"),
    [
        (Sphere(2), [0.6, 0.8], [0.6, 0.7]),
        (Ball(2), [0.1, 0.2], [0.8, 0.8]),
        (Uniform([0.0, 0.0], [1.0, 2.0]), [1.0, 2.0], [1.1, 2.0]),
        (Gaussian([0.0, 1.0], mean=[1.0, 0.0]), [1.0, 40.0], [1.1, 0.0]),
        (Gaussian([[1.0, 1.0], [1.0, 1.0]]), [3.0, 3.0], [3.0, 2.0]),
    ],
)
def test_contains(population: Covariates, inside: list[float], outside: list[float]):
    assert population.contains([inside, outside]).tolist() == [True, False]
    assert population.contains([[inside], [outside]]).shape == (2, 1)
    assert bool(population.contains(np.array(inside) + 1e-10))
    assert not population.contains(outside)


def test_labels():
    assert Sphere(2).features == ("feature_0", "feature_1")
    assert Ball(2, features=["a", "b"]).features == ("a", "b")
    assert Uniform(0, [1, 2], features=iter("ab")).features == ("a", "b")
    assert dataclasses.replace(Gaussian([1.0, 2.0]), features=("a", "b")).features == ("a", "b")


BAD_INPUT: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (Sphere, (0,), {}, r"n_features must be an integer of at least 1, got 0"),
    (Sphere, (-2,), {}, r"at least 1, got -2"),
    (Sphere, (2.0,), {}, r"at least 1, got 2\.0"),
    (Sphere, ("3",), {}, r"at least 1, got '3'"),
    (Sphere, (True,), {}, r"at least 1, got True"),
    (Sphere, (None,), {}, r"at least 1, got None"),
    (Sphere, (10**9,), {}, r"n_features must be an integer of at most 5,000 \(E\[xx'\] has its square of numbers\)"),
    (Ball, (10**9,), {}, r"n_features must be an integer of at most 5,000"),
    (Uniform, (0.0, 1.0), {"n_features": 10**9}, r"n_features must be an integer of at most 5,000"),
    (Uniform, (np.zeros(6000), 1.0), {}, r"n_features must be an integer of at most 5,000"),
    (Empirical, (np.ones((1, 6000)),), {}, r"n_features must be an integer of at most 5,000"),
    (Gaussian, (np.ones(6000),), {}, r"n_features must be an integer of at most 5,000"),
    (Ball, (0,), {}, r"n_features must be an integer of at least 1, got 0"),
    (Ball, (1.5,), {}, r"at least 1, got 1\.5"),
    (Sphere, (2,), {"features": ["a"]}, r"Expected 2 feature labels, got 1"),
    (Sphere, (2,), {"features": ["a", "a"]}, r"feature labels must differ"),
    (Sphere, (2,), {"features": "ab"}, r"Expected a list of 2 feature labels, got 'ab'"),
    (Sphere, (2,), {"features": 7}, r"Expected a list of 2 feature labels, got 7"),
    (
        Gaussian,
        ([[1.0, 0.5], [0.4, 1.0]],),
        {},
        r"cov must be symmetric, got cov\[0, 1\] = 0\.5 but cov\[1, 0\] = 0\.4",
    ),
    (Gaussian, ([[1.0, 2.0], [2.0, 1.0]],), {}, r"positive semi-definite, got smallest eigenvalue -1"),
    (Gaussian, ([1.0, -1.0],), {}, r"positive semi-definite"),
    (Gaussian, ([[1.0, 2.0]],), {}, r"cov must be a \(d, d\) matrix or d variances, got shape \(1, 2\)"),
    (Gaussian, (1.0,), {}, r"cov must have 1 or 2 dimension"),
    (Gaussian, ([],), {}, r"cov must be a \(d, d\) matrix"),
    (Gaussian, ([[1.0, np.nan], [np.nan, 1.0]],), {}, r"cov must be finite"),
    (Gaussian, ("one",), {}, r"cov must be numeric, got str"),
    (Gaussian, ([["1", "0"], ["0", "1"]],), {}, r"cov must be numeric"),
    (Gaussian, ([[1.0, 0.0], [0.0]],), {}, r"cov must be numeric"),
    (Gaussian, ([1.0, 1.0],), {"mean": [1.0]}, r"mean must have one entry per row of cov \(2\), got shape \(1,\)"),
    (Gaussian, ([1.0, 1.0],), {"mean": [1.0, np.inf]}, r"mean must be finite"),
    (Gaussian, ([1.0],), {"mean": [1e200]}, r"too large: their second moment"),
    (Uniform, (0, 1), {}, r"size of at least 1, got plain numbers\. .* n_features as well"),
    (Uniform, ([0.0, 1.0], [1.0, 1.0]), {}, r"low must be below high, got low\[1\] = 1, high\[1\] = 1"),
    (Uniform, (2, 1), {"n_features": 3}, r"low must be below high"),
    (Uniform, ([0.0, 0.0], [1.0, 1.0, 1.0]), {}, r"must agree on a size of at least 1, got \[2, 3\]"),
    (Uniform, ([0.0, 0.0], 1.0), {"n_features": 3}, r"must agree on a size"),
    (Uniform, (0, 1), {"n_features": 0}, r"n_features must be an integer of at least 1"),
    (Uniform, ([], []), {}, r"must agree on a size of at least 1, got \[0\]"),
    (Uniform, ([0.0], [np.inf]), {}, r"high must be finite"),
    (Uniform, ([-1e200], [1e200]), {}, r"too large: their second moment"),
    (Uniform, ("low", "high"), {}, r"low must be numeric"),
]


@pytest.mark.parametrize(("build", "args", "kwargs", "message"), BAD_INPUT)
def test_bad_input(build: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        build(*args, **kwargs)
