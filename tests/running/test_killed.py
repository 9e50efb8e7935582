"""A live run whose process is killed, and goes on from what was saved: its log is that of a run never killed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rcb_bayes as rcb
from tests.running import live_service as service

ROOT = Path(__file__).parents[2]


def rows_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def killed_at(folder: Path, kills: list[int], **numbers: int) -> None:
    """Run the service, and kill its process (SIGKILL) once its log has so many rows; let the last one end."""
    words = [str(numbers[name]) for name in ("rounds", "comes", "leaves", "every")]
    command = [sys.executable, "-m", "tests.running.live_service", str(folder), *words]
    for rows in kills:
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
        while rows_in(folder / "log.csv") < rows:
            assert process.poll() is None, "the service ended before it was killed"
            time.sleep(0.01)
        process.kill()
        assert process.wait() < 0
    assert subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False).returncode == 0


def run_and_compare(tmp_path: Path, kills: list[int], **numbers: int) -> None:
    own = service.market()
    plan = rcb.calibrate(own, n_per_arm=6, epsilon=0.05, horizon=2000, n_worlds=200, audit_worlds=200, seed=1)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for folder in (killed, whole):
        folder.mkdir()
        plan.save(folder / "plan.json")
    killed_at(killed, kills, **numbers)
    never = service.serve(whole, **numbers)
    agent, wider = service.found(killed), own.with_arm("d", service.BELIEF)
    log = agent.log
    pd.testing.assert_frame_equal(log, never.log)
    assert (killed / "log.csv.lost").exists()  # rounds of after the last save were served, and are kept
    assert [(move.round, move.arm, move.comes) for move in agent.moves] == [
        (numbers["comes"], "d", True),
        (numbers["leaves"], "b", False),
    ]
    assert log["ticket"].tolist() == list(range(numbers["rounds"]))
    assert not log["p_d"].to_numpy()[: numbers["comes"]].any()
    assert not log["p_b"].to_numpy()[numbers["leaves"] :].any()
    found_out = False
    for arm, other in zip(wider.arms, (*wider.arms[1:], wider.arms[0]), strict=True):
        chance, drawn = log[f"p_{arm}"].to_numpy(), (log["arm"] == arm).to_numpy()
        error = np.sqrt(np.maximum((chance * (1 - chance)).sum(), 1.0))
        assert abs(drawn.sum() - chance.sum()) < 4 * error
        found_out |= abs(drawn.sum() - log[f"p_{other}"].sum()) > 4 * error  # planted: chances of another arm
    assert found_out
    checked = rcb.check_log(wider, log, plan, moves=agent.moves)
    assert checked.followed, checked.summary()
    assert not rcb.check_log(wider, log, plan, moves=agent.moves[:1]).followed  # planted: a move that is not told
    assert rcb.audit_log(wider, log, seed=1).verdict == "realised"


def test_a_service_that_is_killed_goes_on(tmp_path: Path) -> None:
    run_and_compare(tmp_path, [350], rounds=600, comes=300, leaves=420, every=100)


@pytest.mark.slow
def test_twenty_thousand_rounds_with_an_arm_added_at_5000_and_one_retired_at_8000_killed_five_times(
    tmp_path: Path,
) -> None:
    """Killed in the cold start, right after the arm came (and before that was saved), and later."""
    kills = [40, 5005, 7000, 8010, 13_333]
    run_and_compare(tmp_path, kills, rounds=20_000, comes=5000, leaves=8000, every=300)
