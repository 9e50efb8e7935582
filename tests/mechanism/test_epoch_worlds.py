"""Exploitation in worlds side by side: a long epoch, user by user, has the law of its rounds."""

from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Prior
from rcb_bayes.mechanism import epoch_worlds
from rcb_bayes.mechanism.engines import make_engines
from rcb_bayes.mechanism.epoch_worlds import EpochWorlds
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.panel import make_panel
from rcb_bayes.mechanism.protocol import OneRate
from rcb_bayes.mechanism.worlds import draw_worlds, simulate_data


@cache
def market() -> Market:
    prior = Prior.gaussian([[0.2, 0.0], [0.0, 0.1], [0.0, 0.0]], 0.2)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


def worlds(n_worlds: int, seed: int, *, comers: int | None = None, n_per_arm: int = 40) -> EpochWorlds:
    rng = np.random.default_rng(1)
    drawn = draw_worlds(market().prior, 1, rng=rng)
    data = simulate_data(drawn, market(), n_per_arm=np.full(3, float(n_per_arm)), rng=rng)
    beta = np.repeat(drawn.beta, n_worlds, axis=0)
    many = type(drawn)(beta=beta, sigma=None)
    repeated = data.take(np.zeros(n_worlds, dtype=int))
    assert isinstance(repeated, rcb.posterior.Statistics)
    return EpochWorlds(
        make_engines(market(), seed=0),
        make_panel(market(), n_users=50, rng=np.random.default_rng(2)),
        many,
        repeated,
        mechanism=OneRate(n_per_arm=n_per_arm, n_arms=3),
        options=Exploiting(),
        began=np.zeros(n_worlds),
        rng=np.random.default_rng(seed),
        comers=comers,
    )


@pytest.mark.parametrize("guarded", [False, True])
def test_rounds_drawn_together_have_the_law_of_rounds_one_by_one(guarded: bool, monkeypatch: pytest.MonkeyPatch):
    """The same world many times over: means and spreads of n and X'X agree within errors."""
    guard = np.random.default_rng(3).random((50, 3)) if guarded else None
    found = []
    for long in (0, 10**9):
        monkeypatch.setattr(epoch_worlds, "_LONG", long)
        state = worlds(400, seed=long % 7 + 1)
        before = state._all
        state.run(guard)
        found.append((state._all.n - before.n, (state._all.xtx - before.xtx).reshape(400, -1)))
    for one, two in zip(*found, strict=True):
        assert (one.sum(axis=1) > 0).all()
        error = np.sqrt((one.var(axis=0, ddof=1) + two.var(axis=0, ddof=1)) / 400)
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 4.5 * error + 1e-9).all()
        ratio = one.std(axis=0) / two.std(axis=0)
        assert (np.abs(np.log(ratio)) < 4.5 / np.sqrt(400)).all()
    assert (found[0][0].sum(axis=1) == 120).all()
    assert (found[1][0].sum(axis=1) == 120).all()


def epoch_of(state: EpochWorlds, guard: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """n and X'X of the epoch alone."""
    before = state._all
    state.run(guard)
    return state._all.n - before.n, (state._all.xtx - before.xtx).reshape(len(before.n), -1)


@pytest.mark.parametrize("guarded", [False, True])
def test_users_of_each_world_s_own_come_as_often_as_others(guarded: bool):
    """Means of n and X'X agree within errors, every round is counted, and what they lead to is the same."""
    guard = np.random.default_rng(3).random((50, 3)) if guarded else None
    n_worlds, per_arm = 600, 170  # 510 rounds: seven users more than 7 times 71
    few, all_users = (worlds(n_worlds, seed, comers=comers, n_per_arm=per_arm) for seed, comers in ((5, 64), (6, None)))
    for one, two in zip(epoch_of(few, guard), epoch_of(all_users, guard), strict=True):
        error = np.sqrt((one.var(axis=0, ddof=1) + two.var(axis=0, ddof=1)) / n_worlds)
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 4.5 * error + 1e-9).all()
        assert (np.abs(1.05 * one.mean(axis=0) - two.mean(axis=0)) > 4.5 * error).any()  # a planted error is seen
    assert (few._all.n.sum(axis=1) == all_users._all.n.sum(axis=1)).all()
    few.begin()
    all_users.begin()
    gamma = [state.gamma for state in (few, all_users)]
    error = np.hypot(*(part.std(ddof=1) / np.sqrt(n_worlds) for part in gamma))
    assert abs(gamma[0].mean() / gamma[1].mean() - 1.0) < 0.005 + 4.5 * error / gamma[1].mean()
