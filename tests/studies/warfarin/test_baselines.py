"""What RCB is compared with."""

import numpy as np

from rcb_bayes.studies.warfarin.baselines import formula_arms, offline_arms
from rcb_bayes.studies.warfarin.cohort import Cohort


def test_offline_doses_never_use_the_patients_own(few: Cohort) -> None:
    """Labels without meaning cannot be told out of fold; in sample they could."""
    shuffled = few.part(np.arange(len(few)))
    labels = np.random.default_rng(0).permutation(few.arm)
    object.__setattr__(shuffled, "arm", labels)
    error = np.mean(offline_arms(shuffled, n_folds=5) != labels)
    chance = 1 - np.max(np.bincount(labels)) / len(labels)
    assert error > chance - 4 * np.sqrt(0.25 / len(few))


def test_formulas_give_buckets(few: Cohort) -> None:
    assert set(formula_arms(few)) <= {0, 1, 2}
