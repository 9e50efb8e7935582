"""The study to the letter: the paper's ground truth, its choices row by row, and choices made on one half."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.studies.warfarin import replay
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.letter import dose_rewards, scaled_dose
from rcb_bayes.studies.warfarin.splits import LETTER, TRIED, Split, choose, halves, run_split
from rcb_bayes.studies.warfarin.to_the_letter import GRID, ROWS, Choices, Sizes, run_rows

SMALL = Sizes(n_plans=2, n_orders=2, orders_each=2, n_worlds=50, audit_worlds=50, n_users=5)


def test_doses_are_scaled_and_regressed_in_each_group(few: Cohort):
    scaled = scaled_dose(few)
    assert (scaled.min(), scaled.max()) == (0.0, 1.0)
    told = dose_rewards(few)
    for arm in range(3):
        own = few.arm == arm
        x, left = few.features[own], scaled[own] - told.mean[own]
        np.testing.assert_allclose(x.T @ left, 0.0, atol=1e-8)  # least squares
    swapped = dose_rewards(replace(few, arm=few.arm[::-1].copy()))
    assert np.abs(swapped.mean - told.mean).max() > 0.01  # groups matter


def test_one_dose_cannot_be_scaled(few: Cohort):
    table = few.table.assign(dose=30.0)
    with pytest.raises(DataError, match="two different ones"):
        scaled_dose(replace(few, table=table))


def test_rewards_change_what_is_learnt_and_not_what_regret_is(few: Cohort):
    row = Choices(plan="fixed", n_per_arm=5)
    market = row.market(few)
    plan = row.make_plan(market, horizon=len(few), n_worlds=50, seed=1)
    told = dose_rewards(few)
    runs = replay(few, row.policy(market, plan), market=market, rewards=told, n_permutations=1, seed=1)
    np.testing.assert_array_equal(runs["regret"], runs["right"] != runs["recommended"])
    plain = replay(few, row.policy(market, plan), market=market, n_permutations=1, seed=1)
    np.testing.assert_array_equal(runs["patient"], plain["patient"])
    assert (runs["recommended"].values != plain["recommended"].values).any()


def test_rows_and_their_audits_are_kept(few: Cohort, tmp_path: Path):
    row = Choices(plan="fixed", n_per_arm=5)
    (found,) = run_rows(few, [row], sizes=SMALL, folder=tmp_path / "rows")
    (again,) = run_rows(few, [row], sizes=SMALL, folder=tmp_path / "rows")
    assert again.equals(found)
    (audits,) = run_rows(few, [row], sizes=SMALL, audited=True, folder=tmp_path / "audits")
    for part in ("cold", "exploitation"):
        assert sum(audits[f"{part}_user_{word}"].item() for word in ("pass", "inconclusive", "fail")) == 1
    assert audits["cold_user_margin"].item() <= audits["cold_proof_margin"].item()


def test_rows_and_grid_are_apart():
    keys = [row.key for row in (*ROWS, *GRID)]
    assert len(set(keys)) == len(keys)
    assert {(row.epsilon, row.variance) for row in GRID} | {(0.025, 0.8)} == {
        (epsilon, variance) for epsilon in (0.025, 0.035, 0.045) for variance in (0.4, 0.6, 0.8)
    }


def test_choices_are_made_on_the_first_half_alone(few: Cohort, monkeypatch: pytest.MonkeyPatch):
    first, second = halves(few, number=3, seed=1)
    assert len(first) + len(second) == len(few)
    both = np.concatenate([first.table.index, second.table.index])
    assert len(both) == len(few)
    monkeypatch.setitem(TRIED, "spread", (1.0, 30.0))
    for name in ("inflation", "sigma", "n_per_arm"):
        monkeypatch.delitem(TRIED, name)
    upset = replace(few, arm=few.arm.copy())
    found = run_split(few, number=3, sizes=Split(), seed=1)
    order = np.random.default_rng([1, 3]).permutation(len(few))
    upset.arm[order[len(order) // 2 :]] = 1  # of the second half
    assert run_split(upset, number=3, sizes=Split(), seed=1).attrs["spread"] == found.attrs["spread"]
    chosen, error = choose(first, n_orders=1, seed=4)
    assert (chosen.spread, chosen.sigma) == (found.attrs["spread"], LETTER.sigma)
    assert error == found.attrs["error_first"]
