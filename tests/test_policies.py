"""Policies: probabilities that agree with decisions, plans that do not fit, baselines beside their formulas."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.policies import Greedy, LinThompson, LinUcb, Policy, Rcb, check_plan

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


def conjugate(policy: Greedy | LinUcb | LinThompson) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means (K, d) and covariances (K, d, d) of what the policy has seen, by the textbook."""
    sums = policy.history.sums()
    cov = np.linalg.inv(np.eye(D) / VARIANCES[:, None, None] + sums.xtx / SIGMA**2)
    mean = MEAN / VARIANCES[:, None] + sums.xty / SIGMA**2
    return (cov @ mean[..., None])[..., 0], cov


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
        Rcb(market(), replace(plan(), **change))
    assert message in str(caught.value)


# --- baselines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Greedy, LinUcb, LinThompson])
@pytest.mark.parametrize("rounds", [0, 60])
def test_baselines_have_probabilities(make: Any, rounds: int):
    policy = make(market(), batch=7)
    drive(policy, rounds)
    found = policy.recommend_proba(USERS)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert policy.history.n_samples == rounds


def test_greedy_takes_the_best_posterior_mean():
    policy = Greedy(market())
    drive(policy, 60)
    mean, _ = conjugate(policy)
    np.testing.assert_array_equal(policy.recommend_proba(USERS).argmax(axis=1), (USERS @ mean.T).argmax(axis=1))


@pytest.mark.parametrize("width", [0.0, 1.0, 3.0])
def test_linucb_takes_the_best_upper_bound(width: float):
    policy = LinUcb(market(), width=width)
    drive(policy, 60)
    mean, cov = conjugate(policy)
    bound = USERS @ mean.T + width * np.sqrt(np.einsum("nd,kde,ne->nk", USERS, cov, USERS))
    np.testing.assert_array_equal(policy.recommend_proba(USERS).argmax(axis=1), bound.argmax(axis=1))


def test_thompson_sampling_matches_the_chance_to_be_best():
    """Two arms: Pr(arm 0 best) is a normal probability."""
    from scipy.stats import norm

    prior = Prior.gaussian([[0.2], [0.0]], [0.3, 0.1])
    two = Market(prior=prior, covariates=rcb.Empirical([[1.0], [-0.5]]), noise=rcb.GaussianNoise(SIGMA))
    found = LinThompson(two, n_draws=4000, seed=1).recommend_proba(np.array([[1.0], [-0.5]]))
    for k, x in enumerate((1.0, -0.5)):
        chance = norm.cdf(0.2 * x / (abs(x) * np.sqrt(0.4)))
        error = np.sqrt(chance * (1 - chance) / 4000)
        assert abs(found[k, 0] - chance) < 4 * error
        assert abs(found[k, 0] - norm.cdf(0.2 * x / (abs(x) * np.sqrt(0.2)))) > 4 * error  # planted: half the variance


def test_batches_learn_when_they_are_full():
    policy = Greedy(market(), batch=10)
    before = policy.recommend_proba(USERS)
    drive(policy, 9)
    np.testing.assert_array_equal(policy.recommend_proba(USERS), before)
    drive(policy, 1, seed=2)
    assert (policy.recommend_proba(USERS) != before).any()
