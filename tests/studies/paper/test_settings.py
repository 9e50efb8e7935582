"""The grids are the paper's."""

from dataclasses import replace

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.studies.paper import EXPERIMENTS, Request, find_experiments
from rcb_bayes.studies.paper.settings import FAST, FULL, SETTINGS, effort_of


def test_grids():
    first, second, third, fourth = (SETTINGS[f"setting-{k}"].cells for k in (1, 2, 3, 4))
    assert {(cell.n_arms, cell.n_features) for cell in first} == {(k, d) for k in (2, 3, 5, 10) for d in (3, 5, 10)}
    assert {(cell.horizon, cell.epsilon, cell.variance) for cell in first} == {(100_000, 0.05, 0.2)}
    assert {cell.fixed for cell in second} == {(10, 100, 1000)}
    assert {(cell.epsilon, round(1 / cell.variance)) for cell in third} == {
        (epsilon, lam) for epsilon in (0.01, 0.03, 0.05) for lam in (3, 5, 10)
    }
    assert {cell.variance for cell in fourth} == {0.02, 0.04, 0.1}
    assert {cell.inflations for cell in fourth} == {("linear", "sqrt", "log")}
    assert {cell.horizon for cell in (*third, *fourth)} == {50_000}


def test_every_setting_is_there_for_users_without_negative_features():
    for name in ("setting-1", "setting-2", "setting-3", "setting-4"):
        own, other = SETTINGS[name].cells, SETTINGS[f"{name}-orthant"].cells
        assert [replace(cell, users="sphere") for cell in other] == list(own)
        assert (other[0].market().covariates.sample(50, seed=1) >= 0).all()


def test_every_cell_has_a_file_of_its_own_and_fast_runs_are_smaller():
    for setting in SETTINGS.values():
        assert len({cell.key for cell in setting.cells}) == len(setting.cells)
        assert len(setting.fast) < len(setting.cells)


def test_markets_have_the_cells_variance():
    for setting in SETTINGS.values():
        cell = setting.fast[-1]
        market = cell.market()
        size = cell.n_arms * cell.n_features
        covariance = market.prior.moments["covariance"].values.reshape(size, size)
        np.testing.assert_allclose(np.diag(covariance), cell.variance)
        assert (market.n_arms, market.n_features) == (cell.n_arms, cell.n_features)


def test_effort():
    assert effort_of(n_worlds=None, fast=False) is FULL
    assert effort_of(n_worlds=None, fast=True) is FAST
    assert effort_of(n_worlds=3, fast=True).n_worlds == 3
    assert FULL.n_worlds == 20


def test_unknown_experiments_list_the_known_ones():
    assert find_experiments("all") == tuple(EXPERIMENTS)
    with pytest.raises(RcbError, match="There is no setting 'setting-5'") as raised:
        find_experiments("setting-5")
    assert all(name in str(raised.value) for name in (*EXPERIMENTS, "all"))


@pytest.mark.parametrize(("given", "message"), [({"n_worlds": 1}, "n_worlds"), ({"seed": -1}, "seed")])
def test_requests_are_checked(given: dict[str, int], message: str):
    with pytest.raises(RcbError, match=message):
        Request(**given)  # pyright: ignore[reportArgumentType]
