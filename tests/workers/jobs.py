"""What workers are given to do in these tests; in a module of its own, so that other processes can import it."""

import os
import signal
import time
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from rcb_bayes.errors import DataError


def three() -> int:
    return 3


def times(made: int, task: int) -> int:
    return made * task


def counted(folder: str) -> Path:
    """Notes each time that something was made, and where."""
    (Path(folder) / f"made-{os.getpid()}-{uuid.uuid4().hex}").touch()
    return Path(folder)


def noted(folder: Path, task: int) -> tuple[int, int]:
    """A task that notes that it was run, and tells by whom."""
    time.sleep(0.01)
    (folder / f"ran-{task}-{uuid.uuid4().hex}").touch()
    return os.getpid(), task


def killed_once(folder: Path, task: int) -> tuple[int, int]:
    """The worker of task 5 is killed the first time."""
    if task == 5 and not (folder / "killed").exists():
        (folder / "killed").touch()
        (folder / f"ran-5-{uuid.uuid4().hex}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return noted(folder, task)


def always_killed(made: int, task: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def failing(made: int, task: int) -> int:
    if task == 2:
        raise DataError("Task 2 cannot be.")
    return task


def warning(made: int, task: int) -> int:
    warnings.warn("a library imports another by its old name", DeprecationWarning, stacklevel=1)
    warnings.warn(f"task {task} is odd", UserWarning, stacklevel=1)
    return task


def threads(made: int, task: int) -> list[int]:
    from threadpoolctl import threadpool_info

    assert (np.ones((4, 4)) @ np.ones((4, 4)))[0, 0] == 4.0  # which loads what multiplies
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def nested(made: int, task: int) -> bool:
    from rcb_bayes.workers import engage

    return engage(2) is None


def slowly(made: int, task: int) -> int:
    time.sleep(0.2)
    return task


def block(made: Any, number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    return {"n": 1, "sums": (rng.standard_normal(7) * 10.0 ** rng.integers(-8, 8, 7), float(rng.random()))}


def other_versions(*_: Any) -> None:
    """Makes a worker one of another version of the package."""
    from rcb_bayes.workers import serving

    serving.versions.cache_clear()
    old = serving.versions
    serving.versions = lambda: old() | {"rcb_bayes": "0.0.1"}  # pyright: ignore[reportAttributeAccessIssue]


def runs_of(folder: Path) -> dict[int, int]:
    """How often each task was run."""
    found: dict[int, int] = {}
    for path in folder.glob("ran-*"):
        task = int(path.name.split("-")[1])
        found[task] = found.get(task, 0) + 1
    return found


def mean_of(made: int, task: tuple[int, int], given: np.ndarray) -> float:
    return made * float(given[:, task[1]].mean())


def told_by(folder: Path, task: tuple[int, int], given: np.ndarray) -> tuple[int, float]:
    time.sleep(0.05)
    return os.getpid(), float(given[0])


def ramp(made: int, size: int) -> np.ndarray:
    return made * np.arange(float(size))
