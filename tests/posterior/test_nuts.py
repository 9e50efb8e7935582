"""NUTS: agreement with exact posteriors, one compilation for many data sets, and honest diagnostics."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import nutpie
import pymc
import pytest
from scipy import stats as scipy_stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import BeliefError, DataError, RcbError
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.posterior import DiagnosticWarning, PosteriorBatch, Rows, Statistics, make_engine
from rcb_bayes.posterior.nuts import NutsEngine, NutsSettings, diagnose, is_good, rhat_and_bulk_size
from rcb_bayes.posterior.results import warn_if_not_vouched
from rcb_bayes.schema import FloatArray
from tests.posterior.references import (
    LIMIT,
    averaged_over_scales,
    bernoulli_rows,
    gaussian_rows,
    logit_quadrature,
    stacked,
)
from tests.posterior.twins import simulate_statistics

# Their annotations do not fit their own use.
pm: Any = pymc
stats: Any = scipy_stats
DIMS = ("arm", "feature")
SIGMA = 0.5
# Coupled arms; the last coefficient is three quarters of the third, so that the covariance is singular.
ROOT = np.array([[1.0, 0.0, 0.0], [0.4, 0.9, 0.0], [0.3, 0.0, 0.6], [0.225, 0.0, 0.45]])
COVARIANCE = ROOT @ ROOT.T
PRIOR = Prior.gaussian([[0.0, 1.0], [-0.5, 0.3]], COVARIANCE)


class Compilations:
    """An engine, and how often it has been compiled since."""

    def __init__(self, engine: NutsEngine, patch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.count = 0
        compile_model = nutpie.compile_pymc_model

        def counted(*args: Any, **options: Any) -> Any:
            self.count += 1
            return compile_model(*args, **options)

        patch.setattr(nutpie, "compile_pymc_model", counted)


@pytest.fixture(scope="module")
def compiled() -> Iterator[Compilations]:
    """The one model that the fast tests compile."""
    with pytest.MonkeyPatch.context() as patch:
        yield Compilations(NutsEngine(PRIOR, GaussianNoise(SIGMA), seed=3), patch)


def with_settings(engine: NutsEngine, settings: NutsSettings) -> NutsEngine:
    """Another engine that takes over what the first has compiled."""
    other = NutsEngine(engine.prior, engine.noise, settings=settings)
    other.__dict__["_compiled"] = engine._compiled
    return other


def standard_deviations(batch: PosteriorBatch) -> FloatArray:
    assert batch.covariance is not None
    return np.sqrt(np.diagonal(batch.covariance, axis1=1, axis2=2)).reshape(batch.mean.shape)


def largest_z(batch: PosteriorBatch, mean: FloatArray, sd: FloatArray) -> float:
    """The largest distance from a reference, in Monte Carlo errors."""
    error = sd / np.sqrt(batch.diagnostics["ess_bulk"])[:, None, None]
    return float((np.abs(batch.mean - mean) / error).max())


def test_agrees_with_the_exact_posterior(compiled: Compilations):
    data = simulate_statistics(PRIOR, (3, 12), SIGMA, 4, 0)
    users = np.array([[1.0, 0.5], [0.0, -2.0]])
    batch = compiled.engine.fit(data, covariance=True, users=users)
    exact = make_engine(PRIOR, GaussianNoise(SIGMA)).fit(data, covariance=True, users=users)
    sd = standard_deviations(exact)
    assert batch.vouched.all()
    assert largest_z(batch, exact.mean, sd) < LIMIT < largest_z(batch, exact.mean + 0.2 * sd, sd)
    assert batch.covariance is not None
    assert exact.covariance is not None
    assert batch.reward is not None
    scale = (sd.reshape(4, -1)[:, :, None] * sd.reshape(4, -1)[:, None]) * np.sqrt(
        2.0 / batch.diagnostics["ess_bulk"][:, None, None]
    )
    assert (np.abs(batch.covariance - exact.covariance) < LIMIT * scale).all()
    np.testing.assert_allclose(batch.reward, np.einsum("ud,mkd->muk", users, batch.mean), rtol=1e-9, atol=1e-12)


def test_diagnostics_are_reported(compiled: Compilations):
    batch = compiled.engine.fit(simulate_statistics(PRIOR, 5, SIGMA, 2, 1))
    assert set(batch.engine) == {"nuts"}
    assert (batch.diagnostics["rhat"] <= 1.01).all()
    assert (batch.diagnostics["ess_bulk"] > 200).all()
    np.testing.assert_array_equal(batch.diagnostics["divergences"], 0)
    assert "nutpie" in batch.reason


def test_other_data_do_not_compile_again(compiled: Compilations):
    compiled.engine.fit(simulate_statistics(PRIOR, 2, SIGMA, 1, 1))
    before = compiled.count
    for n in (0, 1, 40, (7, 0)):
        compiled.engine.fit(simulate_statistics(PRIOR, n, SIGMA, 1, 1))
    assert before == compiled.count <= 1


def test_arms_without_samples(compiled: Compilations):
    """Arm 1 has none, and learns from arm 0 what their covariance lets it."""
    data = simulate_statistics(PRIOR, (30, 0), SIGMA, 2, 2)
    exact = make_engine(PRIOR, GaussianNoise(SIGMA)).fit(data, covariance=True)
    assert (np.abs(exact.mean[:, 1] - [-0.5, 0.3]) > 0.01).any()
    assert largest_z(compiled.engine.fit(data), exact.mean, standard_deviations(exact)) < LIMIT


def test_seeds(compiled: Compilations):
    engine, data = compiled.engine, simulate_statistics(PRIOR, 4, SIGMA, 3, 3)
    first = engine.fit(data)
    np.testing.assert_array_equal(first.mean, engine.fit(data).mean)
    # An answer is the data set's own, whatever others are fitted with it.
    np.testing.assert_array_equal(first.mean[[2, 0]], engine.fit(data.take(np.array([2, 0]))).mean)
    other = with_settings(engine, NutsSettings())  # of another seed
    assert (other.fit(data).mean != first.mean).all()


def test_labels_cost_no_digit(compiled: Compilations):
    data = simulate_statistics(PRIOR, 4, SIGMA, 1, 4)
    tree = compiled.engine.sample(data)
    chains = compiled.engine._chains(data, seed=int(data.fingerprints()[0]))
    np.testing.assert_array_equal(tree["posterior"]["beta"].values, chains.draws)
    assert chains.draws.shape == (2, 1000, 2, 2)


def test_draws_are_spread_over_the_chains(compiled: Compilations):
    data = simulate_statistics(PRIOR, 4, SIGMA, 2, 5)
    draws = compiled.engine.draw(data, 300, rng=np.random.default_rng(0))
    exact = make_engine(PRIOR, GaussianNoise(SIGMA)).fit(data, covariance=True)
    assert draws.shape == (2, 300, 2, 2)
    error = standard_deviations(exact) / np.sqrt(300 / 2)  # neighbours are correlated
    assert (np.abs(draws.mean(axis=1) - exact.mean) < LIMIT * error).all()


def test_few_draws_are_not_vouched_for(compiled: Compilations):
    engine = with_settings(compiled.engine, NutsSettings(draws=20, tune=20, retry=False))
    batch = engine.fit(simulate_statistics(PRIOR, 3, SIGMA, 2, 6))
    assert not batch.vouched.any()
    with pytest.warns(DiagnosticWarning, match=r"2 of 2 posteriors are not vouched for.*effective size down to"):
        warn_if_not_vouched(batch)
    again = with_settings(compiled.engine, NutsSettings(draws=100, tune=200))  # too few, but four times as many will do
    assert again.fit(simulate_statistics(PRIOR, 3, SIGMA, 2, 6)).diagnostics["ess_bulk"].min() > 200


def test_singular_beliefs_stay_singular(compiled: Compilations):
    draws = compiled.engine.draw(simulate_statistics(PRIOR, 3, SIGMA, 1, 7), 50, rng=np.random.default_rng(0))[0]
    np.testing.assert_allclose(draws[:, 1, 1] - 0.3, 0.75 * (draws[:, 1, 0] + 0.5), rtol=1e-4, atol=1e-6)


def test_rows_of_gaussian_rewards_are_refused(compiled: Compilations):
    rows = Rows(x=np.zeros((1, 1, 2)), arm=np.zeros((1, 1), dtype=int), reward=np.zeros((1, 1)), n_arms=2)
    with pytest.raises(DataError, match="Gaussian rewards are given as Statistics"):
        compiled.engine.fit(rows)
    with pytest.raises(DataError, match="Bernoulli rewards are given as Rows"):
        NutsEngine(PRIOR, BernoulliLogit()).fit(simulate_statistics(PRIOR, 1, SIGMA, 1, 0))


def test_an_unknown_noise_needs_a_belief_about_it():
    with pytest.raises(RcbError, match="no variable 'sigma'"):
        NutsEngine(PRIOR, GaussianNoise())


def test_discrete_variables_are_refused_before_sampling():
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["x"]}) as model:
        kept = pm.Bernoulli("kept", 0.5, dims=DIMS)
        pm.Deterministic("beta", kept * pm.HalfNormal("s", 1.0) * pm.Normal("z", 0, 1, shape=(2, 1)), dims=DIMS)
    prior = Prior.from_pymc(model, name="spikes")
    with pytest.raises(BeliefError, match=r"discrete variables of 'spikes' \(kept\).*pm\.Mixture"):
        NutsEngine(prior, GaussianNoise(1.0)).fit(simulate_statistics(prior, 2, 1.0, 1, 0))


# --- diagnostics of given chains -------------------------------------------------------------------------------------


def chains(rng: np.random.Generator) -> FloatArray:
    return rng.standard_normal((2, 1000, 2, 2))


def test_good_chains_are_vouched_for():
    found = diagnose(chains(np.random.default_rng(0)), 0)
    assert is_good(found)
    assert found["ess_bulk"] == pytest.approx(2000, rel=0.2)


@pytest.mark.parametrize("spoil", ["apart", "drifting", "slow", "not finite", "stuck"])
def test_one_bad_coefficient_is_enough(spoil: str):
    rng = np.random.default_rng(1)
    draws = chains(rng)
    if spoil == "apart":
        draws[1, :, 1, 0] += 0.5
    elif spoil == "drifting":
        draws[:, :, 1, 0] += np.linspace(-1, 1, 1000)
    elif spoil == "slow":
        draws[:, :, 1, 0] = np.repeat(rng.standard_normal((2, 40)), 25, axis=1)
    elif spoil == "not finite":
        draws[0, 3, 1, 0] = np.nan
    else:
        draws[0, :, 1, 0] = 3.0  # one chain has not moved
    assert not is_good(diagnose(draws, 0))


def test_ranks_do_not_see_a_tail_that_one_chain_has_met():
    """Thirty draws far out: r-hat and bulk size by ranks are fine, the chains' means are not."""
    draws = chains(np.random.default_rng(4))
    draws[1, 400:430, 0, 1] += 60.0
    found = diagnose(draws, 0)
    assert found["rhat"] <= 1.01
    assert found["ess_bulk"] >= 200
    assert not is_good(found)
    assert is_good(found | {"mean_error": 0.1, "gap": 0.1})


@pytest.mark.parametrize("n_draws", [99, 1000])
def test_figures_are_those_of_arviz(n_draws: int):
    """Good, shifted, slow, drifting and tied draws, and a chain that has not moved."""
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(2)
    draws = rng.standard_normal((6, 2, n_draws))
    draws[1, 1] += 1.0
    draws[2] = np.cumsum(draws[2], axis=1)
    draws[3] += np.linspace(-1.0, 1.0, n_draws)
    draws[4] = draws[4].round(1)
    draws[5, 0] = 3.0
    rhat, size = rhat_and_bulk_size(draws)
    np.testing.assert_allclose(rhat, array_stats.rhat(draws), rtol=1e-12)
    np.testing.assert_allclose(size, array_stats.ess(draws), rtol=1e-12)


def test_a_divergence_is_enough():
    assert not is_good(diagnose(chains(np.random.default_rng(0)), 1))


@pytest.mark.parametrize(
    ("rhat", "size", "divergences", "factor", "expected"),
    [
        (1.005, 900.0, 0.0, 1, 0),  # good
        (1.015, 900.0, 0.0, 1, 2),  # bad luck
        (1.015, 900.0, 0.0, 2, 4),
        (1.1, 900.0, 0.0, 1, 4),
        (1.015, 100.0, 0.0, 1, 4),
        (1.015, 900.0, 3.0, 1, 4),
        (np.nan, np.nan, 0.0, 1, 4),
        (1.1, 50.0, 3.0, 4, 0),  # nothing is left to try
    ],
)
def test_how_many_draws_to_try_next(rhat: float, size: float, divergences: float, factor: int, expected: int):
    found = {"rhat": rhat, "ess_bulk": size, "divergences": divergences, "mean_error": 0.1, "gap": 0.1}
    assert NutsEngine(PRIOR, GaussianNoise(SIGMA))._next_factor(found, factor) == expected
    patient = NutsEngine(PRIOR, GaussianNoise(SIGMA), settings=NutsSettings(retry=False))
    assert patient._next_factor(found, factor) == 0


@pytest.mark.parametrize(("error", "gap", "expected"), [(0.1, 0.1, 0), (0.2, 0.1, 2), (0.3, 0.1, 4), (0.1, 0.5, 2)])
def test_errors_of_means_ask_for_more_draws(error: float, gap: float, expected: int):
    found = {"rhat": 1.0, "ess_bulk": 900.0, "divergences": 0.0, "mean_error": error, "gap": gap}
    assert NutsEngine(PRIOR, GaussianNoise(SIGMA))._next_factor(found, 1) == expected


def test_known_coefficients_do_not_count():
    draws = chains(np.random.default_rng(0))
    draws[:, :, 0, 0] = 0.7
    assert is_good(diagnose(draws, 0))
    assert is_good(diagnose(np.full((2, 1000, 2, 2), 0.7), 0))


# --- other beliefs and rewards, each with a compilation of its own ---------------------------------------------------


@pytest.mark.slow
def test_an_unknown_noise_agrees_with_quadrature(monkeypatch: pytest.MonkeyPatch):
    prior = load_prior("unknown_noise", n_arms=2, n_features=2, noise_scale=0.5)
    rng = np.random.default_rng(3)
    beta, sigma = prior.draw_arrays(5, rng=rng)
    assert sigma is not None
    rows = [gaussian_rows(b, (3, 8), sigma=s, rng=rng) for b, s in zip(beta, sigma, strict=True)]
    counter = Compilations(NutsEngine(prior, GaussianNoise()), monkeypatch)
    batch = counter.engine.fit(stacked([one.statistics for one in rows]))
    grid = np.geomspace(1e-3, 3.0, 800)
    log_prior = stats.halfnorm(scale=0.5).logpdf(grid)
    exact = [averaged_over_scales(r, grid, log_prior, lambda s: (np.zeros(4), 0.25 * np.eye(4), s)) for r in rows]
    mean = np.stack([one.mean for one in exact]).reshape(5, 2, 2)
    sd = np.sqrt(np.stack([np.diag(one.covariance) for one in exact])).reshape(5, 2, 2)
    assert counter.count == 1
    assert batch.vouched.mean() >= 0.6
    assert largest_z(batch, mean, sd) < LIMIT < largest_z(batch, mean + 0.2 * sd, sd)


@pytest.mark.slow
def test_a_hierarchy_agrees_with_quadrature():
    prior = load_prior("hierarchical", n_arms=3, n_features=1, centred=False)
    rng = np.random.default_rng(4)
    beta = prior.draw_arrays(4, rng=rng)[0]
    rows = [gaussian_rows(b, (2, 0, 6), sigma=0.4, rng=rng) for b in beta]
    batch = NutsEngine(prior, GaussianNoise(0.4)).fit(stacked([one.statistics for one in rows]))
    grid = np.linspace(1e-3, 2.0, 600)
    shared = 0.16 * np.ones((3, 3))
    log_prior = stats.halfnorm(scale=0.3).logpdf(grid)
    exact = [
        averaged_over_scales(r, grid, log_prior, lambda t: (np.zeros(3), shared + t**2 * np.eye(3), 0.4)) for r in rows
    ]
    mean = np.stack([one.mean for one in exact])[..., None]
    sd = np.sqrt(np.stack([np.diag(one.covariance) for one in exact]))[..., None]
    assert largest_z(batch, mean, sd) < LIMIT < largest_z(batch, mean + 0.3 * sd, sd)


@pytest.mark.slow
def test_rows_of_any_length_do_not_compile_again(monkeypatch: pytest.MonkeyPatch):
    """One data set after another, of 0 to 200 rows, some of them padding, against quadrature."""
    prior = Prior.gaussian(np.zeros((2, 1)), 1.0)
    counter = Compilations(NutsEngine(prior, BernoulliLogit()), monkeypatch)
    users = np.array([[1.0], [-2.0]])
    for n in (0, 1, 63, 64, 65, 200):
        rows = bernoulli_rows(prior, n, n_sets=1, seed=n)
        arm = rows.arm.copy()
        arm[:, : n // 3] = -1
        rows = Rows(x=rows.x, arm=arm, reward=rows.reward, n_arms=2)
        batch = counter.engine.fit(rows, users=users)
        assert batch.reward is not None
        for k in range(2):
            log_density = lambda b: -0.5 * (b**2).sum(axis=-1)  # noqa: E731
            (exact,) = logit_quadrature(log_density, rows, arm=k, users=users, knots=(0.0,), scale=1.0)
            root = np.sqrt(batch.diagnostics["ess_bulk"][0])
            assert (np.abs(batch.mean[0, k] - exact.mean) < LIMIT * exact.sd / root).all()
            assert (np.abs(batch.reward[0, :, k] - exact.reward) < LIMIT * 0.5 / root).all()
    assert counter.count == 1


@pytest.mark.slow
def test_a_noise_of_one_is_a_noise():
    """Its logarithm is zero, and terms that vanish take their data with them."""
    prior = Prior.gaussian(np.zeros((2, 1)), 1.0)
    data = simulate_statistics(prior, 3, 1.0, 2, 0)
    exact = make_engine(prior, GaussianNoise(1.0)).fit(data, covariance=True)
    batch = NutsEngine(prior, GaussianNoise(1.0)).fit(data)
    assert largest_z(batch, exact.mean, standard_deviations(exact)) < LIMIT


@pytest.mark.slow
def test_a_funnel_is_not_vouched_for():
    """Scales that may be anything, in centred form, and data that say little: the sampler sticks, and says so."""
    with pm.Model(coords={"arm": ["a", "b"], "feature": [f"x{k}" for k in range(5)]}) as model:
        level = pm.Normal("level", 0.0, 3.0)
        pm.Normal("beta", 0.0, pm.math.exp(level / 2), dims=DIMS)
    prior = Prior.from_pymc(model, name="funnel")
    data = simulate_statistics(load_prior("gaussian", n_arms=2, n_features=5), 1, 3.0, 2, 0)
    batch = NutsEngine(prior, GaussianNoise(3.0), settings=NutsSettings(draws=300, tune=300)).fit(data)
    assert not batch.vouched.any()
    with pytest.warns(DiagnosticWarning, match=r"r-hat up to .*effective size down to.*non-centred"):
        warn_if_not_vouched(batch)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "spiky"])
def test_mixtures_are_never_vouched_for(name: str):
    """Chains that all sit in one camp look perfect, and are wrong."""
    if name == "mixture":
        prior, centre = load_prior("mixture", n_arms=2, n_features=1, means=(4.0, -4.0)), 0.0
    else:  # no Gaussians, so that the belief has no closed form
        parts = [pm.StudentT.dist(nu=4.0, mu=m, sigma=0.1) for m in (3.0, -3.0)]
        with pm.Model(coords={"arm": ["a", "b"], "feature": ["x"]}) as model:
            pm.Mixture("beta", w=[0.5, 0.5], comp_dists=parts, dims=DIMS)
        prior, centre = Prior.from_pymc(model), 0.0
    assert prior.has_mixture
    # Chains start where the data set says, so that those which say nothing, each otherwise, are tries of their luck.
    x, y = 1e-6, 1e-3 * np.arange(24.0)[:, None] * np.ones(2)  # one sample of each arm
    one = np.ones((24, 2))
    data = Statistics(xtx=x**2 * one[:, :, None, None], xty=(x * y)[:, :, None], yty=y**2, n=one)
    batch = NutsEngine(prior, GaussianNoise(0.5), settings=NutsSettings(retry=False)).fit(data)
    wrong = np.abs(batch.mean - centre).max(axis=(1, 2)) > 1.5
    looks_good = (batch.diagnostics["rhat"] <= 1.01) & (batch.diagnostics["ess_bulk"] > 200)
    assert (wrong & looks_good).any()
    assert not batch.vouched.any()
    with pytest.warns(DiagnosticWarning, match="may miss a camp of the mixture"):
        warn_if_not_vouched(batch)
