"""Progress for anything that takes longer than two seconds: one bar for the whole task, never one inside another.

A terminal and a notebook have a bar, a pipe a line every half minute. What is started within a task that is shown is
a phase of it, told beside its name. Nothing is shown under CI, in workers, and where RCB_PROGRESS is "off".
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

_PATIENCE = 2.0
_BETWEEN_LINES = 30.0  # in pipes
_BETWEEN_DISPLAYS = 0.5  # in notebooks
_hushed = False


def track[T](items: Sequence[T], *, description: str) -> Iterator[T]:
    """Iterate over items, with a progress bar on standard error once two seconds have passed.

    The bar comes after the first item that ends later than that; work that is done sooner writes nothing at all.
    """
    with progress(len(items), description=description) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def progress(total: int | None, *, description: str, by_steps: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar for things that end in any order: call what is given with how many more are done.

    Without a total the task is shown with the time it has taken, and with the phases that are started within it. With
    ``by_steps`` it consists of so many steps, of any length each, which ``begin_step`` begins.
    """
    screen = _screen()
    if screen is None:
        yield lambda n: None
        return
    task = _tasks.of_thread()
    if task is not None:
        with task.phase(description, total) as advance:
            yield advance
        return
    task = _Task(description, total, screen, by_steps=by_steps)
    _tasks.current = task
    try:
        yield task.advance
    finally:
        _tasks.current = None
        task.close()


def hush() -> None:
    """Show nothing in this process from now on: a worker's parent has the bar."""
    global _hushed
    _hushed = True


def begin_step(what: str) -> None:
    """The next step of a task, in its line; outside of one a line of its own, as with ``say``."""
    task = _tasks.of_thread()
    if task is None:
        say(what)
    else:
        task.begin(what)


def say(what: str) -> None:
    """One line on standard error about what is being done; nothing in pipes and under CI."""
    screen = _screen()
    task = _tasks.of_thread()
    if screen is None or not screen.is_live:
        return
    if task is not None:
        task.tell(what)
        return
    sys.stderr.write(f"{what} ...\n")
    sys.stderr.flush()


def announce(what: str) -> None:
    """One line on standard error that is worth knowing in terminals, notebooks and pipes; nothing under CI."""
    if _screen() is not None:
        sys.stderr.write(f"{what}\n")
        sys.stderr.flush()


# --- tasks -----------------------------------------------------------------------------------------------------------


class _Tasks(threading.local):
    """The task that is under way in this thread."""

    current: "_Task | None" = None

    def of_thread(self) -> "_Task | None":
        return self.current


_tasks = _Tasks()


class _Task:
    """What is shown: a description, how far it has come, and what is under way within it."""

    def __init__(self, description: str, total: int | None, screen: "_Screen", *, by_steps: bool) -> None:
        self.description, self.total, self.done = description, total, 0
        self._by_steps, self._step = by_steps, ""
        self._screen = screen
        self._phases: list[list[Any]] = []
        self._start = time.monotonic()

    def advance(self, n: int) -> None:
        """So many more are done."""
        self.done += n
        self._show()

    @contextmanager
    def phase(self, description: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A phase of it, until it ends."""
        own: list[Any] = [description, total, 0]
        self._phases.append(own)
        self._show()

        def advance(n: int) -> None:
            own[2] += n
            self._show()

        try:
            yield advance
        finally:
            with suppress(ValueError):
                self._phases.remove(own)

    def begin(self, what: str) -> None:
        """What is being done from now on, until the next is begun."""
        if self._by_steps and self._step:
            self.done += 1
        self._step = what
        self._show()

    def tell(self, what: str) -> None:
        """What is being done now, in place of a phase's name."""
        self._show(what)

    def _show(self, what: str = "") -> None:
        taken = time.monotonic() - self._start
        if taken > _PATIENCE:
            self._screen.show(
                _Sight(
                    words=f"{self.description}: {self._step}" if self._step else self.description,
                    phase=what or self._phase(),
                    done=self.done,
                    total=self.total,
                    taken=taken,
                    foretells=not self._by_steps,
                )
            )

    def _phase(self) -> str:
        """Of phases one in another the outermost that has parts to count, as it moves most evenly."""
        if not self._phases:
            return ""
        name, total, done = next((phase for phase in self._phases if (phase[1] or 0) > 1), self._phases[-1])
        return name if total is None else f"{name}, {done:,} of {total:,}"

    def close(self) -> None:
        """It is done, or stopped."""
        self._screen.close()


# --- screens ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """A task as it stands: its words, what is under way within it, how much is done, the seconds it took."""

    words: str
    phase: str
    done: int
    total: int | None
    taken: float
    foretells: bool = True

    def line(self) -> str:
        """In a line: how much is done, how long it took, how long it will take."""
        counted = self.total is not None and self.total > 1
        told = f"{self.words}: " if counted and self.foretells else ""
        told = f"{told}{self.done:,} of {self.total:,}" if told else self.words
        told += f" ({self.phase})" if self.phase else ""
        told += f"{', ' if counted or self.phase else ': '}{duration(self.taken)} so far"
        if not self.foretells or self.total is None or not 0 < self.done < self.total:
            return told
        return f"{told}, about {duration(self.taken / self.done * (self.total - self.done))} left"


class _Screen(Protocol):
    """Where progress is shown; ``is_live`` where single steps are told as well."""

    is_live: bool

    def show(self, sight: _Sight) -> None: ...

    def close(self) -> None: ...


class _Terminal:
    """A bar that goes when its task is done."""

    is_live = True

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def show(self, sight: _Sight) -> None:
        words = f"{sight.words}: {sight.phase}" if sight.phase else sight.words
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(words, total=sight.total)
            self._bar.start()
        self._bar.update(self._task, description=words, completed=sight.done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Notebook:
    """A line in the cell's output that goes when its task is done."""

    is_live = False

    def __init__(self) -> None:
        self._handle: Any = None
        self._last = -1.0

    def show(self, sight: _Sight) -> None:
        display = import_module("IPython.display").display  # there is a kernel, so it is installed
        if self._handle is not None and sight.taken - self._last < _BETWEEN_DISPLAYS:
            return
        self._last = sight.taken
        line = {"text/plain": sight.line()}
        if self._handle is None:
            self._handle = display(line, raw=True, display_id=True)
        else:
            self._handle.update(line, raw=True)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
            self._handle = None


class _Pipe:
    """A line now and then."""

    is_live = False

    def __init__(self) -> None:
        self._last = 0.0

    def show(self, sight: _Sight) -> None:
        if sight.taken - self._last < _BETWEEN_LINES:
            return
        self._last = sight.taken
        sys.stderr.write(f"{sight.line()}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Nothing is left to do."""


def _screen() -> _Screen | None:
    if _hushed or os.environ.get("CI") or os.environ.get("RCB_PROGRESS", "").lower() == "off":
        return None
    if sys.stderr.isatty():
        return _Terminal()
    return _Notebook() if _in_notebook() else _Pipe()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    running = shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


def duration(seconds: float) -> str:
    """A time in words, as people say it.

    Examples
    --------
    >>> from rcb_bayes.telling.progress import duration
    >>> duration(8.4), duration(140), duration(9000)
    ('8 s', '2 min', '2.5 h')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
