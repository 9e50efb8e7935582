"""Rules in the place of a plan's own rates and guards: the same answers, in the same words, for their plan only."""

import numpy as np
import pytest

import rcb_bayes as rcb
from tests.planning.test_distilling import box, box_plan, favoured, favoured_plan, favoured_rule

STAGES = (["arm_0"], ["arm_0", "arm_1"], ["arm_2", "arm_0"], [], ["arm_0", "arm_1", "arm_2"])


@pytest.mark.parametrize("saturated", STAGES, ids=str)
def test_a_plan_with_a_rule_gives_the_rule_s_rates(saturated: list[str]):
    users = favoured().covariates.sample(200, seed=5)
    ruled = favoured_plan().with_rule(favoured_rule())
    np.testing.assert_array_equal(
        ruled.rate(users, saturated=saturated), favoured_rule().rate(users, saturated=saturated)
    )
    assert favoured_rule().rate(users[0], saturated=saturated) == ruled.rate(users[0], saturated=saturated)


def test_rates_that_name_no_stage_are_averages():
    users = favoured().covariates.sample(200, seed=5)
    ruled = favoured_plan().with_rule(favoured_rule())
    np.testing.assert_allclose(ruled.rate(users), favoured_rule().rate(users), rtol=1e-12)


@pytest.mark.parametrize("epoch", [0, 1, 3, 50])
def test_a_plan_with_a_rule_gives_the_rule_s_guards(epoch: int):
    users = favoured().covariates.sample(200, seed=6)
    ruled, rule = favoured_plan().with_rule(favoured_rule()), favoured_rule()
    assert ruled.has_guard
    np.testing.assert_array_equal(ruled.guard(users, epoch), rule.guard(users, epoch))
    np.testing.assert_array_equal(ruled.guard(users[0], epoch), rule.guard(users[0], epoch))
    for mechanism in (ruled, favoured_plan()):
        alone = [mechanism.guard_one(x, epoch) for x in users[:20].tolist()]
        np.testing.assert_allclose(alone, mechanism.guard(users[:20], epoch), rtol=1e-12)


def test_a_plan_with_a_rule_comes_back_from_its_file(tmp_path):
    ruled = favoured_plan().with_rule(favoured_rule())
    ruled.save(tmp_path / "plan.json")
    again = rcb.Plan.load(tmp_path / "plan.json")
    assert again.to_json() == ruled.to_json()
    users = favoured().covariates.sample(50, seed=7)
    np.testing.assert_array_equal(again.guard(users, 2), ruled.guard(users, 2))
    assert "by a rule of" in again.summary()
    assert "explored at the rate" in again.explain(users[0])
    assert len(ruled.to_json()) < len(favoured_plan().to_json())


def test_a_rule_of_another_plan_is_refused_in_one_line():
    for other in (box_plan(), rcb.calibrate(favoured(), n_per_arm=10, n_worlds=200, audit_worlds=200, seed=2)):
        market = box() if other is box_plan() else favoured()
        with pytest.raises(rcb.RcbError, match="distilled from another plan") as told:
            rcb.Recommender(market, other, rule=favoured_rule())
        assert "\n" not in str(told.value)
    with pytest.raises(rcb.RcbError, match=r"rule must be a Rule, got str\. Use plan\.distil\(\)"):
        rcb.Recommender(favoured(), favoured_plan(), rule="rule.json")  # type: ignore[arg-type]


def test_a_recommender_with_a_rule_saves_it_and_goes_on(tmp_path):
    market, plan, rule = favoured(), favoured_plan(), favoured_rule()
    users = market.covariates.sample(400, seed=8)
    one = rcb.Recommender(market, plan, rule=rule, seed=3)
    assert one.plan.to_json() == plan.with_rule(rule).to_json()
    other = rcb.Recommender(market, plan, rule=rule, seed=3)
    for k, x in enumerate(users):
        told = one.recommend(x)
        one.observe(0.1 * k % 1.0, ticket=told.ticket)
        if k == 200:
            other.save(tmp_path / "agent.json")
            other = rcb.Recommender.load(tmp_path / "agent.json", market)
        again = other.recommend(x)
        assert (again.arm, again.propensity) == (told.arm, told.propensity)
        other.observe(0.1 * k % 1.0, ticket=again.ticket)
    assert one.stage == "exploit"


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda rule: rule.rate([[1.0, 0.0, 0.0]]), "x"),
        (lambda rule: rule.rate([1.0, 0.0], saturated=["arm_9"]), "There is no arm 'arm_9'"),
        (lambda rule: rule.rate([np.nan, 0.0]), "x"),
        (lambda rule: rule.guard([1.0, 0.0], -1), "epoch"),
        (lambda rule: rule.guard([1.0], 0), "x"),
    ],
)
def test_bad_questions_are_refused(ask, told: str):
    with pytest.raises(rcb.RcbError, match=told):
        ask(favoured_rule())


def test_a_stage_that_nobody_has_passed_is_refused_and_left_to_the_plan():
    prior = rcb.Prior.gaussian([[2.0], [0.0], [-2.0]], 0.1)
    market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0], [0.9]]), noise=rcb.GaussianNoise(0.3))
    plan = rcb.calibrate(market, epsilon=5.0, n_per_arm=4, n_worlds=100, audit_worlds=100)
    rule = plan.distil(4)
    assert ("arm_2",) not in rule.stages
    with pytest.raises(rcb.RcbError, match="no stage with arm_2 saturated"):
        rule.rate([1.0], saturated=["arm_2"])
    assert plan.with_rule(rule).rate([1.0], saturated=["arm_2"]) == plan.rate([1.0], saturated=["arm_2"])
