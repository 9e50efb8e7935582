"""One plan for several types of users: what each follows, together; files; what cannot be asked."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.planning.types import TypedPlans

ARMS = ["old", "new"]
USERS = rcb.Uniform([0, 0], [1, 1])
X = np.random.default_rng(0).random((40, 2))


def _belief(first: list[float], name: str = "belief") -> rcb.Prior:
    return rcb.Prior.gaussian([first, [0.2, 0.2]], 0.09, arms=ARMS, name=name)


@cache
def _market() -> rcb.Market:
    return rcb.Market(prior=_belief([0.35, 0.35]), covariates=USERS, noise=rcb.GaussianNoise(0.3))


@cache
def _types() -> tuple[rcb.UserType, rcb.UserType]:
    """One thinks much of the old arm for users with the first feature, the other for those with the second."""
    return (
        rcb.UserType(name="a", share=0.6, prior=_belief([0.6, 0.2], "a")),
        rcb.UserType(name="b", share=0.4, prior=_belief([0.2, 0.6], "b")),
    )


@cache
def _plan(least_share: float = 1.0) -> rcb.Plan:
    return rcb.calibrate(
        _market(), epsilon=0.1, n_per_arm=10, n_worlds=2000, types=_types(), least_share=least_share, seed=1
    )


def _verdict(kind: rcb.UserType, plan: rcb.Plan, *, seed: int) -> str:
    assert kind.prior is not None
    own = replace(_market(), prior=kind.prior)
    return rcb.audit(own, plan, horizon=200, n_worlds=1500, n_users=40, seed=seed).verdict


def test_one_plan_passes_for_both_where_each_one_s_own_fails_for_the_other():
    mixed = rcb.audit_types(_market(), _plan(), _types(), horizon=200, n_worlds=1500, n_users=100, seed=5)
    assert mixed.verdict == "pass"
    assert [found.verdict for found in mixed.audits.values()] == ["pass", "pass"]
    for kind, other in (_types(), _types()[::-1]):
        assert kind.prior is not None
        own = rcb.calibrate(replace(_market(), prior=kind.prior), epsilon=0.1, n_per_arm=10, n_worlds=600, seed=1)
        assert _verdict(other, own, seed=3) == "fail"
        assert _verdict(kind, own, seed=3) == "pass"
        assert _verdict(kind, _plan(), seed=3) == "pass"  # the worst users of each, too


def test_rates_and_guards_are_the_least_over_types():
    plan = _plan()
    assert plan.types is not None
    each = np.array([own.rate(X, saturated=["old"]) for own in plan.types.plans])
    np.testing.assert_array_equal(plan.rate(X, saturated=["old"]), each.min(axis=0))
    assert (each[0] != each[1]).any()
    guards = np.array([own.guard(X, 0) for own in plan.types.plans])
    np.testing.assert_array_equal(plan.guard(X, 0), guards.min(axis=0))
    assert plan.guard_one(X[0].tolist(), 0) == plan.guard(X[0], 0).tolist()
    mean = plan.rate(USERS.sample(4000, seed=1), saturated=["old"]).mean()
    assert plan.exploration_rate == pytest.approx(mean, abs=0.02)


def test_a_share_of_users_may_be_left_out():
    most = _plan(0.6)
    assert most.types is not None
    first, second = (own.rate(X, saturated=["old"]) for own in most.types.plans)
    # The first type by itself is enough of all users; the second is not.
    np.testing.assert_array_equal(most.rate(X, saturated=["old"]), first)
    assert (second < first).any()
    assert most.expected_cold_start < _plan().expected_cold_start


def test_what_enough_types_reach():
    three = TypedPlans(names=("a", "b", "c"), shares=(0.5, 0.3, 0.2), least_share=0.8, plans=())
    values = [np.array([0.1, 0.9, 0.5]), np.array([0.2, 0.8, 0.5]), np.array([0.3, 0.1, 0.4])]
    # c and b have half of all users in the first place: a has to follow, too.
    np.testing.assert_array_equal(three.followed(values), [0.1, 0.8, 0.5])
    np.testing.assert_array_equal(replace(three, least_share=1.0).followed(values), [0.1, 0.1, 0.4])
    np.testing.assert_array_equal(replace(three, least_share=0.5).followed(values), [0.2, 0.9, 0.5])


def test_a_plan_for_types_is_kept_and_runs(tmp_path):
    plan = _plan()
    plan.save(tmp_path / "plan.json")
    again = rcb.Plan.load(tmp_path / "plan.json")
    assert again.to_json() == plan.to_json()
    np.testing.assert_array_equal(again.rate(X), plan.rate(X))
    np.testing.assert_array_equal(again.guard(X, 1), plan.guard(X, 1))
    assert [kind["name"] for kind in plan.to_dict()["types"]] == ["a", "b"]
    assert "as one of 'b'" in plan.explain(X[0])
    runs = rcb.simulate(_market(), again, horizon=60, n_worlds=2)
    live = rcb.Recommender(_market(), again, seed=1)
    assert live.recommend(X[0]).arm in ARMS
    assert runs.sizes["world"] == 2


def test_shares_of_a_file_are_checked(tmp_path):
    plan = _plan()
    assert plan.types is not None
    wrong = replace(plan, types=replace(plan.types, shares=(0.6, 0.6)))
    wrong.save(tmp_path / "plan.json")
    with pytest.raises(RcbError, match="shares of types sum to 1"):
        rcb.Plan.load(tmp_path / "plan.json")


def test_one_rate_for_all_is_the_least_over_types():
    types = [replace(kind, epsilon=epsilon) for kind, epsilon in zip(_types(), (0.3, 0.25), strict=True)]
    asked = {"n_per_arm": 10, "n_worlds": 400, "personalised": False, "seed": 1}
    both = rcb.calibrate(_market(), types=types, **asked)
    assert both.types is not None
    assert both.exploration_rate == min(own.exploration_rate for own in both.types.plans)
    assert [own.epsilon for own in both.types.plans] == [0.3, 0.25]


def test_of_several_epsilons_the_least_is_planned_for():
    kinds = [rcb.UserType(name="all kinds", share=1.0, epsilon=[0.1, 0.2, 0.3])]
    plan = rcb.calibrate(_market(), types=kinds, n_per_arm=10, n_worlds=100, guard=False, seed=1)
    assert plan.types is not None
    assert plan.types.plans[0].epsilon == 0.1


@pytest.mark.slow
def test_three_arms_two_types():
    """Several stages, whose designs follow from the least of the rates before."""
    rows = np.column_stack([np.ones(200), np.random.default_rng(1).uniform(-1, 1, 200)])
    means = {"a": [[0.25, 0.15], [0, 0], [0, 0]], "b": [[0.25, -0.15], [0.05, 0], [0, 0]]}
    types = [
        rcb.UserType(name=name, share=0.5, prior=rcb.Prior.gaussian(mean, 0.06, name=name))
        for name, mean in means.items()
    ]
    base = rcb.Prior.gaussian([[0.25, 0.0], [0.02, 0], [0, 0]], 0.06)
    market = rcb.Market(prior=base, covariates=rcb.Empirical(rows), noise=rcb.GaussianNoise(0.3))
    plan = rcb.calibrate(market, epsilon=0.2, n_per_arm=15, types=types, seed=1)
    mixed = rcb.audit_types(market, plan, types, horizon=1000, n_worlds=1000, seed=5)
    assert [found.verdict for found in mixed.audits.values()] == ["pass", "pass"]


REFUSED = [
    ({"types": [rcb.UserType(name="x", share=1.0, prior=rcb.Prior.gaussian([[0.0, 0.0]] * 3, 0.1))]}, "Type 'x'"),
    ({"types": [rcb.UserType(name="x", share=1.0, prior=rcb.Prior.gaussian([[0.0, 0.0]] * 2, 0.1))]}, "Type 'x'"),
    ({"types": [rcb.UserType(name="x", share=0.5)]}, "sum to 1"),
    ({"types": []}, "sequence of UserType"),
    ({"types": [rcb.UserType(name="x", share=1.0)], "least_share": 0.0}, "least_share"),
    ({"types": [rcb.UserType(name="x", share=1.0, epsilon=-1.0)]}, "epsilons of type 'x'"),
    ({"types": [rcb.UserType(name="x", share=1.0, knows="stag")]}, "stag"),
    ({"types": [rcb.UserType(name="x", share=1.0)], "notion": "definition", "personalised": False}, "user by user"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED)
def test_types_that_are_none_are_refused(asked: dict, message: str):
    with pytest.raises(RcbError, match=message):
        rcb.calibrate(_market(), n_per_arm=10, **asked)


def test_what_a_plan_for_types_is_not_asked():
    with pytest.raises(RcbError, match="not distilled"):
        _plan().distil()
    with pytest.raises(RcbError, match="made with it"):
        rcb.guard_anew(_market(), _plan(), options=rcb.Exploiting(feed="last"))
