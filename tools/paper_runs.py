"""Run the paper's settings in small pieces: ``python tools/paper_runs.py FOLDER SETTING ... [--audited]``.

A piece is one group of plans in one cell, kept in FOLDER/pieces as soon as it is there; finished pieces are left alone.
Regret and realised gains come first where time is short: pieces without audits take a fraction of the time of those
with. ``rcb reproduce all`` runs the same plans in the same worlds, with audits, cell by cell. The paper's K come before
the others.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from rcb_bayes.files.store import part_format, write_part
from rcb_bayes.studies.paper.cells import run_cell
from rcb_bayes.studies.paper.settings import GRID, KINDS, SETTINGS, Cell

GROUPS = (("theorem", "measured"), ("fixed",), ("uniform", "personalised"))  # sampled plans are often the same
_OWN_ARMS = (5, 10, 2)  # the paper's, the middle one first; three arms stand in a figure of it only


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description="Run the paper's settings in small pieces.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("settings", nargs="+", choices=[*SETTINGS])
    parser.add_argument("--audited", action="store_true", help="under every notion")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of plans")
    parser.add_argument("--arms", nargs="+", type=int, help="of cells, all unless given")
    asked = parser.parse_args()
    effort = GRID if asked.audited else replace(GRID, audit_worlds=0)
    for name in asked.settings:
        cells = [cell for cell in SETTINGS[name].cells if asked.arms is None or cell.n_arms in asked.arms]
        for cell in sorted(cells, key=_place):
            for group in GROUPS:
                kinds = tuple(kind for kind in group if kind in cell.kinds)
                target = piece_file(asked.folder, name, cell, group, audited=asked.audited)
                if not set(kinds) & set(asked.kinds) or target.exists():
                    continue
                found = run_cell(replace(cell, kinds=kinds), effort=effort, seed=1)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_part(part_format(cell.key), found, target)
                print(time.strftime("%T"), f"{time.process_time():.0f} s", target.name, flush=True)


def piece_file(folder: Path, setting: str, cell: Cell, group: tuple[str, ...], *, audited: bool) -> Path:
    """Where a piece is kept."""
    return folder / "pieces" / f"{setting}-{cell.key}-{group[0]}{'-audited' if audited else ''}.nc"


def _place(cell: Cell) -> tuple[int, int]:
    ranks = [*_OWN_ARMS, cell.n_arms]
    return ranks.index(cell.n_arms), abs(cell.n_features - 5)


if __name__ == "__main__":
    main()
