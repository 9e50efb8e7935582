"""Audits under priors that loosen, against the mechanism run plainly in worlds of the loosened prior."""

from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.exploiting import inflation_factor

LINEAR = rcb.Exploiting(inflation="linear", guard=False)
N = 3
MEAN, VARIANCE, SIGMA = np.array([[0.3], [0.0]]), 0.02, 0.3
USER = [[1.0]]


@cache
def market(factor: float = 1.0) -> rcb.Market:
    """Users who are alike; nature is as loose as the prior has become."""
    prior = rcb.Prior.gaussian(MEAN, VARIANCE)
    nature = rcb.Prior.gaussian(MEAN, factor * VARIANCE)
    return rcb.Market(prior=prior, covariates=rcb.Empirical(USER), noise=rcb.GaussianNoise(SIGMA), nature=nature)


@cache
def plan() -> rcb.Plan:
    return rcb.fixed_plan(market(), n_per_arm=N, exploration_rate=0.5, epsilon=0.05, notion="user")


def begins(epoch: int) -> int:
    """Rounds of exploitation before an epoch."""
    return 2 * N * (2**epoch - 1)


@cache
def plainly(epoch: int, *, n_worlds: int, options: rcb.Exploiting, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """What she gains by each arm over the other as the epoch begins, with its error: live, with true rewards.

    Means are the engine's own: the detour over a summary gives the same ones and takes ten times as long.
    """
    oracle = rcb.PosteriorOracle(market().prior, market().noise, read="engine")
    factor = inflation_factor(LINEAR.inflation, begins(epoch))
    rng = np.random.default_rng(seed)
    chances, lead = np.empty((n_worlds, 2)), np.empty((n_worlds, 2))
    for w in range(n_worlds):
        truth = MEAN[:, 0] + np.sqrt(factor * VARIANCE) * rng.standard_normal(2)
        agent = rcb.Recommender(market(), plan(), oracle=oracle, options=options, seed=int(rng.integers(2**31)))
        exploited = 0
        while True:
            told = agent.recommend(USER[0])
            if told.stage == "exploit" and exploited == begins(epoch):
                break
            exploited += told.stage == "exploit"
            arm = market().arms.index(told.arm)
            agent.observe(truth[arm] + SIGMA * rng.standard_normal(), ticket=told.ticket)
        chances[w] = [told.probabilities[arm] for arm in market().arms]
        lead[w] = truth - truth[::-1]
    mass = chances.mean(axis=0)
    gain = (chances * lead).mean(axis=0) / mass
    error = (chances * (lead - gain)).std(axis=0, ddof=1) / mass / np.sqrt(n_worlds)
    return gain, error


def audited(options: rcb.Exploiting, *, epoch: int, n_worlds: int) -> tuple[np.ndarray, np.ndarray]:
    found = rcb.audit(
        market(), plan(), horizon=10**6 if epoch > 3 else 400, n_worlds=n_worlds, users=USER, options=options, seed=5
    ).margins.sel(stage=f"epoch {epoch}", user=0)
    pairs = [("arm_0", "arm_1"), ("arm_1", "arm_0")]
    cells = [found.sel(arm=arm, rival=rival) for arm, rival in pairs]
    return np.array([c["estimate"].item() for c in cells]), np.array([c["mcse"].item() for c in cells])


@pytest.mark.parametrize("epoch", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_margins_are_those_of_a_plain_run(epoch: int) -> None:
    plain, plain_error = plainly(epoch, n_worlds=300, options=LINEAR)
    ours, error = audited(LINEAR, epoch=epoch, n_worlds=2000)
    assert (np.abs(ours - plain) < 4.5 * np.hypot(error, plain_error)).all()


def test_worlds_that_are_not_loosened_are_noticed() -> None:
    """The planted error: users who reckon with the prior that they began with."""
    plain, plain_error = plainly(2, n_worlds=300, options=LINEAR)
    without, error = audited(rcb.Exploiting(guard=False), epoch=2, n_worlds=2000)
    assert (np.abs(without - plain) > 4.5 * np.hypot(error, plain_error)).any()


def test_the_first_epoch_is_the_same_with_and_without() -> None:
    loose, _ = audited(LINEAR, epoch=0, n_worlds=500)
    tight, _ = audited(rcb.Exploiting(guard=False), epoch=0, n_worlds=500)
    np.testing.assert_allclose(loose, tight)


# --- the global clock: how loose priors are depends on how long the cold start took --------------------------

GLOBAL = rcb.Exploiting(inflation="linear", clock="global", guard=False)


def run_to(epoch: int, *, seed: int, truth: np.ndarray, rng: np.random.Generator) -> tuple[int, rcb.Recommender]:
    """A live run up to the beginning of an epoch, and how many rounds of exploitation there were before it."""
    agent = rcb.Recommender(market(), plan(), options=GLOBAL, seed=seed)
    while True:
        agent._rcb.move_on()
        epochs = agent._rcb.exploitation
        if epochs is not None and epochs.epoch == epoch:
            return epochs.begins - epochs.began, agent
        told = agent.recommend(USER[0])
        arm = market().arms.index(told.arm)
        agent.observe(truth[arm] + SIGMA * rng.standard_normal(), ticket=told.ticket)


@pytest.mark.slow
def test_under_the_global_clock_margins_are_those_of_a_plain_run() -> None:
    """Stages tell nothing about rewards, so a run made beforehand tells how loose priors will be."""
    rng, n_worlds, epoch = np.random.default_rng(4), 500, 1
    chances, lead = np.empty((n_worlds, 2)), np.empty((n_worlds, 2))
    for w in range(n_worlds):
        seed = int(rng.integers(2**31))
        rounds, _ = run_to(epoch, seed=seed, truth=MEAN[:, 0], rng=rng)
        factor = inflation_factor("linear", rounds)
        truth = MEAN[:, 0] + np.sqrt(factor * VARIANCE) * rng.standard_normal(2)
        again, agent = run_to(epoch, seed=seed, truth=truth, rng=rng)
        assert again == rounds
        chances[w] = agent._rcb.recommend_proba(np.array(USER))[0]
        lead[w] = truth - truth[::-1]
    mass = chances.mean(axis=0)
    plain = (chances * lead).mean(axis=0) / mass
    plain_error = (chances * (lead - plain)).std(axis=0, ddof=1) / mass / np.sqrt(n_worlds)
    ours, error = audited(GLOBAL, epoch=epoch, n_worlds=4000)
    assert (np.abs(ours - plain) < 4.5 * np.hypot(error, plain_error)).all()
    without, error = audited(rcb.Exploiting(clock="global", guard=False), epoch=epoch, n_worlds=4000)
    assert (np.abs(without - plain) > 4.5 * np.hypot(error, plain_error)).any()  # the planted error


def test_what_goes_world_by_world_is_refused() -> None:
    with pytest.raises(RcbError, match="Gaussian rewards and posterior means"):
        rcb.audit(
            market(),
            plan(),
            horizon=50,
            n_worlds=100,
            oracle=rcb.RidgeOracle(),
            options=rcb.Exploiting(inflation="log"),
        )
