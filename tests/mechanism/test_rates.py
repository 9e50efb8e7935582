"""Exploration rates in closed form, against the constraint itself."""

from itertools import pairwise

import numpy as np
import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.notions import USER, as_notion
from rcb_bayes.mechanism.outlook import LinearOutlook, TableOutlook
from rcb_bayes.mechanism.rates import (
    UserRates,
    binding_terms,
    crowd_rate,
    explored_terms,
    largest_rate,
    organic_rounds,
    subset,
    user_rates,
)
from tests.twins.gap_twins import normal_truth


def closed_form(gap: float, gain: float, positive: float, epsilon: float, notion: str) -> float:
    """q = 1/L of two arms: L = 1 + (D - eps)/(A + eps), with eps rho+ for eps in the denominator unless ``proof``."""
    return 1 / max(1.0, 1 + (gap - epsilon) / (gain + epsilon * (1.0 if notion == "proof" else positive)))


# --- one cell --------------------------------------------------------------------------------------------------------


def test_the_largest_rate_just_meets_the_constraint():
    rng = np.random.default_rng(1)
    explored, organic = rng.normal(size=400), np.abs(rng.normal(size=400))
    rate = largest_rate(explored, organic)
    margin = rate * explored + (1 - rate) * organic
    assert (margin >= -1e-12).all()
    inside = rate < 1
    more = rate + 1e-6
    assert (more * explored + (1 - more) * organic)[inside].max() < 0
    assert (rate == 1)[explored >= 0].all()


def test_without_any_gain_nobody_is_explored():
    np.testing.assert_array_equal(largest_rate(np.array([-1.0, -1.0, 0.0]), np.array([0.0, -0.5, 0.0])), [0, 0, 1])


def test_two_arms_of_the_first_reading():
    """Prior gap .30, sd .1885, eps .05: L = 5.59 for the proof's notion, which stands at -.223 under the definition's.

    That one needs L = 35.5.
    """
    epsilon, gap = 0.05, 0.30
    truth = normal_truth(-gap, 0.1885, [])
    q = closed_form(gap, truth.gain, truth.positive, epsilon, "proof")
    assert 1 / q == pytest.approx(5.59, abs=0.01)
    joint = -q * gap + (1 - q) * truth.gain
    assert joint == pytest.approx(-epsilon)
    assert joint / (q + (1 - q) * truth.positive) == pytest.approx(-0.223, abs=0.001)
    assert 1 / closed_form(gap, truth.gain, truth.positive, epsilon, "user") == pytest.approx(35.5, abs=0.1)


# --- users -----------------------------------------------------------------------------------------------------------


def naive_rate(
    rewards: np.ndarray, prior: np.ndarray, open_arms: list[int], *, epsilon: float, notion: str, slack: float
) -> float:
    """Bisection on the constraints themselves, for one user: rewards (W, K), prior (K,)."""
    promoted = promotion_shares(prior[None], open_arms)[0]
    shares = best_shares(rewards)

    def holds(q: float) -> bool:
        for i in range(len(prior)):
            for j in range(len(prior)):
                if i == j or promoted[i] == 0:
                    continue
                extra = 0.0 if notion == "proof" else epsilon
                fixed = epsilon if notion == "proof" else 0.0
                organic = shares[:, i] * (rewards[:, i] - rewards[:, j] + extra)
                explored = promoted[i] * (prior[i] - prior[j] + extra) + fixed
                if explored >= 0:
                    continue
                lowered = max(organic.mean() + fixed - slack * organic.std(ddof=1), 0.0)
                if q * explored + (1 - q) * lowered < 0:
                    return False
        return True

    if holds(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def some_market(n_users: int = 12, n_worlds: int = 300) -> tuple[LinearOutlook, np.ndarray, np.ndarray]:
    """Posterior means around prior means with ties, users, and their expectations."""
    rng = np.random.default_rng(2)
    prior_mean = np.array([[0.5, 0.2, 0.0], [0.3, 0.0, 0.1], [0.0, 0.1, 0.2], [0.0, 0.1, 0.2]])
    means = np.broadcast_to(prior_mean, (n_worlds, 4, 3)).copy()
    means[:, 0] += 0.3 * rng.normal(size=(n_worlds, 3))
    users = rng.normal(size=(n_users, 3))
    return LinearOutlook(means), users, users @ prior_mean.T


def rates_of(
    outlook: LinearOutlook, users: np.ndarray, prior: np.ndarray, notion: str, slack: float, epsilon: float = 0.05
) -> UserRates:
    return user_rates(
        outlook,
        users,
        prior_rewards=prior,
        promoted=promotion_shares(prior, [1, 2, 3]),
        epsilon=epsilon,
        notion=as_notion(notion),
        slack=slack,
    )


@pytest.mark.parametrize("notion", ["user", "proof"])
@pytest.mark.parametrize("slack", [0.0, 0.1])
def test_rates_of_users_are_those_of_bisection(notion: str, slack: float):
    outlook, users, prior = some_market()
    found = rates_of(outlook, users, prior, notion, slack)
    rewards = outlook.rewards(users)
    twin = [
        naive_rate(rewards[:, u].T, prior[u], [1, 2, 3], epsilon=0.05, notion=notion, slack=slack)
        for u in range(len(users))
    ]
    np.testing.assert_allclose(found.rate, twin, atol=1e-9)
    assert (found.rate[found.is_free] == 1).all()
    assert 0 < found.is_free.sum() < len(users)
    assert ((found.rate > 0) & (found.rate < 1)).any()


def test_a_slack_only_lowers_rates():
    outlook, users, prior = some_market(200)
    ideal, careful = (rates_of(outlook, users, prior, "user", slack) for slack in (0.0, 0.2))
    assert (careful.rate <= ideal.rate).all()
    assert (careful.rate < ideal.rate).any()
    np.testing.assert_allclose(careful.ideal, ideal.rate)


def test_rates_rise_with_epsilon():
    outlook, users, prior = some_market(200)
    rates = [rates_of(outlook, users, prior, "user", 0.05, epsilon).rate for epsilon in (0.0, 0.05, 0.2, 10.0)]
    for low, high in pairwise(rates):
        assert (low <= high + 1e-12).all()
    assert (rates[-1] == 1).all()


def test_proof_allows_more_than_user():
    outlook, users, prior = some_market(200)
    user, proof = (rates_of(outlook, users, prior, notion, 0.0).rate for notion in ("user", "proof"))
    assert (proof >= user - 1e-12).all()
    assert (proof > user).any()


def test_one_user_and_many_agree():
    outlook, users, prior = some_market(40)
    together = rates_of(outlook, users, prior, "user", 0.1).rate
    alone = [rates_of(outlook, users[k : k + 1], prior[k : k + 1], "user", 0.1).rate[0] for k in range(40)]
    np.testing.assert_allclose(together, alone, rtol=1e-10)


def test_the_binding_terms_are_those_of_the_pair_that_binds():
    outlook, users, prior = some_market(60)
    found = rates_of(outlook, users, prior, "user", 0.1)
    bound = np.flatnonzero(~found.is_free)
    asked = {"prior_rewards": prior[bound], "epsilon": 0.05, "notion": USER}
    terms = binding_terms(outlook, users[bound], subset(found, bound), **asked)
    np.testing.assert_allclose(terms.mean(axis=0), found.gain[bound])
    np.testing.assert_allclose(terms.std(axis=0, ddof=1), found.spread[bound])


def test_organic_rounds_give_the_best_expectation():
    outlook, users, _ = some_market(60)
    shares, values = organic_rounds(outlook, users)
    np.testing.assert_allclose(values, outlook.rewards(users).max(axis=0).T)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    often = best_shares(outlook.rewards(users), axis=0).mean(axis=2).T
    np.testing.assert_allclose(shares, often)


def test_ties_up_to_rounding_cost_nothing():
    """Two open arms whose prior rewards differ in the last bit: a user with epsilon 0 is not refused for that."""
    prior = np.array([[1.0, 0.1 + 0.2, 0.3]])
    terms = explored_terms(prior, np.array([[0.0, 0.5, 0.5]]), epsilon=0.0, notion=USER)
    assert terms[0, 2, 1] == 0.0
    assert terms[0, 2, 0] < 0.0


def test_the_platform_recommends_by_its_own_expectations():
    """Where the platform never finds the arm best, nothing is gained organically, whatever users would expect."""
    outlook, users, prior = some_market(60)
    stubborn = np.broadcast_to(np.array([9.0, 0.0, 0.0, 0.0])[:, None] * np.sign(users[0]), outlook.means.shape)
    platform = LinearOutlook(outlook.means, np.ascontiguousarray(stubborn))
    found = rates_of(platform, users[:1], prior[:1], "user", 0.0)
    assert found.rate[0] in (0.0, 1.0)
    assert organic_rounds(platform, users[:1])[0][0, 0] == 1.0


def test_a_table_answers_for_its_rows_only():
    outlook, users, prior = some_market(30)
    table = TableOutlook(users, outlook.rewards(users).T)
    np.testing.assert_allclose(
        user_rates(
            table,
            users[5:9],
            prior_rewards=prior[5:9],
            promoted=promotion_shares(prior[5:9], [1, 2, 3]),
            epsilon=0.05,
            notion=USER,
            slack=0.1,
        ).rate,
        rates_of(outlook, users[5:9], prior[5:9], "user", 0.1).rate,
    )
    with pytest.raises(DataError, match="personalised=False"):
        table.rewards(users[:1] + 1.0)


# --- the crowd -------------------------------------------------------------------------------------------------------


def test_the_crowd_s_rate_is_the_closed_form_of_averages():
    rng = np.random.default_rng(3)
    organic = np.abs(rng.normal(size=(500, 4)))
    explored = np.array([-0.1, 0.2, -1.0, -0.5])
    rate, cell = crowd_rate(explored, np.zeros(4), organic, organic_error=np.zeros(4), critical=3.0, slack=0.0)
    each = largest_rate(explored, organic.mean(axis=0))
    assert rate == each.min()
    assert cell == each.argmin() == 2
    careful, _ = crowd_rate(explored, np.full(4, 0.01), organic, organic_error=np.zeros(4), critical=3.0, slack=0.1)
    assert careful < rate
