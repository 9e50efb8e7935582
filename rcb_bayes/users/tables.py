"""Tables of users, checked: a value that is no finite number is named by its column and place."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FEATURE, FloatArray, Labels, as_labels, suggestion

if TYPE_CHECKING:
    import pandas as pd


MOST_BYTES = 2**28
"""Of a comma-separated file: as cells of text it takes some twenty times as much memory."""
_MOST_COLUMNS = 10_000


def as_table(rows: "ArrayLike | pd.DataFrame", features: Labels) -> tuple[FloatArray, tuple[str, ...]]:
    """A DataFrame or an (n, d) array as floats, shape (n, d), and its labels."""
    try:
        grid = np.asarray(rows)
        if grid.dtype.kind in "USc":  # one text among numbers has made text of them all: back to the objects
            grid = np.asarray(rows, dtype=object)
    except ValueError:
        raise DataError("rows must form an (n, d) table, got rows of different lengths.") from None
    if grid.ndim != 2:
        hint = " For one user give [[...]], for one feature rows.reshape(-1, 1)." if grid.ndim == 1 else ""
        raise DataError(f"rows must be an (n, d) table, got {type(rows).__name__} of shape {grid.shape}.{hint}")
    columns, index = getattr(rows, "columns", None), getattr(rows, "index", None)  # of a DataFrame
    labels = as_labels(columns if features is None else features, dim=FEATURE, size=grid.shape[1])
    place = "row {}".format if columns is None or index is None else lambda row: f"row {row} (index {index[row]!r})"
    return _as_floats(grid, labels, place=place), labels


def read_csv(path: Path, *, columns: Iterable[str] | None) -> tuple[FloatArray, list[str]]:
    """The chosen columns of a comma-separated file, shape (n, d), and their names."""
    header, lines, records = _read_records(path)
    names = _choose_columns(header, columns, path=path)
    cells = [[_parse_cell(record[header.index(name)]) for name in names] for record in records]
    return _as_floats(np.array(cells, dtype=object), names, place=lambda row: f"line {lines[row]} of {path}"), names


def read_log(path: Path, *, words: Iterable[str] = ()) -> "pd.DataFrame":
    """A comma-separated file as a DataFrame whose index has the lines' numbers.

    Cells are numbers, truth values, None where empty, or text; in the columns ``words`` they are text in any case.

    Raises
    ------
    DataError
        A file that cannot be read, or is no table; names that come twice. The line is named.
    """
    import pandas as pd

    header, lines, records = _read_records(path)
    twice = [name for name in header if name and header.count(name) > 1]
    if twice:
        raise DataError(f"{path}, line 1: column '{_shown(twice[0])}' occurs more than once. Rename or drop one.")
    kept = set(words)
    columns = {
        name: pd.Series(
            [record[k].strip() if name in kept else _parse_cell(record[k]) for record in records], dtype=object
        )
        for k, name in enumerate(header)
    }
    return pd.DataFrame(columns).set_index(pd.Index(lines, name="line"))


def _as_floats(grid: np.ndarray, labels: Sequence[str], *, place: Callable[[int], str]) -> FloatArray:
    """Floats from an (n, d) array of any kind; ``place`` says where a row is."""
    if 0 in grid.shape:
        raise DataError(f"rows must have at least one row and one column, got shape {grid.shape}.")
    if grid.dtype.kind not in "biuf" or not np.isfinite(grid).all():
        for k, label in enumerate(labels):
            for row, value in enumerate(grid[:, k]):
                fault = _fault(value)
                if fault is not None:
                    raise DataError(f"Column '{_shown(label)}', {place(row)}: expected a number, got {fault}")
    return grid.astype(np.float64)


def _fault(value: object) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return "a missing value. Fill it in or drop the row."
    if not isinstance(value, (Real, np.bool_)) or isinstance(value, np.timedelta64):
        return f"{str(value)[:40]!r}. Encode categories as 0/1 columns (pandas.get_dummies) or drop the column."
    if math.isnan(value):
        return "a missing value (NaN). Fill it in or drop the row."
    return "an infinite value. Replace it or drop the row." if math.isinf(value) else None


def _read_records(path: Path) -> tuple[list[str], list[int], list[list[str]]]:
    """Column names, and for each record its line number and cells."""
    reader = csv.reader(io.StringIO(_read_text(path), newline=""))
    try:
        numbered = [(reader.line_num, cells) for cells in reader if len(cells) > 1 or "".join(cells).strip()]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: cannot be read as CSV ({error}).") from None
    if not numbered:
        raise DataError(f"{path} is empty. Expected a line of column names, then one line per user.")
    header = [name.strip() for name in numbered.pop(0)[1]]
    if len(header) > _MOST_COLUMNS:
        raise DataError(f"{path}, line 1: {len(header):,} columns, and {_MOST_COLUMNS:,} are the most we read.")
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise DataError(f"{path}, line 1: expected commas, got {header[0][:80]!r}. Save the file comma-separated.")
    if all(isinstance(_parse_cell(name), float) for name in header):
        raise DataError(f"{path}, line 1: expected column names, got numbers. Add a header line.")
    if not numbered:
        raise DataError(f"{path} has column names but no rows. Add one line per user.")
    for line, cells in numbered:
        if len(cells) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} values, got {len(cells)}. "
                "Separate values by commas and quote those that contain one."
            )
    return header, [line for line, _ in numbered], [cells for _, cells in numbered]


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise DataError(f"No such file: {path}. Check the path (relative paths start at {Path.cwd()}).") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise DataError(f"{path} cannot be read as a CSV file: {error}.") from None
    if len(data) > MOST_BYTES:
        raise DataError(f"{path} has more than {MOST_BYTES:,} bytes. Take fewer columns or rows, or give a DataFrame.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8 text. Save it as 'CSV UTF-8'; line {line} is the first that is not."
        ) from None


def _shown(name: str, most: int = 80) -> str:
    """A name on one line of a message, whatever it contains."""
    return " ".join(str(name).split())[:most]


def _choose_columns(header: list[str], columns: Iterable[str] | None, *, path: Path) -> list[str]:
    if isinstance(columns, str):
        raise DataError(f"columns must be a list of names, got {columns!r}. Write [{columns!r}].")
    chosen = list(header if columns is None else columns)
    if not chosen:
        raise DataError("columns must name at least one column, got none.")
    for name in chosen:
        if name not in header:
            known = _shown(", ".join(header), most=400)
            raise DataError(f"{path} has no column '{name}', only {known}.{suggestion(str(name), header)}")
        if name == "":
            raise DataError(
                f"{path}, line 1: column {header.index('') + 1} has no name. Name it, or choose others with columns=; "
                "pandas writes such a column for its index unless told index=False."
            )
        if header.count(name) > 1 or chosen.count(name) > 1:
            raise DataError(f"{path}: column '{_shown(name)}' occurs more than once. Rename or choose one.")
    return chosen


def _parse_cell(cell: str) -> object:
    """A float, a bool, None for an empty cell, or the text itself."""
    text = cell.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return text if "_" in text else float(text)  # Python reads 1_000 as a number; a table rarely means it
    except ValueError:
        return text if text.lower() not in ("", "na", "n/a", "null", "none") else None
