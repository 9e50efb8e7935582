"""The same belief written with ``beta`` and with ``mu``: the same gaps, plan and audit."""
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportIndexIssue=false

import numpy as np
import pymc as pm
import pytest
from sklearn.preprocessing import PolynomialFeatures

import rcb_bayes as rcb

AGES = np.random.default_rng(4).uniform(-1.0, 1.0, size=(40, 1))
MEAN = np.array([[0.4, 0.1, 0.0], [0.2, 0.2, -0.1]])
SPREAD = np.array([[0.1, 0.1, 0.05], [0.4, 0.3, 0.3]])
ARMS = ["old", "new"]
NOISE = rcb.GaussianNoise(0.3)
USERS = rcb.Empirical(AGES, features=["age"])


def with_beta() -> rcb.Market:
    """Coefficients of 1, age and its square, and a transformer that makes these."""
    with pm.Model(coords={"arm": ARMS, "feature": ["1", "age", "age^2"]}) as model:
        pm.Normal("beta", MEAN, SPREAD, dims=("arm", "feature"))
    prior = rcb.Prior.from_pymc(model)
    return rcb.Market(prior=prior, covariates=USERS, noise=NOISE, features=PolynomialFeatures(2))


def with_mu(*, bend: float = 1.0) -> rcb.Market:
    """A regression on age."""
    with pm.Model(coords={"arm": ARMS, "feature": ["age"]}) as model:
        x = pm.Data("x", AGES, dims=("user", "feature"))
        w = pm.Normal("w", MEAN, SPREAD, dims=("arm", "term"), shape=(2, 3))
        mu = w[:, 0] + x * w[:, 1] + x**2 * (bend * w[:, 2])
        pm.Deterministic("mu", mu, dims=("user", "arm"))
    prior = rcb.Prior.from_pymc(model, mean="mu", inputs="x")
    return rcb.Market(prior=prior, covariates=USERS, noise=NOISE)


def figures(market: rcb.Market) -> dict[str, np.ndarray]:
    found = rcb.estimate_gaps(market, saturated=["old"], n_per_arm=10, n_worlds=300, taus=[0.05], seed=1)
    plan = rcb.calibrate(market, epsilon=0.2, n_per_arm=10, n_worlds=200, seed=1)
    audit = rcb.audit(market, plan, horizon=200, n_worlds=200, seed=2)
    return {
        "gain": found["expected_gain"].values,
        "rates": np.array([plan.rate(x) for x in AGES[:10]]),
        "guards": np.array([plan.guard(x, 0) for x in AGES[:10]]),
        "cold start": np.array([plan.expected_cold_start]),
        "margins": audit.margins["estimate"].values,
        "verdict": np.array([{"fail": 0.0, "inconclusive": 1.0, "pass": 2.0}[audit.verdict]]),
    }


@pytest.fixture(scope="module")
def by_beta() -> dict[str, np.ndarray]:
    return figures(with_beta())


def test_the_same_gaps_plan_and_audit(by_beta: dict[str, np.ndarray]) -> None:
    by_mu = figures(with_mu())
    for name, values in by_beta.items():
        np.testing.assert_allclose(by_mu[name], values, rtol=1e-7, atol=1e-9, err_msg=name)


def test_another_bend_is_another_belief(by_beta: dict[str, np.ndarray]) -> None:
    bent = figures(with_mu(bend=1.3))
    for name in ("gain", "rates", "margins"):
        assert not np.allclose(bent[name], by_beta[name], rtol=1e-7, atol=1e-9)
