"""Who does the work: processes of this machine, a Dask cluster, or an executor of somebody's own.

To the loop that hands out tasks all of them are executors of ``concurrent.futures``. At home each worker is a loky
executor of one process: a killed process breaks its own executor only, where a pool of several would give up on the
tasks of all.
"""

import os
import time
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from typing import Any, Protocol

from rcb_bayes.errors import WorkersError
from rcb_bayes.workers.serving import Answer, Call, answer, begin_worker

_IDLE_SECONDS = 300
_CONNECT_SECONDS = 10
_ASK_SECONDS = 2.0
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
# Memory that is let go of is kept for the next array: the system would clear it anew, page by page (glibc).
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**29)}


class Crew(Protocol):
    """Workers, as the loop over tasks sees them."""

    @property
    def n_workers(self) -> int:
        """Processes that work at the same time."""
        ...

    @property
    def room(self) -> int:
        """Calls that may be out at the same time."""
        ...

    @property
    def next_worker(self) -> str | None:
        """Who gets the next call, if that is known; another name where that is another process."""
        ...

    @property
    def is_near(self) -> bool:
        """Whether workers may look into this process's memory."""
        ...

    def submit(self, call: Call) -> "Future[Answer]":
        """Hand out a call; there are never more than ``room`` at a time."""
        ...

    def release(self, future: "Future[Answer]") -> bool:
        """Note that a call has ended; True where its worker died and it is to be handed out again."""
        ...

    def fault(self, error: BaseException) -> str | None:
        """What is wrong with the workers, in a line, if that is what the error says."""
        ...

    def close(self, *, at_once: bool) -> None:
        """Nothing more will be handed out; at once: what is being worked on is no longer wanted."""
        ...


class HomeCrew:
    """Processes of this machine, kept from one run to the next."""

    is_near = True
    _idle: "list[Executor]" = []  # noqa: RUF012 - of all crews of this process

    def __init__(self, n_workers: int) -> None:
        self.n_workers = self.room = n_workers
        self._free = [self._idle.pop() if self._idle else _process() for _ in range(n_workers)]
        self._busy: dict[Future[Answer], Executor] = {}
        self._known: list[Executor] = []  # all of this run, so that no two are known by one number

    @property
    def next_worker(self) -> str | None:
        """A process, by its number in this run."""
        if self._free[-1] not in self._known:
            self._known.append(self._free[-1])
        return str(self._known.index(self._free[-1]))

    def submit(self, call: Call) -> "Future[Answer]":
        """To a process that is free; one that died while nobody looked is replaced."""
        one = self._free.pop()
        try:
            future = one.submit(answer, call)
        except (BrokenExecutor, RuntimeError):
            one = _process()
            future = one.submit(answer, call)
        self._busy[future] = one
        return future

    def release(self, future: "Future[Answer]") -> bool:
        """A process that died is replaced; its task alone is to be handed out again."""
        one = self._busy.pop(future)
        died = isinstance(future.exception(), BrokenExecutor)
        if died:
            one.shutdown(wait=False)
            one = _process()
        self._free.append(one)
        return died

    def fault(self, error: BaseException) -> str | None:
        """Nothing but death is wrong with a process of one's own, and that is seen to."""
        return None

    def close(self, *, at_once: bool) -> None:
        """Keep the processes, or kill them."""
        if at_once:
            for one in [*self._free, *self._busy.values()]:
                _kill(one)
        else:
            self._idle.extend(self._free)
        self._free, self._busy = [], {}


def _process() -> Executor:
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    return ProcessPoolExecutor(
        1, timeout=_IDLE_SECONDS, initializer=begin_worker, initargs=(os.getpid(),), env=_ONE_THREAD | _KEPT_MEMORY
    )


def _kill(one: Any) -> None:
    with suppress(AttributeError), one._work_ids.mutex:  # loky's thread dies of calls that it gave up before they began
        one._work_ids.queue.clear()
    with suppress(Exception):
        one.shutdown(wait=True, kill_workers=True)


def dismiss() -> None:
    """End the processes that are kept from one run to the next."""
    while HomeCrew._idle:
        _kill(HomeCrew._idle.pop())


class _Lent:
    """Somebody else decides who works on what, and sees to what breaks."""

    is_near = False
    _out: "set[Future[Answer]]"

    @property
    def next_worker(self) -> None:
        """Nobody knows."""

    def release(self, future: "Future[Answer]") -> bool:
        """Never handed out again."""
        self._out.discard(future)
        return False


class ExecutorCrew(_Lent):
    """An executor of somebody's own: it is neither shut down nor mended."""

    def __init__(self, executor: Executor) -> None:
        self.n_workers = int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)
        self.room = 2 * self.n_workers
        self._executor = executor
        self._out: set[Future[Answer]] = set()

    def submit(self, call: Call) -> "Future[Answer]":
        """To the executor."""
        try:
            future = self._executor.submit(answer, call)
        except RuntimeError as error:  # a pool that broke is one of these, too
            raise WorkersError(self.fault(error) or str(error)) from error
        self._out.add(future)
        return future

    def fault(self, error: BaseException) -> str | None:
        """A pool that lost a process, or was shut down."""
        name = type(self._executor).__name__
        if isinstance(error, BrokenExecutor):
            return f"A process of the executor ({name}) died, and with it the executor. Pass a new one, or workers=2."
        if isinstance(error, RuntimeError) and "shutdown" in str(error):
            return f"The executor ({name}) is shut down. Pass one that is open, or a number of processes: workers=2."
        return None

    def close(self, *, at_once: bool) -> None:
        """Call back what has not been begun; the executor itself is its owner's."""
        for future in self._out:
            future.cancel()


class ClusterCrew(_Lent):
    """The workers of a Dask cluster, by its client; the scheduler itself sees to workers that die."""

    def __init__(self, client: Any, *, owned: bool) -> None:
        self.address = _address_of(client)
        self.client, self._owned = client, owned
        self._n_workers, self._ask_again = 1, 0.0
        self._executor = client.get_executor(pure=False)
        self._out: set[Future[Answer]] = set()
        self._check()

    @property
    def n_workers(self) -> int:
        """Worker processes at present; a cluster may grow, and is asked now and then."""
        if time.monotonic() > self._ask_again:
            with suppress(Exception):
                self._n_workers = max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))
            self._ask_again = time.monotonic() + _ASK_SECONDS
        return self._n_workers

    @property
    def room(self) -> int:
        """Some more wait at the scheduler, so that no worker does."""
        return 4 * self.n_workers

    def submit(self, call: Call) -> "Future[Answer]":
        """To the scheduler."""
        try:
            future = self._executor.submit(answer, call)
        except Exception as error:
            raise WorkersError(self._lost()) from error
        self._out.add(future)
        return future

    def fault(self, error: BaseException) -> str | None:
        """A connection that is lost, a task that ended every worker it was given to, a worker without the package."""
        from concurrent.futures import CancelledError

        if type(error).__name__ == "KilledWorker":
            return f"A batch ended every worker of {self.address} that it was given to: is their memory too small?"
        if isinstance(error, ImportError) or ("rcb_bayes" in str(error) and "deserialize" in str(error).lower()):
            return f"A worker of {self.address} lacks a package ({error}). Install the same versions on all workers."
        if isinstance(error, CancelledError) or self.client.status != "running":
            return self._lost()
        return None

    def close(self, *, at_once: bool) -> None:
        """Call back what is not finished; a connection of our own is closed."""
        for future in self._out:
            with suppress(Exception):
                future.cancel()
        if self._owned:
            with suppress(Exception):
                self.client.close(timeout=_CONNECT_SECONDS)

    def _lost(self) -> str:
        return f"The connection to the Dask scheduler at {self.address} was lost. Start it again, then ask once more."

    def _check(self) -> None:
        if self.client.status != "running":
            raise WorkersError(f"The Dask client for {self.address} is closed. Pass one that is open.")
        with suppress(Exception):
            self.client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
            return
        self.close(at_once=True)
        raise WorkersError(f"The Dask scheduler at {self.address} has no workers. Start some: dask worker ADDRESS.")


def connect(address: str) -> ClusterCrew:
    """The crew of the Dask scheduler at an address.

    Raises
    ------
    WorkersError
        No ``distributed`` here, nobody at the address, or no workers there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise WorkersError("A Dask cluster needs the package distributed: pip install 'rcb-bayes[cluster]'.") from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        told = " ".join(str(error).split())[:200]
        raise WorkersError(
            f"There is no Dask scheduler at {address!r} ({told or type(error).__name__}). "
            "Expected an address such as tcp://10.0.0.1:8786."
        ) from None
    return ClusterCrew(client, owned=True)


def _address_of(client: Any) -> str:
    with suppress(Exception):
        return str(client.scheduler.address)
    return "an unknown address"
