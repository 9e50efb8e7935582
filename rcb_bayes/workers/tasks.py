"""The loop that hands out tasks and takes in what comes of them, whoever does the work."""

import hashlib
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rcb_bayes.errors import WorkersError
from rcb_bayes.telling.progress import progress
from rcb_bayes.workers.asking import Workers, engage
from rcb_bayes.workers.crews import Crew
from rcb_bayes.workers.serving import Answer, Call, versions

_MOST_TRIES = 3


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a run took: tasks done, tasks run again because their worker died, seconds of the last task done."""

    n_done: int = 0
    n_repeated: int = 0
    n_workers: int = 1
    seconds: float = 0.0


def run_tasks[S, T, R](
    function: Callable[[S, T], R],
    tasks: Iterable[T],
    *,
    make: Callable[[], S],
    workers: Workers = None,
    description: str = "tasks",
    total: int | None = None,
    weigh: Callable[[T], int] | None = None,
    tally: Tally | None = None,
) -> Iterator[tuple[int, R]]:
    """Results of ``function(made, task)`` as they are completed, each with the number of its task.

    Parameters
    ----------
    function : callable
        Of what ``make`` gives and a task; the same answer wherever it runs.
    tasks : iterable
        Asked for one by one, when somebody is free.
    make : callable
        What all tasks share, made once in each worker and kept there: a ``functools.partial`` of what takes time to
        compile, with a market or a plan as its arguments, which travel once to each worker.
    workers : None, int, str, Client or Executor
        See ``rcb_bayes.workers``.
    description : str
        Of the progress bar.
    total : int, optional
        What the bar counts up to; the number of tasks unless given.
    weigh : callable, optional
        How much of the total a task is; 1 unless given.
    tally : Tally, optional
        Filled in on the way.

    Yields
    ------
    tuple of int and object
        The task's number, from 0 on, and its result.

    Raises
    ------
    WorkersError
        Workers that are none, that have other versions of the packages, or are lost on the way.

    Applicability
    -------------
    Whoever stops iterating, by Ctrl-C or an error, has the results that came before, and the workers stop: processes of
    this machine are killed, a cluster's tasks are called back. A task whose process died is run again, twice at most.
    """
    tally = Tally() if tally is None else tally
    if total is None:
        tasks = list(tasks)
        total = len(tasks)
    crew = engage(workers, n_tasks=total)
    own = weigh or (lambda task: 1)
    with progress(total, description=description) as advance:
        done = _here(function, tasks, make, tally) if crew is None else _handed_out(function, tasks, make, crew, tally)
        for number, task, value in done:
            tally.n_done += 1
            advance(own(task))
            yield number, value


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold libraries to one thread, as in workers."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def _here[S, T, R](
    function: Callable[[S, T], R], tasks: Iterable[T], make: Callable[[], S], tally: Tally
) -> Iterator[tuple[int, T, R]]:
    """In this process, with one thread as everywhere: a product of matrices by two threads has other last bits."""
    import time

    from threadpoolctl import ThreadpoolController

    made, threads = None, None
    for number, task in enumerate(tasks):
        # All libraries are there once the first task is done: they are looked for twice, and not for every task.
        with one_thread() if number == 0 else (threads := threads or ThreadpoolController()).limit(limits=1):
            if number == 0:
                made = make()
            start = time.perf_counter()
            value = function(made, task)  # pyright: ignore[reportArgumentType]
            tally.seconds = time.perf_counter() - start
        yield number, task, value


def _handed_out[S, T, R](
    function: Callable[[S, T], R], tasks: Iterable[T], make: Callable[[], S], crew: Crew, tally: Tally
) -> Iterator[tuple[int, T, R]]:
    tally.n_workers = crew.n_workers
    finished = False
    try:
        yield from _Shift(function, make, crew, tally).run(tasks)
        finished = True
    finally:
        crew.close(at_once=not finished)


@dataclass(slots=True, eq=False)
class _Order[T]:
    """A task that is to be done: its number, its bytes, and how often it was handed out."""

    number: int
    task: T
    data: bytes
    with_shared: bool
    tries: int = 0


class _Shift:
    """One run over the tasks with a crew."""

    def __init__(self, function: Callable[..., Any], make: Callable[[], Any], crew: Crew, tally: Tally) -> None:
        import cloudpickle

        self.shared = (_packed(lambda: cloudpickle.dumps(function)), _packed(lambda: cloudpickle.dumps(make)))
        self.names = tuple(hashlib.blake2b(part, digest_size=16).hexdigest() for part in self.shared)
        self.crew, self.tally = crew, tally
        self.out: dict[Future[Answer], _Order[Any]] = {}
        self.waiting: deque[_Order[Any]] = deque()
        self.told: set[str] = set()  # workers that have what calls share

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[int, Any, Any]]:
        """All of the tasks, as they are completed."""
        source = enumerate(tasks)
        more = True
        while True:
            while len(self.out) < self.crew.room and (self.waiting or more):
                order = self.waiting.popleft() if self.waiting else self._next(source)
                if order is None:
                    more = False
                else:
                    self._hand_out(order)
            if not self.out:
                return
            ended, _ = wait(self.out, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=lambda one: self.out[one].number):
                order = self.out.pop(future)
                found = self._taken_in(future, order)
                if found is not None:
                    self.tally.seconds = found.seconds
                    for message, filename, line in found.warned:
                        warnings.warn_explicit(message, type(message), filename, line)
                    yield order.number, order.task, found.value

    def _next(self, source: Iterator[tuple[int, Any]]) -> _Order[Any] | None:
        import cloudpickle

        number, task = next(source, (-1, None))
        if number < 0:
            return None
        data = _packed(lambda: cloudpickle.dumps(task))
        return _Order(number, task, data, with_shared=len(self.told) < self.crew.n_workers)

    def _hand_out(self, order: _Order[Any]) -> None:
        order.tries += 1
        shared = self.shared if order.with_shared else None
        function, make = self.names
        call = Call(versions=versions(), function=function, make=make, shared=shared, task=order.data)
        self.out[self.crew.submit(call)] = order

    def _taken_in(self, future: Future[Answer], order: _Order[Any]) -> Answer | None:
        """What a worker answered; None where the task is to be handed out again."""
        error = CancelledError() if future.cancelled() else future.exception()
        if self.crew.release(future):
            if order.tries >= _MOST_TRIES:
                why = "is the memory of this machine too small for so many workers?"
                raise WorkersError(f"A batch ended its process {_MOST_TRIES} times: {why} Ask for fewer.") from error
            self.tally.n_repeated += 1
            order.with_shared = True
            self.waiting.appendleft(order)
            return None
        if error is not None:
            told = self.crew.fault(error)
            if told is not None:
                n = self.tally.n_done
                raise WorkersError(f"{told} {n} batch{'es were' if n != 1 else ' was'} finished by then.") from error
            raise error
        found = future.result()
        if found.kind == "refused":
            raise WorkersError(
                f"The worker {found.worker} has {found.value}. Install the same versions there: answers would differ."
            )
        if found.kind == "needs":
            order.with_shared, order.tries = True, order.tries - 1
            self.waiting.appendleft(order)
            return None
        self.told.add(found.worker)
        return found


def _packed(pack: Callable[[], bytes]) -> bytes:
    try:
        return pack()
    except Exception as error:
        told = " ".join(str(error).split())[:200]
        raise WorkersError(
            f"This cannot be sent to workers: {told}. Leave out workers, or pass what can be pickled."
        ) from error
