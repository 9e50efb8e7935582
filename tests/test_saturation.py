"""Promotion by prior means, ties at random, and the saturated sets that cold starts pass."""

from collections import Counter

import numpy as np
import pytest

from rcb_bayes.choice import promotion_shares
from rcb_bayes.covariates import Covariates, Empirical, Sphere
from rcb_bayes.market import Market
from rcb_bayes.noise import GaussianNoise
from rcb_bayes.prior import Prior
from rcb_bayes.saturation import saturated_sets

ONE = Empirical([[1.0]])


def market_of(mean: object, covariates: Covariates = ONE) -> Market:
    prior = Prior.gaussian(np.asarray(mean, dtype=float), 1.0)
    return Market(prior=prior, covariates=covariates, noise=GaussianNoise(1.0))


# --- who is promoted -------------------------------------------------------------------------------------------------

MEANS = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 5.0], [-1.0, -1.0, -1.0]])


@pytest.mark.parametrize(
    ("open_arms", "shares"),
    [
        ([0, 1, 2], [[1, 0, 0], [0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]),
        ([1, 2], [[0, 0, 1], [0, 0.5, 0.5], [0, 0.5, 0.5]]),
        ([0, 2], [[1, 0, 0], [0, 0, 1], [0.5, 0, 0.5]]),
        ([1], [[0, 1, 0], [0, 1, 0], [0, 1, 0]]),
    ],
)
def test_the_best_open_arms_share_the_promotion(open_arms: list[int], shares: list[list[float]]) -> None:
    np.testing.assert_allclose(promotion_shares(MEANS, open_arms), shares)


def test_a_tie_up_to_rounding_is_a_tie() -> None:
    means = np.array([[0.1 + 0.2, 0.3], [1e6, 1e6 * (1 + 1e-15)], [0.3, 0.3 + 1e-9]])
    np.testing.assert_allclose(promotion_shares(means, [0, 1]), [[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]])


# --- which sets occur ------------------------------------------------------------------------------------------------


def test_arms_fill_up_in_the_order_of_their_prior_means() -> None:
    found = saturated_sets(market_of([[0.1], [0.9], [0.5], [0.3]]), n_per_arm=7, n_runs=20)
    assert found == {(1,): 1.0, (1, 2): 1.0, (1, 2, 3): 1.0}


def test_two_arms_have_one_set() -> None:
    assert saturated_sets(market_of([[0.1], [0.9]]), n_per_arm=7) == {(1,): 1.0}


def test_equal_arms_fill_up_in_any_order() -> None:
    n_runs = 2000
    found = saturated_sets(market_of(np.zeros((4, 1))), n_per_arm=3, n_runs=n_runs, seed=2)
    assert len(found) == 14
    for arms, share in found.items():
        truth = {1: 1 / 4, 2: 1 / 6, 3: 1 / 4}[len(arms)]
        assert abs(share - truth) < 4 * np.sqrt(truth * (1 - truth) / n_runs)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for size in (1, 2, 3):
        assert sum(share for arms, share in found.items() if len(arms) == size) == pytest.approx(1.0)


def test_user_types_with_favourites_of_their_own() -> None:
    """Each type has its own favourite; the more frequent one's fills up first, the arm nobody wants last."""
    users = Empirical(np.eye(3), weights=[6, 3, 1])
    found = saturated_sets(market_of([*np.eye(3).tolist(), [-1, -1, -1]], users), n_per_arm=200, n_runs=50)
    assert list(found) == [(0,), (0, 1), (0, 1, 2)]
    assert set(found.values()) == {1.0}


def explicit_sets(market: Market, *, n_per_arm: int, n_runs: int, rng: np.random.Generator) -> Counter[tuple]:
    """The sets that cold starts pass, user by user, all runs side by side."""
    counts = np.zeros((n_runs, market.n_arms), dtype=int)
    visited: Counter[tuple] = Counter()
    for _ in range(market.n_arms * n_per_arm):
        users = market.covariates.sample(n_runs, seed=rng)
        means = np.where(counts < n_per_arm, np.round(users @ market.prior.mean.values.T, 12), -np.inf)
        best = means == means.max(axis=1, keepdims=True)
        arm = np.where(best, rng.uniform(size=best.shape), -1.0).argmax(axis=1)
        counts[range(n_runs), arm] += 1
        full = counts[range(n_runs), arm] == n_per_arm
        visited.update(tuple(np.flatnonzero(row == n_per_arm).tolist()) for row in counts[full])
    return Counter({arms: count for arms, count in visited.items() if len(arms) < market.n_arms})


def test_the_race_has_the_law_of_user_by_user_cold_starts() -> None:
    market = market_of([[0.3, 0.0], [0.1, 0.2], [0.0, -0.1], [0.0, -0.1]], Sphere(2))
    n_per_arm, n_runs = 4, 2000
    seen = explicit_sets(market, n_per_arm=n_per_arm, n_runs=n_runs, rng=np.random.default_rng(3))
    found = saturated_sets(market, n_per_arm=n_per_arm, n_runs=n_runs, seed=4)
    fresh = saturated_sets(market, n_per_arm=3 * n_per_arm, n_runs=n_runs, seed=4)

    def worst(shares: dict[tuple[int, ...], float]) -> float:
        z = []
        for arms in {*seen, *shares}:
            one, two = seen[arms] / n_runs, shares.get(arms, 0.0)
            p = (one + two) / 2
            z.append(abs(one - two) / np.sqrt(2 * p * (1 - p) / n_runs) if 0 < p < 1 else 0.0)
        return max(z)

    assert worst(found) < 4
    assert worst(fresh) > 4  # another n is another race


def test_shares_of_users_are_those_of_the_population() -> None:
    """Two arms of opposite means on the sphere: each is promoted to half of the users, exactly so for a table."""
    first = saturated_sets(market_of([[1.0], [-1.0], [-9.0]], Empirical([[1.0], [-1.0]])), n_per_arm=5, n_runs=4000)
    for arms in ((0,), (2,)):
        assert abs(first[arms] - 0.5) < 4 * np.sqrt(0.25 / 4000)


def test_large_samples_cost_no_more() -> None:
    found = saturated_sets(market_of([[0.3, 0.0], [0.1, 0.2], [0.0, -0.1]], Sphere(2)), n_per_arm=10**9, n_runs=5)
    assert len(found) == 2


def test_the_same_seed_gives_the_same_sets() -> None:
    market = market_of(np.zeros((4, 2)), Sphere(2))
    one, two, three = (saturated_sets(market, n_per_arm=5, seed=seed) for seed in (1, 1, 2))
    assert list(one.items()) == list(two.items())
    assert one != three
