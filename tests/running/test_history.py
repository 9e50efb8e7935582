"""Histories: sums that do not depend on how samples come in, rows, and states."""

import numpy as np
import pytest

from rcb_bayes.posterior.data import Statistics
from rcb_bayes.running.history import CHUNK, History


def samples(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 3)), rng.integers(0, 4, size=n), rng.normal(size=n)


def filled(n: int, *, keep_rows: bool = False) -> History:
    made = History(4, 3, keep_rows=keep_rows)
    made.add(*samples(n))
    return made


def assert_same(one: Statistics, two: Statistics) -> None:
    for name in ("xtx", "xty", "yty", "n"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_sums_are_those_of_the_rows():
    x, arm, reward = samples(CHUNK + 777)
    found = filled(CHUNK + 777).sums()
    twin = Statistics.from_rows(x, arm=arm, reward=reward, n_arms=4)
    for name in ("xtx", "xty", "yty", "n"):
        np.testing.assert_allclose(getattr(found, name), getattr(twin, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cut", [1, 7, 1000, CHUNK])
def test_sums_do_not_depend_on_how_samples_come_in(cut: int):
    n = 2 * CHUNK + 300
    x, arm, reward = samples(n)
    made = History(4, 3)
    if cut == 1:
        for k in range(n):
            made.add_one(x[k], int(arm[k]), float(reward[k]))
    else:
        for start in range(0, n, cut):
            made.add(*(part[start : start + cut] for part in (x, arm, reward)))
        made.sums()  # looking does not change anything
    assert_same(made.sums(), filled(n).sums())
    np.testing.assert_array_equal(made.n, np.bincount(arm, minlength=4))


def test_rows_are_kept_in_order_where_wanted():
    x, arm, reward = samples(CHUNK + 5)
    for found, expected in zip(filled(CHUNK + 5, keep_rows=True).rows(), (x, arm, reward), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_some_arms_alone():
    x, arm, reward = samples(500)
    sums = filled(500).sums().of_arms([1, 3])
    own = arm == 3
    np.testing.assert_allclose(sums.xty[0, 3], reward[own] @ x[own])
    assert not sums.n[0, [0, 2]].any()
    rows = filled(500, keep_rows=True)
    rows._reward[:500] = 1.0  # as Bernoulli rewards are
    assert set(rows.as_rows([1, 3]).arm[0]) == {1, 3}


def test_the_first_samples_of_each_arm():
    x, arm, reward = samples(300)
    made = filled(300, keep_rows=True)
    wanted = np.array([0.0, 5.0, 1e9, 20.0])
    kept = np.concatenate([np.flatnonzero(arm == k)[: int(min(n, 300))] for k, n in enumerate(wanted)])
    kept.sort()
    for found, expected in zip(made.first(wanted).rows(), (x, arm, reward), strict=True):
        np.testing.assert_array_equal(found, expected[kept])
    assert made.first(made.n) is made
    assert made.n_samples == 300


@pytest.mark.parametrize("keep_rows", [True, False])
def test_joined_histories_have_the_samples_of_both(keep_rows: bool):
    one, two = filled(100, keep_rows=keep_rows), filled(CHUNK + 100, keep_rows=keep_rows)
    one.join(two)
    assert one.n_samples == CHUNK + 200
    np.testing.assert_allclose(one.sums().yty, filled(100).sums().yty + two.sums().yty)
    if keep_rows:
        assert len(one.rows()[0]) == CHUNK + 200
        np.testing.assert_array_equal(one.rows()[2][:100], samples(100)[2])


@pytest.mark.parametrize("keep_rows", [True, False])
def test_a_state_goes_on_exactly(keep_rows: bool):
    rest = samples(CHUNK)
    made = filled(CHUNK + 100, keep_rows=keep_rows)
    again = History.from_state({name: np.asarray(value, dtype=float) for name, value in made.state().items()})
    for history in (made, again):
        history.add(*rest)
    assert_same(made.sums(), again.sums())
    if keep_rows:
        for one, two in zip(made.rows(), again.rows(), strict=True):
            np.testing.assert_array_equal(one, two)
