"""Yesterday's posterior as today's belief: against the exact posterior, and through a model of latents."""
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false, reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false

from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import rcb_bayes as rcb
from rcb_bayes.errors import BeliefError, BeliefWarning
from rcb_bayes.posterior import Statistics, fit_posterior, make_engine

NOISE = rcb.GaussianNoise(0.3)


def test_the_next_day_is_the_posterior_of_all_data() -> None:
    """Data of two days, one after the other and at once: within the error of the draws between them."""
    rng = np.random.default_rng(2)
    prior = rcb.Prior.gaussian([[0.5, 0.1], [0.2, 0.0]], 0.25, arms=["old", "new"])
    x, arm = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    y = (x * np.array([[0.4, 0.3], [0.1, -0.2]])[arm]).sum(axis=1) + 0.3 * rng.standard_normal(40)
    days = [
        Statistics.from_rows(x[part], arm=arm[part], reward=y[part], n_arms=2) for part in (slice(0, 15), slice(15, 40))
    ]
    at_once = make_engine(prior, NOISE).fit(Statistics.from_rows(x, arm=arm, reward=y, n_arms=2), covariance=True)
    tomorrow = rcb.Prior.from_posterior(fit_posterior(prior, NOISE, days[0]))
    assert (tomorrow.arms, tomorrow.is_gaussian, tomorrow.fit.fits) == (("old", "new"), True, True)
    found = make_engine(tomorrow, NOISE).fit(days[1]).mean[0]
    error = tomorrow.fit.mean_mcse  # the second day only shrinks it
    spread = np.sqrt(np.diagonal(at_once.covariance[0])).reshape(2, 2)
    limit = 4.5 * error + 4.5 * spread * np.sqrt(2.0 / tomorrow.fit.effective_size)
    assert (np.abs(found - at_once.mean[0]) < limit).all()
    skipped = make_engine(prior, NOISE).fit(days[1]).mean[0]
    assert not (np.abs(skipped - at_once.mean[0]) < limit).all()


def test_latents_through_their_model() -> None:
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["u"]}) as model:
        x = pm.Data("x", np.linspace(-1.0, 1.0, 9)[:, None], dims=("user", "feature"))
        w = pm.Normal("w", 0.0, 1.0, shape=(2, 2))
        pm.Deterministic("mu", x @ w[:1] + x**2 @ w[1:], dims=("user", "arm"))
    draws = np.random.default_rng(3).normal(0.3, [[0.1, 0.2], [0.3, 0.1]], size=(2, 1000, 2, 2))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"w": (("chain", "draw", "b", "arm"), draws)})})
    prior = rcb.Prior.from_posterior(tree, model=model, mean="mu", inputs="x")
    assert prior.features == ("u", "basis_1")
    np.testing.assert_allclose(prior.mean, draws.mean(axis=(0, 1)).T, atol=1e-12)
    with pytest.raises(BeliefError, match="no draws of 'w'"):
        rcb.Prior.from_posterior(xr.Dataset({"v": tree["posterior"]["w"]}), model=model, mean="mu", inputs="x")


def test_users_stay_who_they_were() -> None:
    """Coefficients of an intercept: the map from x is that of the belief it came from."""
    rows = {"arm": ["a", "a", "b", "b"], "u": [0.0, 1.0, 0.0, 1.0], "q10": [0.0] * 4, "q90": [1.0] * 4}
    prior = rcb.Prior.from_quantiles(rows)
    draws = prior.draw(500, seed=1).expand_dims("chain")
    later = rcb.Prior.from_posterior(draws, like=prior)
    assert later.inputs == ("u",)
    assert rcb.Prior.from_posterior(draws).inputs == ("intercept", "u")
    with pytest.raises(BeliefError, match="about other arms or features"):
        rcb.Prior.from_posterior(draws, like=rcb.Prior.gaussian([[0.0], [0.0]], 1.0))


def test_the_recommenders_posterior() -> None:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=NOISE)
    plan = rcb.fixed_plan(market, epsilon=0.05, n_per_arm=5, exploration_rate=0.5)
    agent = rcb.Recommender(market, plan, seed=1)
    for k in range(30):
        agent.observe(0.4, ticket=agent.recommend([np.cos(k), np.sin(k)]).ticket)
    tree = agent.posterior()
    later = rcb.Prior.from_posterior(tree)
    means = tree["posterior"]["beta"].mean(("chain", "draw")).values
    np.testing.assert_allclose(later.mean, means, atol=1e-12)


def test_a_regressions_posterior_is_labelled() -> None:
    """Sampled by hand, of a model that means something else by ``feature`` than its coefficients."""
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["age"]}) as model:
        x: Any = pm.Data("x", np.linspace(-1.0, 1.0, 5)[:, None], dims=("user", "feature"))
        level, slope = pm.Normal("a", 0.3, 0.2, shape=2), pm.Normal("b", 0.0, 0.2, shape=2)
        pm.Deterministic("mu", level + x[:, 0][:, None] ** 2 * slope, dims=("user", "arm"))
    yesterday = rcb.Prior.from_pymc(model, mean="mu", inputs="x")
    data = {"x": [[0.5], [1.0]], "arm": ["old", "new"], "reward": [0.4, 0.1]}
    with rcb.posterior_model(yesterday, data, noise=rcb.GaussianNoise(0.3)):
        tree = pm.sample_prior_predictive(200, random_seed=1)
    beta = tree["prior"]["beta"]
    assert beta.dims == ("chain", "draw", "arm", "beta_feature")
    assert list(beta.coords["beta_feature"].values) == list(yesterday.features)
    with pytest.raises(BeliefError, match=r"no posterior \(groups: prior.*from_draws"):
        rcb.Prior.from_posterior(tree, like=yesterday)
    today = rcb.Prior.from_posterior(tree["prior"], like=yesterday)  # draws as they are
    assert (today.arms, today.features) == (yesterday.arms, yesterday.features)
    draws = np.asarray(beta.values).reshape(-1, 2, 2)
    np.testing.assert_allclose(today.mean.values, draws.mean(axis=0), atol=1e-12)


def lines() -> pm.Model:
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u", "v"]}) as model:
        x: Any = pm.Data("x", np.random.default_rng(0).uniform(-1.0, 1.0, size=(9, 2)), dims=("user", "feature"))
        pm.Deterministic("mu", x @ pm.Normal("w", 0.0, 1.0, shape=(2, 2)), dims=("user", "arm"))
    return model


CENTRES = np.array([[0.1, 0.2], [0.3, 0.4]])


def latents(*dims: str, shape: tuple[int, ...] = (2, 2)) -> xr.Dataset:
    values = np.resize(CENTRES, shape) + 0.01 * np.random.default_rng(1).standard_normal((2, 300, *shape))
    own = [f"w_{k}" for k in range(len(shape))]
    array = xr.DataArray(values, dims=("chain", "draw", *own), name="w")
    return (array.stack(sample=("chain", "draw")) if "sample" in dims else array).transpose(*dims).to_dataset()


@pytest.mark.parametrize(
    "dims", [("chain", "draw", "w_0", "w_1"), ("w_0", "draw", "w_1", "chain"), ("w_0", "w_1", "sample")]
)
def test_draws_of_latents_in_any_order(dims: tuple[str, ...]) -> None:
    prior = rcb.Prior.from_posterior(latents(*dims), model=lines(), mean="mu", inputs="x")
    np.testing.assert_allclose(prior.mean.values, CENTRES.T, atol=0.005)


@pytest.mark.parametrize("shape", [(3, 2), (2,), ()])
def test_draws_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    tree = latents("chain", "draw", *(f"w_{k}" for k in range(len(shape))), shape=shape)
    with pytest.raises(BeliefError, match=r"'w' must have the dims chain and draw and the shape .* got \{"):
        rcb.Prior.from_posterior(tree, model=lines(), mean="mu", inputs="x")


def test_chains_come_first() -> None:
    """Of chains that disagree r-hat is large, whatever the order of the dims."""
    values = np.random.default_rng(1).standard_normal((4, 500, 2, 2)) + np.arange(4.0)[:, None, None, None]
    draws = xr.DataArray(values, dims=("chain", "draw", "arm", "feature"), name="beta")
    with pytest.warns(BeliefWarning):
        fits = [rcb.Prior.from_draws(one).fit for one in (draws, draws.transpose("draw", "feature", "chain", "arm"))]
    assert fits[0] is not None
    assert fits[1] is not None
    assert fits[0].rhat == fits[1].rhat > 1.5
