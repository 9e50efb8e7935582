"""The command line as tests run it: in an empty folder, with its exit code and what it wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rcb_bayes.cli import app


class Outcome:
    """What one call of the command line did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.lines = out.splitlines()

    def line(self, start: str) -> str:
        """The first line that starts so."""
        return next(line for line in self.lines if line.startswith(start))


Run = Callable[..., Outcome]


def runner(command: str, *, columns: int = 200) -> Callable[..., Run]:
    """A fixture ``rcb`` for one command."""

    @pytest.fixture
    def rcb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.delenv("RCB_DEBUG", raising=False)

        def run(*arguments: str) -> Outcome:
            capsys.readouterr()
            code = app.run([command, *arguments])
            captured = capsys.readouterr()
            return Outcome(code, captured.out, captured.err)

        return run

    return rcb
