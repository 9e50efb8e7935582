"""One posterior as an ArviZ tree: groups, labels, and means that a summary repeats to the last digit."""

from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pytest
import xarray as xr

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import DataError
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.posterior import (
    DiagnosticWarning,
    Rows,
    Statistics,
    fit_posterior,
    make_engine,
    posterior_means,
    summary_means,
)
from rcb_bayes.posterior import importance as importance_module
from rcb_bayes.posterior.importance import Attempt
from rcb_bayes.posterior.nuts import NutsEngine, NutsSettings
from tests.posterior.references import LIMIT, bernoulli_rows
from tests.posterior.twins import simulate_statistics

ARMS, FEATURES = ("old", "new"), ("age", "dose", "site")
SIGMA = 0.3
KNOWN = GaussianNoise(SIGMA)


def belief(name: str, **parameters: Any) -> Prior:
    return load_prior(name, n_arms=2, n_features=3, arms=list(ARMS), features=list(FEATURES), **parameters)


@pytest.fixture(scope="module")
def prior() -> Prior:
    return belief("student_t")


@pytest.fixture(scope="module")
def data(prior: Prior) -> Statistics:
    return simulate_statistics(prior, (7, 4), SIGMA, 1, 0)


@pytest.fixture(scope="module")
def tree(prior: Prior, data: Statistics) -> Any:
    return fit_posterior(prior, KNOWN, data, seed=1)


def test_groups_and_labels(tree: Any, data: Statistics):
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data"}
    beta = tree["posterior"]["beta"]
    assert beta.dims == ("chain", "draw", "arm", "feature")
    assert tuple(beta.coords["arm"].values) == ARMS
    assert tuple(beta.coords["feature"].values) == FEATURES
    assert {"khat", "effective_size", "effective_share", "vouched", "diverging"} <= set(tree["sample_stats"].data_vars)
    assert tree["sample_stats"]["vouched"].dims == ("chain", "draw")
    observed = tree["observed_data"]
    assert observed["xtx"].dims == ("arm", "feature", "feature_2")
    assert float(observed["xty"].sel(arm="new", feature="site")) == data.xty[0, 1, 2]
    assert list(observed["n"].values) == [7, 4]
    assert tree.attrs["belief"] == "student_t"
    assert tree.attrs["engine"].startswith("importance: ")


def test_summaries_repeat_the_engines_means(tree: Any, prior: Prior, data: Statistics):
    found = posterior_means(prior, KNOWN, data, seed=1).mean[0]
    means = summary_means(tree)
    assert means.dims == ("arm", "feature")
    assert tuple(means.coords["arm"].values) == ARMS
    np.testing.assert_allclose(means.values, found, rtol=0, atol=1e-12)
    table = az.summary(tree, kind="stats", round_to="none")
    assert float(table.loc["beta[new, site]", "mean"]) == pytest.approx(found[1, 2], abs=1e-12)  # type: ignore[arg-type]
    # Rounding, as ``round_to=None`` does, would be noticed.
    assert np.abs(np.round(means.values, 2) - found).max() > 1e-4


def test_draws_are_of_the_posterior(tree: Any, prior: Prior, data: Statistics):
    batch = make_engine(prior, KNOWN).fit(data, covariance=True)
    assert batch.covariance is not None
    draws = tree["posterior"]["beta"].values.reshape(-1, 6)
    size = min(len(draws), float(batch.diagnostics["effective_size"][0]))
    sd = np.sqrt(np.diag(batch.covariance[0]))
    ratio = np.cov(draws.T) / np.outer(sd, sd) - batch.covariance[0] / np.outer(sd, sd)
    assert np.abs(ratio).max() < LIMIT * 2.0 * np.sqrt(2.0 / size)  # heavier tails than a Gaussian's


def test_the_draws_were_shifted_by_less_than_their_error(prior: Prior, data: Statistics):
    engine = make_engine(prior, KNOWN)
    batch = engine.fit(data, covariance=True)
    assert batch.covariance is not None
    draws = engine.draw(data, 2000, rng=np.random.default_rng(1))[0]
    sd = np.sqrt(np.diag(batch.covariance[0])).reshape(2, 3)
    error = sd * np.sqrt(1.0 / 2000 + 1.0 / batch.diagnostics["effective_size"][0])
    assert (np.abs(draws.mean(axis=0) - batch.mean[0]) < LIMIT * error).all()


def test_seeds(tree: Any, prior: Prior, data: Statistics):
    again, other = (fit_posterior(prior, KNOWN, data, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(again["posterior"]["beta"], tree["posterior"]["beta"])
    assert (other["posterior"]["beta"].values != tree["posterior"]["beta"].values).any()


def test_files_keep_everything(tree: Any, tmp_path: Path):
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path)
    with xr.open_datatree(path) as read:
        back: Any = read.load()
    assert set(back.children) == set(tree.children)
    np.testing.assert_array_equal(back["posterior"]["beta"], tree["posterior"]["beta"])
    np.testing.assert_array_equal(summary_means(back).values, summary_means(tree).values)
    assert back["sample_stats"]["vouched"].values.all()
    assert back.attrs["engine"] == tree.attrs["engine"]
    assert tuple(back["observed_data"].coords["arm"].values) == ARMS


@pytest.mark.parametrize(
    ("name", "engine"), [("gaussian", "exact"), ("mixture", "exact"), ("hierarchical", "conditional")]
)
def test_other_engines(name: str, engine: str):
    prior = belief(name)
    data = simulate_statistics(prior, 3, SIGMA, 1, 0)
    tree: Any = fit_posterior(prior, KNOWN, data)
    assert tree.attrs["engine"].startswith(f"{engine}: ")
    found = posterior_means(prior, KNOWN, data).mean[0]
    np.testing.assert_allclose(summary_means(tree).values, found, rtol=0, atol=1e-12)
    assert not tree["sample_stats"]["diverging"].values.any()


def test_bernoulli_rewards():
    prior = belief("gaussian")
    rows = bernoulli_rows(prior, 20, n_sets=1, seed=0)
    arm = rows.arm.copy()
    arm[0, :5] = -1
    rows = Rows(x=rows.x, arm=arm, reward=rows.reward, n_arms=2)
    tree: Any = fit_posterior(prior, BernoulliLogit(), rows)
    assert tree.attrs["engine"].startswith("laplace: ")
    observed = tree["observed_data"]
    assert observed["x"].dims == ("sample", "feature")
    assert observed.sizes["sample"] == 15  # padding is no data
    np.testing.assert_array_equal(observed["reward"], rows.reward[0, 5:])
    np.testing.assert_allclose(
        summary_means(tree).values, posterior_means(prior, BernoulliLogit(), rows).mean[0], rtol=0, atol=1e-12
    )


def test_batches_are_refused(prior: Prior):
    with pytest.raises(DataError, match=r"Expected 1 data set\(s\), got 2. Use posterior_means"):
        fit_posterior(prior, KNOWN, simulate_statistics(prior, 3, SIGMA, 2, 0))
    with pytest.raises(DataError, match="Bernoulli rewards are given as Rows"):
        fit_posterior(prior, BernoulliLogit(), simulate_statistics(prior, 3, SIGMA, 1, 0))


@pytest.mark.slow
def test_nuts(tree: Any, prior: Prior, data: Statistics, tmp_path: Path):
    sampled: Any = fit_posterior(prior, KNOWN, data, engine="nuts", seed=4)
    assert set(sampled.children) == set(tree.children)
    assert sampled.attrs["engine"].startswith("nuts: ")
    stats = sampled["sample_stats"]
    assert {"rhat", "ess_bulk", "divergences", "diverging", "vouched", "energy"} <= set(stats.data_vars)
    assert stats["vouched"].values.all()
    np.testing.assert_allclose(
        summary_means(sampled).values, NutsEngine(prior, KNOWN, seed=4).fit(data).mean[0], rtol=0, atol=1e-12
    )
    sd = tree["posterior"]["beta"].std(dim=("chain", "draw")).values
    size = min(float(stats["ess_bulk"][0, 0]), float(tree["sample_stats"]["effective_size"][0, 0]))
    distance = np.abs(summary_means(sampled).values - summary_means(tree).values)
    assert (distance < LIMIT * sd * np.sqrt(2.0 / size)).all()
    sampled.to_netcdf(tmp_path / "sampled.nc")


@pytest.fixture
def nothing_vouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importance sampling vouches for nothing."""
    monkeypatch.setattr(importance_module, "LADDER", (Attempt("moments", 256),) * 2)
    monkeypatch.setattr(importance_module, "MIN_EFFECTIVE_SIZE", 1e9)


@pytest.mark.usefixtures("nothing_vouched")
def test_what_is_sent_to_gibbs_sampling_is_shown_as_it_sampled_it(prior: Prior, data: Statistics, tree: Any):
    sampled: Any = fit_posterior(prior, KNOWN, data)
    assert "goes to gibbs" in sampled.attrs["engine"]
    assert (tree.attrs["answered_by"], sampled.attrs["answered_by"]) == ("importance", "gibbs")
    stats = sampled["sample_stats"]
    assert stats["vouched"].values.all()
    assert np.isfinite(stats["sweeps"].values).all()
    assert not {"khat", "effective_size", "rhat"} & set(stats.data_vars)  # nobody's figures of what it did not answer
    sd = tree["posterior"]["beta"].std(dim=("chain", "draw")).values
    size = min(float(stats["mean_error"][0, 0]) ** -2, float(tree["sample_stats"]["effective_size"][0, 0]))
    distance = np.abs(summary_means(sampled).values - summary_means(tree).values)
    assert (distance < LIMIT * sd * np.sqrt(2.0 / size)).all()


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_vouched")
def test_what_is_sent_to_nuts_is_shown_as_nuts_sampled_it(
    prior: Prior, data: Statistics, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rcb_bayes.posterior.engines._gibbs_or_none", lambda *_: None)  # it would answer before
    sampled: Any = fit_posterior(prior, KNOWN, data)
    assert "goes to nuts" in sampled.attrs["engine"]
    assert sampled.attrs["answered_by"] == "nuts"
    assert {"energy", "rhat"} <= set(sampled["sample_stats"].data_vars)
    assert "khat" not in sampled["sample_stats"].data_vars


@pytest.mark.slow
def test_bad_chains_warn_and_are_marked(prior: Prior, data: Statistics, monkeypatch: pytest.MonkeyPatch):
    few = NutsSettings(draws=20, tune=20, retry=False)
    monkeypatch.setattr("rcb_bayes.posterior.nuts.NutsSettings", lambda: few)
    with pytest.warns(DiagnosticWarning, match="1 of 1 posteriors are not vouched for"):
        sampled: Any = fit_posterior(prior, KNOWN, data, engine="nuts")
    assert not sampled["sample_stats"]["vouched"].values.any()
