"""Explore, then commit: arms in turn, then frozen estimates."""

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import USERS, conjugate, drive, market


def test_arms_come_in_turn_and_then_the_best_for_good():
    policy = rcb.baselines.ExploreThenCommit(market(), n_per_arm=7)
    np.testing.assert_array_equal(policy.recommend_proba(USERS)[0], [1, 0, 0])
    arms = drive(policy, 21)
    np.testing.assert_array_equal(arms, np.tile([0, 1, 2], 7))
    assert policy.cold_start_length == 21
    mean, _ = conjugate(policy)
    committed = policy.recommend_proba(USERS)
    np.testing.assert_array_equal(committed.argmax(axis=1), (USERS @ mean.T).argmax(axis=1))
    drive(policy, 300, seed=2)
    np.testing.assert_array_equal(policy.recommend_proba(USERS), committed)
    assert policy.history.n_samples == 21


def test_a_run_is_two_blocks_and_its_length_is_told():
    found = simulate(
        market(), lambda m, seed: rcb.baselines.ExploreThenCommit(m, n_per_arm=10), horizon=200, n_worlds=2
    )
    assert (found["cold_start_length"] == 30).all()
    assert rcb.baselines.ExploreThenCommit(market(), n_per_arm=100).cold_start_length == -1
