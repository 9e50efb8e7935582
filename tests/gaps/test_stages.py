"""Stages that share simulations give the answers of stages simulated alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.stages import USERS_PER_WORLD, Stages
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.users import Empirical, Sphere, Uniform

MEAN = np.array([[0.3, 0.1], [0.0, 0.3], [0.1, -0.2]])
USERS = np.array([[0.2, 0.9], [1.0, 0.0]])
JOINT = np.kron(np.full((3, 3), 0.1) + 0.2 * np.eye(3), np.eye(2))


def gaussian(noise: Any, cov: Any = 0.25) -> Market:
    return Market(prior=Prior.gaussian(MEAN, cov), covariates=Uniform([0, 0], [1, 1]), noise=noise)


def count_fits(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The arms with data in every call of the engine from now on."""
    seen: list[list[int]] = []
    fit = stages.engine.fit

    def counted(data: Any, **more: Any) -> Any:
        seen.append(np.flatnonzero(data.n[0]).tolist())
        return fit(data, **more)

    monkeypatch.setattr(stages.engine, "fit", counted)
    return seen


@pytest.mark.parametrize("users", [None, USERS])
@pytest.mark.parametrize(("noise", "error"), [(GaussianNoise(0.5), 1e-12), (BernoulliLogit(), 0.005)])
def test_a_stage_is_the_same_alone_or_after_others(noise: Any, error: float, users: Any) -> None:
    """Up to the errors of the engine, whose random numbers go with the data set, all arms of it."""
    market = gaussian(noise)
    shared = Stages(market, n_per_arm=6, n_worlds=40, seed=3)
    shared.rewards([0, 1, 2], users=users)
    for saturated in ([1], [0, 2], [2, 1]):
        alone = Stages(market, n_per_arm=6, n_worlds=40, seed=3).rewards(saturated, users=users)
        np.testing.assert_allclose(shared.rewards(saturated, users=users), alone, atol=error)
        assert alone.shape == (3, USERS_PER_WORLD if users is None else 2, 40)


def test_a_stage_is_the_same_alone_or_after_others_by_importance_sampling() -> None:
    """Equal up to the errors of importance sampling, whose random numbers go with the data set, all arms of it."""
    prior = load_prior("student_t", n_arms=3, n_features=2, mean=MEAN.tolist())
    market = Market(prior=prior, covariates=Uniform([0, 0], [1, 1]), noise=GaussianNoise(0.5))
    shared = Stages(market, n_per_arm=6, n_worlds=200, seed=3)
    shared.rewards([0, 1, 2])
    alone = Stages(market, n_per_arm=6, n_worlds=200, seed=3).rewards([0, 2])
    difference = np.abs(shared.rewards([0, 2]) - alone)
    assert np.sqrt((difference**2).mean()) < 0.01 * alone.std()
    assert difference.max() < 0.2 * alone.std()
    np.testing.assert_array_equal(alone[1], shared.rewards([0])[1])


def test_independent_arms_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(gaussian(GaussianNoise(0.5)), n_per_arm=6, n_worlds=40, seed=3)
    seen = count_fits(stages, monkeypatch)
    for saturated in ([1], [0, 1], [0, 2, 1], [2], [0]):
        stages.rewards(saturated)
        stages.rewards(saturated, users=USERS)
    assert seen == [[1], [0], [2]]
    np.testing.assert_allclose(stages.rewards([0], users=USERS)[1], np.tile(USERS @ MEAN[1], (40, 1)).T)


def test_bernoulli_rewards_are_fitted_once_for_the_same_users(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(gaussian(BernoulliLogit()), n_per_arm=6, n_worlds=20, seed=3)
    seen = count_fits(stages, monkeypatch)
    for users in (None, USERS, None, USERS, USERS[:1]):
        stages.rewards([0, 1, 2], users=users)
        stages.rewards([0], users=users)
    assert seen == [[0, 1, 2], [], [0, 1, 2], [], [0, 1, 2], []]


def test_coupled_arms_are_fitted_stage_by_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(gaussian(GaussianNoise(0.5), JOINT), n_per_arm=6, n_worlds=40, seed=3)
    assert not stages.arms_apart
    seen = count_fits(stages, monkeypatch)
    for saturated in ([1], [0, 1], [1, 0], [1]):
        rewards = stages.rewards(saturated, users=USERS)
    assert seen == [[1], [0, 1]]
    assert rewards[0].std(axis=1).min() > 0.05  # news on one arm is news on the others


def test_an_unknown_sigma_couples_the_arms() -> None:
    market = Market(prior=load_prior("unknown_noise", n_arms=2, n_features=2), covariates=Sphere(2))
    assert market.prior.arms_independent
    assert not Stages(market, n_per_arm=6, n_worlds=40).arms_apart


def test_own_users_do_not_depend_on_the_stage() -> None:
    """The features themselves as rewards: arms known to be x_0 and x_1, whatever the data."""
    known = Prior.gaussian(np.eye(2), 0.0)
    market = Market(prior=known, covariates=Uniform([0, 0], [1, 1]), noise=GaussianNoise(1.0))
    stages = Stages(market, n_per_arm=3, n_worlds=700, seed=5)
    first, second = stages.rewards([0]), stages.rewards([1])
    np.testing.assert_allclose(first, second)
    assert len(np.unique(first)) == first.size  # fresh users in every world
    error = 1 / np.sqrt(12 * 700 * USERS_PER_WORLD)
    assert (np.abs(first.mean(axis=(1, 2)) - 0.5) < 4 * error).all()


def test_what_is_said_about_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(gaussian(GaussianNoise(0.5)), n_per_arm=6, n_worlds=40, seed=3)
    fit = stages.engine.fit

    def doubtful(data: Any, **more: Any) -> Any:
        batch = fit(data, **more)
        batch.vouched[:3] = False
        return batch

    monkeypatch.setattr(stages.engine, "fit", doubtful)
    stages.rewards([0])
    stages.rewards([1])
    attrs = stages.attrs()
    assert (attrs["n_not_vouched"], attrs["n_sent"], attrs["n_worlds"], attrs["seed"]) == (6, 0, 40, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_per_arm": 0}, "n_per_arm must be an integer of at least 1, got 0"),
        ({"n_worlds": 1}, "n_worlds must be an integer of at least 2, got 1"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"engine": "laplace"}, "The laplace engine is for Bernoulli rewards"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    market = Market(prior=Prior.gaussian(np.eye(2), 0.1), covariates=Empirical(np.eye(2)), noise=GaussianNoise(1.0))
    settings: dict[str, Any] = {"n_per_arm": 5, "n_worlds": 10}
    with pytest.raises(RcbError, match=message):
        Stages(market, **settings | change)


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    @contextmanager
    def progress(total: int, *, description: str) -> Iterator[Callable[[int], None]]:
        told.append(description)
        yield lambda n: None

    monkeypatch.setattr("rcb_bayes.workers.tasks.progress", progress)
    Stages(gaussian(GaussianNoise(0.5)), n_per_arm=6, n_worlds=40).rewards([0])
    assert told == ["worlds"]
