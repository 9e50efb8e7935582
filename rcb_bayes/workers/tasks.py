"""The loop that hands out tasks and takes in what comes of them, whoever does the work."""

import hashlib
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rcb_bayes.errors import WorkersError
from rcb_bayes.telling.progress import progress
from rcb_bayes.workers.asking import Workers, engage
from rcb_bayes.workers.crews import Crew
from rcb_bayes.workers.parcels import Hidden, Shared, opened, shared
from rcb_bayes.workers.serving import Answer, Call, versions

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_MOST_TRIES = 3


@dataclass(slots=True, kw_only=True)
class Tally:
    """What runs took: tasks done, tasks run again because their worker died, seconds of the last task done.

    ``worked`` are seconds of the processor for tasks, ``readied`` those of workers for what tasks share.
    """

    n_done: int = 0
    n_repeated: int = 0
    n_workers: int = 1
    seconds: float = 0.0
    worked: float = 0.0
    readied: float = 0.0

    def add(self, *, worked: float, readied: float) -> None:
        """A task is done."""
        self.n_done += 1
        self.worked += worked
        self.readied += readied


_watched: ContextVar["Tally | None"] = ContextVar("_watched", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """What all runs within took together, whoever asks for them."""
    tally = Tally()
    token = _watched.set(tally)
    try:
        yield tally
    finally:
        _watched.reset(token)


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
    tally, watched = Tally() if tally is None else tally, _watched.get()
    if total is None:
        tasks = list(tasks)
        total = len(tasks)
    crew = engage(workers, n_tasks=total)
    own = weigh or (lambda task: 1)
    with progress(total, description=description) as advance:
        work = _Work(function=function, make=make, given=given)
        done = _here(work, tasks) if crew is None else _handed_out(work, tasks, crew, tally)
        for number, task, found in done:
            tally.seconds = found.seconds
            for one in (tally, watched):
                if one is not None:
                    one.add(worked=found.worked, readied=found.readied)
            advance(own(task))
            yield number, found.value


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold libraries to one thread, as in workers."""
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> "ThreadpoolController":
    """The libraries that have threads: looked for anew, which takes milliseconds, where modules have come since."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What is to be done with every task."""

    function: Callable[..., Any]
    make: Callable[[], Any]
    given: Callable[[Any], object] | None


def _here[T](work: _Work, tasks: Iterable[T]) -> Iterator[tuple[int, T, Answer]]:
    """In this process, with one thread as everywhere: a product of matrices by two threads has other last bits."""
    import time

    made = None
    for number, task in enumerate(tasks):
        with one_thread():
            if number == 0:
                made = work.make()
            start, began = time.perf_counter(), time.thread_time()
            inside = _watched.set(None)  # what a task runs is part of it
            try:
                value = work.function(made, task, *(() if work.given is None else (work.given(task),)))
            finally:
                _watched.reset(inside)
            seconds, worked = time.perf_counter() - start, time.thread_time() - began
        yield number, task, Answer(kind="done", worker="here", value=value, seconds=seconds, worked=worked)


def _handed_out[T](work: _Work, tasks: Iterable[T], crew: Crew, tally: Tally) -> Iterator[tuple[int, T, Answer]]:
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
    """Something that travels once to each worker: its bytes, a name by which it is known, and who has it.

    Where workers are near they look into the memory that it is in, unless they say that they cannot.
    """

    def __init__(self, value: object, *, name: str | None = None, near: bool = False) -> None:
        self.value = value  # held, so that no other object is taken for it
        self._parcel = _pickled(shared, value) if near else None
        self._data: bytes | None = None
        self.name = name or hashlib.blake2b(self.data, digest_size=16).hexdigest()
        self.sent: set[str] = set()  # to whom, where that is known
        self.had: set[str] = set()  # by whom, as they said

    @property
    def data(self) -> bytes:
        """Its bytes."""
        if self._data is None:
            self._data = _packed(self.value)
        return self._data

    def part(self, *, as_bytes: bool) -> "bytes | Shared":
        """What a call brings of it."""
        return self.data if as_bytes or self._parcel is None else self._parcel.told

    def is_known(self, worker: str | None, n_workers: int) -> bool:
        """Whether a worker has it; where nobody knows who is next, whether as many have it as there are."""
        return worker in self.sent if worker is not None else len(self.had) >= n_workers


class _Queue:
    """Tasks that are to be taken up: in their order, or, of those about something, by who has that already."""

    def __init__(self, tasks: Iterable[Any], given_of: Callable[[Any], object] | None, *, near: bool) -> None:
        self._source = enumerate(tasks)
        self._piles: list[_Pile] = []
        if given_of is None:
            return
        for number, task in self._source:
            given = given_of(task)
            if not self._piles or self._piles[-1].given is not given:
                self._piles.append(_Pile(given=given, near=near))
            self._piles[-1].tasks.append((number, task))

    def next(self, worker: str | None) -> _Order[Any] | None:
        """The next task for a worker: about what it has, else about what nobody has, else about what most is left of.

        So what tasks are about goes to one worker each, until workers help one another at the end.
        """
        for number, task in self._source:
            return _Order(number, task, _packed(task), None)
        self._piles = [pile for pile in self._piles if pile.tasks]
        if not self._piles:
            return None
        pile = self._piles[0]
        if worker is not None:
            own = [one for one in self._piles if worker in one.sent]
            fresh = [one for one in self._piles if not one.sent]
            pile = [*own, *fresh, max(self._piles, key=lambda one: len(one.tasks))][0]
        number, task = pile.tasks.popleft()
        return _Order(number, task, _packed(task), pile.packed())

    def look_ahead(self) -> None:
        """Pack what nobody has yet, while everybody works."""
        fresh = next((pile for pile in self._piles if pile.tasks and not pile.sent), None)
        if fresh is not None:
            fresh.packed()


@dataclass(slots=True, kw_only=True, eq=False)
class _Pile:
    """Tasks about the same thing, with their numbers."""

    given: object
    near: bool
    tasks: deque[tuple[int, Any]] = field(default_factory=deque)
    pack: _Pack | None = None

    @property
    def sent(self) -> set[str]:
        """To whom what they are about was sent."""
        return set() if self.pack is None else self.pack.sent

    def packed(self) -> _Pack:
        """What they are about: large, and of this run only, so that it needs no fingerprint."""
        self.pack = self.pack or _Pack(self.given, name=uuid4().hex, near=self.near)
        return self.pack


class _Shift:
    """One run over the tasks with a crew."""

    def __init__(self, work: _Work, crew: Crew, tally: Tally) -> None:
        self.function, self.make, self.given_of = _Pack(work.function), _Pack(work.make), work.given
        self.crew, self.tally = crew, tally
        self.out: dict[Future[Answer], _Order[Any]] = {}
        self.waiting: deque[_Order[Any]] = deque()

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[int, Any, Answer]]:
        """All of the tasks, as they are completed."""
        queue = _Queue(tasks, self.given_of, near=self.crew.is_near)
        more = True
        while True:
            while len(self.out) < self.crew.room and (self.waiting or more):
                order = self.waiting.popleft() if self.waiting else queue.next(self.crew.next_worker)
                if order is None:
                    more = False
                else:
                    self._hand_out(order)
            if not self.out:
                return
            queue.look_ahead()
            ended, _ = wait(self.out, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=lambda one: self.out[one].number):
                order = self.out.pop(future)
                found = self._taken_in(future, order)
                if found is not None:
                    for message, filename, line in found.warned:
                        warnings.warn_explicit(message, type(message), filename, line)
                    yield order.number, order.task, found

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
            parts={pack.name: pack.part(as_bytes=order.complete) for pack in sent},
            task=order.data,
            near=self.crew.is_near,
        )
        self.out[self.crew.submit(call)] = order
        if who is not None:
            for pack in sent:
                pack.sent.add(who)

    def _taken_in(self, future: Future[Answer], order: _Order[Any]) -> Answer | None:
        """What a worker answered; None where the task is to be handed out again."""
        error = CancelledError() if future.cancelled() else future.exception()
        found = None if error is not None else future.result()
        value, is_lost = _value_of(found)
        if self.crew.release(future) or is_lost:
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
        assert found is not None  # or there was an error
        if found.kind == "refused":
            raise WorkersError(
                f"The worker {found.worker} has {found.value}. Install the same versions there, on "
                "processors of one type (OPENBLAS_CORETYPE and NUMBA_CPU_NAME name one for all): answers would differ."
            )
        if found.kind == "needs":
            order.complete, order.tries = True, order.tries - 1
            self.waiting.appendleft(order)
            return None
        for pack in (self.function, self.make, order.given):
            if pack is not None:
                pack.had.add(found.worker)
        return replace(found, value=value)


def _value_of(found: Answer | None) -> tuple[Any, bool]:
    """What was answered, and whether it is lost: its worker died before anybody looked."""
    if found is None or not isinstance(found.value, Shared):
        return None if found is None else found.value, False
    try:
        return opened(found.value), False
    except Hidden:
        return None, True


def _packed(value: object) -> bytes:
    import cloudpickle

    return _pickled(cloudpickle.dumps, value)


def _pickled[R](how: Callable[[object], R], value: object) -> R:
    try:
        return how(value)
    except Exception as error:
        told = " ".join(str(error).split())[:200]
        raise WorkersError(
            f"This cannot be sent to workers: {told}. Leave out workers, or pass what can be pickled."
        ) from error
