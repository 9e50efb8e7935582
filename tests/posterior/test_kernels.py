"""Compiled loops against plain NumPy."""

import numpy as np

from rcb_bayes.posterior.importance import _packed, normalised
from rcb_bayes.posterior.kernels import weighted_moments


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


def test_open_groups_are_packed_once_each_with_their_turn():
    rng = np.random.default_rng(2)
    still_open, turn = rng.random((40, 3)) < 0.3, rng.integers(4, size=40)
    rows, wanted, turns = _packed(still_open, turn)
    for g in range(3):
        np.testing.assert_array_equal(np.sort(rows[wanted[:, g], g]), np.flatnonzero(still_open[:, g]))
    np.testing.assert_array_equal(turn[rows], np.broadcast_to(turns[:, None], rows.shape))
    assert len(rows) < still_open.any(axis=1).sum()
    assert not len(_packed(np.zeros((5, 2), dtype=bool), turn[:5])[0])
