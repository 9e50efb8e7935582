"""Features of a patient, as in the paper's appendix: dummies, and 0 for what is not known.

Demographics, reasons for treatment, pre-existing diagnoses, three medications, genotypes of CYP2C9 and VKORC1; with the
intercept these are 70. Every feature of a patient depends on this patient alone.
"""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.warfarin.table import AGES, CYP2C9, ETHNICITIES, RACES, SEXES, VKORC1

if TYPE_CHECKING:
    import pandas as pd

HEIGHT = (168.0, 20.0)
WEIGHT = (78.0, 44.0)
"""What a height or weight is compared with, and the unit of the difference: about the mean, and two deviations."""

LARGEST = 2.0
"""Heights and weights count as no more than so many units from the usual one."""

NORM = 6.0
"""Features are divided by this.

At most 28 dummies are one (intercept, sex, race, ethnicity, age, eight reasons, four diagnoses, three medications,
eight genotypes) and height and weight give 4 each: |x|^2 <= 36.
"""

_DIAGNOSES = ("diabetes", "heart_failure", "valve_replacement", "smoker")
_MEDICATIONS = ("aspirin", "acetaminophen", "simvastatin")


def patient_features(table: "pd.DataFrame", *, missing_indicators: bool = False) -> tuple[FloatArray, tuple[str, ...]]:
    """Features (n, d) of patients, with ``|x| <= 1``, and their names.

    Parameters
    ----------
    table : patients, as ``read_patients`` gives them
    missing_indicators : a further dummy for each of 22 columns, one where its value is not known

    Returns
    -------
    70 features, or 92 with the indicators: intercept first; the published paper has 70 and the Lasso bandit's 93.

    Applicability
    -------------
    0 for an unknown height or weight is the usual one; for a category it is none of its dummies. Without indicators a
    column that was not asked at some site looks like a patient of no category, which tells sites apart.
    """
    columns: dict[str, np.ndarray] = {"intercept": np.ones(len(table))}
    for name, levels in (("sex", SEXES), ("race", RACES), ("ethnicity", ETHNICITIES), ("age", AGES)):
        columns |= _dummies(table, name, levels)
    for name, (usual, unit) in (("height", HEIGHT), ("weight", WEIGHT)):
        value = np.clip((table[name].to_numpy(dtype=float) - usual) / unit, -LARGEST, LARGEST)
        columns[name] = np.nan_to_num(value, nan=0.0)
    reasons = table["indications"].fillna("").astype(str)
    columns |= {f"indication={k}": reasons.str.contains(str(k), regex=False).to_numpy() for k in range(1, 9)}
    for name in _DIAGNOSES:
        columns |= {f"{name}={k}": (table[name] == k).to_numpy() for k in (1, 0)}
    columns |= {name: (table[name] == 1).to_numpy() for name in _MEDICATIONS}
    columns |= _dummies(table, "cyp2c9", CYP2C9)
    for place, levels in VKORC1.items():
        columns |= _dummies(table, f"vkorc1_{place}", levels)
    if missing_indicators:
        columns |= {f"{name}=?": table[name].isna().to_numpy() for name in _asked()}
    rows = np.stack([np.asarray(column, dtype=float) for column in columns.values()], axis=1)
    return rows / NORM, tuple(columns)


def _dummies(table: "pd.DataFrame", name: str, levels: tuple[str, ...]) -> dict[str, np.ndarray]:
    return {f"{name}={level}": (table[name] == level).to_numpy() for level in levels}


def _asked() -> list[str]:
    """Columns that may be unknown."""
    plain = ["sex", "race", "ethnicity", "age", "height", "weight", "indications"]
    return [*plain, *_DIAGNOSES, *_MEDICATIONS, "cyp2c9", *(f"vkorc1_{place}" for place in VKORC1)]
