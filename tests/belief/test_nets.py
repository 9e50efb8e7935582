"""A neural net as a belief: posterior means by NUTS through anchors, against a quadrature that knows no anchors.

One hidden unit, which arms share: mu_a(x) = b_a + v_a tanh(2 w x) with five latents. Given w it is a linear regression
with a normal prior, so that one integral over w is all that is left. (w, v) and (-w, -v) are one and the same net: the
posterior has two modes in the latents and, as a rule, one in mu, which is what anchors tell.
"""
# pyright: reportOptionalMemberAccess=false, reportOptionalCall=false, reportOperatorIssue=false

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import rcb_bayes as rcb
from rcb_bayes.posterior import Statistics, make_engine

ROWS = np.linspace(-1.0, 1.0, 60)[:, None]
AT = np.linspace(-0.9, 0.9, 7)
LEVELS, LEVEL_SD, SIGMA = np.array([0.4, 0.1]), 0.3, 0.3


def net() -> rcb.Prior:
    with pm.Model(coords={"arm": ["old", "new"], "feature": ["u"]}) as model:
        x = pm.Data("x", ROWS, dims=("user", "feature"))
        w, v = pm.Normal("w", 0.0, 1.0, shape=(1, 1)), pm.Normal("v", 0.0, 1.0, shape=(1, 2))
        level = pm.Normal("level", LEVELS, LEVEL_SD, shape=2)
        pm.Deterministic("mu", level + pt.tanh(x @ w * 2.0) @ v, dims=("user", "arm"))
    return rcb.Prior.from_pymc(model, mean="mu", inputs="x")


def by_quadrature(x: np.ndarray, arm: np.ndarray, y: np.ndarray, *, weight_sd: float = 1.0):
    """Posterior mean and sd of mu(AT, arm), (at, 2): a linear regression at each w, and a sum over w."""
    w = np.linspace(-6.0, 6.0, 801)
    log_weight, mean, variance = -0.5 * w**2, np.empty((801, len(AT), 2)), np.empty((801, len(AT), 2))
    precision = np.diag([1.0 / LEVEL_SD**2, 1.0 / weight_sd**2])
    for k in range(2):
        own, reward = x[arm == k], y[arm == k]
        for j, slope in enumerate(w):
            design, shown = (np.stack([np.ones_like(u), np.tanh(2.0 * slope * u)], axis=1) for u in (own, AT))
            posterior = precision + design.T @ design / SIGMA**2
            pull = precision @ [LEVELS[k], 0.0] + design.T @ reward / SIGMA**2
            centre = np.linalg.solve(posterior, pull)
            log_weight[j] += 0.5 * pull @ centre - 0.5 * np.linalg.slogdet(posterior)[1]
            mean[j, :, k] = shown @ centre
            variance[j, :, k] = np.einsum("nd,dn->n", shown, np.linalg.solve(posterior, shown.T))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    average = np.einsum("j,jnk->nk", weight, mean)
    return average, np.sqrt(np.einsum("j,jnk->nk", weight, variance + (mean - average) ** 2))


@pytest.fixture(scope="module")
def prior() -> rcb.Prior:
    return net()


def data_sets(n_sets: int, n: int = 24):
    rng = np.random.default_rng(11)
    x, arm = rng.uniform(-1.0, 1.0, size=(n_sets, n)), rng.integers(0, 2, size=(n_sets, n))
    w, v = rng.standard_normal((n_sets, 1)), rng.standard_normal((n_sets, 2))
    level = LEVELS + LEVEL_SD * rng.standard_normal((n_sets, 2))
    own = np.arange(n_sets)[:, None], arm
    return x, arm, level[own] + v[own] * np.tanh(2.0 * w * x) + SIGMA * rng.standard_normal((n_sets, n))


def test_the_quadrature_is_one() -> None:
    """Against plain weighted draws of all five latents."""
    x, arm, y = (part[0] for part in data_sets(1, n=6))
    mean, spread = by_quadrature(x, arm, y)
    rng, n = np.random.default_rng(3), 400_000
    w, v = rng.standard_normal((n, 1)), rng.standard_normal((n, 2))
    level = LEVELS + LEVEL_SD * rng.standard_normal((n, 2))
    fitted = level[:, arm] + v[:, arm] * np.tanh(2.0 * w * x)
    weight = np.exp(-0.5 * ((y - fitted) ** 2).sum(axis=1) / SIGMA**2)
    weight /= weight.sum()
    values = level[:, None] + v[:, None] * np.tanh(2.0 * w[:, :, None] * AT[:, None])
    error = np.sqrt(np.einsum("s,snk->nk", weight**2, (values - mean) ** 2))
    assert (np.abs(np.einsum("s,snk->nk", weight, values) - mean) < 4.5 * error).all()
    planted = by_quadrature(x, arm, y, weight_sd=0.5)[0]
    assert not (np.abs(np.einsum("s,snk->nk", weight, values) - planted) < 4.5 * error).all()
    assert (error < 0.1 * spread).all()


@pytest.mark.slow
def test_posterior_means_of_a_net(prior: rcb.Prior) -> None:
    engine = make_engine(prior, rcb.GaussianNoise(SIGMA))
    assert engine.name == "nuts"
    x, arm, y = data_sets(4)
    parts = [
        Statistics.from_rows(prior.feature_map(x[m][:, None]), arm=arm[m], reward=y[m], n_arms=2) for m in range(len(x))
    ]
    batch = engine.fit(Statistics.joined(parts))
    assert batch.vouched.all()
    shown = prior.feature_map(AT[:, None])
    before = np.sqrt(LEVEL_SD**2 + np.tanh(2.0 * 0.8 * AT) ** 2)[:, None]  # about mu's spread in the belief
    caught = False
    for m in range(len(x)):
        mean, spread = by_quadrature(x[m], arm[m], y[m])
        found = shown @ batch.mean[m].T
        room = 2.0 * batch.diagnostics["mean_error"][m] * spread + 2.0 * prior.expansion.error * before
        assert (np.abs(found - mean) < room).all()
        caught |= not (np.abs(found - by_quadrature(x[m], arm[m], y[m], weight_sd=0.5)[0]) < room).all()
    assert caught
