"""The posterior that a recommender acts on: read from ArviZ summaries, shown as a DataTree, and vouched for or not."""

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Exploiting, Market, Plan, Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.posterior import DiagnosticWarning, make_engine
from rcb_bayes.running import oracle

MEAN = np.array([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]])


@cache
def market() -> Market:
    prior = Prior.gaussian(MEAN, [0.3, 0.2, 0.2], arms=["usual", "new", "odd"])
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


@cache
def plan() -> Plan:
    return rcb.calibrate(market(), n_per_arm=6, n_worlds=200, guard=False, seed=3)


def served(agent: rcb.Recommender, n: int) -> rcb.Recommender:
    rng = np.random.default_rng(4)
    for x in rcb.Sphere(2).sample(n, seed=2):
        agent.observe(float(x.sum() / 3 + 0.3 * rng.standard_normal()), ticket=agent.recommend(x).ticket)
    return agent


# --- read from summaries ---------------------------------------------------------------------------------------------


def test_the_recommender_reads_arviz_summaries(monkeypatch: pytest.MonkeyPatch):
    import arviz as az

    calls: list[dict[str, Any]] = []
    plain = az.summary

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(options)
        return plain(*args, **options)

    monkeypatch.setattr(az, "summary", counted)
    agent = served(rcb.Recommender(market(), plan(), seed=1), 150)
    assert agent.stage == "exploit"
    assert len(calls) == agent._rcb.n_fits >= 5
    assert all(own["kind"] == "stats" and own["round_to"] == "none" for own in calls)
    direct = rcb.PosteriorOracle(market().prior, market().noise, read="engine")
    calls.clear()
    again = served(rcb.Recommender(market(), plan(), oracle=direct, seed=1), 150)
    assert not calls
    np.testing.assert_allclose(means(again), means(agent), rtol=0, atol=1e-12)


def means(agent: rcb.Recommender) -> np.ndarray:
    found = agent._rcb.predictor
    assert isinstance(found, oracle.LinearPredictor)
    return found.means


# --- the tree --------------------------------------------------------------------------------------------------------


def test_before_any_data_the_posterior_is_the_prior():
    tree = rcb.Recommender(market(), plan(), seed=1).posterior()
    assert dict(tree["posterior"]["beta"].sizes) == {"chain": 2, "draw": 1000, "arm": 3, "feature": 2}
    assert [str(arm) for arm in np.asarray(tree["posterior"]["arm"])] == ["usual", "new", "odd"]
    assert (tree.attrs["n_samples"], tree.attrs["vouched"]) == (0, 1)
    np.testing.assert_allclose(rcb.posterior.summary_means(tree), MEAN, atol=1e-12)


@pytest.mark.parametrize("n", [15, 60, 300])
def test_the_tree_is_what_is_acted_on(n: int):
    agent = served(rcb.Recommender(market(), plan(), seed=1), n)
    if n == 15:
        assert agent.stage == "rest of the arms"
        fed = 6 * len(agent.saturated)
    else:
        assert agent._rcb.exploitation is not None
        fed = agent._rcb.exploitation.fed.n_samples
    tree = agent.posterior()
    np.testing.assert_allclose(rcb.posterior.summary_means(tree), means(agent), rtol=0, atol=1e-12)
    assert tree.attrs["n_samples"] == fed
    assert tree.attrs["engine"].startswith("exact")
    x = rcb.Sphere(2).sample(5, seed=3)
    scores = x @ np.asarray(tree["posterior"]["beta"]).mean(axis=(0, 1)).T
    if n > 15:
        np.testing.assert_array_equal(scores.argmax(axis=1), agent.recommend_proba(x).argmax(axis=1))


def test_a_prior_that_grows_is_shown_as_wide_as_it_is():
    agent = served(rcb.Recommender(market(), plan(), options=Exploiting(inflation="sqrt"), seed=1), 300)
    tree, found = agent.posterior(), agent._rcb.predictor
    assert isinstance(found, oracle.LinearPredictor)
    assert found.covariances is not None
    np.testing.assert_allclose(rcb.posterior.summary_means(tree), found.means, rtol=0, atol=1e-12)
    draws = np.asarray(tree["posterior"]["beta"]).reshape(-1, 3, 2)
    for arm in range(3):
        sampled = np.cov(draws[:, arm], rowvar=False).diagonal()
        np.testing.assert_allclose(sampled, found.covariances[arm].diagonal(), rtol=5 * np.sqrt(2 / len(draws)))


def test_with_clicks_the_draws_are_those_averaged_over():
    users = rcb.Empirical(np.eye(2))
    clicks = Market(prior=Prior.gaussian([[0.8, 0.3], [0.2, 0.2]], 1.0), covariates=users, noise=rcb.BernoulliLogit())
    agent = rcb.Recommender(clicks, rcb.calibrate(clicks, n_per_arm=4, n_worlds=100), seed=1)
    assert agent.posterior().attrs["n_samples"] == 0
    while agent._rcb.predictor is None:
        agent.observe(1, ticket=agent.recommend([1.0, 0.0]).ticket)
    tree, found = agent.posterior(), agent._rcb.predictor
    eta = np.asarray(tree["posterior"]["beta"]).reshape(-1, 2, 2) @ np.array([1.0, 0.0])
    expected = (1 / (1 + np.exp(-eta))).mean(axis=0)
    np.testing.assert_allclose(found.scores(np.array([[1.0], [0.0]]))[:, 0], expected, atol=1e-12)


def test_an_oracle_without_a_posterior_has_none_to_show():
    agent = served(rcb.Recommender(market(), plan(), oracle=rcb.RidgeOracle(), seed=1), 150)
    assert agent.vouched
    with pytest.raises(RcbError, match="RidgeOracle has no posterior"):
        agent.posterior()


# --- vouched ---------------------------------------------------------------------------------------------------------


class Doubtful:
    """An engine that vouches for nothing."""

    def __init__(self, prior: Prior, noise: rcb.GaussianNoise, **_: Any) -> None:
        self._own = make_engine(prior, noise)
        self.prior, self.name, self.reason = prior, self._own.name, self._own.reason
        self.draw = self._own.draw

    def fit(self, data: Any, **options: Any) -> Any:
        found = self._own.fit(data, **options)
        return replace(found, vouched=np.zeros(found.n_sets, dtype=bool))


def test_what_is_not_vouched_for_is_said_once_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.setattr(oracle, "make_engine", Doubtful)
    agent = rcb.Recommender(market(), plan(), seed=1)
    assert agent.vouched
    with pytest.warns(DiagnosticWarning, match="acts on a posterior that its engine does not vouch for") as found:
        served(agent, 150)
    assert len(found) == 1
    assert not agent.vouched
    assert agent.posterior().attrs["vouched"] == 0
    agent.save(tmp_path / "agent.json")
    assert not rcb.Recommender.load(tmp_path / "agent.json", market()).vouched
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = rcb.simulate(market(), plan(), horizon=150, n_worlds=2, seed=1)
    assert runs.attrs["n_not_vouched"] == runs.attrs["n_fits"] > 4
