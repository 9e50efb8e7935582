"""Replays: every patient once an order, the same orders for all policies, rewards as the doses say."""

import numpy as np
import pytest
import xarray as xr

from rcb_bayes.baselines import Greedy
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.studies.warfarin.beliefs import always_medium
from rcb_bayes.studies.warfarin.cohort import MEDIUM, Cohort
from rcb_bayes.studies.warfarin.metrics import replay_metrics
from rcb_bayes.studies.warfarin.replay import replay


@pytest.fixture(scope="module")
def runs(few: Cohort, few_market: Market) -> xr.Dataset:
    """A plan with five samples of every arm, replayed in three orders."""
    return replay(few, lambda m, s: rcb_of(m), market=few_market, n_permutations=3, seed=9)


def rcb_of(market: Market) -> Rcb:
    oracle = PosteriorOracle(market.prior, market.noise, read="engine")
    return Rcb(market, fixed_plan(market, n_per_arm=5), oracle=oracle)


def test_the_physician_on_the_real_file(real: Cohort) -> None:
    found = replay_metrics(replay(real, always_medium(real), n_permutations=2))
    assert float(found["error"]) == pytest.approx(0.397, abs=5e-4)
    assert float(found["score"]) == pytest.approx(0.205, abs=5e-4)
    np.testing.assert_array_equal(found["recall"], [0, 1, 0])


def test_every_patient_comes_once_in_orders_that_policies_share(few: Cohort, few_market: Market) -> None:
    given = replay(few, always_medium(few), n_permutations=3, seed=5)
    learnt = replay(few, lambda m, s: Greedy(m, batch=100, seed=s), market=few_market, n_permutations=3, seed=5)
    np.testing.assert_array_equal(given["patient"], learnt["patient"])
    np.testing.assert_array_equal(np.sort(given["patient"], axis=1), np.tile(np.arange(len(few)), (3, 1)))
    assert (given["patient"][0] != given["patient"][1]).any()


def test_regret_is_one_for_a_wrong_bucket(few: Cohort, runs: xr.Dataset) -> None:
    np.testing.assert_array_equal(runs["right"], few.arm[runs["patient"]])
    np.testing.assert_array_equal(runs["regret"], runs["right"] != runs["recommended"])


def test_the_cold_start_begins_with_medium_and_ends(few: Cohort, runs: xr.Dataset) -> None:
    np.testing.assert_array_equal(runs["stage"][:, :5], MOST_POPULAR)
    np.testing.assert_array_equal(runs["recommended"][:, :5], MEDIUM)
    for k, length in enumerate(runs["cold_start_length"].values):
        assert 0 < length < len(few)
        stage = runs["stage"].values[k]
        assert (stage[length:] == EXPLOIT).all()
        assert (stage[:length] != EXPLOIT).all()


def test_a_cold_start_that_does_not_end_is_said_to(few: Cohort, few_market: Market) -> None:
    plan = fixed_plan(few_market, n_per_arm=10_000)
    runs = replay(few, lambda m, s: Rcb(m, plan), market=few_market, n_permutations=1)
    assert runs["cold_start_length"].values[0] == -1


def test_the_same_seed_is_the_same_replay(few: Cohort, few_market: Market, runs: xr.Dataset) -> None:
    again = replay(few, lambda m, s: rcb_of(m), market=few_market, n_permutations=3, seed=9)
    assert again.identical(runs)


def test_bad_input(few: Cohort) -> None:
    with pytest.raises(RcbError, match="needs a market"):
        replay(few, lambda m, s: Greedy(m))
    with pytest.raises(DataError, match="the arm of each of"):
        replay(few, np.zeros(3, dtype=int))
    with pytest.raises(DataError, match="positions 0 to 2"):
        replay(few, np.full(len(few), 3))
    with pytest.raises(RcbError, match="n_permutations"):
        replay(few, always_medium(few), n_permutations=0)
