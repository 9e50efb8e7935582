"""Rules over one unknown number are not taken in: beliefs that hide something between their nodes, or beyond."""

from typing import Any

import numpy as np
import pymc
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.belief import conditional as law_module
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior import Statistics
from rcb_bayes.posterior import unknown_noise as noise_module
from rcb_bayes.posterior.conditional import ConditionalEngine
from tests.posterior.twins import simulate_statistics

pm: Any = pymc  # annotations that do not fit their own use
COORDS = {"arm": ["a", "b"], "feature": ["x", "y"]}
DIMS = ("arm", "feature")
SIGMA = 0.4


def wavy(period: float) -> Prior:
    """The sd of all effects goes up and down with the logarithm of the scale."""
    with pm.Model(coords=COORDS) as model:
        phase = 2.0 * np.pi * pm.math.log(pm.HalfNormal("tau", 1.0)) / period
        pm.Normal("beta", 0.0, 0.3 * pm.math.exp(2.0 * pm.math.sin(phase)), dims=DIMS)
    return Prior.from_pymc(model)


def spacing() -> float:
    """Of the rule over the logarithm of the scale."""
    source = wavy(1.0)._source
    assert source is not None
    assert source.conditioners is not None
    line = law_module._line_of(source.conditioners.drawn[0], n_nodes=113, graph=source._graph)
    assert line is not None
    return float(np.log(line[0][1] / line[0][0]))


def wavy_means(data: Statistics) -> np.ndarray:
    """Posterior means with the phase uniform, which it nearly is."""
    gram, moment = data.xtx / SIGMA**2, data.xty / SIGMA**2  # (M, K, d, d), (M, K, d)
    evidence, means = [], []
    for variance in (0.3 * np.exp(2.0 * np.sin(np.linspace(0.0, 2.0 * np.pi, 201)[:-1]))) ** 2:
        precision = gram + np.eye(2) / variance
        mean = np.linalg.solve(precision, moment[..., None])[..., 0]
        each = 0.5 * (mean * moment).sum(axis=2) - 0.5 * np.linalg.slogdet(precision)[1] - np.log(variance)
        evidence.append(each.sum(axis=1))
        means.append(mean)
    weight = np.exp(np.array(evidence) - np.max(evidence, axis=0))
    return np.einsum("jm,jmkd->mkd", weight / weight.sum(axis=0), np.array(means))


def worst_error(prior: Prior, data: Statistics) -> float:
    """Of what is vouched for, in posterior sd; 0 where nothing is."""
    batch = ConditionalEngine(prior, GaussianNoise(SIGMA)).fit(data, covariance=True)
    assert batch.covariance is not None
    sd = np.sqrt(np.diagonal(batch.covariance, axis1=1, axis2=2)).reshape(batch.mean.shape)
    return float(np.abs((batch.mean - wavy_means(data)) / sd)[batch.vouched].max(initial=0.0))


@pytest.mark.parametrize("times", [pytest.param(1.0, marks=pytest.mark.slow), 2.0])
def test_waves_in_step_with_the_nodes(times: float, monkeypatch: pytest.MonkeyPatch):
    """At every node, or at every other one, the same: odd and even nodes agree on a wrong answer."""
    period = times * spacing()
    data = simulate_statistics(wavy(period), 3, SIGMA, 10, seed=1)
    assert worst_error(wavy(period), data) < 0.25
    monkeypatch.setattr(law_module, "_is_smooth", lambda *_: True)
    assert worst_error(wavy(period), data) > 0.5


def test_a_lump_of_the_scale_between_two_nodes(monkeypatch: pytest.MonkeyPatch):
    step = spacing()
    source = wavy(1.0)._source
    assert source is not None
    assert source.conditioners is not None
    line = law_module._line_of(source.conditioners.drawn[0], n_nodes=113, graph=source._graph)
    assert line is not None
    values = np.log(line[0])
    log_density = line[1]
    rng = np.random.default_rng(1)
    draws = rng.choice(values, size=4096, p=np.exp(log_density) / np.exp(log_density).sum())
    draws = draws + step * (rng.random(4096) - 0.5)
    assert law_module._follows(draws, values, log_density)
    draws[:600] = values[60] + 0.5 * step
    assert not law_module._follows(draws, values, log_density)


@pytest.mark.parametrize(("name", "parameters"), [("hierarchical", {}), ("hierarchical", {"centred": False})])
def test_smooth_beliefs_keep_their_rule(name: str, parameters: dict[str, Any]):
    assert load_prior(name, n_arms=3, n_features=2, **parameters).conditional_grid is not None


LOG_NOISE = np.linspace(np.log(0.02), np.log(2.5), 1500)


def noise_density(log_sd: np.ndarray) -> np.ndarray:
    """Of the logarithm of the noise: two lumps."""
    lumps = [np.exp(-0.5 * ((log_sd - np.log(centre)) / 0.1) ** 2) for centre in (0.05, 1.0)]
    return lumps[0] + lumps[1]


def two_noises() -> Prior:
    """The noise is small or large."""
    with pm.Model(coords=COORDS) as model:
        pm.Normal("beta", 0.0, 1.0, dims=DIMS)
        pm.Interpolated("sigma", np.exp(LOG_NOISE), noise_density(LOG_NOISE) / np.exp(LOG_NOISE))
    return Prior.from_pymc(model)


def two_noises_means(data: Statistics) -> np.ndarray:
    """Posterior means over a fine grid of the noise, by plain algebra."""
    tau, prior = np.exp(-2.0 * LOG_NOISE), noise_density(LOG_NOISE)
    evidence, means = [], []
    for t in tau:
        precision = t * data.xtx + np.eye(2)
        mean = np.linalg.solve(precision, t * data.xty[..., None])[..., 0]
        each = 0.5 * (t * mean * data.xty).sum(axis=2) - 0.5 * np.linalg.slogdet(precision)[1]
        evidence.append((each + 0.5 * (data.n * np.log(t) - t * data.yty)).sum(axis=1))
        means.append(mean)
    weight = np.exp(np.array(evidence) - np.max(evidence, axis=0)) * prior[:, None]
    return np.einsum("jm,jmkd->mkd", weight / weight.sum(axis=0), np.array(means))


def noise_error(data: Statistics) -> float:
    prior = two_noises()
    batch = ConditionalEngine(prior, GaussianNoise()).fit(data, covariance=True)
    assert batch.covariance is not None
    sd = np.sqrt(np.diagonal(batch.covariance, axis1=1, axis2=2)).reshape(batch.mean.shape)
    return float(np.abs((batch.mean - two_noises_means(data)) / sd)[batch.vouched].max(initial=0.0))


def test_a_second_mode_of_the_noise(monkeypatch: pytest.MonkeyPatch):
    """Nodes around the higher mode know nothing of the other."""
    assert two_noises().noise_line is not None
    data = simulate_statistics(two_noises(), 2, 0.3, 40, seed=4)
    assert noise_error(data) < 0.25
    real = noise_module.judge_rule
    monkeypatch.setattr(noise_module, "judge_rule", lambda *given, ends, **more: real(*given, ends=ends[:, :2], **more))
    assert noise_error(data) > 0.25


@pytest.mark.parametrize("sigma", [1e-2, 1e-4, 1e-5, 3e-6])
def test_a_noise_of_next_to_nothing(sigma: float):
    """The rule over the noise answers, although squares of residuals are what is left of sums a billion times larger.

    Under a flat density of sigma and of the effects: least squares, with covariance (X'X)^-1 |r|^2 / (n - p - 3).
    """
    prior = load_prior("unknown_noise", n_arms=2, n_features=2)
    rng = np.random.default_rng(5)
    x, beta = rng.standard_normal((2, 30, 2)), prior.draw_arrays(1, rng=rng)[0][0]
    noise = sigma * rng.standard_normal((2, 30))
    y = (x @ beta[..., None])[..., 0] + noise
    gram, moment = x.swapaxes(1, 2) @ x, (x.swapaxes(1, 2) @ y[..., None])[..., 0]
    data = Statistics(xtx=gram[None], xty=moment[None], yty=(y**2).sum(axis=1)[None], n=np.full((1, 2), 30.0))
    batch = ConditionalEngine(prior, GaussianNoise()).fit(data, covariance=True)
    assert batch.vouched[0]
    assert batch.covariance is not None
    inverse = np.linalg.inv(gram)
    pulled = (x.swapaxes(1, 2) @ noise[..., None])[..., 0]  # least squares of the noise: nothing large to take away
    expected = beta + (inverse @ pulled[..., None])[..., 0]
    square = (noise**2).sum() - (pulled * (inverse @ pulled[..., None])[..., 0]).sum()
    variance = np.concatenate([np.diagonal(part) for part in inverse]) * square / (60 - 4 - 3)
    sd = np.sqrt(np.diagonal(batch.covariance[0]))
    np.testing.assert_allclose(sd, np.sqrt(variance), rtol=0.01)
    assert (np.abs(batch.mean[0] - expected).reshape(-1) / sd).max() < 0.02
