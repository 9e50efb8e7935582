"""A run whose process is killed at any moment goes on where it was: equal to one that was not, a cell repeated at most."""

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
    from functools import partial
    from pathlib import Path

    from rcb_bayes.studies.paper import Request, reproduction

    out, notes = (Path(word) for word in sys.argv[1:3])
    run_cell = reproduction.run_cell

    def noted(cell, **more):
        with open(notes, "a") as file:
            file.write(cell.key + "\\n")
        return run_cell(cell, **more)

    reproduction.run_cell = noted
    reproduction.run_setting("setting-1", Request(folder=out, fast=True, n_worlds=2, resume=(out / "run.json").exists()))
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
    out, notes = tmp_path / "killed", tmp_path / "more"
    rng = random.Random(1)
    for _ in range(N_KILLS):
        finished = len(list((out / "cells").glob("*.nc"))) if (out / "cells").exists() else 0
        before = len(lines(notes))
        if run(script, out, notes, kill_after=rng.uniform(0.05, 0.6) * whole):
            break
        begun = lines(notes)[before:]
        now = len(list((out / "cells").glob("*.nc"))) if (out / "cells").exists() else 0
        assert len(begun) - (now - finished) <= 1  # begun and not finished
    assert run(script, out, notes, kill_after=None) or (out / "table.csv").exists()
    assert sorted(set(lines(notes))) == sorted(cells)
    one, other = (pd.read_csv(folder / "table.csv") for folder in (tmp_path / "whole", out))
    timed = [name for name in one.columns if "seconds" in name]
    pd.testing.assert_frame_equal(one.drop(columns=timed), other.drop(columns=timed), check_exact=True)
    assert (tmp_path / "whole" / "claims.txt").read_text() == (out / "claims.txt").read_text()
