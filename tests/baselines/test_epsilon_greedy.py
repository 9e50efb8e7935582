"""Epsilon-greedy: how often it explores, at a constant rate and at one that falls."""

from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import USERS, drive, market

K = 3


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_off_best_arms_have_their_share_of_the_rate(rate: float):
    policy = rcb.baselines.EpsilonGreedy(market(), rate=rate)
    drive(policy, 40)
    found = np.sort(policy.recommend_proba(USERS), axis=1)
    np.testing.assert_allclose(found[:, :-1], rate / K)
    np.testing.assert_allclose(found[:, -1], 1 - rate + rate / K)


@pytest.mark.parametrize(("decay", "hold"), [(1.0, 10.0), (0.5, 1.0), (1 / 3, 50.0)])
def test_the_rate_falls_as_it_says(decay: float, hold: float):
    policy = rcb.baselines.EpsilonGreedy(market(), rate=0.8, decay=decay, hold=hold, batch=16)
    t = np.array([1.0, 10.0, 11.0, 400.0])
    np.testing.assert_allclose(policy.exploration_rate(t), 0.8 * np.minimum(1.0, (hold / t)) ** decay)
    drive(policy, 16)
    block = policy.decide(USERS, USERS.T.copy(), np.zeros((200, 2)))
    assert len(block) == 16
    np.testing.assert_allclose(
        np.sort(block.probabilities, axis=0)[0], policy.exploration_rate(np.arange(17.0, 33.0)) / K
    )


@pytest.mark.parametrize("planted", [False, True])
def test_arms_are_drawn_at_the_rate(planted: bool):
    """Off-best recommendations are counted; a planted rate without its share of the best arm is found out."""
    policy = rcb.baselines.EpsilonGreedy(market(), rate=0.3)
    n = 4000
    x = market().covariates.sample(n, seed=4)
    uniforms = np.random.default_rng(5).random((n, 2))
    best = rcb.baselines.Greedy(market()).recommend_proba(x).argmax(axis=1)
    arms = [int(policy.decide(x[k : k + 1], x[k : k + 1].T, uniforms[k : k + 1]).arm[0]) for k in range(n)]
    expected = 0.3 if planted else 0.3 * (K - 1) / K
    error = np.sqrt(expected * (1 - expected) / n)
    assert (abs(np.mean(best != arms) - expected) < 4 * error) != planted


def test_a_falling_rate_beats_a_constant_one():
    def regret(**words: Any) -> np.ndarray:
        maker = lambda m, seed: rcb.baselines.EpsilonGreedy(m, batch=20, seed=seed, **words)  # noqa: E731
        return simulate(market(), maker, horizon=1500, n_worlds=12, seed=2)["regret"].sum("t").values

    gain = regret(rate=0.3) - regret(rate=1.0, decay=1.0, hold=30)
    assert gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(len(gain))
