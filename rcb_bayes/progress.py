"""Progress for anything that takes longer than two seconds: on a terminal, and quiet in pipes and under CI."""

import os
import sys
import time
from collections.abc import Iterator, Sequence

_PATIENCE = 2.0


def track[T](items: Sequence[T], *, description: str) -> Iterator[T]:
    """Iterate over items, with a progress bar on standard error once two seconds have passed."""
    if not _is_watched():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task(description, total=len(items), visible=False)
        for item in items:
            yield item
            bar.update(task, advance=1, visible=time.monotonic() - start > _PATIENCE)


def _is_watched() -> bool:
    return sys.stderr.isatty() and not os.environ.get("CI")
