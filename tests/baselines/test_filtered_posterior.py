"""Filtered posterior sampling: a warm start that covers every direction, then Thompson sampling."""

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.baselines import FilteredPosterior
from rcb_bayes.errors import RcbError
from rcb_bayes.running.driving import drive
from rcb_bayes.running.worlds import SimulatedWorld


def market(users: rcb.Covariates | None = None) -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.3, 0.2]], 0.25, arms=["old", "new"])
    users = rcb.Uniform([0, 0], [1, 1]) if users is None else users
    return rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(0.3))


@pytest.mark.parametrize("collect", ["hidden", "in turn"])
def test_it_collects_until_every_direction_is_covered(collect: str) -> None:
    for number in range(5):
        policy = FilteredPosterior(market(), least_eigenvalue=1.5, collect=collect, inverse_rate=2.0)  # pyright: ignore[reportArgumentType]
        world = SimulatedWorld(market(), np.random.SeedSequence(number))
        for _ in drive(policy, world, horizon=2000):
            if policy.cold_start_length >= 0:
                break
        assert policy.cold_start_length > 0
        grams = policy.history.sums().xtx[0]
        assert np.linalg.eigvalsh(grams).min() >= 1.5
        share = policy.recommend_proba(market().population.sample(50, seed=1))
        assert np.allclose(share.sum(axis=1), 1.0)


def test_it_asks_for_what_users_who_are_alike_would_need() -> None:
    policy = FilteredPosterior(market(), collect="in turn")
    gain, chance = rcb.baselines.estimate_separations(market())
    assert policy.least_eigenvalue == rcb.baselines.warm_start_samples(gain, chance, sigma=0.3)


def test_runs_learn() -> None:
    runs = rcb.simulate(
        market(),
        lambda own, seed: FilteredPosterior(own, least_eigenvalue=1.0, collect="in turn", batch=20, seed=seed),
        horizon=800,
        n_worlds=10,
        seed=1,
    )
    regret = runs["regret"].values
    assert regret[:, -200:].mean() < 0.5 * regret[:, :20].mean()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"least_eigenvalue": 0.0}, "least_eigenvalue must be a positive number"),
        ({"constant": -1.0}, "constant must be a positive number"),
        ({"collect": "openly"}, "no way to collect"),
    ],
)
def test_bad_input(asked: dict, message: str) -> None:
    with pytest.raises(RcbError, match=message):
        FilteredPosterior(market(), **asked)


def test_users_who_leave_a_direction_out() -> None:
    with pytest.raises(RcbError, match="phi0 = 0"):
        FilteredPosterior(market(rcb.Empirical([[1.0, 1.0], [0.5, 0.5]])), least_eigenvalue=1.0)
