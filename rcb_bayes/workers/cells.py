"""Cells of a long run: those that a folder has are read, the others are handed out and kept one by one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import WorkersError
from rcb_bayes.files.store import Store, part_file, part_format, read_part, write_part
from rcb_bayes.workers.asking import Workers
from rcb_bayes.workers.tasks import Tally, run_tasks

if TYPE_CHECKING:
    import xarray as xr


def run_cells(
    store: Store,
    cells: "Mapping[str, Callable[[], xr.Dataset]]",
    *,
    workers: Workers = None,
    work: Callable[[str], float] | None = None,
    description: str = "cells",
) -> "list[xr.Dataset]":
    """Every cell, by its key, as a part of the store; ``work`` is of a key; see ``run_kept``."""
    return run_kept(
        store,
        {part_file(key): (key, make) for key, make in cells.items()},
        function=_made,
        make=_nothing,
        save=lambda task, data, path: write_part(part_format(task[0]), data, path),
        load=lambda task, path: read_part(part_format(task[0]), path),
        workers=workers,
        work=None if work is None else lambda task: work(task[0]),
        description=description,
    )


def run_kept[S, T, R](
    store: Store,
    tasks: Mapping[str, T],
    *,
    function: Callable[[S, T], R],
    make: Callable[[], S],
    save: Callable[[T, R, Path], None],
    load: Callable[[T, Path], R],
    workers: Workers = None,
    work: Callable[[T], float] | None = None,
    description: str = "cells",
    tally: Tally | None = None,
) -> list[R]:
    """Results of tasks in their order, each from its file in the store, or done and kept there at once.

    Parameters
    ----------
    store : Store
        Where results are kept; without a folder they are not.
    tasks : mapping of str to object
        By the name of the result's file.
    function, make : callable
        See ``run_tasks``.
    save : callable
        Of a task, its result and a path: writes it there, at once or not at all.
    load : callable
        Of a task and a path: reads it.
    workers : None, int, str, Client or Executor
        See ``rcb_bayes.workers``.
    work : callable, optional
        How long a task takes beside others, in any unit. The longest go first: workers then end at about the same time.
    description : str
        Of the progress bar.
    tally : Tally, optional
        Filled in on the way.

    Raises
    ------
    RcbError
        A folder that cannot be written to: with what is kept, and what to do.
    WorkersError
        Workers that are none, or are lost on the way.

    Applicability
    -------------
    Whoever is stopped, or killed, loses the tasks that were being worked on, one for each worker.
    """
    names = list(tasks)
    found: dict[str, Any] = {}
    if store.folder is not None:
        found = {name: load(tasks[name], store.folder / name) for name in names if store.has(name)}
    missing = [name for name in names if name not in found]
    if work is not None:
        missing.sort(key=lambda name: -work(tasks[name]))
    todo = [tasks[name] for name in missing]
    done = run_tasks(function, todo, make=make, workers=workers, description=description, tally=tally)
    with _saying_what_is_kept(store):
        for number, value in done:
            name = missing[number]
            store.keep(name, value, save=partial(save, tasks[name]))
            found[name] = value
    return [found[name] for name in names]


@contextmanager
def _saying_what_is_kept(store: Store) -> Iterator[None]:
    """Of workers that are lost, also where what they finished is."""
    try:
        yield
    except WorkersError as error:
        if store.folder is None:
            raise
        raise WorkersError(f"{error} What was finished is kept in {store.folder}.") from error


def _nothing() -> None:
    return None


def _made(_: None, task: "tuple[str, Callable[[], xr.Dataset]]") -> "xr.Dataset":
    return task[1]()
