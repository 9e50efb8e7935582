"""Features: 70 of them, 0 for what is not known, never longer than 1, each patient's own."""

import numpy as np
import pandas as pd
import pytest

from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.features import NORM, patient_features
from rcb_bayes.studies.warfarin.synthetic import synthetic_patients


@pytest.mark.parametrize(("indicators", "n"), [(False, 70), (True, 92)])
def test_numbers_of_features(indicators: bool, n: int) -> None:
    rows, names = patient_features(synthetic_patients(50), missing_indicators=indicators)
    assert rows.shape == (50, n)
    assert len(set(names)) == n
    assert names[0] == "intercept"


def test_a_patient_by_hand() -> None:
    table = synthetic_patients(1)
    table.loc[0] = None
    table.loc[0, ["sex", "age", "height", "indications", "aspirin", "smoker", "cyp2c9", "vkorc1_-1639"]] = [
        *("female", "70 - 79", 178.0, "38", 1.0, 0.0, "*1/*2", "A/G")
    ]
    rows, names = patient_features(table)
    found = {name: NORM * value for name, value in zip(names, rows[0], strict=True) if value}
    ones = ["intercept", "sex=female", "age=70 - 79", "indication=3", "indication=8", "smoker=0", "aspirin"]
    assert found == pytest.approx({name: 1.0 for name in [*ones, "cyp2c9=*1/*2", "vkorc1_-1639=A/G"]} | {"height": 0.5})


def test_the_worst_patient_has_norm_one_at_most() -> None:
    table = synthetic_patients(1)
    table["indications"] = "12345678"
    table["height"], table["weight"] = 400.0, 900.0
    for name in ("diabetes", "heart_failure", "valve_replacement", "smoker", "aspirin", "acetaminophen", "simvastatin"):
        table[name] = 1.0
    table[["sex", "race", "ethnicity", "age"]] = "male", "White", "Hispanic or Latino", "90+"
    for place, level in {
        "-1639": "A/A",
        "497": "G/G",
        "1173": "C/C",
        "1542": "C/C",
        "3730": "A/A",
        "2255": "C/C",
    }.items():
        table[f"vkorc1_{place}"] = level
    table["vkorc1_-4451"], table["cyp2c9"] = "A/A", "*1/*1"
    assert np.linalg.norm(patient_features(table)[0]) == pytest.approx(1.0)
    assert np.linalg.norm(patient_features(table, missing_indicators=True)[0]) == pytest.approx(1.0)


def test_a_patients_features_do_not_depend_on_others(made_up: Cohort) -> None:
    table = made_up.table
    some = table.iloc[[7, 3]].reset_index(drop=True)
    np.testing.assert_array_equal(patient_features(some)[0], made_up.features[[7, 3]])


def test_indicators_are_one_where_nothing_is_known() -> None:
    table = pd.concat([synthetic_patients(40)], ignore_index=True)
    rows, names = patient_features(table, missing_indicators=True)
    np.testing.assert_array_equal(rows[:, names.index("height=?")] > 0, table["height"].isna())
    np.testing.assert_array_equal(rows[:, names.index("race=?")] > 0, table["race"].isna())


def test_real_features_span_the_space(real: Cohort) -> None:
    assert real.features.shape == (5528, 70)
    assert np.linalg.norm(real.features, axis=1).max() <= 1.0
    assert np.linalg.eigvalsh(real.features.T @ real.features / len(real))[0] > 1e-7
