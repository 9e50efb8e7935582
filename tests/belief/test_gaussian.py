"""Beliefs recognised as Gaussian or as mixtures of Gaussians: exact parameters, and nothing else taken for one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.belief.gaussian import MAX_COMPONENTS
from rcb_bayes.belief.law import GaussianLaw
from rcb_bayes.belief.prior import Prior
from rcb_bayes.errors import BeliefError
from tests.belief import zoo
from tests.belief.zoo import CORRELATED, DIMS, LOWER, TABLE, D, K, normal, pm, pt

N_DRAWS = 6_000
EYE = np.eye(K * D)
GRID = np.arange(6.0).reshape(K, D)
ONES = np.ones((K, K))

Component = tuple[float, Any, Any]  # weight, mean, covariance


def law_of(define: zoo.Definition) -> GaussianLaw:
    law = Prior.from_pymc(zoo.build(define)).law
    assert law is not None
    return law


# --- Gaussian ------------------------------------------------------------------------------------------------------


def grid() -> None:
    pm.Normal("beta", GRID, 1.0 + GRID, dims=DIMS)


def by_precision() -> None:
    pm.Normal("beta", 1, tau=4.0, dims=DIMS)


def vectors_by_precision() -> None:
    pm.MvNormal("beta", GRID[0], tau=np.linalg.inv(CORRELATED), dims=DIMS)


def vectors_by_cholesky() -> None:
    pm.MvNormal("beta", GRID, chol=LOWER, dims=DIMS)


def covariance_per_arm() -> None:
    pm.MvNormal("beta", GRID, np.stack([CORRELATED, np.eye(D), 2 * CORRELATED]), dims=DIMS)


def over_arms() -> Any:
    return pm.MvNormal("z", np.zeros(K), np.eye(K) + 0.5, shape=(D, K)).T


def hierarchy() -> None:
    top = pm.Normal("top", 1.0, 2.0)
    mean = pm.Normal("mean", top, 0.5, shape=D)
    pm.Normal("beta", 3.0 * mean, 0.1, dims=DIMS)


def random_effects() -> Any:
    return 1.0 + normal("shared", D) - normal("of_arm", K)[:, None] / 2.0 + 0.5 * normal()


def used_twice() -> Any:
    z = normal()
    return z + z[::-1]


def sum_of_many() -> Any:
    return normal("z", K, D, 4).sum(axis=-1)


def around_their_mean() -> Any:
    z = normal()
    return z - z.mean(axis=0)


def chosen_by_constants() -> Any:
    return pt.switch(pt.constant(GRID > 2), 2.0 * normal(), 5.0)


def known_coefficient() -> Any:
    return pt.set_subtensor(normal()[:, 0], 7.0)


def point_mass() -> Any:
    return pm.DiracDelta("known", 3.0, shape=D) + normal()


def no_spread() -> None:
    pm.Normal("beta", GRID, np.array([0.0, 1.0]), dims=DIMS)


def from_data() -> Any:
    return normal() @ pm.Data("matrix", LOWER.T) + pm.Data("centre", GRID)


def products_by_features() -> Any:
    return normal() @ LOWER.T


def products_by_arms() -> Any:
    return np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]) @ normal()


def in_single_precision() -> Any:
    return pt.cast(normal(), "float32").astype("float64") * 0.5


GAUSSIAN: list[tuple[zoo.Definition, Any, np.ndarray]] = [
    (grid, GRID, np.diag((1.0 + GRID.ravel()) ** 2)),
    (by_precision, 1.0, 0.25 * EYE),
    (vectors_by_precision, GRID[0], np.kron(np.eye(K), CORRELATED)),
    (vectors_by_cholesky, GRID, np.kron(np.eye(K), LOWER @ LOWER.T)),
    (covariance_per_arm, GRID, np.kron(np.diag([1.0, 0, 2.0]), CORRELATED) + np.kron(np.diag([0, 1.0, 0]), np.eye(D))),
    (over_arms, 0.0, np.kron(np.eye(K) + 0.5, np.eye(D))),
    (hierarchy, 3.0, np.kron(ONES, 9.0 * (4.0 + 0.25 * np.eye(D))) + 0.01 * EYE),
    (
        random_effects,
        1.0,
        np.kron(ONES, np.eye(D)) + np.kron(np.eye(K), 0.25 * np.ones((D, D))) + 0.25 * EYE,
    ),
    (used_twice, 0.0, np.kron(2.0 * (np.eye(K) + np.eye(K)[::-1]), np.eye(D))),
    (sum_of_many, 0.0, 4.0 * EYE),
    (around_their_mean, 0.0, np.kron(np.eye(K) - ONES / K, np.eye(D))),
    (chosen_by_constants, np.where(GRID > 2, 0.0, 5.0), np.diag(np.where(GRID.ravel() > 2, 4.0, 0.0))),
    (known_coefficient, np.array([7.0, 0.0]), np.diag([0.0, 1.0] * K)),
    (point_mass, 3.0, EYE),
    (no_spread, GRID, np.diag([0.0, 1.0] * K)),
    (from_data, GRID, np.kron(np.eye(K), LOWER @ LOWER.T)),
    (products_by_features, 0.0, np.kron(np.eye(K), LOWER @ LOWER.T)),
    (products_by_arms, 0.0, np.kron(np.array([[2.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]), np.eye(D))),
    (in_single_precision, 0.0, 0.25 * EYE),
]


@pytest.mark.parametrize(("define", "mean", "covariance"), GAUSSIAN, ids=[case[0].__name__ for case in GAUSSIAN])
def test_gaussian_beliefs_are_read_exactly(define: zoo.Definition, mean: Any, covariance: np.ndarray):
    prior = Prior.from_pymc(zoo.build(define))
    assert prior.is_gaussian
    assert not prior.is_mixture
    assert prior.law is not None
    np.testing.assert_allclose(prior.law.mean(), np.broadcast_to(mean, (K, D)), atol=1e-12)
    np.testing.assert_allclose(prior.law.covariance(), covariance, atol=1e-10)
    assert prior.law.has_density == (np.linalg.matrix_rank(covariance) == K * D)


# --- not Gaussian --------------------------------------------------------------------------------------------------


def scaled(scale: Callable[[], Any]) -> zoo.Definition:
    return lambda: scale() * normal()


NOT_GAUSSIAN: dict[str, zoo.Definition] = {
    "random scale": scaled(lambda: pm.HalfNormal("scale", 1.0)),
    "random scale, centred": lambda: pm.Normal("z", 0.0, pm.HalfNormal("scale", 1.0), shape=(K, D)),
    "random scale per arm": scaled(lambda: pm.HalfNormal("scale", 1.0, shape=(K, 1))),
    "random covariance": lambda: pm.MvNormal("z", np.zeros(D), pm.Gamma("v", 2.0, 2.0) * np.eye(D), shape=(K, D)),
    "product of normals": scaled(lambda: normal("other")),
    "product of matrices": lambda: normal() @ normal("other", D, D),
    "square": lambda: normal() ** 2,
    "ratio": lambda: normal() / (10.0 + pm.HalfNormal("other", 1.0)),
    "absolute value": lambda: pt.abs(normal()),
    "exponential": lambda: pt.exp(normal()),
    "maximum": lambda: pt.maximum(normal(), 0.0),
    "clip": lambda: pt.clip(normal(), -1.0, 1.0),
    "rounded": lambda: pt.round(normal()),
    "made whole": lambda: pt.cast(pt.cast(normal(), "int64"), "float64"),
    "sorted": lambda: pt.sort(normal(), axis=1),
    "softmax": lambda: pt.special.softmax(normal(), axis=1),
    "mean squared": lambda: pm.Normal("z", normal("mean") ** 2, 1.0),
    "mean a product": lambda: pm.Normal("z", normal("mean") * normal("other"), 1.0),
    "switch on a random condition": lambda: pt.switch(normal("sign") > 0, normal(), 3.0),
    "Student": lambda: pm.StudentT("z", nu=30.0, mu=0.0, sigma=1.0, shape=(K, D)),
    "Laplace": lambda: pm.Laplace("z", 0.0, 1.0, shape=(K, D)),
    "half normal": lambda: pm.HalfNormal("z", 1.0, shape=(K, D)),
    "skew normal": lambda: pm.SkewNormal("z", mu=0.0, sigma=1.0, alpha=1.0, shape=(K, D)),
    "truncated normal": lambda: pm.TruncatedNormal("z", 0.0, 1.0, lower=-1.0, shape=(K, D)),
    "truncated": lambda: pm.Truncated("z", pm.Normal.dist(0.0, 1.0), lower=-1.0, shape=(K, D)),
    "censored": lambda: pm.Censored("z", pm.Normal.dist(0.0, 1.0), lower=-1.0, upper=1.0, shape=(K, D)),
    "one arm not normal": lambda: pt.concatenate([normal("z", 2, D), pm.Laplace("l", 0.0, 1.0, shape=(1, D))]),
    "mixture with a Laplace": lambda: pm.Mixture(
        "z", w=[0.5, 0.5], comp_dists=[pm.Normal.dist(0.0, 1.0), pm.Laplace.dist(0.0, 1.0)], shape=(K, D)
    ),
    "mixture with random weights": lambda: pm.Mixture(
        "z",
        w=pm.Dirichlet("w", np.ones(2)),
        comp_dists=[pm.Normal.dist(0.0, 1.0), pm.Normal.dist(1.0, 1.0)],
        shape=(K, D),
    ),
    "label with a random probability": lambda: normal() + 3.0 * pm.Bernoulli("c", pm.Beta("p", 1.0, 1.0)),
    "label that depends on another": lambda: normal() + pm.Bernoulli("b", pt.switch(pm.Bernoulli("a", 0.3), 0.9, 0.1)),
    "count as scale": scaled(lambda: 1.0 + pm.Poisson("count", 2.0)),
    "own distribution": lambda: pm.CustomDist(
        "z", 0.0, dist=lambda mean, size: pm.Normal.dist(mean, 1.0, size=size) ** 3, shape=(K, D)
    ),
}


@pytest.mark.parametrize("name", NOT_GAUSSIAN)
def test_other_beliefs_are_not_taken_for_gaussian(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rcb_bayes.belief.model._TAIL_DRAWS", 500)  # the law is the question here
    prior = Prior.from_pymc(zoo.build(NOT_GAUSSIAN[name]))
    assert prior.law is None
    assert not prior.is_gaussian
    assert not prior.is_mixture


# --- mixtures ------------------------------------------------------------------------------------------------------


def both(first: list[Component], second: list[Component]) -> list[Component]:
    """Two independent coefficients, each a mixture, as one mixture over the pair."""
    return [(v * w, [m, n], np.diag([s, t])) for v, m, s in first for w, n, t in second]


def weights_per_arm() -> None:
    weights = np.array([[[0.3, 0.7]], [[0.5, 0.5]], [[1.0, 0.0]]])
    pm.Mixture("beta", w=weights, comp_dists=[pm.Normal.dist(-1.0, 0.5), pm.Normal.dist(1.0, 1.0)], dims=DIMS)


def offset_labels() -> Any:
    return pm.DiscreteUniform("label", 2, 4, shape=(K, 1)) + normal()


def label_sets_the_scale() -> None:
    label = pm.Bernoulli("label", 0.3, shape=(K, 1))
    pm.Normal("beta", 1.0, pt.switch(label, 2.0, 0.1), dims=DIMS)


def two_labels_per_arm() -> Any:
    first, second = pm.Bernoulli("first", 0.3, shape=K), pm.Categorical("second", [0.2, 0.8], shape=K)
    return (10.0 * first)[:, None] + pt.constant(TABLE)[second] + normal()


def mixture_plus_label() -> Any:
    parts = [pm.MvNormal.dist(np.zeros(D), CORRELATED), pm.MvNormal.dist(3 * np.ones(D), np.eye(D))]
    mixture = pm.Mixture("mixture", w=[0.3, 0.7], comp_dists=parts, shape=(K, D))
    return mixture - 5.0 * pm.Bernoulli("label", 0.4, shape=(K, 1))


def stacked_vectors() -> None:
    parts = pm.MvNormal.dist(np.array([[0.0, 0.0], [3.0, 4.0]]), CORRELATED)
    pm.Mixture("beta", w=[0.3, 0.7], comp_dists=parts, shape=(K, D), dims=DIMS)


def spike_and_slab() -> None:
    pm.Mixture("beta", w=[0.3, 0.7], comp_dists=[pm.DiracDelta.dist(0.0), pm.Normal.dist(0.0, 2.0)], dims=DIMS)


PER_COEFFICIENT = [(0.3, -1.0, 0.25), (0.7, 1.0, 1.0)]
PER_ARM: list[tuple[zoo.Definition, list[list[Component]]]] = [
    (zoo.mixture_per_coefficient, [both(PER_COEFFICIENT, PER_COEFFICIENT)] * K),
    (zoo.mixture_stacked, [both(PER_COEFFICIENT, PER_COEFFICIENT)] * K),
    (zoo.mixture_of_vectors, [[(0.3, [0, 0], CORRELATED), (0.7, [3, 3], np.eye(D))]] * K),
    (stacked_vectors, [[(0.3, [0, 0], CORRELATED), (0.7, [3, 4], CORRELATED)]] * K),
    (zoo.label_per_arm, [[(0.3, TABLE[0], np.eye(D)), (0.7, TABLE[1], np.eye(D))]] * K),
    (zoo.label_per_coefficient, [both([(0.3, 3.0, 1.0), (0.7, 0.0, 1.0)], [(0.3, 3.0, 1.0), (0.7, 0.0, 1.0)])] * K),
    (zoo.switch_per_arm, [[(0.3, [2, 2], np.eye(D)), (0.7, [0, 0], np.eye(D))]] * K),
    (offset_labels, [[(1 / 3, [k, k], np.eye(D)) for k in (2, 3, 4)]] * K),
    (label_sets_the_scale, [[(0.3, [1, 1], 4.0 * np.eye(D)), (0.7, [1, 1], 0.01 * np.eye(D))]] * K),
    (
        two_labels_per_arm,
        [[(p * q, 10.0 * a + TABLE[b], np.eye(D)) for a, p in ((0, 0.7), (1, 0.3)) for b, q in ((0, 0.2), (1, 0.8))]]
        * K,
    ),
    (
        mixture_plus_label,
        [
            [
                (w * v, np.array(m) - 5.0 * c, s)
                for w, m, s in ((0.3, [0, 0], CORRELATED), (0.7, [3, 3], np.eye(D)))
                for c, v in ((0, 0.6), (1, 0.4))
            ]
        ]
        * K,
    ),
    (
        weights_per_arm,
        [
            both(PER_COEFFICIENT, PER_COEFFICIENT),
            both([(0.5, -1.0, 0.25), (0.5, 1.0, 1.0)], [(0.5, -1.0, 0.25), (0.5, 1.0, 1.0)]),
            [(1.0, [-1, -1], 0.25 * np.eye(D))],
        ],
    ),
]
SHARED_TABLE = np.tile(TABLE[:, None, :], (1, K, 1))
TOGETHER: list[tuple[zoo.Definition, list[Component]]] = [
    (zoo.shared_label, [(0.3, SHARED_TABLE[0].ravel(), EYE), (0.7, SHARED_TABLE[1].ravel(), EYE)]),
    (
        zoo.shared_label_picks_from_each_arms_table,
        [(0.5, (np.array([[1.0], [2.0], [3.0]]) * TABLE[label]).ravel(), EYE) for label in (0, 1)],
    ),
    (zoo.mixture_of_whole_tables, [(0.3, np.zeros(K * D), EYE), (0.7, 3.0 * np.ones(K * D), EYE)]),
]


def reference_density(values: np.ndarray, components: list[Component]) -> np.ndarray:
    terms = [np.log(w) + stats.multivariate_normal.logpdf(values, m, v) for w, m, v in components]
    return np.logaddexp.reduce(terms, axis=0)


@pytest.mark.parametrize(("define", "blocks"), PER_ARM, ids=[case[0].__name__ for case in PER_ARM])
def test_mixtures_of_independent_arms_are_read_exactly(define: zoo.Definition, blocks: list[list[Component]]):
    law = law_of(define)
    assert [block.arms for block in law.blocks] == [(0,), (1,), (2,)]
    assert [block.n_components for block in law.blocks] == [len(components) for components in blocks]
    values = law.draw(20, rng=np.random.default_rng(0))
    expected = np.stack([reference_density(values[:, k], components) for k, components in enumerate(blocks)], axis=1)
    np.testing.assert_allclose(law.log_density(values), expected, rtol=1e-9)


@pytest.mark.parametrize(("define", "components"), TOGETHER, ids=[case[0].__name__ for case in TOGETHER])
def test_mixtures_by_a_shared_label_are_read_exactly(define: zoo.Definition, components: list[Component]):
    law = law_of(define)
    assert [block.n_components for block in law.blocks] == [len(components)]
    values = law.draw(20, rng=np.random.default_rng(0))
    np.testing.assert_allclose(
        law.log_density(values)[:, 0], reference_density(values.reshape(20, -1), components), rtol=1e-9
    )


MOMENTS = [
    zoo.mixture_per_coefficient,
    zoo.mixture_of_vectors,
    zoo.switch_per_arm,
    offset_labels,
    label_sets_the_scale,
    two_labels_per_arm,
    weights_per_arm,
    zoo.mixture_of_whole_tables,
    spike_and_slab,
    zoo.mixture_component_mean_shared,
]


@pytest.mark.parametrize("define", MOMENTS, ids=[define.__name__ for define in MOMENTS])
def test_a_mixtures_moments_are_those_of_forward_draws(define: zoo.Definition):
    law = law_of(define)
    draws = zoo.forward_draws(zoo.build(define), N_DRAWS, seed=1)
    mean, covariance = law.mean(), law.covariance()
    assert zoo.largest_z(draws, mean) < zoo.LIMIT
    assert zoo.largest_z(draws, mean + 0.1 * draws.std()) > zoo.LIMIT
    seen = zoo.products(draws, mean)
    assert zoo.largest_z(seen, covariance) < zoo.LIMIT
    assert zoo.largest_z(seen, covariance + 0.15 * draws.var() * EYE) > zoo.LIMIT


def test_a_spike_and_slab_has_no_density():
    law = law_of(spike_and_slab)
    assert [block.n_components for block in law.blocks] == [4, 4, 4]
    assert not law.has_density
    weights = sorted(law.blocks[0].weights)
    np.testing.assert_allclose(weights, [0.09, 0.21, 0.21, 0.49])


def test_too_many_components_are_not_enumerated():
    def coupled_labels(n_labels: int) -> zoo.Definition:
        def define() -> Any:
            labels = pm.Bernoulli("labels", 0.5, shape=n_labels)
            return labels.sum() + normal()

        return define

    few = int(np.log2(MAX_COMPONENTS))
    assert law_of(coupled_labels(few)).blocks[0].n_components == MAX_COMPONENTS
    for many in (few + 1, 64, 70):  # 2^64 is zero in 64-bit integers
        assert Prior.from_pymc(zoo.build(coupled_labels(many))).law is None


def test_a_mixture_of_mixtures_is_right_or_unread():
    def define() -> None:
        inner = pm.Mixture.dist(w=[0.5, 0.5], comp_dists=[pm.Normal.dist(0.0, 1.0), pm.Normal.dist(4.0, 1.0)])
        pm.Mixture("beta", w=[0.5, 0.5], comp_dists=[inner, pm.Normal.dist(9.0, 1.0)], dims=DIMS)

    prior = Prior.from_pymc(zoo.build(define))
    assert prior.law is None
    assert prior._source is not None
    np.testing.assert_allclose(np.asarray(prior._source.exact_mean), 5.5)


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2]])
def test_permuting_arms_permutes_the_law(order: list[int]):
    def define() -> Any:
        return two_labels_per_arm() + GRID

    law, permuted = law_of(define), law_of(lambda: define()[np.array(order)])
    np.testing.assert_allclose(permuted.mean(), law.mean()[order])
    values = law.draw(10, rng=np.random.default_rng(0))
    np.testing.assert_allclose(permuted.log_density(values[:, order]), law.log_density(values)[:, order], rtol=1e-9)


# --- impossible parameters -----------------------------------------------------------------------------------------


def mixture_with_weights(weights: list[float]) -> zoo.Definition:
    def define() -> None:
        pm.Mixture("beta", w=weights, comp_dists=[pm.Normal.dist(0.0, 1.0), pm.Normal.dist(1.0, 1.0)], dims=DIMS)

    return define


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda: pm.Normal("z", 0.0, np.nan, shape=(K, D)), r"standard deviation of 'z' must be finite"),
        (lambda: pm.Normal("z", 0.0, -1.0, shape=(K, D)), "not negative, got -1"),
        (lambda: pm.Normal("z", 0.0, np.inf, shape=(K, D)), r"standard deviation of 'z' must be finite"),
        (lambda: pm.Normal("z", np.nan, 1.0, shape=(K, D)), "parameters of 'z' must be finite, got nan"),
        (lambda: pm.MvNormal("z", np.zeros(D), -np.eye(D), shape=(K, D)), "covariance of 'z' must be"),
        (lambda: pm.MvNormal("z", np.zeros(D), LOWER, shape=(K, D)), "symmetric and positive semi-definite"),
        (mixture_with_weights([0.5, 0.9]), "probabilities of 'beta' must be at least 0 and sum to 1"),
        (mixture_with_weights([1.5, -0.5]), "probabilities of 'beta' must be at least 0"),
        (mixture_with_weights([np.nan, 1.0]), "probabilities of 'beta' must be at least 0"),
    ],
)
def test_impossible_parameters_are_refused(define: zoo.Definition, message: str):
    model = zoo.build(lambda: _expression(define))
    with pytest.raises(BeliefError, match=message):
        Prior.from_pymc(model)


def _expression(define: zoo.Definition) -> Any:
    made = define()
    return None if made is None else made + 0.0
