"""Beliefs from draws, and from models with observed data: a fitted mixture, and what it leaves open."""
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false, reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportIncompatibleMethodOverride=false

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.errors import BeliefError, BeliefWarning


def camps(n: int, *, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    side = rng.random((n, 1, 1)) < 0.3
    return np.where(side, 1.0, -0.5) + 0.2 * rng.standard_normal((n, 2, 2))


def test_gaussian_draws_become_one_gaussian_with_their_moments():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(4, 4))
    draws = (rng.standard_normal((8000, 4)) @ root.T).reshape(-1, 2, 2)
    prior = rcb.Prior.from_draws(draws)
    assert prior.is_gaussian
    assert prior.fit.fits
    np.testing.assert_allclose(prior.mean.values, draws.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        prior.covariance.values.reshape(4, 4), np.cov(draws.reshape(-1, 4), rowvar=False), rtol=1e-10
    )
    error = prior.moments["mean_mcse"].values
    np.testing.assert_allclose(error, draws.std(axis=0) / np.sqrt(8000), rtol=0.25)


def test_camps_are_found_and_a_single_gaussian_would_not_do():
    draws = camps(6000, seed=2)
    prior = rcb.Prior.from_draws(draws, arms=["a", "b"], features=["u", "v"])
    assert prior.is_mixture
    assert prior.fit.fits
    other = prior.draw_arrays(6000, rng=np.random.default_rng(5))[0]
    assert abs((other > 0.25).mean() - 0.3) < 4.5 * np.sqrt(0.3 * 0.7 / 6000)
    from rcb_bayes.belief import from_draws

    flat = (draws - draws.mean(axis=0)).reshape(-1, 4)
    single = from_draws._mixture(flat[:3000], 1)
    misfit, limit = from_draws._misfit(single, flat[3000:], effective=3000.0, fitted=3000.0)
    assert misfit > 2 * limit


def test_what_no_mixture_fits_is_told():
    rng = np.random.default_rng(3)
    with pytest.warns(BeliefWarning, match="MORE than chance"):
        prior = rcb.Prior.from_draws(np.round(rng.standard_normal((20_000, 2, 1))))
    assert not prior.fit.fits


def test_draws_too_few_for_their_coefficients_tell_nothing_of_a_fit():
    """1,000 draws of 120 coefficients: the fit's eigenvalues run from .4 to 1.8, not 1, and nothing shows."""
    draws = np.random.default_rng(1).standard_normal((1000, 6, 20))
    with pytest.warns(BeliefWarning, match="too few draws for 120 coefficients to tell.*off by a third"):
        prior = rcb.Prior.from_draws(draws)
    assert "within chance" not in prior.fit.describe()


def test_chains_that_have_not_met_are_told():
    chains = np.random.default_rng(4).standard_normal((4, 500, 2, 1)) + np.arange(4)[:, None, None, None]
    with pytest.warns(BeliefWarning, match="have not met"):
        rcb.Prior.from_draws(chains)


def test_a_known_coefficient_stays_known():
    draws = np.random.default_rng(4).standard_normal((2000, 2, 2))
    draws[:, 0, 1] = 0.7
    prior = rcb.Prior.from_draws(draws)
    assert prior.mean.values[0, 1] == pytest.approx(0.7, abs=1e-12)
    assert prior.covariance.values[0, 1, 0, 1] == pytest.approx(0.0, abs=1e-12)


def test_labelled_draws_in_any_order_of_dims():
    values = np.random.default_rng(4).normal([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 0.1, size=(2, 500, 2, 3))
    array = xr.DataArray(
        values, dims=("chain", "draw", "t", "c"), coords={"t": ["old", "new"], "c": ["u", "v", "w"]}
    ).transpose("c", "chain", "t", "draw")
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"weights": array.transpose("chain", "draw", "c", "t")})})
    for draws in (array.transpose("chain", "draw", "c", "t"), tree):
        prior = rcb.Prior.from_draws(draws, coefficients="weights", arm="t", feature="c")
        assert prior.arms == ("old", "new")
        assert prior.features == ("u", "v", "w")
        np.testing.assert_allclose(prior.mean.values, np.arange(6.0).reshape(2, 3), atol=0.05)


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.zeros((50, 2, 1)), "at least 100 draws, got 50"),
        (np.zeros((200, 1, 1)), "two arms"),
        (np.full((200, 2, 1), np.nan), "finite"),
        (np.zeros((200, 2)), "dimension"),
        (xr.DataArray(np.zeros((200, 2, 1)), dims=("draw", "a", "b")), "dims 'arm' and 'feature'"),
        (xr.Dataset({"betas": (("draw", "arm", "feature"), np.zeros((200, 2, 1)))}), "Did you mean 'betas'"),
    ],
)
def test_draws_that_are_no_belief(draws, message):
    with pytest.raises(rcb.RcbError, match=message):
        rcb.Prior.from_draws(draws)


@pytest.mark.slow
def test_a_model_with_data_is_its_posterior():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["u", "v"]}) as model:
        beta = pm.Normal("beta", 0.5, 1.0, dims=("arm", "feature"))
        pm.Normal("y", (x * beta[np.arange(40) % 2]).sum(axis=1), 0.5, observed=y)
    prior = rcb.Prior.from_pymc(model)
    for k in range(2):
        own, outcome = x[k::2], y[k::2]
        cov = np.linalg.inv(np.eye(2) + own.T @ own / 0.25)
        mean = cov @ (0.5 + own.T @ outcome / 0.25)
        error = prior.moments["mean_mcse"].values[k]
        assert (np.abs(prior.mean.values[k] - mean) < 5 * error).all()
        assert (np.abs(prior.mean.values[k] - mean - 0.1 * np.sqrt(np.diag(cov))) > 5 * error).all()
    assert "fitted to 8,000 draws" in prior.describe()


# --- coefficients by other names --------------------------------------------------------------------------------------

COORDS = {"treatment": ["old", "new"], "column": ["u", "v", "w"]}


def test_names_order_and_intercept():
    with pm.Model(coords=COORDS) as model:
        pm.Normal("alpha", [0.3, 0.1], 0.2, dims="treatment")
        pm.Normal("weights", [[0.0, 0.1], [0.2, 0.3], [0.4, 0.5]], 0.5, dims=("column", "treatment"))
    names = set(model.named_vars)
    words = {"coefficients": "weights", "arm": "treatment", "feature": "column"}
    prior = rcb.Prior.from_pymc(model, **words)
    np.testing.assert_allclose(prior.mean.values, [[0.0, 0.2, 0.4], [0.1, 0.3, 0.5]])
    whole = rcb.Prior.from_pymc(model, **words, intercept="alpha")
    assert whole.features == ("alpha", "u", "v", "w")
    assert whole.inputs == ("u", "v", "w")
    np.testing.assert_allclose(whole.mean.values[:, 0], [0.3, 0.1])
    np.testing.assert_array_equal(whole.feature_map(np.array([[5.0, 6.0, 7.0]])), [[1.0, 5.0, 6.0, 7.0]])
    assert set(model.named_vars) == names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "no variable 'beta'"),
        ({"coefficients": "weights"}, "Say which is which: arm='column', feature='treatment'"),
        ({"coefficients": "wieghts"}, "Did you mean 'weights'"),
        (
            {"coefficients": "weights", "arm": "treatment", "feature": "column", "intercept": "alfa"},
            "Did you mean 'alpha'",
        ),
        ({"arm": "treatment", "feature": "column"}, "coefficients='weights'"),
    ],
)
def test_words_that_do_not_fit(words, message):
    with pm.Model(coords=COORDS) as model:
        pm.Normal("alpha", 0.0, 1.0, dims="treatment")
        pm.Normal("weights", 0.0, 1.0, dims=("column", "treatment"))
    with pytest.raises(BeliefError, match=message):
        rcb.Prior.from_pymc(model, **words)


def test_an_intercept_of_another_length():
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u"]}) as model:
        pm.Normal("alpha", 0.0, 1.0, shape=3)
        pm.Normal("beta", 0.0, 1.0, dims=("arm", "feature"))
    with pytest.raises(BeliefError, match="one value for each of the 2 arms, got 3"):
        rcb.Prior.from_pymc(model, intercept="alpha")
