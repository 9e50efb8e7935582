"""Beliefs that are Gaussian given their scales, against dense algebra and quadrature over the scale."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc
import pytest
from scipy import stats as scipy_stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import BeliefError
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior import PosteriorBatch, Statistics, make_engine
from rcb_bayes.posterior import conditional as conditional_module
from rcb_bayes.posterior.conditional import Attempt, ConditionalEngine
from rcb_bayes.posterior.nuts import NutsEngine, NutsSettings
from rcb_bayes.schema import FloatArray
from tests.posterior.references import LIMIT, Averaged, GaussianRows, averaged_over_scales, gaussian_rows, stacked
from tests.posterior.twins import simulate_statistics

# Their annotations do not fit their own use.
pm: Any = pymc
stats: Any = scipy_stats
K, D = 3, 2
DIMS = ("arm", "feature")
COORDS = {"arm": ["a", "b", "c"], "feature": ["x", "y"]}
COUNTS = (4, 9, 0)
SIGMA = 0.4
GRID = np.exp(np.linspace(-11.0, 1.5, 900))

Given = Callable[[float], tuple[FloatArray, FloatArray, float]]


@pytest.fixture(autouse=True)
def few_sets_of_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """One where four are in use, because each costs half a second; the slow tests take them as they are."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(conditional_module, "LADDER", (Attempt(512, 1), Attempt(1024, 1)))


def build(define: Callable[[], Any], *, name: str = "belief") -> Prior:
    with pm.Model(coords=COORDS) as model:
        define()
    return Prior.from_pymc(model, name=name)


# --- beliefs with one scale, and what they are given it -------------------------------------------------------------


def hierarchical_given(tau: float) -> tuple[FloatArray, FloatArray, float]:
    shared = np.kron(np.ones((K, K)), 0.16 * np.eye(D))
    return np.zeros(K * D), shared + tau**2 * np.eye(K * D), SIGMA


def log_scale() -> None:
    level = pm.Normal("level", -1.0, 0.5)
    pm.Normal("beta", 0.3, pm.math.exp(level), dims=DIMS)


def conjugate() -> None:
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.Normal("beta", 0.0, 2.0 * sigma, dims=DIMS)


def noise_with_the_mean() -> None:
    """The arms that are good on the whole are the ones whose outcomes vary: the noise tells about beta."""
    level = pm.Normal("level", 0.0, 0.7)
    pm.Normal("beta", level, 0.5, dims=DIMS)
    pm.Deterministic("sigma", 0.4 * pm.math.exp(level))


def log_half_normal(scale: float) -> FloatArray:
    return stats.halfnorm(scale=scale).logpdf(GRID)


LEVELS = np.linspace(-4.0, 4.0, 600)
CASES: dict[str, tuple[Callable[[], Prior], FloatArray, FloatArray, Given]] = {
    "hierarchical": (
        lambda: load_prior("hierarchical", n_arms=K, n_features=D),
        GRID,
        log_half_normal(0.3),
        hierarchical_given,
    ),
    "hierarchical, non-centred": (
        lambda: load_prior("hierarchical", n_arms=K, n_features=D, centred=False),
        GRID,
        log_half_normal(0.3),
        hierarchical_given,
    ),
    "log scale": (
        lambda: build(log_scale),
        LEVELS,
        stats.norm(-1.0, 0.5).logpdf(LEVELS),
        lambda level: (np.full(K * D, 0.3), np.exp(2.0 * level) * np.eye(K * D), SIGMA),
    ),
    "unknown noise": (
        lambda: load_prior("unknown_noise", n_arms=K, n_features=D, noise_scale=0.5),
        GRID,
        log_half_normal(0.5),
        lambda sigma: (np.zeros(K * D), 0.25 * np.eye(K * D), sigma),
    ),
    "scale of the noise": (
        lambda: build(conjugate),
        GRID,
        log_half_normal(0.5),
        lambda sigma: (np.zeros(K * D), 4.0 * sigma**2 * np.eye(K * D), sigma),
    ),
    "noise with the mean": (
        lambda: build(noise_with_the_mean),
        LEVELS,
        stats.norm(0.0, 0.7).logpdf(LEVELS),
        lambda level: (np.full(K * D, level), 0.25 * np.eye(K * D), 0.4 * np.exp(level)),
    ),
}


def noise_of(prior: Prior) -> GaussianNoise:
    return GaussianNoise(None if prior.has_sigma else SIGMA)


def data_from(prior: Prior, *, n_sets: int = 6) -> tuple[Statistics, list[GaussianRows]]:
    """Data sets from the belief, stacked and one by one."""
    rng = np.random.default_rng(8)
    beta, sigma = prior.draw_arrays(n_sets, rng=rng)
    sigmas = np.full(n_sets, SIGMA) if sigma is None else sigma
    rows = [gaussian_rows(b, COUNTS, sigma=s, rng=rng) for b, s in zip(beta, sigmas, strict=True)]
    return stacked([one.statistics for one in rows]), rows


def data_and_reference(name: str, prior: Prior, *, n_sets: int = 6) -> tuple[Statistics, list[Averaged]]:
    """Data sets from the belief, and their posteriors by quadrature."""
    _, grid, log_prior, given = CASES[name]
    data, rows = data_from(prior, n_sets=n_sets)
    return data, [averaged_over_scales(one, grid, log_prior, given) for one in rows]


def largest_z(batch: PosteriorBatch, reference: list[Averaged], *, shift: float = 0.0) -> float:
    """The largest error of means and variances over vouched data sets, in Monte Carlo errors."""
    assert batch.covariance is not None
    worst = []
    for m in np.flatnonzero(batch.vouched):
        one, root = reference[m], np.sqrt(batch.diagnostics["effective_size"][m])
        mean = batch.mean[m].reshape(-1) + shift * np.sqrt(np.diag(one.covariance))
        # A coefficient that the scale does not move has no Monte Carlo error, only that of the grid.
        worst.append(np.abs(mean - one.mean) / (one.mean_spread / root + 1e-6))
        worst.append(np.abs(np.diag(batch.covariance[m] - one.covariance)) / (one.variance_spread / root + 1e-6))
    return float(np.max(worst))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "non-centred" in name else ()) for name in CASES]
)
def test_moments_are_those_of_quadrature(name: str):
    prior = CASES[name][0]()
    data, reference = data_and_reference(name, prior)
    batch = ConditionalEngine(prior, noise_of(prior)).fit(data, covariance=True)
    assert batch.vouched.mean() > 0.5
    assert largest_z(batch, reference) < LIMIT
    assert largest_z(batch, reference, shift=0.1) > LIMIT  # a tenth of a posterior sd does not pass


@pytest.mark.slow
def test_a_wrong_prior_of_the_scale_is_noticed():
    prior = load_prior("hierarchical", n_arms=K, n_features=D, tau_scale=0.6)
    data, reference = data_and_reference("hierarchical", load_prior("hierarchical", n_arms=K, n_features=D))
    batch = ConditionalEngine(prior, GaussianNoise(SIGMA)).fit(data, covariance=True)
    assert largest_z(batch, reference) > LIMIT


def test_noise_drawn_apart_from_the_mean_is_noticed():
    """As if the noise told nothing about beta: the mistake that conditioning on what they share prevents."""

    def apart() -> None:
        pm.Normal("beta", pm.Normal("level", 0.0, 0.7), 0.5, dims=DIMS)
        pm.Deterministic("sigma", 0.4 * pm.math.exp(pm.Normal("other", 0.0, 0.7)))

    prior = build(apart)
    data, reference = data_and_reference("noise with the mean", build(noise_with_the_mean))
    batch = ConditionalEngine(prior, GaussianNoise()).fit(data, covariance=True)
    assert largest_z(batch, reference) > LIMIT


def test_draws_have_the_moments():
    for name in ("hierarchical", "unknown noise"):
        prior = CASES[name][0]()
        data, reference = data_and_reference(name, prior, n_sets=2)
        draws = ConditionalEngine(prior, noise_of(prior)).draw(data, 4000, rng=np.random.default_rng(1))
        for m, one in enumerate(reference):
            flat = draws[m].reshape(4000, -1)
            sd = np.sqrt(np.diag(one.covariance))
            error = sd / np.sqrt(4000) + one.mean_spread / np.sqrt(200)
            assert (np.abs(flat.mean(axis=0) - one.mean) < LIMIT * error).all()
            ratio = flat.var(axis=0) / np.diag(one.covariance)
            spread = 3.0 * np.sqrt(2.0 / 4000) + one.variance_spread / np.diag(one.covariance) / np.sqrt(200)
            assert (np.abs(ratio - 1.0) < LIMIT * spread).all()


# --- what is conditioned on ------------------------------------------------------------------------------------------


def student_arms() -> None:
    spread = pm.StudentT("t", nu=4.0, mu=0.0, sigma=1.0, shape=(K, D))
    pm.Deterministic("beta", 0.3 + 0.5 * spread, dims=DIMS)


def one_heavy_arm() -> None:
    normal = pm.Normal("normal", 0.0, 1.0, shape=(2, D))
    heavy = pm.StudentT("heavy", nu=4.0, mu=0.0, sigma=1.0, shape=(1, D))
    pm.Deterministic("beta", pm.math.concatenate([normal, heavy]), dims=DIMS)


def spike_and_slab() -> None:
    kept = pm.Bernoulli("kept", 0.5, shape=(K, D))
    pm.Deterministic("beta", kept * pm.HalfNormal("s", 1.0) * pm.Normal("z", 0.0, 1.0, shape=(K, D)), dims=DIMS)


def product_of_normals() -> None:
    arm = pm.Normal("u", 0.0, 1.0, dims="arm")
    pm.Deterministic("beta", arm[:, None] * pm.Normal("v", 0.0, 1.0, dims="feature"), dims=DIMS)


def folded() -> None:
    pm.Deterministic("beta", pm.HalfNormal("s", 1.0) * abs(pm.Normal("z", 0.0, 1.0, shape=(K, D))), dims=DIMS)


def noise_of_beta() -> None:
    beta = pm.Normal("beta", 0.0, 1.0, dims=DIMS)
    pm.Deterministic("sigma", pm.math.exp(beta[0, 0] - 1.0))


def two_levels() -> None:
    pm.Normal("beta", pm.Normal("m", 0.0, 1.0), pm.math.exp(pm.Normal("level", pm.Normal("top", 0, 1), 1)), dims=DIMS)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: load_prior("hierarchical", n_arms=K, n_features=D), {"tau"}),
        (lambda: load_prior("hierarchical", n_arms=K, n_features=D, centred=False), {"tau"}),
        (lambda: load_prior("hierarchical", n_arms=K, n_features=D, tau=0.3), None),  # Gaussian as it stands
        (lambda: load_prior("horseshoe", n_arms=K, n_features=D), {"tau", "lam", "slab"}),
        (lambda: load_prior("correlated", n_arms=K, n_features=D), {"partial"}),
        (lambda: load_prior("unknown_noise", n_arms=K, n_features=D), set()),
        (lambda: build(log_scale), {"level"}),
        (lambda: build(two_levels), {"level", "top"}),
        (lambda: build(conjugate), {"sigma"}),
        (lambda: build(noise_with_the_mean), {"level"}),
        (lambda: build(noise_of_beta), None),
        (lambda: build(spike_and_slab), {"kept", "s"}),
        (lambda: load_prior("student_t", n_arms=K, n_features=D), {"scales of beta"}),
        (lambda: load_prior("per_arm", n_arms=K, n_features=D), {"scales of beta_arm_1", "scales of beta_arm_2"}),
        (lambda: build(student_arms), {"scales of t"}),
        (lambda: build(one_heavy_arm), {"scales of heavy"}),
        (lambda: load_prior("mixture", n_arms=K, n_features=D), None),
        (lambda: load_prior("skewed", n_arms=K, n_features=D), None),
        (lambda: build(product_of_normals), None),
        (lambda: build(folded), None),
    ],
)
def test_conditioners(make: Callable[[], Prior], expected: set[str] | None):
    prior = make()
    assert prior.is_conditionally_gaussian == (expected is not None)
    if expected is None:
        with pytest.raises(BeliefError, match=r"Gaussian given its scales.*engine='auto' or engine='nuts'"):
            ConditionalEngine(prior, GaussianNoise(1.0))
    else:
        assert prior._source is not None
        found = prior._source.conditioners
        assert found is not None
        assert {str(v.name) for v in found.drawn} | {f"scales of {v.name}" for v in found.mixed} == expected
        assert prior.conditional_law(8).law.blocks[0].n_components == 8


@pytest.mark.slow
def test_the_law_given_the_scales_has_the_moments_of_the_belief():
    """Averaged over its draws, the mixture of Gaussians is the belief: mean and covariance of beta."""
    for prior in (load_prior("horseshoe", n_arms=K, n_features=D, scale=0.5), build(two_levels)):
        law = prior.conditional_law(4096).law
        drawn = law.draw(20_000, rng=np.random.default_rng(0))
        beta = prior.draw_arrays(20_000, rng=np.random.default_rng(1))[0]
        for part in (lambda b: np.tanh(b), lambda b: np.tanh(b) ** 2):  # bounded: the tails are heavy
            first, second = part(drawn), part(beta)
            error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 20_000 + first.var(axis=0) / 4096)
            assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < LIMIT * error).all()


def test_independent_arms_stay_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(100, 1),))
    prior = load_prior("horseshoe", n_arms=K, n_features=D)
    assert [block.arms for block in prior.conditional_law(16).law.blocks] == [(0,), (1,), (2,)]
    engine = ConditionalEngine(prior, GaussianNoise(SIGMA))
    one = simulate_statistics(prior, (6, 6, 6), SIGMA, 4, 3)
    other = Statistics(xtx=one.xtx, xty=np.concatenate([one.xty[:, :2], -one.xty[:, 2:]], axis=1), yty=one.yty, n=one.n)
    first, second = engine.fit(one, covariance=True), engine.fit(other, covariance=True)
    np.testing.assert_array_equal(first.mean[:, :2], second.mean[:, :2])
    assert (first.mean[:, 2] != second.mean[:, 2]).any()
    assert first.covariance is not None
    np.testing.assert_array_equal(first.covariance[:, :2, 2:], 0.0)


def test_an_unknown_noise_couples_the_arms():
    prior = load_prior("unknown_noise", n_arms=K, n_features=D)
    assert prior.arms_independent
    law = prior.conditional_law(16)
    assert [block.arms for block in law.law.blocks] == [(0, 1, 2)]
    assert law.only_sigma
    assert law.sigma is not None
    assert law.sigma.shape == (16,)


def test_groups_without_samples_keep_their_prior():
    def skewed_scales() -> None:
        centre = pm.Gamma("centre", 2.0, 2.0, dims="arm")
        pm.Normal("beta", centre[:, None], 0.3, dims=DIMS)

    prior = build(skewed_scales)
    batch = ConditionalEngine(prior, GaussianNoise(SIGMA)).fit(simulate_statistics(prior, (5, 0, 5), SIGMA, 3, 0))
    np.testing.assert_allclose(batch.mean[:, 1], 1.0, rtol=1e-12)
    assert (np.abs(batch.mean[:, 0] - 1.0) > 1e-3).all()


# --- the engine's bookkeeping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hierarchical", "unknown noise"])
def test_chunks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch):
    prior = CASES[name][0]()
    data, _ = data_from(prior)
    engine = ConditionalEngine(prior, noise_of(prior))
    whole = engine.fit(data, covariance=True)
    monkeypatch.setattr(conditional_module, "_CHUNK_VALUES", 1)
    pieces = engine.fit(data, covariance=True)
    np.testing.assert_allclose(pieces.mean, whole.mean, rtol=1e-9, atol=1e-12)
    assert pieces.covariance is not None
    assert whole.covariance is not None
    np.testing.assert_allclose(pieces.covariance, whole.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pieces.diagnostics["khat"], whole.diagnostics["khat"], atol=1e-6)


def test_data_sets_take_turns_with_several_sets_of_draws(monkeypatch: pytest.MonkeyPatch):
    """An error that all data sets share would not average out over them."""
    prior = build(log_scale)
    data, _ = data_from(prior, n_sets=24)
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(512, 4),))
    monkeypatch.setattr(ConditionalEngine, "_grids", ())
    engine, used = ConditionalEngine(prior, GaussianNoise(SIGMA)), []
    fit_chunk = engine._fit

    def recorded(part: Statistics, attempt: Attempt, *, replicate: int, covariance: bool = False) -> PosteriorBatch:
        used.extend([replicate] * part.n_sets)
        return fit_chunk(part, attempt, replicate=replicate, covariance=covariance)

    monkeypatch.setattr(engine, "_fit", recorded)
    engine.fit(data)
    assert np.bincount(used, minlength=4).min() > 0
    assert len(used) == 24


def test_more_draws_where_the_first_do_not_do(monkeypatch: pytest.MonkeyPatch):
    prior = build(log_scale)
    data, _ = data_from(prior)
    monkeypatch.setattr(ConditionalEngine, "_grids", ())
    engine = ConditionalEngine(prior, GaussianNoise(SIGMA))
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(100, 1), Attempt(1000, 2)))
    batch = engine.fit(data)
    n_draws = batch.diagnostics["effective_size"] / batch.diagnostics["effective_share"]
    np.testing.assert_allclose(n_draws, 1000)
    assert batch.vouched.any()
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(100, 1),))
    assert not engine.fit(data).vouched.any()


def test_rewards_are_linear_in_the_mean():
    prior = build(log_scale)
    data, _ = data_from(prior)
    users = np.random.default_rng(0).standard_normal((4, D))
    batch = ConditionalEngine(prior, GaussianNoise(SIGMA)).fit(data, users=users)
    assert batch.reward is not None
    np.testing.assert_allclose(batch.reward, np.einsum("ud,mkd->muk", users, batch.mean), rtol=1e-12, atol=1e-15)


def test_a_noise_that_may_be_negative_is_refused():
    def signed_noise() -> None:
        pm.Normal("beta", 0.0, 1.0, dims=DIMS)
        pm.Deterministic("sigma", pm.Normal("signed", 0.0, 1.0) ** 3)  # a sign that is seen in the draws only

    engine = ConditionalEngine(build(signed_noise), GaussianNoise())
    with pytest.raises(BeliefError, match="positive"):
        engine.fit(simulate_statistics(load_prior("gaussian", n_arms=K, n_features=D), 3, 1.0, 1, 0))


def test_discrete_scales_are_not_sent_to_nuts(monkeypatch: pytest.MonkeyPatch):
    """NUTS cannot sample them: what is not vouched for comes back marked, and nothing fails."""
    monkeypatch.setattr(conditional_module, "LADDER", (Attempt(100, 1),))
    prior = build(spike_and_slab)
    data = simulate_statistics(prior, 20, 0.01, 3, 0)
    batch = make_engine(prior, GaussianNoise(0.01)).fit(data)
    assert not batch.vouched.any()
    assert set(batch.engine) == {"conditional"}
    assert batch.n_sent == 0
    with pytest.raises(BeliefError, match=r"nuts engine cannot sample the discrete variables.*kept"):
        make_engine(prior, GaussianNoise(0.01), engine="nuts").fit(data)


# --- against long chains ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "n"),
    [("correlated", {"n_features": 3}, 12), ("horseshoe", {"n_features": 2, "scale": 0.5}, 8)],
)
def test_agrees_with_long_chains(name: str, parameters: dict[str, Any], n: int):
    prior = load_prior(name, n_arms=2, **parameters)
    data = simulate_statistics(prior, n, SIGMA, 4, 2)
    found = ConditionalEngine(prior, GaussianNoise(SIGMA)).fit(data, covariance=True)
    settings = NutsSettings(draws=8000, tune=2000, target_accept=0.99)
    reference = NutsEngine(prior, GaussianNoise(SIGMA), settings=settings).fit(data)
    assert found.vouched.any()
    assert found.covariance is not None
    kept = found.vouched & (reference.diagnostics["rhat"] < 1.01)
    assert kept.any()
    sd = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2)).reshape(found.mean.shape)
    error = (
        sd * np.sqrt(1.0 / found.diagnostics["effective_size"] + 1.0 / reference.diagnostics["ess_bulk"])[:, None, None]
    )
    assert (np.abs(found.mean - reference.mean) < LIMIT * error)[kept].all()
    assert not (np.abs(found.mean + 0.5 * sd - reference.mean) < LIMIT * error)[kept].all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "its_own"), [("gibbs", "sweeps"), ("nuts", "rhat")])
def test_what_is_not_vouched_for_goes_on(name: str, its_own: str, monkeypatch: pytest.MonkeyPatch):
    """To Gibbs sampling; to NUTS where that cannot answer."""
    if name == "nuts":
        monkeypatch.setattr("rcb_bayes.posterior.engines._gibbs_or_none", lambda *_: None)
    prior = load_prior("hierarchical", n_arms=2, n_features=2, centred=False)
    data = simulate_statistics(prior, 20, 0.01, 3, 1)
    forced = simulate_statistics(load_prior("gaussian", n_arms=2, n_features=2, scale=8.0), 20, 0.01, 1, 1)
    batch = make_engine(prior, GaussianNoise(0.01)).fit(stacked([data, forced]))  # arms far apart: tau is in its tail
    assert batch.engine[-1] == name
    assert batch.n_sent == (batch.engine == "nuts").sum()
    assert np.isfinite(batch.diagnostics[its_own][batch.engine == name]).all()
    assert np.isnan(batch.diagnostics[its_own][batch.engine == "conditional"]).all()
    assert "goes to nuts" in batch.reason
