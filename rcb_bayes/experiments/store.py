"""Folders of results: finished parts are kept as netCDF, and are not computed again when a run is resumed."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError

if TYPE_CHECKING:
    import xarray as xr

_MANIFEST = "run.json"
_PARTS = "cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A folder for one run; without a folder nothing is kept."""

    folder: Path | None

    def part(self, key: str, make: "Callable[[], xr.Dataset]") -> "xr.Dataset":
        """A finished part, read where it is there, else made and written."""
        import xarray as xr

        if self.folder is None:
            return make()
        target = self.folder / _PARTS / f"{key}.nc"
        if target.exists():
            with xr.open_dataset(target, engine="h5netcdf") as found:
                return found.load()
        made = make()
        target.parent.mkdir(parents=True, exist_ok=True)
        # Written under another name first: a run that is stopped leaves no half of a part behind.
        unfinished = target.with_suffix(".unfinished")
        made.to_netcdf(unfinished, engine="h5netcdf")
        os.replace(unfinished, target)
        return made

    def path(self, name: str) -> Path | None:
        """Where a file of this name goes; None where nothing is kept."""
        return None if self.folder is None else self.folder / name


def open_store(folder: Path | None, parameters: dict[str, Any], *, resume: bool) -> Store:
    """A folder for a run with these parameters.

    Raises
    ------
    RcbError
        A folder that holds another run, or files of another kind; nothing to resume in.
    """
    if folder is None:
        if resume:
            raise RcbError("There is nothing to resume without a folder. Name it: --out DIR.")
        return Store(folder=None)
    wanted = {"version": __version__, **parameters}
    if folder.exists() and any(folder.iterdir()):
        _check(folder, wanted, resume=resume)
        return Store(folder=folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MANIFEST).write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
    return Store(folder=folder)


def _check(folder: Path, wanted: dict[str, Any], *, resume: bool) -> None:
    manifest = folder / _MANIFEST
    if not manifest.exists():
        raise RcbError(f"The folder {folder} holds other files, and no run. Choose an empty or a new one.")
    try:
        held = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise RcbError(f"Cannot read {manifest} ({error}). Choose another folder.") from None
    differing = [
        f"{name} {held.get(name)!r} there, {wanted.get(name)!r} here"
        for name in sorted({*held, *wanted})
        if held.get(name) != wanted.get(name)
    ]
    if differing:
        raise RcbError(f"The folder {folder} holds another run: {'; '.join(differing)}. Choose another folder.")
    if not resume:
        raise RcbError(f"The folder {folder} already holds this run. Go on with --resume, or choose another folder.")
