"""Folders of results: finished parts are kept as netCDF, and are not computed again when a run is resumed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, read_netcdf, refused, write_atomically, write_netcdf

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
        if self.folder is None:
            return make()
        target = self.folder / _PARTS / f"{key}.nc"
        if target.exists():
            return _read_part(key, target)
        made = make()
        target.parent.mkdir(parents=True, exist_ok=True)
        write_netcdf(_form(key), made, target)
        return made

    def path(self, name: str) -> Path | None:
        """Where a file of this name goes; None where nothing is kept."""
        return None if self.folder is None else self.folder / name


def _form(key: str) -> Format:
    """A part's own format: a part that was put in another's place is refused."""
    return Format(name=f"part {key}", version=1, remedy="Delete the file to have the part computed anew.")


def _read_part(key: str, path: Path) -> "xr.Dataset":
    """A part as it was written: numbers, truth values and words, in variables without groups."""
    tree = read_netcdf(_form(key), path)
    if len(tree.children) or not len(tree.data_vars):
        raise refused(_form(key), path, "it is no table of results")
    odd = [str(name) for name, part in tree.to_dataset().variables.items() if part.dtype.kind not in "biufOU"]
    if odd:
        raise refused(_form(key), path, f"its variable {odd[0]} has neither numbers nor words")
    return tree.to_dataset()


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
    write_atomically(folder / _MANIFEST, (json.dumps(wanted, indent=1) + "\n").encode("utf-8"))
    return Store(folder=folder)


def _check(folder: Path, wanted: dict[str, Any], *, resume: bool) -> None:
    manifest = folder / _MANIFEST
    if not manifest.exists():
        raise RcbError(f"The folder {folder} holds other files, and no run. Choose an empty or a new one.")
    try:
        held = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RcbError(f"Cannot read {manifest} ({error}). Choose another folder.") from None
    if not isinstance(held, dict):
        raise RcbError(f"Cannot read {manifest} (it tells of no run). Choose another folder.")
    differing = [
        f"{name} {held.get(name)!r} there, {wanted.get(name)!r} here"
        for name in sorted({*held, *wanted})
        if held.get(name) != wanted.get(name)
    ]
    if differing:
        raise RcbError(f"The folder {folder} holds another run: {'; '.join(differing)}. Choose another folder.")
    if not resume:
        raise RcbError(f"The folder {folder} already holds this run. Go on with --resume, or choose another folder.")
