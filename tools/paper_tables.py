"""Keep what runs of the paper's settings found: ``python tools/paper_tables.py FOLDER [--command TEXT]``.

FOLDER is that of ``rcb reproduce all --out FOLDER``, or holds some of its experiments, or pieces of
``tools/paper_runs.py``, or both: of a plan that is there twice the audited run counts. Finished cells become tables and
figures in docs/measured/paper; what is missing is listed as not run. A setting that FOLDER has nothing of keeps the
rows that it has. ``docs/paper.md`` is then written anew.
"""

import argparse
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import paper_page
import xarray as xr
from paper_runs import GROUPS, piece_file

from rcb_bayes import __version__
from rcb_bayes.files.store import part_file, part_format, read_part
from rcb_bayes.studies.paper.claims import runs_of
from rcb_bayes.studies.paper.effects import below_setting_1
from rcb_bayes.studies.paper.figures import plot_setting
from rcb_bayes.studies.paper.judging import judge_setting
from rcb_bayes.studies.paper.settings import KINDS, SETTINGS, Cell, Setting
from rcb_bayes.studies.paper.tables import as_table

HOME = paper_page.HOME
DROPPED = ("gain", "gain_mcse", "bill", "bill_mcse", "bill_per_exploration", "bill_per_exploration_mcse", "horizon")
DRAWN = ("measured", "uniform")
_DPI = 60
_COMMAND = "python tools/paper_runs.py FOLDER SETTING ... --audited"


def main() -> None:
    """Keep tables, claims, figures; write the page."""
    parser = argparse.ArgumentParser(description="Keep what runs of the paper's settings found.")
    parser.add_argument("folder", type=Path, help="of rcb reproduce all --out FOLDER")
    parser.add_argument("--command", default=_COMMAND, help="what made them")
    asked = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    parts = {name: finished(asked.folder, setting) for name, setting in SETTINGS.items()}
    claims = [_claims(name, own, parts) if own else _stored("claims", name) for name, own in parts.items()]
    pd.concat([one for one in claims if len(one)]).to_csv(HOME / "claims.csv", index=False, float_format="%.5g")
    runs = [
        pd.DataFrame([_told(name, own, asked.folder, asked.command)]) if own else _stored("runs", name)
        for name, own in parts.items()
    ]
    pd.concat([one for one in runs if len(one)]).to_csv(HOME / "runs.csv", index=False, float_format="%.4g")
    for name, own in parts.items():
        if own:
            _keep(SETTINGS[name], own)
    paper_page.write()


def finished(folder: Path, setting: Setting) -> "list[xr.Dataset]":
    """The cells of which there is something, in the setting's order, each plan once."""
    cells = [_together(folder, setting.name, cell) for cell in setting.cells]
    return [cell for cell in cells if cell is not None]


def files_of(folder: Path, setting: str, cell: Cell) -> list[Path]:
    """Where runs of a cell are kept, those with audits first."""
    pieces = [
        piece_file(folder, setting, cell, group, audited=audited) for audited in (True, False) for group in GROUPS
    ]
    return [path for path in (folder / setting / part_file(cell.key), *pieces) if path.exists()]


def _together(folder: Path, setting: str, cell: Cell) -> "xr.Dataset | None":
    runs: dict[str, xr.Dataset] = {}
    for path in files_of(folder, setting, cell):
        part = read_part(part_format(cell.key), path)
        for name in part["run"].values:
            runs.setdefault(str(name), part.sel(run=[name]))
    if not runs:
        return None
    ordered = sorted(runs.values(), key=lambda run: KINDS.index(run["kind"].item()))
    return xr.concat(ordered, dim="run", combine_attrs="override")


def _stored(table: str, setting: str) -> pd.DataFrame:
    """Rows of a setting as an earlier run left them."""
    rows = paper_page.table(table)
    return rows[rows["setting"] == setting] if len(rows) else rows


def _claims(name: str, own: list, parts: dict[str, list]) -> pd.DataFrame:
    found = judge_setting(name, own)
    if name.startswith("setting-2"):
        ad_hoc, theorem = (
            [run for part in cells for run in runs_of(part, kind)]
            for cells, kind in ((own, "fixed"), (parts[name.replace("2", "1")], "theorem"))
        )
        found += below_setting_1(ad_hoc, theorem)
    columns = ("claim", "kind", "verdict", "figure", "estimate", "error", "lower", "upper")
    table = pd.DataFrame([{key: getattr(claim, key) for key in columns} for claim in found], columns=list(columns))
    table.insert(0, "setting", name)
    return table


def _told(name: str, own: "list[xr.Dataset]", folder: Path, command: str) -> dict[str, object]:
    """How much of a setting was run, and how long that took."""
    setting = SETTINGS[name]
    files = {cell.key: files_of(folder, name, cell) for cell in setting.cells}
    table: Any = as_table(own)  # pandas' own annotations do not follow its columns
    ran = table[table["regret"].notna()]
    return {
        "setting": name,
        "cells": len(own),
        "of": len(setting.cells),
        "missing": "; ".join(key for key, found in files.items() if not found),
        "without": "; ".join(_without(setting, own)),
        "plans": len(ran),
        "audited": int((ran["verdict_user"] != "").sum()),
        "cpu_seconds": ran["seconds"].sum(),
        "audit_seconds": ran["audit_seconds"].sum(),
        "version": __version__,
        "date": datetime.date.fromtimestamp(max(path.stat().st_mtime for found in files.values() for path in found)),
        "command": command,
    }


def _without(setting: Setting, own: "list[xr.Dataset]") -> list[str]:
    """Kinds of plans that cells lack of which there is something, a phrase for each kind."""
    there = {_place(part.attrs): set(part["kind"].values) for part in own}
    lacking: dict[str, list[str]] = {}
    for cell in setting.cells:
        kinds = there.get(_place(asdict(cell)), set(cell.kinds))
        for kind in cell.kinds:
            if kind not in kinds:
                lacking.setdefault(kind, []).append(cell.key)
    return [f"{kind} in {', '.join(keys)}" for kind, keys in lacking.items()]


def _place(cell: Mapping[Any, Any]) -> tuple[float, ...]:
    return tuple(float(cell[name]) for name in ("n_arms", "n_features", "variance", "epsilon"))


def _keep(setting: Setting, own: list) -> None:
    table = as_table(own)
    table = table.drop(columns=[name for name in DROPPED if name in table])
    table.to_csv(HOME / f"{setting.name}.csv", index=False, float_format="%.5g")
    mpl.rcParams["font.size"] = 9
    for name, kind, title, parts in _drawn(setting, own):
        figure = plot_setting(parts, kind=kind, columns=setting.columns, lines=setting.lines, title=title)
        figure.savefig(HOME / f"{setting.name}-{name}.png", dpi=_DPI)


def _drawn(setting: Setting, own: "list[xr.Dataset]") -> "Iterator[tuple[str, str, str, list[xr.Dataset]]]":
    """Pictures of a setting: name, kind of plan, title, and what is drawn; one for each N where that is what varies."""
    sizes = setting.cells[0].fixed
    if len(sizes) == 1:
        yield from ((kind, kind, f"{setting.title}; {kind} plans", own) for kind in DRAWN)
    for n in sizes if len(sizes) > 1 else ():
        parts = [part.isel(run=part["n_per_arm"].values == n) for part in own]
        yield f"N{n}", "fixed", f"{setting.title}, N = {n:,}", parts


if __name__ == "__main__":
    main()
