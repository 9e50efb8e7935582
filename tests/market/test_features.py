"""Feature maps in a market: beliefs speak of phi(x), people of x."""
# pyright: reportOptionalCall=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false, reportArgumentType=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOperatorIssue=false, reportIncompatibleMethodOverride=false

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

import rcb_bayes as rcb
from rcb_bayes.errors import DataError, MarketError
from rcb_bayes.mechanism.panel import make_panel
from rcb_bayes.mechanism.search import worst_users

NOISE = rcb.GaussianNoise(0.3)
LINE = rcb.Uniform([-1.0], [1.0])
CURVED = rcb.Prior.gaussian([[0.5, 0.2, 0.0], [0.3, 0.2, 0.1]], 0.05, arms=["old", "new"])


def market(**changes) -> rcb.Market:
    given = {"prior": CURVED, "covariates": LINE, "noise": NOISE, "features": PolynomialFeatures(2)}
    return rcb.Market(**(given | changes))


@pytest.fixture(scope="module")
def curved() -> rcb.Market:
    return market()


@pytest.fixture(scope="module")
def plan(curved) -> rcb.Plan:
    return rcb.calibrate(curved, epsilon=0.1, n_per_arm=10, n_worlds=400, seed=1)


@pytest.fixture(scope="module")
def by_hand() -> rcb.Market:
    """The same market, its users a long table of features that were made beforehand."""
    x = LINE.sample(4000, seed=5)
    return rcb.Market(prior=CURVED, covariates=rcb.Empirical(np.hstack([x**0, x, x**2])), noise=NOISE)


def test_labels_are_of_x_and_coverage_of_the_map(curved):
    assert curved.features == ("feature_0",)
    assert curved.covariates is LINE
    exact = np.linalg.eigvalsh([[1.0, 0.0, 1 / 3], [0.0, 1 / 3, 0.0], [1 / 3, 0.0, 1 / 5]])[0]
    assert curved.population.phi0 == pytest.approx(exact, rel=0.02)
    np.testing.assert_allclose(curved.features_of(np.array([[0.5]])), [[1.0, 0.5, 0.25]])


def test_a_market_with_another_part_keeps_its_map(curved):
    other = replace(curved, nature=CURVED)
    assert other.feature_map is curved.feature_map
    assert replace(rcb.Market(prior=CURVED, covariates=rcb.Sphere(3), noise=NOISE), nature=CURVED).feature_map is None


@pytest.mark.parametrize(
    ("transformer", "width"),
    [
        (PolynomialFeatures(2), 3),
        (SplineTransformer(n_knots=4, degree=2, extrapolation="linear"), 5),
        (make_pipeline(StandardScaler(), PolynomialFeatures(2)), 3),
        (RBFSampler(n_components=4, random_state=0), 4),
        (FunctionTransformer(lambda x: np.hstack([np.sin(3 * x), np.cos(3 * x)])), 2),
    ],
)
def test_transformers_of_any_kind(transformer, width):
    prior = rcb.Prior.gaussian(np.zeros((2, width)), 0.1)
    found = market(prior=prior, features=transformer)
    x = LINE.sample(7, seed=3)
    assert found.features_of(x).shape == (7, width)
    np.testing.assert_allclose(found.features_of(x)[2], found.features_of(x[2]))
    assert not hasattr(transformer, "n_features_in_") or isinstance(
        transformer, FunctionTransformer
    )  # a copy is fitted


def test_one_hot_codes_of_a_table():
    users = rcb.Empirical([[0.0], [1.0], [2.0], [1.0]], features=["region"])
    found = market(prior=rcb.Prior.gaussian(np.zeros((2, 3)), 0.1), covariates=users, features=OneHotEncoder())
    np.testing.assert_array_equal(found.features_of(np.array([[2.0]])), [[0.0, 0.0, 1.0]])
    assert found.population.phi0 == pytest.approx(0.25)


def test_gaps_are_those_of_features_made_by_hand(curved, by_hand):
    x = np.array([[-0.7], [0.2]])
    shared = {"saturated": ["old"], "n_per_arm": 20, "n_worlds": 2000, "seed": 1}
    one = rcb.estimate_gaps(curved, users=x, **shared)
    other = rcb.estimate_gaps(by_hand, users=np.hstack([x**0, x, x**2]), **shared)
    error = np.hypot(one["expected_gain_mcse"], other["expected_gain_mcse"])
    assert (np.abs(one["expected_gain"] - other["expected_gain"]) < 4.5 * error).all()


def test_a_plan_answers_by_x(curved, plan, tmp_path):
    x = np.array([[-0.4], [0.8]])
    assert plan.inputs == ("feature_0",)
    np.testing.assert_array_equal(plan.rate(x), plan.by_features.rate(curved.features_of(x)))
    assert "she expects 0.6 of old" in plan.explain([0.5])
    plan.save(tmp_path / "plan.json")
    again = rcb.Plan.load(tmp_path / "plan.json")
    np.testing.assert_array_equal(again.for_market(curved).rate(x), plan.rate(x))
    np.testing.assert_array_equal(again.rate(curved.features_of(x)), plan.rate(x))


def test_an_audit_judges_users_by_x(curved, plan):
    found = rcb.audit(curved, plan, horizon=60, n_worlds=400, n_users=10, seed=2)
    assert found.verdict == "pass"
    assert found.users.shape == (10, 1)
    assert LINE.contains(found.users).all()
    given = rcb.audit(curved, plan, horizon=60, n_worlds=400, users=[[0.3], [0.5]], seed=2)
    np.testing.assert_array_equal(given.users, [[0.3], [0.5]])


def test_worst_users_are_looked_for_in_x(curved):
    """Between points of a parabola there is none: users who are moved in features would not exist."""
    panel = make_panel(curved, n_users=50, rng=np.random.default_rng(1))
    users, scores = worst_users(
        lambda features: (features[:, 1] - 0.123) ** 2, curved.population, panel, rng=np.random.default_rng(2)
    )
    np.testing.assert_allclose(users[:, 2], users[:, 1] ** 2, atol=1e-12)
    assert scores[0] < ((panel.x - 0.123) ** 2).min()


def test_live_runs_take_x_and_log_x(curved, plan, tmp_path):
    agent = rcb.Recommender(curved, plan, keep_log=100, seed=1)
    for x in LINE.sample(40, seed=3):
        agent.observe(0.3, ticket=agent.recommend(x).ticket)
    assert "feature_0" in agent.log.columns
    assert agent.log["feature_0"].between(-1.0, 1.0).all()
    assert agent.posterior()["posterior"]["beta"].sizes["feature"] == 3
    agent.save(tmp_path / "agent.json")
    again = rcb.Recommender.load(tmp_path / "agent.json", curved)
    assert again.recommend([0.3]).probabilities == agent.recommend([0.3]).probabilities
    np.testing.assert_array_equal(again.recommend_proba([[0.1], [0.9]]), agent.recommend_proba([[0.1], [0.9]]))
    with pytest.raises(DataError, match="must have 1 features, got 3"):
        agent.recommend([1.0, 0.3, 0.09])


# --- beta and mu ------------------------------------------------------------------------------------------------------


def written_with_mu() -> rcb.Prior:
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u", "v"]}) as model:
        x = pm.Data("x", [[0.1, 0.2], [0.5, 0.9]], dims=("user", "feature"))
        w = pm.Normal("w", [[0.5, 0.2], [0.3, 0.2]], 0.3, dims=("arm", "feature"))
        pm.Deterministic("mu", x @ w.T, dims=("user", "arm"))
    return rcb.Prior.from_pymc(model, mean="mu", inputs="x")


def test_the_same_belief_with_beta_and_with_mu():
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u", "v"]}) as model:
        pm.Normal("beta", [[0.5, 0.2], [0.3, 0.2]], 0.3, dims=("arm", "feature"))
    users = rcb.Uniform([0, 0], [1, 1])
    found = []
    for prior in (rcb.Prior.from_pymc(model), written_with_mu()):
        one = rcb.Market(prior=prior, covariates=users, noise=NOISE)
        gaps = rcb.estimate_gaps(one, saturated=["old"], n_per_arm=10, n_worlds=300, seed=1)
        plan = rcb.calibrate(one, epsilon=0.1, n_per_arm=8, n_worlds=300, seed=1)
        audit = rcb.audit(one, plan, horizon=40, n_worlds=300, n_users=10, seed=2)
        found.append((gaps["expected_gain"].item(), plan.to_json(), audit.verdict, audit.margins["estimate"].values))
    (gain, text, verdict, margins), other = found
    assert (gain, verdict) == (other[0], other[2])
    assert rcb.Plan.from_json(text).exploration_rate == rcb.Plan.from_json(other[1]).exploration_rate
    np.testing.assert_array_equal(margins, other[3])


def test_an_intercept_kept_apart_is_one_that_stands_in_x():
    """The same margins, whether users carry the 1 or the belief brings it."""
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u"]}) as model:
        pm.Normal("alpha", [0.4, 0.3], 0.3, dims="arm")
        pm.Normal("beta", 0.1, 0.2, dims=("arm", "feature"))
    apart = rcb.Prior.from_pymc(model, intercept="alpha")
    whole = rcb.Prior.gaussian([[0.4, 0.1], [0.3, 0.1]], np.diag([0.09, 0.04]), arms=["old", "new"])
    rows = np.linspace(-1.0, 1.0, 40)[:, None]
    users = (rcb.Empirical(rows, features=["u"]), rcb.Empirical(np.hstack([rows**0, rows])))
    found = []
    for prior, people in zip((apart, whole), users, strict=True):
        one = rcb.Market(prior=prior, covariates=people, noise=NOISE)
        plan = rcb.calibrate(one, epsilon=0.1, n_per_arm=8, n_worlds=300, seed=1)
        audit = rcb.audit(one, plan, horizon=40, n_worlds=300, n_users=40, seed=2)
        found.append(audit.margins["estimate"].values)
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


# --- what does not fit ------------------------------------------------------------------------------------------------


class Shrinking(PolynomialFeatures):
    """Drops a column for many users."""

    def transform(self, x):
        found = super().transform(x)
        return found if len(x) < 100 else found[:, :2]


def centred(x):
    return np.hstack([x**0, x - x.mean(axis=0), x**2])


OLD = np.tile(np.arange(6.0), 10)[:, None]  # users of whom somebody knew the rewards

BAD = [
    ({"features": SelectKBest(k=1)}, MarketError, "looks at y"),
    ({"features": SelectKBest(k=1).fit(OLD, OLD[:, 0] > 3)}, MarketError, "looks at y"),
    ({"features": make_pipeline(TargetEncoder()).fit(OLD, OLD[:, 0] > 3)}, MarketError, "looks at y"),
    ({"features": FunctionTransformer(lambda x: np.hstack([x, np.log(x), x]))}, DataError, "NaN or infinite"),
    ({"features": Shrinking(2)}, DataError, "must keep its width"),
    ({"features": FunctionTransformer(centred)}, MarketError, "other features in other company"),
    ({"features": FunctionTransformer(lambda x: None)}, DataError, r"gave shape \(\) for 1 users"),
    ({"features": FunctionTransformer(lambda x: x[:, 0])}, DataError, r"gave shape \(1,\) for 1 users"),
    ({"features": FunctionTransformer(lambda x: x[:, :0])}, DataError, r"gave shape \(1, 0\) for 1 users"),
    ({"features": FunctionTransformer(lambda x: x.astype(str) + "!")}, DataError, "features that are no numbers"),
    ({"features": PolynomialFeatures(3)}, MarketError, "3 features, the covariates have 4"),
    ({"features": PolynomialFeatures}, MarketError, "the class PolynomialFeatures"),
    ({"features": "poly"}, MarketError, "scikit-learn transformer"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), BAD)
def test_maps_that_do_not_fit(changes, kind, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(kind, match=message):
            market(**changes)


def test_features_of_features_are_refused():
    with pytest.raises(MarketError, match="brings features of its own"):
        market(prior=rcb.load_prior("splines"))


def test_users_of_another_width_are_refused():
    with pytest.raises(MarketError, match="of 1 covariate"):
        rcb.Market(prior=rcb.load_prior("splines"), covariates=rcb.Sphere(2), noise=NOISE)


def test_columns_by_their_names():
    """A transformer fitted to a table, in its own order, or one that picks columns by name: no warning, no mix-up."""
    rng = np.random.default_rng(2)
    people = pd.DataFrame({"age": rng.uniform(20.0, 80.0, 50), "income": rng.lognormal(3.0, 0.4, 50)})
    users, turned = rcb.Empirical(people), people[["income", "age"]]
    fitted = make_pipeline(StandardScaler(), SplineTransformer(n_knots=4, degree=2)).fit(turned)
    picking = make_column_transformer((StandardScaler(), ["income"]), (PolynomialFeatures(2), ["age"]))
    for transformer in (fitted, picking, make_pipeline(picking, StandardScaler())):
        again: Any = clone(transformer)
        expected = np.asarray(again.fit_transform(turned))
        d = expected.shape[1]
        prior = rcb.Prior.gaussian(np.zeros((2, d)), 0.1)
        found = rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(0.3), features=transformer)
        np.testing.assert_allclose(found.features_of(people.values), expected)
        assert (found.features, found.prior.n_features) == (("age", "income"), d)
    unnamed = rcb.Empirical(people.rename(columns={"income": "wage"}))
    with pytest.raises(MarketError, match="was fitted to a column 'income', and the users have age, wage"):
        rcb.Market(
            prior=rcb.Prior.gaussian(np.zeros((2, 10)), 0.1),
            covariates=unnamed,
            noise=rcb.GaussianNoise(0.3),
            features=fitted,
        )
