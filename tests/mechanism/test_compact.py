"""Posterior means in steps of 16 bits: read back to the last bit, and far closer than the worlds tell."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rcb_bayes as rcb
from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.compact import STEPS, compact_gamma, compact_means, compact_outlook, from_steps, steps_of
from rcb_bayes.mechanism.guard import users_guard
from rcb_bayes.mechanism.notions import USER
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.rates import user_rates

USERS = rcb.Sphere(3).sample(200, seed=2)
PRIOR_MEAN = np.array([[0.4, 0.1, 0.0], [0.1, 0.0, 0.2], [0.1, 0.0, 0.2], [0.3, 0.3, 0.1]])


@cache
def outlook(n_worlds: int = 2000) -> LinearOutlook:
    """Worlds in which the first and the last arm were sampled; the others keep their prior mean."""
    means = np.broadcast_to(PRIOR_MEAN, (n_worlds, 4, 3)).copy()
    means[:, [0, 3]] += np.random.default_rng(1).normal(0.0, 0.3, size=(n_worlds, 2, 3))
    return LinearOutlook(means)


@given(st.integers(0, 10_000), st.integers(-30, 30), st.integers(-30, 30))
def test_what_is_compact_is_told_by_its_steps_to_the_last_bit(seed: int, large: int, small: int):
    rng = np.random.default_rng(seed)
    before = rng.normal(size=(3, 2)) * 2.0**large
    means = before + rng.normal(size=(20, 3, 2)) * 2.0**small
    means[:, 0] = before[0]
    made = compact_means(means, before)
    found = steps_of(made, before)
    assert found is not None
    np.testing.assert_array_equal(from_steps(*found, before), made)
    np.testing.assert_array_equal(compact_means(made, before), made)
    assert (made[:, 0] == before[0]).all()


def test_a_step_is_a_sixteen_thousandth_of_the_largest_deviation_at_most():
    means = outlook().means
    made = compact_means(means, PRIOR_MEAN)
    reach = np.abs(means - PRIOR_MEAN).max(axis=0)
    assert (np.abs(made - means) <= reach / STEPS).all()  # half of two steps' worth
    assert (made != means).any()


def test_means_that_are_not_compact_have_no_steps():
    assert steps_of(outlook().means, PRIOR_MEAN) is None


def test_arms_that_keep_their_prior_mean_in_some_worlds_keep_it():
    means = outlook().means.copy()
    means[:700, 3] = PRIOR_MEAN[3]
    assert (compact_means(means, PRIOR_MEAN)[:700, 3] == PRIOR_MEAN[3]).all()


def test_ties_stay_ties():
    made = compact_outlook(outlook(), PRIOR_MEAN)
    rewards = made.rewards(USERS)
    np.testing.assert_array_equal(rewards[1], rewards[2])
    shares = best_shares(rewards, axis=0)
    np.testing.assert_array_equal(shares[1], shares[2])


def rates_of(which: LinearOutlook):
    before = USERS @ PRIOR_MEAN.T
    return user_rates(
        which,
        USERS,
        prior_rewards=before,
        promoted=promotion_shares(before, [1, 2]),
        epsilon=0.05,
        notion=USER,
        slack=0.1,
    )


@pytest.mark.parametrize("coarser", [False, True])
def test_rates_move_by_far_less_than_their_error(coarser: bool):
    """A hundredth of the error that the worlds leave; steps of 4 bits would not do."""
    exact = rates_of(outlook())
    made = compact_outlook(outlook(), PRIOR_MEAN)
    if coarser:
        scale = np.abs(outlook().means - PRIOR_MEAN).max(axis=0) / 8
        steps = np.divide(outlook().means - PRIOR_MEAN, scale, out=np.zeros_like(made.means), where=scale > 0)
        made = replace(made, means=PRIOR_MEAN + scale * np.rint(steps))
    found = rates_of(made)
    bound = (exact.rate > 0) & ~exact.is_free
    gain = np.maximum(exact.gain - 0.1 * exact.spread, 1e-12)[bound]
    slope = exact.loss[bound] / (gain + exact.loss[bound]) ** 2
    error = slope * exact.spread[bound] / np.sqrt(outlook().n_worlds)
    assert bound.sum() > 50
    moved = np.abs(found.rate - exact.rate)[bound] / error
    assert (np.sqrt(np.mean(moved**2)) < 0.01) != coarser
    np.testing.assert_array_equal(found.is_free, exact.is_free)


def test_guards_move_by_far_less_than_from_one_set_of_worlds_to_another():
    gamma = np.full(2000, 40.0)
    own = {"epsilon": 0.05, "notion": USER, "slack": 0.1}
    exact = users_guard(outlook(), gamma, USERS, **own)
    moved = users_guard(compact_outlook(outlook(), PRIOR_MEAN), gamma, USERS, **own) - exact
    others = outlook().means.copy()
    others[:, [0, 3]] = PRIOR_MEAN[[0, 3]] + np.random.default_rng(2).normal(0.0, 0.3, size=(2000, 2, 3))
    fresh = users_guard(LinearOutlook(others), gamma, USERS, **own) - exact
    assert np.sqrt(np.mean(moved**2)) < 0.01 * np.sqrt(np.mean(fresh**2))


def test_spreads_keep_their_sign_and_seven_digits():
    gamma = np.array([0.1, 1e-50, 12.3456789, np.inf, 1e300])
    made = compact_gamma(gamma)
    np.testing.assert_allclose(made, gamma, rtol=1e-7)
    assert (made > 0).all()
    np.testing.assert_array_equal(compact_gamma(made), made)
