"""An untried arm being the best, in closed form: quadrature, plain worlds, ties, and a planted error."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.smoothing import best_along, favourites, settled_best


def test_two_arms_are_those_of_quadrature():
    mean, spread, worth = 0.3, 0.25, 0.1
    found = settled_best(np.array([[mean, worth]]), np.array([spread**2, 0.0])[:, None, None])
    chance = float(quad(norm.pdf, -5.0, worth, args=(mean, spread))[0])
    first = float(quad(lambda m: m * norm.pdf(m, mean, spread), -5.0, worth)[0])
    np.testing.assert_allclose(found.shares[:, 0, 0], [0.0, chance], rtol=1e-9)
    np.testing.assert_allclose(found.rewards[:, 0, 0], [first / chance, worth], rtol=1e-9)


def test_events_too_rare_to_be_seen_keep_their_digits():
    """Thirty standard deviations off: the chance and what the rival is then worth, by the tail's expansion."""
    found = settled_best(np.array([[30.0, 0.0]]), np.array([1.0, 0.0])[:, None, None])
    assert found.shares[1, 0, 0] == pytest.approx(norm.sf(30.0), rel=1e-9)
    assert found.rewards[0, 0, 0] == pytest.approx(-1.0 / 30.0, rel=3e-3)


MEANS = np.array([[0.3, 0.2, 0.15, 0.1, 0.15]])  # of a single user; arms 2 and 4 tie at the top of the untried ones
SPREADS = np.array([0.2, 0.3, 0.0, 0.0, 0.0])


def plain(spreads: np.ndarray, *, n: int = 400_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Organic shares and joint gains E[1{a* = i}(m_i - m_j)] of plain worlds, (K,) and (K, K), and errors of these."""
    rng = np.random.default_rng(4)
    m = MEANS.T + spreads[:, None] * rng.standard_normal((5, n))
    shares = best_shares(m, axis=0)
    gains = shares[:, None] * (m[:, None] - m[None])
    return shares.mean(axis=1), gains.mean(axis=2), gains.std(axis=2) / np.sqrt(n)


def joint_gains(spreads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found = settled_best(MEANS, (spreads**2)[:, None, None])
    shares, rewards = found.shares[:, 0, 0], found.rewards[:, 0, 0]
    return shares, shares[:, None] * (rewards[:, None] - rewards[None])


def test_five_arms_with_a_tie_are_those_of_plain_worlds():
    seen, gains, errors = plain(SPREADS)
    shares, found = joint_gains(SPREADS)
    assert shares[2] == shares[4] > 0.0 == shares[3]
    np.testing.assert_allclose(shares[2:], seen[2:], atol=4.5 * np.sqrt(0.25 / 400_000))
    for arm in (2, 4):
        assert (np.abs(found[arm] - gains[arm])[:2] < 4.5 * errors[arm, :2]).all()
    _, planted = joint_gains(1.05 * SPREADS)
    assert (np.abs(planted[2] - gains[2])[:2] > 4.5 * errors[2, :2]).all()


def test_an_arm_that_samples_say_nothing_about_ties_as_others_do():
    """Sampled, but to no avail for this user, in the first of two worlds only."""
    variances = np.zeros((3, 1, 2))
    variances[0] = 0.04
    variances[1, 0, 1] = 0.09
    found = settled_best(np.array([[0.2, 0.1, 0.1]]), variances)
    half = float(norm.cdf(-0.5))
    np.testing.assert_allclose(found.shares[:, 0, 0], [0.0, half / 2, half / 2], rtol=1e-12)
    np.testing.assert_allclose(found.shares[:, 0, 1], [0.0, 0.0, half / 2], rtol=1e-12)


def test_the_order_of_arms_does_not_matter():
    rng = np.random.default_rng(5)
    means, variances = rng.standard_normal((6, 4)), np.square(rng.standard_normal((4, 6, 7)))
    variances[1], variances[3, :, 2:] = 0.0, 0.0
    found = settled_best(means, variances)
    order = [2, 0, 3, 1]
    other = settled_best(means[:, order], variances[order])
    np.testing.assert_allclose(found.shares[order], other.shares, rtol=1e-12)
    np.testing.assert_allclose(found.rewards[order], other.rewards, rtol=1e-12)


# --- coupled arms ----------------------------------------------------------------------------------------------------


def coupled(n_arms: int, n: int = 100_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prior means of one user (1, K), covariances of posterior means, and posterior means in plain worlds (K, 1, W)."""
    rng = np.random.default_rng(7)
    root = 0.2 * rng.standard_normal((n_arms, n_arms)) + 0.1
    means = np.linspace(0.4, 0.0, n_arms)[None]
    return means, root @ root.T, means.T[:, :, None] + (root @ rng.standard_normal((n_arms, n)))[:, None]


def along(means: np.ndarray, covariance: np.ndarray, m: np.ndarray, arm: int) -> tuple[np.ndarray, np.ndarray]:
    """The chance that the arm is the best, and its joint gains, in every world, (W,) and (K, W)."""
    rivals = favourites(means, arm)
    with_lead = np.broadcast_to((covariance[:, arm] - covariance[:, rivals[0]])[:, None, None], m.shape)
    found = best_along(m, means, with_lead, arm=arm, rivals=rivals)
    return found.chance[0], found.chance[0] * (found.rewards[arm, 0] - found.rewards[:, 0])


@pytest.mark.parametrize("n_arms", [2, 3, 5])
def test_coupled_arms_are_those_of_plain_worlds(n_arms: int):
    means, covariance, m = coupled(n_arms)
    shares = best_shares(m, axis=0)[:, 0]
    for arm in range(n_arms):
        plain_gains = shares[arm] * (m[arm] - m)[:, 0]
        chance, gains = along(means, covariance, m, arm)
        # World by world they differ by noise alone, and never by more than a plain world has.
        for ours, theirs in ((chance, shares[arm]), *zip(gains, plain_gains, strict=True)):
            apart = ours - theirs
            assert abs(apart.mean()) <= 4.5 * apart.std() / np.sqrt(len(apart)) + 1e-15
            assert ours.std() <= 1.01 * theirs.std() + 1e-12
        _, planted = along(means, 1.5 * covariance, m, arm)
        apart = planted - plain_gains
        assert (np.abs(apart.mean(axis=1)) > 4.5 * apart.std(axis=1) / 316.0).any()


def test_of_two_coupled_arms_nothing_is_left_to_worlds():
    means, covariance, m = coupled(2, n=50)
    chance, gains = along(means, covariance, m, 1)
    spread = float(np.sqrt(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]))
    np.testing.assert_allclose(chance, norm.cdf(-0.4 / spread), rtol=1e-9)
    np.testing.assert_allclose(gains[0], spread * norm.pdf(0.4 / spread) - 0.4 * norm.cdf(-0.4 / spread), rtol=1e-8)


def test_independent_arms_are_a_special_case():
    """One saturated, two that tie: as in closed form, whatever the world."""
    rng = np.random.default_rng(8)
    means = np.array([[0.3, 0.1, 0.1]])
    m = np.stack([0.3 + 0.2 * rng.standard_normal((1, 9)), np.full((1, 9), 0.1), np.full((1, 9), 0.1)])
    chance, gains = along(means, np.diag([0.04, 0.0, 0.0]), m, 1)
    exact = settled_best(means, np.array([0.04, 0.0, 0.0])[:, None, None])
    np.testing.assert_allclose(chance, exact.shares[1, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(gains[0], exact.shares[1, 0, 0] * (0.1 - exact.rewards[0, 0, 0]), rtol=1e-8)
    np.testing.assert_allclose(gains[2], 0.0, atol=1e-15)
