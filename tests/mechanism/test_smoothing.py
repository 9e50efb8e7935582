"""An untried arm being the best, in closed form: quadrature, plain worlds, ties, and a planted error."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from rcb_bayes.belief.law import gaussian_law
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.smoothing import best_of, leading, settled_best
from rcb_bayes.posterior.preposterior import MeanLaw


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


# --- arms that vary together -----------------------------------------------------------------------------------------


def coupled(n_arms: int, *, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Prior means of one user (1, K), and covariances of posterior means (K, K)."""
    root = 0.2 * np.random.default_rng(seed).standard_normal((n_arms, n_arms)) + 0.1
    return np.linspace(0.4, 0.0, n_arms)[None], root @ root.T


def of_leads(covariance: np.ndarray, arm: int, *, n_worlds: int) -> np.ndarray:
    """Cov(m_i - m_j, m_i - m_k), (K, K, 1, W)."""
    apart = np.eye(len(covariance))[arm] - np.eye(len(covariance))
    return np.broadcast_to((apart @ covariance @ apart.T)[:, :, None, None], (*covariance.shape, 1, n_worlds))


def joint_leads(means: np.ndarray, covariance: np.ndarray, arm: int, *, n_worlds: int = 2000) -> np.ndarray:
    """E[1{a* = i}(m_i - m_j)] world by world, with the chance of the event in the place of the arm's own, (K, W)."""
    found = leading(means, of_leads(covariance, arm, n_worlds=n_worlds), arm=arm)
    out = found.chance * found.leads[:, 0]
    out[arm] = found.chance[0]
    return out


@pytest.mark.parametrize("n_arms", [2, 3, 5])
def test_arms_that_vary_together_are_those_of_plain_worlds(n_arms: int):
    means, covariance = coupled(n_arms)
    m = np.random.default_rng(3).multivariate_normal(means[0], covariance, size=400_000).T
    for arm in range(n_arms):
        plain = (m.argmax(axis=0) == arm) * (m[arm] - m)
        plain[arm] = m.argmax(axis=0) == arm
        error = plain.std(axis=1) / np.sqrt(plain.shape[1])
        found = joint_leads(means, covariance, arm)
        noise = np.hypot(error, found.std(axis=1) / np.sqrt(found.shape[1]))
        assert (np.abs(found.mean(axis=1) - plain.mean(axis=1)) <= 4.5 * noise).all()
        assert (found.std(axis=1) <= plain.std(axis=1)).all()
        planted = joint_leads(means, 1.1 * covariance, arm)
        assert (np.abs(planted.mean(axis=1) - plain.mean(axis=1)) > 4.5 * noise).any()


def test_of_two_arms_nothing_is_left_to_worlds():
    means, covariance = coupled(2)
    found = joint_leads(means, covariance, 1, n_worlds=3)
    spread = float(np.sqrt(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]))
    np.testing.assert_allclose(found[1], norm.cdf(-0.4 / spread), rtol=1e-12)
    np.testing.assert_allclose(found[0], spread * norm.pdf(0.4 / spread) - 0.4 * norm.cdf(-0.4 / spread), rtol=1e-11)


def test_rare_events_of_three_arms_are_those_of_quadrature():
    """Six errors off, with a second rival that has to fall, too: worlds would hardly ever show it."""
    covariance = np.array([[0.05, 0.02, 0.0], [0.02, 0.04, 0.0], [0.0, 0.0, 0.01]])
    means = np.array([[1.2, 0.9, 0.0]])
    apart = np.array([[-1.0, 0.0, 1.0], [0.0, -1.0, 1.0]])
    sigma, centre = apart @ covariance @ apart.T, apart @ means[0]
    slope, left = sigma[0, 1] / sigma[1, 1], float(np.sqrt(sigma[0, 0] - sigma[0, 1] ** 2 / sigma[1, 1]))

    def weighed(second: float) -> float:  # density of the second lead, times the chance of the first given it
        given = (centre[0] + slope * (second - centre[1])) / left
        return float(norm.pdf(second, centre[1], np.sqrt(sigma[1, 1])) * norm.cdf(given))

    exact = float(quad(weighed, 0.0, 2.0, epsabs=0.0)[0])
    exact_lead = float(quad(lambda lead: lead * weighed(lead), 0.0, 2.0, epsabs=0.0)[0])
    found = joint_leads(means, covariance, 2)
    for row, truth in ((2, exact), (1, exact_lead)):
        error = found[row].std() / np.sqrt(found.shape[1])
        assert abs(found[row].mean() - truth) <= 4.5 * error < 0.05 * truth


def test_what_never_happens_has_no_chance_and_finite_leads():
    """Sixty errors off, with a rival that moves along: nothing is infinite on the way."""
    covariance = np.array([[0.05, 0.04, 0.0], [0.04, 0.04, 0.0], [0.0, 0.0, 0.0]])
    found = leading(np.array([[12.0, 11.0, 0.0]]), of_leads(covariance, 2, n_worlds=5), arm=2)
    assert not found.chance.any()
    assert np.isfinite(found.leads).all()


def test_independent_arms_are_a_special_case():
    """One saturated, two that tie: as in closed form."""
    means = np.array([[0.3, 0.1, 0.1]])
    found = leading(means, of_leads(np.diag([0.04, 0.0, 0.0]), 1, n_worlds=9), arm=1)
    exact = settled_best(means, np.array([0.04, 0.0, 0.0])[:, None, None])
    np.testing.assert_allclose(found.chance, exact.shares[1, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(found.leads[0], 0.1 - exact.rewards[0, 0, 0], rtol=1e-8)
    np.testing.assert_allclose(found.leads[2], 0.0, atol=1e-15)


@pytest.mark.parametrize("joint", [False, True])
def test_an_arm_that_has_samples_is_no_settled_one(joint: bool):
    """Taken for one that nobody has tried, it would never be the best of two that are sampled alike."""
    covariance = 0.09 * np.eye(3)
    covariance[0, 1] = covariance[1, 0] = 0.03 * joint
    belief = gaussian_law(np.array([[0.2], [0.1], [0.0]]), covariance)
    grams = np.zeros((50, 3, 1, 1))
    grams[:, :2] = 20.0
    law = MeanLaw(belief=belief, grams=grams, sigma=0.3)
    users, means = np.ones((1, 1)), np.array([[0.2, 0.1, 0.0]])
    chances = [best_of(law, users, means, arm).chance.mean() for arm in range(3)]
    assert sum(chances) == pytest.approx(1.0, abs=0.005)
    assert min(chances) > 0.02
    assert settled_best(means, law.variances(users)).shares[1].max() == 0.0  # what is so avoided
