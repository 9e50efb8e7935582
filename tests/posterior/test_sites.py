"""0/1 rewards by a Gaussian factor and weights: units, counts, rungs, and what the weights are for."""

from typing import Any

import numpy as np
import pymc
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.posterior import Rows, site_fits
from rcb_bayes.posterior.data import tallied
from rcb_bayes.posterior.importance import normalised
from rcb_bayes.posterior.laplace import LaplaceEngine
from rcb_bayes.posterior.logistic_means import few_of
from rcb_bayes.posterior.site_draws import SiteSampler
from rcb_bayes.posterior.site_fits import Rung, draws_of
from rcb_bayes.schema import FloatArray

pm: Any = pymc  # its annotations do not fit its own use
N_ARMS, N_FEATURES, N_ROWS, N_SETS = 2, 3, 25, 24


def table() -> FloatArray:
    """Users: a constant, ages in years, a binary column."""
    rng = np.random.default_rng(0)
    return np.column_stack([np.ones(40), rng.normal(60.0, 12.0, 40).round(), (rng.random(40) < 0.4).astype(float)])


def standardising(rows: FloatArray) -> FloatArray:
    a = np.diag([1.0, 1.0 / rows[:, 1].std(), 1.0 / rows[:, 2].std()])
    a[0, 1:] = -rows.mean(axis=0)[1:] / rows.std(axis=0)[1:]
    return a


def related(a: FloatArray) -> Prior:
    """Arms around a shared level, of standardised columns, as coefficients of columns that A standardises."""
    with pm.Model(coords={"arm": ["a", "b"], "feature": list("xyz")}) as model:
        level = pm.Normal("level", 0.0, 0.6, shape=N_FEATURES)
        tau = pm.HalfNormal("tau", 0.4)
        own = pm.Normal("own", 0.0, 1.0, shape=(N_ARMS, N_FEATURES))
        pm.Deterministic("beta", (level + tau * own) @ a.T, dims=("arm", "feature"))
    return Prior.from_pymc(model)


def samples(rows: FloatArray, *, seed: int = 1) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """Who came, with which arm, and what came of it: (M, n) each."""
    rng = np.random.default_rng(seed)
    who = rng.integers(len(rows), size=(N_SETS, N_ROWS))
    arm = rng.integers(N_ARMS, size=who.shape)
    beta = rng.normal(0.0, 0.8, (N_SETS, N_ARMS, N_FEATURES))
    eta = (rows[who] * beta[np.arange(N_SETS)[:, None], arm]).sum(axis=2)
    return who, arm, (rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta))).astype(float)


@pytest.fixture(scope="module")
def engines() -> tuple[LaplaceEngine, LaplaceEngine]:
    """In raw units, and standardised."""
    a = standardising(table())
    return LaplaceEngine(related(a)), LaplaceEngine(related(np.eye(N_FEATURES)))


def test_units_do_not_matter(engines):
    raw, a = table(), standardising(table())
    who, arm, reward = samples(raw @ a)
    found = []
    for engine, rows in zip(engines, (raw, raw @ a), strict=True):
        batch = engine.fit(Rows(x=rows[who], arm=arm, reward=reward, n_arms=N_ARMS), users=rows)
        assert batch.vouched.all()
        assert batch.reward is not None
        found.append((batch.reward, batch.mean))
    error = 0.5 / np.sqrt(200.0)  # of two means of an effective size of at least 200, sd of a chance at most a half
    assert np.abs(found[0][0] - found[1][0]).max() < error
    means = found[0][1], found[1][1] @ a.T
    assert np.abs(means[0] - means[1])[..., 0].max() < 1.0
    # Planted: a belief of standardised columns for raw ones is another belief.
    wrong = engines[1].fit(Rows(x=raw[who], arm=arm, reward=reward, n_arms=N_ARMS), users=raw).reward
    assert wrong is not None
    assert np.abs(wrong - found[0][0]).max() > error


def test_counts_are_as_good_as_rows(engines):
    rows = table() @ standardising(table())
    who, arm, reward = samples(rows)
    by_row = engines[1].fit(Rows(x=rows[who], arm=arm, reward=reward, n_arms=N_ARMS), users=rows, covariance=True)
    counted = tallied(rows, who, arm, reward, n_arms=N_ARMS)
    by_user = engines[1].fit(counted, users=rows, covariance=True)
    for name in ("mean", "covariance", "reward", "reward_variance"):
        np.testing.assert_allclose(getattr(by_user, name), getattr(by_row, name), atol=2e-4)
    back = counted.as_rows()
    np.testing.assert_array_equal(np.sort(back.x[..., 1], axis=1), np.sort(rows[who][..., 1], axis=1))
    np.testing.assert_array_equal(back.reward.sum(axis=1), reward.sum(axis=1))
    np.testing.assert_array_equal(counted.fingerprints(), back.fingerprints())


def test_batches_do_not_matter(engines):
    rows = table() @ standardising(table())
    who, arm, reward = samples(rows)
    data = Rows(x=rows[who], arm=arm, reward=reward, n_arms=N_ARMS)
    together, alone = engines[1].fit(data).mean, engines[1].fit(data.take(slice(5, 6))).mean
    np.testing.assert_allclose(together[5], alone[0], atol=1e-5)


def test_more_draws_where_the_first_do_not_do(engines, monkeypatch: pytest.MonkeyPatch):
    rows = table() @ standardising(table())
    who, arm, reward = samples(rows)
    data = Rows(x=rows[who], arm=arm, reward=reward, n_arms=N_ARMS)
    monkeypatch.setattr(site_fits, "RUNGS", (Rung(64, 0.9), Rung(1024, 0.8, again=True)))  # 64 are never enough
    batch = engines[1].fit(data)
    np.testing.assert_allclose(batch.diagnostics["effective_size"] / batch.diagnostics["effective_share"], 1024)
    assert batch.vouched.all()


def test_the_factor_alone_is_not_the_likelihood():
    """Weights against quadrature, in one dimension; draws without them fail the same comparison."""
    prior = Prior.gaussian([[0.0], [0.0]], 4.0)
    sampler = SiteSampler.of(prior)
    assert sampler is not None
    data = Rows(x=np.full((1, 6, 1), 2.0), arm=np.zeros((1, 6), dtype=int), reward=np.ones((1, 6)), n_arms=2)
    values, log_weight = draws_of(sampler, data, n_draws=8192, seed=1)
    weight = normalised(log_weight[:, :, 0])[0]
    grid = np.linspace(-12.0, 20.0, 4001)
    density = np.exp(-0.125 * grid**2 - 6.0 * np.logaddexp(0.0, -2.0 * grid))
    truth = (density * grid).sum() / density.sum()
    sd = np.sqrt((density * (grid - truth) ** 2).sum() / density.sum())
    error = sd * np.sqrt((weight**2).sum())
    assert abs(weight @ values[0, :, 0] - truth) < 4.5 * error < abs(values[0, :, 0].mean() - truth)


def test_beliefs_that_it_is_for():
    assert SiteSampler.of(Prior.gaussian(np.zeros((2, 2)), 1.0)) is not None
    with pm.Model(coords={"arm": ["a", "b"], "feature": ["x"]}) as model:
        pm.StudentT("beta", nu=4.0, sigma=1.0, dims=("arm", "feature"))
    assert SiteSampler.of(Prior.from_pymc(model)) is None


def test_few_draws_stand_for_all():
    rng = np.random.default_rng(3)
    weight = rng.dirichlet(np.full(400, 0.5), size=3)
    chosen = few_of(weight, 64)
    counts = np.stack([np.bincount(row, minlength=400) for row in chosen])
    assert (np.abs(counts - 64 * weight) <= 1.0 + 1e-9).all()


def test_draws_that_are_taken_stand_for_all():
    """Weights that are all alike, as those of an arm without samples: every so many of Sobol points are not enough."""
    engine = LaplaceEngine(Prior.gaussian([[0.0], [0.5]], 1.0))
    data = Rows(x=np.ones((1, 3, 1)), arm=np.zeros((1, 3), dtype=int), reward=np.ones((1, 3)), n_arms=2)
    unseen = engine.draw(data, 1000, rng=np.random.default_rng(1))[0, :, 1, 0]
    assert abs(unseen.mean() - 0.5) < 4.5 / np.sqrt(1000)
    assert abs(unseen.std() - 1.0) < 4.5 / np.sqrt(2000)
