"""Parts of the warfarin experiment as files, so that a run that was stopped goes on with those that are missing."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from rcb_bayes.files import Format, read_netcdf, write_netcdf
from rcb_bayes.files.envelope import refused
from rcb_bayes.studies.warfarin.joining import Part

_PIECES = ("runs", "figures", "groups")
_REMEDY = "Delete the file to have the part computed anew."


def write_parts(key: str, part: Part, path: Path) -> None:
    """Write a part: tables of its policies and cells as groups, rows of its plans and audits as JSON."""
    import xarray as xr

    groups: dict[str, xr.Dataset] = {}
    for number, (name, pieces) in enumerate(part.get("policies", {}).items()):
        for piece, data in zip(_PIECES, pieces, strict=True):
            groups[f"policies_{number}_{piece}"] = data.assign_attrs({**data.attrs, "rcb_name": name})
    for number, (cell, data) in enumerate(part.get("cells", {}).items()):
        groups[f"cells_{number}"] = data.assign_attrs({**data.attrs, "rcb_name": json.dumps(cell)})
    rows = {name: json.dumps(part[name], default=_plain) for name in ("plans", "audits") if name in part}
    root = xr.Dataset({"is_part": 1}, attrs=rows | {"policies": int("policies" in part)})
    write_netcdf(_format(key), xr.DataTree.from_dict({"/": root} | groups), path)


def read_parts(key: str, path: Path) -> Part:
    """Read what ``write_parts`` wrote.

    Raises
    ------
    RcbError
        A file of another part, of another format, or damaged.
    """
    form = _format(key)
    tree = read_netcdf(form, path)
    try:
        part: Part = {name: json.loads(tree.attrs[name]) for name in ("plans", "audits") if name in tree.attrs}
        policies: dict[str, list[Any]] = {}
        cells: dict[tuple[str, float, float], Any] = {}
        for group, node in sorted(tree.children.items(), key=lambda item: _place(item[0])):
            data = node.to_dataset(inherit=False)
            name = data.attrs.pop("rcb_name")
            if group.startswith("cells_"):
                oracle, epsilon, variance = json.loads(name)
                cells[oracle, epsilon, variance] = data
            else:
                policies.setdefault(name, []).append(data)
        part |= (
            {"policies": {name: tuple(pieces) for name, pieces in policies.items()}} if tree.attrs["policies"] else {}
        )
        return part | ({"cells": cells} if cells else {})
    except (KeyError, ValueError, TypeError) as error:
        raise refused(form, path, error) from None


def _place(group: str) -> tuple[str, int, int]:
    kind, number, *piece = group.split("_")
    return kind, int(number), _PIECES.index(piece[0]) if piece else 0


def _format(key: str) -> Format:
    return Format(name=f"warfarin part {key}", version=1, remedy=_REMEDY)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"no row of a table has a {type(value).__name__}")
