"""Rates where users know how many arms are saturated: against forms written out world by world."""

from dataclasses import dataclass

import numpy as np
import pytest

from rcb_bayes.mechanism import level_moments
from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.level_rates import LevelRates, level_rates
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.promotion import Sets
from rcb_bayes.mechanism.rates import user_rates
from tests.twins.dense_level_rates import dense_level_rates

K, W, EPSILON = 4, 600, 0.05
PLAIN = np.array([[0.40, 0.30, 0.20, 0.10], [0.10, 0.40, 0.25, 0.30], [0.30, 0.15, 0.32, 0.0]])
TIED = np.array([[0.40, 0.30, 0.30, 0.30], [0.2, 0.2, 0.2, 0.2], [0.3, 0.1, 0.1, 0.0]])
USERS = np.eye(3)


@dataclass(frozen=True, kw_only=True)
class Level:
    """Worlds of a level: users are types, so that posterior means (W, K, 3) are what each of them expects."""

    means: np.ndarray
    prior: np.ndarray
    saturated: np.ndarray
    weights: np.ndarray

    def rates(self, *, notion: str = "user", slack: float = 0.0, by_arm: np.ndarray | None = None) -> LevelRates:
        return level_rates(
            LinearOutlook(self.means, weights=self.weights),
            Sets(self.saturated),
            USERS,
            prior_rewards=self.prior,
            promoted_by=self.prior,
            epsilon=EPSILON,
            notion=as_notion(notion),
            slack=slack,
            by_arm=by_arm,
            forms=True,
        )

    def terms(self, by_arm: np.ndarray, *, notion: str = "user") -> tuple[np.ndarray, np.ndarray]:
        """World by world, in one loop: the explored and the organic part of the form, (W, U, K, K) each."""
        explored, organic = np.zeros((2, len(self.means), len(USERS), K, K))
        fixed, extra = as_notion(notion).epsilon_parts(EPSILON)
        for world, full in enumerate(self.saturated):
            promoted = promotion_shares(self.prior, np.flatnonzero(~full).tolist())  # (U, K)
            rate = by_arm[np.arange(len(USERS)), promoted.argmax(axis=1)]
            expected = self.means[world].T  # (U, K)
            best = best_shares(expected)
            gap = self.prior[:, :, None] - self.prior[:, None, :] + extra
            lead = expected[:, :, None] - expected[:, None, :] + extra
            often = self.weights[world]
            explored[world] = often * (rate[:, None] * promoted)[:, :, None] * gap + fixed
            organic[world] = often * ((1 - rate)[:, None] * best)[:, :, None] * lead
        return explored, organic

    def form(self, by_arm: np.ndarray, *, notion: str = "user") -> np.ndarray:
        explored, organic = self.terms(by_arm, notion=notion)
        return (explored + organic).mean(axis=0)


def level_of(
    prior: np.ndarray, *, seed: int = 1, sets: tuple[tuple[int, ...], ...] = ((0, 1), (0, 2), (1, 2))
) -> Level:
    rng = np.random.default_rng(seed)
    which = rng.choice(len(sets), p=np.arange(1, len(sets) + 1) / sum(range(1, len(sets) + 1)), size=W)
    saturated = np.zeros((len(sets), K), dtype=bool)
    for place, arms in enumerate(sets):
        saturated[place, list(arms)] = True
    saturated = saturated[which]
    moved = 0.3 * rng.standard_normal((W, K, len(USERS))) * saturated[:, :, None]
    weights = rng.uniform(0.5, 1.5, size=len(sets))[which]
    return Level(means=prior.T + moved, prior=prior, saturated=saturated, weights=weights / weights.mean())


@pytest.mark.parametrize("notion", ["user", "proof"])
@pytest.mark.parametrize("prior", [PLAIN, TIED], ids=["no ties", "ties"])
def test_forms_are_those_of_worlds_one_by_one(prior: np.ndarray, notion: str) -> None:
    level = level_of(prior)
    by_arm = np.random.default_rng(2).random((3, K))
    found = level.rates(notion=notion, by_arm=by_arm)
    np.testing.assert_array_equal(found.by_arm, by_arm)
    np.testing.assert_allclose(found.own, level.form(by_arm, notion=notion), atol=1e-12)
    np.testing.assert_allclose(found.always, level.form(found.most, notion=notion), atol=1e-12)
    lowered = level.rates(notion=notion, by_arm=by_arm, slack=0.2).own
    _, organic = level.terms(by_arm, notion=notion)
    np.testing.assert_allclose(lowered, found.own - 0.2 * organic.std(axis=0, ddof=1), atol=1e-12)


def test_arms_that_tie_before_any_data_need_not_tie_after_it() -> None:
    """One arm is open in every world: users who are torn between arms see no tie."""
    level = level_of(TIED, sets=((0, 1, 2), (0, 1, 3), (0, 2, 3)))
    by_arm = np.random.default_rng(2).random((3, K))
    found = level.rates(by_arm=by_arm)
    np.testing.assert_allclose(found.own, level.form(by_arm), atol=1e-12)
    assert level.rates(by_arm=np.zeros((3, K))).own.min() >= 0.0  # organic rounds cost nobody anything


@pytest.mark.parametrize("prior", [PLAIN, TIED], ids=["no ties", "ties"])
def test_figures_are_those_of_worlds_one_by_one(prior: np.ndarray) -> None:
    level = level_of(prior)
    found = level.rates()
    rate, value = np.zeros(3), np.zeros(3)
    explored, organic = np.zeros((2, 3, K))
    for world, full in enumerate(level.saturated):
        promoted = promotion_shares(prior, np.flatnonzero(~full).tolist())
        own = level.weights[world] * found.by_arm[np.arange(3), promoted.argmax(axis=1)]
        left = level.weights[world] - own
        expected = level.means[world].T
        rate += own / W
        explored += own[:, None] * promoted / W
        organic += left[:, None] * best_shares(expected) / W
        value += left * expected.max(axis=1) / W
    np.testing.assert_allclose(found.rate, rate, atol=1e-12)
    np.testing.assert_allclose(found.explored, explored, atol=1e-12)
    np.testing.assert_allclose(found.organic, organic, atol=1e-12)
    np.testing.assert_allclose(found.organic_value, value, atol=1e-12)


@pytest.mark.parametrize("slack", [0.0, 0.05])
@pytest.mark.parametrize("notion", ["user", "proof"])
@pytest.mark.parametrize("prior", [PLAIN, TIED], ids=["no ties", "ties"])
def test_every_constraint_holds_and_some_binds(prior: np.ndarray, notion: str, slack: float) -> None:
    for seed in range(3):
        level = level_of(prior, seed=seed)
        found = level.rates(notion=notion, slack=slack)
        assert ((found.by_arm >= 0.0) & (found.by_arm <= 1.0)).all()
        explored, organic = level.terms(found.by_arm, notion=notion)
        form = (explored + organic).mean(axis=0) - slack * organic.std(axis=0, ddof=1)
        promoted = found.explored > 0.0
        assert form[promoted].min() > -1e-9
        if slack == 0.0:
            more = np.minimum(1.02 * found.by_arm, 1.0)
            raised = level.form(more, notion=notion)[promoted].min(axis=1)
            assert (raised < 0.0).any() or (more == found.by_arm).all()


def test_rates_are_at_least_what_the_stages_allow_by_themselves() -> None:
    """A rate of each set of its own, averaged over the worlds in which an arm is promoted."""
    for seed in range(3):
        level = level_of(PLAIN, seed=seed)
        found = level.rates()
        by_set = np.zeros((3, W))
        for row in np.unique(level.saturated, axis=0):
            here = np.flatnonzero((level.saturated == row).all(axis=1))
            by_set[:, here] = user_rates(
                LinearOutlook(level.means[here]),
                USERS,
                prior_rewards=PLAIN,
                promoted=promotion_shares(PLAIN, np.flatnonzero(~row).tolist()),
                epsilon=EPSILON,
                notion=as_notion("user"),
                slack=0.0,
            ).rate[:, None]
        assert (found.rate >= by_set @ level.weights / W - 1e-9).all()


def best_by_programme(level: Level) -> np.ndarray:
    """The largest average rate that all forms allow, user by user, (U,): forms are affine in the rates."""
    from scipy.optimize import linprog

    zero = level.form(np.zeros((3, K)))
    slopes = np.stack([level.form(np.eye(K)[[arm] * 3]) - zero for arm in range(K)], axis=-1)  # (U, K, K, K)
    often = Sets(level.saturated).usually_promoted(level.prior, level.weights)
    best = np.zeros(3)
    for user in range(3):
        found = linprog(
            -often[user], A_ub=-slopes[user].reshape(-1, K), b_ub=np.maximum(zero[user], 0).reshape(-1), bounds=(0, 1)
        )
        best[user] = -found.fun
    return best


def test_no_rates_beat_the_programme_and_these_come_near_it() -> None:
    kept = []
    for seed in range(3):
        level = level_of(PLAIN, seed=seed)
        best, rate = best_by_programme(level), level.rates().rate
        assert (rate <= best + 1e-7).all()
        kept.append(rate / best)
    assert np.mean(kept) > 0.9


def test_an_arm_that_is_hardly_ever_promoted_is_not_explored_unless_nothing_is_lost_by_it() -> None:
    level = level_of(PLAIN)
    saturated = level.saturated.copy()
    saturated[:] = [True, True, False, False]
    saturated[:20] = [False, True, True, False]
    few = Level(means=level.means, prior=PLAIN, saturated=saturated, weights=np.ones(W))
    found = few.rates()
    assert found.by_arm[0, 0] == 1.0  # the best that the first user knows
    assert found.by_arm[1, 0] == 0.0  # the last that the second does
    assert found.most[1, 0] == 0.0


def test_worlds_that_count_alike_are_found_out() -> None:
    """The weights enter explored and organic parts alike."""
    level = level_of(PLAIN)
    by_arm = np.full((3, K), 0.3)
    unweighted = Level(means=level.means, prior=PLAIN, saturated=level.saturated, weights=np.ones(W))
    assert np.abs(unweighted.rates(by_arm=by_arm).own - level.form(by_arm)).max() > 1e-3


# --- against every array written out ---------------------------------------------------------------------------------


def any_level(seed: int) -> tuple[LinearOutlook, Sets, np.ndarray, dict]:
    """Worlds of a level with any arms: prior means that tie or not, platforms that believe otherwise or not."""
    rng = np.random.default_rng(seed)
    k, u, w, d = int(rng.integers(2, 9)), int(rng.integers(1, 25)), int(rng.integers(40, 300)), 3
    prior, users = 0.2 * rng.standard_normal((k, d)), rng.standard_normal((u, d))
    if seed % 3 == 0:
        prior, users = np.round(prior * 5) / 5, np.sign(users)
    if seed % 5 == 0:
        prior[1:] = prior[1]
    saturated = np.argsort(rng.random((w, k)) + 0.1 * np.arange(k), axis=1) < rng.integers(1, k)
    means = prior + 0.3 * rng.standard_normal((w, k, d)) * saturated[:, :, None]
    weights = rng.uniform(0.2, 2.0, size=w)
    platform = means + 0.05 * rng.standard_normal(means.shape) * saturated[:, :, None] if seed % 7 == 0 else None
    asked = {
        "prior_rewards": users @ prior.T,
        "promoted_by": users @ prior.T,
        "epsilon": EPSILON,
        "notion": as_notion("user" if seed % 2 else "proof"),
        "slack": (0.0, 0.1, 0.05)[seed % 3],
        "by_arm": rng.random((u, k)) if seed % 4 == 0 else None,
    }
    return LinearOutlook(means, platform, weights=weights / weights.mean()), Sets(saturated), users, asked


@pytest.mark.parametrize("seed", range(24))
def test_pairs_that_occur_give_what_all_pairs_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    outlook, sets, users, asked = any_level(seed)
    dense = dense_level_rates(outlook, sets, users, **asked)
    monkeypatch.setattr(level_moments, "_CHUNK_VALUES", 3000)  # some users at a time
    for forms in (False, True):
        found = level_rates(outlook, sets, users, forms=forms, **asked)
        for name in set(LevelRates.__slots__) - {"arm", "rival", "gain", "spread"}:
            if forms or name not in ("always", "own"):
                np.testing.assert_allclose(getattr(found, name), getattr(dense, name), atol=1e-9, err_msg=name)
        bound = np.flatnonzero(dense.is_bound)
        lowest = dense.own[bound, dense.arm[bound], dense.rival[bound]]
        np.testing.assert_allclose(dense.own[bound, found.arm[bound], found.rival[bound]], lowest, atol=1e-9)
        same = bound[(found.arm[bound] == dense.arm[bound]) & (found.rival[bound] == dense.rival[bound])]
        for name in ("gain", "spread"):
            np.testing.assert_allclose(getattr(found, name)[same], getattr(dense, name)[same], atol=1e-9)


def test_a_pair_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Organic rounds in which another arm is promoted pay, too."""
    outlook, sets, users, asked = any_level(2)
    dense = dense_level_rates(outlook, sets, users, **asked)
    whole = level_moments._Chunk._pairs

    def without(chunk, is_row, together, organic, rewards):
        found = whole(chunk, is_row, together, organic, rewards)
        found.organic[found.explored == 0.0] = 0.0
        return found

    monkeypatch.setattr(level_moments._Chunk, "_pairs", without)
    found = level_rates(outlook, sets, users, **asked)
    assert np.abs(found.rate - dense.rate).max() > 1e-3
