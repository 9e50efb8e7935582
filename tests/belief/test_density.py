"""Log densities of beliefs against SciPy and quadrature, and the reasons why some have none."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytensor
import pytest
from scipy import integrate
from scipy import stats as scipy_stats

from rcb_bayes.belief.prior import Prior
from rcb_bayes.errors import BeliefError
from tests.belief import zoo
from tests.belief.zoo import CORRELATED, LOWER, D, K, normal, pm, pt

stats: Any = scipy_stats  # its annotations take every frozen distribution for a discrete one
SHAPE = (K, D)
GRID = np.arange(6.0).reshape(SHAPE)
ANY = np.random.default_rng(0).standard_normal((7, K, D))
POSITIVE = np.abs(ANY) + 0.1
# A truncated variable keeps its plain constants, and what it makes of them, in few bits; all others compute in full.
PRECISION = 2e-8

Reference = Callable[[np.ndarray], Any]  # (n, K, d) -> (n, n_groups)


@pytest.fixture(autouse=True)
def _no_compiler(request: pytest.FixtureRequest) -> Iterator[None]:
    """Python implementations, which need no compilation, except in the slow tests."""
    if request.node.get_closest_marker("slow"):
        yield
    else:
        with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"):
            yield


def laplace(name: str = "z", shape: tuple[int, ...] = SHAPE) -> Any:
    return pm.Laplace(name, 0.0, 1.0, shape=shape)


def per_arm(*densities: Callable[[np.ndarray], Any]) -> Reference:
    """One density (n, d) -> (n, d) for each arm."""
    return lambda x: np.stack([density(x[:, k]).sum(axis=-1) for k, density in enumerate(densities)], axis=1)


def by_rows(density: Callable[[np.ndarray], Any]) -> Reference:
    """One density of vectors, (n, d) -> (n,), for every arm."""
    return lambda x: np.stack([density(x[:, k]) for k in range(K)], axis=1)


def families() -> Any:
    first = pm.StudentT("first", nu=4.0, mu=1.0, sigma=2.0, shape=D)
    return pt.stack([first, 3.0 - 2.0 * laplace("second", (D,)), pm.Logistic("third", 1.0, 0.5, shape=D)])


def set_by_rows() -> Any:
    return pt.set_subtensor(pt.zeros(SHAPE)[np.array([2, 0])], laplace(shape=(2, D))) + pt.set_subtensor(
        pt.zeros(SHAPE)[1], pm.Gamma("gamma", 2.0, 3.0, shape=D)
    )


def markov_chain() -> Any:
    first = laplace("first", (D,))
    second = pm.Laplace("second", first, 1.0)
    return pt.stack([second, laplace("third", (D,)), first])


def mixing_arms() -> Any:
    return np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]) @ laplace()


def mixture() -> Any:
    return pm.Mixture("z", w=[0.3, 0.7], comp_dists=[pm.Laplace.dist(0, 1), pm.Laplace.dist(2.0, 1.0)], shape=SHAPE)


def mixed_images() -> Any:
    return pt.stack([pt.exp(normal("a", D)), laplace("b", (D,)), pm.Gamma("c", 2.0, 1.0, shape=D)])


def _mixing_density(x: np.ndarray) -> np.ndarray:
    second = x[:, 1] / 2.0
    pair = stats.laplace.logpdf(x[:, 0] - second) + stats.laplace.logpdf(second) - np.log(2.0)
    return np.stack([pair.sum(axis=-1), stats.laplace.logpdf(x[:, 2]).sum(axis=-1)], axis=1)


def _chain_density(x: np.ndarray) -> np.ndarray:
    pair = stats.laplace.logpdf(x[:, 2]) + stats.laplace.logpdf(x[:, 0], x[:, 2])
    return np.stack([pair.sum(axis=-1), stats.laplace.logpdf(x[:, 1]).sum(axis=-1)], axis=1)


def _student_vectors(x: np.ndarray) -> Any:
    return stats.multivariate_t.logpdf(x, np.zeros(D), CORRELATED, df=4)


def _correlated_laplace(x: np.ndarray) -> np.ndarray:
    return stats.laplace.logpdf(np.linalg.solve(LOWER, x.T)).sum(axis=0) - np.log(2.0)


def _correlated_lognormal(x: np.ndarray) -> Any:
    return stats.multivariate_normal.logpdf(np.log(x), np.zeros(D), CORRELATED) - np.log(x).sum(axis=-1)


LOGNORMAL = stats.lognorm(1.0).logpdf
SCALES = np.array([1.0, 2.0, 3.0])
DENSITIES: list[tuple[str, zoo.Definition, Reference, np.ndarray]] = [
    ("whole numbers", lambda: pm.Laplace("z", 0, 1, shape=SHAPE), per_arm(*[stats.laplace.logpdf] * K), ANY),
    (
        "cumulative",
        lambda: pt.cumsum(laplace(), axis=1),
        lambda x: stats.laplace.logpdf(np.diff(x, axis=-1, prepend=0.0)).sum(axis=-1),
        ANY,
    ),
    (
        "shifted and scaled",
        lambda: GRID - 2.0 * laplace(),
        lambda x: stats.laplace.logpdf(x, GRID, 2.0).sum(axis=-1),
        ANY,
    ),
    (
        "stacked families",
        families,
        per_arm(
            lambda x: stats.t.logpdf(x, 4.0, 1.0, 2.0),
            lambda x: stats.laplace.logpdf(x, 3.0, 2.0),
            lambda x: stats.logistic.logpdf(x, 1.0, 0.5),
        ),
        ANY,
    ),
    (
        "arms in reverse",
        lambda: pm.Laplace("z", 0.0, SCALES[:, None], shape=SHAPE)[::-1],
        per_arm(*[stats.laplace(0, scale).logpdf for scale in SCALES[::-1]]),
        ANY,
    ),
    (
        "transposed",
        lambda: pm.Laplace("z", 0.0, SCALES, shape=(D, K)).T,
        per_arm(*[stats.laplace(0, scale).logpdf for scale in SCALES]),
        ANY,
    ),
    (
        "rows set out of order",
        set_by_rows,
        per_arm(stats.laplace.logpdf, stats.gamma(2.0, scale=1 / 3).logpdf, stats.laplace.logpdf),
        POSITIVE,
    ),
    ("correlated by a constant", lambda: laplace() @ LOWER.T, by_rows(_correlated_laplace), ANY),
    ("mixing arms", mixing_arms, _mixing_density, ANY),
    ("a chain of arms", markov_chain, _chain_density, ANY),
    (
        "vectors",
        lambda: pm.MvStudentT("z", nu=4.0, mu=np.zeros(D), scale=CORRELATED, shape=SHAPE),
        by_rows(_student_vectors),
        ANY,
    ),
    (
        "mixture",
        mixture,
        lambda x: np.logaddexp(np.log(0.3) + stats.laplace.logpdf(x), np.log(0.7) + stats.laplace.logpdf(x, 2.0)).sum(
            axis=-1
        ),
        ANY,
    ),
    (
        "single precision",
        lambda: pt.cast(laplace(), "float32"),
        per_arm(*[stats.laplace.logpdf] * K),
        ANY,
    ),
    ("exponential", lambda: pt.exp(normal()), per_arm(*[LOGNORMAL] * K), POSITIVE),
    (
        "exponential, shifted",
        lambda: 2.0 * pt.exp(normal()) + 0.05,
        per_arm(*[stats.lognorm(1.0, loc=0.05, scale=2.0).logpdf] * K),
        POSITIVE,
    ),
    (
        "exponential, transposed",
        lambda: pt.exp(pm.Normal("z", 0.0, SCALES, shape=(D, K))).T,
        per_arm(*[stats.lognorm(scale).logpdf for scale in SCALES]),
        POSITIVE,
    ),
    (
        "exponential of vectors",
        lambda: pt.exp(pm.MvNormal("z", np.zeros(D), CORRELATED, shape=SHAPE)),
        by_rows(_correlated_lognormal),
        POSITIVE,
    ),
    (
        "images of several kinds",
        mixed_images,
        per_arm(LOGNORMAL, stats.laplace.logpdf, stats.gamma(2.0).logpdf),
        POSITIVE,
    ),
    ("absolute value", lambda: pt.abs(normal()), per_arm(*[stats.halfnorm.logpdf] * K), POSITIVE),
    (
        "truncated",
        lambda: pm.Truncated("z", pm.Laplace.dist(0.0, 1.0), lower=0.0, shape=SHAPE),
        per_arm(*[stats.expon.logpdf] * K),
        POSITIVE,
    ),
]


@pytest.mark.parametrize(("define", "reference", "values"), [c[1:] for c in DENSITIES], ids=[c[0] for c in DENSITIES])
def test_densities_are_scipys(define: zoo.Definition, reference: Reference, values: np.ndarray):
    prior = Prior.from_pymc(zoo.build(define))
    expected = np.asarray(reference(values))
    found = prior.group_log_density(values)
    assert found.shape == (len(values), len(prior.groups))
    np.testing.assert_allclose(found, expected, rtol=PRECISION, atol=PRECISION)
    np.testing.assert_allclose(prior.log_density(values), expected.sum(axis=1), rtol=PRECISION, atol=PRECISION)
    assert prior.log_density(values[0]) == pytest.approx(expected[0].sum(), rel=PRECISION)
    # The same numbers one by one, and the check sees a small error.
    one_by_one = np.concatenate([prior.group_log_density(value[None]) for value in values])
    np.testing.assert_allclose(found, one_by_one, rtol=1e-6, atol=1e-6)
    assert not np.allclose(prior.log_density(1.01 * values), expected.sum(axis=1), rtol=PRECISION, atol=PRECISION)


@pytest.mark.parametrize(
    "define",
    [
        lambda: np.array([[1.0, 0.8], [0.0, 0.6]]) @ pm.Laplace("z", 0.3, 0.5, shape=(2, 1)),
        pytest.param(
            lambda: pm.Mixture(
                "z", w=[0.4, 0.6], comp_dists=[pm.Laplace.dist(-1.0, 0.5), pm.Laplace.dist(1.0, 1.0)], shape=(2, 1)
            ),
            marks=pytest.mark.slow,  # quick once compiled only
        ),
        lambda: pm.MvStudentT("z", nu=6.0, mu=np.zeros(2), scale=0.3 * CORRELATED, shape=(1, 2)).T,
        lambda: pm.Mixture(
            "z", w=[0.4, 0.6], comp_dists=[pm.Normal.dist(-1.0, 0.3), pm.Normal.dist(1.0, 0.5)], shape=(2, 1)
        ),
    ],
)
def test_densities_integrate_to_one(define: zoo.Definition):
    prior = Prior.from_pymc(zoo.build(define, arms=["a", "b"], features=["x"]))
    edges = np.linspace(-10.0, 10.0, 301)
    grid = np.stack(np.meshgrid(edges, edges, indexing="ij"), axis=-1)[..., None]  # (m, m, 2, 1)
    density = np.exp(prior.log_density(grid))
    total = integrate.simpson(integrate.simpson(density, x=edges), x=edges)
    assert total == pytest.approx(1.0, abs=5e-3)  # corners of the Laplace cost the quadrature two digits


def test_values_outside_the_support_have_no_density():
    prior = Prior.from_pymc(zoo.build(lambda: pm.Gamma("z", 2.0, 1.0, shape=SHAPE)))
    values = POSITIVE[:2].copy()
    values[0, 1, 1] = -1.0
    assert np.isneginf(prior.group_log_density(values)[0, 1])
    assert np.isfinite(np.delete(prior.group_log_density(values).ravel(), 1)).all()


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2]])
def test_permuting_arms_permutes_the_density(order: list[int]):
    prior = Prior.from_pymc(zoo.build(families))
    permuted = Prior.from_pymc(zoo.build(lambda: families()[np.array(order)]))
    np.testing.assert_allclose(
        permuted.group_log_density(ANY[:, order]), prior.group_log_density(ANY)[:, order], rtol=1e-9
    )


def spike_and(slab: Any) -> zoo.Definition:
    return lambda: pm.Mixture("z", w=[0.5, 0.5], comp_dists=[pm.DiracDelta.dist(0.0), slab()], shape=SHAPE)


def repeated_inside(change: Any) -> zoo.Definition:
    return lambda: change(normal("z", D))


REFUSED: list[tuple[str, zoo.Definition, str]] = [
    ("hierarchy", lambda: pm.Laplace("z", pm.Normal("mean"), 1.0, shape=SHAPE), r"more free variables \(mean\)"),
    ("shared and own", lambda: laplace() + laplace("shared", (D,)), r"more free variables \(8 elements\)"),
    ("random scale", lambda: pm.HalfNormal("scale", 1.0) * laplace(), "a product of random variables"),
    ("hidden scale", lambda: pm.Laplace("z", 0.0, pm.HalfNormal("scale", 1.0), shape=SHAPE), r"variables \(scale\)"),
    ("one for all", lambda: laplace("z", (1, 1)) * np.ones(SHAPE), "singular image"),
    ("a constant feature", lambda: laplace() * np.array([1.0, 0.0]), "singular image"),
    ("two arms alike", lambda: np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 1.0]]) @ laplace(), "singular image"),
    ("known coefficient", lambda: pt.set_subtensor(normal()[0, 0], 1.0), "covariance is singular"),
    ("discrete", lambda: pm.Poisson("z", 2.0, shape=SHAPE) * 1.0, "z is discrete"),
    ("label", lambda: laplace() + pm.Bernoulli("label", 0.5), "label is discrete"),
    ("spike and Gaussian slab", spike_and(lambda: pm.Normal.dist(0.0, 1.0)), "covariance is singular"),
    ("spike and Laplace slab", spike_and(lambda: pm.Laplace.dist(0.0, 1.0)), "takes single values"),
    (
        "censored",
        lambda: pm.Censored("z", pm.Laplace.dist(0.0, 1.0), lower=-1.0, upper=1.0, shape=SHAPE),
        "z takes single",
    ),
    ("clipped", lambda: pt.clip(laplace(), -1.0, 1.0), "no affine image"),
    ("rounded", lambda: pt.round(laplace()), "no affine image"),
    ("rectified", lambda: pt.maximum(laplace(), 0.0), "no affine image"),
    ("in pieces", lambda: (lambda z: pt.switch(z > 0, z, 0.1 * z))(laplace()), "no affine image"),
    ("repeated row", repeated_inside(lambda z: pt.exp(pt.stack([z, z, z]))), "no affine image"),
    ("repeated by an index", lambda: pt.exp(normal("z", 2, D)[np.array([0, 1, 1])]), "no affine image"),
    ("broadcast", lambda: pt.exp(normal("z", K, 1)) * np.ones(SHAPE), "no affine image"),
    (
        "twice in a row",
        lambda: (lambda z: pt.stack([pt.exp(z), pt.exp(-z)], axis=1))(normal("z", K)),
        "no affine image",
    ),
    ("hierarchy inside", lambda: pt.exp(pm.Normal("z", pm.Normal("mean"), 1.0, shape=SHAPE)), "no affine image"),
    ("unnamed noise", lambda: laplace() + pm.Laplace.dist(0.0, 1.0, size=SHAPE), "has no name"),
    ("cumulative product", lambda: pt.cumprod(laplace(), axis=1), "no affine image"),
]


@pytest.mark.parametrize(("define", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_beliefs_without_a_density_say_why(define: zoo.Definition, reason: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rcb_bayes.belief.model._TAIL_DRAWS", 2000)
    prior = Prior.from_pymc(zoo.build(define))
    assert not prior.has_density
    with pytest.raises(BeliefError, match=rf"no density of its own: .*{reason}.*sample it"):
        prior.log_density(ANY)


def test_a_closed_form_is_used_where_there_is_one():
    prior = Prior.from_pymc(zoo.build(lambda: pm.Normal("m", 0.0, 1.0, shape=D) + normal()))
    assert prior.density_reason == "closed form"
    expected = stats.multivariate_normal.logpdf(
        ANY.reshape(len(ANY), -1), np.zeros(K * D), np.kron(np.ones((K, K)), np.eye(D)) + np.eye(K * D)
    )
    np.testing.assert_allclose(prior.log_density(ANY), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stacked families", "correlated by a constant", "exponential of vectors"])
def test_the_compiled_density_is_the_same(name: str):
    define, reference, values = next(case[1:] for case in DENSITIES if case[0] == name)
    prior = Prior.from_pymc(zoo.build(define))
    np.testing.assert_allclose(prior.group_log_density(values), reference(values), rtol=PRECISION, atol=PRECISION)
