"""Exact prior means: right to the last digit where they are given, and not given where they cannot be followed."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief.expectation import _TRUSTED, exact_mean
from rcb_bayes.belief.graph import Graph, freeze
from rcb_bayes.belief.independence import Sources
from tests.belief import zoo
from tests.belief.zoo import CORRELATED, D, K, normal, pm, pt

N_DRAWS = 15_000
SHAPE = (K, D)
GRID = np.arange(6.0).reshape(SHAPE)


def mean_of(define: zoo.Definition) -> np.ndarray | None:
    graph = Graph()
    return exact_mean(freeze(zoo.build(define))["beta"], graph=graph, sources=Sources(graph))


def check_against_draws(define: zoo.Definition, *, n: int = N_DRAWS) -> None:
    """The mean is that of forward draws, and the check would see a tenth of a standard deviation."""
    found = mean_of(define)
    assert found is not None
    assert found.shape == SHAPE
    draws = zoo.forward_draws(zoo.build(define), n, seed=1)
    assert zoo.largest_z(draws, found) < zoo.LIMIT
    assert zoo.largest_z(draws, found + 0.1 * draws.std(axis=0)) > zoo.LIMIT


# One of each family whose mean is trusted, with parameters that differ by coefficient where they may.
FAMILIES: dict[str, zoo.Definition] = {
    "AsymmetricLaplaceRV": lambda: pm.AsymmetricLaplace("z", b=2.0, kappa=0.5, mu=GRID, shape=SHAPE),
    "BernoulliRV": lambda: 1.0 * pm.Bernoulli("z", 0.1 + GRID / 10, shape=SHAPE),
    "BetaRV": lambda: pm.Beta("z", 1.0 + GRID, 2.0, shape=SHAPE),
    "ExponentialRV": lambda: pm.Exponential("z", 1.0 + GRID, shape=SHAPE),
    "GammaRV": lambda: pm.Gamma("z", 2.0, 1.0 + GRID, shape=SHAPE),
    "GumbelRV": lambda: pm.Gumbel("z", GRID, 2.0, shape=SHAPE),
    "HalfNormalRV": lambda: pm.HalfNormal("z", 1.0 + GRID, shape=SHAPE),
    "LaplaceRV": lambda: pm.Laplace("z", GRID, 2.0, shape=SHAPE),
    "LogNormalRV": lambda: pm.LogNormal("z", GRID / 5, 0.5, shape=SHAPE),
    "LogisticRV": lambda: pm.Logistic("z", GRID, 2.0, shape=SHAPE),
    "MvNormalRV": lambda: pm.MvNormal("z", GRID[0], CORRELATED, shape=SHAPE),
    "MvStudentTRV": lambda: pm.MvStudentT("z", nu=6.0, mu=GRID[0], scale=CORRELATED, shape=SHAPE),
    "NormalRV": lambda: pm.Normal("z", GRID, 2.0, shape=SHAPE),
    "SkewNormalRV": lambda: pm.SkewNormal("z", mu=GRID, sigma=2.0, alpha=-3.0, shape=SHAPE),
    "StudentTRV": lambda: pm.StudentT("z", nu=5.0, mu=GRID, sigma=2.0, shape=SHAPE),
    "TriangularRV": lambda: pm.Triangular("z", lower=-1.0, c=0.0, upper=1.0 + GRID, shape=SHAPE),
    "UniformRV": lambda: pm.Uniform("z", -1.0, 1.0 + GRID, shape=SHAPE),
    "WeibullBetaRV": lambda: pm.Weibull("z", alpha=1.5, beta=1.0 + GRID, shape=SHAPE),
}


def test_every_trusted_family_is_tried():
    assert set(FAMILIES) == _TRUSTED


@pytest.mark.parametrize("family", FAMILIES)
def test_means_of_families(family: str):
    check_against_draws(FAMILIES[family])


def shared_and_own_mean() -> Any:
    return pm.Laplace("z", 1.0 + 2.0 * pm.Gamma("mean", 2.0, 1.0), 1.0, shape=SHAPE)


def random_scale_of_half_normals() -> Any:
    return pm.HalfNormal("z", pm.Uniform("scale", 0.5, 2.0, shape=(K, 1)), shape=SHAPE)


def random_bounds() -> Any:
    return pm.Uniform("z", -pm.Exponential("low", 1.0), 1.0 + pm.Exponential("high", 2.0, shape=D), shape=SHAPE)


def random_probability() -> Any:
    return 3.0 * pm.Bernoulli("z", pm.Beta("p", 2.0, 1.0), shape=SHAPE) - 1.0


def random_weibull_scale() -> Any:
    return pm.Weibull("z", alpha=2.0, beta=pm.HalfNormal("scale", 1.0), shape=SHAPE)


def product_of_independents() -> Any:
    return (1.0 + normal()) * pm.Gamma("gamma", 2.0, 1.0, shape=(K, 1)) * pm.Uniform("u", 0.0, 1.0)


def product_of_different_elements() -> Any:
    z = pm.Gamma("z", 2.0, 1.0, shape=SHAPE)
    return z * z[::-1, ::-1]


def sum_of_dependents() -> Any:
    z = pm.Gamma("z", 2.0, 1.0, shape=SHAPE)
    return z - 3.0 * z.sum(axis=0) + z[:, ::-1] / 2.0


def matrix_product() -> Any:
    return pm.Gamma("a", 2.0, 1.0, shape=(K, K)) @ (1.0 + normal("b", K, D))


def mixture() -> Any:
    parts = [pm.Logistic.dist(2.0, 1.0), pm.Laplace.dist(-3.0, 1.0)]
    return pm.Mixture("z", w=[0.3, 0.7], comp_dists=parts, shape=SHAPE)


def mixture_of_vectors() -> Any:
    parts = [pm.MvNormal.dist(GRID[1], CORRELATED), pm.MvStudentT.dist(nu=5.0, mu=-GRID[1], scale=CORRELATED)]
    return pm.Mixture("z", w=[0.3, 0.7], comp_dists=parts, shape=SHAPE)


def mixture_with_a_random_mean() -> Any:
    parts = [pm.Normal.dist(pm.Gamma("mean", 2.0, 1.0), 1.0), pm.Laplace.dist(-3.0, 1.0)]
    return pm.Mixture("z", w=[0.3, 0.7], comp_dists=parts, shape=SHAPE)


def moved() -> Any:
    stacked = pt.stack([pm.Gamma(f"z{k}", 1.0 + k, 1.0, shape=D) for k in range(K)])
    return pt.set_subtensor(stacked[::-1][1, 0], 7.0)


def switched_by_constants() -> Any:
    return pt.switch(pt.constant(GRID > 2), pm.Gamma("z", 2.0, 1.0, shape=SHAPE), -1.0)


TOTALS = [
    shared_and_own_mean,
    random_scale_of_half_normals,
    random_bounds,
    random_probability,
    random_weibull_scale,
    product_of_independents,
    product_of_different_elements,
    sum_of_dependents,
    matrix_product,
    mixture,
    mixture_of_vectors,
    mixture_with_a_random_mean,
]


@pytest.mark.parametrize("define", TOTALS, ids=[define.__name__ for define in TOTALS])
def test_means_by_total_expectation(define: zoo.Definition):
    check_against_draws(define)


def test_constants_keep_their_values():
    np.testing.assert_allclose(np.asarray(mean_of(moved)), [[3.0, 3.0], [7.0, 2.0], [1.0, 1.0]])
    np.testing.assert_allclose(np.asarray(mean_of(switched_by_constants)), np.where(GRID > 2, 2.0, -1.0))
    np.testing.assert_array_equal(np.asarray(mean_of(lambda: pt.constant(GRID))), GRID)


# Whole numbers and plain ones, which PyTensor keeps in few bits, each with its mean.
PLAIN_NUMBERS: dict[str, tuple[zoo.Definition, float]] = {
    "gamma": (lambda: pm.Gamma("z", 2, 3, shape=SHAPE), 2 / 3),
    "gamma of small floats": (lambda: pm.Gamma("z", 2.0, 3.0, shape=SHAPE), 2 / 3),
    "exponential": (lambda: pm.Exponential("z", 3, shape=SHAPE), 1 / 3),
    "beta": (lambda: pm.Beta("z", 1, 2, shape=SHAPE), 1 / 3),
    "uniform": (lambda: pm.Uniform("z", 0, 1, shape=SHAPE), 1 / 2),
    "lognormal": (lambda: pm.LogNormal("z", 1, 1, shape=SHAPE), np.exp(1.5)),
    "weibull": (lambda: pm.Weibull("z", alpha=1, beta=3, shape=SHAPE), 3.0),
    "mixture": (
        lambda: pm.Mixture("z", w=[0.5, 0.5], comp_dists=[pm.Gamma.dist(1, 3), pm.Gamma.dist(4, 3)], shape=SHAPE),
        5 / 6,
    ),
    "a quotient of whole numbers": (lambda: normal() + pt.constant(1) / pt.constant(3), 1 / 3),
    "a whole mean per coefficient": (lambda: pm.Laplace("z", 1 / pt.constant([3, 3]), 1, shape=SHAPE), 1 / 3),
}


@pytest.mark.parametrize("name", PLAIN_NUMBERS)
def test_plain_numbers_give_exact_means_whatever_was_read_before(name: str):
    mean_of(lambda: pm.Exponential("z", 2.0, shape=SHAPE))  # reciprocals of floats, and of floats only
    define, mean = PLAIN_NUMBERS[name]
    np.testing.assert_allclose(np.asarray(mean_of(define)), np.full(SHAPE, mean), rtol=1e-14)
    check_against_draws(define)


def test_a_zero_mean_wins_over_an_unknown_factor():
    """The regularised horseshoe: the scale has no mean that can be followed, the sign is independent of it."""

    def define() -> Any:
        scale = pt.sqrt(1.0 / (1.0 + pm.HalfNormal("scale", 1.0) ** 2))
        return scale * normal()

    np.testing.assert_array_equal(np.asarray(mean_of(define)), np.zeros(SHAPE))


# Means that are not products or functions of the parts' means: each must be unknown, not guessed.
UNKNOWN: dict[str, zoo.Definition] = {
    "square as a product": lambda: (lambda z: z * z)(normal()),
    "square as a function": lambda: normal() ** 2,
    "product of dependents": lambda: (lambda z: z * (1.0 + z))(normal()),
    "product of three, two dependent": lambda: (lambda z: z * pm.Gamma("g", 2.0, 1.0) * z)(normal()),
    "product through a shared parent": lambda: (
        lambda m: pm.Normal("x", m, 1.0, shape=SHAPE) * pm.Normal("y", m, 1.0, shape=SHAPE)
    )(normal("m", D)),
    "product with one's own scale": lambda: (lambda s: pm.Normal("x", 1.0, s, shape=SHAPE) * s)(
        pm.HalfNormal("s", 1.0)
    ),
    "matrix times its transpose": lambda: (lambda z: z @ z.T @ np.ones((K, D)))(normal("z", K, K)),
    "exponential": lambda: pt.exp(normal()),
    "absolute value": lambda: pt.abs(normal()),
    "maximum": lambda: pt.maximum(normal(), 0.0),
    "ratio": lambda: normal() / (1.0 + pm.Gamma("g", 2.0, 1.0)),
    "made whole": lambda: pt.cast(pt.cast(0.6 + normal(), "int64"), "float64"),
    "random index": lambda: pt.constant(GRID)[pm.Categorical("c", [0.2, 0.3, 0.5], shape=K)],
    "random condition": lambda: pt.switch(normal("c") > 1, normal(), 3.0),
    "random log mean": lambda: pm.LogNormal("z", normal("m"), 0.5, shape=SHAPE),
    "random rate": lambda: pm.Exponential("z", 1.0 + pm.Gamma("rate", 2.0, 1.0), shape=SHAPE),
    "random shapes of a Beta": lambda: pm.Beta("z", 1.0 + pm.Gamma("a", 2.0, 1.0), 1.0, shape=SHAPE),
    "a family whose mean PyMC has wrong": lambda: pm.ExGaussian("z", mu=0.0, sigma=0.5, nu=2.0, shape=SHAPE),
    "truncated": lambda: pm.Truncated("z", pm.Normal.dist(0.0, 1.0), lower=-1.0, shape=SHAPE),
    "censored": lambda: pm.Censored("z", pm.Normal.dist(0.0, 1.0), lower=-1.0, upper=2.0, shape=SHAPE),
    "own distribution": lambda: pm.CustomDist(
        "z", 0.0, dist=lambda mean, size: pm.Gamma.dist(1.0 + mean, 1.0, size=size), class_name="NormalRV", shape=SHAPE
    ),
    "mixture with an unknown part": lambda: pm.Mixture(
        "z", w=[0.5, 0.5], comp_dists=[pm.Normal.dist(0.0, 1.0), pm.Cauchy.dist(0.0, 1.0)], shape=SHAPE
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_means_that_cannot_be_followed_are_unknown(name: str):
    assert mean_of(UNKNOWN[name]) is None


def test_one_unknown_coefficient_makes_the_mean_unknown():
    assert mean_of(lambda: pt.set_subtensor(normal()[1, 1], pt.exp(normal("z2", 1))[0])) is None
