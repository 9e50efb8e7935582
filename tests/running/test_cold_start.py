"""The cold start: who is promoted, what counts, and what the platform expects at each stage."""

from functools import cache

import numpy as np

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.mechanism.decisions import MOST_POPULAR, ORGANIC, PROMOTED, Decisions
from rcb_bayes.running.cold_start import ColdStart
from rcb_bayes.running.oracle import PosteriorOracle
from tests.planning.revising import revised

K, D, N, SIGMA = 3, 2, 6, 0.3
MEAN = np.array([[0.5, 0.1], [0.2, 0.0], [0.0, 0.1]])


@cache
def market(correlation: float = 0.0) -> Market:
    law = (1 - correlation) * np.eye(K) + correlation
    prior = Prior.gaussian(MEAN, np.kron(law, 0.3 * np.eye(D)))
    return Market(prior=prior, covariates=rcb.Sphere(D), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan(rate: float = 0.3) -> Plan:
    made = rcb.calibrate(market(), notion="proof", personalised=False, n_per_arm=N, n_worlds=100, guard=False, seed=3)
    return revised(made, exploration_rate=rate)


def cold_start(*, correlation: float = 0.0, rate: float = 0.3) -> ColdStart:
    where = market(correlation)
    return ColdStart(where, plan(rate), PosteriorOracle(where.prior, where.noise), keep_rows=True)


def users(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = market().covariates.sample(n, seed=seed)
    return x, np.ascontiguousarray(x.T), np.random.default_rng(seed).random((n, 2))


def feed(cold: ColdStart, arm: int, n: int, *, seed: int = 2) -> np.ndarray:
    """n samples of an arm; returns what its coefficients are expected to be."""
    x = market().covariates.sample(n, seed=seed)
    y = x @ np.array([0.9, -0.4]) + SIGMA * np.random.default_rng(seed).normal(size=n)
    cold.absorb(x, np.full(n, arm), y)
    precision = np.eye(D) / 0.3 + x.T @ x / SIGMA**2
    return np.linalg.solve(precision, MEAN[arm] / 0.3 + x.T @ y / SIGMA**2)


def step(cold: ColdStart, n: int, seed: int) -> Decisions:
    x, features, uniforms = users(n, seed)
    decisions = cold.decide(x, features, uniforms)
    kept = np.flatnonzero(decisions.counted)
    reward = 0.1 + (x[: len(decisions)] * (MEAN + 0.2)[decisions.arm]).sum(axis=1)
    cold.absorb(x[kept], decisions.arm[kept], reward[kept])
    return decisions


def test_the_most_popular_arm_comes_first():
    cold = cold_start()
    x, features, uniforms = users(200)
    decisions = cold.decide_now(x, features, uniforms)
    np.testing.assert_array_equal(decisions.arm, (x @ MEAN.T).argmax(axis=1))
    assert (decisions.stage == MOST_POPULAR).all()
    assert decisions.counted.all()
    assert (decisions.propensity == 1).all()


def test_a_stage_ends_with_the_round_in_which_an_arm_is_full():
    cold = cold_start()
    decisions = step(cold, 500, seed=3)
    counts = np.bincount(decisions.arm, minlength=K)
    assert counts.max() == N
    assert decisions.arm[-1] == counts.argmax()
    assert cold.saturated == (int(counts.argmax()),)


def test_organic_rounds_never_enter_the_history():
    cold, counted, organic = cold_start(), np.zeros(K), 0
    for seed in range(20):
        if cold.is_over:
            break
        decisions = step(cold, 40, seed)
        counted += np.bincount(decisions.arm[decisions.counted], minlength=K)
        organic += int((~decisions.counted).sum())
        np.testing.assert_array_equal(decisions.counted, decisions.stage != ORGANIC)
    assert cold.is_over
    assert organic > 10
    np.testing.assert_array_equal(cold.history.n, counted)
    assert len(cold.history.rows()[0]) == counted.sum()
    assert counted.min() == N


def test_partial_samples_wait_until_their_arm_is_full():
    cold = cold_start()
    feed(cold, 1, N - 1)
    x, features, uniforms = users(50)
    assert cold.saturated == ()
    known = feed(cold, 0, N)
    assert cold.saturated == (0,)
    scores = cold.decide_now(x, features, uniforms).scores
    np.testing.assert_allclose(scores[0], x @ known, atol=1e-10)
    np.testing.assert_array_equal(scores[1:], cold_start().decide_now(x, features, uniforms).scores[1:])
    feed(cold, 1, 1, seed=5)
    assert cold.saturated == (0, 1)
    assert np.abs(cold.decide_now(x, features, uniforms).scores[1] - x @ MEAN[1]).max() > 0.1


def test_the_promoted_arm_is_the_best_liked_one_without_its_samples():
    cold = cold_start(rate=1.0)
    feed(cold, 0, N)
    x, features, uniforms = users(300)
    decisions = cold.decide_now(x, features, uniforms)
    assert (decisions.stage == PROMOTED).all()
    np.testing.assert_array_equal(decisions.arm, 1 + (x @ MEAN[1:].T).argmax(axis=1))


def test_the_organic_arm_is_the_best_by_what_is_known():
    cold = cold_start(rate=0.0)
    known = feed(cold, 0, N)
    x, features, uniforms = users(300)
    decisions = cold.decide_now(x, features, uniforms)
    expected = np.column_stack([x @ known, x @ MEAN[1], x @ MEAN[2]])
    np.testing.assert_array_equal(decisions.arm, expected.argmax(axis=1))
    assert not decisions.counted.any()


def test_exploration_comes_at_its_rate():
    cold = cold_start(rate=0.3)
    feed(cold, 0, N)
    x, features, uniforms = users(4000)
    decisions = cold.decide_now(x, features, uniforms)
    error = np.sqrt(0.3 * 0.7 / 4000)
    assert abs(decisions.counted.mean() - 0.3) < 4 * error
    chances = decisions.probabilities
    np.testing.assert_allclose(chances.sum(axis=0), 1.0)
    share = np.bincount(decisions.arm, minlength=K) / 4000
    errors = np.sqrt((chances * (1 - chances)).mean(axis=1) / 4000)
    assert (np.abs(share - chances.mean(axis=1)) <= 4.5 * errors).all()
    np.testing.assert_array_equal(cold.probabilities(x, features), chances)


def test_ties_are_broken_evenly():
    prior = Prior.gaussian(np.zeros((K, D)), 0.3)
    tied = Market(prior=prior, covariates=rcb.Sphere(D), noise=rcb.GaussianNoise(SIGMA))
    made = rcb.calibrate(tied, n_per_arm=N, n_worlds=100, guard=False, seed=3)
    cold = ColdStart(tied, made, PosteriorOracle(prior, tied.noise))
    x, features, uniforms = users(3000)
    for saturated, open_arms in (((), 3), ((0,), 2)):
        if saturated:
            feed(cold, 0, N)
        decisions = cold.decide_now(x, features, uniforms)
        promoted = decisions.arm[decisions.counted]
        share = np.bincount(promoted, minlength=K)[K - open_arms :] / len(promoted)
        error = np.sqrt((1 - 1 / open_arms) / open_arms / len(promoted))
        assert cold.saturated == saturated
        assert (np.abs(share - 1 / open_arms) < 4 * error).all()


def test_correlated_arms_move_expectations_of_arms_without_samples():
    cold = cold_start(correlation=0.8)
    x, features, uniforms = users(50)
    known = feed(cold, 0, N)
    scores = cold.decide_now(x, features, uniforms).scores
    # b_1 given b_0 has mean m_1 + .8 (E[b_0 | S] - m_0).
    expected = MEAN + np.array([1.0, 0.8, 0.8])[:, None] * (known - MEAN[0])
    np.testing.assert_allclose(scores, expected @ x.T, atol=1e-10)


def test_one_by_one_is_all_at_once():
    whole, single = cold_start(), cold_start()
    feed(whole, 0, N)
    x = market().covariates.sample(N, seed=2)
    y = x @ np.array([0.9, -0.4]) + SIGMA * np.random.default_rng(2).normal(size=N)
    for k in range(N):
        single.absorb_one(x[k], 0, float(y[k]))
    some = users(50)
    np.testing.assert_array_equal(whole.decide_now(*some).scores, single.decide_now(*some).scores)
