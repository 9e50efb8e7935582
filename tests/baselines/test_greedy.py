"""Greedy beside the textbook's posterior mean."""

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.running.oracle import RidgeOracle
from tests.baselines.runs import MEAN, USERS, conjugate, drive, market


def test_it_takes_the_best_posterior_mean():
    policy = rcb.baselines.Greedy(market())
    drive(policy, 60)
    mean, _ = conjugate(policy)
    np.testing.assert_array_equal(policy.recommend_proba(USERS).argmax(axis=1), (USERS @ mean.T).argmax(axis=1))


def test_before_any_data_it_goes_by_the_prior():
    found = rcb.baselines.Greedy(market()).recommend_proba(USERS)
    np.testing.assert_array_equal(found.argmax(axis=1), (USERS @ MEAN.T).argmax(axis=1))


def test_another_oracle_serves():
    policy = rcb.baselines.Greedy(market(), oracle=RidgeOracle(penalty=0.1))
    drive(policy, 60)
    sums = policy.history.sums()
    means = np.linalg.solve(sums.xtx[0] + 0.1 * np.eye(2), sums.xty[0, ..., None])[..., 0]
    np.testing.assert_array_equal(policy.recommend_proba(USERS).argmax(axis=1), (USERS @ means.T).argmax(axis=1))
