"""Compiled loops against plain NumPy."""

import numpy as np
import pytest

from rcb_bayes.posterior.data import unchecked_statistics
from rcb_bayes.posterior.importance import normalised
from rcb_bayes.posterior.kernels import weighted_moments
from rcb_bayes.posterior.packing import Packing


def test_weighted_moments_are_those_of_numpy():
    rng = np.random.default_rng(1)
    draws, log_weight = rng.standard_normal((4, 60, 6)), 2.0 * rng.standard_normal((4, 2, 60))
    log_weight[1, 0, :30], log_weight[2] = -np.inf, -np.inf
    groups = [np.array([1, 3, 4]), np.array([5, 2])]
    weight, mean = np.empty((4, 2, 60)), np.full((4, 6), 7.0)
    sizes = weighted_moments(draws, log_weight, np.concatenate(groups), np.array([0, 3, 5]), weight, mean)
    assert (mean[:, 0] == 7.0).all()  # what belongs to no group is left alone
    for g, index in enumerate(groups):
        expected, size = normalised(log_weight[:, g]), sizes[:, g]
        np.testing.assert_allclose(weight[:, g], expected, rtol=1e-12)
        np.testing.assert_allclose(mean[:, index], np.einsum("ms,msp->mp", expected, draws[:, :, index]), rtol=1e-10)
        np.testing.assert_allclose(size[:, 0], 1.0 / (expected**2).sum(axis=1), rtol=1e-10)
        np.testing.assert_allclose(size[[0, 1, 3], 2], 60 * expected[[0, 1, 3]].max(axis=1), rtol=1e-10)
        assert size[2, 2] == np.inf
        squares = (draws[:, :, index] - mean[:, None, index]) ** 2
        first = np.einsum("ms,msp->mp", expected, squares)
        second = np.einsum("ms,msp->mp", expected**2, squares**2)
        np.testing.assert_allclose(size[:, 1], (first**2 / second).min(axis=1), rtol=1e-10)


@pytest.mark.parametrize("classes", [((0,), (1,), (2,)), ((0, 2), (1,)), ((0, 1, 2),)])
def test_open_groups_are_packed_once_each_with_their_turn(classes: tuple[tuple[int, ...], ...]):
    rng = np.random.default_rng(2)
    still_open, turn = rng.random((40, 3)) < 0.3, rng.integers(4, size=40)
    found = Packing.of(still_open, turn, classes=classes)
    pairs = np.column_stack([found.sets[found.wanted], found.groups[found.wanted]])
    np.testing.assert_array_equal(pairs[np.lexsort(pairs.T[::-1])], np.argwhere(still_open))
    np.testing.assert_array_equal(turn[found.sets], np.broadcast_to(found.turns[:, None], found.sets.shape))
    for members in classes:
        assert np.isin(found.groups[:, members], members).all()
    assert len(found.turns) < still_open.any(axis=1).sum()
    if len(classes) == 1:
        assert len(found.turns) <= still_open.sum() / 3 + 4
    assert not len(Packing.of(np.zeros((5, 2), dtype=bool), turn[:5], classes=((0,), (1,))).turns)


def test_rows_are_made_of_the_groups_that_they_name():
    rng = np.random.default_rng(3)
    xty = rng.standard_normal((6, 4, 2))
    data = unchecked_statistics(rng.random((6, 4, 2, 2)), xty, rng.random((6, 4)), np.ones((6, 4)))
    groups = ((0,), (1, 2), (3,))
    found = Packing.of(rng.random((6, 3)) < 0.7, np.zeros(6, dtype=int), classes=((0, 2), (1,)))
    rows = found.statistics(data, groups)
    for r, g in np.ndindex(found.sets.shape):
        source = groups[found.groups[r, g]]
        np.testing.assert_array_equal(rows.xty[r, list(groups[g])], xty[found.sets[r, g], list(source)])
