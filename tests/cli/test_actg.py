"""``rcb reproduce actg``: a folder that goes on, and files that are refused."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Run, runner
from tests.studies.actg.files import real_file, write_table

rcb = runner("reproduce")


@pytest.mark.slow
def test_the_study_is_told_kept_and_not_run_again(rcb: Run, tmp_path: Path) -> None:
    data = write_table(tmp_path / "made_up.csv")
    # a made-up trial is too small for the usual rounds, which is one line
    outcome = rcb("actg", "--fast", "--data", str(data), "--out", str(tmp_path / "small"))
    assert outcome.code == 2
    assert "Ask for the value of fewer rounds" in outcome.err


@pytest.mark.slow
def test_the_real_study_is_told_kept_and_not_run_again(rcb: Run, tmp_path: Path) -> None:
    words = ("actg", "--fast", "--data", str(real_file()), "--out", str(tmp_path / "study"), "--workers", "1")
    outcome = rcb(*words, "--json", str(tmp_path / "study.json"))
    assert outcome.code == 0
    assert "always zdv_ddi" in outcome.out
    figures = json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))
    assert len(figures["values"]) > 15
    for name in ("actg.json", "summary.txt", "values.csv", "report.html"):
        assert (tmp_path / "study" / name).stat().st_size > 0
    assert rcb(*words, "--resume").out == outcome.out
    assert "already holds this run" in rcb(*words).err


def test_a_file_of_another_study_is_one_line(rcb: Run, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    outcome = rcb("actg", "--data", str(tmp_path / "other.csv"))
    assert outcome.code == 2
    assert "not the ACTG 175 file" in outcome.err
    assert "Traceback" not in outcome.err
    outcome = rcb("warfarin", "--data", str(write_table(tmp_path / "actg175.csv")))
    assert outcome.code == 2
    assert "not the IWPC file" in outcome.err
