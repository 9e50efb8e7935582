"""The interval of phi0: coverage, scaling, and what it says at the boundary."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.users import Covariates, Empirical, Gaussian, Sphere

WORST_Z = 4.5
COV = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]])


def percentile_interval(population: Empirical, *, n_boot: int, rng: np.random.Generator) -> tuple[float, float]:
    resamples = [Empirical(population.sample(population.n_rows, rng)).phi0 for _ in range(n_boot)]
    lower, upper = np.quantile(resamples, [0.025, 0.975])
    return float(lower), float(upper)


def coverage(population: Covariates, interval: Callable[[Empirical], tuple[float, float]], *, n_draws: int) -> float:
    """Share of samples of 200 users whose interval contains the population's phi0, up to rounding."""
    hits = 0
    for seed in np.random.SeedSequence(20).spawn(n_draws):
        lower, upper = interval(Empirical(population.sample(200, seed)))
        hits += lower * (1 - 1e-9) <= population.phi0 <= upper * (1 + 1e-9)
    return hits / n_draws


LEAST_COVERAGE = 0.95 - WORST_Z * np.sqrt(0.95 * 0.05 / 100)  # of 100 samples


@pytest.mark.parametrize(
    ("population", "widest"),
    [(Gaussian([0.2, 0.6, 1.0]), 0.6), (Gaussian([0.2, 0.2, 0.2]), 0.8), (Sphere(3), 0.8)],
    ids=["distinct eigenvalues", "equal eigenvalues", "sphere"],
)
def test_phi0_interval_covers(population: Covariates, widest: float):
    assert coverage(population, lambda rows: rows.phi0_interval(n_boot=100), n_draws=100) > LEAST_COVERAGE
    lower, upper = Empirical(population.sample(200, seed=1)).phi0_interval()
    assert (upper - lower) / population.phi0 < widest  # it covers without saying nothing


def test_a_percentile_interval_would_not_cover():
    rng = np.random.default_rng(1)
    plain = coverage(Sphere(3), lambda rows: percentile_interval(rows, n_boot=100, rng=rng), n_draws=20)
    assert plain < LEAST_COVERAGE


def test_phi0_interval_is_reproducible_and_scales():
    rows = Gaussian(COV).sample(80, seed=2)
    lower, upper = Empirical(rows).phi0_interval(seed=3, n_boot=200)
    assert (lower, upper) == Empirical(rows).phi0_interval(seed=3, n_boot=200)
    assert (lower, upper) != Empirical(rows).phi0_interval(seed=4, n_boot=200)
    assert Empirical(10 * rows).phi0_interval(seed=3, n_boot=200) == pytest.approx((100 * lower, 100 * upper))
    wider = Empirical(rows).phi0_interval(0.99, seed=3, n_boot=200)
    assert wider[0] <= lower < Empirical(rows).phi0 < upper <= wider[1]


def test_phi0_interval_of_rows_of_which_a_resample_sees_nothing():
    """Half of the resamples of two rows have one of them only, and nothing varies where that is 0."""
    assert Empirical([[1.0], [0.0]]).phi0_interval(n_boot=100) == (0.0, 1.0)


def test_phi0_interval_ignores_rows_without_weight():
    rows = Gaussian(COV).sample(80, seed=2)
    padded = Empirical(np.vstack([rows, 100 * rows]), weights=np.repeat([1.0, 0.0], 80))
    assert padded.phi0_interval(n_boot=200) == pytest.approx(Empirical(rows).phi0_interval(n_boot=200))


def test_phi0_interval_at_the_boundary(dummies_with_intercept: Callable[[int], pd.DataFrame]):
    population = Empirical(dummies_with_intercept(60))
    lower, upper = population.phi0_interval()
    assert lower == 0.0
    assert upper == pytest.approx((1 - 0.025 ** (1 / 57)) * population.max_norm**2)  # 60 rows, rank 3
    assert Empirical(dummies_with_intercept(6000)).phi0_interval(n_boot=100)[1] < upper / 50


def test_phi0_interval_of_fewer_rows_than_features_knows_only_the_trace():
    lower, upper = Empirical(Sphere(5).sample(3, seed=1)).phi0_interval()
    assert (lower, upper) == (0.0, pytest.approx(1 / 5))


def test_phi0_interval_when_a_direction_hangs_on_two_rows():
    rows = np.column_stack([np.ones(100), np.arange(100) < 2])
    population = Empirical(rows)
    lower, upper = population.phi0_interval()
    assert lower == 0.0 < population.phi0 < upper < np.inf


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"level": 95}, r"level must lie strictly between 0 and 1, got 95"),
        ({"level": float("nan")}, r"level must lie strictly between 0 and 1, got nan"),
        ({"n_boot": 10}, r"n_boot must be an integer of at least 100, got 10"),
        ({"seed": -1}, r"seed must be a non-negative integer"),
    ],
)
def test_bad_calls(kwargs: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        Empirical([[1.0, 2.0], [3.0, -1.0]]).phi0_interval(**kwargs)
