"""Rational users: the audit's arithmetic, and so the share that it predicts."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import behaviour as b
from rcb_bayes.behaviour.rational import best_reply
from rcb_bayes.errors import RcbError
from tests.behaviour.markets import market, oracle, plan, plan_of_three, three

HORIZON = 200


@cache
def too_much() -> rcb.Plan:
    """A plan that asks too much of most users."""
    return rcb.fixed_plan(market(), n_per_arm=10, exploration_rate=0.6, epsilon=0.05)


def shares(runs: Any) -> dict[str, tuple[float, float]]:
    """The share followed with its error over worlds: in the first phase, once the old arm is known, and later."""
    kind, followed = runs["stage"].values, runs["followed"].values
    out = {}
    for name, kinds in (("most popular", [0]), ("old", [1, 2]), ("epoch", [3])):
        here = np.isin(kind, kinds)
        share = followed[here].mean()
        out[name] = (share, float(np.sqrt((((followed - share) * here).sum(axis=1) ** 2).sum()) / here.sum()))
    return out


@pytest.mark.parametrize("which", ["passes", "fails"])
def test_the_share_followed_is_the_audits(which: str) -> None:
    own = plan() if which == "passes" else too_much()
    found = rcb.audit(market(), own, horizon=HORIZON, n_worlds=1000, n_users=400, seed=3)
    assert found.verdict == ("pass" if which == "passes" else "fail")
    predicted = b.predicted_following(found)
    runs = rcb.simulate(
        market(),
        own,
        horizon=HORIZON,
        n_worlds=60,
        behaviour=b.Rational(n_worlds=500, seed=5),
        oracle=oracle(market()),
        seed=9,
    )
    came = shares(runs)
    for stage in predicted["stage"].values:
        here = predicted.sel(stage=stage)
        share, error = came["epoch" if stage.startswith("epoch") else stage]
        # Where all or nobody follows there is no error; else 2 of them.
        assert abs(share - here["share"].item()) <= 2 * np.hypot(error, here["share_mcse"].item()) + 1e-12, stage
    if which == "fails":
        assert 0.1 < came["old"][0] < 0.9
        assert float(runs["cold_start_length"].mean()) > 1.3 * float(
            rcb.simulate(market(), own, horizon=HORIZON, n_worlds=60, oracle=oracle(market()), seed=9)[
                "cold_start_length"
            ].mean()
        )


def test_users_who_put_up_with_less_are_caught_by_the_share() -> None:
    """The planted error: users who put up with nothing are a share that is off."""
    predicted = b.predicted_following(rcb.audit(market(), too_much(), horizon=30, n_worlds=1000, n_users=400, seed=3))
    runs = rcb.simulate(
        market(),
        too_much(),
        horizon=60,
        n_worlds=60,
        behaviour=b.Rational(epsilon=0.0, n_worlds=500, seed=5),
        oracle=oracle(market()),
        seed=9,
    )
    share, error = shares_of_old(runs)
    here = predicted.sel(stage="old")
    assert abs(share - here["share"].item()) > 4 * np.hypot(error, here["share_mcse"].item())


def shares_of_old(runs: Any) -> tuple[float, float]:
    here = np.isin(runs["stage"].values, [1, 2])
    followed = runs["followed"].values
    share = followed[here].mean()
    return share, float(np.sqrt((((followed - share) * here).sum(axis=1) ** 2).sum()) / here.sum())


@pytest.mark.parametrize("knows", ["stage", "level", "phase", "mechanism"])
def test_they_follow_a_plan_that_is_made_for_who_knows_more(knows: str) -> None:
    users = b.Rational(knows=knows, n_worlds=400, seed=2)
    runs = rcb.simulate(
        three(), plan_of_three(), horizon=300, n_worlds=3, behaviour=users, oracle=oracle(three()), seed=2
    )
    assert float(runs["followed"].mean()) > 0.99


def test_a_belief_of_their_own_decides() -> None:
    """Who is sure that the old arm is better is not moved."""
    sure = rcb.Prior.gaussian([[0.9, 0.2], [0.2, 0.2]], 0.001, arms=["old", "new"])
    users = b.Rational(prior=sure, n_worlds=200)
    runs = rcb.simulate(market(), plan(), horizon=100, n_worlds=3, behaviour=users, oracle=oracle(market()), seed=2)
    believers = rcb.simulate(
        market(), plan(), horizon=100, n_worlds=3, behaviour=b.Rational(n_worlds=200), oracle=oracle(market()), seed=2
    )
    assert float(runs["followed"].mean()) < float(believers["followed"].mean()) - 0.1


def test_the_best_reply() -> None:
    nan = np.nan
    margins = np.array([[[nan, 0.2, -0.3], [0.1, nan, 0.4], [nan, nan, nan]]] * 2)
    assert best_reply(margins, np.array([0, 1]), epsilon=0.1).tolist() == [2, 1]
    assert best_reply(margins, np.array([0, 2]), epsilon=0.3).tolist() == [0, 2]


def test_they_reckon_with_a_plan() -> None:
    with pytest.raises(RcbError, match="reckon with a plan"):
        rcb.simulate(market(), lambda own, seed: rcb.baselines.Greedy(own), horizon=5, behaviour=b.Rational())


def test_a_log_predicts_nothing() -> None:
    agent = rcb.Recommender(market(), plan(), keep_log=200, seed=1)
    for x in market().covariates.sample(80, seed=1):
        agent.observe(0.1, ticket=agent.recommend(x).ticket)
    with pytest.raises(RcbError, match="realised margins only"):
        b.predicted_following(rcb.audit_log(market(), agent.log))
