"""``posterior_model``: the belief's model with data observed, whose NUTS means are the engines'."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import rcb_bayes as rcb
from rcb_bayes import Prior
from rcb_bayes.errors import BeliefError, DataError
from rcb_bayes.posterior import Rows, Statistics

PRIOR = Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"], features=["price", "speed"])
NOISE = rcb.GaussianNoise(0.3)


def samples(n: int = 12, *, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, arm = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    return x, arm, x.sum(axis=1) / 3 + 0.3 * rng.normal(size=n)


def log_density(model: Any, beta: np.ndarray) -> float:
    """Of the data given the coefficients; the belief's own variable is a standard normal, z."""
    assert [variable.name for variable in model.free_RVs] == ["z"]
    z = ((beta - np.asarray(PRIOR.mean)) / 0.5).ravel()
    return float(model.compile_logp(vars=[model["y"]])({"z": z}))


def test_the_likelihood_is_that_of_the_rewards():
    from scipy.stats import norm

    x, arm, reward = samples()
    model = rcb.posterior_model(PRIOR, {"x": x, "arm": arm, "reward": reward}, NOISE)
    beta = np.array([[0.3, -0.1], [0.7, 0.4]])
    expected = norm.logpdf(reward, (x * beta[arm]).sum(axis=1), 0.3).sum()
    assert log_density(model, beta) == pytest.approx(expected, abs=1e-8)


def test_a_log_arrays_and_rows_are_the_same_data():
    x, arm, reward = samples()
    table = pd.DataFrame({"speed": x[:, 1], "price": x[:, 0], "arm": np.array(PRIOR.arms)[arm], "reward": reward})
    kinds: list[Any] = [
        table.assign(stage="exploit"),
        {"x": pd.DataFrame(x[:, ::-1], columns=["speed", "price"]), "arm": arm, "reward": reward},
        {"price": x[:, 0], "speed": x[:, 1], "arm": arm, "reward": reward},
    ]
    beta = np.array([[0.3, -0.1], [0.7, 0.4]])
    found = {round(log_density(rcb.posterior_model(PRIOR, data, NOISE), beta), 8) for data in kinds}
    assert len(found) == 1
    clicks = (reward > 0).astype(float)
    alike: list[Any] = [
        Rows(x=x[None], arm=arm[None], reward=clicks[None], n_arms=2),
        {"x": x, "arm": arm, "reward": clicks},
    ]
    of_clicks = {round(log_density(rcb.posterior_model(PRIOR, data, rcb.BernoulliLogit()), beta), 8) for data in alike}
    assert len(of_clicks) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": ["old", "neu"]}, "no arm 'neu'"),
        ({"arm": [0, 2]}, "0 to 1, got 0 to 2"),
        ({"reward": [1.0, np.nan]}, "finite"),
        ({"reward": [1.0]}, "one length, got 2, 2 and 1"),
        ({"x": [[1.0], [2.0]]}, "2 features, got 1"),
    ],
)
def test_bad_data_are_refused(change: dict[str, Any], message: str):
    data = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": ["old", "new"], "reward": [1.0, 0.0]} | change
    with pytest.raises(DataError, match=message):
        rcb.posterior_model(PRIOR, data, NOISE)


def test_other_things_are_refused():
    with pytest.raises(DataError, match="arm and reward; got x"):
        rcb.posterior_model(PRIOR, {"x": [[1.0, 0.0]]}, NOISE)
    with pytest.raises(DataError, match="lacks price, speed"):
        rcb.posterior_model(PRIOR, pd.DataFrame({"arm": ["old"], "reward": [1.0]}), NOISE)
    data = {"x": [[1.0, 0.0]], "arm": ["old"], "reward": [0.5]}
    with pytest.raises(DataError, match="0 or 1"):
        rcb.posterior_model(PRIOR, data, rcb.BernoulliLogit())
    import pymc as pm

    with pm.Model(coords={"arm": ["a", "b"], "feature": ["f"]}) as model:
        y: Any = pm.Normal("y", 0.0, 1.0)
        pm.Normal("beta", y, 1.0, dims=("arm", "feature"))
    with pytest.raises(BeliefError, match="variable 'y' already"):
        rcb.posterior_model(Prior.from_pymc(model), {"x": [[1.0]], "arm": ["a"], "reward": [0.5]}, NOISE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "clicks"])
def test_its_posterior_is_the_engines(kind: str):
    import arviz as az
    import pymc as pm

    x, arm, reward = samples(40)
    noise: Any = NOISE
    if kind == "clicks":
        noise, reward = rcb.BernoulliLogit(), (reward > 0).astype(float)
    model = rcb.posterior_model(PRIOR, {"x": x, "arm": arm, "reward": reward}, noise)
    with model:
        tree = pm.sample(draws=2000, tune=1000, chains=4, cores=1, random_seed=3, progressbar=False, quiet=True)
    table = az.summary(tree, var_names=["beta"], round_to="none")
    # NUTS draws of a normal are so well apart that more of them seem to be there than are: no credit for that.
    size = np.minimum(np.asarray(table["ess_bulk"], dtype=float), 8000)
    error = np.asarray(table["sd"], dtype=float) / np.sqrt(size)
    if kind == "gaussian":
        data: Any = Statistics.from_rows(x, arm=arm, reward=reward, n_arms=2)
    else:
        data = Rows(x=x[None], arm=arm[None], reward=reward[None], n_arms=2)
    expected = rcb.posterior.posterior_means(PRIOR, noise, data).mean[0].ravel()
    mean = np.asarray(table["mean"], dtype=float)
    assert (np.abs(mean - expected) < 4 * error).all()
    assert np.abs((mean - PRIOR.mean.values.ravel()) / error).max() > 20  # without the data
