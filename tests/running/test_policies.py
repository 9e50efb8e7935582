"""Policies: probabilities that agree with decisions, plans that do not fit."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.planning.checks import check_plan
from rcb_bayes.running.policies import Policy, Rcb
from tests.planning.revising import revised

K, D, N, SIGMA = 3, 2, 6, 0.3
MEAN = np.array([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]])
VARIANCES = np.array([0.3, 0.2, 0.2])


@cache
def market() -> Market:
    prior = Prior.gaussian(MEAN, VARIANCES, arms=["usual", "new", "odd"])
    return Market(prior=prior, covariates=rcb.Sphere(D), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan(guard: bool = False) -> Plan:
    return rcb.calibrate(market(), n_per_arm=N, n_worlds=100, audit_worlds=100, guard=guard, seed=3)


def drive(policy: Policy, n: int, *, seed: int = 1) -> None:
    """n rounds, as they come."""
    rng = np.random.default_rng(seed)
    x = market().covariates.sample(n, seed=seed)
    uniforms, noise, start = rng.random((n, 2)), rng.normal(size=n), 0
    while start < n:
        decisions = policy.decide(x[start:], np.ascontiguousarray(x[start:].T), uniforms[start:])
        some = slice(start, start + len(decisions))
        reward = (x[some] * (MEAN + 0.2)[decisions.arm]).sum(axis=1) + SIGMA * noise[some]
        policy.update(x[some], decisions, reward)
        start += len(decisions)


USERS = rcb.Sphere(D).sample(200, seed=9)


# --- the paper's algorithm -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [0, 15, 400])
@pytest.mark.parametrize("guard", [False, True])
def test_probabilities_agree_with_decisions(rounds: int, guard: bool):
    policy = Rcb(market(), plan(guard))
    drive(policy, rounds)
    found = policy.recommend_proba(USERS)
    assert found.shape == (200, K)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    assert (found >= 0).all()
    decisions = policy.recommend_now(USERS, np.ascontiguousarray(USERS.T), np.full((200, 2), 0.5))
    n = len(decisions)
    np.testing.assert_array_equal(decisions.probabilities.T, found[:n])
    assert (policy.exploitation is not None) == (rounds == 400)


def test_asking_changes_nothing():
    asked, left = Rcb(market(), plan()), Rcb(market(), plan())
    for policy in (asked, left):
        drive(policy, 30)
        if policy is asked:
            policy.recommend_proba(USERS)
        drive(policy, 300, seed=2)
    np.testing.assert_array_equal(asked.recommend_proba(USERS), left.recommend_proba(USERS))
    np.testing.assert_array_equal(asked.counts, left.counts)


def test_counts_are_the_samples_that_count():
    policy = Rcb(market(), plan())
    drive(policy, 400)
    assert policy.exploitation is not None
    kept = policy.exploitation.fed.n + policy.exploitation.now.n
    np.testing.assert_array_equal(policy.counts, kept)
    assert policy.rounds == 400
    assert policy.counts.sum() < 400  # organic rounds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": ("usual", "new", "other")}, "The plan is for arms usual, new, other and 2 features"),
        ({"features": ("a", "b")}, "Calibrate a plan for this market"),
        ({"prior_mean": MEAN + 0.01}, "other prior means"),
    ],
)
def test_plans_for_another_market_are_refused(change: dict[str, Any], message: str):
    check_plan(market(), plan())
    with pytest.raises(RcbError) as caught:
        Rcb(market(), revised(plan(), **change))
    assert message in str(caught.value)
