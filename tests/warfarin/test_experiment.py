"""The experiment: small on made-up patients, and what must show on the real ones."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.fixed import fixed_plan
from rcb_bayes.theorem import theorem_plan
from rcb_bayes.warfarin.beliefs import PAPER_SIGMA, physician_market
from rcb_bayes.warfarin.cohort import Cohort
from rcb_bayes.warfarin.contenders import heeding_rcb, rcb_policy
from rcb_bayes.warfarin.experiment import run_warfarin
from rcb_bayes.warfarin.judging import audit_rows
from rcb_bayes.warfarin.metrics import replay_metrics
from rcb_bayes.warfarin.replay import replay
from rcb_bayes.warfarin.result import WarfarinResult


@pytest.mark.parametrize("values", [(), (-0.1,), ("a",)])
def test_bad_epsilons_are_refused_before_anything_runs(few: Cohort, values: Sequence[float]) -> None:
    with pytest.raises(RcbError, match="epsilons must be numbers"):
        run_warfarin(few, epsilons=values)


def test_theorem_1_asks_for_36124_samples_of_each_dose(few: Cohort) -> None:
    market = physician_market(few, sigma=PAPER_SIGMA)
    plan = theorem_plan(
        market, epsilon=0.025, tau=0.005, tau_star=0.005, prior_gap=1.0, phi0=1.0, horizon=5528, n_worlds=50
    )
    assert plan.n_per_arm == 36_124
    assert not plan.feasible


def test_a_practical_plan_beats_the_physician_on_the_real_file(real: Cohort) -> None:
    market = physician_market(real, variance=0.8)
    plan = fixed_plan(market, n_per_arm=20, exploration_rate=0.4, epsilon=0.025, notion="proof")
    found = replay_metrics(replay(real, rcb_policy(market, plan), market=market, n_permutations=10))
    assert float(found["error"]) + 2 * float(found["error_mcse"]) < 0.355
    np.testing.assert_allclose(found["recall"], [0.45, 0.86, 0.08], atol=0.03)


def test_a_practical_plan_beats_the_physician_on_made_up_patients(made_up: Cohort) -> None:
    market = physician_market(made_up, variance=0.8)
    plan = fixed_plan(market, n_per_arm=20, exploration_rate=0.4, epsilon=0.025, notion="proof")
    found = replay_metrics(replay(made_up, rcb_policy(market, plan), market=market, n_permutations=5))
    physician = 1 - made_up.counts[1] / len(made_up)
    assert float(found["error"]) + 4 * float(found["error_mcse"]) < physician


@pytest.mark.slow
def test_the_dose_oracle_within_the_proof_notion_on_the_real_file(real: Cohort) -> None:
    """At most .345, while the audit passes at the notion and epsilon claimed."""
    from rcb_bayes.calibration import calibrate

    market = physician_market(real, variance=0.8)
    plan = calibrate(
        market, epsilon=0.025, notion="proof", n_per_arm=20, n_worlds=500, audit_worlds=500, guard=False, seed=0
    )
    runs = replay(real, heeding_rcb(market, plan), market=market, n_permutations=10)
    assert float(replay_metrics(runs)["error"]) <= 0.345
    rows = audit_rows(market, plan, "heeding", horizon=len(real), heeding=True, seed=0)
    assert [row["verdict"] for row in rows] == ["pass", "pass"]
    assert {(row["notion"], row["epsilon"]) for row in rows} == {("proof", 0.025)}


@pytest.fixture(scope="module")
def small(few: Cohort) -> WarfarinResult:
    return run_warfarin(
        few, epsilons=(0.05,), variances=(0.8,), n_permutations=2, n_worlds=100, audit=False, baselines=False
    )


@pytest.mark.slow
def test_a_small_experiment_has_all_its_parts(small: WarfarinResult, few: Cohort) -> None:
    names = [str(name) for name in small.figures["policy"].values]
    assert names[0] == "physician"
    assert {"RCB, N = 10", "RCB, sampled plan", "RCB, theorem plan"} <= set(names)
    assert small.runs.sizes == {"policy": len(names), "permutation": 2, "t": len(few)}
    np.testing.assert_allclose(small.runs["regret"].mean(("permutation", "t")), small.figures["error"])
    text = small.summary()
    assert "SYNTHETIC" in text
    assert "N = 36,124: out of reach" not in text  # epsilon is another
    assert "right" in small.confusion("physician")
    assert small.grid.attrs["synthetic"] == 1


@pytest.mark.slow
def test_the_answer_is_the_same_for_any_number_of_workers(small: WarfarinResult, few: Cohort) -> None:
    again = run_warfarin(
        few, epsilons=(0.05,), variances=(0.8,), n_permutations=2, n_worlds=100, audit=False, baselines=False, workers=2
    )
    assert again.runs.identical(small.runs)
    assert again.plans.identical(small.plans)


@pytest.mark.slow
def test_netcdf_both_ways(small: WarfarinResult, tmp_path: Path) -> None:
    small.save(tmp_path / "w.nc")
    again = WarfarinResult.load(tmp_path / "w.nc")
    assert again.summary() == small.summary()
    np.testing.assert_array_equal(again.runs["regret"], small.runs["regret"])
    (tmp_path / "other.nc").write_text("no")
    with pytest.raises(RcbError, match="no result of the warfarin experiment"):
        WarfarinResult.load(tmp_path / "other.nc")
