"""Dependent arms that may change places are planned as one: rates are those of plans that tell them apart."""

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism import simulator
from rcb_bayes.schema import FloatArray

pytestmark = pytest.mark.slow
SEEDS = range(4)


def rates(market: rcb.Market, *, seed: int, saturated: list[str]) -> FloatArray:
    plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=10, seed=seed)
    users = np.random.default_rng(9).standard_normal((200, market.n_features))
    users /= np.linalg.norm(users, axis=1, keepdims=True)
    return plan.rate(users, saturated=saturated)


def test_rates_are_those_of_arms_that_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    prior = rcb.load_prior("hierarchical", n_arms=3, n_features=2, mean=[0.4, 0.0, 0.0], scale=0.3)
    assert prior.alike == ((0,), (1, 2))
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    names = list(market.arms)
    together = np.array([rates(market, seed=seed, saturated=names[:2]).mean() for seed in SEEDS])
    monkeypatch.setattr(simulator, "alike_arms", lambda *_: ((0,), (1,), (2,)))
    for others in (names[:2], [names[0], names[2]]):
        apart = np.array([rates(market, seed=seed, saturated=others).mean() for seed in SEEDS])
        error = np.sqrt((together.var(ddof=1) + apart.var(ddof=1)) / len(SEEDS))
        assert 0.05 < apart.mean() < 0.95
        assert abs(together.mean() - apart.mean()) < 6.0 * error + 0.002  # errors of four seeds are known to a third
        assert abs(together.mean() + 0.1 - apart.mean()) > 6.0 * error + 0.002
