"""Beliefs read as normal effects with unknown scales, and those that are not."""

from typing import Any

import numpy as np
import pymc
import pytest
from scipy import stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.belief.scale_mixture import LAPLACE, NORMAL, STUDENT, ScaleMixture

pm: Any = pymc  # annotations that do not fit their own use
COORDS = {"arm": ["a", "b", "c"], "feature": ["x", "y"]}
DIMS = ("arm", "feature")


def read(model: Any) -> ScaleMixture | None:
    return Prior.from_pymc(model).scale_mixture


def variances(mixture: ScaleMixture, scales: np.ndarray) -> np.ndarray:
    """Variances of the coefficients at log scales (n, S), without mixing: (n, K d)."""
    padded = np.concatenate([scales, np.zeros((len(scales), 1))], axis=1)
    inner = mixture.base + (mixture.power * padded[:, mixture.term]).sum(axis=2)
    precision = np.exp(-inner)
    has = mixture.slab >= 0
    precision[:, has] += np.exp(-(mixture.slab_base + mixture.slab_power * padded[:, mixture.slab])[:, has])
    return (1.0 / precision) @ (mixture.root**2).T


def test_effects_around_a_level():
    with pm.Model(coords=COORDS) as model:
        level = pm.Normal("level", 0.2, 0.4, dims="feature")
        tau = pm.HalfNormal("tau", 0.3)
        pm.StudentT("beta", nu=4.0, mu=level, sigma=2.0 * tau, dims=DIMS)
    mixture = read(model)
    assert mixture is not None
    assert mixture.n_scales == 1
    assert sorted(mixture.kind) == [NORMAL] * 2 + [STUDENT] * 6
    np.testing.assert_allclose(mixture.centre, 0.2)
    np.testing.assert_allclose(variances(mixture, np.log([[0.5]])), 0.16 + 1.0)
    np.testing.assert_allclose(mixture.nu[mixture.kind == STUDENT], 4.0)


def test_the_density_of_a_scale_is_that_of_its_logarithm():
    with pm.Model(coords=COORDS) as model:
        pm.Laplace("beta", 0.0, pm.HalfNormal("tau", 0.3), dims=DIMS)
    mixture = read(model)
    assert mixture is not None
    assert (mixture.kind == LAPLACE).all()
    x = mixture.low[0] + mixture.step[0] * np.arange(mixture.line.shape[1])
    expected = stats.halfnorm.logpdf(np.exp(x), scale=0.3) + x
    deep = expected > expected.max() - 20.0
    away = (mixture.line[0] - expected)[deep]
    np.testing.assert_allclose(away, away[0], atol=1e-9)


def test_draws_of_scales_follow_their_density():
    mixture = load_prior("horseshoe", n_arms=2, n_features=2, scale=0.3).scale_mixture
    assert mixture is not None
    scales = np.exp(mixture.draw_scales(20_000, rng=np.random.default_rng(1)))
    tau = scales[:, mixture.term[0][mixture.term[0] >= 0]].prod(axis=1)  # tau times lambda
    other = stats.halfcauchy(scale=0.3).rvs(20_000, random_state=1) * stats.halfcauchy.rvs(size=20_000, random_state=2)
    test: Any = stats.ks_2samp(np.log(tau), np.log(other))
    assert test.pvalue > 1e-4


def test_a_regularised_horseshoe():
    mixture = load_prior("horseshoe", n_arms=3, n_features=2).scale_mixture
    assert mixture is not None
    assert mixture.n_scales == 3 + 3 + 6
    assert (mixture.slab >= 0).all()
    assert len(np.unique(mixture.slab)) == 3
    assert ((mixture.term >= 0).sum(axis=1) == 2).all()
    # Whatever a local scale, the slab bounds the variance.
    huge = np.zeros((1, 12))
    huge[:, np.setdiff1d(np.arange(12), mixture.slab)] = 40.0
    np.testing.assert_allclose(variances(mixture, huge), 1.0)


def test_a_scale_given_by_its_logarithm():
    with pm.Model(coords=COORDS) as model:
        eta = pm.Normal("eta", -1.0, 0.5)
        pm.Normal("beta", 0.1, pm.math.exp(eta), dims=DIMS)
    mixture = read(model)
    assert mixture is not None
    np.testing.assert_allclose(variances(mixture, np.array([[-0.7]])), np.exp(-1.4))


def sum_of_scales() -> Any:
    with pm.Model(coords=COORDS) as model:
        tau, psi, phi = (pm.HalfNormal(name, 1.0) for name in ("tau", "psi", "phi"))
        z = pm.Normal("z", 0.0, 1.0, dims=DIMS)
        pm.Deterministic("beta", (tau + psi + phi) * z, dims=DIMS)
    return model


def moving_mean() -> Any:
    with pm.Model(coords=COORDS) as model:
        tau = pm.HalfNormal("tau", 1.0)
        pm.Normal("beta", tau, tau, dims=DIMS)
    return model


def nested_scales() -> Any:
    with pm.Model(coords=COORDS) as model:
        tau = pm.HalfNormal("tau", 1.0)
        lam = pm.HalfNormal("lam", tau, dims=DIMS)
        z = pm.Normal("z", 0.0, 1.0, dims=DIMS)
        pm.Deterministic("beta", lam * z, dims=DIMS)
    return model


@pytest.mark.parametrize("build", [sum_of_scales, moving_mean, nested_scales])
def test_what_is_of_another_form(build: Any):
    assert read(build()) is None


@pytest.mark.parametrize("name", ["gaussian", "mixture", "skewed", "correlated"])
def test_the_rest_of_the_gallery(name: str):
    assert load_prior(name, n_arms=2, n_features=2).scale_mixture is None
