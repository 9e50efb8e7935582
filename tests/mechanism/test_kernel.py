"""Inverse-proportional-gap sampling: probabilities, ties, extremes, and scores that do not depend on company."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rcb_bayes.mechanism.kernel import ipgs_one, ipgs_probabilities, linear_scores, pick, pick_one

SCORES = arrays(np.float64, (4, 3), elements=st.floats(-5, 5))


def plain(scores: np.ndarray, gamma: float) -> np.ndarray:
    """The paper's formula for one user without ties."""
    k, b = len(scores), int(scores.argmax())
    out = np.array([1 / (k + gamma * (scores[b] - score)) for score in scores])
    out[b] = 0
    out[b] = 1 - out.sum()
    return out


@given(SCORES, st.floats(0, 1e6))
def test_probabilities_are_those_of_the_paper(scores: np.ndarray, gamma: float):
    found = ipgs_probabilities(scores, gamma)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, rtol=1e-12)
    assert (found >= 0).all()
    for column in range(3):
        own = scores[:, column]
        best = own >= own.max() - 1e-12 * max(abs(own.max()), 1.0)
        assert found[best, column].min() >= 1 / 4 - 1e-12
        if best.sum() == 1:
            np.testing.assert_allclose(found[:, column], plain(own, gamma), rtol=1e-12, atol=1e-15)
        assert np.ptp(found[best, column]) < 1e-12


@given(SCORES, st.floats(0.1, 1e4))
def test_a_smaller_gap_is_sampled_at_least_as_often(scores: np.ndarray, gamma: float):
    found = ipgs_probabilities(scores, gamma)
    for column in range(3):
        ordered = found[np.argsort(scores[:, column]), column]
        assert (np.diff(ordered) >= -1e-12).all()


@pytest.mark.parametrize("gamma", [0.0, 1e300, np.inf])
def test_extreme_spreads_are_safe(gamma: float):
    found = ipgs_probabilities(np.array([[0.0, 1.0], [1.0, 1.0], [0.5, -1e308]]), gamma)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    if gamma == 0:
        np.testing.assert_allclose(found, 1 / 3)
    if gamma == np.inf:
        np.testing.assert_allclose(found, [[0, 0.5], [1, 0.5], [0, 0]])


def test_a_guard_cuts_the_rest_and_gives_it_to_the_best():
    scores = np.array([[1.0], [0.5], [0.0]])
    guard = np.array([[0.0], [0.25], [1.0]])
    free, cut = ipgs_probabilities(scores, 10.0), ipgs_probabilities(scores, 10.0, guard=guard)
    np.testing.assert_allclose(cut[1:], free[1:] * guard[1:])
    np.testing.assert_allclose(cut.sum(), 1.0)


def test_permuting_the_arms_permutes_the_probabilities():
    scores = np.random.default_rng(1).normal(size=(5, 40))
    order = np.array([3, 1, 4, 0, 2])
    np.testing.assert_allclose(
        ipgs_probabilities(scores[order], 30.0), ipgs_probabilities(scores, 30.0)[order], rtol=1e-13
    )


def test_scores_are_the_same_alone_and_among_thousands():
    rng = np.random.default_rng(2)
    means, features = rng.normal(size=(5, 7)), rng.normal(size=(7, 3000))
    together = linear_scores(means, features)
    np.testing.assert_allclose(together, means @ features, rtol=1e-12, atol=1e-13)
    for k in range(0, 3000, 97):
        np.testing.assert_array_equal(
            linear_scores(means, np.ascontiguousarray(features[:, k : k + 1])), together[:, k : k + 1]
        )
        np.testing.assert_array_equal(linear_scores(means, features[:, k : k + 9]), together[:, k : k + 9])


def test_one_feature_will_do():
    np.testing.assert_array_equal(linear_scores(np.array([[2.0], [3.0]]), np.array([[1.0, -1.0]])), [[2, -2], [3, -3]])


def test_arms_are_picked_with_their_probabilities():
    probabilities = np.array([0.2, 0.0, 0.5, 0.3])
    n = 40_000
    arms = pick(np.repeat(probabilities[:, None], n, axis=1), np.random.default_rng(3).random(n))
    shares = np.bincount(arms, minlength=4) / n
    assert (np.abs(shares - probabilities) <= 4 * np.sqrt(probabilities * (1 - probabilities) / n)).all()


@pytest.mark.parametrize(("uniform", "arm"), [(0.0, 1), (0.4999, 1), (0.5, 3), (np.nextafter(1.0, 0.0), 3)])
def test_arms_without_probability_are_never_picked(uniform: float, arm: int):
    assert pick(np.array([[0.0], [0.5], [0.0], [0.5]]), np.array([uniform])).tolist() == [arm]


@pytest.mark.parametrize("n_arms", [2, 5, 12])
@pytest.mark.parametrize("gamma", [0.0, 30.0, np.inf])
def test_one_user_is_served_to_the_last_bit_as_many_are(n_arms: int, gamma: float):
    rng = np.random.default_rng(5)
    means, x = rng.normal(size=(n_arms, 4)), rng.normal(size=(300, 4))
    means[1] = means[0]  # a tie
    uniforms = rng.random(300)
    scores = linear_scores(means, np.ascontiguousarray(x.T))
    guard = rng.random((n_arms, 300)) if n_arms == 5 else None
    chances = ipgs_probabilities(scores, gamma, guard=guard)
    arms = pick(chances, uniforms)
    for k in range(300):
        cut = None if guard is None else guard[:, k].tolist()
        one, own = ipgs_one(means.tolist(), x[k].tolist(), gamma, guard=cut)
        assert own == scores[:, k].tolist()
        assert one == chances[:, k].tolist()
        assert pick_one(one, uniforms[k]) == arms[k]
