"""Progress bars: on a terminal, after two seconds, and never in pipes or under CI."""

import gc
import io
import sys
import types
from contextlib import redirect_stderr

import pytest

from rcb_bayes.telling import progress


class Terminal(io.StringIO):
    """Standard error of someone who watches."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass when an item is worked on."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress.time, "monotonic", made.monotonic)
    return made


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch):
    for name in ("CI", "RCB_PROGRESS", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def work(clock: Clock, *, items: int, seconds: float, stream: io.StringIO) -> list[int]:
    """Go through some items, with the stream as standard error."""
    done = []
    with redirect_stderr(stream):
        for item in progress.track(range(items), description="Sampling worlds"):
            clock.now += seconds
            done.append(item)
    return done


def test_long_work_shows(clock: Clock):
    terminal = Terminal()
    assert work(clock, items=4, seconds=1.5, stream=terminal) == [0, 1, 2, 3]
    assert "Sampling worlds" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_short_work_does_not(clock: Clock):
    terminal = Terminal()
    assert work(clock, items=4, seconds=0.3, stream=terminal) == [0, 1, 2, 3]
    assert terminal.getvalue() == ""


def test_pipes_stay_clean(clock: Clock):
    pipe = io.StringIO()
    assert work(clock, items=4, seconds=5.0, stream=pipe) == [0, 1, 2, 3]
    assert pipe.getvalue() == ""


def test_continuous_integration_stays_clean(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CI", "true")
    terminal = Terminal()
    assert work(clock, items=4, seconds=5.0, stream=terminal) == [0, 1, 2, 3]
    assert terminal.getvalue() == ""


def test_nothing_goes_to_standard_output(clock: Clock, capsys: pytest.CaptureFixture[str]):
    work(clock, items=4, seconds=5.0, stream=Terminal())
    assert capsys.readouterr().out == ""


def test_errors_come_through_and_the_cursor_comes_back(clock: Clock):
    def fail_at(last: int) -> None:
        for item in progress.track(range(4), description="Sampling worlds"):
            clock.now += 5.0
            if item == last:
                raise RuntimeError("stop")

    terminal = Terminal()
    with redirect_stderr(terminal), pytest.raises(RuntimeError, match="stop"):
        fail_at(2)
    gc.collect()  # the bar goes with its generator
    assert "Sampling worlds" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1


def test_one_inside_the_other(clock: Clock):
    terminal = Terminal()
    with redirect_stderr(terminal):
        for _ in progress.track(range(2), description="Outer"):
            assert work(clock, items=2, seconds=3.0, stream=terminal) == [0, 1]
    assert "Outer" in terminal.getvalue()


def test_what_is_started_within_a_task_is_a_phase_of_it_and_no_bar_of_its_own(clock: Clock):
    terminal = Terminal()
    with redirect_stderr(terminal), progress.progress(None, description="Planning"):
        work(clock, items=3, seconds=3.0, stream=terminal)
        progress.say("how wrong it may be")
    told = terminal.getvalue()
    assert "Planning: Sampling worlds, 1 of 3" in told
    assert told.count("\x1b[?25l") == told.count("\x1b[?25h") == 1  # one cursor hidden, one bar
    assert "\nSampling worlds" not in told


def test_a_pipe_has_a_line_now_and_then(clock: Clock):
    pipe = io.StringIO()
    work(clock, items=10, seconds=12.0, stream=pipe)
    lines = pipe.getvalue().splitlines()
    assert lines[0] == "Sampling worlds: 3 of 10, 36 s so far, about 84 s left"
    assert len(lines) == 3
    assert lines[-1] == "Sampling worlds: 9 of 10, 2 min so far, about 12 s left"


class Handle:
    """What IPython hands out for a display that can be changed."""

    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, line: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(line["text/plain"])


def test_a_pipe_has_what_is_done_first_and_what_is_under_way_behind_it(clock: Clock):
    pipe = io.StringIO()
    with redirect_stderr(pipe):
        for _ in progress.track(range(4), description="plans"):
            work(clock, items=2, seconds=18.0, stream=pipe)
    assert pipe.getvalue().splitlines()[1] == "plans: 1 of 4 (Sampling worlds, 2 of 2), 72 s so far, about 4 min left"


def test_a_notebook_has_a_line_that_goes(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    shown: list[str] = []

    def display(line: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        shown.append(line["text/plain"])
        return Handle(shown)

    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=1)  # type: ignore[attr-defined]
    inner = types.ModuleType("IPython.display")
    inner.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    work(clock, items=4, seconds=1.5, stream=io.StringIO())
    assert shown == [
        "Sampling worlds: 2 of 4, 3 s so far, about 3 s left",
        "Sampling worlds: 3 of 4, 4 s so far, about 2 s left",
        "Sampling worlds: 4 of 4, 6 s so far",
        "",
    ]
    work(clock, items=4, seconds=0.1, stream=io.StringIO())
    assert len(shown) == 4


def test_it_can_be_switched_off(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RCB_PROGRESS", "off")
    terminal = Terminal()
    work(clock, items=4, seconds=5.0, stream=terminal)
    assert terminal.getvalue() == ""


def test_no_items(clock: Clock):
    assert work(clock, items=0, seconds=1.0, stream=Terminal()) == []


def test_steps_are_told_to_those_who_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    with redirect_stderr(Terminal()) as watched:
        progress.say("planning")
        monkeypatch.setenv("CI", "1")
        progress.say("auditing")
    assert watched.getvalue() == "planning ...\n"
    with redirect_stderr(io.StringIO()) as pipe:
        progress.say("planning")
    assert not pipe.getvalue()


def test_a_task_of_steps_tells_its_step_and_the_outermost_phase_that_can_be_counted(clock: Clock) -> None:
    pipe = io.StringIO()
    with redirect_stderr(pipe), progress.progress(8, description="Report", by_steps=True):
        progress.begin_step("planning")
        progress.begin_step("plans at other values of epsilon")
        for _ in progress.track(range(9), description="plans"):
            for _ in progress.track(range(3), description="levels"):
                clock.now += 12.0
    told = pipe.getvalue().splitlines()
    assert told[0] == "Report: plans at other values of epsilon (plans, 0 of 9), 36 s so far"
    assert len(told) == 9
    with redirect_stderr(pipe), progress.progress(8, description="Report", by_steps=True):
        clock.now += 60.0
        progress.begin_step("planning")
    assert pipe.getvalue().splitlines()[-1] == "Report: planning, 60 s so far"
