"""``rcb reproduce warfarin``: made-up patients, a folder that goes on, and files that are refused."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Run, runner

rcb = runner("reproduce")


@pytest.mark.slow
def test_the_study_is_told_kept_and_not_run_again(rcb: Run, tmp_path: Path) -> None:
    words = ("warfarin", "--fast", "--out", str(tmp_path / "study"))
    outcome = rcb(*words, "--json", str(tmp_path / "study.json"))
    assert outcome.code == 0
    assert "SYNTHETIC" in outcome.out
    assert "assigned" in outcome.out
    figures = json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))
    assert 0.25 < min(part["error"] for part in figures["policies"].values()) < 0.4
    for name in ("warfarin.nc", "summary.txt", "incorrect.png", "regret.png", "gain.png"):
        assert (tmp_path / "study" / name).stat().st_size > 0
    assert rcb(*words, "--resume").out == outcome.out
    assert "already holds this run" in rcb(*words).err


def test_bad_input_is_one_line(rcb: Run, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    outcome = rcb("warfarin", "--data", str(tmp_path / "other.csv"))
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert rcb("setting-1", "--data", "x.csv").code == 2
    assert "warfarin" in rcb("warfrin").err
