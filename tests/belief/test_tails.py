"""Tail indices by hand, and beliefs without a mean refused."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief.graph import Graph, freeze
from rcb_bayes.belief.independence import Sources
from rcb_bayes.belief.model import _NO_MEAN_KHAT, _TAIL_DRAWS, _tail_khat
from rcb_bayes.belief.prior import Prior
from rcb_bayes.belief.tails import improper_behind, tail_index
from rcb_bayes.errors import BeliefError
from tests.belief import zoo
from tests.belief.zoo import D, K, normal, pm, pt

SHAPE = (K, D)
INF = np.inf


def index_of(define: zoo.Definition) -> float | None:
    graph = Graph()
    return tail_index(freeze(zoo.build(define))["beta"], graph=graph, sources=Sources(graph))


def student(nu: Any, name: str = "t", **parameters: Any) -> Any:
    return pm.StudentT(name, **({"nu": nu, "mu": 0.0, "sigma": 1.0, "shape": SHAPE} | parameters))


def half_cauchy(name: str = "c", shape: tuple[int, ...] = SHAPE) -> Any:
    return pm.HalfCauchy(name, 1.0, shape=shape)


def twice(make: Any, change: Any) -> zoo.Definition:
    """A variable used twice: ``change(z, z)`` of the same z."""

    def define() -> Any:
        z = make()
        return change(z, z)

    return define


def horseshoe_of_scales() -> Any:
    return pm.Normal("z", 0.0, half_cauchy("tau", ()) * half_cauchy("lam"), shape=SHAPE)


def horseshoe_of_a_chain() -> Any:
    lam = pm.HalfCauchy("lam", half_cauchy("tau", ()), shape=SHAPE)
    return pm.Normal("z", 0.0, lam, shape=SHAPE)


def horseshoe_non_centred() -> Any:
    return normal() * half_cauchy("tau", ()) * half_cauchy("lam")


def regularised_horseshoe() -> Any:
    tau, lam = half_cauchy("tau", ()), half_cauchy("lam")
    slab = pm.InverseGamma("slab", 3.0, 3.0)
    return normal() * tau * lam * pt.sqrt(slab / (slab + tau**2 * lam**2))


def regularised_horseshoe_by_the_sum_of_precisions() -> Any:
    precision = 1.0 + 1.0 / (half_cauchy("tau", ()) * half_cauchy("lam")) ** 2
    return pm.Normal("z", 0.0, 1.0 / pt.sqrt(precision), shape=SHAPE)


def product_with_a_light_dependent() -> Any:
    mean = normal("mean")
    return mean * pm.StudentT("t", nu=4.0, mu=mean, sigma=1.0)


def lkj_with_heavy_scales() -> Any:
    chol, _, _ = pm.LKJCholeskyCov("chol", n=D, eta=2.0, sd_dist=pm.HalfStudentT.dist(nu=3.0, sigma=1.0))
    return pm.MvNormal("z", np.zeros(D), chol=chol, shape=SHAPE)


def spectral_density() -> Any:
    """A squared exponential's, in high frequencies: nearly nothing, rarely much, and bounded."""
    length = pm.InverseGamma("length", 5.0, 3.0)
    omega = np.linspace(1.0, 20.0, K * D).reshape(SHAPE)
    scale = pt.sqrt(pt.sqr(pm.HalfNormal("eta", 1.0)) * length * pt.exp(-0.5 * pt.sqr(omega) * pt.sqr(length)))
    return normal() * scale


def cauchy_of_size(centre: Any, size: Any) -> Any:
    return pm.Cauchy.dist(centre, 1.0, size=size)


INDICES: list[tuple[str, zoo.Definition, float | None]] = [
    ("normal", normal, INF),
    ("Student", lambda: student(3.0), 3.0),
    ("Student by arm", lambda: student(np.array([[3.0], [2.5], [9.0]])), 2.5),
    ("Cauchy", lambda: pm.Cauchy("z", 0.0, 1.0, shape=SHAPE), 1.0),
    ("half Cauchy", half_cauchy, 1.0),
    ("half Student", lambda: pm.HalfStudentT("z", nu=4.0, sigma=1.0, shape=SHAPE), 4.0),
    ("inverse gamma", lambda: pm.InverseGamma("z", 3.0, 1.0, shape=SHAPE), 3.0),
    ("Pareto", lambda: pm.Pareto("z", 2.5, 1.0, shape=SHAPE), 2.5),
    ("log-normal", lambda: pm.LogNormal("z", 0.0, 1.0, shape=SHAPE), INF),
    ("exponential of a normal", lambda: pt.exp(1.0 + 3.0 * normal()), INF),
    ("exponential of a Laplace", lambda: pt.exp(pm.Laplace("z", 0.0, 1.0, shape=SHAPE)), None),
    ("scaled and shifted", lambda: 1.0 - student(3.0) / 7.0, 3.0),
    ("absolute value", lambda: pt.abs(student(3.0)), 3.0),
    ("square", lambda: student(3.0) ** 2, 1.5),
    ("square by a function", lambda: pt.sqr(student(3.0)), 1.5),
    ("square by a product", twice(lambda: student(3.0), lambda x, y: x * y), 1.5),
    ("cube", lambda: student(6.0) ** 3, 2.0),
    ("square root", lambda: pt.sqrt(half_cauchy()), 2.0),
    ("inverse power", lambda: half_cauchy() ** -1.0, None),
    ("sum of two", lambda: student(3.0) + student(5.0, "u"), 3.0),
    ("sum over an axis", lambda: student(3.0, shape=(K, D, 4)).sum(axis=2), 3.0),
    ("light plus heavy", lambda: normal() + student(3.0), 3.0),
    ("independent product", lambda: student(3.0) * student(5.0, "u"), 3.0),
    ("independent matrix product", lambda: student(3.0) @ student(4.0, "u", shape=(D, D)), 3.0),
    ("dependent product, variance proved", twice(lambda: student(9.0), lambda x, y: x * (1.0 + y)), 4.5),
    ("dependent product, nothing proved", twice(lambda: student(3.0), lambda x, y: x * (1.0 + y)), None),
    ("product with a light dependent", product_with_a_light_dependent, 4.0),
    ("ratio", lambda: normal() / normal("other"), None),
    ("stacked", lambda: pt.stack([normal("a", D), student(3.0, shape=D), normal("b", D)]), 3.0),
    ("bounded", lambda: pt.tanh(pm.Cauchy("z", 0.0, 1.0, shape=SHAPE)), INF),
    ("bounded by its sign", lambda: pt.exp(-0.5 * pt.sqr(half_cauchy() + student(1.5))), INF),
    ("bounded by a negative power", lambda: (1.0 + pt.sqr(half_cauchy())) ** -0.5, INF),
    ("not bounded by its sign", lambda: pt.exp(0.5 * pt.sqr(normal())), None),
    ("density of a spectrum", spectral_density, 10.0),
    ("product over an axis", lambda: pt.prod(half_cauchy(shape=(K, D, 1)), axis=2), 1.0),
    ("product over an axis of some", lambda: pt.prod(student(9.0, shape=(K, D, 3)), axis=2), 3.0),
    ("bounded by a sigmoid", lambda: pm.math.sigmoid(half_cauchy()), INF),
    ("cut by itself", twice(half_cauchy, lambda x, y: pt.switch(x > 5.0, 5.0, y)), None),
    ("chosen by a coin", lambda: pt.switch(pm.Bernoulli("b", 0.5, shape=SHAPE), student(3.0), 0.0), 3.0),
    ("heavy scale", lambda: pm.Normal("z", 0.0, pm.HalfStudentT("s", nu=3.0, sigma=1.0), shape=SHAPE), 3.0),
    ("heavy location", lambda: pm.Laplace("z", student(3.0), 1.0), 3.0),
    ("heavy scale of a Student", lambda: student(5.0, sigma=pm.HalfStudentT("s", nu=3.0, sigma=1.0)), 3.0),
    (
        "heavy variance",
        lambda: pm.MvNormal("z", np.zeros(D), pm.InverseGamma("v", 2.0, 1.0) * np.eye(D), shape=SHAPE),
        4,
    ),
    (
        "heavy variance of a Student",
        lambda: pm.MvStudentT(
            "z", nu=9.0, mu=np.zeros(D), scale=pm.InverseGamma("v", 2.0, 1.0) * np.eye(D), shape=SHAPE
        ),
        4.0,
    ),
    ("LKJ with heavy scales", lkj_with_heavy_scales, 3.0),
    ("vectors", lambda: pm.MvStudentT("z", nu=4.0, mu=np.zeros(D), scale=np.eye(D), shape=SHAPE), 4.0),
    (
        "mixture",
        lambda: pm.Mixture(
            "z", w=[0.9, 0.1], comp_dists=[pm.Normal.dist(0.0, 1.0), pm.StudentT.dist(nu=3.0)], shape=SHAPE
        ),
        3.0,
    ),
    ("random degrees of freedom", lambda: student(2.0 + pm.Gamma("nu", 2.0, 1.0)), None),
    ("own distribution", lambda: pm.CustomDist("z", 0.0, dist=cauchy_of_size, shape=SHAPE), None),
    ("horseshoe", horseshoe_of_scales, 1.0),
    ("horseshoe of a chain", horseshoe_of_a_chain, 1.0),
    ("horseshoe, non-centred", horseshoe_non_centred, 1.0),
    ("regularised horseshoe", regularised_horseshoe, None),
]


@pytest.mark.parametrize(("define", "index"), [case[1:] for case in INDICES], ids=[case[0] for case in INDICES])
def test_tail_indices(define: zoo.Definition, index: float | None):
    found = index_of(define)
    assert found == index if index is None else found == pytest.approx(index)


def test_a_variable_used_many_times_over_is_read_once():
    def define() -> Any:
        x = student(3.0)
        for _ in range(60):  # 2^60 paths
            x = x + 0.1 * x
        return x

    assert index_of(define) == 3.0
    assert not improper_behind([freeze(zoo.build(define))["beta"]])


REFUSED = [
    horseshoe_of_scales,
    horseshoe_of_a_chain,
    horseshoe_non_centred,
    lambda: student(1.0),
    lambda: student(2.0) ** 2,
    lambda: normal() / normal("other"),
    lambda: pt.exp(student(5.0)),
    lambda: pt.concatenate([normal("a", 2, D), pm.Cauchy("c", 0.0, 1.0, shape=(1, D))]),
    lambda: pt.exp(pt.sqr(normal())),
]


@pytest.mark.parametrize("define", REFUSED)
def test_beliefs_without_a_mean_are_refused(define: zoo.Definition):
    with pytest.raises(BeliefError, match=r"no finite mean.*regularised horseshoe, or a Student-t with nu > 1"):
        Prior.from_pymc(zoo.build(define))


ACCEPTED: list[tuple[zoo.Definition, bool | None]] = [
    (regularised_horseshoe, None),
    (regularised_horseshoe_by_the_sum_of_precisions, None),
    (lambda: student(5.0 + pm.Gamma("nu", 2.0, 1.0)), None),
    (twice(half_cauchy, lambda x, y: pt.switch(x > 5.0, 5.0, y)), None),
    (lambda: pt.clip(pm.Cauchy("z", 0.0, 1.0, shape=SHAPE), -3.0, 3.0), None),
    (lambda: pm.Censored("z", pm.Normal.dist(0.0, 1.0), lower=0.0, upper=None, shape=SHAPE), None),
    (lambda: pm.NegativeBinomial("z", mu=3.0, alpha=2.0, shape=SHAPE) / 2.0, None),
    (lambda: pt.set_subtensor(pm.Moyal("z", 0.0, 1.0, shape=SHAPE)[:, 0], 1.0), None),
    (lambda: student(3.0), True),
    (lambda: student(2.0), False),
    (lambda: student(1.5), False),
    (normal, True),
]


@pytest.mark.parametrize(("define", "finite_variance"), ACCEPTED)
def test_beliefs_with_a_mean_are_accepted(define: zoo.Definition, finite_variance: bool | None):
    assert Prior.from_pymc(zoo.build(define)).has_finite_variance is finite_variance


def test_an_infinite_variance_is_reported_as_such():
    moments = Prior.from_pymc(zoo.build(lambda: 0.5 + student(1.5))).moments
    np.testing.assert_array_equal(moments["mean"], np.full(SHAPE, 0.5))
    assert not moments["mean_mcse"].any()
    joint = moments["covariance"].to_numpy().reshape(K * D, K * D)
    assert np.isposinf(np.diag(joint)).all()
    assert np.isnan(joint[~np.eye(K * D, dtype=bool)]).all()


def test_the_fitted_tail_tells_a_mean_from_none():
    rng = np.random.default_rng(0)
    n = _TAIL_DRAWS
    light, heavy, cauchy = (rng.standard_t(nu, size=(n, K, D)) for nu in (30.0, 1.5, 1.0))
    assert _tail_khat(light) < 0.4
    assert _tail_khat(heavy) == pytest.approx(1 / 1.5, abs=0.2)
    assert _tail_khat(heavy) < _NO_MEAN_KHAT < _tail_khat(cauchy)
    assert _tail_khat(np.concatenate([light, -np.abs(cauchy)], axis=1)) > _NO_MEAN_KHAT  # any column, either side
    assert _tail_khat(np.round(cauchy)) > _NO_MEAN_KHAT


@pytest.mark.parametrize(
    "values",
    [
        lambda rng, n: np.ones(n),
        lambda rng, n: rng.integers(0, 3, size=n).astype(float),
        lambda rng, n: np.clip(rng.standard_cauchy(n), -1.0, 1.0),
    ],
)
def test_a_tail_of_a_few_points_is_light(values: Any):
    draws = values(np.random.default_rng(0), _TAIL_DRAWS)
    assert _tail_khat(draws[:, None, None]) < _NO_MEAN_KHAT
