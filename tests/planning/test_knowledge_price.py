"""The price of what users know of the clock."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.planning import knowledge_price, pooled_rates

KNOWS = ["stage", "level", "phase", "mechanism"]


@pytest.fixture(scope="module", autouse=True)
def _small_panels(small_panels: None) -> None:
    """Nothing here depends on how many users stand for a population."""


def market(n_arms: int = 2, **more: Any) -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.3 - 0.1 * k, 0.1 * k] for k in range(n_arms)], 0.2)
    parts: dict[str, Any] = {"covariates": rcb.Sphere(2), "noise": rcb.GaussianNoise(0.3)}
    return rcb.Market(prior=prior, **parts | more)


@cache
def prices() -> xr.Dataset:
    return rcb.price_of_knowledge(market(), n_per_arm=10, n_worlds=1000, audit_worlds=2000, horizon=500, seed=1)


def test_who_knows_less_is_easier_to_satisfy() -> None:
    """Up to errors between neighbours; from one end to the other beyond any.

    Among users of whom a panel is a sample a plan by stage is handed out only where it is shorter by three hundredths.
    """
    found = prices()
    assert found["knows"].values.tolist() == KNOWS
    length, error = found["expected_cold_start"].values, found["expected_cold_start_mcse"].values
    assert (np.diff(length)[1:] < 4 * np.hypot(error[2:], error[1:-1])).all()
    assert (pooled_rates._CLEARLY * length[1:] < length[0] + 4 * np.hypot(error[1:], error[0])).all()
    assert length[-1] < length[0] - 4 * np.hypot(error[0], error[-1])
    assert found["feasible"].all()
    assert length[-1] >= 2 * 10  # no cold start is shorter than its samples


def test_in_a_table_nobody_who_knows_less_is_given_a_longer_plan() -> None:
    angle = np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False)
    table = rcb.Empirical(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    asked: dict[str, Any] = {"n_per_arm": 10, "n_worlds": 300, "audit_worlds": 600, "horizon": 300, "seed": 1}
    length = rcb.price_of_knowledge(market(covariates=table), **asked)["expected_cold_start"].values
    assert (np.diff(length) <= 1e-9).all()
    assert length[-1] < length[0] - 0.1


@pytest.mark.parametrize("knows", ["stage", "mechanism"])
def test_each_figure_is_that_of_the_plan(knows: str) -> None:
    sizes: dict[str, Any] = {"n_per_arm": 10, "n_worlds": 1000, "audit_worlds": 2000, "horizon": 500, "seed": 1}
    plan = rcb.calibrate(market(), knows=knows, **sizes)
    row = prices().sel(knows=knows)
    for name in ("expected_cold_start", "expected_regret", "exploration_rate"):
        assert row[name].item() == getattr(plan, name)
        assert row[f"{name}_mcse"].item() == getattr(plan, f"{name}_mcse")
    assert row["share_explored"].item() == plan.share_explored
    assert row["words"].item() in plan.summary().splitlines()[0]


def test_it_says_what_it_was_asked_and_can_be_saved(tmp_path: Path) -> None:
    found = prices()
    asked = {"epsilon": 0.05, "notion": "user", "n_per_arm": 10, "n_worlds": 1000, "audit_worlds": 2000, "horizon": 500}
    assert found.attrs.items() >= asked.items()
    found.to_netcdf(tmp_path / "prices.nc")
    with xr.open_dataset(tmp_path / "prices.nc") as loaded:
        xr.testing.assert_equal(loaded, found)


def test_some_of_them_come_from_the_most_to_the_least() -> None:
    assert knowledge_price._as_known(market(), ["phase", "level"]) == ["level", "phase"]


def test_the_stage_is_left_out_where_there_are_too_many_sets() -> None:
    assert knowledge_price._as_known(market(9), None) == KNOWS[1:]
    with pytest.raises(RcbError, match="Leave out 'stage', and begin with 'level'"):
        knowledge_price._as_known(market(9), ["stage"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knows": ["levle"]}, "Did you mean 'level'"),
        ({"knows": ["auto"]}, "'auto' is for plans"),
        ({"knows": []}, "knows must be some of stage, level, phase, mechanism"),
        ({"knows": ["level", "level"]}, "each once"),
        ({"notion": "definition"}, "averages over users"),
        ({"notion": "usr"}, "Did you mean 'user'"),
        ({"epsilon": -0.1}, "epsilon must be a finite number"),
        ({"n_per_arm": 0}, "n_per_arm"),
        ({"n_worlds": 10}, "n_worlds"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RcbError, match=message):
        rcb.price_of_knowledge(market(), **{"n_worlds": 100, **change})


def test_rewards_that_are_not_gaussian_are_refused() -> None:
    with pytest.raises(RcbError, match="for Gaussian rewards"):
        rcb.price_of_knowledge(market(covariates=rcb.Empirical([[1.0, 0.0], [0.0, 1.0]]), noise=rcb.BernoulliLogit()))
