"""Run cells of the paper's settings without their audits: ``python tools/paper_runs.py FOLDER SETTING ...``.

Regret and realised gains come first where time is short; ``rcb reproduce`` runs the same cells with audits, which take
longer than the runs. Cells go to FOLDER/SETTING/plain, the paper's K before the others; finished ones are left alone.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from rcb_bayes.files.store import part_format, write_part
from rcb_bayes.studies.paper.cells import run_cell
from rcb_bayes.studies.paper.settings import GRID, KINDS, SETTINGS, Cell

PLAIN = "plain"
_OWN_ARMS = (5, 10, 2)  # the paper's, the middle one first; three arms stand in a figure of it only


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description="Run cells of the paper's settings without their audits.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("settings", nargs="+", choices=[*SETTINGS])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of plans")
    asked = parser.parse_args()
    effort = replace(GRID, audit_worlds=0)
    for name in asked.settings:
        for cell in sorted(SETTINGS[name].cells, key=_place):
            target = asked.folder / name / PLAIN / f"{cell.key}.nc"
            if target.exists():
                continue
            kinds = tuple(kind for kind in cell.kinds if kind in asked.kinds)
            found = run_cell(replace(cell, kinds=kinds), effort=effort, seed=1)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_part(part_format(cell.key), found, target)
            print(time.strftime("%T"), f"{time.process_time():.0f} s", name, cell.key, flush=True)


def _place(cell: Cell) -> tuple[int, int]:
    ranks = [*_OWN_ARMS, cell.n_arms]
    return ranks.index(cell.n_arms), abs(cell.n_features - 5)


if __name__ == "__main__":
    main()
