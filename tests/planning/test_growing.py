"""Growing tables: what splits are worth, by brute force; borders where a belief has them; leaves with the least."""

import numpy as np
import pytest

from rcb_bayes.planning.growing import Sample, best_split, grow, projected, split_directions

MEANS = np.array([[1.0, 0.5, 0.2], [0.0, 0.4, 0.9], [0.3, 0.3, 0.3]])


def sphere(n: int, d: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sample_of(users: np.ndarray, values: np.ndarray) -> Sample:
    return Sample(users=users, values=values, weights=np.full(values.shape, 1.0 / len(users)))


def worth(values: np.ndarray, weights: np.ndarray, below: np.ndarray) -> float:
    """What a split is worth, side by side and term by term."""

    def part(some: np.ndarray) -> float:
        total = 0.0
        for v, w in zip(values[some].T, weights[some].T, strict=True):
            mean = (w * v).sum() / w.sum()
            total += w.sum() * v.min() - w.sum() * np.sqrt((w * (v - mean) ** 2).sum() / w.sum())
        return total

    return part(below) + part(~below) - part(np.ones(len(values), dtype=bool))


def test_the_best_split_is_that_of_brute_force():
    rng = np.random.default_rng(1)
    users, directions = rng.normal(size=(60, 2)), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.4]])
    values, weights = rng.random((60, 3)), rng.random((60, 3))
    found = best_split(users, directions, values, weights, fewest=8)
    along = projected(users, directions)
    tried = [
        (worth(values, weights, z <= cut), m) for m, z in enumerate(along.T) for cut in z if 8 <= (z <= cut).sum() <= 52
    ]
    assert found is not None
    assert found[0] == pytest.approx(max(tried)[0])
    np.testing.assert_array_equal(found[1], directions[max(tried)[1]])


def test_a_border_between_prior_means_is_found_exactly():
    """Who loses by an arm is decided along differences of prior means: two leaves keep all of it."""
    users = sphere(2000, 3, seed=2)
    values = (users @ (MEANS[0] - MEANS[1]) <= 0.1).astype(float)[:, None]
    (grown,) = grow([sample_of(users, values)], MEANS, max_leaves=2)
    assert grown.course[-1] == pytest.approx(1.0)
    fresh = sphere(20_000, 3, seed=3)
    given = grown.values[grown.leaves.of(fresh)][:, 0]
    own = fresh @ (MEANS[0] - MEANS[1]) <= 0.1
    assert not (given > own).any()  # users between the sides are given what is lower
    assert given.sum() / own.sum() > 0.99
    (planted,) = grow([sample_of(users, values)], MEANS[::-1] * [1.0, -1.0, 1.0], max_leaves=2)  # of other beliefs
    assert planted.course[-1] < 0.99


def test_low_users_on_both_sides_do_not_stop_it():
    """With low users at either end no first split keeps more; judged by the least alone it would end there."""
    users = np.random.default_rng(4).uniform(-1, 1, size=(2000, 2))
    values = np.where(np.abs(users[:, :1]) > 0.5, 0.1, 0.9)
    for cut in np.linspace(-0.9, 0.9, 19):
        for z in users.T:
            assert values[z <= cut].min() == values[z > cut].min() == 0.1
    (grown,) = grow([sample_of(users, values)], np.zeros((2, 2)), max_leaves=3)
    assert grown.course[-1] > 0.99


@pytest.mark.parametrize("max_leaves", [1, 2, 3, 10, 50])
def test_leaves_have_the_least_of_their_users_and_are_no_more_than_asked_for(max_leaves: int):
    rng = np.random.default_rng(5)
    users = sphere(500, 3, seed=6)
    samples = [sample_of(users, rng.random((500, 2))), sample_of(users, rng.random((500, 4)))]
    found = grow(samples, MEANS, max_leaves=max_leaves)
    n_leaves = [one.leaves.n_leaves for one in found]
    assert sum(n for n in n_leaves if n > 1) <= max_leaves
    for sample, one in zip(samples, found, strict=True):
        leaf = one.leaves.of(users)
        for k in range(one.leaves.n_leaves):
            np.testing.assert_array_equal(one.values[k], sample.values[leaf == k].min(axis=0))
        kept = (sample.weights * one.values[leaf]).sum() / sample.total
        assert one.course[-1] == pytest.approx(kept)
        assert len(one.course) == one.leaves.n_leaves


def test_users_without_weight_count_for_the_least():
    users = sphere(500, 3, seed=7)
    sample = sample_of(users, np.full((500, 1), 0.8)).joined(users[:1], np.array([[0.3]]))
    (grown,) = grow([sample], MEANS, max_leaves=1)
    assert grown.values.tolist() == [[0.3]]
    assert sample.total == pytest.approx(0.8)


def test_many_arms_have_few_directions():
    means = np.random.default_rng(8).normal(size=(40, 3))
    assert split_directions(sphere(500, 3, seed=9), means).shape == (3 + 24, 3)
    assert split_directions(sphere(500, 3, seed=9), np.zeros((40, 3))).shape == (3, 3)
