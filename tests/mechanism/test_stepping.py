"""Cold starts followed sample by sample, against the same ones followed set by set."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.simulator import ColdStarts
from rcb_bayes.mechanism.stepping import fitting_paths, walk_by_samples
from rcb_bayes.mechanism.walk import arms_of, open_arms, rates_by_arm, walk

N, PATHS, K = 5, 2000, 4
MANY = 4.6
MEANS = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.4, 0.2, 0.3], [0.2, 0.1, 0.4, 0.3]])
TIED = np.array([[0.4, 0.3, 0.3, 0.1], [0.2, 0.2, 0.2, 0.2], [0.2, 0.1, 0.4, 0.4]])
BY_ARM = np.random.default_rng(1).uniform(0.1, 1.0, size=(K, 3, K))


def panel_of(means: np.ndarray) -> Panel:
    users = np.eye(3)
    weights = np.array([0.5, 0.3, 0.2])
    return Panel(users=users, weights=weights, prior_rewards=means, promoted_by=means, is_exact=True)


def by_samples(means: np.ndarray, by_arm: np.ndarray = BY_ARM, *, asked: int | Agenda = N, seed: int = 1) -> ColdStarts:
    return walk_by_samples(
        panel_of(means),
        lambda so_far, level: by_arm[level],
        n_per_arm=asked,
        n_paths=PATHS,
        rng_of=lambda level: np.random.default_rng((seed, level)),
    )


def by_sets(means: np.ndarray, by_arm: np.ndarray = BY_ARM, *, asked: int | Agenda = N, seed: int = 2) -> ColdStarts:
    return walk(
        panel_of(means),
        lambda so_far, code, members: rates_by_arm(by_arm[len(arms_of(code))], means, open_arms(code, K)),
        n_per_arm=asked,
        n_paths=10 * PATHS,
        rng_of=lambda level: np.random.default_rng((seed, level)),
    )


def figures(found: ColdStarts) -> list[np.ndarray]:
    """What is compared, one value for each path: sets, samples, rounds, rounds at a set, users of each arm."""
    rng = np.random.default_rng(5)
    everyone = np.arange(found.n_paths)
    rounds = found.rounds(rng=rng)
    out: list[Any] = []
    for level in range(1, K):
        saturated = found.saturated(level, everyone)
        out += [*saturated.T, found.n_samples(level), rounds[level], rounds[level] ** 2]
        out += [rounds[level] * column for column in saturated.T]
    for arm in range(K):
        users = found.design(everyone, arm, rng=rng)
        out += [(users == user).sum(axis=1) for user in range(3)]
    return [np.asarray(values, dtype=float) for values in out]


def largest_z(one: ColdStarts, other: ColdStarts) -> float:
    worst = 0.0
    for a, b in zip(figures(one), figures(other), strict=True):
        error = np.sqrt(a.var() / len(a) + b.var() / len(b))
        worst = max(worst, abs(a.mean() - b.mean()) / max(error, 1e-12))
    return worst


@pytest.mark.parametrize("means", [MEANS, TIED], ids=["no ties", "ties"])
def test_both_walks_have_one_law(means: np.ndarray) -> None:
    assert largest_z(by_samples(means), by_sets(means)) < MANY


@pytest.mark.parametrize("past", [(0, 5, 0, 2), (5, 0, 9, 0)])
def test_both_walks_have_one_law_with_samples_from_before(past: tuple[int, ...]) -> None:
    agenda = Agenda(needed=(N,) * K, past=past)
    found = by_samples(MEANS, asked=agenda)
    assert largest_z(found, by_sets(MEANS, asked=agenda)) < MANY
    begun = sum(n >= N for n in past)
    assert (found.rounds(rng=np.random.default_rng(1))[:begun] == 0.0).all()


def test_other_rates_are_found_out() -> None:
    other = BY_ARM.copy()
    other[2, 0, 2] *= 0.7
    assert largest_z(by_samples(MEANS, other), by_sets(MEANS)) > MANY


@pytest.mark.parametrize("means", [MEANS, TIED], ids=["no ties", "ties"])
def test_every_sample_is_one_of_an_open_arm_promoted_to_its_user(means: np.ndarray) -> None:
    found = by_samples(means)
    assert found.ended.all()
    filled = np.sort(found.filled, axis=1)  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(filled, np.tile(np.arange(1, K + 1), (PATHS, 1)))
    total = sum(found.n_samples(level) for level in range(K))
    np.testing.assert_array_equal(total, K * N)
    users = np.stack([found.design(np.arange(PATHS), arm, rng=np.random.default_rng(1)) for arm in range(K)], axis=1)
    assert ((users >= 0) & (users < 3)).all()


def test_a_level_where_nobody_is_explored_never_ends() -> None:
    stuck = BY_ARM.copy()
    stuck[2] = 0.0
    found = by_samples(MEANS, stuck)
    assert not found.ended.any()
    rounds = found.rounds(rng=np.random.default_rng(1))
    assert np.isfinite(rounds[:2]).all()
    assert np.isinf(rounds[2:]).all()
    assert len(found.at(2)) == PATHS
    assert len(found.at(3)) == 0


def test_thinning_stretches_every_level_but_the_first() -> None:
    found = by_samples(MEANS)
    usual, slow = (found.rounds(thinning=thin, rng=np.random.default_rng(1)).mean(axis=1) for thin in (1.0, 0.25))
    assert slow[0] == usual[0]
    np.testing.assert_allclose(slow[1:] / usual[1:], 4.0, rtol=0.05)


@pytest.mark.parametrize("means", [MEANS, TIED], ids=["no ties", "ties"])
@pytest.mark.parametrize("follow", [by_samples, by_sets])
def test_a_trial_foretells_the_rounds_of_a_level(means: np.ndarray, follow: Any) -> None:
    """With the rates that were in force, on average over paths and at every set; with twice the rates, half of it."""
    seen: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    users = panel_of(means)

    def rates(so_far: ColdStarts, level: int) -> np.ndarray:
        if level not in seen:
            members, rng = so_far.at(level), np.random.default_rng((9, level))
            ask = [
                so_far.trial(level, members, users=users, by_arm=factor * BY_ARM[level], rng=rng) for factor in (1, 0.5)
            ]
            seen[level] = (so_far.saturated(level, members), np.array(ask))
        return BY_ARM[level]

    if follow is by_samples:
        found: ColdStarts = walk_by_samples(
            users, rates, n_per_arm=N, n_paths=PATHS, rng_of=lambda level: np.random.default_rng((3, level))
        )
    else:
        found = walk(
            users,
            lambda so_far, code, members: rates_by_arm(rates(so_far, len(arms_of(code))), means, open_arms(code, K)),
            n_per_arm=N,
            n_paths=PATHS,
            rng_of=lambda level: np.random.default_rng((3, level)),
        )
    rounds = found.rounds(rng=np.random.default_rng(4))
    for level, (saturated, (told, slower)) in seen.items():
        for at in (saturated[:, 0], ~saturated[:, 0]):
            if at.sum() < 50:
                continue
            apart = told[at] - rounds[level, at]
            assert abs(apart.mean()) < MANY * apart.std() / np.sqrt(at.sum())
            assert slower[at].mean() == pytest.approx(2.0 * told[at].mean(), rel=0.2)


def test_what_does_not_fit_is_not_followed() -> None:
    assert fitting_paths(10, 20) == 2000
    assert fitting_paths(1000, 20) == 2000
    assert 500 <= fitting_paths(1000, 300) < 2000
    assert fitting_paths(1000, 1000) == 0
