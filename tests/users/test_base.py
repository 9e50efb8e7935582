"""What all populations have in common: exact moments against sampling, seeds, and what bad calls say."""

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.users import Ball, Covariates

N_SAMPLES = 50_000
WORST_Z = 4.5


def largest_z(draws: np.ndarray, claimed: np.ndarray) -> float:
    """Largest distance of a sample mean from the claimed one, in standard errors of that sample."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return float((np.abs(draws.mean(axis=0) - claimed) / (error + 1e-12)).max())


def outer_products(x: np.ndarray) -> np.ndarray:
    return x[:, :, None] * x[:, None, :]


def test_second_moment_is_that_of_the_samples(population: Covariates):
    products = outer_products(population.sample(N_SAMPLES, seed=11))
    assert largest_z(products, population.second_moment) < WORST_Z
    assert largest_z(products, 1.05 * population.second_moment) > WORST_Z  # the same check sees a bias of 5 %


def test_mean_is_that_of_the_samples(population: Covariates):
    x = population.sample(N_SAMPLES, seed=12)
    assert largest_z(x, population.mean) < WORST_Z
    assert largest_z(x, population.mean + 0.05 * x.std(axis=0).max()) > WORST_Z


def test_samples_have_the_shape_and_lie_in_the_support(population: Covariates):
    x = population.sample(200, seed=1)
    assert x.shape == (200, population.n_features)
    assert x.dtype == np.float64
    assert population.contains(x).all()
    assert np.linalg.norm(x, axis=1).max() <= population.max_norm * (1 + 1e-12)
    assert population.sample(0, seed=1).shape == (0, population.n_features)


def test_seeds(population: Covariates):
    first = population.sample(50, seed=7)
    np.testing.assert_array_equal(first, population.sample(50, 7))
    np.testing.assert_array_equal(first, population.sample(50, seed=np.random.SeedSequence(7)))
    np.testing.assert_array_equal(first, population.sample(50, seed=np.random.default_rng(7)))
    assert not np.array_equal(first, population.sample(50, seed=8))
    generator = np.random.default_rng(7)
    assert not np.array_equal(population.sample(50, generator), population.sample(50, generator))


def test_global_random_state_is_left_alone(population: Covariates):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    population.sample(10, seed=1)
    population.sample(10)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_populations_are_frozen_values(population: Covariates):
    assert isinstance(population, Covariates)
    assert len(population.features) == population.n_features
    assert population == population
    assert population != copy.deepcopy(population)  # by identity: arrays have no single truth value
    assert len({population, population}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        population.n_features = 3  # pyright: ignore[reportAttributeAccessIssue]
    for array in (population.second_moment, population.mean):
        assert not array.flags.writeable
    assert "\n" not in population.describe()
    assert population.describe() in repr(population)


def test_populations_survive_pickling_and_replacing(population: Covariates):
    for twin in (pickle.loads(pickle.dumps(population)), dataclasses.replace(population)):  # pyright: ignore[reportArgumentType, reportCallIssue]
        np.testing.assert_array_equal(twin.sample(5, seed=1), population.sample(5, seed=1))
        assert twin.features == population.features


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "message"),
    [
        ("sample", (-1,), {}, r"n must be an integer of at least 0, got -1"),
        ("sample", (2.5,), {}, r"n must be an integer of at least 0, got 2\.5"),
        ("sample", (2,), {"seed": "one"}, r"seed must be a non-negative integer, .* got 'one'"),
        ("sample", (2,), {"seed": -1}, r"seed must be a non-negative integer, .* got -1"),
        ("contains", ([1.0, 2.0, 3.0],), {}, r"x must have 2 features in its last dimension, got shape \(3,\)"),
        ("contains", (1.0,), {}, r"x must have 2 features"),
        ("contains", ([np.nan, 1.0],), {}, r"x must be finite"),
        ("contains", (["a", "b"],), {}, r"x must be numeric"),
        ("weak_directions", (-0.1,), {}, r"tolerance must be a share .* got -0\.1"),
        ("weak_directions", ("no",), {}, r"tolerance must be a share .* got 'no'"),
    ],
)
def test_bad_calls(method: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        getattr(Ball(2), method)(*args, **kwargs)
