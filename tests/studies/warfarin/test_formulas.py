"""The published formulas, by hand and on the real file."""

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.studies.warfarin.cohort import Cohort, bucket
from rcb_bayes.studies.warfarin.formulas import formula_dose, imputed_vkorc1, is_complete
from rcb_bayes.studies.warfarin.synthetic import synthetic_patients


def patient(**values: object) -> pd.DataFrame:
    table = synthetic_patients(1)
    table.loc[0] = None
    for name, value in values.items():
        table.loc[0, name] = value
    return table


def test_the_pharmacogenetic_formula_by_hand() -> None:
    table = patient(
        age="60 - 69", height=170.0, weight=80.0, race="White", **{"vkorc1_-1639": "A/G", "cyp2c9": "*1/*3"}
    )
    root = 5.6044 - 0.2614 * 6 + 0.0087 * 170 + 0.0128 * 80 - 0.8677 - 0.9357
    assert formula_dose(table)[0] == pytest.approx(root**2)


def test_the_clinical_formula_by_hand() -> None:
    table = patient(age="50 - 59", height=160.0, weight=60.0, race="Asian", amiodarone=1.0, phenytoin=1.0)
    root = 4.0376 - 0.2546 * 5 + 0.0118 * 160 + 0.0134 * 60 - 0.6752 + 1.2799 - 0.5695
    assert formula_dose(table, formula="clinical")[0] == pytest.approx(root**2)


def test_of_a_patient_nothing_is_known() -> None:
    root = 5.6044 - 0.2614 * 6 + 0.0087 * 168 + 0.0128 * 78 - 0.1032 - 0.4854 - 0.2188
    assert formula_dose(patient())[0] == pytest.approx(root**2)


@pytest.mark.parametrize(
    ("race", "place", "level", "expected"),
    [
        ("White", "2255", "T/T", "A/A"),
        ("White", "1542", "G/G", "G/G"),
        ("Black or African American", "2255", "T/T", None),
        (None, "1542", "C/C", None),
        (None, "1173", "C/T", "A/G"),
        ("Black or African American", "1173", "C/C", "G/G"),
    ],
)
def test_vkorc1_is_imputed_from_its_neighbours(race: str | None, place: str, level: str, expected: str | None) -> None:
    assert imputed_vkorc1(patient(**{"race": race, f"vkorc1_{place}": level}))[0] == expected


def test_what_was_measured_is_not_imputed() -> None:
    assert imputed_vkorc1(patient(**{"race": "White", "vkorc1_-1639": "A/A", "vkorc1_1173": "C/C"}))[0] == "A/A"


def test_accuracy_on_the_real_file_is_the_published_one(real: Cohort) -> None:
    """Complete cases, second rule: 68.3 % and 61.9 %, by a slightly other notion of complete."""
    table = real.table.loc[is_complete(real.table)]
    right = bucket(table["dose"].to_numpy(), rule="up_to_21")
    accuracy = {
        name: float(np.mean(bucket(formula_dose(table, formula=name), rule="up_to_21") == right))
        for name in ("pharmacogenetic", "clinical")
    }
    error = np.sqrt(0.68 * 0.32 / len(table))
    assert abs(accuracy["pharmacogenetic"] - 0.683) < error
    assert abs(accuracy["clinical"] - 0.619) < error
