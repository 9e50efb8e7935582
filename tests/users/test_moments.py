"""Coverage of the feature space: phi0, and the directions hardly or never visited."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.users import Covariates, Empirical, Gaussian, Sphere, WeakDirections


def test_phi0_is_the_smallest_mean_square_over_directions(population: Covariates):
    directions = Sphere(population.n_features).sample(2000, seed=3)
    squares = np.einsum("id,de,ie->i", directions, population.second_moment, directions)
    assert squares.min() >= population.phi0 - 1e-12


def test_dummies_beside_an_intercept_leave_a_direction_unvisited(dummies_with_intercept: Callable[[int], pd.DataFrame]):
    population = Empirical(dummies_with_intercept(60))
    weak = population.weak_directions()
    assert population.phi0 == 0.0
    assert len(weak) == 1
    assert weak.eigenvalues.tolist() == [0.0]
    assert weak.text == ("0.58 intercept - 0.58 female - 0.58 male",)
    np.testing.assert_allclose(population.rows @ weak.directions[0], 0.0, atol=1e-12)
    assert "never visited" in population.describe()
    assert "0.58 intercept" in str(weak)


def test_two_sets_of_dummies_are_named_apart():
    group = np.arange(90) % 3
    side = np.arange(90) % 2
    frame = pd.get_dummies(pd.DataFrame({"group": list("abc"), "k": 0}).loc[group].group, dtype=float)
    frame = frame.reset_index(drop=True).assign(one=1.0, left=side == 0, right=side == 1)
    weak = Empirical(frame).weak_directions()
    assert weak.eigenvalues.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(frame.to_numpy(dtype=float) @ weak.directions.T, 0.0, atol=1e-12)
    assert all(len(text.split()) <= 14 for text in weak.text)  # a handful of equal terms, not six mixed ones each


def test_directions_are_found_at_any_scale_and_size():
    rng = np.random.default_rng(4)
    for scale in (1e-6, 1.0, 1e6):
        a, b = scale * rng.normal(size=(2, 200_000))
        population = Empirical(np.column_stack([a, b, a + b]))
        assert population.phi0 == 0.0
        assert population.weak_directions().text == ("0.58 feature_0 + 0.58 feature_1 - 0.58 feature_2",)


def test_different_units_are_weak_but_not_deficient():
    rng = np.random.default_rng(5)
    rows = np.column_stack([np.ones(500), rng.normal(50_000, 10_000, size=500)])
    population = Empirical(rows, features=["intercept", "income"])
    exact = np.linalg.svd(rows / np.sqrt(500), compute_uv=False)[-1] ** 2
    assert population.phi0 == pytest.approx(exact, rel=1e-4)
    assert population.weak_directions().text[0].startswith("1 intercept - ")


def test_nearly_collinear_directions_and_the_tolerance():
    population = Gaussian([[1.0, 0.999], [0.999, 1.0]], features=["female", "male"])
    assert population.phi0 == pytest.approx(0.001)
    assert len(population.weak_directions()) == 0
    assert str(population.weak_directions()) == "none"
    weak = population.weak_directions(0.01)
    assert weak.text == ("0.71 female - 0.71 male",)
    assert weak.eigenvalues[0] == pytest.approx(0.001)
    np.testing.assert_allclose(weak.directions, [[np.sqrt(0.5), -np.sqrt(0.5)]])
    assert isinstance(weak, WeakDirections)


def test_long_directions_are_cut_short():
    population = Empirical(np.column_stack([np.ones(20), np.eye(20)]))
    text = population.weak_directions().text[0]
    assert text.endswith("...")
    assert text.count("feature_") == 8
