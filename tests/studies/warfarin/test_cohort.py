"""Cohorts: buckets by both rules, groups, parts."""

import numpy as np
import pytest

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.studies.warfarin.cohort import Cohort, as_cohort, bucket, load_warfarin
from rcb_bayes.studies.warfarin.synthetic import synthetic_patients


def test_the_two_rules_differ_at_21_alone() -> None:
    dose = np.array([20.9, 21.0, 21.1, 48.9, 49.0])
    np.testing.assert_array_equal(bucket(dose), [0, 1, 1, 1, 2])
    np.testing.assert_array_equal(bucket(dose, rule="up_to_21"), [0, 0, 1, 1, 2])


def test_another_rule_is_refused() -> None:
    with pytest.raises(RcbError, match=r"There is no rule 'below21'\. Did you mean 'below_21'"):
        bucket(np.array([1.0]), rule="below21")  # pyright: ignore[reportArgumentType]


def test_real_counts(real: Cohort, real_file: object) -> None:
    assert (real.n_read, len(real), real.counts) == (5700, 5528, (1495, 3332, 701))
    assert load_warfarin(str(real_file), rule="up_to_21").counts == (1835, 2992, 701)
    assert not real.is_synthetic


def test_patients_without_a_dose_are_left_out() -> None:
    table = synthetic_patients(100)
    found = as_cohort(table, source="synthetic")
    assert len(found) == table["dose"].notna().sum() < found.n_read == 100
    with pytest.raises(DataError, match="no patient with a therapeutic dose"):
        as_cohort(table.assign(dose=np.nan), source="x")


def test_a_part_keeps_rows_together(few: Cohort) -> None:
    part = few.part(np.array([5, 2]))
    assert list(part.table["id"]) == [few.table["id"][5], few.table["id"][2]]
    np.testing.assert_array_equal(part.arm, few.arm[[5, 2]])
    np.testing.assert_array_equal(part.features, few.features[[5, 2]])


@pytest.mark.parametrize("kind", ["race", "sex", "age"])
def test_groups_of_a_kind_split_the_patients(made_up: Cohort, kind: str) -> None:
    members = [own for label, own in made_up.groups().items() if label.startswith(f"{kind}: ")]
    np.testing.assert_array_equal(np.sum(members, axis=0), 1)


def test_it_says_what_is_synthetic(few: Cohort) -> None:
    assert "SYNTHETIC" in few.describe()
