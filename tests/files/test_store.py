"""Folders: finished parts are kept, another run is refused."""

from pathlib import Path

import pytest
import xarray as xr

from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import open_store

PARAMETERS = {"experiment": "setting-1", "n_worlds": 2, "seed": 1}


def part() -> xr.Dataset:
    return xr.Dataset({"regret": ("world", [1.0, 2.0]), "note": ("run", ["a"])}, attrs={"n_arms": 2, "fixed": [10, 20]})


def test_a_finished_part_is_read_not_made_again(tmp_path: Path):
    first = open_store(tmp_path / "out", PARAMETERS, resume=False).part("a", part)

    def never() -> xr.Dataset:
        raise AssertionError("made again")

    again = open_store(tmp_path / "out", PARAMETERS, resume=True).part("a", never)
    xr.testing.assert_equal(first, again)
    assert again.attrs["n_arms"] == 2
    assert again["note"].item() == "a"


def test_a_part_that_was_not_finished_is_made_again(tmp_path: Path):
    store = open_store(tmp_path / "out", PARAMETERS, resume=False)

    def stopped() -> xr.Dataset:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.part("a", stopped)
    assert open_store(tmp_path / "out", PARAMETERS, resume=True).part("a", part)["regret"].sum() == 3.0


def test_a_result_of_any_kind_is_kept(tmp_path: Path):
    def save(text: str, path: Path) -> None:
        path.write_text(text)

    def kept(resume: bool, made: str) -> str:
        store = open_store(tmp_path / "out", PARAMETERS, resume=resume)
        return store.result("note.txt", lambda: made, save=save, load=Path.read_text)

    assert kept(False, "first") == kept(True, "second") == "first"


def test_a_part_in_another_s_place_is_refused(tmp_path: Path):
    store = open_store(tmp_path, PARAMETERS, resume=False)
    store.part("a", part)
    (tmp_path / "cells" / "a.nc").rename(tmp_path / "cells" / "b.nc")
    with pytest.raises(RcbError, match="its format is 'rcb_bayes part a', expected 'rcb_bayes part b'"):
        store.part("b", part)


def test_a_digit_of_what_was_asked_is_not_changed_unseen(tmp_path: Path):
    open_store(tmp_path, PARAMETERS, resume=False)
    told = tmp_path / "run.json"
    told.write_text(told.read_text(encoding="utf-8").replace('"n_worlds": 2', '"n_worlds": 3'), encoding="utf-8")
    with pytest.raises(RcbError, match=r"Cannot read a run from .*a digit was changed"):
        open_store(tmp_path, PARAMETERS | {"n_worlds": 3}, resume=True)


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    store = open_store(None, PARAMETERS, resume=False)
    assert store.part("a", part)["regret"].sum() == 3.0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parameters", "resume", "message"),
    [
        (PARAMETERS, False, "already holds this run"),
        (PARAMETERS | {"seed": 2}, True, "holds another run: seed 1 there, 2 here"),
        (PARAMETERS | {"seed": 2}, False, "holds another run"),
    ],
)
def test_another_run_is_refused(tmp_path: Path, parameters: dict, resume: bool, message: str):
    open_store(tmp_path, PARAMETERS, resume=False)
    with pytest.raises(RcbError, match=message):
        open_store(tmp_path, parameters, resume=resume)


def test_other_files_and_damaged_ones_are_refused(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RcbError, match="holds other files"):
        open_store(tmp_path, PARAMETERS, resume=True)
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(RcbError, match="Cannot read"):
        open_store(tmp_path, PARAMETERS, resume=True)
    with pytest.raises(RcbError, match="nothing to resume"):
        open_store(None, PARAMETERS, resume=True)
