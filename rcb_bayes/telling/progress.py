"""Progress for anything that takes longer than two seconds: on a terminal, and quiet in pipes and under CI."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

_PATIENCE = 2.0
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
def progress(total: int, *, description: str) -> Iterator[Callable[[int], None]]:
    """A bar for things that end in any order: call what is given with how many more are done."""
    if not _is_watched():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=total)
    with ExitStack() as stack:
        shown = False

        def advance(n: int) -> None:
            nonlocal shown
            bar.advance(task, n)
            if not shown and time.monotonic() - start > _PATIENCE:
                stack.enter_context(bar)
                shown = True

        yield advance


def hush() -> None:
    """Show nothing in this process from now on: a worker's parent has the bar."""
    global _hushed
    _hushed = True


def _is_watched() -> bool:
    return not _hushed and sys.stderr.isatty() and not os.environ.get("CI")


def say(what: str) -> None:
    """One line on standard error about what is being done; nothing in pipes and under CI."""
    if _is_watched():
        sys.stderr.write(f"{what} ...\n")
        sys.stderr.flush()


def announce(what: str) -> None:
    """One line on standard error that everybody should see: in terminals, notebooks and pipes, and under CI."""
    if not _hushed:
        sys.stderr.write(f"{what}\n")
        sys.stderr.flush()
