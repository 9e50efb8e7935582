"""``--workers`` of every command that computes, ``--folder`` or ``--resume`` of those that take hours."""

from pathlib import Path

import pytest
from typer.main import get_command

from rcb_bayes.cli import app

COMPUTE = ["check", "calibrate", "simulate", "audit", "sensitivity", "report", "reproduce"]
KEEP = {"calibrate": "--folder", "audit": "--folder", "sensitivity": "--folder", "reproduce": "--resume"}


def options(command: str) -> set[str]:
    found = getattr(get_command(app.app), "commands")[command]  # noqa: B009 - Click's groups have it
    return {option for parameter in found.params for option in parameter.opts}


@pytest.mark.parametrize("command", COMPUTE)
def test_whoever_computes_takes_workers(command: str) -> None:
    assert "--workers" in options(command)


@pytest.mark.parametrize("command", KEEP)
def test_whoever_takes_long_goes_on(command: str) -> None:
    assert KEEP[command] in options(command)


@pytest.mark.parametrize("command", COMPUTE)
@pytest.mark.parametrize(("workers", "said"), [("0", "workers must be 1 to"), ("", "an empty text")])
def test_workers_that_are_none_are_one_line(
    command: str,
    workers: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    what = "setting-1" if command == "reproduce" else "gaussian"
    assert app.run([command, what, "--workers", workers]) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert len(told.splitlines()) == 1
    assert not list(tmp_path.iterdir())
