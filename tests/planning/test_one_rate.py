"""One rate for all holds for users outside the panel: it is the least over the support, as a search finds it."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb

OPTIONS: dict[str, Any] = {"epsilon": 0.05, "n_per_arm": 8, "n_worlds": 300, "audit_worlds": 300, "seed": 1}
RARE = np.concatenate([np.random.default_rng(2).uniform(0.0, 0.5, size=(500, 3)), [[1.0, 1.0, 1.0]]])
ROUNDED = 1.001  # a plan keeps its worlds in steps of 16 bits, and answers for single users from those
POPULATIONS: dict[str, rcb.Covariates] = {
    "sphere": rcb.Sphere(3),
    "cube": rcb.Uniform([-1.0] * 3, [1.0] * 3),
    "non-negative": rcb.Uniform([0.0] * 3, [1.0] * 3),
    "a rare row": rcb.Empirical(RARE),
}


@cache
def market(name: str) -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.1, 0.1, 0.1], [0.0, 0.0, 0.0]], 0.25)
    return rcb.Market(prior=prior, covariates=POPULATIONS[name], noise=rcb.GaussianNoise(0.3))


@cache
def plan(name: str, *, personalised: bool) -> rcb.Plan:
    return rcb.calibrate(market(name), personalised=personalised, guard=False, **OPTIONS)


@pytest.mark.parametrize("name", POPULATIONS)
def test_one_rate_is_no_more_than_any_user_s_own(name: str):
    """With two arms there is one stage, and both plans have the same worlds there."""
    own = plan(name, personalised=True)
    users = RARE if name == "a rare row" else market(name).covariates.sample(20_000, seed=77)
    rates = own.rate(users, saturated=["arm_0"])
    given = plan(name, personalised=False).exploration_rate
    assert 0.0 < given <= rates.min() * ROUNDED
    panel = np.sort(np.random.default_rng(5).choice(len(users), size=100, replace=False))
    assert rates[panel].min() > rates.min() * ROUNDED  # planted: the least over a panel alone is too much for others
