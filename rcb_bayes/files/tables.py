"""Comma-separated files: column names, then records; what is wrong is named by its line and column."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rcb_bayes.errors import DataError
from rcb_bayes.files.envelope import regular_bytes
from rcb_bayes.schema import seen, suggestion

MOST_BYTES = 2**28
"""Of a file: as cells of text it takes some twenty times as much memory."""
_MOST_COLUMNS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The text of a file: names of columns, and of each record the number of its line and its cells."""

    header: list[str]
    lines: list[int]
    records: list[list[str]]


def read_cells(path: Path, *, row: str = "user", least: int = 1) -> Cells:
    """The cells of a comma-separated file in UTF-8, with or without a byte-order mark; blank lines are left out.

    Parameters
    ----------
    row : what a line tells of, in messages
    least : records there must be

    Raises
    ------
    DataError
        A file that is not there, too large, no text, cut off, or no table; a line with more or fewer values than
        there are columns.
    """
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    try:
        numbered = [(reader.line_num, cells) for cells in reader if len(cells) > 1 or "".join(cells).strip()]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: cut off, or not CSV ({error}).") from None
    if not numbered:
        raise DataError(f"{path} is empty. Expected a line of column names, then one line per {row}.")
    header = [seen(" ".join(name.split())) for name in numbered.pop(0)[1]]  # as they are told
    _check_header(header, path)
    if len(numbered) < least:
        raise DataError(f"{path} has column names but no rows. Add one line per {row}.")
    for line, cells in numbered:
        if len(cells) != len(header):
            is_cut = line == numbered[-1][0] and len(cells) < len(header)
            column = shown(header[min(len(cells), len(header)) - 1])
            raise DataError(
                f"{path}, line {line}, column '{column}': expected {len(header)} values, got {len(cells)}. "
                + ("The file is cut off, or commas are missing." if is_cut else "")
                + ("" if is_cut else "Separate values by commas and quote those that contain one.")
            )
    return Cells(header=header, lines=[line for line, _ in numbered], records=[cells for _, cells in numbered])


def parse_cell(cell: str) -> object:
    """A float, a bool, None for an empty cell, or the text itself."""
    text = cell.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return text if "_" in text else float(text)  # Python reads 1_000 as a number; a table rarely means it
    except ValueError:
        return text if text.lower() not in ("", "na", "n/a", "null", "none") else None


def shown(name: str, most: int = 80) -> str:
    """A name on one line of a message, whatever it contains."""
    return seen(" ".join(str(name).split()))[:most]


def _check_header(header: list[str], path: Path) -> None:
    if len(header) > _MOST_COLUMNS:
        raise DataError(f"{path}, line 1: {len(header):,} columns, and {_MOST_COLUMNS:,} are the most we read.")
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise DataError(f"{path}, line 1: expected commas, got {header[0][:80]!r}. Save the file comma-separated.")
    if all(isinstance(parse_cell(name), float) for name in header):
        raise DataError(f"{path}, line 1: expected column names, got numbers. Add a header line.")


def _read_text(path: Path) -> str:
    try:
        data = regular_bytes(path, most=MOST_BYTES)
    except FileNotFoundError:
        raise DataError(f"No such file: {path}. Check the path (relative paths start at {Path.cwd()}).") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte; RcbError is one, too
        raise DataError(f"{path} cannot be read as a CSV file: {error}. Give another, or a DataFrame.") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8 text. Save it as 'CSV UTF-8'; line {line} is the first that is not."
        ) from None


def places_of_columns(
    header: list[str], wanted: Sequence[str], *, source: str, file: str, expected: str
) -> dict[str, int]:
    """Where the columns of a published file stand; DataError where one is not there, or is there twice."""
    missing = [name for name in wanted if name not in header]
    if missing:
        close = suggestion(missing[0], [name for name in header if name])
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f"{source}, line 1: this is not the {file} file, the column '{missing[0]}'{more} is not there.{close} "
            f"Expected {expected}."
        )
    twice = [name for name in wanted if header.count(name) > 1]
    if twice:
        raise DataError(f"{source}, line 1: the column '{twice[0]}' is there twice. Keep one of the two.")
    return {name: header.index(name) for name in wanted}


def check_patient(patient: str, seen_before: dict[str, int], *, line: int, where: str) -> None:
    """Note a patient's line; DataError where she has been seen before."""
    if patient in seen_before:
        told = f"patient {patient} is there already, in line {seen_before[patient]}"
        raise DataError(f"{where}: {told}. Keep one of the two.")
    seen_before[patient] = line
