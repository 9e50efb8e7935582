"""Promotion by prior means, ties at random, and the saturated sets that cold starts pass."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.length import cold_start_rounds, saturated_sets
from rcb_bayes.mechanism.simulator import Simulator
from rcb_bayes.mechanism.walk import alike_arms
from rcb_bayes.users import Covariates, Empirical, Sphere, Uniform

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


# --- how long a cold start takes -------------------------------------------------------------------------------------

N, RATE = 30, 0.1


def rounds_taken(
    mean: np.ndarray, draw_users: Callable[[np.random.Generator, int], np.ndarray], *, n_runs: int, seed: int
) -> np.ndarray:
    """Algorithm 1 round by round with nothing but counters: who comes, which arm is promoted, does it count."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((n_runs, len(mean)), dtype=int)
    length = np.zeros(n_runs, dtype=int)
    runs = np.arange(n_runs)
    while (going := (counts < N).any(axis=1)).any():
        length[going] += 1
        liking = draw_users(rng, n_runs) @ mean.T
        liking[counts >= N] = -np.inf
        # The most liked open arm; of several that are liked alike, one at random.
        ties = liking >= liking.max(axis=1, keepdims=True) - 1e-9
        promoted = (rng.random(liking.shape) * ties).argmax(axis=1)
        first_phase = (counts < N).all(axis=1)
        counted = going & (first_phase | (rng.random(n_runs) < RATE))
        counts[runs[counted], promoted[counted]] += 1
    return length


def on_the_sphere(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.standard_normal((n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


TYPES = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.0, 0.8]])
SHARES = np.array([0.7, 0.2, 0.1])


def of_a_table(rng: np.random.Generator, n: int) -> np.ndarray:
    return TYPES[rng.choice(3, size=n, p=SHARES)]


ALIKE = np.zeros((3, 3))
APART = np.array([[0.5, 0.1, 0.0], [0.0, 0.3, 0.2], [-0.2, 0.0, 0.1]])


@pytest.mark.parametrize(
    ("mean", "draw_users", "covariates"),
    [
        (ALIKE, on_the_sphere, Sphere(3)),
        (APART, on_the_sphere, Sphere(3)),
        (APART, of_a_table, Empirical(TYPES, weights=SHARES)),
    ],
    ids=["arms that tie", "arms apart", "a weighted table"],
)
def test_a_cold_start_takes_as_long_as_round_by_round(
    mean: np.ndarray, draw_users: Callable[..., np.ndarray], covariates: Covariates
) -> None:
    plain = rounds_taken(mean, draw_users, n_runs=1000, seed=5)
    found = cold_start_rounds(market_of(mean, covariates), n_per_arm=N, exploration_rate=RATE, seed=6)
    error = np.hypot(plain.std(ddof=1) / np.sqrt(len(plain)), found.mcse)
    assert abs(found.mean - plain.mean()) < 4 * error
    assert found.rounds.std() == pytest.approx(plain.std(), rel=0.25)
    one_by_one = N * (1 + (len(mean) - 1) / RATE)  # the planted error: phases that do not overlap
    assert abs(one_by_one - plain.mean()) > 10 * error
    middle = int(np.median(plain))
    share, share_mcse = found.share_within(middle)
    assert abs(share - (plain <= middle).mean()) < 4 * np.hypot(0.5 / np.sqrt(1000), share_mcse)


def test_the_error_of_a_length_covers_the_panel() -> None:
    market = market_of(APART, Sphere(3))
    found = [cold_start_rounds(market, n_per_arm=10_000, exploration_rate=0.05, seed=seed) for seed in range(20)]
    spread = np.std([one.mean for one in found], ddof=1)
    said = np.sqrt(np.mean([one.mcse**2 for one in found]))
    assert 0.5 < spread / said < 1.7  # 19 degrees of freedom against 180
    of_paths_alone = np.mean([one.rounds.std(axis=1, ddof=1).mean() for one in found]) / np.sqrt(400)
    assert spread > 1.7 * of_paths_alone  # the planted error


def test_one_kind_of_user_takes_the_phases_one_by_one() -> None:
    market = market_of([[0.9], [0.5], [0.1]])
    found = cold_start_rounds(market, n_per_arm=50, exploration_rate=0.2)
    assert abs(found.mean - 50 * (1 + 2 / 0.2)) < 4 * found.mcse
    assert found.mcse == pytest.approx(np.sqrt(100 * 0.8) / 0.2 / np.sqrt(400), rel=0.2)  # negative binomial


def test_any_number_of_arms_and_samples_has_a_length() -> None:
    many = market_of(np.zeros((80, 1)))
    # At the rate 1 every round brings a sample.
    assert cold_start_rounds(many, n_per_arm=2, exploration_rate=1.0, n_paths=40).mean == 160
    huge = 10**40
    found = cold_start_rounds(market_of([[0.9], [0.1]]), n_per_arm=huge, exploration_rate=1e-9)
    assert found.mean == pytest.approx(huge * 1e9, rel=1e-3)


def test_a_seed_fixes_the_length() -> None:
    market = market_of(APART, Sphere(3))
    first, again, other = (
        cold_start_rounds(market, n_per_arm=9, exploration_rate=0.3, seed=seed).mean for seed in (1, 1, 2)
    )
    assert first == again != other


# --- designs that share a panel --------------------------------------------------------------------------------------


def test_averages_of_designs_from_one_panel_keep_its_error() -> None:
    """An average over N users of whom everybody is one: its mean over designs is the panel's, off by Var(x) / P."""
    positive = market_of([[1.0, 1.0], [0.0, 0.0]], Uniform([0.0, 0.0], [1.0, 1.0]))
    found = Simulator(positive, seed=1).walk(lambda *_: 1.0, n_per_arm=5)
    members = found.paths.members(1)[1]
    assert found.overlap(members, (0,)) == pytest.approx(5 / found.panel.n_users)
    early = replace(found, paths=found.paths.up_to(1))
    assert early.overlap(members, (0, 1)) == pytest.approx(5 / found.panel.n_users)  # the other has no samples yet
    assert found.overlap(members, (0, 1)) == pytest.approx(10 / found.panel.n_users)
    # Half of the panel, say, is never sampled for an arm: the others come twice as often.
    turned = market_of([[1.0, 0.0], [-1.0, 0.0]], Sphere(2))
    found = Simulator(turned, seed=1).walk(lambda *_: 1.0, n_per_arm=5)
    one = found.paths.members(1)[1]
    there = int((found.panel.users[:, 0] > 0.0).sum())
    alone = one[found.paths.taken[0, one, 0] == 5]
    assert found.overlap(alone, (0,)) == pytest.approx(5 / there)


def test_a_table_of_all_users_leaves_no_such_error() -> None:
    found = Simulator(market_of([[1.0], [0.0]]), seed=1).walk(lambda *_: 1.0, n_per_arm=5)
    assert found.overlap(found.paths.members(1)[1], (0,)) == 0.0


# --- which arms may change places -----------------------------------------------------------------------------------


def test_arms_are_alike_where_both_beliefs_say_so() -> None:
    """Users tell the first three from the others, the platform the first two."""
    users, platform = (
        Prior.gaussian(np.array(mean, dtype=float)[:, None], 1.0) for mean in ([1, 1, 1, 0, 0, 2], [1, 1, 0, 0, 0, 2])
    )
    market = Market(prior=users, platform_prior=platform, covariates=ONE, noise=GaussianNoise(1.0))
    assert alike_arms(market) == ((0, 1), (2,), (3, 4), (5,))
    assert alike_arms(market, Agenda(needed=(5, 5, 5, 7, 5, 5))) == ((0, 1), (2,), (3,), (4,), (5,))
