"""The density of a belief with one unknown scale, and 0/1 rewards under it, against quadrature."""

from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats
from scipy.integrate import quad
from scipy.special import expit

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.market.noise import BernoulliLogit
from rcb_bayes.posterior import Rows, make_engine
from rcb_bayes.posterior.laplace import LaplaceEngine
from rcb_bayes.posterior.marginal import ScaleDensity
from rcb_bayes.schema import FloatArray

stats: Any = scipy_stats  # its annotations do not fit its own use
SCALE, TAU_SCALE = 0.8, 0.6


def family(n_arms: int, n_features: int) -> Prior:
    return load_prior("hierarchical", n_arms=n_arms, n_features=n_features, scale=SCALE, tau_scale=TAU_SCALE)


def log_density_of_two(first: FloatArray, second: FloatArray) -> FloatArray:
    """Of two arms with one feature, by a fine sum over tau; the sum of both and their difference are independent."""
    tau = np.exp(np.linspace(-12.0, 1.5, 400))
    log_weight = stats.halfnorm(scale=TAU_SCALE).logpdf(tau) + np.log(tau) + np.log(13.5 / 399)
    total, apart = (first + second)[..., None], (first - second)[..., None]
    return np.logaddexp.reduce(
        log_weight
        + stats.norm.logpdf(total, scale=np.sqrt(4.0 * SCALE**2 + 2.0 * tau**2))
        + stats.norm.logpdf(apart, scale=np.sqrt(2.0) * tau)
        + np.log(2.0),
        axis=-1,
    )


def test_the_density_is_the_integral_over_the_scale():
    density = ScaleDensity.of(family(2, 1).conditional_grid)
    assert density is not None
    beta = np.random.default_rng(0).normal(0.0, 1.0, (50, 2, 1))
    np.testing.assert_allclose(density(beta)[:, 0], log_density_of_two(*beta[:, :, 0].T), rtol=0, atol=2e-3)


def test_one_value_by_adaptive_quadrature():
    prior = family(3, 2)
    density = ScaleDensity.of(prior.conditional_grid)
    assert density is not None
    beta = np.random.default_rng(1).normal(0.0, 0.8, (3, 2))
    level = np.kron(np.ones((3, 3)), SCALE**2 * np.eye(2))

    def integrand(tau: float) -> float:
        given = stats.multivariate_normal(np.zeros(6), level + tau**2 * np.eye(6))
        return float(given.pdf(beta.reshape(-1)) * stats.halfnorm(scale=TAU_SCALE).pdf(tau))

    expected = quad(integrand, 1e-6, 6.0, limit=200)[0]
    assert density(beta[None])[0, 0] == pytest.approx(np.log(expected), abs=1e-3)


def test_beliefs_of_another_kind_have_none():
    assert ScaleDensity.of(load_prior("horseshoe", n_arms=2, n_features=2).conditional_grid) is None
    assert ScaleDensity.of(load_prior("unknown_noise", n_arms=2, n_features=2).conditional_grid) is None


# --- 0/1 rewards -----------------------------------------------------------------------------------------------------


def clicks(n: tuple[int, int], n_sets: int) -> Rows:
    rng = np.random.default_rng(3)
    beta = family(2, 1).draw_arrays(n_sets, rng=rng)[0][:, :, 0]
    arm = np.tile(np.repeat([0, 1], n), (n_sets, 1))
    x = rng.choice([-1.0, 1.0, 2.0], size=arm.shape)
    reward = (rng.random(arm.shape) < expit(x * np.take_along_axis(beta, arm, axis=1))).astype(float)
    return Rows(x=x[..., None], arm=arm, reward=reward, n_arms=2)


def by_quadrature(data: Rows) -> tuple[FloatArray, FloatArray]:
    """Posterior means and sd, (M, 2), on a grid of both coefficients."""
    line = np.linspace(-6.0, 6.0, 161)
    first, second = np.meshgrid(line, line + 0.0123, indexing="ij")  # off the ridge where both are the same
    log_prior = log_density_of_two(first, second)
    means, sds = [], []
    for x, arm, reward in zip(data.x[..., 0], data.arm, data.reward, strict=True):
        sign = 2.0 * reward - 1.0
        total = log_prior.copy()
        for value, k, s in zip(x, arm, sign, strict=True):
            total -= np.logaddexp(0.0, -s * value * (first if k == 0 else second))
        weight = np.exp(total - total.max())
        weight /= weight.sum()
        mean = np.array([(weight * part).sum() for part in (first, second)])
        means.append(mean)
        sds.append([np.sqrt((weight * (part - m) ** 2).sum()) for part, m in zip((first, second), mean, strict=True)])
    return np.array(means), np.array(sds)


@pytest.mark.parametrize("n", [(3, 0), (8, 8), pytest.param((40, 5), marks=pytest.mark.slow)])
def test_posteriors_of_clicks_are_those_of_quadrature(n: tuple[int, int]):
    data = clicks(n, 8)
    found = LaplaceEngine(family(2, 1)).fit(data)
    mean, sd = by_quadrature(data)
    assert found.vouched.mean() > 0.7
    assert (np.abs(found.mean[:, :, 0] - mean) / sd)[found.vouched].max() < 0.15
    fixed = LaplaceEngine(load_prior("hierarchical", n_arms=2, n_features=1, scale=SCALE, tau=0.05)).fit(data)
    assert (np.abs(fixed.mean[:, :, 0] - mean) / sd).max() > 0.15  # a scale that is taken as known is seen


def test_auto_takes_it():
    assert make_engine(family(2, 1), BernoulliLogit()).reason.startswith("laplace")
    assert make_engine(load_prior("horseshoe", n_arms=2, n_features=1), BernoulliLogit()).name == "nuts"
