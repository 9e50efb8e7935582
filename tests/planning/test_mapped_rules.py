"""Rules of plans whose beliefs speak of features of x: never above the plan, asked by x, run and audited."""

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

import rcb_bayes as rcb

AGES = np.linspace(-1.0, 1.0, 25)[:, None]
PRIOR = rcb.Prior.gaussian(
    [[0.3, 0.1, 0.0], [0.2, 0.2, -0.1]],
    [np.diag([0.1, 0.05, 0.05]), np.diag([0.2, 0.1, 0.2])],
    arms=["old", "new"],
)


def market(users: rcb.users.Covariates) -> rcb.Market:
    noise = rcb.GaussianNoise(0.3)
    return rcb.Market(prior=PRIOR, covariates=users, noise=noise, features=PolynomialFeatures(2))


@pytest.fixture(scope="module", params=["table", "box"])
def planned(request: pytest.FixtureRequest) -> tuple[rcb.Market, rcb.Plan, rcb.Rule]:
    users = rcb.Empirical(AGES, features=["age"]) if request.param == "table" else rcb.Uniform([-1.0], [1.0])
    found = market(users)
    plan = rcb.calibrate(found, epsilon=0.05, n_per_arm=10, n_worlds=200, seed=1)
    assert plan.feasible
    return found, plan, plan.distil(16)


def test_nobody_is_given_more_than_the_plan_gives(planned: tuple[rcb.Market, rcb.Plan, rcb.Rule]) -> None:
    _, plan, rule = planned
    users = AGES if rule.table is None else rule.table
    above = rule.rate(users, saturated=["old"]) - plan.rate(users, saturated=["old"])
    assert (above > 1e-12).mean() <= 0.04
    assert (rule.guard(users, 0) <= plan.guard(users, 0) + 1e-12).mean() > 0.95
    assert rule.kept > 0.5
    assert rule.rate([0.3], saturated=["old"]) <= 1.0


def test_it_runs_and_users_would_follow(planned: tuple[rcb.Market, rcb.Plan, rcb.Rule]) -> None:
    found, plan, rule = planned
    agent = rcb.Recommender(found, plan, rule=rule, seed=1)
    agent.observe(0.2, ticket=agent.recommend([0.5]).ticket)
    ruled = plan.with_rule(rule)
    np.testing.assert_allclose(ruled.rate(AGES, saturated=["old"]), rule.rate(AGES, saturated=["old"]))
    assert rcb.audit(found, ruled, horizon=100, n_worlds=300, seed=2).verdict == "pass"
