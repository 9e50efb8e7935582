"""One sample at a time: the same posterior as all at once."""

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Prior
from rcb_bayes.baselines.conjugate import Conjugate
from rcb_bayes.posterior import posterior_means
from rcb_bayes.running.history import History

K, D, SIGMA = 3, 2, 0.3


def joint_covariance() -> np.ndarray:
    root = np.random.default_rng(3).normal(size=(K * D, K * D))
    return root @ root.T / 6


def prior(kind: str) -> Prior:
    mean = np.arange(K * D, dtype=float).reshape(K, D) / 10
    return Prior.gaussian(mean, joint_covariance() if kind == "joint" else np.array([0.3, 0.2, 0.0]))


def learnt(kind: str, n: int) -> tuple[Conjugate, History]:
    rng = np.random.default_rng(1)
    made, history = Conjugate.of(prior(kind), rcb.GaussianNoise(SIGMA)), History(K, D)
    assert made is not None
    for _ in range(n):
        x, arm, reward = rng.normal(size=D), int(rng.integers(K)), float(rng.normal())
        history.add_one(x, arm, reward)
        made.learn(x, arm, reward, history)
    return made, history


@pytest.mark.parametrize("kind", ["apart", "joint"])
@pytest.mark.parametrize("n", [0, 1, 3, 50, 1500])
def test_one_by_one_is_all_at_once(kind: str, n: int):
    made, history = learnt(kind, n)
    whole = posterior_means(prior(kind), rcb.GaussianNoise(SIGMA), history.sums(), covariance=True)
    assert whole.covariance is not None
    tiles = whole.covariance[0].reshape(K, D, K, D)
    np.testing.assert_allclose(made.means, whole.mean[0], atol=1e-11)
    np.testing.assert_allclose(made.covariances, [tiles[k, :, k] for k in range(K)], atol=1e-11)
    assert made.arms_apart == (kind == "apart")


def test_scores_and_variances_are_those_of_the_moments():
    made, _ = learnt("joint", 7)
    x = np.random.default_rng(2).normal(size=(5, D))
    np.testing.assert_allclose(made.scores(x.T), made.means @ x.T)
    np.testing.assert_allclose(made.variances(x.T), np.einsum("nd,kde,ne->kn", x, made.covariances, x))


def test_only_gaussian_beliefs_and_rewards_have_one():
    assert Conjugate.of(prior("apart"), rcb.BernoulliLogit()) is None
    assert Conjugate.of(rcb.load_prior("mixture", n_arms=2, n_features=2), rcb.GaussianNoise(SIGMA)) is None
