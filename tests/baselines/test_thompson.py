"""Thompson sampling: chances to be best, and regret beside another implementation."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes import Market, Prior
from rcb_bayes.running.simulation import simulate
from rcb_bayes.running.worlds import SimulatedWorld
from tests.baselines import plain_bandits
from tests.baselines.runs import clicks, drive

SIGMA = 0.3


def two_arms(correlation: float = 0.0) -> Market:
    cov = np.array([[0.3, 0.0], [0.0, 0.1]])
    cov[0, 1] = cov[1, 0] = correlation * np.sqrt(0.03)
    prior = Prior.gaussian([[0.2], [0.0]], cov)
    return Market(prior=prior, covariates=rcb.Empirical([[1.0], [-0.5]]), noise=rcb.GaussianNoise(SIGMA))


@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize("batch", [1, 5])
def test_probabilities_are_the_chances_to_be_best(correlation: float, batch: int):
    """Two arms: Pr(arm 0 best) is a normal probability."""
    users = np.array([[1.0], [-0.5]])
    found = rcb.baselines.LinThompson(two_arms(correlation), n_draws=4000, batch=batch, seed=1).recommend_proba(users)
    variance = 0.4 - 2 * correlation * np.sqrt(0.03)
    for k, x in enumerate((1.0, -0.5)):
        chance = norm.cdf(0.2 * x / (abs(x) * np.sqrt(variance)))
        error = np.sqrt(chance * (1 - chance) / 4000)
        assert abs(found[k, 0] - chance) < 4 * error
        wrong = norm.cdf(0.2 * x / (abs(x) * np.sqrt(variance / 2)))
        assert abs(found[k, 0] - wrong) > 4 * error  # planted: half the variance


def test_users_of_a_batch_have_draws_of_their_own():
    policy = rcb.baselines.LinThompson(two_arms(), batch=500, seed=1)
    x = np.ones((500, 1))
    arms = policy.decide(x, x.T.copy(), np.random.default_rng(0).random((500, 2))).arm
    chance = norm.cdf(0.2 / np.sqrt(0.4))
    assert abs(np.mean(arms == 0) - chance) < 4 * np.sqrt(chance * (1 - chance) / 500)


def test_clicks_are_sampled_by_their_posterior():
    """Bernoulli rewards before any data: x'b is what the prior says, and the best arm is that of x'b."""
    found = rcb.baselines.LinThompson(clicks(), n_draws=3000, seed=2).recommend_proba(np.array([[0.6, 0.8]]))
    chance = norm.cdf((0.6 * 0.6 + 0.8 * 0.1) / np.sqrt(2.0))
    assert abs(found[0, 0] - chance) < 5 * np.sqrt(chance * (1 - chance) / 3000)


# --- beside another implementation -----------------------------------------------------------------------------------

MEAN, VARIANCE, HORIZON, N_WORLDS = np.zeros((3, 2)), 0.4, 150, 80


@cache
def exchangeable() -> Market:
    prior = Prior.gaussian(MEAN, VARIANCE)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(SIGMA))


@cache
def plain_regret(scale: float) -> np.ndarray:
    """Regret of the plain algorithm in the same worlds with draws of its own, (worlds,)."""
    out = []
    for number, child in enumerate(np.random.SeedSequence(7).spawn(N_WORLDS)):
        page = (world := SimulatedWorld(exchangeable(), child)).page(0)
        _, regret = plain_bandits.run(
            "thompson",
            prior_mean=MEAN,
            prior_variance=VARIANCE,
            sigma=SIGMA,
            beta=world.beta,
            users=page.x[:HORIZON],
            noise=page.noise[:HORIZON],
            scale=scale,
            rng=np.random.default_rng([1, number]),
        )
        out.append(regret.sum())
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
def test_regret_is_that_of_the_plain_algorithm(batch: int):
    runs = simulate(
        exchangeable(),
        lambda m, seed: rcb.baselines.LinThompson(m, batch=batch, seed=seed),
        horizon=HORIZON,
        n_worlds=N_WORLDS,
        seed=7,
    )
    regret = runs["regret"].sum("t").values

    def z(scale: float) -> float:
        difference = regret - plain_regret(scale)
        return difference.mean() / (difference.std(ddof=1) / np.sqrt(N_WORLDS))

    assert abs(z(1.0)) < 4
    assert z(2.0) < -4  # planted: deviations twice as large explore more


def test_a_round_is_learnt_at_once():
    policy = rcb.baselines.LinThompson(two_arms(), seed=1)
    drive(policy, 30, where=two_arms())
    assert policy.conjugate is not None
    assert policy.history.n_samples == 30
    assert (policy.conjugate.covariances < np.array([0.3, 0.1])[:, None, None]).all()
