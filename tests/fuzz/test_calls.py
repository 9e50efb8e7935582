"""Public calls with wrong arguments: refused in words of this package, answered, or nothing at all; no hang.

A few hundred are made each time, those that take no time; thousands, of every public call, in the slow suite, which
prints what became of them. The calls are the same each time.
"""

import contextlib
import io
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import rcb_bayes as rcb
from tests.fuzz.calls import NOT_CALLED, Call, calls, draw, try_call
from tests.fuzz.subjects import Outcomes

pytestmark = pytest.mark.usefixtures("small_panels")

RIGHT = {"answered", "refused"}
FEW, MANY, PARTS = 150, 4_800, 8


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files that are named by chance are written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.csv").write_text("a,b\n1,0\n0,1\n0.5,0.5\n", encoding="utf-8")


def fuzz(n: int, seed: int, *, everything: bool) -> Outcomes:
    noted = Outcomes()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for k, (call, arguments) in enumerate(draw(n, seed, everything=everything)):
            try_call(noted, f"{k} {call.owner}.{call.name}", call, arguments)
    assert set(noted.counts) <= RIGHT, f"{noted}\n" + "\n".join(noted.wrong[:20])
    assert sum(noted.counts.values()) == n
    return noted


def test_wrong_arguments_are_refused_in_words_of_this_package():
    noted = fuzz(FEW, 1, everything=False)
    assert noted.counts["refused"] > 0.5 * FEW


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_wrong_arguments_are_refused_in_words_of_this_package(
    part: int, capsys: pytest.CaptureFixture[str]
):
    noted = fuzz(MANY // PARTS, 10 + part, everything=True)
    with capsys.disabled():
        print(f"\n{MANY // PARTS} calls: {noted}")


def test_the_slow_suite_makes_at_least_four_thousand_calls():
    assert MANY >= 4_000


@pytest.mark.slow
def test_every_public_name_is_called():
    called = {call.name.split(".")[0] for call in calls()}
    rooms = [rcb, rcb.baselines, rcb.behaviour, rcb.plots, rcb.posterior, rcb.users]
    public = {name for room in rooms for name in room.__all__ if callable(getattr(room, name))}
    assert public - called == set(NOT_CALLED)


# --- what the fuzzer itself would find -------------------------------------------------------------------------------


def outcome(function: object, **arguments: object) -> list[str]:
    noted = Outcomes()
    names = tuple(arguments)
    try_call(noted, "planted", Call("planted", "", function, {}, names, ()), dict(arguments))  # pyright: ignore[reportArgumentType]
    return list(noted.counts)


def test_what_is_planted_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.fuzz.subjects.SECONDS", 0.2)
    assert outcome(rcb.Sphere, n_features=2) == ["answered"]
    assert outcome(rcb.Sphere, n_features="a") == ["refused"]
    assert outcome(np.zeros(3).reshape, shape=7) == ["raw error"]
    assert outcome(_asleep, seconds=5) == ["hang"]
    assert outcome(_closes, path=3) == ["answered", "file closed"]


def _asleep(seconds: float) -> None:
    time.sleep(seconds)


def _closes(path: int) -> None:
    with open(path):
        pass
