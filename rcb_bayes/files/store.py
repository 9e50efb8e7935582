"""Folders of results: what is finished is kept, and not computed again when a run is resumed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    """A folder for one run; without a folder nothing is kept.

    A run ``by_itself`` goes on where it is asked for again in the folder, others where they are to be resumed.
    """

    folder: Path | None
    by_itself: bool = False

    def part(self, key: str, make: "Callable[[], xr.Dataset]") -> "xr.Dataset":
        """A finished part, read where it is there, else made and written; a part in another's place is refused."""
        form = part_format(key)
        return self.result(part_file(key), make, save=partial(write_part, form), load=partial(read_part, form))

    def result[T](
        self, name: str, make: Callable[[], T], *, save: Callable[[T, Path], None], load: Callable[[Path], T]
    ) -> T:
        """A finished result in the file of this name, read where it is there, else made and written."""
        if self.has(name):
            assert self.folder is not None  # or it would have nothing
            return load(self.folder / name)
        made = make()
        self.keep(name, made, save=save)
        return made

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return self.folder is not None and (self.folder / name).exists()

    def keep[T](self, name: str, made: T, *, save: Callable[[T, Path], None]) -> None:
        """Write a finished result to the file of this name.

        Raises
        ------
        RcbError
            A disk that is full, a folder that cannot be written to: with what is kept, and what to do.
        """
        if self.folder is None:
            return
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            save(made, target)
        except (OSError, RcbError) as error:
            told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            told = told.removesuffix(" Choose another place.").removesuffix(".")
            told = told if str(target) in told else f"Cannot write {target}: {told}"
            remedy = "ask for the same again in that folder" if self.by_itself else "go on with --resume"
            raise RcbError(
                f"{told}. What was finished before is kept in {self.folder}: make room, or make it writable, and "
                f"{remedy}."
            ) from None


def part_file(key: str) -> str:
    """Where a part of a run lies in its folder."""
    return f"{_PARTS}/{key}.nc"


def part_format(key: str) -> Format:
    """The format of a part of a run, which has its key in it."""
    return Format(name=f"part {key}", version=1, remedy="Delete the file to have the part computed anew.")


def write_part(form: Format, data: "xr.Dataset", path: Path) -> None:
    """Write a part, at once or not at all."""
    write_netcdf(form, data, path)


def read_part(form: Format, path: Path) -> "xr.Dataset":
    """A part as it was written: numbers, truth values and words, in variables without groups."""
    tree = read_netcdf(form, path)
    if len(tree.children) or not len(tree.data_vars):
        raise refused(form, path, "it is no table of results")
    odd = [str(name) for name, part in tree.to_dataset().variables.items() if part.dtype.kind not in "biufOU"]
    if odd:
        raise refused(form, path, f"its variable {odd[0]} has neither numbers nor words")
    return tree.to_dataset()


def open_store(folder: Path | None, parameters: dict[str, Any], *, resume: bool | None) -> Store:
    """A folder for a run with these parameters; ``resume`` None goes on with this very run where it is there.

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
    if folder.exists() and not folder.is_dir():
        raise RcbError(f"{folder} is a file, expected a folder. Choose another place.")
    if folder.exists() and any(folder.iterdir()):
        _check(folder, wanted, resume=resume)
        return Store(folder=folder, by_itself=resume is None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RcbError(f"Cannot make the folder {folder}: {error.strerror}. Choose another place.") from None
    write_atomically(folder / _MANIFEST, as_text(_RUN, wanted).encode("utf-8"))
    return Store(folder=folder, by_itself=resume is None)


def _check(folder: Path, wanted: dict[str, Any], *, resume: bool | None) -> None:
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
    if resume is False:
        raise RcbError(f"The folder {folder} already holds this run. Go on with --resume, or choose another folder.")
