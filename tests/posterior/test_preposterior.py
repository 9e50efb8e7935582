"""The law of posterior means before the data: against posterior means of simulated data, and what is settled."""

import numpy as np
import pytest

from rcb_bayes.belief.law import gaussian_law, joint_covariance
from rcb_bayes.posterior.data import unchecked_statistics
from rcb_bayes.posterior.exact import exact_moments
from rcb_bayes.posterior.preposterior import MeanLaw

SIGMA = 0.4
MEAN = np.array([[0.3, -0.1], [0.1, 0.2], [0.0, 0.0]])
COVARIANCES = np.array([[[0.5, 0.2], [0.2, 0.3]], [[0.1, 0.0], [0.0, 0.4]], [[0.2, 0.0], [0.0, 0.2]]])
LAW = gaussian_law(MEAN, joint_covariance(list(COVARIANCES)))


def mean_law(grams: np.ndarray) -> MeanLaw:
    return MeanLaw(belief=LAW, grams=grams, sigma=SIGMA, overlap=lambda: 0.0)


def designs(rng: np.random.Generator, n_worlds: int) -> np.ndarray:
    """Six users an arm, the third arm's without their second feature; (W, K, n, d)."""
    x = rng.standard_normal((n_worlds, 3, 6, 2))
    x[:, 2, :, 1] = 0.0
    return x


def test_covariances_are_prior_less_posterior():
    x = designs(np.random.default_rng(1), 5)
    grams = x.swapaxes(2, 3) @ x
    found = mean_law(grams)
    for world in range(5):
        for arm in range(3):
            v = COVARIANCES[arm]
            after = np.linalg.inv(np.linalg.inv(v) + grams[world, arm] / SIGMA**2)
            np.testing.assert_allclose(found.blocks[arm][world], v - after, atol=1e-12)


def test_variances_are_those_of_simulated_posterior_means():
    """One design, many rewards; the prior's own variance, planted, is seen to be another."""
    n, rng = 40_000, np.random.default_rng(2)
    x = designs(rng, 1)[0]
    grams = np.broadcast_to(x.swapaxes(1, 2) @ x, (n, 3, 2, 2))
    beta = LAW.draw(n, rng=rng)
    rewards = np.einsum("knd,wkd->wkn", x, beta) + SIGMA * rng.standard_normal((n, 3, 6))
    data = unchecked_statistics(
        grams, np.einsum("knd,wkn->wkd", x, rewards), (rewards**2).sum(axis=2), np.full((n, 3), 6.0)
    )
    means, _ = exact_moments(LAW, data, sigma=SIGMA, covariance=False)
    user = np.array([[0.8, -0.6]])
    seen = means @ user[0]  # (W, K)
    found = mean_law(grams[:1]).variances(user)[:, 0, 0]
    error = seen.var(axis=0) * np.sqrt(2.0 / n)
    assert (np.abs(seen.var(axis=0) - found) < 4.5 * error).all()
    prior = np.einsum("d,kde,e->k", user[0], COVARIANCES, user[0])
    assert (np.abs(prior - found) > 4.5 * error).all()


@pytest.mark.parametrize("arm", [2, None])
def test_what_samples_say_nothing_about_is_settled_exactly(arm: int | None):
    x = designs(np.random.default_rng(3), 4)
    if arm is None:
        x[:, 2] = 0.0
    found = mean_law(x.swapaxes(2, 3) @ x).variances(np.array([[0.0, 1.0], [1.0, 1e-3]]))
    assert (found[2, 0] == 0.0).all()
    assert (found[:2] > 0.0).all()
    assert (found[2, 1] > 0.0).all() == (arm is not None)


def test_coupled_arms_are_told_of_by_each_others_samples():
    rng = np.random.default_rng(6)
    root = rng.standard_normal((4, 4))
    joint = root @ root.T + 0.1 * np.eye(4)
    x = rng.standard_normal((3, 2, 5, 2))
    x[:, 1] = 0.0  # the second arm is untried
    grams = x.swapaxes(2, 3) @ x
    found = MeanLaw(belief=gaussian_law(MEAN[:2], joint), grams=grams, sigma=SIGMA, overlap=lambda: 0.0)
    assert found.is_coupled
    assert not mean_law(grams).is_coupled
    users = rng.standard_normal((4, 2))
    for world in range(3):
        precision = np.zeros((4, 4))
        precision[:2, :2] = grams[world, 0] / SIGMA**2
        told = joint - np.linalg.inv(np.linalg.inv(joint) + precision)
        for user, features in enumerate(users):
            both = np.kron(np.eye(2), features)
            expected = both @ told @ both.T
            np.testing.assert_allclose(found.covariances(users, 1)[:, user, world], expected[1], rtol=1e-8)
            np.testing.assert_allclose(found.variances(users)[:, user, world], np.diag(expected), rtol=1e-8)
