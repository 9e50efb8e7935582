"""FALCON: the exploitation stage from the first round on, with its spreads."""

from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Exploiting
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.running.oracle import RidgeOracle
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import MEAN, SIGMA, USERS, VARIANCES, drive, market

K, D = 3, 2


def test_epochs_double_and_estimates_are_those_of_their_beginning():
    policy = rcb.baselines.Falcon(market(), n_per_arm=2)
    for ends in (6, 18, 42):
        assert policy.exploitation.ends == ends
        fed = policy.exploitation.fed.sums()
        drive(policy, ends - policy.rounds - 1, seed=ends)
        cov = np.linalg.inv(np.eye(D) / VARIANCES[:, None, None] + fed.xtx[0] / SIGMA**2)
        mean = (cov @ (MEAN / VARIANCES[:, None] + fed.xty[0] / SIGMA**2)[..., None])[..., 0]
        expected = ipgs_probabilities(mean @ USERS.T, policy.gamma).T
        np.testing.assert_allclose(policy.recommend_proba(USERS), expected, atol=1e-9)
        drive(policy, 1, seed=ends + 1)
    assert policy.history.n_samples == 42


def test_the_first_spread_is_that_of_the_prior():
    policy = rcb.baselines.Falcon(market())
    panel = market().covariates.sample(512, seed=0)
    error = np.mean([(panel**2).sum(axis=1) * v for v in VARIANCES])
    assert policy.gamma == pytest.approx(4 * np.sqrt(K / error))


@pytest.mark.parametrize(
    "words",
    [{"spread": "paper"}, {"spread_multiple": 0.5}, {"feed": "last"}, {"clock": "global"}, {"inflation": "log"}],
)
def test_options_are_those_of_the_exploitation_stage(words: dict[str, Any]):
    found, plain = (
        simulate(
            market(), lambda m, seed, o=o: rcb.baselines.Falcon(m, n_per_arm=2, options=o), horizon=400, n_worlds=1
        )
        for o in (Exploiting(**words), Exploiting())
    )
    assert (found["propensity"].values != plain["propensity"].values).any()
    assert np.isfinite(found["gamma"]).all()


def test_another_oracle_has_the_paper_s_spread():
    policy = rcb.baselines.Falcon(market(), n_per_arm=4, oracle=RidgeOracle())
    assert policy.gamma == pytest.approx(4 * np.sqrt(K * market().covariates.phi0 / (SIGMA**2 * D + 1)))


def test_a_plan_without_figures_is_a_plan():
    plan = fixed_plan(market(), n_per_arm=5, exploration_rate=0.25)
    assert plan.rate(USERS[0], saturated=["usual"]) == pytest.approx(0.25)
    assert 3 * 5 < plan.expected_cold_start < 5 + 2 * 5 * 4
    assert not plan.has_guard


def test_the_paper_s_spread_needs_users_everywhere():
    prior = rcb.Prior.gaussian(np.zeros((2, 2)), 1.0)
    flat = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0, 1.0]]), noise=rcb.GaussianNoise(0.3))
    with pytest.raises(RcbError, match="phi0 > 0"):
        rcb.baselines.Falcon(flat, options=Exploiting(spread="paper"))
