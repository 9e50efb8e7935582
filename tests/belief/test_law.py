"""Closed forms: moments, densities and draws of blocks of Gaussian mixtures against SciPy and hand calculation."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from rcb_bayes.belief.law import (
    Block,
    GaussianLaw,
    connected_groups,
    gaussian_law,
    is_covariance,
    is_positive_definite,
    joint_covariance,
    square_root,
)
from tests.belief import zoo

N_DRAWS = 40_000
ALONE = np.array([[0.5, 0.1], [0.1, 0.3]])


def random_covariance(rng: np.random.Generator, p: int, *, rank: int | None = None) -> np.ndarray:
    factor = rng.standard_normal((p, rank or p))
    return factor @ factor.T


def mixed_law() -> GaussianLaw:
    """Arms 0 and 2 together, two components; arm 1 alone, three components."""
    rng = np.random.default_rng(5)
    pair = Block(
        arms=(0, 2),
        weights=np.array([0.3, 0.7]),
        means=np.array([[0.0, 1.0, 2.0, 3.0], [-2.0, 0.0, 1.0, 0.5]]),
        covariances=np.stack([random_covariance(rng, 4), random_covariance(rng, 4)]),
    )
    alone = Block(
        arms=(1,),
        weights=np.array([0.2, 0.5, 0.3]),
        means=np.array([[0.0, 0.0], [1.0, 2.0], [-4.0, 1.0]]),
        covariances=np.stack([ALONE, 2 * ALONE, np.eye(2)]),
    )
    return GaussianLaw(n_arms=3, n_features=2, blocks=(pair, alone))


def mixture_moments(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance by the laws of total expectation and variance, written out."""
    mean = sum((w * m for w, m in zip(block.weights, block.means, strict=True)), np.zeros(block.means.shape[1]))
    second = sum(
        w * (v + np.outer(m, m)) for w, m, v in zip(block.weights, block.means, block.covariances, strict=True)
    )
    return mean, second - np.outer(mean, mean)


def test_moments_are_those_of_the_components():
    law = mixed_law()
    (pair_mean, pair_cov), (alone_mean, alone_cov) = (mixture_moments(block) for block in law.blocks)
    np.testing.assert_allclose(law.mean(), np.stack([pair_mean[:2], alone_mean, pair_mean[2:]]))
    covariance = law.covariance()
    pair, alone = [0, 1, 4, 5], [2, 3]
    np.testing.assert_allclose(covariance[np.ix_(pair, pair)], pair_cov)
    np.testing.assert_allclose(covariance[np.ix_(alone, alone)], alone_cov)
    assert not covariance[np.ix_(pair, alone)].any()
    np.testing.assert_allclose(covariance, covariance.T)


def test_draws_have_the_laws_moments():
    law = mixed_law()
    draws = law.draw(N_DRAWS, rng=np.random.default_rng(1))
    mean, covariance = law.mean(), law.covariance()
    assert zoo.largest_z(draws, mean) < zoo.LIMIT
    assert zoo.largest_z(draws, mean + 0.1) > zoo.LIMIT
    assert zoo.largest_z(zoo.products(draws, mean), covariance) < zoo.LIMIT
    assert zoo.largest_z(zoo.products(draws, mean), 1.1 * covariance) > zoo.LIMIT


def test_draws_have_the_laws_margins():
    law = mixed_law()
    draws = law.draw(N_DRAWS, rng=np.random.default_rng(2))

    def cdf(values: np.ndarray) -> np.ndarray:
        parts = zip(block.weights, block.means[:, 0], block.covariances[:, 0, 0], strict=True)
        return np.sum([w * stats.norm.cdf(values, m, np.sqrt(v)) for w, m, v in parts], axis=0)

    block = law.blocks[1]
    assert stats.kstest(draws[:, 1, 0], cdf).pvalue > 1e-4
    assert stats.kstest(draws[:, 1, 0] + 0.05, cdf).pvalue < 1e-4


def test_density_is_scipys():
    law = mixed_law()
    values = law.draw(50, rng=np.random.default_rng(3))
    found = law.log_density(values)
    flat = values.reshape(50, -1)
    for column, (block, index) in enumerate(zip(law.blocks, ([0, 1, 4, 5], [2, 3]), strict=True)):
        terms = [
            np.log(w) + stats.multivariate_normal.logpdf(flat[:, index], m, v)
            for w, m, v in zip(block.weights, block.means, block.covariances, strict=True)
        ]
        np.testing.assert_allclose(found[:, column], np.logaddexp.reduce(terms, axis=0), rtol=1e-9)


def test_a_batch_is_what_one_by_one_gives():
    law = mixed_law()
    values = law.draw(20, rng=np.random.default_rng(3))
    one_by_one = np.concatenate([law.log_density(value[None]) for value in values])
    np.testing.assert_allclose(law.log_density(values), one_by_one, rtol=1e-12)


def test_the_same_seed_gives_the_same_draws():
    law = mixed_law()
    first, again, other = (law.draw(10, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, other).any()


def test_no_two_coefficients_share_their_draws():
    draws = gaussian_law(np.zeros((3, 2)), np.eye(6)).draw(50, rng=np.random.default_rng(0))
    assert len(np.unique(draws)) == draws.size


def test_zero_covariances_split_the_joint_law():
    rng = np.random.default_rng(0)
    covariance = np.zeros((8, 8))
    together = [0, 1, 6, 7]  # arms 0 and 3
    covariance[np.ix_(together, together)] = random_covariance(rng, 4)
    covariance[2:4, 2:4], covariance[4:6, 4:6] = ALONE, np.eye(2)
    mean = rng.standard_normal((4, 2))
    law = gaussian_law(mean, covariance)
    assert [block.arms for block in law.blocks] == [(0, 3), (1,), (2,)]
    np.testing.assert_allclose(law.mean(), mean)
    np.testing.assert_allclose(law.covariance(), covariance)
    values = rng.standard_normal((5, 4, 2))
    whole: Any = covariance
    joint = stats.multivariate_normal.logpdf(values.reshape(5, -1), mean.ravel(), whole)
    np.testing.assert_allclose(law.log_density(values).sum(axis=1), joint, rtol=1e-9)


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2]])
def test_permuting_arms_permutes_the_law(order: list[int]):
    rng = np.random.default_rng(4)
    mean, covariance = rng.standard_normal((3, 2)), random_covariance(rng, 6)
    index = [arm * 2 + k for arm in order for k in range(2)]
    law = gaussian_law(mean, covariance)
    permuted = gaussian_law(mean[order], covariance[np.ix_(index, index)])
    values = rng.standard_normal((4, 3, 2))
    np.testing.assert_allclose(permuted.mean(), law.mean()[order])
    np.testing.assert_allclose(permuted.covariance(), law.covariance()[np.ix_(index, index)])
    np.testing.assert_allclose(
        permuted.log_density(values[:, order]).sum(axis=1), law.log_density(values).sum(axis=1), rtol=1e-9
    )


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_square_root_of_full_and_singular_covariances(rank: int):
    covariance = random_covariance(np.random.default_rng(rank), 5, rank=rank)
    root = square_root(covariance)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-10)
    assert is_positive_definite(covariance) == (rank == 5)


def test_a_singular_law_draws_on_its_subspace():
    direction = np.array([1.0, -2.0, 0.5, 0.0])
    law = gaussian_law(np.ones((2, 2)), np.outer(direction, direction))
    assert not law.has_density
    draws = law.draw(2000, rng=np.random.default_rng(0)).reshape(2000, 4) - 1.0
    np.testing.assert_allclose(draws, draws[:, :1] * direction, atol=1e-7)
    assert zoo.largest_z(draws[:, :1] ** 2, 1.0) < zoo.LIMIT


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_definiteness_does_not_depend_on_the_unit(scale: float):
    assert is_positive_definite(scale * ALONE)
    assert not is_positive_definite(scale * np.ones((2, 2)))


@pytest.mark.parametrize(
    ("matrix", "verdict"),
    [
        (ALONE, True),
        (np.zeros((2, 2)), True),
        (np.ones((2, 2)), True),
        (np.stack([ALONE, np.eye(2)]), True),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), False),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), False),
        (np.stack([ALONE, -np.eye(2)]), False),
    ],
)
def test_what_counts_as_a_covariance(matrix: np.ndarray, verdict: bool):
    assert is_covariance(matrix) is verdict


def test_joint_covariance_of_independent_arms():
    joint = joint_covariance([ALONE, np.eye(2)])
    expected = np.block([[ALONE, np.zeros((2, 2))], [np.zeros((2, 2)), np.eye(2)]])
    np.testing.assert_array_equal(joint, expected)


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ([], ((0,), (1,), (2,), (3,))),
        ([(0, 3)], ((0, 3), (1,), (2,))),
        ([(0, 1), (1, 2)], ((0, 1, 2), (3,))),
        ([(0, 3), (1, 2)], ((0, 3), (1, 2))),
        ([(0, 3), (3, 1), (1, 2)], ((0, 1, 2, 3),)),
    ],
)
def test_connected_groups(pairs: list[tuple[int, int]], groups: zoo.Groups):
    coupled = np.eye(4, dtype=bool)
    for first, second in pairs:
        coupled[first, second] = coupled[second, first] = True
    assert connected_groups(coupled) == groups


def test_independent_arms_of_one_law_are_alike() -> None:
    mean = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert gaussian_law(mean, np.diag(np.repeat([1.0, 2.0, 1.0, 3.0], 2))).alike() == ((0, 2), (1,), (3,))


def test_arms_that_share_randomness_are_not_alike() -> None:
    law = gaussian_law(np.zeros((3, 1)), np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    assert law.alike() == ((0,), (1,), (2,))
