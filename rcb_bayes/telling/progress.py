"""Progress for anything that takes longer than two seconds: on a terminal, and quiet in pipes and under CI."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

_PATIENCE = 2.0


def track[T](items: Sequence[T], *, description: str) -> Iterator[T]:
    """Iterate over items, with a progress bar on standard error once two seconds have passed.

    The bar comes after the first item that ends later than that; work that is done sooner writes nothing at all.
    """
    if not _is_watched():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=len(items))
    with ExitStack() as stack:
        shown = False
        for item in items:
            yield item
            bar.advance(task)
            if not shown and time.monotonic() - start > _PATIENCE:
                stack.enter_context(bar)
                shown = True


def _is_watched() -> bool:
    return sys.stderr.isatty() and not os.environ.get("CI")


def say(what: str) -> None:
    """One line on standard error about what is being done; nothing in pipes and under CI."""
    if _is_watched():
        sys.stderr.write(f"{what} ...\n")
        sys.stderr.flush()
