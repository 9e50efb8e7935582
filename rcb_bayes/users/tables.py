"""Tables of users, checked: a value that is no finite number is named by its column and place."""

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.files.tables import parse_cell, read_cells, shown
from rcb_bayes.schema import FEATURE, FloatArray, Labels, as_labels, check_unmasked, suggestion

if TYPE_CHECKING:
    import pandas as pd


def as_table(rows: "ArrayLike | pd.DataFrame", features: Labels) -> tuple[FloatArray, tuple[str, ...]]:
    """A DataFrame or an (n, d) array as floats, shape (n, d), and its labels."""
    check_unmasked(rows, name="rows")
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


def read_log(path: Path, *, words: Iterable[str] = (), least: int = 1) -> "pd.DataFrame":
    """A comma-separated file of at least so many rows as a DataFrame whose index has the lines' numbers.

    Cells are numbers, truth values, None where empty, or text; in the columns ``words`` they are text in any case.

    Raises
    ------
    DataError
        A file that cannot be read, or is no table; names that come twice. The line is named.
    """
    import pandas as pd

    table = read_cells(path, row="round", least=least)
    twice = [name for name in table.header if name and table.header.count(name) > 1]
    if twice:
        raise DataError(f"{path}, line 1: column '{shown(twice[0])}' occurs more than once. Rename or drop one.")
    kept = set(words)
    columns = {
        name: pd.Series(
            [record[k].strip() if name in kept else parse_cell(record[k]) for record in table.records], dtype=object
        )
        for k, name in enumerate(table.header)
    }
    return pd.DataFrame(columns).set_index(pd.Index(table.lines, name="line"))


def _as_floats(grid: np.ndarray, labels: Sequence[str], *, place: Callable[[int], str]) -> FloatArray:
    """Floats from an (n, d) array of any kind; ``place`` says where a row is."""
    if 0 in grid.shape:
        raise DataError(f"rows must have at least one row and one column, got shape {grid.shape}.")
    if grid.dtype.kind not in "biuf" or not np.isfinite(grid).all():
        for k, label in enumerate(labels):
            for row, value in enumerate(grid[:, k]):
                fault = fault_of(value)
                if fault is not None:
                    raise DataError(f"Column '{shown(label)}', {place(row)}: expected a number, got {fault}")
    return grid.astype(np.float64)


def fault_of(value: object) -> str | None:
    """Why a value is no finite number, and what to do; None for one that is."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return "a missing value. Fill it in or drop the row."
    if not isinstance(value, (Real, np.bool_)) or isinstance(value, np.timedelta64):
        return f"{str(value)[:40]!r}. Encode categories as 0/1 columns (pandas.get_dummies) or drop the column."
    if math.isnan(value):
        return "a missing value (NaN). Fill it in or drop the row."
    return "an infinite value. Replace it or drop the row." if math.isinf(value) else None


def choose_columns(header: list[str], columns: Iterable[str] | None, *, path: Path) -> list[str]:
    """The names asked for, or all, each there once."""
    if isinstance(columns, str):
        raise DataError(f"columns must be a list of names, got {columns!r}. Write [{columns!r}].")
    chosen = list(header if columns is None else columns)
    if not chosen:
        raise DataError("columns must name at least one column, got none.")
    for name in chosen:
        if name not in header:
            known = shown(", ".join(header), most=400)
            raise DataError(f"{path} has no column '{name}', only {known}.{suggestion(str(name), header)}")
        if name == "":
            raise DataError(
                f"{path}, line 1: column {header.index('') + 1} has no name. Name it, or choose others with columns=; "
                "pandas writes such a column for its index unless told index=False."
            )
        if header.count(name) > 1 or chosen.count(name) > 1:
            raise DataError(f"{path}: column '{shown(name)}' occurs more than once. Rename or choose one.")
    return chosen
