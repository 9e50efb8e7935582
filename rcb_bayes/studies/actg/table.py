"""The ACTG 175 table, from a file or from the ``lifelines`` package, read cell by cell.

AIDS Clinical Trials Group Study 175 (Hammer et al., New England Journal of Medicine 335:1081, 1996): 2,139 patients
with HIV, randomised to four treatments. ``lifelines`` ships the rows as a CSV file, which is read as a file: the
package need not be importable, and nothing of it is run.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.files.tables import check_patient, places_of_columns, read_cells

if TYPE_CHECKING:
    import pandas as pd

BASELINE = (
    "age",
    "wtkg",
    "hemo",
    "homo",
    "drugs",
    "karnof",
    "oprior",
    "z30",
    "preanti",
    "race",
    "gender",
    "str2",
    "strat",
    "symptom",
    "cd40",
    "cd80",
)
"""What is known of a patient before treatment; zprior is 1 for everybody, and left out."""

AFTER = ("treat", "offtrt", "cd420", "cd820", "cd496", "r", "cens", "days", "arms")
"""What comes with treatment, or after it: never a feature."""

_USED_AFTER = ("cd420", "cens", "arms")
_ZERO_ONE = {"hemo", "homo", "drugs", "oprior", "z30", "race", "gender", "str2", "symptom", "cens"}
_LEVELS = {"arms": (0.0, 1.0, 2.0, 3.0), "strat": (1.0, 2.0, 3.0)} | dict.fromkeys(_ZERO_ONE, (0.0, 1.0))
_ID = "pidnum"
_PACKAGE, _INSIDE = "lifelines", ("datasets", "ACTG175.csv")


def packaged_file() -> Path | None:
    """The file that comes with ``lifelines``; None where the package is not installed."""
    found = find_spec(_PACKAGE)  # of a top-level package: looked up, not imported
    for folder in [] if found is None else found.submodule_search_locations or []:
        path = Path(folder).joinpath(*_INSIDE)
        if path.is_file():
            return path
    return None


def read_trial(path: str | Path | None = None) -> "pd.DataFrame":
    """Patients in the order of the file: ``pidnum``, what is known before treatment, ``cd420``, ``cens`` and ``arms``.

    Parameters
    ----------
    path : the file; that of ``lifelines`` unless given

    Raises
    ------
    DataError
        No file and no package; another file, one that is cut off, a value that cannot be, a patient who is there twice.
    """
    import pandas as pd

    path = packaged_file() if path is None else Path(path)
    if path is None:
        raise DataError(
            "The ACTG 175 table is not at hand: pip install --no-deps lifelines, which ships it, or give its file."
        )
    cells = read_cells(path, row="patient")
    columns = (_ID, *BASELINE, *_USED_AFTER)
    expected = "the 2,139 patients as lifelines ships them"
    places = places_of_columns(cells.header, columns, source=path.name, file="ACTG 175", expected=expected)
    values = np.empty((len(cells.records), len(columns)))
    seen: dict[str, int] = {}
    for k, (line, record) in enumerate(zip(cells.lines, cells.records, strict=True)):
        for j, name in enumerate(columns):
            values[k, j] = _number(record[places[name]], name=name, where=f"{path.name}, line {line}")
        check_patient(f"{values[k, 0]:.12g}", seen, line=line, where=f"{path.name}, line {line}, column '{_ID}'")
    return pd.DataFrame(values, columns=list(columns))


def _number(cell: str, *, name: str, where: str) -> float:
    text = cell.strip()
    try:
        value = float(text) if "_" not in text else np.nan
    except ValueError:
        value = np.nan
    levels = _LEVELS.get(name)
    if levels is not None and value not in levels:
        told = ", ".join(f"{level:.0f}" for level in levels)
        raise DataError(f"{where}, column '{name}': expected one of {told}, got '{text[:40]}'.")
    if not 0.0 <= value < np.inf:
        raise DataError(f"{where}, column '{name}': expected a number of at least 0, got '{text[:40]}'.")
    return value
