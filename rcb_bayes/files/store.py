"""Folders of results: what is finished is kept, and not computed again when a run is resumed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.files.envelope import Format, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.files.netcdf import read_netcdf, write_netcdf

if TYPE_CHECKING:
    import xarray as xr

_MANIFEST = "run.json"
_PARTS = "cells"
_RUN = Format(name="run", version=1, remedy="Choose another folder.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A folder for one run; without a folder nothing is kept."""

    folder: Path | None

    def part(self, key: str, make: "Callable[[], xr.Dataset]") -> "xr.Dataset":
        """A finished part, read where it is there, else made and written; a part in another's place is refused."""
        form = Format(name=f"part {key}", version=1, remedy="Delete the file to have the part computed anew.")
        return self.result(
            f"{_PARTS}/{key}.nc",
            make,
            save=lambda data, path: write_netcdf(form, data, path),
            load=lambda path: _read_part(form, path),
        )

    def result[T](
        self, name: str, make: Callable[[], T], *, save: Callable[[T, Path], None], load: Callable[[Path], T]
    ) -> T:
        """A finished result in the file of this name, read where it is there, else made and written."""
        if self.folder is None:
            return make()
        target = self.folder / name
        if target.exists():
            return load(target)
        made = make()
        target.parent.mkdir(parents=True, exist_ok=True)
        save(made, target)
        return made


def _read_part(form: Format, path: Path) -> "xr.Dataset":
    """A part as it was written: numbers, truth values and words, in variables without groups."""
    tree = read_netcdf(form, path)
    if len(tree.children) or not len(tree.data_vars):
        raise refused(form, path, "it is no table of results")
    odd = [str(name) for name, part in tree.to_dataset().variables.items() if part.dtype.kind not in "biufOU"]
    if odd:
        raise refused(form, path, f"its variable {odd[0]} has neither numbers nor words")
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
    wanted = json.loads(json.dumps({"version": __version__, **parameters}))  # as the file gives it back
    if folder.exists() and any(folder.iterdir()):
        _check(folder, wanted, resume=resume)
        return Store(folder=folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _MANIFEST, as_text(_RUN, wanted).encode("utf-8"))
    return Store(folder=folder)


def _check(folder: Path, wanted: dict[str, Any], *, resume: bool) -> None:
    manifest = folder / _MANIFEST
    if not manifest.exists():
        raise RcbError(f"The folder {folder} holds other files, and no run. Choose an empty or a new one.")
    held = content_of(_RUN, read_text(_RUN, manifest), where=manifest)
    differing = [
        f"{name} {held.get(name)!r} there, {wanted.get(name)!r} here"
        for name in sorted({*held, *wanted})
        if held.get(name) != wanted.get(name)
    ]
    if differing:
        raise RcbError(f"The folder {folder} holds another run: {'; '.join(differing)}. Choose another folder.")
    if not resume:
        raise RcbError(f"The folder {folder} already holds this run. Go on with --resume, or choose another folder.")
