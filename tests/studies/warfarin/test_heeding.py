"""Heeding: no recommendation that users hold to be worse by more than they accept, in any world."""

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.running.policies import Rcb
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.contenders import heeding_rcb
from rcb_bayes.studies.warfarin.heeding import Heeding, HeedingMaker
from rcb_bayes.studies.warfarin.pointwise import pointwise_margin
from rcb_bayes.studies.warfarin.replay import replay

EPSILON = 0.03


def maker(market: Market, notion: str, epsilon: float = EPSILON) -> HeedingMaker:
    return heeding_rcb(market, fixed_plan(market, n_per_arm=10, epsilon=epsilon, notion=notion))


@pytest.mark.parametrize("notion", ["user", "proof", "definition"])
def test_the_margin_holds_in_every_world(few_market: Market, notion: str) -> None:
    found = pointwise_margin(few_market, maker(few_market, notion), horizon=400, n_worlds=3)
    assert found.verdict == "pass"
    assert found.smallest < -0.5 * EPSILON  # the budget is used
    assert found.n_epochs > 2


def test_without_the_cut_it_would_not(few_market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted twin: the oracle's own probabilities break the margin."""

    def uncut(self: Heeding, probabilities: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return probabilities, real(self, probabilities, features)[1]

    real = Heeding.cut
    monkeypatch.setattr(Heeding, "cut", uncut)
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


def test_the_proof_notion_allows_more_than_user(few: Cohort, few_market: Market) -> None:
    scores = np.array([[0.5], [0.4], [0.2]])
    kept = {}
    for notion in ("user", "proof"):
        policy = maker(few_market, notion)(few_market, 0)

        class Fixed:
            def scores(self, features: np.ndarray) -> np.ndarray:
                return scores

            def variances(self, features: np.ndarray) -> None:
                return None

        class Exploiting:
            epoch = policy._epoch

        policy._predictor = Fixed()
        policy.exploitation = Exploiting()  # pyright: ignore[reportAttributeAccessIssue]
        kept[notion] = policy.cut(np.array([[0.0], [1.0], [0.0]]), np.zeros((1, 1)))[0][:, 0]
    np.testing.assert_allclose(kept["user"], [1.0, 0.0, 0.0])
    np.testing.assert_allclose(kept["proof"], [0.7, 0.3, 0.0])  # .3 times a gap of .1 is epsilon


def test_a_budget_without_end_leaves_the_oracle_alone(few: Cohort, few_market: Market) -> None:
    plan = fixed_plan(few_market, n_per_arm=10)
    free = heeding_rcb(few_market, fixed_plan(few_market, n_per_arm=10, epsilon=1e6))

    def plain(market: Market, seed: int) -> Rcb:
        made = free(market, seed)
        return Rcb(market, plan, oracle=made.oracle, options=made.options)

    one, other = (replay(few, policy, market=few_market, n_permutations=2) for policy in (free, plain))
    np.testing.assert_array_equal(one["recommended"], other["recommended"])


def test_a_negative_budget_is_refused(few_market: Market) -> None:
    with pytest.raises(RcbError, match="epsilon"):
        Heeding(Rcb(few_market, fixed_plan(few_market)), epsilon=-1.0)


def test_what_has_begun_is_refused(few: Cohort, few_market: Market) -> None:
    """Heeding would know nothing of the samples before."""
    begun = Rcb(few_market, fixed_plan(few_market, n_per_arm=5))
    x, uniforms = few.features, np.zeros((len(few), 2))
    decisions = begun.decide(x, np.ascontiguousarray(x.T), uniforms)
    begun.update(x[: len(decisions)], decisions, np.zeros(len(decisions)))
    with pytest.raises(RcbError, match="has seen"):
        Heeding(begun)


def test_rewards_that_come_later_are_heeded_too(few: Cohort, few_market: Market) -> None:
    """One by one or many at a time, the users' posterior is that of all counted samples."""
    made = [maker(few_market, "user")(few_market, 0) for _ in range(2)]
    x, arm, reward = few.features[:40], few.arm[:40].astype(int), np.linspace(0, 1, 40)
    for k, policy in enumerate(made):
        for row in [row for row in range(40) if row % 3 > 0] if k else ():
            policy.absorb_one(x[row], int(arm[row]), float(reward[row]))
        if not k:
            kept = np.arange(40) % 3 > 0
            policy._history.add(x[kept], arm[kept], reward[kept])
    one, other = (policy._history.sums() for policy in made)
    np.testing.assert_allclose(one.xtx, other.xtx)
    np.testing.assert_allclose(one.xty, other.xty)
