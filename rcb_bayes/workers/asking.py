"""What ``workers=`` may be: nothing, a number, a scheduler's address, a Dask client, an executor."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import WorkersError
from rcb_bayes.workers.crews import ClusterCrew, Crew, ExecutorCrew, HomeCrew, connect
from rcb_bayes.workers.serving import in_worker

if TYPE_CHECKING:
    from distributed import Client

    Workers = int | str | Client | Executor | None
else:
    Workers = Any

_EXPECTED = (
    "workers must be None (this process), a number of processes, the address of a Dask scheduler, "
    "a dask.distributed.Client or a concurrent.futures.Executor"
)


def check_workers(workers: "Workers") -> "Workers":
    """Refuse what cannot be workers, without engaging any; a number in words becomes one.

    Raises
    ------
    WorkersError
        A number below 1 or far above that of the cores, or another thing than the five.
    """
    if isinstance(workers, str) and workers.strip().lstrip("+-").isdecimal():
        workers = int(workers)
    if workers is None or isinstance(workers, Executor) or _is_client(workers):
        return workers
    if isinstance(workers, str):
        if not workers.strip():
            raise WorkersError(f"{_EXPECTED}, got an empty text.")
        return workers.strip()
    if isinstance(workers, bool) or not isinstance(workers, Integral):
        raise WorkersError(f"{_EXPECTED}, got {type(workers).__name__}.")
    most = max(64, 4 * (os.cpu_count() or 1))
    if not 1 <= int(workers) <= most:
        raise WorkersError(f"workers must be 1 to {most} processes on this machine, got {workers}. None: this process.")
    return int(workers)


def engage(workers: "Workers", *, n_tasks: int | None = None) -> Crew | None:
    """The crew that is asked for; None where this process is to do it: for None, 1, and inside a worker.

    Raises
    ------
    WorkersError
        What ``check_workers`` refuses; nobody at an address; a client that is closed.
    """
    workers = check_workers(workers)
    if workers is None or workers == 1 or in_worker():
        return None
    if isinstance(workers, int):
        return HomeCrew(workers if n_tasks is None else max(1, min(workers, n_tasks)))
    if isinstance(workers, str):
        return connect(workers)
    if isinstance(workers, Executor):
        return ExecutorCrew(workers)
    return ClusterCrew(workers, owned=False)


@contextmanager
def at_work(workers: "Workers") -> Iterator["Workers"]:
    """The same workers for several runs: one connection to a cluster that is given by its address.

    Raises
    ------
    WorkersError
        What ``check_workers`` refuses; nobody at an address.
    """
    workers = check_workers(workers)
    if not isinstance(workers, str) or in_worker():
        yield workers
        return
    crew = connect(workers)
    try:
        yield crew.client
    finally:
        crew.close(at_once=False)


def _is_client(workers: object) -> bool:
    """Whether this is a client of Dask, which is not imported to find out."""
    return any(f"{kind.__module__}.{kind.__name__}" == "distributed.client.Client" for kind in type(workers).__mro__)
