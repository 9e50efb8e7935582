"""Markets and runs for tests of baselines."""

from functools import cache

import numpy as np

import rcb_bayes as rcb
from rcb_bayes import Market, Prior
from rcb_bayes.running.policies import Policy

D, SIGMA = 2, 0.3
MEAN = np.array([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]])
VARIANCES = np.array([0.3, 0.2, 0.2])
USERS = rcb.Sphere(D).sample(200, seed=9)


@cache
def market() -> Market:
    """Three arms, users on a circle."""
    prior = Prior.gaussian(MEAN, VARIANCES, arms=["usual", "new", "odd"])
    return Market(prior=prior, covariates=rcb.Sphere(D), noise=rcb.GaussianNoise(SIGMA))


@cache
def alike(
    means: tuple[float, ...] = (0.3, 0.0), variances: tuple[float, ...] = (0.09, 0.16), sigma: float = 0.2
) -> Market:
    """Users who are all alike."""
    prior = Prior.gaussian(np.array(means)[:, None], np.array(variances))
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(sigma))


@cache
def clicks() -> Market:
    """Bernoulli rewards of three kinds of users."""
    users = rcb.Empirical(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    return Market(prior=Prior.gaussian([[0.8, 0.3], [0.2, 0.2]], 1.0), covariates=users, noise=rcb.BernoulliLogit())


def drive(policy: Policy, n: int, *, where: Market | None = None, seed: int = 1) -> np.ndarray:
    """n rounds as they come, in a world of its own; the arms."""
    where = where or market()
    rng = np.random.default_rng(seed)
    beta = where.prior.draw_arrays(1, rng=rng)[0][0]
    x = where.covariates.sample(n, seed=seed)
    uniforms, arms = rng.random((n, 2)), np.empty(n, dtype=int)
    start = 0
    while start < n:
        decisions = policy.decide(x[start:], np.ascontiguousarray(x[start:].T), uniforms[start:])
        assert len(decisions) >= 1
        some = slice(start, start + len(decisions))
        reward = where.noise.sample((x[some] * beta[decisions.arm]).sum(axis=1), rng=rng)
        arms[some] = decisions.arm
        policy.update(x[some], decisions, reward)
        start += len(decisions)
    return arms


def conjugate(policy: object) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means (K, d) and covariances (K, d, d) of what a policy has seen in the market, by the textbook."""
    sums = policy.history.sums()  # pyright: ignore[reportAttributeAccessIssue]
    cov = np.linalg.inv(np.eye(D) / VARIANCES[:, None, None] + sums.xtx[0] / SIGMA**2)
    mean = MEAN / VARIANCES[:, None] + sums.xty[0] / SIGMA**2
    return (cov @ mean[..., None])[..., 0], cov
