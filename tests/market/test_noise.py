"""Reward models: moments against sampling, shapes, seeds, and what bad input says."""

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from rcb_bayes.errors import RcbError
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise, Noise

N_SAMPLES = 100_000
WORST_Z = 4.5
ETA = np.array([-2.0, -0.3, 0.0, 0.4, 1.5])


def largest_z(draws: np.ndarray, claimed: np.ndarray) -> float:
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return float((np.abs(draws.mean(axis=0) - claimed) / (error + 1e-12)).max())


@pytest.mark.parametrize("noise", [GaussianNoise(0.7), BernoulliLogit()])
def test_moments_are_those_of_the_samples(noise: Noise):
    rewards = noise.sample(np.broadcast_to(ETA, (N_SAMPLES, 5)), rng=np.random.default_rng(1))
    mean = noise.mean_reward(ETA)
    assert largest_z(rewards, mean) < WORST_Z
    assert largest_z(rewards, mean + 0.02) > WORST_Z  # the same check sees a small bias
    squares = (rewards - mean) ** 2
    assert largest_z(squares, noise.variance(ETA)) < WORST_Z
    assert largest_z(squares, 1.1 * noise.variance(ETA)) > WORST_Z


def test_gaussian_rewards_are_normal():
    rewards = GaussianNoise(0.5).sample(np.full(20_000, 2.0), rng=np.random.default_rng(2))
    assert stats.kstest((rewards - 2.0) / 0.5, "norm").pvalue > 1e-4
    assert stats.kstest((rewards - 2.0) / 0.55, "norm").pvalue < 1e-4


def test_logistic_mean_is_accurate_in_both_tails():
    eta = np.array([-800.0, -700.0, -40.0, -1.0, 0.0, 1.0, 40.0, 800.0])
    np.testing.assert_allclose(BernoulliLogit().mean_reward(eta), special.expit(eta), rtol=1e-12)
    np.testing.assert_allclose(BernoulliLogit().variance(eta), special.expit(eta) * special.expit(-eta), rtol=1e-12)


def test_bernoulli_rewards_are_zero_or_one():
    rewards = BernoulliLogit().sample(np.zeros((3, 4)), rng=np.random.default_rng(3))
    assert rewards.dtype == np.float64
    assert set(np.unique(rewards)) <= {0.0, 1.0}


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("noise", [GaussianNoise(0.7), BernoulliLogit()])
def test_any_shape(noise: Noise, shape: tuple[int, ...]):
    rng = np.random.default_rng(0)
    assert np.shape(noise.sample(np.zeros(shape), rng=rng)) == shape
    assert np.shape(noise.mean_reward(np.zeros(shape))) == shape
    assert np.shape(noise.variance(np.zeros(shape))) == shape


def test_an_unknown_sigma_is_broadcast():
    noise = GaussianNoise()
    sigma = np.array([0.1, 10.0])
    rewards = noise.sample(np.zeros(5000), rng=np.random.default_rng(4), sigma=sigma[:, None])
    assert rewards.shape == (2, 5000)
    np.testing.assert_allclose(rewards.std(axis=1), sigma, rtol=0.05)
    np.testing.assert_allclose(noise.variance(np.zeros((3, 2)), sigma=sigma), np.tile(sigma**2, (3, 1)))


def test_a_given_sigma_equals_a_fixed_one():
    fixed = GaussianNoise(0.3).sample(ETA, rng=np.random.default_rng(5))
    given = GaussianNoise().sample(ETA, rng=np.random.default_rng(5), sigma=0.3)
    np.testing.assert_array_equal(fixed, given)
    assert not np.array_equal(fixed, GaussianNoise(0.3).sample(ETA, rng=np.random.default_rng(6)))


def test_the_input_is_left_alone():
    eta = ETA.copy()
    GaussianNoise(1.0).mean_reward(eta)[:] = 0.0
    np.testing.assert_array_equal(eta, ETA)


def test_noise_models_are_values():
    assert GaussianNoise(1) == GaussianNoise(1.0) == GaussianNoise(np.float32(1.0))  # pyright: ignore[reportArgumentType]
    assert isinstance(GaussianNoise(np.int64(2)).sigma, float)  # pyright: ignore[reportArgumentType]
    assert len({BernoulliLogit(), BernoulliLogit(), GaussianNoise(1.0), GaussianNoise()}) == 3
    for noise in (GaussianNoise(0.05), GaussianNoise(), BernoulliLogit()):
        assert isinstance(noise, Noise)
        assert "\n" not in noise.describe()
    assert GaussianNoise(0.05).describe() == "Gaussian rewards, sigma = 0.05"


@pytest.mark.parametrize(
    ("noise", "name", "kind", "is_gaussian", "needs_sigma"),
    [
        (GaussianNoise(0.05), "Gaussian", "gaussian", True, False),
        (GaussianNoise(), "Gaussian", "gaussian", True, True),
        (BernoulliLogit(), "Bernoulli-logit", "bernoulli_logit", False, False),
    ],
)
def test_what_a_model_says_of_itself(noise: Noise, name: str, kind: str, is_gaussian: bool, needs_sigma: bool):
    assert (noise.name, noise.kind, noise.is_gaussian, noise.needs_sigma) == (name, kind, is_gaussian, needs_sigma)


@pytest.mark.parametrize(
    "sigma", [0, 0.0, -1.0, float("nan"), float("inf"), True, np.True_, "0.1", [0.1], 1j, np.array(0.1)], ids=repr
)
def test_bad_sigma(sigma: Any):
    with pytest.raises(RcbError, match=r"sigma must be a positive finite number, got .*\. Give the standard deviation"):
        GaussianNoise(sigma)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("noise", "kwargs", "message"),
    [
        (GaussianNoise(), {"rng": RNG}, r"sigma is unknown in GaussianNoise\(\): give sigma="),
        (GaussianNoise(0.5), {"rng": RNG, "sigma": 0.5}, r"sigma is fixed at 0\.5: leave it out"),
        (
            GaussianNoise(),
            {"rng": RNG, "sigma": [1.0, 1.0]},
            r"shape \(5,\) and sigma of shape \(2,\) do not broadcast",
        ),
        (GaussianNoise(), {"rng": RNG, "sigma": 0.0}, r"sigma must be positive finite numbers, got 0\.0"),
        (GaussianNoise(), {"rng": RNG, "sigma": [1, 1, -2, 1, 1]}, r"positive finite numbers, got -2"),
        (GaussianNoise(), {"rng": RNG, "sigma": np.nan}, r"positive finite numbers, got nan"),
        (GaussianNoise(), {"rng": RNG, "sigma": True}, r"positive finite numbers, got bool"),
        (GaussianNoise(), {"rng": RNG, "sigma": "1"}, r"positive finite numbers, got <U1"),
        (GaussianNoise(0.5), {"rng": 1}, r"rng must be a numpy Generator, got int\. Use numpy\.random\.default_rng"),
        (BernoulliLogit(), {"rng": None}, r"rng must be a numpy Generator, got NoneType"),
        (BernoulliLogit(), {"rng": RNG, "sigma": 1.0}, r"BernoulliLogit rewards have no sigma: leave it out"),
    ],
)
def test_bad_calls(noise: Noise, kwargs: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        noise.sample(ETA, **kwargs)


@pytest.mark.parametrize("noise", [GaussianNoise(0.5), BernoulliLogit()])
@pytest.mark.parametrize("eta", [[np.nan], [np.inf], "high"], ids=repr)
def test_bad_predictors(noise: Noise, eta: Any):
    with pytest.raises(RcbError, match="eta must be"):
        noise.mean_reward(eta)
