"""Arms that are alike: cells that are one and the same, names after a cold start, guards with less error."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism import simulator
from rcb_bayes.mechanism.exchange import Exchange, class_of_each, random_names
from rcb_bayes.mechanism.guard import crowd_guard, users_guard, users_room
from rcb_bayes.mechanism.notions import DEFINITION, USER
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.posterior.data import Statistics, Tallies

CLASSES = ((0,), (1, 2, 3))
OPTIONS: dict[str, Any] = {"epsilon": 0.05, "notion": USER, "slack": 0.1}


def test_cells_of_a_kind_have_their_average_and_others_their_own():
    values = np.random.default_rng(1).normal(size=(2, 4, 4))
    exchange = Exchange.of(CLASSES, 4)
    assert exchange is not None
    found = exchange.mean(values)
    alike = [1, 2, 3]
    pairs = [(i, j) for i in alike for j in alike if i != j]
    for layer, mean in zip(values, found, strict=True):
        assert mean[0, 0] == layer[0, 0]
        np.testing.assert_allclose(mean[0, 1:], layer[0, 1:].mean())
        np.testing.assert_allclose(mean[1:, 0], layer[1:, 0].mean())
        np.testing.assert_allclose([mean[pair] for pair in pairs], np.mean([layer[pair] for pair in pairs]))
        np.testing.assert_allclose(np.diag(mean)[1:], np.diag(layer)[1:].mean())
    flags = np.ones((1, 4, 4), dtype=bool)
    flags[0, 2, 0] = False
    assert exchange.all(flags)[0].sum() == 13
    assert not exchange.all(flags)[0, 1:, 0].any()


def test_arms_that_differ_have_no_exchange():
    assert Exchange.of(((0,), (1,), (2,)), 3) is None
    assert Exchange.of(None, 3) is None
    assert class_of_each(((0, 2), (1,)), 4).tolist() == [0, 1, 0, 2]


def test_names_change_within_classes_only_and_each_is_as_frequent():
    names = random_names(CLASSES, 4, n_worlds=6000, rng=np.random.default_rng(2))
    assert names is not None
    assert (names[:, 0] == 0).all()
    assert (np.sort(names, axis=1) == np.arange(4)).all()
    shares = np.array([[(names[:, place] == arm).mean() for arm in (1, 2, 3)] for place in (1, 2, 3)])
    assert np.abs(shares - 1 / 3).max() < 4.5 * np.sqrt(2 / 9 / 6000)
    assert random_names(((0,), (1,)), 2, n_worlds=3, rng=np.random.default_rng(1)) is None


def test_data_sets_go_with_the_names_of_their_worlds():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 3, 6, 2))
    y = rng.normal(size=(2, 3, 6))
    data = Statistics(
        xtx=x.swapaxes(2, 3) @ x, xty=np.einsum("mknd,mkn->mkd", x, y), yty=(y**2).sum(2), n=np.full((2, 3), 6.0)
    )
    names = np.array([[0, 2, 1], [1, 2, 0]])
    for name in ("xtx", "xty", "yty", "n"):
        before, after = getattr(data, name), getattr(data.renamed(names), name)
        for m, k in np.ndindex(2, 3):
            np.testing.assert_array_equal(after[m, k], before[m, names[m, k]])
    trials = rng.integers(1, 9, size=(2, 3, 4)).astype(float)
    tallies = Tallies(users=rng.normal(size=(4, 2)), trials=trials, successes=trials - 1.0)
    assert tallies.renamed(names).trials[1, 0].tolist() == trials[1, 1].tolist()
    assert tallies.renamed(names).successes[0, 2].tolist() == (trials[0, 1] - 1.0).tolist()


# --- guards ---


def outlook(n_worlds: int, *, seed: int, shift: float = 0.0) -> tuple[LinearOutlook, np.ndarray]:
    """One arm of which more is expected and three that are alike, up to a shift of the last; spreads."""
    rng = np.random.default_rng(seed)
    means = 0.3 * rng.normal(size=(n_worlds, 4, 2)) + 0.1 * rng.normal(size=(n_worlds, 1, 2))
    means[:, 0] += 0.4
    means[:, 3] += shift
    return LinearOutlook(means), 5.0 + 10.0 * rng.random(n_worlds)


@cache
def many_users() -> np.ndarray:
    angle = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def test_alike_arms_have_one_guard_with_less_error_than_their_own():
    users = many_users()
    reference = users_guard(*outlook(60_000, seed=100), users, **OPTIONS, alike=CLASSES)
    told_apart = users_guard(*outlook(60_000, seed=100), users, **OPTIONS)
    together, apart = [], []
    for seed in range(20):
        given = outlook(500, seed=seed)
        together.append(users_guard(*given, users, **OPTIONS, alike=CLASSES))
        apart.append(users_guard(*given, users, **OPTIONS))
        assert (together[-1][:, 1:] == together[-1][:, 1:2]).all()
        own = users_room(*given, users, together[-1], **OPTIONS, alike=CLASSES)
        assert (own > -1e-9).all()
    cut = (reference[:, 1] > 0.02) & (reference[:, 1] < 0.98)
    assert cut.sum() >= 3
    spread = np.std(together, axis=0, ddof=1)[cut, 1:]
    error = spread / np.sqrt(20)
    # Roots of estimates are off by something of second order in the errors, beside the error of twenty seeds.
    assert (np.abs(np.mean(together, axis=0) - reference)[cut, 1:] < 5.0 * error + 2.0 * spread**2).all()
    assert np.abs(told_apart - reference)[cut, 1:].max() < 0.05
    of_apart = np.std(apart, axis=0, ddof=1)[cut, 1:]
    assert np.sqrt((spread**2).mean()) < 0.8 * np.sqrt((of_apart**2).mean())
    planted = users_guard(*outlook(60_000, seed=100, shift=-0.1), users, **OPTIONS, alike=CLASSES)
    honest = users_guard(*outlook(60_000, seed=100, shift=-0.1), users, **OPTIONS)
    assert np.abs(planted - honest)[cut, 1:].max() > 0.1  # arms that differ, taken as alike


def test_one_cut_for_all_is_the_same_for_alike_arms():
    users = many_users()[:6]  # to whom the first arm is worth more
    weights = np.full(len(users), 1 / len(users))
    options: dict[str, Any] = {"epsilon": 0.01, "notion": DEFINITION, "slack": 0.1}
    given = outlook(400, seed=1)
    found = crowd_guard(*given, users, weights, **options, alike=CLASSES, user_scale=1.0)
    apart = crowd_guard(*given, users, weights, **options, user_scale=1.0)
    assert found[1] == found[2] == found[3]
    assert apart[1:].min() <= found[1] <= apart[1:].max()
    assert len(set(apart[1:])) == 3


def test_after_the_cold_start_nothing_but_names_is_other(monkeypatch: pytest.MonkeyPatch):
    prior = rcb.Prior.gaussian([[0.5, 0.5], [0.0, 0.0], [0.0, 0.0]], 0.1)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    sim = simulator.Simulator(market, seed=4, n_users=200, n_paths=400)
    walked = sim.walk(lambda *_: 0.5, n_per_arm=5)
    assert sim.alike(walked.agenda) == ((0,), (1, 2))
    ended = np.flatnonzero(walked.ended)
    chosen, seed = sim.paths_after_cold_start(ended, n_worlds=300)
    worlds, data = sim.after_cold_start(walked, chosen, seed=seed)
    monkeypatch.setattr(simulator, "random_names", lambda *_, **__: None)
    paths, seed = sim.paths_after_cold_start(ended, n_worlds=300)
    before, old = sim.after_cold_start(walked, paths, seed=seed)
    np.testing.assert_array_equal(chosen, paths)
    assert isinstance(data, Statistics)
    assert isinstance(old, Statistics)
    np.testing.assert_array_equal(worlds.beta[:, 0], before.beta[:, 0])
    moved = (worlds.beta[:, 1] != before.beta[:, 1]).any(axis=1)
    assert 0.3 < moved.mean() < 0.7
    for new, was in ((worlds.beta, before.beta), (data.xty, old.xty), (data.yty, old.yty)):
        np.testing.assert_array_equal(new[~moved], was[~moved])
        np.testing.assert_array_equal(new[moved][:, [0, 2, 1]], was[moved])
