r"""Published dosing formulas: the square root of the weekly dose in mg, linear in what is known of a patient.

Both are the consortium's (New England Journal of Medicine 360, 2009, appendix 1). The clinical one does without
genotypes; the pharmacogenetic one adds VKORC1 -1639, imputed from its neighbours where it was not measured, and CYP2C9.

Applicability
-------------
They were fitted to four fifths of these very patients: on the real file their accuracy is partly in sample.
"""

from typing import TYPE_CHECKING, Literal

import numpy as np

from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.warfarin.features import HEIGHT, WEIGHT
from rcb_bayes.studies.warfarin.table import AGES

if TYPE_CHECKING:
    import pandas as pd

FormulaName = Literal["clinical", "pharmacogenetic"]

_COMMON = {
    "clinical": {
        "constant": 4.0376,
        "decade": -0.2546,
        "height": 0.0118,
        "weight": 0.0134,
        "Asian": -0.6752,
        "Black or African American": 0.4060,
        "no race": 0.0443,
        "inducer": 1.2799,
        "amiodarone": -0.5695,
    },
    "pharmacogenetic": {
        "constant": 5.6044,
        "decade": -0.2614,
        "height": 0.0087,
        "weight": 0.0128,
        "Asian": -0.1092,
        "Black or African American": -0.2760,
        "no race": -0.1032,
        "inducer": 1.1816,
        "amiodarone": -0.5503,
    },
}
_VKORC1 = {"G/G": 0.0, "A/G": -0.8677, "A/A": -1.6974, None: -0.4854}
_CYP2C9 = {
    "*1/*1": 0.0,
    "*1/*2": -0.5211,
    "*1/*3": -0.9357,
    "*2/*2": -1.0616,
    "*2/*3": -1.9206,
    "*3/*3": -2.3312,
    None: -0.2188,
}
_NEIGHBOURS = (
    ("2255", {"C/C": "G/G", "C/T": "A/G", "T/T": "A/A"}, False),
    ("1173", {"C/C": "G/G", "C/T": "A/G", "T/T": "A/A"}, True),
    ("1542", {"G/G": "G/G", "C/G": "A/G", "C/C": "A/A"}, False),
)
_INDUCERS = ("carbamazepine", "phenytoin", "rifampin")
_TYPICAL_DECADE = 6.0


def formula_dose(table: "pd.DataFrame", *, formula: FormulaName = "pharmacogenetic") -> FloatArray:
    """Weekly dose in mg that a formula predicts for each patient, (n,).

    An age, height or weight that is not known is taken as the usual one; a CYP2C9 genotype without a coefficient counts
    as unknown.
    """
    c = _COMMON[formula]
    root = np.full(len(table), c["constant"])
    root += c["decade"] * decades(table)
    root += c["height"] * table["height"].fillna(HEIGHT[0]).to_numpy(dtype=float)
    root += c["weight"] * table["weight"].fillna(WEIGHT[0]).to_numpy(dtype=float)
    for race in ("Asian", "Black or African American"):
        root += c[race] * (table["race"] == race).to_numpy()
    root += c["no race"] * table["race"].isna().to_numpy()
    taken = {name: (table[name] == 1).to_numpy() for name in (*_INDUCERS, "amiodarone")}
    root += c["inducer"] * np.any([taken[name] for name in _INDUCERS], axis=0) + c["amiodarone"] * taken["amiodarone"]
    if formula == "pharmacogenetic":
        root += _looked_up(imputed_vkorc1(table), _VKORC1)
        root += _looked_up(table["cyp2c9"].to_numpy(), _CYP2C9)
    return np.maximum(root, 0.0) ** 2


def imputed_vkorc1(table: "pd.DataFrame") -> np.ndarray:
    """VKORC1 -1639, from 2255, 1173 or 1542 where it was not measured.

    1173 is as good as the same place in everybody; the other two are used unless the patient is Black or of unknown
    race, as the consortium did.
    """
    found = [level if isinstance(level, str) else None for level in table["vkorc1_-1639"]]
    known_race = [isinstance(race, str) and race != "Black or African American" for race in table["race"]]
    for place, meaning, for_all in _NEIGHBOURS:
        others = table[f"vkorc1_{place}"]
        found = [
            meaning.get(other) if own is None and (known or for_all) else own
            for own, other, known in zip(found, others, known_race, strict=True)
        ]
    return np.array(found, dtype=object)


def decades(table: "pd.DataFrame") -> FloatArray:
    """Age in decades, 1 for 10 to 19; 6 where it is not known."""
    numbers: dict[str | None, float] = {age: k + 1.0 for k, age in enumerate(AGES)}
    return _looked_up(table["age"].to_numpy(), numbers | {None: _TYPICAL_DECADE})


def is_complete(table: "pd.DataFrame") -> np.ndarray:
    """Patients of whom nothing is missing that the pharmacogenetic formula asks for, (n,)."""
    plain = [table[name].notna().to_numpy() for name in ("age", "height", "weight", "cyp2c9")]
    typed = np.array([level is not None for level in imputed_vkorc1(table)])
    return np.all(np.stack([*plain, typed]), axis=0)


def _looked_up(levels: np.ndarray, values: dict[str | None, float]) -> FloatArray:
    """The value of each level; that of None where it has none."""
    return np.array([values.get(level, values[None]) for level in levels], dtype=float)
