"""Effects that go on from one another: random walks, cumulative sums, zero-sum groups; against covariances by hand."""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalCall=false, reportIndexIssue=false
# pyright: reportOptionalMemberAccess=false, reportCallIssue=false

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import rcb_bayes as rcb
from rcb_bayes.belief import conditional
from rcb_bayes.errors import BeliefWarning
from rcb_bayes.posterior import Statistics, make_engine

N = 5
ROWS = np.tile(np.arange(float(N)), 3)[:, None]
STEPS = np.minimum.outer(np.arange(N), np.arange(N))


def by_year(effects: Callable[[], Any], *, rows: np.ndarray = ROWS) -> pm.Model:
    """What each arm gives in each of five years; ``effects`` are (arm, year)."""
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["year"], "years": range(N)}) as model:
        x = pm.Data("x", rows, dims=("user", "feature"))
        place = x[:, 0].astype("int64") if rows.dtype == float else x[:, 0]
        pm.Deterministic("mu", effects().T[place], dims=("user", "arm"))
    return model


def read(model: pm.Model) -> rcb.Prior:
    return rcb.Prior.from_pymc(model, mean="mu", inputs="x")


def covariance(prior: rcb.Prior) -> np.ndarray:
    return prior.covariance.values.reshape(2 * N, 2 * N)


def walk(sigma: Any = 0.4) -> Any:
    start = pm.Normal.dist(0.1, 0.3)
    return pm.GaussianRandomWalk("w", mu=0.05, sigma=sigma, init_dist=start, shape=(2, N))


def unknown_walk() -> Any:
    return walk(pm.HalfNormal("tau", 0.4))


def test_a_random_walk_is_gaussian() -> None:
    prior = read(by_year(walk))
    assert prior.is_gaussian
    assert prior.arms_independent
    np.testing.assert_allclose(prior.mean.values, np.tile(0.1 + 0.05 * np.arange(N), (2, 1)), atol=1e-12)
    np.testing.assert_allclose(covariance(prior), np.kron(np.eye(2), 0.09 + 0.16 * STEPS), atol=1e-12)


def test_zero_sum_groups_are_gaussian() -> None:
    for rows in (ROWS, ROWS.astype(int)):
        prior = read(by_year(lambda: pm.ZeroSumNormal("g", 0.5, dims=("arm", "years")), rows=rows))
        assert prior.is_gaussian
        assert prior.arms_independent
        assert prior.expansion is None
        np.testing.assert_allclose(covariance(prior), np.kron(np.eye(2), 0.25 * (np.eye(N) - 1 / N)), atol=1e-12)


CUMULATED: list[Callable[[Any], Any]] = [
    lambda z: pt.cumsum(z, axis=1),
    lambda z: pt.cumsum(z.T, axis=0).T,
    lambda z: pt.stack([pt.cumsum(z[0]), z[1].cumsum(axis=-1)]),
]


@pytest.mark.parametrize("cumulated", CUMULATED)
def test_cumulative_sums_are_sums(cumulated: Callable[[Any], Any]) -> None:
    prior = read(by_year(lambda: cumulated(pm.Normal("z", 0.0, 0.4, shape=(2, N)))))
    assert prior.is_gaussian
    np.testing.assert_allclose(covariance(prior), np.kron(np.eye(2), 0.16 * (STEPS + 1)), atol=1e-12)


def test_a_sum_over_all_elements_goes_on_from_arm_to_arm() -> None:
    prior = read(by_year(lambda: pt.cumsum(pm.Normal("z", 0.0, 0.4, shape=(2, N))).reshape((2, N))))
    assert prior.is_gaussian
    assert not prior.arms_independent
    np.testing.assert_allclose(
        covariance(prior), 0.16 * (1 + np.minimum.outer(np.arange(2 * N), np.arange(2 * N))), atol=1e-12
    )


def test_cumulative_products_are_no_sums() -> None:
    prior = read(by_year(lambda: pt.cumprod(pm.Normal("z", 0.5, 1.0, shape=(2, N)), axis=1)))
    assert not prior.is_gaussian
    mu, beta = pm.draw([prior.model["mu"], prior.model["beta"]], draws=3, random_seed=5, mode="FAST_COMPILE")
    np.testing.assert_allclose(mu, np.einsum("nb,sab->sna", prior.feature_map(ROWS), beta), rtol=1e-8, atol=1e-10)


def test_nothing_is_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        read(by_year(unknown_walk))
        steps = lambda: pm.StudentT.dist(nu=5, mu=0.0, sigma=pm.HalfNormal("tau", 0.4), shape=(2, N - 1))  # noqa: E731
        start = pm.Normal.dist(0.1, 0.3, shape=(2,))
        read(by_year(lambda: pm.RandomWalk("w", innovation_dist=steps(), init_dist=start, shape=(2, N))))


def data(prior: rcb.Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray, Statistics]:
    rng = np.random.default_rng(4)
    x, arm = rng.integers(0, N, size=(24, 1)).astype(float), np.arange(24) % 2
    y = 0.2 * x[:, 0] * arm + 0.3 * rng.standard_normal(24)
    return x, arm, y, Statistics.from_rows(prior.feature_map(x), arm=arm, reward=y, n_arms=2)


def by_quadrature(x: np.ndarray, arm: np.ndarray, y: np.ndarray, *, spread: float = 0.4) -> np.ndarray:
    """Posterior means of a walk with unknown steps, (arm, year): textbook regressions, and a sum over the steps."""
    place, level = x[:, 0].astype(int), 0.1 + 0.05 * np.arange(N)
    log_weight, means = [], []
    for tau in np.exp(np.linspace(-8.0, 1.5, 800)):
        cov, total, parts = 0.09 + tau**2 * STEPS, -0.5 * (tau / spread) ** 2 + np.log(tau), []
        for k in range(2):
            own, left = place[arm == k], y[arm == k] - level[place[arm == k]]
            joint = cov[np.ix_(own, own)] + 0.09 * np.eye(len(own))
            total -= 0.5 * (left @ np.linalg.solve(joint, left) + np.linalg.slogdet(joint)[1])
            parts.append(level + cov[:, own] @ np.linalg.solve(joint, left))
        log_weight.append(total)
        means.append(parts)
    weight = np.exp(np.array(log_weight) - max(log_weight))
    return np.tensordot(weight / weight.sum(), np.array(means), axes=1)


def test_a_walk_of_unknown_steps_is_integrated() -> None:
    prior = read(by_year(unknown_walk))
    x, arm, y, samples = data(prior)
    batch = make_engine(prior, rcb.GaussianNoise(0.3)).fit(samples)
    assert batch.engine[0] == "conditional"
    found = batch.mean[0] @ prior.feature_map(np.arange(float(N))[:, None]).T
    np.testing.assert_allclose(found, by_quadrature(x, arm, y), atol=5e-4)
    assert np.abs(found - by_quadrature(x, arm, y, spread=0.3)).max() > 5e-4


def test_what_cannot_be_computed_at_once_is_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def effects() -> Any:
        """Levels that can only rise: shares of a height."""
        share = pt.concatenate([[0.0], pt.cumsum(pm.Dirichlet("share", np.ones(N - 1)))])
        return pm.Normal("height", 0.5, 0.4, shape=(2, 1)) * share[None]

    def failing(*_: Any, **__: Any) -> Any:
        def run(_: Any) -> Any:
            raise AssertionError("Could not broadcast dimensions.")

        return run

    at_once, one_by_one = read(by_year(effects)), read(by_year(effects))
    answers = [make_engine(at_once, rcb.GaussianNoise(0.3)).fit(data(at_once)[-1]).mean]
    monkeypatch.setattr(conditional, "compile_given", failing)
    answers.append(make_engine(one_by_one, rcb.GaussianNoise(0.3)).fit(data(one_by_one)[-1]).mean)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-9)


@pytest.mark.parametrize(("n", "warned"), [(2, False), (3, True)])
def test_lkj_is_told_of_from_three_features_on(n: int, warned: bool) -> None:
    with pm.Model(coords={"arm": ["old", "new"], "feature": list("uvw")[:n]}) as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=n, eta=2.0, sd_dist=pm.HalfNormal.dist(0.5, shape=n))
        pm.Deterministic("beta", pm.Normal("z", 0.0, 1.0, shape=(2, n)) @ chol.T, dims=("arm", "feature"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        rcb.Prior.from_pymc(model)
    assert any(issubclass(one.category, BeliefWarning) and "LKJ" in str(one.message) for one in found) == warned
