"""Runs in a zarr store: workers write chunks of worlds, and a lazy Dataset comes back.

A chunk holds a number of worlds that depends on the sizes of the run alone, and is noted as done once all of it is
written. So a run that was stopped goes on where it was, and what a killed worker left half is written again.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.running.naming import name_of, name_of_market
from rcb_bayes.workers import Workers, run_blocks

if TYPE_CHECKING:
    import xarray as xr

_CHUNK_VALUES = 250_000  # of a variable: 2 MB
_MOST_CHUNKS = 64  # of few worlds: so many can be worked on at a time
_RUN, _DONE = "rcb_bayes_run", "progress/done"
World = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How worlds lie in a store: by name, dims and dtype of variables; coordinates; what tells the run."""

    n_worlds: int
    variables: dict[str, tuple[tuple[str, ...], str]]
    coords: dict[str, np.ndarray]
    attrs: dict[str, Any]
    run: dict[str, Any]

    @property
    def chunk(self) -> int:
        """Worlds of a chunk."""
        by_size = _CHUNK_VALUES // max(1, len(self.coords["t"]))
        return max(1, min(by_size, -(-self.n_worlds // _MOST_CHUNKS)))

    @property
    def n_chunks(self) -> int:
        """How many there are."""
        return -(-self.n_worlds // self.chunk)

    def worlds_of(self, chunk: int) -> range:
        """Worlds of one of the chunks."""
        return range(chunk * self.chunk, min(self.n_worlds, (chunk + 1) * self.chunk))


def run_into(
    store: str | os.PathLike[str],
    layout: Layout,
    run: Callable[[Any, int], World],
    *,
    make: Callable[[], Any],
    workers: Workers,
) -> "xr.Dataset":
    """Run the worlds that a store does not have yet; what all of it then holds, lazily.

    Raises
    ------
    RcbError
        A place that cannot be written to, that holds other things or another run, or that gets full on the way.
    """
    place = _as_place(store)
    _prepare(place, layout)
    missing = [int(k) for k in np.flatnonzero(_group(place)[_DONE][:] == 0)]
    if missing:
        shared = partial(_Writer, place, layout, run, make, missing)
        run_blocks(_write, len(missing), make=shared, workers=workers, description="worlds")
    return _opened(place, layout)


def run_name(market: Market, plan: Any, oracle: Any, options: Any, **sizes: Any) -> dict[str, Any]:
    """What tells a run from others, by part: the same for the same run in any process."""
    found: dict[str, Any] = {"version": __version__, **sizes}
    found |= name_of_market(market)
    found |= {"plan": name_of(plan), "oracle": name_of(oracle)}
    found["options"] = None if options is None else {name: repr(value) for name, value in asdict(options).items()}
    return json.loads(json.dumps(found))  # as the store gives it back


# --- workers ---------------------------------------------------------------------------------------------------------


class _Writer:
    """What a worker has of a run into a store."""

    def __init__(
        self,
        place: str,
        layout: Layout,
        run: Callable[[Any, int], World],
        make: Callable[[], Any],
        missing: list[int],
    ) -> None:
        self.group, self.made = _group(place), make()
        self.place, self.layout, self.run, self.missing = place, layout, run, missing


def _write(writer: _Writer, number: int) -> None:
    """Run the worlds of a chunk and write them; then note that it is done."""
    chunk = writer.missing[number]
    worlds = writer.layout.worlds_of(chunk)
    found = [writer.run(writer.made, world) for world in worlds]
    rows = slice(worlds.start, worlds.stop)
    try:
        for name in writer.layout.variables:
            writer.group[name][rows] = np.stack([world[name] for world in found])
        writer.group[_DONE][chunk] = 1
    except OSError as error:
        raise _unwritable(writer.place, error) from None


# --- the store -------------------------------------------------------------------------------------------------------


def _as_place(store: str | os.PathLike[str]) -> str:
    if not isinstance(store, str | os.PathLike) or not str(store).strip():
        raise RcbError(f"store must be the path of a zarr store, such as 'runs.zarr', got {store!r}.")
    text = os.fspath(store)
    return text if "://" in text else str(Path(text).expanduser().absolute())  # workers may be in other folders


def _group(place: str) -> Any:
    import zarr

    return zarr.open_group(place, mode="r+")


def _prepare(place: str, layout: Layout) -> None:
    """Make the store, or see that it is of this run."""
    import zarr
    from zarr.errors import GroupNotFoundError

    if "://" not in place and Path(place).exists() and not Path(place).is_dir():
        raise RcbError(f"store {place} is a file, expected a folder or nothing. Choose another place.")
    try:
        held = zarr.open_group(place, mode="r").attrs.asdict()
    except (GroupNotFoundError, FileNotFoundError):
        held = None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RcbError(f"Cannot read the store {place}: {error}. Choose another place.") from None
    if held is None:
        if "://" not in place and Path(place).is_dir() and any(Path(place).iterdir()):
            raise RcbError(f"The folder {place} holds other files, and no runs. Choose an empty or a new one.")
        _create(place, layout)
        return
    _check(place, held, layout.run)


def _check(place: str, held: dict[str, Any], wanted: dict[str, Any]) -> None:
    run = held.get(_RUN)
    if not isinstance(run, dict):
        raise RcbError(f"The store {place} holds no runs of rcb_bayes. Choose another place.")
    differing = [
        f"{name} {_short(run.get(name))} there, {_short(wanted.get(name))} here"
        for name in sorted({*run, *wanted})
        if run.get(name) != wanted.get(name)
    ]
    if differing:
        raise RcbError(f"The store {place} holds another run: {'; '.join(differing)}. Choose another place.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _create(place: str, layout: Layout) -> None:
    """Arrays of the right shapes; the run's name last, so that what was begun only is not taken for a store."""
    import zarr

    sizes = {"world": layout.n_worlds} | {name: len(values) for name, values in layout.coords.items()}
    try:
        group = zarr.open_group(place, mode="w-", zarr_format=3)
        group.create_array("t", data=layout.coords["t"], dimension_names=("t",))
        group.create_array("world", data=np.arange(layout.n_worlds), dimension_names=("world",))
        for name, (dims, dtype) in layout.variables.items():
            shape = tuple(sizes[dim] for dim in dims)
            chunks = (layout.chunk, *shape[1:])
            group.create_array(name, shape=shape, dtype=dtype, chunks=chunks, dimension_names=dims)
        group.create_array(_DONE, shape=(layout.n_chunks,), chunks=(1,), dtype="int8", fill_value=0)
        group.attrs.update({_RUN: layout.run, "arm": list(layout.coords["arm"])})
    except OSError as error:
        told = getattr(error, "strerror", None) or error
        raise RcbError(f"Cannot make the store {place}: {told}. Choose another place.") from None


def _unwritable(place: str, error: OSError) -> RcbError:
    return RcbError(
        f"Cannot write to the store {place}: {error.strerror or error}. Worlds that are finished are kept there: make "
        "room, or make it writable, and ask for the same again."
    )


def _opened(place: str, layout: Layout) -> "xr.Dataset":
    from importlib.util import find_spec

    import xarray as xr

    lazily = {} if find_spec("dask") is not None else None  # without Dask a variable is read whole when it is used
    data = xr.open_zarr(place, consolidated=False, chunks=lazily)
    counts = [name for name in data.data_vars if name in layout.attrs.get("counts", ())]
    attrs = {name: value for name, value in layout.attrs.items() if name != "counts"}
    attrs |= {str(name): int(data[name].sum()) for name in counts}
    labels = {name: values for name, values in layout.coords.items() if name != "t"}
    data = data[[name for name in layout.variables if name not in counts]].assign_coords(labels)
    data.attrs = attrs
    return data
