"""A rule over one unknown scale: against the same mixture by plain algebra, and what it does not vouch for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pymc
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.belief.conditional import ConditionalLaw
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.posterior.exact import exact_moments
from rcb_bayes.posterior.scales import ScaleGrid, split_level
from rcb_bayes.schema import FloatArray
from tests.posterior.twins import simulate_statistics

pm: Any = pymc  # annotations that do not fit their own use
K, D, SIGMA = 3, 2, 0.4


def on_a_grid(name: str) -> tuple[Prior, ConditionalLaw]:
    """A belief's law on a grid of its scale, with arms around a level, independent, or all different."""
    prior = load_prior("hierarchical", n_arms=K, n_features=D)
    given = prior.conditional_grid
    assert given is not None
    block = given.law.blocks[0]
    covariances = block.covariances
    if name == "independent":
        covariances = covariances * np.kron(np.eye(K), np.ones((D, D)))
    if name == "all different":
        factor = np.random.default_rng(1).uniform(0.7, 1.3, K * D)
        covariances = covariances * np.outer(factor, factor)
    if name == "one number for all":
        covariances = covariances + 0.3
    changed = Block(arms=block.arms, weights=block.weights, means=block.means + 0.2, covariances=covariances)
    return prior, replace(given, law=replace(given.law, blocks=(changed,)))


@pytest.mark.parametrize("name", ["shared level", "independent", "all different", "one number for all"])
def test_moments_are_those_of_the_mixture(name: str):
    """The exact engine takes the values of the scale as the components of a mixture."""
    prior, given = on_a_grid(name)
    data = simulate_statistics(prior, (4, 9, 0), SIGMA, 12, seed=1)
    grid = ScaleGrid.of(given, sigma=SIGMA)
    assert grid is not None
    found = grid.fit(data, covariance=True)
    mean, covariance = exact_moments(given.law, data, sigma=SIGMA, covariance=True)
    assert covariance is not None
    assert found.covariance is not None
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert found.vouched.all()
    # The half grid is compared with the whole one, and weights below 1e-5 of the largest are left out.
    assert (np.abs(found.mean - mean.reshape(found.mean.shape)) / sd).max() < 2e-3
    assert (np.abs(found.covariance - covariance) / (sd[:, :, None] * sd[:, None])).max() < 4e-3
    np.testing.assert_array_equal(grid.fit(data, covariance=False).mean, found.mean)


def test_the_split_gives_the_covariances_back():
    for name, n_arms, rank in (
        ("shared level", K, D),
        ("independent", K, 0),
        ("all different", 1, 0),
        ("one number for all", K, D),
    ):
        covariances = on_a_grid(name)[1].law.blocks[0].covariances
        own, level = split_level(covariances, n_arms=K)
        assert own.shape[1] == n_arms
        assert level.shape[2] == rank
        if n_arms == K:
            np.testing.assert_allclose(together(own, level), covariances, rtol=1e-10, atol=1e-12)


def together(own: FloatArray, level: FloatArray) -> FloatArray:
    _, n_arms, d, _ = own.shape
    out = np.kron(np.ones((n_arms, n_arms)), np.ones((d, d))) * np.tile(
        level @ level.swapaxes(1, 2), (1, n_arms, n_arms)
    )
    for arm in range(n_arms):
        out[:, arm * d : (arm + 1) * d, arm * d : (arm + 1) * d] += own[:, arm]
    return out


def test_a_grid_that_is_too_coarse_is_not_vouched_for():
    """Nine values of the scale: what is vouched for is right all the same, and most is not vouched for."""
    prior, given = on_a_grid("shared level")
    block = given.law.blocks[0]
    few = slice(None, None, 14)
    weights = block.weights[few] / block.weights[few].sum()
    thin = Block(arms=block.arms, weights=weights, means=block.means[few], covariances=block.covariances[few])
    law = GaussianLaw(n_arms=K, n_features=D, blocks=(thin,))
    data = simulate_statistics(prior, 200, 0.05, 20, seed=2)
    found = ScaleGrid(ConditionalLaw(law, None), sigma=0.05).fit(data, covariance=False)
    mean, covariance = exact_moments(given.law, data, sigma=0.05, covariance=True)
    assert covariance is not None
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    wrong = (np.abs(found.mean - mean.reshape(found.mean.shape)) / sd).max(axis=1)
    assert wrong[found.vouched].max(initial=0.0) < 0.1
    assert found.vouched.mean() < 0.5


def test_data_beyond_the_grid_are_not_vouched_for():
    """Effects fifty times as far apart as the belief has them: the largest scale of the grid is not enough."""
    prior = load_prior("hierarchical", n_arms=K, n_features=D, tau_scale=0.02)
    wide = load_prior("hierarchical", n_arms=K, n_features=D, tau=1.0)
    data = simulate_statistics(wide, 50, SIGMA, 20, seed=3)
    grid = ScaleGrid.of(prior.conditional_grid, sigma=SIGMA)
    assert grid is not None
    assert not grid.fit(data, covariance=False).vouched.any()


def two_scales(n_arms: int) -> Prior:
    """Effects around a level, with neither the spread of the one nor of the other known."""
    with pm.Model(coords={"arm": range(n_arms), "feature": range(D)}) as model:
        level = pm.Normal("level", 0.0, pm.HalfNormal("omega", 0.5), dims="feature")
        pm.Normal("beta", level, pm.HalfNormal("tau", 0.5), dims=("arm", "feature"))
    return Prior.from_pymc(model, name="two scales")


def lattice_of(prior: Prior) -> ConditionalLaw:
    assert prior.conditional_lattices is not None
    (given,) = prior.conditional_lattices
    return given


@pytest.mark.parametrize("counts", [(4, 9, 0), (0, 0, 2), (300, 300, 300)])
def test_a_lattice_of_two_scales_is_the_mixture_over_all_of_its_points(counts: tuple[int, ...]):
    prior = two_scales(K)
    given = lattice_of(prior)
    data = simulate_statistics(prior, counts, SIGMA, 10, seed=4)
    grid = ScaleGrid.of(given, sigma=SIGMA)
    assert grid is not None
    found = grid.fit(data, covariance=True)
    mean, covariance = exact_moments(given.law, data, sigma=SIGMA, covariance=True)
    assert covariance is not None
    assert found.covariance is not None
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    some = found.vouched
    assert some.mean() > 0.5
    # As few points as agree within .07 sd, so that they are right within .02.
    assert (np.abs(found.mean - mean.reshape(found.mean.shape)) / sd)[some].max() < 0.02
    assert (np.abs(found.covariance - covariance) / (sd[:, :, None] * sd[:, None]))[some].max() < 0.05
    np.testing.assert_array_equal(grid.fit(data, covariance=False).mean, found.mean)
    one_by_one = [grid.fit(data.take(slice(m, m + 1)), covariance=False).mean[0] for m in range(3)]
    np.testing.assert_array_equal(one_by_one, found.mean[:3])


@pytest.mark.parametrize("axis", [0, 1])
def test_a_lattice_that_is_too_coarse_in_one_direction_is_not_vouched_for(axis: int):
    """All the weight in one row: the fields of a chessboard agree there, and are wrong."""
    prior = two_scales(6)
    given = lattice_of(prior)
    assert given.sides is not None
    block, sides = given.law.blocks[0], list(given.sides)
    kept = np.arange(len(block.weights)).reshape(sides).take(np.arange(0, sides[axis], 12), axis=axis)
    thin = Block(
        arms=block.arms,
        weights=block.weights[kept.ravel()] / block.weights[kept.ravel()].sum(),
        means=block.means[kept.ravel()],
        covariances=block.covariances[kept.ravel()],
    )
    law = replace(given.law, blocks=(thin,))
    assert kept.shape[axis] % 8 == 1
    data = simulate_statistics(prior, 3, SIGMA, 5, seed=5)
    found = ScaleGrid(ConditionalLaw(law, None, sides=kept.shape), sigma=SIGMA).fit(data, covariance=False)
    mean, covariance = exact_moments(given.law, data, sigma=SIGMA, covariance=True)
    assert covariance is not None
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    wrong = (np.abs(found.mean - mean.reshape(found.mean.shape)) / sd).max(axis=1)
    assert wrong[found.vouched].max(initial=0.0) < 0.1
    row, column = np.divmod(np.arange(kept.size), kept.shape[1])
    halves = [
        exact_moments(_only(law, (row + column) % 2 == half), data, sigma=SIGMA, covariance=False)[0] for half in (0, 1)
    ]
    chessboard = (np.abs(halves[1] - halves[0]).reshape(len(sd), -1) / sd).max(axis=1) < 0.07
    assert wrong[chessboard].max(initial=0.0) > 0.1


def _only(law: GaussianLaw, kept: np.ndarray) -> GaussianLaw:
    (block,) = law.blocks
    weights = block.weights[kept] / block.weights[kept].sum()
    part = Block(arms=block.arms, weights=weights, means=block.means[kept], covariances=block.covariances[kept])
    return replace(law, blocks=(part,))
