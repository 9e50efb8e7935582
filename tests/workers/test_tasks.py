"""Tasks handed out: the same answers whoever works, nothing lost when a worker is, one line where none can be had."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rcb_bayes.errors import DataError, RcbError, WorkersError
from rcb_bayes.workers import Tally, crews, run_tasks, serving
from rcb_bayes.workers.crews import dismiss
from tests.workers import jobs

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module", autouse=True)
def _no_workers_are_left() -> Iterator[None]:
    yield
    dismiss()


def crew(name: str) -> Any:
    return {"none": None, "one": 1, "two": 2, "words": "2", "threads": ThreadPoolExecutor(2)}[name]


@pytest.mark.parametrize("name", ["none", "one", "two", "words", "threads"])
def test_every_task_is_answered_with_its_number(name: str) -> None:
    tally = Tally()
    found = dict(run_tasks(jobs.times, range(20), make=jobs.three, workers=crew(name), tally=tally))
    assert found == {k: 3 * k for k in range(20)}
    assert (tally.n_done, tally.n_repeated) == (20, 0)


def test_a_pool_of_one_s_own_serves(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        make = partial(jobs.counted, str(tmp_path))
        found = dict(run_tasks(jobs.noted, range(20), make=make, workers=pool))
    assert sorted(task for _, task in found.values()) == list(range(20))
    assert os.getpid() not in {who for who, _ in found.values()}
    assert len(list(tmp_path.glob("made-*"))) <= 2  # once a worker, who asks for it where it has it not


def test_what_is_shared_is_made_once_a_worker_and_kept_for_other_runs(tmp_path: Path) -> None:
    make = partial(jobs.counted, str(tmp_path))
    for function in (jobs.noted, jobs.killed_once):  # another function of the same
        (tmp_path / "killed").touch()
        who = {pid for _, (pid, _) in run_tasks(function, range(8), make=make, workers=2)}
        assert os.getpid() not in who
    assert len(list(tmp_path.glob("made-*"))) == 2


def test_a_killed_worker_costs_its_task_only(tmp_path: Path) -> None:
    tally = Tally()
    make = partial(jobs.counted, str(tmp_path))
    found = dict(run_tasks(jobs.killed_once, range(30), make=make, workers=2, tally=tally))
    assert {task for _, task in found.values()} == set(range(30))
    assert tally.n_repeated == 1
    assert jobs.runs_of(tmp_path) == {k: 2 if k == 5 else 1 for k in range(30)}


def test_a_task_that_ends_its_worker_every_time_is_given_up() -> None:
    with pytest.raises(WorkersError, match=r"ended its process 3 times: is the memory .* too small"):
        list(run_tasks(jobs.always_killed, range(2), make=jobs.three, workers=2))


def test_errors_of_tasks_are_theirs() -> None:
    for workers in (None, 2):
        with pytest.raises(DataError, match="Task 2 cannot be"):
            list(run_tasks(jobs.failing, range(5), make=jobs.three, workers=workers))


def test_warnings_of_workers_are_told_here() -> None:
    with pytest.warns(UserWarning, match="task 1 is odd") as told:
        list(run_tasks(jobs.warning, [1], make=jobs.three, workers=2))
    assert not [one for one in told if issubclass(one.category, DeprecationWarning)]


def test_libraries_have_one_thread_everywhere() -> None:
    for workers in (None, 2):
        for _, found in run_tasks(jobs.threads, range(2), make=jobs.three, workers=workers):
            assert set(found) <= {1}


def test_workers_have_no_workers_of_their_own() -> None:
    assert dict(run_tasks(jobs.nested, range(2), make=jobs.three, workers=2)) == {0: True, 1: True}


def test_who_stops_early_has_what_was_finished_and_stops_the_workers() -> None:
    found = []
    start = time.monotonic()
    for _, value in run_tasks(jobs.slowly, range(1000), make=jobs.three, workers=2):
        found.append(value)
        if len(found) == 2:
            break
    assert len(found) == 2
    assert time.monotonic() - start < 100  # 1,000 tasks take more


# --- what cannot be workers ------------------------------------------------------------------------------------------


def shut_down() -> Executor:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    return pool


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (0, "workers must be 1 to 64 processes on this machine, got 0. None: this process"),
        ("0", "got 0"),
        (-2, "got -2"),
        (10**6, "got 1000000"),
        (True, "got bool"),
        (2.0, "got float"),
        ([2], "got list"),
        ("", "got an empty text"),
        ("nowhere", "There is no Dask scheduler at 'nowhere'"),
        ("tcp://127.0.0.1:notaport", "There is no Dask scheduler at"),
        (shut_down(), "The executor .ThreadPoolExecutor. is shut down. Pass one that is open"),
    ],
)
def test_what_is_no_worker_is_refused_in_a_line(workers: Any, message: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(WorkersError, match=message) as caught:
        list(run_tasks(jobs.times, range(3), make=jobs.three, workers=workers))
    assert "\n" not in str(caught.value)


def test_a_worker_of_another_version_is_refused_by_name() -> None:
    with (
        ProcessPoolExecutor(1, mp_context=SPAWN, initializer=jobs.other_versions) as pool,
        pytest.raises(WorkersError, match=r"The worker .*, process \d+ has rcb_bayes 0\.0\.1 \(here .*\)\. Install"),
    ):
        list(run_tasks(jobs.times, range(3), make=jobs.three, workers=pool))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OPENBLAS_CORETYPE", "Nehalem", r"has BLAS openblas .*Nehalem \(here openblas "),
        ("NUMBA_CPU_NAME", "nehalem", r"has Numba for nehalem \(here "),
    ],
)
def test_a_worker_that_computes_for_another_processor_is_refused_by_name(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of matrices have other last bits there: plans, audits and runs changed with it."""
    if variable == "OPENBLAS_CORETYPE" and "openblas" not in serving.versions()["BLAS"]:
        pytest.skip("another BLAS")
    serving.versions()  # kept: it is this process's own
    monkeypatch.setenv(variable, value)
    with (
        ProcessPoolExecutor(1, mp_context=SPAWN) as pool,
        pytest.raises(WorkersError, match=r"The worker .*, process \d+ " + message),
    ):
        list(run_tasks(jobs.times, range(3), make=jobs.three, workers=pool))


def test_a_pool_that_breaks_is_told_with_what_was_finished() -> None:
    with (
        ProcessPoolExecutor(1, mp_context=SPAWN) as pool,
        pytest.raises(WorkersError, match=r"A process of the executor .* died"),
    ):
        list(run_tasks(jobs.always_killed, range(3), make=jobs.three, workers=pool))


def test_what_cannot_travel_is_refused() -> None:
    lock: Any = threading.Lock()
    with pytest.raises(RcbError, match="This cannot be sent to workers"):
        list(run_tasks(jobs.times, [lock], make=jobs.three, workers=2))


# --- signals ---------------------------------------------------------------------------------------------------------

SCRIPT = """
    import sys
    from rcb_bayes.workers import run_tasks
    from tests.workers import jobs

    if __name__ == "__main__":
        try:
            for number, value in run_tasks(jobs.slowly, range(1000), make=jobs.three, workers=2):
                print(value, flush=True)
        except KeyboardInterrupt:
            print("stopped", flush=True)
"""


def started(tmp_path: Path) -> "subprocess.Popen[str]":
    """A run over two workers, in a group of its own as a terminal has it."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, str(script)], env=environment, start_new_session=True, **pipes)


def workers_of(pid: int) -> list[Any]:
    import psutil

    return [one for one in psutil.Process(pid).children(recursive=True) if "popen_loky" in " ".join(one.cmdline())]


def test_a_process_is_killed_without_a_word_before_its_call_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C right after a call was handed out."""
    errors: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    for _ in range(4):
        one = crews._process()
        one.submit(time.sleep, 0).result()
        called = one.submit(time.sleep, 30)
        crews._kill(one)
        assert called.exception(timeout=10) is not None
    assert errors == []


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(tmp_path: Path, kind: signal.Signals) -> None:
    psutil = pytest.importorskip("psutil")
    with started(tmp_path) as parent:
        assert parent.stdout is not None
        first = parent.stdout.readline().strip()
        assert first.isdecimal()
        found = workers_of(parent.pid)
        assert len(found) >= 2
        if kind is signal.SIGINT:
            os.killpg(parent.pid, kind)  # as a terminal does: to all of them
        else:
            parent.kill()
        out, err = parent.communicate(timeout=60)
    if kind is signal.SIGINT:
        assert out.strip().endswith("stopped")
        assert err == ""
    _, alive = psutil.wait_procs(found, timeout=30)
    assert alive == []
