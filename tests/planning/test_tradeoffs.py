"""The price of incentives over epsilon and N."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError


def market(covariates: Any = None) -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.4, 0.1], [0.1, 0.0]], 0.3)
    return rcb.Market(prior=prior, covariates=covariates or rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


@cache
def curve() -> xr.Dataset:
    return rcb.tradeoff(market(), epsilons=[0.2, 0.0, 0.05, 9.0], n_grid=[5, 20], n_worlds=200, seed=1)


def test_a_larger_epsilon_allows_more_exploration_and_a_shorter_cold_start():
    found = curve()
    assert found["epsilon"].values.tolist() == [0.0, 0.05, 0.2, 9.0]
    assert (np.diff(found["exploration_rate"], axis=0) >= 0).all()
    assert (np.diff(found["expected_cold_start"], axis=0) <= 0).all()
    assert set(found["price"].dims) == {"epsilon", "n"}


def test_without_a_constraint_there_is_no_price():
    last = curve().sel(epsilon=9.0)
    assert (last["exploration_rate"] == 1).all()
    assert (np.abs(last["price"]) <= 4 * last["price_mcse"]).all()
    assert (last["expected_cold_start"] == 2 * curve()["n"]).all()


def test_the_best_n_has_the_least_regret():
    found = curve()
    regret = found["expected_regret"].where(found["feasible"], np.inf)
    np.testing.assert_array_equal(found["best_n"], found["n"].values[regret.argmin("n").values])


def test_the_theorem_stands_beside_it():
    found = curve()
    assert (np.diff(found["theorem_n"]) < 0).all()
    assert (found["theorem_cold_start"] > found["expected_cold_start"].max("n")).any()


def test_the_theorem_is_left_out_where_it_does_not_apply():
    flat = rcb.Empirical([[1.0, 1.0], [2.0, 2.0]])
    found = rcb.tradeoff(market(flat), epsilons=[0.1], n_grid=[5], n_worlds=100)
    assert "theorem_n" not in found


def test_every_figure_has_its_error_and_the_dataset_can_be_saved(tmp_path: Any):
    found = curve()
    for name in ("exploration_rate", "inverse_rate", "expected_cold_start", "expected_regret", "price"):
        assert f"{name}_mcse" in found
    found.to_netcdf(tmp_path / "curve.nc")
    with xr.open_dataset(tmp_path / "curve.nc") as loaded:
        xr.testing.assert_allclose(loaded, found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilons": []}, "epsilons"),
        ({"epsilons": [0.1, -1.0]}, "epsilons"),
        ({"epsilons": [float("nan")]}, "epsilons"),
        ({"n_grid": []}, "n_grid is empty"),
        ({"n_grid": [0]}, "n_grid must be an integer of at least 1"),
        ({"notion": "proofs"}, "Did you mean 'proof'"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        rcb.tradeoff(market(), **{"n_worlds": 100, **change})
