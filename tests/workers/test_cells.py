"""Cells of long runs: kept one by one, gone on with, and one line where they cannot be kept."""

import errno
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import Store, open_store
from rcb_bayes.workers import run_cells

PARAMETERS = {"experiment": "test"}


def cell(folder: str, number: int) -> xr.Dataset:
    (Path(folder) / f"ran-{number}-{os.urandom(4).hex()}").touch()
    return xr.Dataset({"value": ("world", [0.1 * number, 2.0])})


def cells(folder: Path, n: int = 4) -> dict[str, Any]:
    return {f"cell-{k}": partial(cell, str(folder), k) for k in range(n)}


@pytest.mark.parametrize("workers", [None, 2])
def test_finished_cells_are_read(tmp_path: Path, workers: int | None) -> None:
    noted, out = tmp_path / "noted", tmp_path / "out"
    noted.mkdir()
    first = run_cells(open_store(out, PARAMETERS, resume=False), cells(noted), workers=workers)
    assert [part["value"].values[0] for part in first] == [0.0, 0.1, 0.2, pytest.approx(0.3)]
    (out / "cells" / "cell-2.nc").unlink()
    again = run_cells(open_store(out, PARAMETERS, resume=True), cells(noted), workers=workers)
    for one, other in zip(first, again, strict=True):
        xr.testing.assert_identical(one, other)
    assert len(list(noted.glob("ran-*"))) == 5  # one of them again


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    assert len(run_cells(Store(folder=None), cells(tmp_path))) == 4


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "No space left on device"), (errno.EROFS, "Read-only")])
def test_a_place_that_cannot_be_written_to_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    store = open_store(tmp_path / "out", PARAMETERS, resume=False)
    run_cells(store, cells(tmp_path, 2))
    replace = os.replace

    def full(one: Any, other: Any) -> None:
        if str(other).endswith(".nc"):
            raise OSError(number, os.strerror(number))
        replace(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(
            RcbError, match=rf"{words}.*What was finished before is kept in .*go on with --resume"
        ) as told:
            run_cells(store, cells(tmp_path))
    assert "\n" not in str(told.value)
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 2  # nothing half
    assert len(run_cells(store, cells(tmp_path))) == 4


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RcbError, match=r"is a file, expected a folder"):
        open_store(tmp_path / "file", PARAMETERS, resume=None)
    with pytest.raises(RcbError, match=r"Cannot make the folder .*: .* Choose another place"):
        open_store(tmp_path / "file" / "out", PARAMETERS, resume=None)


def test_the_same_again_goes_on_by_itself_and_another_run_is_refused(tmp_path: Path) -> None:
    run_cells(open_store(tmp_path / "out", PARAMETERS, resume=None), cells(tmp_path))
    open_store(tmp_path / "out", PARAMETERS, resume=None)
    with pytest.raises(RcbError, match=r"holds another run: experiment 'test' there, 'other' here"):
        open_store(tmp_path / "out", {"experiment": "other"}, resume=None)
