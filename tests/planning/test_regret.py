"""Theorem 2's bound in each of its forms, against the lemma's own sum."""

from functools import cache
from math import nan
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Plan, RegretBound
from rcb_bayes.errors import RcbError

K, D, SIGMA, PHI0 = 5, 5, 0.05, 0.2


@cache
def market() -> rcb.Market:
    prior = rcb.Prior.gaussian(np.zeros((K, D)), 0.2)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(D), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan() -> Plan:
    return rcb.calibrate(market(), n_per_arm=10, n_worlds=100)  # 50 rounds


def bound(**changes: Any) -> RegretBound:
    return rcb.regret_bound(market(), plan(), **{"horizon": 10**8, **changes})


def test_every_form_of_the_bound() -> None:
    found = bound()
    assert found.cold_start == 50
    assert found.learning == pytest.approx(151 * SIGMA * 5 * 1e4)
    assert found.learning_argued == pytest.approx(177.54 * SIGMA * 5 * 1e4 / PHI0**0.5, rel=1e-4)
    assert found.learning_corrected == pytest.approx(found.learning_argued * K**0.5)
    assert found.deviation == pytest.approx((8 * (1e8 - 50) * np.log(40)) ** 0.5)
    assert found.total == pytest.approx(50 + found.learning + found.deviation)
    assert found.total < found.total_argued < found.total_corrected
    assert np.isnan([found.learning_of_run, found.total_of_run]).all()


@pytest.mark.parametrize("horizon", [2**12, 2**17, 2**20, 3 * 2**17, 10**5, 2**17 + 1])
@pytest.mark.parametrize("regressions", [1, K])
def test_the_argument_s_sum_is_below_its_form_and_above_the_stated_one(horizon: int, regressions: int) -> None:
    """The lemma's 206 K/gamma, epoch by epoch of the paper's clock, with Corollary 1's error of the epoch before."""
    spreads, begun, m = [], 8, 4  # (2^(m-1), 2^m]
    while begun < horizon:
        error = regressions * SIGMA**2 * D / (PHI0 * 2 ** (m - 2))
        spreads.append((4 * (K / error) ** 0.5, min(2**m, horizon) - begun))
        begun, m = 2**m, m + 1
    found = bound(horizon=horizon, spreads=spreads)
    form = found.learning_argued if regressions == 1 else found.learning_corrected
    assert 0.8 * form < found.learning_of_run < form
    # The planted error: the stated form is no bound on its own argument's sum.
    assert found.learning_of_run > found.learning


def test_a_run_s_own_spreads() -> None:
    found = bound(horizon=10_000, spreads=[(1e6, 100), (4e6, 9_000), (np.inf, 500)])
    assert found.learning_of_run == pytest.approx(206 * K * (100 / 1e6 + 9_000 / 4e6))
    deviation = (8 * 9_600 * np.log(40)) ** 0.5
    assert found.total_of_run == pytest.approx(400 + found.learning_of_run + deviation)  # 400 rounds of cold start


def test_users_who_leave_a_direction_out_have_no_bound_by_the_argument() -> None:
    users = rcb.Empirical([[1.0] * D, [2.0] * D])
    flat = rcb.Market(prior=market().prior, covariates=users, noise=rcb.GaussianNoise(SIGMA))
    found = rcb.regret_bound(flat, plan(), horizon=10**8)
    assert found.total_argued == found.total_corrected == 1e8
    assert found.total < 1e8


def test_the_horizon_bounds_regret_by_itself() -> None:
    assert bound(horizon=1000).total == 1000.0
    assert bound(horizon=20).cold_start == 20.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": nan}, "delta"),
        ({"spreads": [(0.0, 10)]}, "positive gamma"),
        ({"spreads": [(nan, 10)]}, "positive gamma"),
        ({"spreads": [(1.0, -1)]}, "rounds of an epoch"),
        ({"horizon": 100, "spreads": [(1.0, 101)]}, "last 101 rounds and the horizon is 100"),
    ],
)
def test_bad_input_of_the_bound_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RcbError, match=message):
        bound(**change)
