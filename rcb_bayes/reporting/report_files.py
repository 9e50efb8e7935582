"""Reports as files: a zip archive of the plan, the audit, the runs and the checks, each as it is saved by itself.

A market holds a belief, which is code, and is not part of the file: whoever reads it brings the market, and a plan for
another one is refused.
"""

import hashlib
import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes.auditing import Audit
from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, Records, as_text, content_of, read_netcdf, refused, write_atomically, write_netcdf
from rcb_bayes.files.envelope import MOST_BYTES, read_bytes
from rcb_bayes.gaps.checks import Checks
from rcb_bayes.market import Market
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_files import plan_digest
from rcb_bayes.schema import ARM, FloatArray

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.reporting.result import Report

SUFFIX = ".zip"
_FORM = Format(name="report", version=3, remedy="Report again: `report(...).save('report.zip')` writes a file.")
_HEAD = "report.json"
_OPTIONAL = ("knowledge", "radius", "yardsticks", "payments", "by_size")  # tables that not every report has


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What is no file of its own, and the digests of the files beside it."""

    users: FloatArray
    not_audited: str
    horizon: int
    guard: bool
    sizes: dict[str, int | tuple[float, ...] | None]
    seed: int
    command: str
    digests: dict[str, str]
    audited: str | None = None  # the digest of the plan, as ``plan_digest`` has it


_RANGES = {"horizon": Annotated[int, Meta(ge=1, le=2**53)], "seed": Annotated[int, Meta(ge=0, le=2**63 - 1)]}
_RECORDS = Records(_Head, ranges={_Head: _RANGES})


def write_report(report: "Report", path: str | Path) -> None:
    """Write everything but the market, at once or not at all."""
    with TemporaryDirectory() as folder:
        members = _written(report, Path(folder))
    sizes = {name: getattr(report.sizes, name) for name in type(report.sizes).__dataclass_fields__}
    head = _Head(
        digests={name: _digest(data) for name, data in members.items()},
        audited=None if report.audit is None else plan_digest(report.plan),
        users=report.users,
        sizes=sizes,
        **{name: getattr(report, name) for name in ("not_audited", "horizon", "guard", "seed", "command")},
    )
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", compression=zipfile.ZIP_DEFLATED) as file:
        file.writestr(_HEAD, as_text(_FORM, _RECORDS.to_wire(head)))
        for name, data in members.items():
            file.writestr(name, data)
    write_atomically(path, archive.getvalue())


def _written(report: "Report", folder: Path) -> dict[str, bytes]:
    """The parts of a report as they save themselves, by the names of their files."""
    report.checks.save(folder / "checks.json")
    if report.need is not None:
        Checks((report.need,)).save(folder / "need.json")
    plans = {"plan": report.plan, "theorem": report.theorem}
    plans |= {f"sweep_{number}": plan for number, plan in enumerate(report.sweep)}
    for name, plan in plans.items():
        if plan is not None:
            plan.save(folder / f"{name}.json")
    for name in ("gaps", "runs", *_OPTIONAL):
        table = getattr(report, name)
        if table is not None:
            write_netcdf(_table(name), table, folder / f"{name}.nc")
    if report.audit is not None:
        report.audit.save(folder / "audit.nc")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read_report(path: str | Path, market: Market) -> dict[str, Any]:
    """The fields of a ``Report``.

    Raises
    ------
    RcbError
        A file that is not there, or is no report; a digit that was changed; a plan for another market.
    """
    from rcb_bayes.reporting.result import ReportSizes

    with TemporaryDirectory() as name:
        folder = Path(name)
        head = _unpacked(path, folder)
        given = set(head.digests)
        plan = Plan.load(folder / "plan.json")
        audit = Audit.load(folder / "audit.nc") if "audit.nc" in given else None
        try:
            _check(head, plan, audit)
            sizes = ReportSizes(**head.sizes)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError) as error:  # RcbError is one of the last
            raise refused(_FORM, path, error) from None
        sweep = [folder / f"sweep_{number}.json" for number in range(sum(name.startswith("sweep_") for name in given))]
        return {
            "market": market,
            "checks": Checks.load(folder / "checks.json"),
            "need": next(iter(Checks.load(folder / "need.json")), None) if "need.json" in given else None,
            "gaps": _read_table("gaps", folder),
            "plan": plan,
            "theorem": Plan.load(folder / "theorem.json") if "theorem.json" in given else None,
            "sweep": tuple(Plan.load(one) for one in sweep),
            "runs": _read_table("runs", folder) if "runs.nc" in given else None,
            **{name: _read_table(name, folder) if f"{name}.nc" in given else None for name in _OPTIONAL},
            "audit": audit,
            "users": np.asarray(head.users, dtype=float),
            "sizes": sizes,
            **{name: getattr(head, name) for name in ("not_audited", "horizon", "guard", "seed", "command")},
        }


def _unpacked(path: str | Path, folder: Path) -> _Head:
    """The head of an archive; the files that it names, with their digests, go into a folder."""
    data = read_bytes(_FORM, path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            if sum(item.file_size for item in file.infolist()) > MOST_BYTES:
                raise RcbError(f"it unpacks to more than {MOST_BYTES:,} bytes")
            members = {name: file.read(name) for name in file.namelist()}
        text = members.pop(_HEAD).decode("utf-8")
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError, ValueError) as error:
        raise refused(_FORM, path, f"it is no archive of a report ({error})") from None
    content = content_of(_FORM, text, where=path)
    try:
        head: _Head = _RECORDS.from_wire(_RECORDS.checked(content))
    except (msgspec.ValidationError, RcbError) as error:
        raise refused(_FORM, path, error) from None
    if {name: _digest(part) for name, part in members.items()} != head.digests or not _is_whole(head):
        raise refused(_FORM, path, "its files are not those that it names")
    for name, part in members.items():
        (folder / name).write_bytes(part)
    return head


def _is_whole(head: _Head) -> bool:
    """Whether the files that every report has are named, and none that no report has."""
    every, given = {"checks.json", "gaps.nc", "plan.json"}, set(head.digests)
    known = {"need.json", "theorem.json", "runs.nc", "audit.nc", *(f"{name}.nc" for name in _OPTIONAL)}
    return every <= given <= every | known | {f"sweep_{number}.json" for number in range(len(given))}


def _check(head: _Head, plan: Plan, audit: Audit | None) -> None:
    """Refuse parts of a report that say of each other what is not so."""
    if head.users.shape[1:] != (len(plan.features),):
        raise RcbError("its users have other features than its plan")
    if audit is not None:
        told = (audit.notion, audit.epsilon, tuple(audit.margins[ARM].values.tolist()), audit.knows or plan.knows)
        agrees = told == (plan.notion, plan.epsilon, plan.arms, plan.knows)
        if not agrees or head.audited not in (None, plan_digest(plan)):
            raise RcbError("its audit is of another plan")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _table(name: str) -> Format:
    return Format(name=f"{name} of a report", version=1, remedy=_FORM.remedy)


def _read_table(name: str, folder: Path) -> "xr.Dataset":
    return read_netcdf(_table(name), folder / f"{name}.nc").to_dataset(inherit=False)
