"""The loop that hands out tasks and takes in what comes of them, whoever does the work."""

import hashlib
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

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
    function: Callable[..., R],
    tasks: Iterable[T],
    *,
    make: Callable[[], S],
    given: Callable[[T], object] | None = None,
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
        Of what ``make`` gives, a task, and what is given for it, if anything is; the same answer wherever it runs.
    tasks : iterable
        Asked for one by one, when somebody is free.
    make : callable
        What all tasks share, made once in each worker and kept there: a ``functools.partial`` of what takes time to
        compile, with a market or a plan as its arguments, which travel once to each worker.
    given : callable, optional
        What a task is about and shares with those next to it, such as the worlds that they all look at: the same object
        for each of them. It travels once to each worker that has such a task, and is let go of after the next ones.
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
        work = _Work(function=function, make=make, given=given)
        done = _here(work, tasks, tally) if crew is None else _handed_out(work, tasks, crew, tally)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What is to be done with every task."""

    function: Callable[..., Any]
    make: Callable[[], Any]
    given: Callable[[Any], object] | None


def _here[T](work: _Work, tasks: Iterable[T], tally: Tally) -> Iterator[tuple[int, T, Any]]:
    """In this process, with one thread as everywhere: a product of matrices by two threads has other last bits."""
    import time

    from threadpoolctl import ThreadpoolController

    made, threads = None, None
    for number, task in enumerate(tasks):
        # All libraries are there once the first task is done: they are looked for twice, and not for every task.
        with one_thread() if number == 0 else (threads := threads or ThreadpoolController()).limit(limits=1):
            if number == 0:
                made = work.make()
            start = time.perf_counter()
            value = work.function(made, task, *(() if work.given is None else (work.given(task),)))
            tally.seconds = time.perf_counter() - start
        yield number, task, value


def _handed_out[T](work: _Work, tasks: Iterable[T], crew: Crew, tally: Tally) -> Iterator[tuple[int, T, Any]]:
    tally.n_workers = crew.n_workers
    finished = False
    try:
        yield from _Shift(work, crew, tally).run(tasks)
        finished = True
    finally:
        crew.close(at_once=not finished)


@dataclass(slots=True, eq=False)
class _Order[T]:
    """A task that is to be done: its number, its bytes, what it shares with others, how often it was handed out."""

    number: int
    task: T
    data: bytes
    given: "_Pack | None"
    complete: bool = False  # whether it is to bring all that it shares
    tries: int = 0


class _Pack:
    """Something that travels once to each worker: its bytes, a name by which it is known, and who has it."""

    def __init__(self, value: object, *, name: str | None = None) -> None:
        self.value = value  # held, so that no other object is taken for it
        self.data = _packed(value)
        self.name = name or hashlib.blake2b(self.data, digest_size=16).hexdigest()
        self.sent: set[str] = set()  # to whom, where that is known
        self.had: set[str] = set()  # by whom, as they said

    def is_known(self, worker: str | None, n_workers: int) -> bool:
        """Whether a worker has it; where nobody knows who is next, whether as many have it as there are."""
        return worker in self.sent if worker is not None else len(self.had) >= n_workers


class _Shift:
    """One run over the tasks with a crew."""

    def __init__(self, work: _Work, crew: Crew, tally: Tally) -> None:
        self.function, self.make, self.given_of = _Pack(work.function), _Pack(work.make), work.given
        self.latest: _Pack | None = None  # what the last task that was taken up is about
        self.crew, self.tally = crew, tally
        self.out: dict[Future[Answer], _Order[Any]] = {}
        self.waiting: deque[_Order[Any]] = deque()

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
            if self.given_of is not None and more and not self.waiting:
                order = self._next(source)  # packed while everybody works
                more = order is not None
                self.waiting.extend([] if order is None else [order])
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
        number, task = next(source, (-1, None))
        if number < 0:
            return None
        if self.given_of is not None:
            given = self.given_of(task)
            if self.latest is None or self.latest.value is not given:
                self.latest = _Pack(given, name=uuid4().hex)  # large, and of this run only: no need of a fingerprint
        return _Order(number, task, _packed(task), self.latest)

    def _hand_out(self, order: _Order[Any]) -> None:
        order.tries += 1
        who, n = self.crew.next_worker, self.crew.n_workers
        packs = [pack for pack in (self.function, self.make, order.given) if pack is not None]
        sent = [pack for pack in packs if order.complete or not pack.is_known(who, n)]
        call = Call(
            versions=versions(),
            function=self.function.name,
            make=self.make.name,
            given=None if order.given is None else order.given.name,
            parts={pack.name: pack.data for pack in sent},
            task=order.data,
        )
        self.out[self.crew.submit(call)] = order
        if who is not None:
            for pack in sent:
                pack.sent.add(who)

    def _taken_in(self, future: Future[Answer], order: _Order[Any]) -> Answer | None:
        """What a worker answered; None where the task is to be handed out again."""
        error = CancelledError() if future.cancelled() else future.exception()
        if self.crew.release(future):
            if order.tries >= _MOST_TRIES:
                why = "is the memory of this machine too small for so many workers?"
                raise WorkersError(f"A batch ended its process {_MOST_TRIES} times: {why} Ask for fewer.") from error
            self.tally.n_repeated += 1
            order.complete = True
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
            order.complete, order.tries = True, order.tries - 1
            self.waiting.appendleft(order)
            return None
        for pack in (self.function, self.make, order.given):
            if pack is not None:
                pack.had.add(found.worker)
        return found


def _packed(value: object) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        told = " ".join(str(error).split())[:200]
        raise WorkersError(
            f"This cannot be sent to workers: {told}. Leave out workers, or pass what can be pickled."
        ) from error
