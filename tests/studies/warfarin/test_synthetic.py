"""The synthetic cohort: near the real one, and the same for the same seed."""

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.studies.warfarin.baselines import formula_arms, offline_arms
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.synthetic import RESIDUAL_SD, synthetic_cohort, synthetic_patients

REAL = {"shares": (0.270, 0.603, 0.127), "clinical": 0.365, "pharmacogenetic": 0.317, "offline": 0.311}


def test_a_seed_is_a_cohort() -> None:
    pd.testing.assert_frame_equal(synthetic_patients(80, seed=4), synthetic_patients(80, seed=4))
    assert not synthetic_patients(80, seed=4).equals(synthetic_patients(80, seed=5))


@pytest.mark.parametrize("n", [1, 3])
def test_small_cohorts_have_the_same_columns(n: int) -> None:
    table = synthetic_patients(n)
    assert list(table.columns) == list(synthetic_patients(200).columns)
    assert table["id"].str.startswith("SYNTHETIC").all()


def test_shares_and_formulas_come_near_the_real_ones(made_up: Cohort) -> None:
    shares = np.array(made_up.counts) / len(made_up)
    assert np.abs(shares - REAL["shares"]).max() < 0.02
    for formula in ("clinical", "pharmacogenetic"):
        error = np.mean(formula_arms(made_up, formula=formula) != made_up.arm)
        assert abs(error - REAL[formula]) < 0.02


def test_offline_error_comes_near_the_real_one(made_up: Cohort) -> None:
    assert abs(np.mean(offline_arms(made_up, n_folds=5) != made_up.arm) - REAL["offline"]) < 0.03


def test_the_real_cohort_is_what_the_synthetic_one_is_compared_with(real: Cohort) -> None:
    np.testing.assert_allclose(np.array(real.counts) / len(real), REAL["shares"], atol=5e-4)
    for formula in ("clinical", "pharmacogenetic"):
        assert abs(np.mean(formula_arms(real, formula=formula) != real.arm) - REAL[formula]) < 5e-4


def test_a_residual_of_another_size_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error beside the tolerance above."""
    monkeypatch.setattr("rcb_bayes.studies.warfarin.synthetic.RESIDUAL_SD", 0.6 * RESIDUAL_SD)
    found = synthetic_cohort()
    assert np.abs(np.array(found.counts) / len(found) - REAL["shares"]).max() > 0.02


def test_allele_frequencies_are_those_asked_for() -> None:
    table = synthetic_patients(20_000, seed=1)
    for race, frequency in (("White", 0.39), ("Asian", 0.88), ("Black or African American", 0.10)):
        own = table.loc[(table["race"] == race).to_numpy(), "vkorc1_-1639"].dropna()
        count = own.str.count("A").to_numpy()
        error = np.sqrt(frequency * (1 - frequency) / (2 * len(own)))
        assert abs(count.mean() / 2 - frequency) < 4 * error
        assert abs(count.mean() / 2 - 1.4 * frequency) > 4 * error


def test_both_rules_differ_as_in_the_real_file() -> None:
    low = [synthetic_cohort(rule=rule).counts[0] for rule in ("below_21", "up_to_21")]
    assert 0.03 < (low[1] - low[0]) / 5528 < 0.09  # the real file: .062
