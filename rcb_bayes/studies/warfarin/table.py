"""The IWPC table as it circulates, read cell by cell: what is wrong is named by line and column.

The International Warfarin Pharmacogenetics Consortium's file (PharmGKB, PMID 19228618) comes as Excel or as CSV with a
byte-order mark, CRLF line ends, nameless columns at the right and a last row of commas only. Values that are not known
are empty, ``NA`` or ``Unknown``.
"""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.files.tables import check_patient, places_of_columns, read_cells
from rcb_bayes.schema import suggestion

if TYPE_CHECKING:
    import pandas as pd

AGES = ("10 - 19", "20 - 29", "30 - 39", "40 - 49", "50 - 59", "60 - 69", "70 - 79", "80 - 89", "90+")
SEXES = ("male", "female")
RACES = ("White", "Asian", "Black or African American")
ETHNICITIES = ("Hispanic or Latino", "not Hispanic or Latino")
CYP2C9 = ("*1/*1", "*1/*2", "*1/*3", "*2/*2", "*2/*3", "*3/*3", "*1/*5", "*1/*6", "*1/*11", "*1/*13", "*1/*14")
VKORC1 = {
    "-1639": ("A/A", "A/G", "G/G"),
    "497": ("G/G", "G/T", "T/T"),
    "1173": ("C/C", "C/T", "T/T"),
    "1542": ("C/C", "C/G", "G/G"),
    "3730": ("A/A", "A/G", "G/G"),
    "2255": ("C/C", "C/T", "T/T"),
    "-4451": ("A/A", "A/C", "C/C"),
}
YES_NO = {
    "diabetes": "Diabetes",
    "heart_failure": "Congestive Heart Failure and/or Cardiomyopathy",
    "valve_replacement": "Valve Replacement",
    "smoker": "Current Smoker",
    "aspirin": "Aspirin",
    "acetaminophen": "Acetaminophen or Paracetamol (Tylenol)",
    "simvastatin": "Simvastatin (Zocor)",
    "amiodarone": "Amiodarone (Cordarone)",
    "carbamazepine": "Carbamazepine (Tegretol)",
    "phenytoin": "Phenytoin (Dilantin)",
    "rifampin": "Rifampin or Rifampicin",
    "stable": "Subject Reached Stable Dose of Warfarin",
}
"""Columns of 0 and 1: our name, and the file's."""

_MISSING = {"", "na", "n/a", "nan", "none", "unknown"}
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DATE = re.compile(rf"(\d{{1,4}}-({_MONTHS}))|(({_MONTHS})-\d{{1,4}})|(\d{{4}}-\d\d-\d\d.*)", re.IGNORECASE)
_INDICATIONS = re.compile(r"[1-8](\s*(;|,|or)\s*[1-8])*")
_ID = "PharmGKB Subject ID"

Parser = Callable[[str], Any]


def column_parsers() -> dict[str, tuple[str, Parser]]:
    """Our columns: the file's column of each, and how its cells are read."""
    found: dict[str, tuple[str, Parser]] = {
        "id": (_ID, str),
        "sex": ("Gender", _one_of(SEXES)),
        "race": ("Race", _one_of(RACES)),
        "ethnicity": ("Ethnicity", _one_of(ETHNICITIES)),
        "age": ("Age", _age),
        "height": ("Height (cm)", _positive("a height in cm")),
        "weight": ("Weight (kg)", _positive("a weight in kg")),
        "indications": ("Indication for Warfarin Treatment", _indications),
    }
    found |= {name: (column, _yes_no) for name, column in YES_NO.items()}
    found["cyp2c9"] = ("CYP2C9 consensus", _one_of(CYP2C9))
    for place, levels in VKORC1.items():
        found[f"vkorc1_{place}"] = (f"VKORC1 {place} consensus", _one_of(levels))
    found["dose"] = ("Therapeutic Dose of Warfarin", _positive("a weekly dose in mg"))
    return found


def read_patients(path: str | Path) -> "pd.DataFrame":
    """Patients of the file in its order, with our column names and None or NaN for what is not known.

    Raises
    ------
    DataError
        Another file, one that is cut off, a value that cannot be, a patient who is there twice; an Excel file where the
        package that reads it is not installed.
    """
    path = Path(path)
    if path.suffix.lower() in (".xls", ".xlsx", ".xlsm"):
        return parse_cells(*_excel_cells(path), source=path.name)
    table = read_cells(path, row="patient", least=0)
    return parse_cells(table.header, list(zip(table.lines, table.records, strict=True)), source=path.name)


def parse_cells(header: Sequence[str], numbered: Sequence[tuple[int, Sequence[str]]], *, source: str) -> "pd.DataFrame":
    """Cells of lines, numbered as in the file, as a table of patients."""
    import pandas as pd

    parsers = column_parsers()
    places = places_of_columns(
        [" ".join(name.split()) for name in header],
        [column for column, _ in parsers.values()],
        source=source,
        file="IWPC",
        expected="PharmGKB's table of 5,700 patients as published",
    )
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for line, cells in numbered:
        if not any(cell.strip() for cell in cells):
            continue  # the row of commas at the end
        row: dict[str, Any] = {}
        for name, (column, parse) in parsers.items():
            text = cells[places[column]].strip()
            try:
                row[name] = None if text.lower() in _MISSING else parse(text)
            except ValueError as error:
                raise DataError(f"{source}, line {line}, column '{column}': {error}") from None
        where = f"{source}, line {line}, column '{_ID}'"
        if row["id"] is None:
            raise DataError(f"{where}: a patient needs an identifier, got none.")
        check_patient(row["id"], seen, line=line, where=where)
        rows.append(row)
    if not rows:
        raise DataError(f"{source} has column names but no patients.")
    return as_patients(pd.DataFrame(rows))


def as_patients(table: "pd.DataFrame") -> "pd.DataFrame":
    """Our columns in our order: numbers as floats with NaN, texts as objects with None for what is not known."""
    import pandas as pd

    numbers = {"height", "weight", "dose", *YES_NO}
    columns: dict[str, np.ndarray] = {}
    for name in column_parsers():
        column = table[name].to_numpy(dtype=object).copy()
        column[table[name].isna().to_numpy()] = np.nan if name in numbers else None
        columns[name] = column.astype(float) if name in numbers else column
    return pd.DataFrame(columns).astype({name: object for name in columns if name not in numbers})


def _excel_cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Cells of the sheet that has the patients; the published workbook has others beside it."""
    import pandas as pd

    try:
        sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=object)
    except ImportError as error:
        package = "xlrd" if path.suffix.lower() == ".xls" else "openpyxl"
        raise DataError(
            f"Reading {path.name} needs the package {package}: pip install {package}, or save it as CSV UTF-8."
        ) from error
    except FileNotFoundError:
        raise DataError(f"No such file: {path}. Check the path.") from None
    except Exception as error:  # whatever a reader of foreign files comes across
        raise DataError(f"{path.name} cannot be read as an Excel file: {error}.") from None
    for sheet in sheets.values():
        cells = [[_as_text(value) for value in row] for row in sheet.to_numpy()]
        for k, row in enumerate(cells):
            if _ID in row:
                return row, [(number + 1, cells[number]) for number in range(k + 1, len(cells))]
    raise DataError(f"{path.name} is not the IWPC file: no sheet has a column '{_ID}'.")


def _as_text(value: object) -> str:
    """A cell as the CSV has it: whole numbers without a point."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _one_of(levels: Sequence[str]) -> Parser:
    def parse(text: str) -> str:
        if text not in levels:
            raise ValueError(f"expected one of {', '.join(levels)}, got '{text[:40]}'.{suggestion(text, levels)}")
        return text

    return parse


def _age(text: str) -> str:
    if _DATE.fullmatch(text):
        raise ValueError(
            f"expected an age band, got '{text}'. Excel makes a date of '10 - 19': import the column as text, or take "
            "the file as published."
        )
    return _one_of(AGES)(text)


def _positive(what: str) -> Parser:
    def parse(text: str) -> float:
        try:
            value = float(text) if "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not 0.0 < value < math.inf:
            raise ValueError(f"expected {what}, a number above 0, or NA, got '{text[:40]}'.")
        return value

    return parse


def _yes_no(text: str) -> float:
    if text not in ("0", "1", "0.0", "1.0"):
        raise ValueError(f"expected 0, 1 or NA, got '{text[:40]}'.")
    return float(text)


def _indications(text: str) -> str:
    """Reasons for treatment, as their numbers in a row: ``38`` for 3; 8."""
    if not _INDICATIONS.fullmatch(text):
        raise ValueError(f"expected numbers from 1 to 8 such as '3; 8', got '{text[:40]}'.")
    return "".join(sorted(set(re.findall(r"[1-8]", text))))
