"""What is promoted where worlds have sets of their own: against users and sets one by one."""

import numpy as np
import pytest

from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.promotion import Sets, by_weight, distinct_sets, rare_sets_too

PLAIN = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.4, 0.2, 0.3]])
TIED = np.array([[0.4, 0.3, 0.3, 0.3], [0.2, 0.2, 0.2, 0.2], [0.1 + 0.2, 0.3, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]])


def some_sets(n: int = 40, *, seed: int = 1) -> np.ndarray:
    """Sets of four arms that are neither empty nor full, (n, 4)."""
    codes = np.random.default_rng(seed).integers(1, 15, size=n)
    return (codes[:, None] >> np.arange(4) & 1).astype(bool)


def one_by_one(means: np.ndarray, saturated: np.ndarray) -> np.ndarray:
    """The chance of each arm, (K, U, W)."""
    return np.stack([promotion_shares(means, np.flatnonzero(~row).tolist()).T for row in saturated], axis=2)


@pytest.mark.parametrize("means", [PLAIN, TIED], ids=["no ties", "ties"])
def test_every_world_promotes_by_its_own_set(means: np.ndarray) -> None:
    saturated = some_sets()
    expected = one_by_one(means, saturated)
    np.testing.assert_allclose(Sets(saturated).promoted(means), expected)
    found = Sets(saturated).promotion(means)
    assert (found.shares is None) == (means is PLAIN)
    np.testing.assert_array_equal(found.first, expected.argmax(axis=0))


@pytest.mark.parametrize("means", [PLAIN, TIED], ids=["no ties", "ties"])
def test_averages_over_worlds_go_by_their_weights(means: np.ndarray) -> None:
    saturated = some_sets()
    weights = np.random.default_rng(2).random(len(saturated))
    weights /= weights.mean()
    expected = one_by_one(means, saturated)
    np.testing.assert_allclose(
        Sets(saturated).usually_promoted(means, weights), (expected * weights).mean(axis=2).T, atol=1e-12
    )
    found = Sets(saturated).promotion(means)
    together = np.zeros((len(means), 4, 4))
    for user in range(len(means)):
        for world in range(len(saturated)):
            first = expected[:, user, world].argmax()
            together[user, first] += weights[world] * expected[:, user, world] / len(saturated)
    user, first, arm, often = found.together(weights)
    dense = np.zeros(together.shape)
    dense[user, first, arm] = often
    np.testing.assert_allclose(dense, together, atol=1e-12)
    assert (np.diff((user * 4 + first) * 4 + arm) > 0).all()
    counts = [np.bincount(row, minlength=4) for row in expected.argmax(axis=0)]
    np.testing.assert_array_equal(found.of_first(None), counts)


def test_paths_come_as_often_as_they_weigh() -> None:
    weights = np.array([0.0, 1.0, 2.5, 0.5, 6.0])
    rng = np.random.default_rng(3)
    for n in (10, 11, 1000):
        counts = np.bincount(by_weight(weights, n, rng=rng), minlength=5)
        assert (np.abs(counts - n * weights / weights.sum()) < 2.0).all()  # one of each nth of the whole
        assert counts[0] == 0
    first = [by_weight(weights, 10, rng=rng)[0] for _ in range(4000)]
    share = np.bincount(first, minlength=5) / 4000
    expected = weights / weights.sum()
    error = np.sqrt(expected * (1 - expected) / 4000)
    assert (np.abs(share - expected) <= 4.5 * error).all()


def many_paths(*, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Paths at sets of very different frequency, rounds that they spend, and something that depends on both."""
    rng = np.random.default_rng(seed)
    which = rng.choice(3, p=[0.9, 0.09, 0.01], size=3000)
    spent = rng.gamma(2.0, [10.0, 3.0, 30.0], size=(3000, 3))[np.arange(3000), which]
    value = which * 2.0 + 0.1 * spent
    return np.eye(3, dtype=bool)[which], spent, value


def test_worlds_of_rare_sets_count_for_what_they_are() -> None:
    """Averages with the weights are averages by rounds; without the weights, or with all paths alike, they are not."""
    saturated, spent, value = many_paths()
    by_rounds = spent @ value / spent.sum()
    found = []
    for seed in range(200):
        chosen, weights = rare_sets_too(saturated, spent, n_worlds=300, rng=np.random.default_rng(seed))
        assert weights.mean() == pytest.approx(1.0)
        found.append(((weights * value[chosen]).mean(), value[chosen].mean()))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert abs(mean[0] - by_rounds) < 4.5 * error[0]
    assert abs(mean[1] - by_rounds) > 10 * error[1]
    assert abs(mean[0] - value.mean()) > 10 * error[0]


def test_rare_sets_have_worlds_enough() -> None:
    saturated, spent, _ = many_paths()
    chosen, _ = rare_sets_too(saturated, spent, n_worlds=1000, rng=np.random.default_rng(1))
    of_set = saturated[chosen].sum(axis=0)
    rounds = saturated.T @ spent
    np.testing.assert_allclose(of_set / 1000, np.sqrt(rounds) / np.sqrt(rounds).sum(), atol=0.06)


@pytest.mark.parametrize("n_arms", [1, 3, 8, 9, 70])
def test_sets_are_told_apart_and_sorted_by_their_arms(n_arms: int) -> None:
    saturated = np.random.default_rng(n_arms).random((300, n_arms)) < 0.5
    sets, places = np.unique(saturated, axis=0, return_inverse=True)
    found, at = distinct_sets(saturated)
    np.testing.assert_array_equal(found, sets)
    np.testing.assert_array_equal(at, places.reshape(-1))
