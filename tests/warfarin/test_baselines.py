"""What RCB is compared with."""

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.warfarin.baselines import LassoBandit, formula_arms, offline_arms
from rcb_bayes.warfarin.cohort import Cohort
from rcb_bayes.warfarin.replay import replay


def forced_rounds(bandit: LassoBandit, horizon: int) -> list[int | None]:
    found = []
    for t in range(horizon):
        bandit.rounds = t
        found.append(bandit._forced_arm())
    return found


@pytest.mark.parametrize("q", [1, 2])
def test_forced_rounds_are_those_of_the_definition(few_market: Market, q: int) -> None:
    k, horizon = 3, 200
    expected: list[int | None] = [None] * horizon
    for n in range(8):
        for arm in range(k):
            for j in range(q * arm + 1, q * (arm + 1) + 1):
                t = (2**n - 1) * k * q + j
                if t <= horizon:
                    expected[t - 1] = arm
    assert forced_rounds(LassoBandit(few_market, forced=q), horizon) == expected


@pytest.mark.slow
def test_the_lasso_bandit_learns(made_up: Cohort, few_market: Market) -> None:
    cohort = made_up.part(np.arange(1500))
    runs = replay(cohort, lambda m, s: LassoBandit(m), market=few_market, n_permutations=2)
    wrong = runs["regret"].values
    late, early = wrong[:, 750:].mean(), wrong[:, :150].mean()
    error = np.sqrt(0.25 / (2 * 150) + 0.25 / (2 * 750))
    assert early - late > 2 * error


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


@pytest.mark.parametrize("values", [{"width": 0.0}, {"penalty": -1.0}, {"forced": 0}, {"unit": 0.0}])
def test_bad_settings(few_market: Market, values: dict) -> None:
    with pytest.raises(RcbError, match=next(iter(values))):
        LassoBandit(few_market, **values)
