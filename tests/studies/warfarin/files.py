"""Tables of patients as the consortium's file has them, for tests."""

from pathlib import Path

import pandas as pd

from rcb_bayes.studies.warfarin.table import YES_NO, column_parsers

PADDING = ("", "", "")  # the nameless columns at the right


def cells(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """The file's header and the cells of each patient."""
    columns = {name: column for name, (column, _) in column_parsers().items()}
    rows = [
        [_text(name, value) for name, value in zip(columns, row, strict=True)] for row in table[list(columns)].values
    ]
    return list(columns.values()), rows


def write_csv(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    """A CSV as it circulates: byte-order mark, CRLF, nameless columns and a last row of commas only."""
    lines = [",".join([_quoted(cell) for cell in row] + list(PADDING)) for row in (header, *rows)]
    lines.append("," * (len(header) + len(PADDING) - 1))
    path.write_bytes(("\ufeff" + "\r\n".join(lines) + "\r\n").encode("utf-8"))
    return path


def _quoted(cell: str) -> str:
    return f'"{cell}"' if "," in cell else cell


def _text(name: str, value: object) -> str:
    if value is None or value != value:
        return "Unknown" if name in ("race", "ethnicity") else "NA"
    if name == "indications":
        return "; ".join(str(value))
    return f"{value:.0f}" if name in YES_NO else str(value)
