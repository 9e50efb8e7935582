"""Gibbs sampling of effects with unknown scales: against quadrature, against other engines, and what it vouches for."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pymc
import pytest
from scipy import stats as scipy_stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import BeliefError
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior import PosteriorBatch, Statistics, make_engine
from rcb_bayes.posterior import gibbs as gibbs_module
from rcb_bayes.posterior import importance as importance_module
from rcb_bayes.posterior.conditional import ConditionalEngine
from rcb_bayes.posterior.gibbs import GibbsEngine, Layout
from rcb_bayes.posterior.nuts import NutsEngine
from tests.posterior.heavy_effects import around_a_level
from tests.posterior.references import LIMIT
from tests.posterior.test_scale_mixtures import SIGMA, data_sets, exact_means, levelled
from tests.posterior.twins import simulate_statistics

pm: Any = pymc  # annotations that do not fit their own use
stats: Any = scipy_stats


@pytest.fixture
def long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs_module, "ROUNDS", (60, 1200))


def horseshoe(d: int = 1) -> Prior:
    return load_prior("horseshoe", n_arms=2, n_features=d, scale=0.3)


@cache
def horseshoe_case() -> tuple[Statistics, np.ndarray]:
    """Data sets of one feature, and their means by quadrature over the three scales of an arm, (M, 2)."""
    data = simulate_statistics(horseshoe(), [3, 1], SIGMA, 6, seed=2)
    tau, lam, slab = (np.exp(np.linspace(*ends, 90)) for ends in ((-11, 9), (-10, 10), (-4, 5)))
    weight = (stats.halfcauchy(scale=0.3).pdf(tau) * tau)[:, None, None] * (stats.halfcauchy.pdf(lam) * lam)[:, None]
    weight = weight * stats.invgamma(2.0, scale=2.0).pdf(slab) * slab
    variance = 1.0 / (1.0 / (tau[:, None, None] * lam[:, None]) ** 2 + 1.0 / slab)
    precision, pull = data.xtx[..., 0, 0] / SIGMA**2, data.xty[..., 0] / SIGMA**2  # (M, 2)
    out = np.empty(pull.shape)
    for index in np.ndindex(out.shape):
        shrunk = variance / (1.0 + variance * precision[index])
        evidence = weight * np.exp(0.5 * shrunk * pull[index] ** 2) / np.sqrt(1.0 + variance * precision[index])
        out[index] = pull[index] * (shrunk * evidence).sum() / evidence.sum()
    return data, out


@cache
def two_features_case() -> tuple[Statistics, np.ndarray]:
    """Data sets of two features that users mix, and the means of arm 0 by quadrature over its four scales, (M, 2)."""
    data = simulate_statistics(horseshoe(2), [2, 2], SIGMA, 3, seed=4)
    ends = ((-9.0, 5.0, 36), (-8.0, 8.0, 44), (-3.0, 4.0, 18))
    tau, lam, slab = (np.exp(np.linspace(low, high, n)) for low, high, n in ends)
    shape = np.ix_(tau, lam, lam, slab)
    weight = stats.halfcauchy(scale=0.3).pdf(shape[0]) * shape[0] * stats.invgamma(2.0, scale=2.0).pdf(shape[3])
    weight = weight * shape[3]
    for part in shape[1:3]:
        weight = weight * stats.halfcauchy.pdf(part) * part
    one, two = (1.0 / (shape[0] * part) ** 2 + 1.0 / shape[3] for part in shape[1:3])  # 1/v
    out = np.empty((data.n_sets, 2))
    for m in range(data.n_sets):
        (a, b), (_, c) = data.xtx[m, 0] / SIGMA**2
        first, second = data.xty[m, 0] / SIGMA**2
        determinant = (one + a) * (two + c) - b**2
        means = ((two + c) * first - b * second) / determinant, ((one + a) * second - b * first) / determinant
        evidence = weight * np.sqrt(one * two / determinant) * np.exp(0.5 * (first * means[0] + second * means[1]))
        out[m] = [(mean * evidence).sum() / evidence.sum() for mean in means]
    return data, out


def fitted(prior: Prior, data: Statistics, *, sigma: float = SIGMA) -> PosteriorBatch:
    return GibbsEngine(prior, GaussianNoise(sigma)).fit(data, covariance=True)


def sd_of(batch: PosteriorBatch) -> np.ndarray:
    assert batch.covariance is not None
    return np.sqrt(np.diagonal(batch.covariance, axis1=1, axis2=2)).reshape(batch.mean.shape)


def largest_z(batch: PosteriorBatch, mean: np.ndarray, *, arms: slice = slice(None)) -> float:
    """Distance of the worst coefficient to known means, in the errors that the chains report."""
    found = batch.mean[:, arms]
    away = np.abs((found - mean.reshape(found.shape)) / sd_of(batch)[:, arms]).max(axis=(1, 2))
    return float((away / batch.diagnostics["mean_error"]).max())


@pytest.mark.usefixtures("long_runs")
def test_student_and_laplace_effects_around_a_level():
    assert largest_z(fitted(levelled(), data_sets()), exact_means()) < LIMIT


@pytest.mark.usefixtures("long_runs")
def test_a_horseshoe():
    data, mean = horseshoe_case()
    assert largest_z(fitted(horseshoe(), data), mean) < LIMIT


@pytest.mark.usefixtures("long_runs")
def test_a_horseshoe_over_two_features():
    """Scales drawn while the effects of both are integrated out."""
    data, mean = two_features_case()
    assert largest_z(fitted(horseshoe(2), data), mean, arms=slice(1)) < LIMIT


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("n", [2, 30])
def test_one_scale_and_a_level(n: int):
    """Beside the rule over the scale, which shares no code: means and covariances."""
    prior = load_prior("hierarchical", n_arms=3, n_features=2)
    data = simulate_statistics(prior, n, SIGMA, 6, seed=n)
    exact = ConditionalEngine(prior, GaussianNoise(SIGMA)).fit(data, covariance=True)
    batch = fitted(prior, data)
    assert exact.vouched.all()
    assert largest_z(batch, exact.mean) < LIMIT
    np.testing.assert_allclose(sd_of(batch), sd_of(exact), rtol=0.15)


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Layout], Layout]:
    return lambda layout: replace(layout, **{name: change(getattr(layout, name))})


def other_variances(layout: Layout) -> Layout:
    return replace(layout, belief=(layout.belief[0] + np.log(2.0), *layout.belief[1:]))


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize(
    "mistake",
    [changed("kind", np.zeros_like), changed("nu", lambda nu: 5.0 * nu), other_variances],
    ids=["normal after all", "lighter tails", "twice the variance"],
)
def test_a_mistake_in_the_effects_is_noticed(mistake: Callable[[Layout], Layout]):
    engine = GibbsEngine(levelled(), GaussianNoise(SIGMA))
    engine._layout = mistake(engine._layout)
    assert largest_z(engine.fit(data_sets(), covariance=True), exact_means()) > LIMIT


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("place", [6, 8], ids=["values", "densities"])
def test_a_mistake_in_the_scales_is_noticed(place: int):
    data, mean = horseshoe_case()
    engine = GibbsEngine(horseshoe(), GaussianNoise(SIGMA))
    belief = list(engine._layout.belief)
    belief[place] = 0.5 * belief[place]
    engine._layout = replace(engine._layout, belief=tuple(belief))
    assert largest_z(engine.fit(data, covariance=True), mean) > LIMIT


def other_power(layout: Layout, power: float, *, of: list[int]) -> Layout:
    """Some scales with another power in the variances of their effects, where drawn and where used."""
    term, powers = layout.belief[1], layout.belief[2].copy()
    powers[np.isin(term, of)] = power
    rate = layout.rate.copy()
    rate[of] = power
    return replace(layout, belief=(*layout.belief[:2], powers, *layout.belief[3:]), rate=rate)


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("power", [1.0, 4.0])
@pytest.mark.parametrize("whose", ["single", "shared"])
def test_a_wrong_power_of_a_scale_is_noticed(whose: str, power: float):
    """Variances that are the scale itself, or its fourth power: of every effect's own scale, or of their common one."""
    data, mean = two_features_case()
    engine = GibbsEngine(horseshoe(2), GaussianNoise(SIGMA))
    layout = engine._layout
    inside = np.isin(np.arange(len(layout.rate)), layout.belief[1])  # slabs stay
    scales = layout.singles if whose == "single" else layout.shared[inside[layout.shared]]
    assert len(scales) == (4 if whose == "single" else 2)
    assert (layout.rate[scales] == 2.0).all()
    engine._layout = other_power(layout, power, of=scales.tolist())
    assert largest_z(engine.fit(data, covariance=True), mean, arms=slice(1)) > LIMIT


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("power", [-1.0, 1.0])
@pytest.mark.parametrize("whose", ["singles", "shared"])
def test_a_wrong_power_in_the_law_of_a_scale_is_noticed(whose: str, power: float):
    """The law of a scale given the rest times the scale or divided by it, as without the Jacobian of its logarithm."""
    data, mean = two_features_case()
    engine = GibbsEngine(horseshoe(2), GaussianNoise(SIGMA))
    *_, low, step, line, line_of = engine._layout.belief
    line = line.copy()
    scale = getattr(engine._layout, whose)[0]
    line[line_of[scale]] += power * (low[scale] + step[scale] * np.arange(line.shape[1]))
    engine._layout = replace(engine._layout, belief=(*engine._layout.belief[:-2], line, line_of))
    assert largest_z(engine.fit(data, covariance=True), mean, arms=slice(1)) > LIMIT


def test_vouched_answers_are_within_a_tenth():
    for prior, (data, mean) in ((levelled(), (data_sets(), exact_means())), (horseshoe(), horseshoe_case())):
        batch = fitted(prior, data)
        assert batch.vouched.all()
        assert np.abs((batch.mean - mean.reshape(batch.mean.shape)) / sd_of(batch)).max() < 0.1


@pytest.mark.parametrize("planted", ["a chain apart", "a drift"])
def test_chains_that_disagree_are_not_vouched_for(planted: str, monkeypatch: pytest.MonkeyPatch):
    real = GibbsEngine._run

    def spoilt(self, *given, **options):
        found = real(self, *given, **options)
        means = found.means.copy()
        sd = found.sd()[:, None]
        if planted == "a drift":
            means[:, :, 2:, 0] += 0.3 * sd[..., 0, None]
        else:
            means[:, 0, :, 0] += 0.5 * sd[..., 0]
        return replace(found, means=means)

    monkeypatch.setattr(GibbsEngine, "_run", spoilt)
    monkeypatch.setattr(gibbs_module, "ROUNDS", (16, 512))
    assert not fitted(levelled(), data_sets()).vouched.any()


def test_too_few_sweeps_are_not_vouched_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gibbs_module, "ROUNDS", (4, 4))
    batch = fitted(horseshoe(5), simulate_statistics(horseshoe(5), 2, SIGMA, 20, seed=3))
    assert batch.vouched.mean() < 0.2


def test_answers_do_not_depend_on_company():
    data = simulate_statistics(horseshoe(2), 5, SIGMA, 6, seed=5)
    batch = fitted(horseshoe(2), data)
    alone = fitted(horseshoe(2), data.take(slice(4, 5)))
    np.testing.assert_array_equal(alone.mean[0], batch.mean[4])
    np.testing.assert_array_equal(fitted(horseshoe(2), data).mean, batch.mean)


def test_an_arm_without_data_keeps_its_mean():
    prior = load_prior("horseshoe", n_arms=2, n_features=2, mean=[[0.4], [0.1]])
    data = simulate_statistics(prior, [6, 0], SIGMA, 3, seed=5)
    np.testing.assert_allclose(fitted(prior, data).mean[:, 1], 0.1)


def test_draws_have_the_moments(long_runs: None):
    data, mean = horseshoe_case()
    engine = GibbsEngine(horseshoe(), GaussianNoise(SIGMA))
    draws = engine.draw(data, 2000, rng=np.random.default_rng(1))
    assert draws.shape == (6, 2000, 2, 1)
    sd = draws.std(axis=1)
    assert (np.abs(draws.mean(axis=1) - mean[..., None]) < LIMIT * sd / np.sqrt(400.0)).all()  # not all independent


def test_what_importance_sampling_does_not_vouch_for(monkeypatch: pytest.MonkeyPatch):
    """Chains come before NUTS, for means and for draws."""
    prior = load_prior("student_t", n_arms=2, n_features=2)
    engine = make_engine(prior, GaussianNoise(SIGMA))
    data = simulate_statistics(prior, 8, SIGMA, 3, seed=6)
    usual = engine.fit(data, covariance=True)
    monkeypatch.setattr(importance_module, "MIN_EFFECTIVE_SIZE", np.inf)
    batch = engine.fit(data)
    assert set(batch.engine) == {"gibbs"}
    assert batch.vouched.all()
    assert batch.n_sent == 0
    assert "goes to gibbs" in batch.reason
    assert np.abs((batch.mean - usual.mean) / sd_of(usual)).max() < 0.2
    draws = engine.draw(data, 400, rng=np.random.default_rng(1))
    assert np.abs((draws.mean(axis=1) - usual.mean) / sd_of(usual)).max() < 0.4


def test_beliefs_of_another_form_are_refused():
    for prior in (load_prior("correlated", n_arms=2, n_features=2), load_prior("skewed", n_arms=2, n_features=2)):
        with pytest.raises(BeliefError, match="normal effects with unknown scales"):
            GibbsEngine(prior, GaussianNoise(SIGMA))
    with pytest.raises(BeliefError, match="known sigma"):
        GibbsEngine(load_prior("unknown_noise", n_arms=2, n_features=2), GaussianNoise())


# --- many effects -----------------------------------------------------------------------------------------------------


def test_many_effects_do_not_go_to_nuts():
    prior = around_a_level("student", 6, 5)
    engine = make_engine(prior, GaussianNoise(SIGMA))
    assert engine.name == "gibbs"
    batch = engine.fit(simulate_statistics(prior, 10, SIGMA, 8, seed=1))
    assert (batch.engine == "gibbs").all()
    assert batch.vouched.all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["student", "laplace", "horseshoe"])
def test_nothing_is_silently_wrong_with_many_effects(kind: str):
    """Against NUTS, which shares nothing, within a tenth and NUTS's own error."""
    prior = around_a_level(kind, 5, 5)
    data = simulate_statistics(prior, 10, SIGMA, 3, seed=11)
    batch = fitted(prior, data)
    reference = NutsEngine(prior, GaussianNoise(SIGMA)).fit(data)
    error = 1.0 / np.sqrt(reference.diagnostics["ess_bulk"])
    away = np.abs((batch.mean - reference.mean) / sd_of(batch)).max(axis=(1, 2))
    assert batch.vouched.all()
    assert (away < 0.1 + LIMIT * error).all()


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["student", "laplace"])
@pytest.mark.parametrize(("n_arms", "d"), [(5, 5), (10, 8)])
def test_many_effects_are_vouched_for(kind: str, n_arms: int, d: int, sigma: float, monkeypatch: pytest.MonkeyPatch):
    """At the sizes of a cold start, and right by long runs of other seeds."""
    prior = around_a_level(kind, n_arms, d)
    found = []
    for n in (5, 50):
        data = simulate_statistics(prior, n, sigma, 10, seed=n)
        batch = fitted(prior, data, sigma=sigma)
        with monkeypatch.context() as patch:
            patch.setattr(gibbs_module, "ROUNDS", (300, 6000))
            long = GibbsEngine(prior, GaussianNoise(sigma), seed=99).fit(data, covariance=True)
        away = np.abs((batch.mean - long.mean) / sd_of(long)).max(axis=(1, 2))
        assert away[batch.vouched].max() < 0.12  # a tenth, and the long run's own error
        found.append(batch.vouched)
    assert np.concatenate(found).mean() >= 0.95
