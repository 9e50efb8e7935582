"""One rate for all holds for users outside the panel: it is the least over the support, as a search finds it."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.planning.goal import as_request
from rcb_bayes.planning.planned_walk import plan_walk
from rcb_bayes.schema import FloatArray

OPTIONS: dict[str, Any] = {"epsilon": 0.05, "n_per_arm": 8, "n_worlds": 300, "audit_worlds": 300, "seed": 1}
RARE = np.concatenate([np.random.default_rng(2).uniform(0.0, 0.5, size=(500, 3)), [[1.0, 1.0, 1.0]]])
ROUNDED = 1.001  # a plan keeps its worlds in steps of 16 bits, and answers for single users from those
STEPS = (0.3, 0.1, 0.03, 0.01, 0.003)
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


def own_rates(name: str, users: FloatArray) -> FloatArray:
    """The least of each user's own rates over the stages: either arm may be saturated first."""
    own = plan(name, personalised=True)
    return np.min([own.rate(users, saturated=stage.saturated) for stage in own.stages], axis=0)


def everybody(name: str) -> FloatArray:
    return RARE if name == "a rare row" else market(name).covariates.sample(20_000, seed=77)


@pytest.mark.parametrize("name", POPULATIONS)
def test_one_rate_is_no_more_than_any_user_s_own(name: str):
    """Both plans have the same worlds at the first stages, of which two arms have no others."""
    users = everybody(name)
    rates = own_rates(name, users)
    given = plan(name, personalised=False).exploration_rate
    assert 0.0 < given <= rates.min() * ROUNDED
    panel = np.sort(np.random.default_rng(5).choice(len(users), size=100, replace=False))
    assert rates[panel].min() > rates.min() * ROUNDED  # planted: the least over a panel alone is too much for others


@pytest.mark.parametrize("name", ["sphere", "cube", "non-negative"])
def test_a_plain_search_finds_nobody_below_it(name: str):
    """From the lowest of 20,000 users on, each step the lowest of many around her."""
    users = everybody(name)
    rates = own_rates(name, users)
    least, worst = rates.min(), users[rates.argmin()]
    rng = np.random.default_rng(6)
    for size in STEPS:
        around = POPULATIONS[name].project(worst + size * rng.normal(size=(300, 3)))  # type: ignore[attr-defined]
        found = own_rates(name, around)
        if found.min() < least:
            least, worst = found.min(), around[found.argmin()]
    assert plan(name, personalised=False).exploration_rate <= least * ROUNDED


@pytest.mark.parametrize("name", POPULATIONS)
def test_it_is_the_own_rate_of_the_user_who_was_found(name: str):
    """No caution is added to that of each user's own rate."""
    request = as_request(market(name), **OPTIONS, notion="user", personalised=False, knows="stage", engine="auto")
    stages = plan_walk(market(name), request).stages.values()
    found = np.concatenate([stage.worst for stage in stages if stage.worst is not None])
    least, given = own_rates(name, found).min(), plan(name, personalised=False).exploration_rate
    assert 0.995 < given / least < ROUNDED
    assert 0.99 * given / least < 0.995  # planted: a hundredth of caution
