"""Outcomes as netCDF files: a group for each cell, and the table, the claims and the notes as text beside them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, Records, read_netcdf, refused, write_netcdf
from rcb_bayes.studies.paper.claims import Claim

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from rcb_bayes.studies.paper.outcome import Outcome

_FORM = Format(name="outcome", version=1, remedy="Run the experiment again: `outcome.save(path)` writes a file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of the table: numbers, whole numbers, truth values or words."""

    name: str
    values: tuple[float, ...] | None = None
    others: tuple[int | bool | str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """All of an outcome but the runs."""

    name: str
    title: str
    keys: tuple[str, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    table: tuple[_Column, ...]


_RECORDS = Records(_Head)


def write_outcome_file(outcome: "Outcome", path: str | Path) -> None:
    """Write an outcome, at once or not at all; the files that its run left are not part of it."""
    import xarray as xr

    head = _Head(
        name=outcome.name,
        title=outcome.title,
        keys=outcome.keys,
        claims=outcome.claims,
        notes=outcome.notes,
        table=tuple(_column(str(name), column) for name, column in outcome.table.items()),
    )
    root = xr.Dataset(attrs={"head": json.dumps(_RECORDS.to_wire(head))})
    cells = {f"cell_{number}": cell for number, cell in enumerate(outcome.parts)}
    write_netcdf(_FORM, xr.DataTree.from_dict({"/": root, **cells}), path)


def read_outcome_file(path: str | Path) -> dict[str, Any]:
    """The fields of an ``Outcome``.

    Raises
    ------
    RcbError
        A file that is not there, or is no outcome; a digit that was changed.
    """
    import pandas as pd

    tree = read_netcdf(_FORM, path)
    try:
        head: _Head = _RECORDS.from_wire(_RECORDS.checked(json.loads(str(tree.attrs["head"]))))
        cells: list[xr.DataTree] = [tree.children[f"cell_{number}"] for number in range(len(tree.children))]
        table = pd.DataFrame({column.name: _values(column) for column in head.table})
    except (KeyError, ValueError, RecursionError, msgspec.ValidationError, RcbError) as error:
        raise refused(_FORM, path, error) from None
    return {
        "name": head.name,
        "title": head.title,
        "keys": head.keys,
        "claims": tuple(Claim(**asdict(claim)) for claim in head.claims),
        "notes": head.notes,
        "table": table,
        "parts": tuple(cell.to_dataset(inherit=False) for cell in cells),
    }


def _column(name: str, column: "pd.Series") -> _Column:
    values = tuple(column.tolist())
    return _Column(name=name, values=values) if column.dtype.kind == "f" else _Column(name=name, others=values)


def _values(column: _Column) -> list[Any]:
    return list((column.others if column.values is None else column.values) or ())
