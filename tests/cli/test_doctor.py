"""``rcb doctor``: versions, the machine, and checks that fail one by one."""

import json

import pytest

from rcb_bayes.cli import doctor
from tests.cli.command_line import Run, runner

rcb = runner("doctor")


def _holds() -> None:
    """Something holds."""


def _breaks() -> None:
    """Something breaks."""
    doctor._expect(False, "a sound installation")


def test_what_is_installed_is_told_and_checks_that_hold(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_CHECKS", (_holds, doctor._exact, doctor._writes))
    done = rcb()
    assert done.code == 0, done.out
    assert done.lines[-1] == "Verdict: works"
    for part in ("rcb-bayes", "pymc", "nutpie", "BLAS", "threads set", "cores"):
        assert part in done.out
    assert sum(line.startswith("ok ") for line in done.lines) == 3


def test_a_check_that_fails_is_named_and_the_others_go_on(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_CHECKS", (_breaks, _holds))
    done = rcb("--json", "-")
    assert done.code == 1
    found = json.loads(done.out)
    assert not found["works"]
    assert [row["ok"] for row in found["checks"]] == [False, True]
    assert found["checks"][0]["fault"] == "RuntimeError: expected a sound installation"


@pytest.mark.slow
def test_this_installation_works(rcb: Run) -> None:
    assert rcb().code == 0
