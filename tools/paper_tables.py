"""Keep what runs of the paper's settings found: ``python tools/paper_tables.py FOLDER [--command TEXT]``.

FOLDER is that of ``rcb reproduce all --out FOLDER``, or holds some of its experiments, or cells that
``tools/paper_runs.py`` ran without audits. Finished cells become tables and figures in docs/measured/paper; what is
missing is listed as not run. ``docs/paper.md`` is then written anew.
"""

import argparse
import datetime
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import paper_page
from paper_runs import PLAIN

from rcb_bayes import __version__
from rcb_bayes.files.store import part_file, part_format, read_part
from rcb_bayes.studies.paper.claims import runs_of
from rcb_bayes.studies.paper.effects import below_setting_1
from rcb_bayes.studies.paper.figures import plot_setting
from rcb_bayes.studies.paper.judging import judge_setting
from rcb_bayes.studies.paper.settings import SETTINGS, Cell, Setting
from rcb_bayes.studies.paper.tables import as_table

HOME = paper_page.HOME
DROPPED = ("gain", "gain_mcse", "bill", "bill_mcse", "bill_per_exploration", "bill_per_exploration_mcse", "horizon")
DRAWN = ("measured", "uniform")
_DPI = 60


def main() -> None:
    """Keep tables, claims, figures; write the page."""
    parser = argparse.ArgumentParser(description="Keep what runs of the paper's settings found.")
    parser.add_argument("folder", type=Path, help="of rcb reproduce all --out FOLDER")
    parser.add_argument("--command", default="rcb reproduce all --workers 2 --out FOLDER", help="what made them")
    asked = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    parts = {name: finished(asked.folder / name, setting) for name, setting in SETTINGS.items()}
    claims = pd.concat([_claims(name, own, parts) for name, own in parts.items()])
    claims.to_csv(HOME / "claims.csv", index=False, float_format="%.5g")
    rows = [_told(name, own, asked.folder / name, asked.command) for name, own in parts.items()]
    pd.DataFrame(rows).to_csv(HOME / "runs.csv", index=False, float_format="%.4g")
    for name, own in parts.items():
        if own:
            _keep(SETTINGS[name], own)
    paper_page.write()


def finished(folder: Path, setting: Setting) -> list:
    """The cells that are there, in the setting's order; one without audits where there is no other."""
    paths = {cell.key: path_of(folder, cell) for cell in setting.cells}
    return [read_part(part_format(key), path) for key, path in paths.items() if path.exists()]


def path_of(folder: Path, cell: Cell) -> Path:
    """Where a cell is kept, with audits if there is such a one."""
    audited = folder / part_file(cell.key)
    return audited if audited.exists() else folder / PLAIN / f"{cell.key}.nc"


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


def _told(name: str, own: list, folder: Path, command: str) -> dict[str, object]:
    """How much of a setting was run, and how long that took."""
    setting = SETTINGS[name]
    there = [cell for cell in setting.cells if path_of(folder, cell).exists()]
    ends = [path_of(folder, cell).stat().st_mtime for cell in there]
    seconds = as_table(own)["seconds"].sum() if own else 0.0
    return {
        "setting": name,
        "cells": len(there),
        "of": len(setting.cells),
        "missing": "; ".join(cell.key for cell in setting.cells if cell not in there),
        "audited": sum((folder / part_file(cell.key)).exists() for cell in there),
        "cpu_seconds": seconds,
        "version": __version__,
        "date": datetime.date.fromtimestamp(max(ends)).isoformat() if ends else "",
        "command": command,
    }


def _keep(setting: Setting, own: list) -> None:
    table = as_table(own)
    table = table.drop(columns=[name for name in DROPPED if name in table])
    table.to_csv(HOME / f"{setting.name}.csv", index=False, float_format="%.5g")
    mpl.rcParams["font.size"] = 9
    kinds = ("fixed",) if setting.name.startswith("setting-2") else DRAWN
    for kind in kinds:
        figure = plot_setting(own, kind=kind, columns=setting.columns, lines=setting.lines, title=setting.title)
        figure.savefig(HOME / f"{setting.name}-{kind}.png", dpi=_DPI)


if __name__ == "__main__":
    main()
