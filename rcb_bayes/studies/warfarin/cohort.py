"""A cohort: patients whose therapeutic dose is known, their features and the bucket that is right for each."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FloatArray, no_such
from rcb_bayes.studies.warfarin.features import patient_features
from rcb_bayes.studies.warfarin.formulas import decades
from rcb_bayes.studies.warfarin.table import read_patients

if TYPE_CHECKING:
    import pandas as pd

ARMS = ("low", "medium", "high")
LOW, MEDIUM, HIGH = range(3)
Rule = Literal["below_21", "up_to_21"]
RULES: tuple[Rule, ...] = get_args(Rule)
_HIGH_FROM, _LOW_TO = 49.0, 21.0
_BANDS = ("under 50", "50 to 69", "70 and over")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cohort:
    """Patients with a known dose.

    Attributes
    ----------
    table : one row per patient, as ``read_patients`` gives them
    features, names : (n, d) with ``|x| <= 1``, and the features' labels
    arm : the position of the right bucket in low, medium, high, (n,)
    rule : "below_21": low is below 21 mg a week (the paper's Table 2); "up_to_21": 21 is low (its section 5.1); from 49
        on it is high
    n_read : patients read, those without a dose included
    source : the file's name, or "synthetic"
    """

    table: "pd.DataFrame"
    features: FloatArray
    names: tuple[str, ...]
    arm: np.ndarray
    rule: Rule
    n_read: int
    source: str

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def is_synthetic(self) -> bool:
        """Whether these patients are made up."""
        return self.source == "synthetic"

    @property
    def counts(self) -> tuple[int, int, int]:
        """Patients for whom low, medium and high is right."""
        low, medium, high = (int(n) for n in np.bincount(self.arm, minlength=3))
        return low, medium, high

    def part(self, index: np.ndarray) -> "Cohort":
        """Some of the patients, by their positions."""
        return replace(
            self,
            table=self.table.iloc[index].reset_index(drop=True),
            features=self.features[index],
            arm=self.arm[index],
        )

    def groups(self) -> dict[str, np.ndarray]:
        """Subgroups by race, sex and age band: label -> which patients belong, (n,)."""
        table = self.table
        found: dict[str, np.ndarray] = {}
        for name in ("race", "sex"):
            for level in sorted(set(table[name].dropna())):
                found[f"{name}: {level}"] = (table[name] == level).to_numpy()
            found[f"{name}: not known"] = table[name].isna().to_numpy()
        decade, known = decades(table), table["age"].notna().to_numpy()
        for label, first, last in zip(_BANDS, (0, 5, 7), (4, 6, 9), strict=True):
            found[f"age: {label}"] = known & (decade >= first) & (decade <= last)
        found["age: not known"] = ~known
        return {label: members for label, members in found.items() if members.any()}

    def describe(self) -> str:
        """The cohort in a line or two."""
        what = "SYNTHETIC patients" if self.is_synthetic else f"patients of {self.source}"
        shares = ", ".join(f"{arm} {100 * n / len(self):.1f} %" for arm, n in zip(ARMS, self.counts, strict=True))
        return (
            f"{self.n_read:,} {what}, {len(self):,} with a dose, {self.features.shape[1]} features; {shares}; "
            f"always medium errs in {100 * (1 - self.counts[MEDIUM] / len(self)):.1f} %"
        )


def bucket(dose: FloatArray, *, rule: Rule = "below_21") -> np.ndarray:
    """Positions in low, medium, high of weekly doses in mg, (n,) -> (n,)."""
    if rule not in RULES:
        raise no_such("rule", rule, RULES)
    low = dose < _LOW_TO if rule == "below_21" else dose <= _LOW_TO
    return np.where(low, LOW, np.where(dose >= _HIGH_FROM, HIGH, MEDIUM))


def as_cohort(
    table: "pd.DataFrame", *, source: str, rule: Rule = "below_21", missing_indicators: bool = False
) -> Cohort:
    """A table of patients as a cohort: those without a dose are left out."""
    dosed = table.loc[table["dose"].notna().to_numpy()].reset_index(drop=True)
    if dosed.empty:
        raise DataError(f"{source} has no patient with a therapeutic dose.")
    arm = bucket(dosed["dose"].to_numpy(dtype=float), rule=rule)
    features, names = patient_features(dosed, missing_indicators=missing_indicators)
    return Cohort(table=dosed, features=features, names=names, arm=arm, rule=rule, n_read=len(table), source=source)


def load_warfarin(path: str | Path, *, rule: Rule = "below_21", missing_indicators: bool = False) -> Cohort:
    """The cohort of an IWPC file, CSV as it circulates or the original Excel.

    Parameters
    ----------
    path : str or path-like
        The file.
    rule : {"below_21", "up_to_21"}
        Of the buckets: whether 21 mg a week is a medium dose or a low one.
    missing_indicators : bool
        See ``patient_features``.

    Returns
    -------
    Cohort
        The patients.

    Raises
    ------
    DataError
        Another file, one that is cut off, a value that cannot be, a patient who is there twice: the line and the column
        are named.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> cohort = rcb.studies.load_warfarin("warfarin.csv")
    >>> cohort.features.shape[1], cohort.names[:3]
    (70, ('intercept', 'sex=male', 'sex=female'))
    """
    return as_cohort(read_patients(path), source=Path(path).name, rule=rule, missing_indicators=missing_indicators)
