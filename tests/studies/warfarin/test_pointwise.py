"""The dose oracle, cut to what physicians accept: no margin below what they put up with, in any world."""

import numpy as np
import pytest

from rcb_bayes.market import Market
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.running.heeding import Heeding
from rcb_bayes.running.policies import Rcb
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.contenders import heeding_rcb
from rcb_bayes.studies.warfarin.pointwise import RcbMaker, pointwise_margin
from rcb_bayes.studies.warfarin.replay import replay

EPSILON = 0.03


def maker(market: Market, notion: str, epsilon: float = EPSILON) -> RcbMaker:
    return heeding_rcb(market, fixed_plan(market, n_per_arm=10, epsilon=epsilon, notion=notion))


@pytest.mark.parametrize("notion", ["user", "proof", "definition"])
def test_the_margin_holds_in_every_world(few_market: Market, notion: str) -> None:
    found = pointwise_margin(few_market, maker(few_market, notion), horizon=400, n_worlds=3)
    assert found.verdict == "pass"
    assert found.smallest < -0.5 * EPSILON  # the budget is used
    assert found.n_epochs > 2


def test_without_the_cut_it_would_not(few_market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted twin: the oracle's own probabilities break the margin."""

    monkeypatch.setattr(Heeding, "cut", lambda self, probabilities, expected: probabilities)
    assert pointwise_margin(few_market, maker(few_market, "user"), horizon=400, n_worlds=3).verdict == "fail"


def test_what_is_never_reached_is_not_passed(few_market: Market) -> None:
    found = pointwise_margin(few_market, maker(few_market, "user"), horizon=5, n_worlds=2)
    assert found.verdict == "inconclusive"
    assert np.isnan(found.smallest)


@pytest.mark.parametrize("notion", ["user", "proof"])
def test_probabilities_sum_to_one_and_are_those_acted_on(few: Cohort, few_market: Market, notion: str) -> None:
    policy = maker(few_market, notion)(few_market, 0)
    x, features = few.features, np.ascontiguousarray(few.features.T)
    uniforms = np.random.default_rng(0).random((len(few), 2))
    start = 0
    while start < 300:
        decisions = policy.decide(x[start:], features[:, start:], uniforms[start:])
        some = slice(start, start + len(decisions))
        np.testing.assert_allclose(decisions.probabilities.sum(axis=0), 1.0)
        assert (decisions.propensity > 0).all()
        np.testing.assert_allclose(policy.recommend_proba(x[some]), decisions.probabilities.T, atol=1e-12)
        policy.update(x[some], decisions, (decisions.arm == few.arm[some]).astype(float))
        start = some.stop


def test_a_budget_without_end_leaves_the_oracle_alone(few: Cohort, few_market: Market) -> None:
    plan = fixed_plan(few_market, n_per_arm=10)
    free = heeding_rcb(few_market, fixed_plan(few_market, n_per_arm=10, epsilon=1e6))

    def plain(market: Market, seed: int) -> Rcb:
        made = free(market, seed)
        assert isinstance(made.oracle, Heeding)
        return Rcb(market, plan, oracle=made.oracle.oracle, options=made.options)

    one, other = (replay(few, policy, market=few_market, n_permutations=2) for policy in (free, plain))
    np.testing.assert_array_equal(one["recommended"], other["recommended"])
