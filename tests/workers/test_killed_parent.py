"""A run whose process is killed at any moment goes on where it was, and repeats one cell at most."""

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
N_KILLS = 20
SCRIPT = """
    import sys
    from pathlib import Path

    from rcb_bayes.studies.paper import Request, reproduction

    out, notes = (Path(word) for word in sys.argv[1:3])
    run_cell = reproduction.run_cell

    def noted(cell, **more):
        with open(notes, "a") as file:
            file.write(cell.key + "\\n")
        return run_cell(cell, **more)

    reproduction.run_cell = noted
    resume = (out / "run.json").exists()
    reproduction.run_setting("setting-1", Request(folder=out, fast=True, n_worlds=2, resume=resume))
"""


def run(script: Path, out: Path, notes: Path, *, kill_after: float | None) -> bool:
    """Whether the run came to its end."""
    with subprocess.Popen(
        [sys.executable, str(script), str(out), str(notes)], env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as process:
        try:
            return process.wait(timeout=kill_after) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return False


def lines(notes: Path) -> list[str]:
    return notes.read_text().splitlines() if notes.exists() else []


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    start = time.monotonic()
    assert run(script, tmp_path / "whole", tmp_path / "notes", kill_after=None)
    whole = time.monotonic() - start
    cells = lines(tmp_path / "notes")
    rng = random.Random(1)
    n_kills, n_whole = 0, 0
    while n_kills < N_KILLS:
        out, notes = tmp_path / f"killed-{n_whole}", tmp_path / f"notes-{n_whole}"
        before, finished = len(lines(notes)), n_finished(out)
        if run(script, out, notes, kill_after=rng.uniform(0.03, 0.3) * whole):
            n_whole += 1
            continue
        n_kills += 1
        assert len(lines(notes)) - before - (n_finished(out) - finished) <= 1  # begun, and not finished
    out, notes = tmp_path / f"killed-{n_whole}", tmp_path / f"notes-{n_whole}"
    assert run(script, out, notes, kill_after=None)
    for number in range(n_whole + 1):
        assert set(lines(tmp_path / f"notes-{number}")) == set(cells)
        same(tmp_path / "whole", tmp_path / f"killed-{number}")


def n_finished(out: Path) -> int:
    return len(list((out / "cells").glob("[!.]*.nc"))) if (out / "cells").exists() else 0


def same(one: Path, other: Path) -> None:
    """All that was written, but for how long it took."""
    tables = [pd.read_csv(folder / "table.csv") for folder in (one, other)]
    timed = [name for name in tables[0].columns if "seconds" in name]
    left, right = (table.drop(columns=timed) for table in tables)
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    assert (one / "claims.txt").read_text() == (other / "claims.txt").read_text()
