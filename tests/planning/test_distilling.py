"""Distilling plans: exact for a table of users, on the safe side elsewhere, and what is kept told with its error."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.guard import off_best_mass, users_room
from rcb_bayes.planning.leaves import LeafTable
from tests.planning.revising import revised
from tests.twins.coarse_plans import coarse_plan

NOISE = rcb.GaussianNoise(0.3)


@cache
def box() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=NOISE)


@cache
def box_plan() -> rcb.Plan:
    return rcb.calibrate(box(), epsilon=0.1, n_per_arm=8, n_worlds=300)


@cache
def table() -> rcb.Market:
    rows = box().covariates.sample(60, seed=3)
    return rcb.Market(prior=box().prior, covariates=rcb.Empirical(rows, weights=np.arange(1.0, 61.0)), noise=NOISE)


@cache
def table_plan() -> rcb.Plan:
    return rcb.calibrate(table(), epsilon=0.1, n_per_arm=8, n_worlds=300)


@cache
def favoured() -> rcb.Market:
    """The paper's Setting 4 with three arms and two features."""
    prior = rcb.Prior.gaussian([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 0.02)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.05))


@cache
def favoured_plan() -> rcb.Plan:
    """Guards that differ from user to user."""
    return rcb.calibrate(favoured(), n_per_arm=10, n_worlds=200, audit_worlds=200)


@cache
def favoured_rule() -> rcb.Rule:
    return small(favoured_plan(), 32)


@cache
def different() -> rcb.Market:
    """Three arms of which different things are expected."""
    prior = rcb.Prior.gaussian([[0.3, 0.2], [0.1, -0.2], [0.0, 0.1]], 0.1)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=NOISE)


@cache
def level_plan(knows: str = "level") -> rcb.Plan:
    options: dict[str, Any] = {"epsilon": 0.1, "n_per_arm": 8, "n_worlds": 300, "audit_worlds": 300, "horizon": 500}
    return coarse_plan(different(), knows=knows, **options)


@cache
def level_rule(knows: str = "level") -> rcb.Rule:
    return small(level_plan(knows), 16, few=0.5)


def small(plan: rcb.Plan, max_leaves: int, *, few: float = 1.0, **options) -> rcb.Rule:
    """A rule from fewer users than usual."""
    sizes = {"_N_USERS": 2048, "_N_FRESH": 2048, "_N_FRESH_TOLD": 512, "_N_LOOKED": 512, "_N_POOL": 4096}
    sizes |= {"_N_LOSERS": 512, "_N_KEPT": 2048}
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(f"rcb_bayes.planning.searching.{name}", int(few * size))
        return plan.distil(max_leaves, **options)


def test_the_least_is_exact_for_a_table_and_so_is_what_is_kept():
    plan, users = table_plan(), table().covariates
    rule = plan.distil(8)
    rows, weights = users.rows, users.weights  # type: ignore[attr-defined]
    own, given = plan.rate(rows, saturated=["old"]), rule.rate(rows, saturated=["old"])
    assert (given <= own).all()
    leaf = rule.rates.leaves.of(rows)
    cuts = rule.rates.cuts
    assert cuts is not None
    is_above = cuts.is_above(rows, leaf)[:, 0]
    for k in range(rule.rates.leaves.n_leaves):
        everybody, above = leaf == k, (leaf == k) & is_above
        assert set(given[everybody & ~is_above]) <= {own[everybody].min()}
        assert set(given[above]) <= {own[above].min(initial=1.0)}
    assert [stage.saturated for stage in plan.stages] == [("old",)]
    before, after = own @ weights, given @ weights
    assert rule.shares_kept.rates == pytest.approx(after / before, abs=1e-12)
    assert (rule.kept_mcse, rule.shares_kept.exceeded) == (0.0, 0.0)


def test_more_leaves_keep_more():
    plan = rcb.calibrate(table(), epsilon=0.05, n_per_arm=8, n_worlds=300)  # of rates further apart
    kept = [plan.distil(n).kept for n in (1, 2, 4, 16)]
    assert kept == sorted(kept)
    assert kept[0] < 0.7 < 0.95 < kept[-1]


def test_what_is_kept_is_within_its_error_of_what_other_users_say():
    plan, rule = favoured_plan(), favoured_rule()
    users = favoured().covariates.sample(4000, seed=77)
    before = after = planted = np.zeros(len(users))
    for epoch, guard in enumerate(plan.guards):
        assert guard.outlook is not None
        mass = off_best_mass(guard.outlook, guard.gamma, users)
        own, given = plan.guard(users, epoch), rule.guard(users, epoch)
        before = before + (mass * own).sum(axis=1)
        after = after + (mass * np.minimum(own, given)).sum(axis=1)
        planted = planted + (mass * np.minimum(own, 0.98 * given)).sum(axis=1)  # a leaf's value that is off
    share = after.mean() / before.mean()
    error = (after - share * before).std() / before.mean() / np.sqrt(len(users))
    found = rule.shares_kept
    assert abs(share - found.guards) < 4 * np.hypot(error, found.guards_mcse)
    assert rule.kept > 0.9
    assert abs(planted.mean() / before.mean() - found.guards) > 4 * np.hypot(error, found.guards_mcse)


def test_hardly_anybody_is_given_more_than_the_plan_gives():
    plan, rule = box_plan(), box_plan().distil(32)
    users = box().covariates.sample(4000, seed=78)
    own, given = plan.rate(users, saturated=["old"]), rule.rate(users, saturated=["old"])
    assert (given > own).mean() < 0.02
    assert (given - own).max() < 0.05
    leaf = rule.rates.leaves.of(users)
    planted = np.array([own[leaf == k].mean() if (leaf == k).any() else 0.0 for k in range(leaf.max() + 1)])[leaf]
    assert (planted > own).mean() > 0.3  # means in the place of the least


def test_who_loses_at_most_epsilon_is_explored_to_the_last_digit_and_nobody_beyond():
    """Rates jump there, and users right beyond it are too few to be found at random."""
    plan, rule = favoured_plan(), favoured_rule()
    half = np.arccos(plan.epsilon / np.sqrt(2.0))  # x_0 + x_1 = epsilon
    for side in (-1.0, 1.0):
        for step, is_free in ((1e-9, True), (-1e-9, False)):
            angle = np.pi / 4 + side * (half + step)
            x = np.array([np.cos(angle), np.sin(angle)])
            for stage in (one for one in plan.stages if "arm_0" in one.saturated):
                own, given = (one.rate(x, saturated=stage.saturated) for one in (plan, rule))
                assert given <= own
                assert (given == 1.0) == is_free
    assert rule.rates.cuts is not None
    moved = replace(rule.rates, cuts=replace(rule.rates.cuts, thresholds=rule.rates.cuts.thresholds - 0.01))
    planted = replace(rule, rates=moved)
    x = np.array([np.cos(np.pi / 4 + half - 5e-3), np.sin(np.pi / 4 + half - 5e-3)])
    stage = next(one.saturated for one in plan.stages if "arm_0" in one.saturated)
    assert planted.rate(x, saturated=stage) == 1.0 > plan.rate(x, saturated=stage)


def test_who_is_given_more_is_told_with_a_bound_that_other_users_confirm():
    plan, rule = favoured_plan(), favoured_rule()
    found = rule.shares_kept
    users = favoured().covariates.sample(20_000, seed=79)
    above = np.zeros(len(users), dtype=bool)
    for stage in plan.stages:
        above |= rule.rate(users, saturated=stage.saturated) > plan.rate(users, saturated=stage.saturated)
    for epoch in range(len(plan.guards)):
        above |= (rule.guard(users, epoch) > plan.guard(users, epoch)).any(axis=1)
    error = np.hypot(np.sqrt(above.mean() * (1.0 - above.mean()) / len(users)), found.exceeded_mcse)
    assert abs(above.mean() - found.exceeded) < 4.5 * error + 3.0 / 2048
    assert found.exceeded_upper > max(found.exceeded, above.mean() - 4.5 * error)
    assert found.exceeded_upper > 1e-3  # 2,048 users cannot tell less
    assert f"at most {100 * found.exceeded_upper:.1f}" in rule.summary()
    assert rcb.Rule.from_json(rule.to_json()).shares_kept == found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_a_rule_passes_its_audit_as_it_stands(seed: int):
    plan, market = favoured_plan(), favoured()
    ruled = plan.with_rule(favoured_rule())
    asked: dict[str, Any] = {"horizon": 500, "n_worlds": 200, "seed": seed}
    assert rcb.audit(market, ruled, **asked).verdict == "pass"
    assert rcb.audit(market, rcb.Recommender(market, plan, rule=favoured_rule()), **asked).verdict == "pass"
    high = replace(favoured_rule(), rates=_all_one(favoured_rule().rates))
    assert rcb.audit(market, plan.with_rule(high), **asked).verdict == "fail"
    open_guard = replace(favoured_rule(), guards=_all_one(favoured_rule().guards))
    assert rcb.audit(market, plan.with_rule(open_guard), **asked).verdict != "pass"


def _all_one(given: LeafTable | None) -> LeafTable:
    """Everybody is given everything: the planted error."""
    assert given is not None
    return replace(given, values=np.ones(given.values.shape), cuts=None)


def test_the_same_seed_gives_the_same_rule_from_a_file_too(tmp_path):
    plan = box_plan()
    plan.save(tmp_path / "plan.json")
    again = rcb.Plan.load(tmp_path / "plan.json")
    assert small(again, 8).to_json() == small(plan, 8).to_json()
    assert small(again, 8, seed=2).to_json() != small(plan, 8).to_json()


def test_a_plan_of_one_rate_is_one_leaf():
    fixed = rcb.fixed_plan(box(), n_per_arm=8, exploration_rate=0.2, epsilon=0.1)
    for max_leaves in (1, 256):
        rule = fixed.distil(max_leaves)
        assert (rule.n_leaves, rule.kept, rule.kept_mcse) == (1, 1.0, 0.0)
        assert rule.rate([0.3, 0.3], saturated=["old"]) == fixed.rate([0.3, 0.3], saturated=["old"]) == 0.2
        assert rule.guard([0.3, 0.3], 0).tolist() == [1.0, 1.0]
    uniform = rcb.calibrate(box(), epsilon=0.3, personalised=False, n_per_arm=8, n_worlds=200)
    assert uniform.distil().rate([0.3, 0.3]) == pytest.approx(uniform.exploration_rate)


def test_one_leaf_is_the_least_of_all():
    rule = small(favoured_plan(), 1)
    assert rule.n_leaves == 1
    assert rule.rates.leaves.n_leaves == 1
    own = favoured_plan().rate(favoured().covariates.sample(500, seed=1), saturated=["arm_0"])
    assert rule.rate([1.0, 0.0], saturated=["arm_0"]) <= own.min()


def test_a_table_of_zero_one_rewards_knows_its_rows_only():
    users = rcb.Empirical(np.array([[1.0, 0.2], [1.0, -0.6], [1.0, 0.9]]))
    prior = rcb.Prior.gaussian([[0.4, 0.2], [0.1, 0.2]], 0.5)
    market = rcb.Market(prior=prior, covariates=users, noise=rcb.BernoulliLogit())
    plan = rcb.calibrate(market, epsilon=0.2, n_per_arm=5, n_worlds=60, audit_worlds=60)
    rule = plan.distil(4)
    stage = list(plan.stages[0].saturated)
    own = plan.rate(users.rows, saturated=stage)
    for mechanism in (rule, plan.with_rule(rule), rcb.Rule.from_json(rule.to_json())):
        np.testing.assert_array_equal(mechanism.rate(users.rows, saturated=stage), own)
        with pytest.raises(rcb.RcbError, match="no rate for a user who is not in the table"):
            mechanism.rate([1.0, 0.5], saturated=stage)


@pytest.mark.parametrize("max_leaves", [0, -3, 1.5, "many", None, True])
def test_leaves_are_counted(max_leaves):
    with pytest.raises(rcb.RcbError, match="max_leaves"):
        box_plan().distil(max_leaves)


def test_what_cannot_be_distilled_is_told():
    with pytest.raises(rcb.RcbError, match="has a rule already"):
        box_plan().with_rule(box_plan().distil(4)).distil(4)
    with pytest.raises(rcb.RcbError, match="must have 2 features, as the plan has, got 3"):
        box_plan().distil(4, covariates=rcb.Sphere(3))
    with pytest.raises(rcb.RcbError, match="cannot be run: no way"):
        revised(box_plan(), feasible=False, reason="no way").distil(4)
    read = rcb.Plan.from_json(table_plan().to_json())
    with pytest.raises(rcb.RcbError, match=r"does not know its users.*covariates=market\.covariates"):
        read.distil(4)
    assert read.distil(4, covariates=table().covariates).to_json() == table_plan().distil(4).to_json()


# --- users who do not know the saturated set ---


@pytest.mark.parametrize("knows", ["level", "phase", "mechanism"])
def test_rules_of_levels_give_what_the_plan_with_them_gives_and_hardly_more_than_the_plan(knows: str):
    plan = level_plan(knows)
    rule = level_rule(knows)
    ruled, users = plan.with_rule(rule), different().covariates.sample(1000, seed=4)
    assert rule.knows == ruled.knows == knows
    assert rule.kept > 0.9
    for saturated in (["arm_0"], ["arm_2"], ["arm_0", "arm_1"], [], ["arm_0", "arm_1", "arm_2"]):
        given = rule.rate(users, saturated=saturated)
        np.testing.assert_array_equal(given, ruled.rate(users, saturated=saturated))
        assert rule.rate(users[0], saturated=saturated) == given[0]
    np.testing.assert_allclose(rule.rate(users), ruled.rate(users), rtol=1e-12)
    given, own = rule.rate(users, saturated=["arm_0"]), plan.rate(users, saturated=["arm_0"])
    assert (given > own + 1e-9).mean() < 0.03
    assert given.mean() > 0.85 * own.mean()
    again = rcb.Plan.from_json(ruled.to_json())
    np.testing.assert_array_equal(again.rate(users, saturated=["arm_0"]), given)
    assert "users know" in rule.summary()


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["level", "phase", "mechanism"])
@pytest.mark.parametrize("seed", [21, 22])
def test_a_rule_passes_its_audit_at_the_knowledge_that_it_claims(knows: str, seed: int):
    plan = level_plan(knows)
    asked: dict[str, Any] = {"horizon": 500, "n_worlds": 300, "seed": seed}
    rule = level_rule(knows)
    assert rcb.audit(different(), plan.with_rule(rule), **asked).verdict == "pass"
    high = replace(rule, rates=_all_one(rule.rates), guards=_all_one(rule.guards))  # exploitation pays for cold starts
    if knows == "mechanism":
        asked["horizon"] = 30  # with 500 rounds of which users know nothing it pays for this one
    assert rcb.audit(different(), plan.with_rule(high), **asked).verdict != "pass"


def test_room_is_left_at_the_plan_s_own_factors_and_none_beyond():
    plan, users = favoured_plan(), favoured().covariates.sample(300, seed=5)
    guard = plan.guards[0]
    assert guard.outlook is not None
    options = guard.options(plan.goal)
    own = plan.guard(users, 0)
    assert (users_room(guard.outlook, guard.gamma, users, own, **options) > -1e-9).all()
    more = np.minimum(own + 0.05, 1.0)
    beyond = users_room(guard.outlook, guard.gamma, users, more, **options)[own < 1.0]
    assert len(beyond) > 20
    assert (beyond < 0.0).all()


# --- length ---


@cache
def four_rows() -> rcb.Market:
    rows = np.random.default_rng(1).normal(size=(4, 2))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rcb.Market(prior=different().prior, covariates=rcb.Empirical(rows), noise=NOISE)


@cache
def four_rows_plan(knows: str) -> rcb.Plan:
    sizes: dict[str, Any] = {"n_per_arm": 8, "n_worlds": 300, "audit_worlds": 300, "horizon": 500}
    return coarse_plan(four_rows(), epsilon=0.1, knows=knows, **sizes)


def walked(mechanism: rcb.Rule | rcb.Plan, market: rcb.Market, *, needed: int, n_runs: int = 600) -> np.ndarray:
    """Rounds of cold starts, one user after the other: it takes from the package the rates alone."""
    rng, users = np.random.default_rng(8), market.covariates.rows  # type: ignore[attr-defined]
    expected, known = users @ market.prior.mean.values.T, {}
    out = np.zeros(n_runs)
    for run in range(n_runs):
        counts = np.zeros(3, dtype=int)
        while (counts < needed).any():
            full = tuple(np.flatnonzero(counts >= needed).tolist())
            if full not in known:
                hopes = np.where(counts >= needed, -np.inf, expected)
                names = [market.arms[arm] for arm in full]
                known[full] = hopes.argmax(axis=1), mechanism.rate(users, saturated=names)
            user = rng.integers(len(users))
            out[run] += 1
            counts[known[full][0][user]] += rng.random() < known[full][1][user]
    return out


@pytest.mark.parametrize(("knows", "max_leaves"), [("phase", 3), ("phase", 4), ("stage", 3)])
def test_a_rule_s_own_cold_start_is_told_within_its_error(knows: str, max_leaves: int):
    rule = four_rows_plan(knows).distil(max_leaves)
    found = rule.shares_kept
    assert len(found.stages) == len(four_rows_plan(knows).stages)
    assert min(found.stages) > 0.0
    assert found.stuck == 0.0
    for mechanism, length in ((rule, found.length), (four_rows_plan(knows), found.length_of_plan)):
        rounds = walked(mechanism, four_rows(), needed=8)
        error = np.hypot(rounds.std() / np.sqrt(len(rounds)), found.length_mcse)
        assert abs(rounds.mean() - length) < 4.5 * error
        assert abs(rounds.mean() - 1.1 * length) > 4.5 * error  # a length that is off
    ruled = four_rows_plan(knows).with_rule(rule)
    assert (ruled.expected_cold_start, ruled.expected_cold_start_mcse) == (found.length, found.length_mcse)
    assert "expected cold start" in rule.summary()
    assert rcb.Rule.from_json(rule.to_json()).shares_kept == found


@pytest.mark.parametrize("max_leaves", [1, 2])
def test_a_rule_that_would_close_a_stage_is_refused(max_leaves: int):
    with pytest.raises(rcb.RcbError, match=rf"rule of {max_leaves} lea\w+ closes .* keeps open. Ask for more"):
        four_rows_plan("phase").distil(max_leaves)


def test_what_is_kept_of_a_length_is_told_stage_by_stage():
    plan = four_rows_plan("stage")
    rule, users = plan.distil(3), four_rows().covariates.rows  # type: ignore[attr-defined]
    for stage, kept in zip(plan.stages, rule.shares_kept.stages, strict=True):
        own, given = (one.rate(users, saturated=stage.saturated).mean() for one in (plan, rule))
        assert kept == pytest.approx(given / own, abs=1e-12)
    assert min(rule.shares_kept.stages) <= rule.shares_kept.rates <= max(rule.shares_kept.stages)


@pytest.mark.slow
def test_users_who_are_climbed_to_are_hardly_given_more():
    prior = rcb.Prior.gaussian([[0.6, 0.0, 0.0], [0.0, 0.0, 0.0]], 0.1)
    market = rcb.Market(prior=prior, covariates=rcb.Gaussian(np.ones(3)), noise=NOISE)
    plan = rcb.calibrate(market, epsilon=0.05, n_per_arm=20, n_worlds=1000, audit_worlds=1000, guard=False)
    rule, rng = plan.distil(64), np.random.default_rng(6)

    def above(x: np.ndarray) -> np.ndarray:
        return rule.rate(x, saturated=["arm_0"]) - plan.rate(x, saturated=["arm_0"])

    users = rng.normal(size=(3000, 3))
    more = above(users)
    for size in np.repeat(np.geomspace(0.5, 0.01, 20), 3):
        moved = users + size * rng.normal(size=users.shape)
        moved = np.where((moved**2).sum(axis=1, keepdims=True) < 16.2, moved, users)  # 99.9 % of all
        found = above(moved)
        users, more = np.where((found > more)[:, None], moved, users), np.maximum(found, more)
    assert (more > 0.02).mean() < 0.005
    assert more.max() < 0.05
    assert rule.shares_kept.rates > 0.85
