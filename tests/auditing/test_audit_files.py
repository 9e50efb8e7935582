"""Audits as files: any netCDF reader opens them, and what contradicts itself is refused."""

import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

from rcb_bayes import Audit
from rcb_bayes.auditing.audit_files import FORM
from rcb_bayes.errors import RcbError
from rcb_bayes.files.netcdf import sealed
from tests.fuzz.subjects import audit_meaning, audits

pytestmark = pytest.mark.usefixtures("small_panels")


@cache
def written(name: str) -> bytes:
    """An audit's file, written once."""
    with TemporaryDirectory() as folder:
        audits()[name].to_netcdf(Path(folder) / "audit.nc")
        return (Path(folder) / "audit.nc").read_bytes()


@pytest.mark.parametrize("name", ["user", "definition", "fixed", "log"])
def test_every_kind_of_audit_comes_back(name: str, tmp_path: Path):
    audits()[name].to_netcdf(tmp_path / "audit.nc")
    assert audit_meaning(Audit.load(tmp_path / "audit.nc")) == audit_meaning(audits()[name])


def test_other_readers_do_not_mind_the_digest(tmp_path: Path):
    audit = audits()["user"]
    audit.to_netcdf(tmp_path / "audit.nc")
    with xr.open_datatree(tmp_path / "audit.nc", engine="h5netcdf") as tree:
        assert tree.attrs["verdict"] == audit.verdict
        assert tree.attrs["epsilon"] == audit.epsilon


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_a_changed_byte_is_refused(where: float, tmp_path: Path):
    path = tmp_path / "audit.nc"
    data = bytearray(written("user"))
    data[int(where * len(data))] ^= 1
    path.write_bytes(data)
    with pytest.raises(RcbError, match="a digit was changed"):
        Audit.load(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(RcbError, match="cut off"):
        Audit.load(path)


def test_what_users_know_is_kept_and_not_told_where_nobody_says(tmp_path: Path):
    audit = audits()["user"]
    assert audit.knows == audit.margins.attrs["knows"] == "stage"
    audit.save(tmp_path / "audit.nc")
    assert Audit.load(tmp_path / "audit.nc").knows == "stage"
    untold = {name: without_knows(part) for name, part in audit.by_notion.items()}
    replace(audit, knows=None, by_notion=untold).save(tmp_path / "untold.nc")
    found = Audit.load(tmp_path / "untold.nc")
    assert found.knows is None
    assert "users know" not in found.summary()


def without_knows(part: xr.Dataset) -> xr.Dataset:
    found = part.copy()
    found.attrs = {name: value for name, value in part.attrs.items() if name != "knows"}
    return found


def put(place: str, value: float, at: Any = ...) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        file[place][at] = value  # pyright: ignore[reportIndexIssue]

    return change


def tell(name: str, value: Any) -> Callable[[h5py.File], None]:
    return lambda file: file.attrs.__setitem__(name, value)


def claim(file: h5py.File) -> None:
    del file["margins/user/estimate"]
    file.create_dataset("margins/user/estimate", shape=(10**12,), dtype="f8", chunks=(1024,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (tell("verdict", "pass"), "its verdict is pass, and its margins say fail"),
        (tell("verdict", "perhaps"), "verdict"),
        (tell("epsilon", -1.0), "epsilon"),
        (tell("epsilon", np.nan), "epsilon"),
        (tell("n_worlds", 0), "n_worlds"),
        (tell("n_random", 10**6), "drawn at random"),
        (tell("level", 2.0), "level"),
        (tell("knows", "nothing"), "knows"),
        (tell("knows", "phase"), "say knows stage, and it is phase"),
        (tell("other", 2.0), "unknown field `other`"),
        (put("margins/user/verdict", 0), "verdicts without estimates|contradicts"),
        (put("margins/user/lower", 10.0), "not between its bounds"),
        (put("margins/user/mcse", -1.0), "negative"),
        (put("margins/user/mass", 2.0), "not in \\[0, 1\\]"),
        (put("margins/user/estimate", np.nan), "without estimates"),
        (put("compliance/share", 2.0), "in \\[0, 1\\]"),
        (put("compliance/epsilon", 0.0), "increase"),
        (put("users", np.inf), "finite"),
        (lambda file: file.__delitem__("margins/user/lower"), "lack lower"),
        (lambda file: file.__delitem__("margins"), "users, compliance and margins"),
        (claim, "claim"),
    ],
)
def test_what_contradicts_itself_is_refused_though_the_digest_is_right(change: Any, message: str, tmp_path: Path):
    path = tmp_path / "audit.nc"
    data = written("fixed")
    held = io.BytesIO(data[: data.rindex(b"\n#rcb_bayes")])
    with h5py.File(held, "r+") as file:
        change(file)
    path.write_bytes(sealed(FORM, held.getvalue()))
    with pytest.raises(RcbError, match=message) as caught:
        Audit.load(path)
    assert "\n" not in str(caught.value)
