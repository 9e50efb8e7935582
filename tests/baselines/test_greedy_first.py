"""Greedy first: greedy as long as no arm starves, the plan from then on."""

from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from tests.baselines.runs import USERS, alike, drive, market


@cache
def plan_of(where: rcb.Market) -> rcb.Plan:
    return rcb.calibrate(where, epsilon=0.2, n_per_arm=5, n_worlds=300, guard=False, seed=1)


def test_where_users_differ_it_is_greedy() -> None:
    where = market()
    policy = rcb.baselines.GreedyFirst(where, plan_of(where), patience=100, least=3, seed=2)
    arms = drive(policy, 400)
    np.testing.assert_array_equal(arms, drive(rcb.baselines.Greedy(where, seed=2), 400))
    assert policy.is_greedy
    assert policy.n_by_arm.sum() == 400


def test_where_users_are_alike_the_plan_takes_over() -> None:
    where = alike(means=(0.3, 0.15), variances=(0.0001, 0.16))
    policy = rcb.baselines.GreedyFirst(where, plan_of(where), patience=20, least=2)
    arms = drive(policy, 200, where=where)
    assert policy.switched_at == 20
    assert (arms[:20] == 0).all()
    assert (arms[20:] == 1).any() or policy.cold_start_length == -1
    assert policy.n_by_arm[1] <= (arms == 1).sum()  # organic rounds do not count
    # Never looking is greedy to the end: what the look is for.
    patient = rcb.baselines.GreedyFirst(where, plan_of(where), patience=10_000)
    assert (drive(patient, 200, where=where) == 0).all()


def test_an_arm_that_starves_later_is_noticed() -> None:
    where = alike(means=(0.3, 0.29), variances=(0.01, 0.16), sigma=0.05)
    found = []
    for seed in range(30):
        policy = rcb.baselines.GreedyFirst(where, plan_of(where), patience=10, least=1)
        drive(policy, 80, where=where, seed=seed)
        found.append(policy.switched_at)
    assert {10, 20} <= set(found) or {10, 40} <= set(found)


def test_it_is_simulated() -> None:
    where = market()
    runs = rcb.simulate(
        where,
        lambda market, seed: rcb.baselines.GreedyFirst(market, plan_of(where), patience=30, seed=seed),
        horizon=100,
        n_worlds=3,
    )
    assert (runs["n_samples"].sum("arm") >= 30).all()
    assert (runs["n_samples"].sum("arm") <= 100).all()


def test_probabilities_are_those_of_who_serves() -> None:
    where = market()
    policy = rcb.baselines.GreedyFirst(where, plan_of(where), patience=30)
    np.testing.assert_array_equal(policy.recommend_proba(USERS), rcb.baselines.Greedy(where).recommend_proba(USERS))


@pytest.mark.parametrize("asked", [{"patience": 0}, {"least": 0}])
def test_counts_below_one(asked: dict[str, int]) -> None:
    with pytest.raises(RcbError, match=next(iter(asked))):
        rcb.baselines.GreedyFirst(market(), plan_of(market()), **asked)
