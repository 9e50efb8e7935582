"""The error over plans and orders, on simulated tables whose components are known."""

import numpy as np
import pytest

from rcb_bayes.studies.warfarin.variation import one_way_error, two_way_error

N_TABLES = 4000


def tables(sd_plan: float, sd_order: float, sd_rest: float, *, n_plans: int = 8, n_orders: int = 10) -> np.ndarray:
    """Tables (P, S, tables) of mean 0."""
    rng = np.random.default_rng(1)
    plans = rng.normal(0.0, sd_plan, (n_plans, 1, N_TABLES))
    orders = rng.normal(0.0, sd_order, (1, n_orders, N_TABLES))
    return plans + orders + rng.normal(0.0, sd_rest, (n_plans, n_orders, N_TABLES))


def off_by(squared_errors: np.ndarray, variance: float) -> float:
    """How many Monte Carlo errors an estimated variance is above the true one."""
    return float((squared_errors.mean() - variance) / one_way_error(squared_errors))


COMPONENTS = [(2.0, 1.0, 0.5), (0.5, 2.0, 1.0), (3.0, 3.0, 0.2)]


@pytest.mark.parametrize("sds", COMPONENTS)
def test_the_variance_of_the_mean_is_the_components_own(sds: tuple[float, float, float]) -> None:
    plan, order, rest = sds
    variance = plan**2 / 8 + order**2 / 10 + rest**2 / 80
    values = tables(*sds)
    assert abs(off_by(two_way_error(values) ** 2, variance)) < 4
    spread = values.mean(axis=(0, 1)).var()  # and the means do vary so much
    assert abs(spread / variance - 1) < 4 * np.sqrt(2 / N_TABLES)


@pytest.mark.parametrize("sds", COMPONENTS)
def test_an_error_that_leaves_out_the_plan_is_caught(sds: tuple[float, float, float]) -> None:
    """The planted twin: over orders alone, of one plan or of the average over plans."""
    plan, order, rest = sds
    variance = plan**2 / 8 + order**2 / 10 + rest**2 / 80
    values = tables(*sds)
    assert off_by(one_way_error(values.mean(axis=0)) ** 2, variance) < -4
    one_plan = plan**2 + order**2 / 10 + rest**2 / 10
    assert off_by(two_way_error(values[:1]) ** 2, one_plan) < -4


def test_without_components_it_errs_upwards_only() -> None:
    found = off_by(two_way_error(tables(0.0, 0.0, 1.0)) ** 2, 1.0 / 80)
    assert found > 0
    assert (two_way_error(tables(0.0, 0.0, 1.0)) ** 2).mean() < 2.0 / 80


def test_by_hand() -> None:
    np.testing.assert_allclose(two_way_error(np.array([[0.0, 2.0], [4.0, 6.0]])), np.sqrt(4.0 + 1.0))  # no interaction
    np.testing.assert_allclose(two_way_error(np.array([[1.0, 2.0, 6.0]])), np.std([1, 2, 6], ddof=1) / np.sqrt(3))
    assert np.isnan(two_way_error(np.ones((4, 1))))
    assert np.isnan(one_way_error(np.ones(1)))
