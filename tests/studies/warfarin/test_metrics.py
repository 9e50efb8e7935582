"""Figures of a replay, against plain counting."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.planning.fixed import fixed_plan
from rcb_bayes.studies.warfarin.beliefs import always_medium
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.contenders import rcb_policy
from rcb_bayes.studies.warfarin.metrics import confusion_table, replay_metrics, subgroup_metrics
from rcb_bayes.studies.warfarin.replay import replay, replay_plans


def weighted_risk_score(right: np.ndarray, assigned: np.ndarray) -> float:
    """The paper's score, by its own formula: sum_k p_k (Pr(right | k) - Pr(wrong | k))."""
    shares = np.bincount(right.astype(int), minlength=3) / len(right)
    recall = np.diagonal(confusion_table(right, assigned))
    return float(sum(p * (2.0 * r - 1.0) for p, r in zip(shares, recall, strict=True) if p > 0))


pairs = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=60)


@given(pairs)
def test_the_score_is_twice_the_accuracy_minus_one(cases: list[tuple[int, int]]) -> None:
    right, assigned = np.array(cases).T
    assert weighted_risk_score(right, assigned) == pytest.approx(2 * np.mean(right == assigned) - 1)


def test_with_other_weights_it_would_not_be() -> None:
    """The planted twin: the plain average of recall is another number."""
    right, assigned = np.array([0, 1, 1, 1, 2]), np.ones(5, dtype=int)
    macro = float(np.diagonal(confusion_table(right, assigned)).mean())
    assert 2 * macro - 1 != pytest.approx(weighted_risk_score(right, assigned))


def test_the_papers_table_gives_the_papers_score() -> None:
    shares, recall = np.array([0.27, 0.60, 0.13]), np.array([0.50, 0.84, 0.05])
    assert float(shares @ (2 * recall - 1)) == pytest.approx(0.291)


def test_confusion_by_hand() -> None:
    table = confusion_table(np.array([0, 0, 1, 1, 1, 1]), np.array([0, 2, 1, 1, 0, 1]))
    np.testing.assert_allclose(table[:2], [[0.5, 0, 0.5], [0.25, 0.75, 0]])
    assert np.isnan(table[2]).all()


def test_figures_agree_with_each_other(few: Cohort) -> None:
    arms = np.random.default_rng(0).integers(3, size=len(few))
    found = replay_metrics(replay(few, arms, n_permutations=3))
    shares = np.array(few.counts) / len(few)
    assert float(found["error"]) == pytest.approx(1 - float(shares @ found["recall"].values))
    assert float(found["score"]) == pytest.approx(weighted_risk_score(few.arm, arms))
    assert float(found["macro_recall"]) == pytest.approx(found["recall"].values.mean())
    assert float(found["extreme"]) == pytest.approx(np.mean(np.abs(few.arm - arms) == 2))
    np.testing.assert_allclose(found["confusion"].sum("assigned"), 1.0)
    assert float(found["error_mcse"]) == pytest.approx(0.0)


def test_plans_count_in_the_error(few: Cohort, few_market: Market) -> None:
    """A plan that is always wrong and one that is always right: orders alone would say that nothing varies."""
    wrong, right = ((few.arm + shift) % 3 for shift in (1, 0))
    runs = [replay(few, arms.astype(int), n_permutations=4) for arms in (wrong, right)]
    both = replay_metrics(xr.concat(runs, dim="plan"))
    assert float(both["error"]) == pytest.approx(0.5)
    assert float(both["error_mcse"]) == pytest.approx(0.5)
    assert (float(both["error_least"]), float(both["error_most"]), int(both["n_plans"])) == (0.0, 1.0, 2)
    assert float(replay_metrics(runs[0])["error_mcse"]) == pytest.approx(0.0)
    groups = subgroup_metrics(few, xr.concat(runs, dim="plan"))
    np.testing.assert_allclose(groups["error"], 0.5)
    np.testing.assert_allclose(groups["error_mcse"], 0.5)


def test_a_cold_start_that_does_not_end_is_no_short_one(few: Cohort, few_market: Market) -> None:
    plans = [fixed_plan(few_market, n_per_arm=n, exploration_rate=0.4) for n in (5, 400)]
    runs = replay_plans(few, [rcb_policy(few_market, plan) for plan in plans], market=few_market, n_permutations=2)
    found = replay_metrics(runs)
    assert float(found["ended"]) == 0.5
    assert float(found["cold_start"]) > len(few) / 2  # all there are, for the plan that does not end
    with pytest.raises(RcbError, match="one or more"):
        replay_plans(few, [], market=few_market)


def test_subgroups_add_up_to_all(few: Cohort) -> None:
    runs = replay(few, always_medium(few), n_permutations=2)
    found = subgroup_metrics(few, runs)
    for kind in ("race", "sex", "age"):
        own = found.sel(group=[label for label in found["group"].values if label.startswith(f"{kind}: ")])
        assert int(own["n"].sum()) == len(few)
        assert float((own["n"] * own["error"]).sum()) / len(few) == pytest.approx(float(runs["regret"].mean()))
    np.testing.assert_allclose(found["error"], found["always_medium"])
    np.testing.assert_array_equal(found["burden"], 0.0)
