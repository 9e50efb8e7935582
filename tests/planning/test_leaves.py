"""Leaves: one user falls where many do, and trees that are none are told."""

import numpy as np
import pytest

from rcb_bayes.planning.leaves import LeafTable, Leaves, count_leaves, leaf_faults, single_leaf, table_faults


def random_leaves(n_splits: int, d: int, rng: np.random.Generator) -> Leaves:
    """A tree grown by splitting leaves at random, every other along a feature."""
    ways = np.zeros((n_splits, 2), dtype=np.int64)
    where: list[tuple[int, int] | None] = [None]  # the way to each leaf
    for s in range(n_splits):
        leaf = int(rng.integers(len(where)))
        before = where[leaf]
        if before is not None:
            ways[before] = s
        ways[s] = [-1 - leaf, -1 - len(where)]
        where[leaf] = (s, 0)
        where.append((s, 1))
    weights = rng.normal(size=(n_splits, d))
    weights[::2] = np.eye(d)[rng.integers(d, size=len(weights[::2]))]
    return Leaves(
        weights=weights,
        thresholds=rng.normal(scale=0.3, size=n_splits),
        below=ways[:, 0].copy(),
        above=ways[:, 1].copy(),
    )


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("n_splits", [0, 1, 40])
def test_one_user_falls_where_many_do(n_splits: int, d: int):
    rng = np.random.default_rng(n_splits + d)
    leaves = random_leaves(n_splits, d, rng)
    assert not list(leaf_faults(leaves, n_features=d))
    users = rng.normal(size=(500, d))
    users[:20] = 0.0
    users[0] = -0.0
    table = LeafTable(leaves=leaves, values=rng.random((n_splits + 1, 3)))
    found = leaves.of(users)
    assert [leaves.one(x) for x in users.tolist()] == found.tolist()
    assert [leaves.of(x[None])[0] for x in users] == found.tolist()
    assert [table.one(x) for x in users.tolist()] == table.of(users).tolist()
    assert found.min() >= 0
    assert found.max() <= n_splits


def test_a_user_on_the_border_is_below():
    split = Leaves(
        weights=np.array([[1.0, 1.0]]), thresholds=np.array([0.5]), below=np.array([-1]), above=np.array([-2])
    )
    assert split.of(np.array([[0.25, 0.25], [0.25, 0.2500001]])).tolist() == [0, 1]


def test_tables_that_are_the_same_for_all_share_their_leaf():
    assert [count_leaves(n) for n in ([1], [1, 1], [5, 1], [5, 3])] == [1, 1, 5, 8]


GOOD = {
    "weights": np.ones((2, 2)),
    "thresholds": np.zeros(2),
    "below": np.array([1, -1]),
    "above": np.array([-3, -2]),
}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"weights": np.ones((2, 3))}, "2 finite weights"),
        ({"weights": np.full((2, 2), np.nan)}, "2 finite weights"),
        ({"thresholds": np.array([0.0, np.inf])}, "finite numbers"),
        ({"below": np.array([0, -1])}, "reached once"),
        ({"below": np.array([2, -1])}, "reached once"),
        ({"below": np.array([-3, -1])}, "reached once"),
        ({"below": np.array([-1])}, "two ways on"),
        ({"below": np.array([-1, 1]), "above": np.array([-3, -2])}, "leads back"),
    ],
)
def test_what_is_no_tree_is_told(change: dict[str, np.ndarray], told: str):
    assert not list(leaf_faults(Leaves(**GOOD), n_features=2))
    assert any(told in fault for fault in leaf_faults(Leaves(**(GOOD | change)), n_features=2))


@pytest.mark.parametrize("values", [np.zeros((2, 1)), np.full((1, 1), 1.5), np.full((1, 1), np.nan)])
def test_values_are_shares_one_row_a_leaf(values: np.ndarray):
    table = LeafTable(leaves=single_leaf(2), values=values)
    assert any("in [0, 1]" in fault for fault in table_faults(table, n_features=2, n_values=1))
