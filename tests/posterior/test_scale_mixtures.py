"""Heavy-tailed effects around a shared level: Student-t and Laplace variables as normals of a random scale."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc
import pytest
from scipy import stats as scipy_stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.belief import conditional as law_module
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior import PosteriorBatch, Statistics, make_engine
from rcb_bayes.posterior import conditional as conditional_module
from rcb_bayes.posterior.conditional import Attempt, ConditionalEngine
from rcb_bayes.posterior.importance import ImportanceSampler
from tests.posterior.references import LIMIT, stacked
from tests.posterior.twins import simulate_statistics

pm: Any = pymc  # annotations that do not fit their own use
stats: Any = scipy_stats
SIGMA = 0.4
LEVEL = stats.norm(0.5, 0.3)
EFFECTS = (stats.t(4.0, scale=0.4), stats.laplace(scale=0.3))


def levelled(n_features: int = 1) -> Prior:
    """Two arms around one level: one with Student-t effects, one with Laplace ones."""
    with pm.Model(coords={"arm": ["a", "b"], "feature": [f"x{k}" for k in range(n_features)]}) as model:
        level = pm.Normal("level", 0.5, 0.3)
        first = level + pm.StudentT("t", nu=4.0, mu=0.0, sigma=0.4, shape=n_features)
        second = pm.Laplace("double", mu=level, b=0.3, shape=n_features)
        pm.Deterministic("beta", pm.math.stack([first, second]), dims=("arm", "feature"))
    return Prior.from_pymc(model, name="levelled")


def data_sets(n_sets: int = 5, *, counts: tuple[int, int] = (4, 2)) -> Statistics:
    """Data sets of the belief itself."""
    rng = np.random.default_rng(4)
    beta, _ = levelled().draw_arrays(n_sets, rng=rng)
    arm = np.repeat([0, 1], counts)
    return stacked([of_rows(arm, one[arm, 0] + SIGMA * rng.standard_normal(len(arm))) for one in beta])


def of_rows(arm: np.ndarray, reward: np.ndarray) -> Statistics:
    return Statistics.from_rows(np.ones((len(arm), 1)), arm=arm, reward=reward, n_arms=2)


def by_quadrature(data: Statistics) -> np.ndarray:
    """Posterior means (M, 2): given the level arms are apart, and each is an integral over its own coefficient."""
    level, beta = np.linspace(-1.5, 2.5, 401), np.linspace(-8.0, 9.0, 6801)
    out = []
    for m in range(data.n_sets):
        mass, first = [], []
        for k, effect in enumerate(EFFECTS):
            log_likelihood = (beta * data.xty[m, k, 0] - 0.5 * beta**2 * data.xtx[m, k, 0, 0]) / SIGMA**2
            likelihood = np.exp(log_likelihood - log_likelihood.max())
            density = effect.pdf(beta - level[:, None])  # (levels, betas)
            mass.append(density @ likelihood)
            first.append(density @ (likelihood * beta))
        weight = LEVEL.pdf(level) * mass[0] * mass[1]
        means = [(LEVEL.pdf(level) * first[k] * mass[1 - k]).sum() / weight.sum() for k in range(2)]
        out.append(means)
    return np.array(out)


@cache
def exact_means() -> np.ndarray:
    return by_quadrature(data_sets())


def fitted(prior: Prior, data: Statistics) -> PosteriorBatch:
    return ConditionalEngine(prior, GaussianNoise(SIGMA)).fit(data, covariance=True)


def largest_z(batch: PosteriorBatch, means: np.ndarray) -> float:
    """Distance to the exact means in Monte Carlo errors, taken as if nothing but the scales were known."""
    assert batch.covariance is not None
    sd = np.sqrt(np.diagonal(batch.covariance, axis1=1, axis2=2))
    error = sd / np.sqrt(batch.diagnostics["effective_size"])[:, None]
    return float((np.abs(batch.mean.reshape(len(means), -1) - means) / error)[batch.vouched].max())


@pytest.fixture
def many_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(30_000, 1),))


@pytest.mark.usefixtures("many_draws")
def test_means_are_those_of_quadrature() -> None:
    data = data_sets()
    batch = fitted(levelled(), data)
    assert batch.vouched.all()
    assert largest_z(batch, exact_means()) < LIMIT


Mixing = Callable[..., np.ndarray]


@pytest.mark.usefixtures("many_draws")
@pytest.mark.parametrize(
    "mistake",
    [
        lambda real: lambda *given: np.ones_like(real(*given)),  # normal after all
        lambda real: lambda *given: real(*given) ** 2,  # variances for standard deviations
        lambda real: lambda *given: real(*given) / np.sqrt(2.0),  # half the variance
    ],
    ids=["none", "squared", "halved"],
)
def test_a_mistake_in_the_mixing_is_noticed(
    mistake: Callable[[Mixing], Mixing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(law_module, "_mixing_scales", mistake(law_module._mixing_scales))
    assert largest_z(fitted(levelled(), data_sets()), exact_means()) > LIMIT


def test_the_law_has_the_moments_of_the_belief() -> None:
    law = levelled(2).conditional_law(50_000).law
    (block,) = law.blocks
    variances = np.diagonal(block.covariances, axis1=1, axis2=2)
    exact = LEVEL.var() + np.repeat([effect.var() for effect in EFFECTS], 2)
    error = variances.std(axis=0) / np.sqrt(len(variances))
    assert (np.abs(variances.mean(axis=0) - exact) < LIMIT * error).all()
    np.testing.assert_allclose(block.means, 0.5)
    np.testing.assert_allclose(block.covariances[:, 0, 1], LEVEL.var())  # features share the level alone


def test_such_beliefs_do_not_go_to_nuts() -> None:
    prior = levelled(3)
    engine = make_engine(prior, GaussianNoise(SIGMA))
    assert engine.name == "conditional"
    batch = engine.fit(simulate_statistics(prior, 30, SIGMA, 40, 3))
    assert (batch.engine == "conditional").mean() > 0.9


def test_agrees_with_importance_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines that share nothing but the data: where there is a density either can answer."""
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(8192, 1),))
    prior = load_prior("student_t", n_arms=2, n_features=3, scale=0.3, nu=4.0)
    data = simulate_statistics(prior, 10, SIGMA, 20, 3)
    ours = fitted(prior, data)
    theirs = ImportanceSampler(prior, sigma=SIGMA).fit(data, covariance=True)
    both = ours.vouched & theirs.vouched
    assert both.sum() > 10
    assert theirs.covariance is not None
    sd = np.sqrt(np.diagonal(theirs.covariance, axis1=1, axis2=2)).reshape(ours.mean.shape)
    error = sd * np.sqrt(1 / ours.diagnostics["effective_size"] + 1 / theirs.effective_size)[:, None, None]
    z = (np.abs(ours.mean - theirs.mean) / error)[both]
    assert z.max() < LIMIT
    assert (z + 0.5 * (sd / error)[both]).max() > LIMIT  # half a posterior sd would be seen


def test_data_in_the_tails_are_not_vouched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(512, 1),))
    far = of_rows(np.zeros(30, dtype=int), np.full(30, 40.0))
    assert not fitted(levelled(), far).vouched.any()


def test_an_unknown_noise_and_heavy_tails() -> None:
    """Means, and the noise that they are judged by, are drawn together."""
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["x"]}) as model:
        pm.StudentT("beta", nu=5.0, mu=0.0, sigma=0.5, dims=("arm", "feature"))
        pm.HalfNormal("sigma", 0.5)
    prior = Prior.from_pymc(model, name="heavy")
    engine = make_engine(prior, GaussianNoise())
    assert engine.name == "conditional"
    law = prior.conditional_law(64)
    assert law.sigma is not None
    assert not law.only_sigma
    batch = engine.fit(simulate_statistics(prior, 20, 0.4, 5, 3))
    assert (batch.engine == "conditional").all()
