"""Oracles: posterior means beside conjugate formulas, inflated priors, ridge, scikit-learn."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import rcb_bayes as rcb
from rcb_bayes import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import (
    DrawsPredictor,
    LinearPredictor,
    PosteriorOracle,
    Predictor,
    RidgeOracle,
    inflated,
)
from rcb_bayes.running.sklearn_oracle import SklearnOracle

K, D, SIGMA = 3, 2, 0.3
MEAN = np.array([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]])
COV = np.stack([np.array([[v, 0.05], [0.05, 2 * v]]) for v in (0.3, 0.2, 0.4)])
NOISE = rcb.GaussianNoise(SIGMA)
USERS = rcb.Sphere(D).sample(20, seed=9)


def history(n: int = 60, *, arms: tuple[int, ...] = (0, 1, 2), clicks: bool = False, seed: int = 1) -> History:
    rng = np.random.default_rng(seed)
    x, arm = rng.normal(size=(n, D)), rng.choice(arms, size=n)
    eta = (x * (MEAN + 0.5)[arm]).sum(axis=1)
    reward = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float) if clicks else eta + SIGMA * rng.normal(size=n)
    made = History(K, D, keep_rows=True)
    made.add(x, arm, reward)
    return made


def conjugate(mean: np.ndarray, cov: np.ndarray, data: History, arm: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of one arm's coefficients, by the textbook."""
    x, arms, y = data.rows()
    x, y = x[arms == arm], y[arms == arm]
    precision = np.linalg.inv(cov) + x.T @ x / SIGMA**2
    return np.linalg.solve(precision, np.linalg.inv(cov) @ mean + x.T @ y / SIGMA**2), np.linalg.inv(precision)


def linear(found: Predictor) -> LinearPredictor:
    assert isinstance(found, LinearPredictor)
    return found


def covariances(found: LinearPredictor) -> np.ndarray:
    assert found.covariances is not None
    return found.covariances


@cache
def gaussian() -> Prior:
    return Prior.gaussian(MEAN, COV)


# --- posterior means -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["summary", "engine"])
def test_a_gaussian_belief_has_the_conjugate_posterior(read: Any):
    data = history()
    found = linear(PosteriorOracle(gaussian(), NOISE, read=read).fit(data))
    assert found.covariances is not None
    variances = found.variances(np.ascontiguousarray(USERS.T))
    assert variances is not None
    for arm in range(K):
        mean, cov = conjugate(MEAN[arm], COV[arm], data, arm)
        np.testing.assert_allclose(found.means[arm], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.covariances[arm], cov, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.scores(np.ascontiguousarray(USERS.T))[arm], USERS @ mean, atol=1e-12)
        np.testing.assert_allclose(variances[arm], [x @ cov @ x for x in USERS], atol=1e-12)


def test_the_summary_repeats_the_engine_s_means():
    prior = rcb.load_prior("student_t", n_arms=K, n_features=D)
    by_summary, by_engine = (
        linear(PosteriorOracle(prior, NOISE, engine="importance", read=read).fit(history()))
        for read in ("summary", "engine")
    )
    np.testing.assert_allclose(by_summary.means, by_engine.means, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(covariances(by_summary), covariances(by_engine))


def test_without_data_the_prior_is_left():
    found = linear(PosteriorOracle(gaussian(), NOISE).fit(History(K, D)))
    np.testing.assert_allclose(found.means, MEAN, atol=1e-12)
    np.testing.assert_allclose(covariances(found), COV, atol=1e-12)


def test_some_arms_alone_are_used():
    oracle, data = PosteriorOracle(gaussian(), NOISE), history()
    found, whole = linear(oracle.fit_arms(data, [0, 2])), linear(oracle.fit(data))
    np.testing.assert_allclose(found.means[[0, 2]], whole.means[[0, 2]], atol=1e-12)
    np.testing.assert_allclose(found.means[1], MEAN[1], atol=1e-12)
    assert np.abs(whole.means[1] - MEAN[1]).max() > 0.1


def test_correlated_arms_learn_from_each_other():
    joint = np.kron(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]), 0.3 * np.eye(D))
    found = linear(PosteriorOracle(Prior.gaussian(MEAN, joint), NOISE).fit_arms(history(200), [0]))
    moved = np.abs(found.means - MEAN).max(axis=1)
    assert moved[1] > 0.1
    assert moved[2] < 1e-12


def test_bernoulli_rewards_are_averaged_over_the_posterior():
    """E[sigmoid(x'b) | S] beside a grid, in the errors of the predictor's own draws."""
    prior = Prior.gaussian([[0.3], [0.0]], 1.0)
    rng = np.random.default_rng(3)
    data = History(2, 1, keep_rows=True)
    x = rng.normal(size=(30, 1))
    data.add(x, np.zeros(30, dtype=np.int64), (rng.random(30) < 0.6).astype(float))
    found = PosteriorOracle(prior, rcb.BernoulliLogit()).fit(data)
    assert isinstance(found, DrawsPredictor)
    grid = np.linspace(-6, 6, 4001)
    _, _, y = data.rows()
    eta = x * grid
    weight = np.exp((y[:, None] * eta - np.logaddexp(0, eta)).sum(axis=0) - (grid - 0.3) ** 2 / 2)
    users = np.array([[-1.0, 0.5, 2.0]])
    scores, variances = found.scores(users), found.variances(users)
    assert variances is not None
    for k, user in enumerate(users[0]):
        reward = 1 / (1 + np.exp(-user * grid))
        mean = (weight * reward).sum() / weight.sum()
        variance = (weight * reward**2).sum() / weight.sum() - mean**2
        assert abs(scores[0, k] - mean) < 4 * np.sqrt(variance / len(found.draws))
        assert 0.6 * variance < variances[0, k] < 1.6 * variance  # 256 draws: 4 errors of a variance are 35 %


def test_another_way_of_reading_is_refused():
    wrong: Any = "table"
    with pytest.raises(RcbError, match="read must be"):
        PosteriorOracle(gaussian(), NOISE, read=wrong)


# --- inflated priors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.0, 2.5, 400.0])
def test_an_inflated_prior_is_a_prior_with_larger_variances(factor: float):
    data = history(15)
    found = linear(inflated(PosteriorOracle(gaussian(), NOISE), factor).fit(data))
    twin = linear(PosteriorOracle(Prior.gaussian(MEAN, factor * COV), NOISE).fit(data))
    np.testing.assert_allclose(found.means, twin.means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(covariances(found), covariances(twin), rtol=1e-8, atol=1e-12)
    if factor > 1:  # and not the prior as it was
        assert np.abs(found.means - linear(PosteriorOracle(gaussian(), NOISE).fit(data)).means).max() > 1e-4


@pytest.mark.parametrize(
    "oracle", [RidgeOracle(), PosteriorOracle(Prior.gaussian(MEAN, COV), rcb.BernoulliLogit())], ids=["ridge", "logit"]
)
def test_what_cannot_be_inflated_is_refused(oracle: Any):
    with pytest.raises(RcbError, match="Use inflation='none'"):
        inflated(oracle, 2.0)


# --- other learners --------------------------------------------------------------------------------------------------


def test_ridge_is_its_formula():
    data = history(arms=(0, 1))
    x, arm, y = data.rows()
    found = linear(RidgeOracle(penalty=0.7).fit(data))
    for k in (0, 1):
        own = x[arm == k]
        twin = np.linalg.inv(own.T @ own + 0.7 * np.eye(D)) @ own.T @ y[arm == k]
        np.testing.assert_allclose(found.means[k], twin, atol=1e-12)
    assert not found.means[2].any()
    assert found.variances(USERS.T) is None


def test_ridge_is_the_posterior_of_a_centred_belief():
    data = history()
    posterior = linear(PosteriorOracle(Prior.gaussian(np.zeros((K, D)), 0.5), NOISE).fit(data))
    ridge = linear(RidgeOracle(penalty=SIGMA**2 / 0.5).fit(data))
    np.testing.assert_allclose(ridge.means, posterior.means, atol=1e-10)


@pytest.mark.parametrize("joint", [False, True])
def test_a_scikit_learn_ridge_is_ours(joint: bool):
    from sklearn.linear_model import Ridge

    data = history()
    oracle = SklearnOracle(estimator=Ridge(alpha=0.7, fit_intercept=False), joint=joint)
    features = np.ascontiguousarray(USERS.T)
    twin = RidgeOracle(penalty=0.7).fit(data).scores(features)
    found = oracle.fit(data)
    np.testing.assert_allclose(found.scores(features), twin, atol=1e-10)
    assert found.variances(features) is None
    assert not hasattr(oracle.estimator, "coef_")  # a clone was fitted


def test_pipelines_serve():
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    data = history(300)
    found = SklearnOracle(estimator=make_pipeline(PolynomialFeatures(2), LinearRegression())).fit(data)
    x, arm, y = data.rows()
    squares = PolynomialFeatures(2)
    twin = np.linalg.lstsq(squares.fit_transform(x[arm == 1]), y[arm == 1])[0]
    np.testing.assert_allclose(found.scores(USERS.T)[1], squares.transform(USERS) @ twin, atol=1e-9)


def test_classifiers_are_asked_for_probabilities():
    from sklearn.linear_model import LogisticRegression

    data = history(300, clicks=True)
    found = SklearnOracle(estimator=LogisticRegression()).fit(data).scores(USERS.T)
    x, arm, y = data.rows()
    twin = LogisticRegression().fit(x[arm == 2], y[arm == 2]).predict_proba(USERS)[:, 1]
    np.testing.assert_allclose(found[2], twin)
    assert ((found > 0) & (found < 1)).all()


@pytest.mark.parametrize("joint", [False, True])
def test_an_arm_without_data_gets_the_default(joint: bool):
    from sklearn.linear_model import Ridge

    oracle = SklearnOracle(estimator=Ridge(), joint=joint, default=0.25)
    assert (oracle.fit(History(K, D, keep_rows=True)).scores(USERS.T) == 0.25).all()
    if not joint:
        scores = oracle.fit(history(arms=(0, 2))).scores(USERS.T)
        assert (scores[1] == 0.25).all()
        assert (scores[0] != 0.25).all()


def test_predictions_that_fail_are_told_in_one_line():
    """Neighbours that are not there yet, and two numbers for one user."""
    from sklearn.linear_model import LinearRegression
    from sklearn.neighbors import KNeighborsRegressor

    class Twice(LinearRegression):
        def predict(self, X):
            return np.column_stack([super().predict(X)] * 2)

    data = history(12)
    for estimator, told in (
        (KNeighborsRegressor(50), r"KNeighborsRegressor could not predict for .* user\(s\): Expected n_neighbors"),
        (Twice(), r"Twice predicts an array of shape .*one number for each"),
    ):
        fitted = SklearnOracle(estimator=estimator).fit(data)
        with pytest.raises(RcbError, match=told + r".* Nothing has changed\.$"):
            fitted.scores(USERS.T)


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (Lasso(), r"got Lasso\. Use .*rcb\.SklearnOracle\(estimator=\.\.\.\) around"),
        (Lasso, r"got the class Lasso\. Use .*rcb\.SklearnOracle\("),
        (SklearnOracle, "got the class SklearnOracle"),
        ("boosting", r"got str\. Use rcb\.PosteriorOracle"),
    ],
)
def test_what_is_no_oracle_is_refused_before_anything_begins(oracle: Any, message: str):
    market = rcb.Market(prior=gaussian(), covariates=rcb.Sphere(D), noise=NOISE)
    plan = rcb.fixed_plan(market, epsilon=0.05, n_per_arm=3, exploration_rate=0.5)
    for begin in (
        lambda: rcb.Recommender(market, plan, oracle=oracle, seed=1),
        lambda: rcb.simulate(market, plan, horizon=20, n_worlds=2, oracle=oracle, seed=1),
        lambda: rcb.audit(market, plan, horizon=50, n_worlds=50, oracle=oracle, seed=1),
        lambda: rcb.Heeding(oracle),
        lambda: rcb.Bootstrapped(oracle),
        lambda: rcb.Conformal(oracle),
    ):
        with pytest.raises(RcbError, match=message):
            begin()


def test_a_class_is_no_estimator():
    with pytest.raises(RcbError, match="must be a scikit-learn regressor or classifier"):
        SklearnOracle(estimator=Lasso)
