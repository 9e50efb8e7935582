"""Ctrl-C: it goes through the package, and on the command line stops at once with 130 and says what is kept."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rcb_bayes.cli import main, stopping
from rcb_bayes.errors import is_interrupt
from rcb_bayes.posterior.nuts import _finished

ROOT = Path(__file__).parents[2]
SMALL = ("--set", "n_arms=2", "--set", "n_features=2")


class Panic(BaseException):
    """As Rust's are to Python: no Exception."""


class Sampler:
    """One that ends with an error, and takes note of being cancelled."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.cancelled = error, False

    def wait(self) -> None:
        raise self.error

    def cancel(self) -> None:
        self.cancelled = True


def caused(error: BaseException) -> BaseException:
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), caused(SystemError("a result")), caused(Panic())])
def test_whatever_comes_of_ctrl_c_is_one(error: BaseException) -> None:
    assert is_interrupt(error)
    sampler = Sampler(error)
    with pytest.raises(KeyboardInterrupt):
        _finished(sampler)
    assert sampler.cancelled


@pytest.mark.parametrize("error", [ValueError("no"), Panic()])
def test_other_errors_are_not(error: BaseException) -> None:
    error.__context__ = error  # errors may go round in circles
    assert not is_interrupt(error)
    with pytest.raises(type(error)):
        _finished(Sampler(error))


def test_what_is_kept_is_said() -> None:
    stopping.forget_kept()
    assert stopping.words() == "stopped. Nothing was written."
    stopping.keep(Path("plan.json"))
    assert stopping.words() == "stopped. Written before that: plan.json"
    stopping.keep_parts("Finished cells are kept in out: go on with --resume.")
    assert stopping.words() == "stopped. Finished cells are kept in out: go on with --resume."
    stopping.forget_kept()


# --- real signals ----------------------------------------------------------------------------------------------------


def run(program: str, *words: str, folder: Path, limit: float = 120) -> subprocess.CompletedProcess[str]:
    """A program of its own in an empty folder; ``send(seconds)`` in it sends Ctrl-C to itself."""
    given = f"""
        import os, signal, sys, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have jobs in the background ignore it
        def send(seconds):
            timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            timer.start()
        sys.argv[1:] = {list(words)!r}
        from rcb_bayes.cli import main
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    environment.pop("RCB_DEBUG", None)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(given) + textwrap.dedent(program)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=limit,
    )


def assert_stopped(done: subprocess.CompletedProcess[str], kept: str = "Nothing was written.") -> None:
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines() == [f"rcb: stopped. {kept}"]


def test_a_command_that_is_stopped_exits_with_130(tmp_path: Path) -> None:
    """In the midst of a plan of thousands of worlds."""
    more = ("--n-per-arm", "50", "--worlds", "200000", "--out", str(tmp_path / "out"))
    program = """
        from rcb_bayes.auditing import calibration
        original = calibration.calibrate
        def calibrate(*arguments, **options):
            send(1.0)
            return original(*arguments, **options)
        calibration.calibrate = calibrate
        main()
    """
    assert_stopped(run(program, "calibrate", "setting_4", *SMALL, *more, folder=tmp_path))
    assert not (tmp_path / "out").exists()


def test_while_the_belief_is_built(tmp_path: Path) -> None:
    """A model file's errors are told as its own; this one is not."""
    source = "import os, signal\n\ndef build_model():\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(10**6))\n"
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    words = ("check", "mine.py", "--covariates", "sphere", "--noise", "0.1")
    assert_stopped(run("main()", *words, folder=tmp_path))


SWALLOWS = """
    from rcb_bayes.cli import models
    def gallery():
        send(0.2)
        left = {times}
        while left:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                left -= 1
        time.sleep(60)
    models.gallery = gallery
    main()
"""


def test_one_that_is_swallowed_is_raised_again(tmp_path: Path) -> None:
    """As callbacks of compiled code do it."""
    assert_stopped(run(SWALLOWS.format(times=1), "models", folder=tmp_path))


def test_one_that_is_lost_in_a_callback_is_raised_again_without_noise(tmp_path: Path) -> None:
    """Compiled code that calls Python back cannot pass an exception on: it is printed, and gone."""
    program = """
        import ctypes
        from rcb_bayes.cli import models
        def gallery():
            send(0.2)
            ctypes.CFUNCTYPE(None)(lambda: time.sleep(2))()
            time.sleep(60)
        models.gallery = gallery
        main()
    """
    assert_stopped(run(program, "models", folder=tmp_path))


@pytest.mark.slow
def test_code_that_swallows_all_of_them_is_ended(tmp_path: Path) -> None:
    assert_stopped(run(SWALLOWS.format(times=10**6), "models", folder=tmp_path))


def test_after_the_work_is_done_it_is_too_late(tmp_path: Path) -> None:
    program = """
        import atexit
        atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
        main()
    """
    done = run(program, "models", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_write_that_is_stopped_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("old", encoding="utf-8")
    program = """
        from pathlib import Path
        original = Path.write_bytes
        def write_bytes(self, data):
            original(self, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        Path.write_bytes = write_bytes
        main()
    """
    assert_stopped(run(program, "models", "--json", "result.json", folder=tmp_path))
    assert (tmp_path / "result.json").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_cells_that_are_finished_are_kept(tmp_path: Path) -> None:
    program = """
        from rcb_bayes.studies.paper import reproduction
        def run_cell(*arguments, **options):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        reproduction.run_cell = run_cell
        main()
    """
    done = run(program, "reproduce", "setting-1", "--fast", "--out", "out", folder=tmp_path)
    assert_stopped(done, "Finished cells are kept in out: go on with --resume.")


@pytest.mark.slow
def test_python_gets_a_keyboard_interrupt_from_nuts(tmp_path: Path) -> None:
    """Ten at different moments of one chain after another; nutpie alone would hand over half a trace."""
    program = """
        from rcb_bayes import GaussianNoise, load_prior
        from rcb_bayes.posterior import Statistics
        from rcb_bayes.posterior.nuts import NutsEngine, NutsSettings
        prior = load_prior("hierarchical", n_arms=2, n_features=2)
        settings = NutsSettings(draws=4_000, retry=False)
        engine = NutsEngine(prior, GaussianNoise(0.3), settings=settings)
        one = Statistics.from_rows([[1.0, 0.0], [0.0, 1.0]], arm=[0, 1], reward=[1.0, 0.0], n_arms=2)
        engine.fit(one)
        stopped = 0
        for k in range(10):
            send(0.01 + 0.03 * k)
            try:
                while True:
                    engine.fit(one)
            except KeyboardInterrupt:
                stopped += 1
        print("stopped", stopped)
    """
    done = run(program, folder=tmp_path)
    assert done.stdout.strip() == "stopped 10", done.stderr


BELIEFS: dict[str, Any] = {"setting_4": (1, 2, 4), "student_t": (2, 4, 8), "hierarchical": (3, 6, 12)}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "calibrate", "audit", "report", "simulate"])
@pytest.mark.parametrize(("belief", "seconds"), [(name, s) for name, moments in BELIEFS.items() for s in moments])
def test_at_any_moment(command: str, belief: str, seconds: int, tmp_path: Path) -> None:
    """A command that ends before that has its own verdict."""
    done = run(f"send({seconds})\nmain()", command, belief, *SMALL, folder=tmp_path)
    if done.returncode in (0, 1, 3):
        assert "rcb:" not in done.stderr
    else:
        assert_stopped(done)


def test_whoever_calls_the_command_line_in_python_still_hears_it(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert signal.getsignal(signal.SIGINT) is before
    assert "rcb-bayes" in capsys.readouterr().out


def test_the_signal_is_what_it_is() -> None:
    assert stopping.STOPPED == 128 + signal.SIGINT
