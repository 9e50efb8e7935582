"""A belief that has loosened is the belief with larger variances."""

import numpy as np
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise, Noise
from rcb_bayes.posterior import make_engine
from rcb_bayes.posterior.stretched import StretchedEngine
from tests.posterior.references import LIMIT
from tests.posterior.twins import simulate_statistics

SIGMA = 0.4
MEAN = np.array([[0.5, -0.2], [0.1, 0.3]])
COVARIANCE = np.array([[0.3, 0.1], [0.1, 0.2]])


@pytest.mark.parametrize("factor", [1.0, 4.0, 50.0])
def test_a_gaussian_belief_has_its_variances_multiplied(factor: float) -> None:
    prior, wide = Prior.gaussian(MEAN, COVARIANCE), Prior.gaussian(MEAN, factor * COVARIANCE)
    data = simulate_statistics(wide, 6, SIGMA, 20, 1)
    found = StretchedEngine(prior, GaussianNoise(SIGMA), factor=factor).fit(data, covariance=True, users=MEAN)
    exact = make_engine(wide, GaussianNoise(SIGMA)).fit(data, covariance=True, users=MEAN)
    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-10)
    assert found.covariance is not None
    assert exact.covariance is not None
    np.testing.assert_allclose(found.covariance, exact.covariance, atol=1e-10)
    assert found.reward is not None
    assert exact.reward is not None
    np.testing.assert_allclose(found.reward, exact.reward, atol=1e-10)
    if factor > 1.0:  # the planted error: nothing was stretched
        tight = make_engine(prior, GaussianNoise(SIGMA)).fit(data)
        assert np.abs(tight.mean - exact.mean).max() > 0.05


def test_a_student_t_belief_has_its_scale_multiplied() -> None:
    prior = load_prior("student_t", n_arms=2, n_features=2, scale=0.3, mean=0.2)
    wide = load_prior("student_t", n_arms=2, n_features=2, scale=0.9, mean=0.2)
    data = simulate_statistics(wide, 6, SIGMA, 20, 1)
    found = StretchedEngine(prior, GaussianNoise(SIGMA), factor=9.0).fit(data, covariance=True)
    reference = make_engine(wide, GaussianNoise(SIGMA)).fit(data, covariance=True)
    assert reference.covariance is not None
    sd = np.sqrt(np.diagonal(reference.covariance, axis1=1, axis2=2)).reshape(found.mean.shape)
    size = np.minimum(found.diagnostics["effective_size"], reference.diagnostics["effective_size"])
    error = sd * np.sqrt(2.0 / size)[:, None, None]
    assert (np.abs(found.mean - reference.mean) < LIMIT * error).all()


def test_draws_are_stretched_too() -> None:
    prior, wide = Prior.gaussian(MEAN, COVARIANCE), Prior.gaussian(MEAN, 9.0 * COVARIANCE)
    data = simulate_statistics(wide, 3, SIGMA, 1, 1)
    engine = StretchedEngine(prior, GaussianNoise(SIGMA), factor=9.0)
    draws = engine.draw(data, 20_000, rng=np.random.default_rng(1))[0]
    exact = engine.fit(data, covariance=True)
    assert exact.covariance is not None
    sd = np.sqrt(np.diag(exact.covariance[0])).reshape(2, 2)
    assert (np.abs(draws.mean(axis=0) - exact.mean[0]) < LIMIT * sd / np.sqrt(len(draws))).all()
    assert (np.abs(draws.std(axis=0) / sd - 1.0) < LIMIT / np.sqrt(2 * len(draws))).all()


@pytest.mark.parametrize("noise", [BernoulliLogit(), GaussianNoise()])
def test_the_noise_has_to_be_known(noise: Noise) -> None:
    with pytest.raises(RcbError, match="known sigma"):
        StretchedEngine(Prior.gaussian(MEAN, COVARIANCE), noise, factor=2.0)
