"""Audits as netCDF files: a group for each notion, attributes for the rest; refused unless all of it agrees.

Attributes are derived from the fields of ``Audit``: one that is added to the dataclass, with a plain annotation, is
written, checked by type and read. ``_RANGES`` has what a number must be beyond its type, ``_faults`` what must agree: a
stored verdict with the margins, bounds with estimates, cells with bounds.
"""

import json
from collections.abc import Iterator
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, Records, read_netcdf, refused, write_netcdf
from rcb_bayes.files.records import Count, NonNegative
from rcb_bayes.mechanism.deciding import ANY_RIVAL, VERDICTS, told_lowest, verdict_of
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.schema import ARM, FloatArray, is_number

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.auditing.result import Audit

FORM = Format(name="audit", version=3, remedy="Restore the file, or audit again: `audit.save(path)` writes one.")
CELLS = ("estimate", "mcse", "lower", "upper", "mass", "verdict")
SHARES = ("share", "share_mcse", "share_lower", "share_upper")
_APART = ("by_notion", "compliance", "users")  # data, not attributes
_RANGES: dict[str, Any] = {
    "epsilon": NonNegative,
    "n_worlds": Annotated[int, Meta(ge=1, le=2**53)],
    "n_random": Count,
    "n_posteriors": Count,
    "n_not_vouched": Count,
    "level": Annotated[float, Meta(gt=0.0, lt=1.0)],
    "seed": int,
}
_ROUNDING = 1e-9


def write_audit(audit: "Audit", path: str | Path) -> None:
    """Write an audit to a file, at once or not at all."""
    write_netcdf(FORM, tree_of(audit), path)


def tree_of(audit: "Audit") -> "xr.DataTree":
    """An audit as a tree: users and attributes at the root, groups for compliance and the margins of each notion."""
    import xarray as xr

    root = xr.Dataset({"users": (("member", "feature_position"), audit.users)}, attrs=_attributes(audit))
    groups = {f"margins/{notion}": part for notion, part in audit.by_notion.items()}
    return xr.DataTree.from_dict({"/": root, "compliance": audit.compliance, **groups})


def read_audit(cls: "type[Audit]", path: str | Path) -> "Audit":
    """The audit in a file.

    Raises
    ------
    RcbError
        A file that is not there, is no audit, of another version; a digit that was changed; parts that disagree.
    """
    return audit_of(cls, read_netcdf(FORM, path), form=FORM, where=path)


def audit_of(cls: "type[Audit]", tree: "xr.DataTree", *, form: Format, where: str | Path) -> "Audit":
    """The audit that a tree holds, if all of it agrees; ``form`` and ``where`` are for the message if it does not."""
    try:
        audit = _audit_of(cls, tree)
        for fault in _faults(audit):
            raise RcbError(fault)
    except (msgspec.ValidationError, RcbError) as error:
        raise refused(form, where, error) from None
    return audit


# --- attributes ------------------------------------------------------------------------------------------------------


def _records(cls: "type[Audit]") -> Records:
    kept: list[Any] = [(item.name, item.type) for item in fields(cls) if item.name not in _APART]
    head = make_dataclass("AuditHead", kept, frozen=True)
    return Records(head, ranges={head: _RANGES})


def _attributes(audit: "Audit") -> dict[str, Any]:
    """Numbers and words as netCDF has them, everything else as JSON."""
    records = _records(type(audit))
    head = records.root(**{item.name: getattr(audit, item.name) for item in fields(records.root)})
    wire = records.to_wire(head)
    return {name: _attribute(value) for name, value in wire.items()} | {"version": __version__}


def _attribute(value: Any) -> Any:
    is_plain = isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 2**63)
    return value if is_plain and not isinstance(value, bool) else json.dumps(value)


def _value(value: Any, kind: Any) -> Any:
    """An attribute as the schema has it; ``kind`` is the annotation of its field."""
    if isinstance(value, np.generic):
        value = value.item()
    is_word = kind is str or (isinstance(value, str) and value in getattr(kind, "__args__", ()))
    if not isinstance(value, str) or is_word or value in ("nan", "inf", "-inf"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # for the schema to refuse


def _audit_of(cls: "type[Audit]", tree: "xr.DataTree") -> "Audit":
    records = _records(cls)
    kinds = {item.name: item.type for item in fields(records.root)}
    attrs = {name: value for name, value in tree.attrs.items() if name != "version"}
    head = records.from_wire(
        records.checked({str(name): _value(value, kinds.get(str(name))) for name, value in attrs.items()})
    )
    if set(tree.children) != {"margins", "compliance"} or set(tree.data_vars) != {"users"}:
        raise RcbError("it needs users, compliance and margins, and nothing besides")
    parts = tree.children["margins"].children
    if not parts or not set(parts) <= set(NOTIONS) or any(len(part.children) for part in parts.values()):
        raise RcbError("its margins are not those of notions")
    users = tree["users"]
    if users.dims != ("member", "feature_position") or users.dtype.kind != "f":
        raise RcbError("its users are no table of numbers")
    return cls(
        by_notion={notion: parts[notion].to_dataset(inherit=False) for notion in NOTIONS if notion in parts},
        compliance=tree.children["compliance"].to_dataset(inherit=False),
        users=np.asarray(users.values, dtype=float),
        **{name: getattr(head, name) for name in kinds},
    )


# --- what must agree -------------------------------------------------------------------------------------------------


def _faults(audit: "Audit") -> Iterator[str]:
    """What contradicts itself in an audit."""
    if audit.notion not in audit.by_notion:
        yield f"it is for the notion {audit.notion}, of which it has no margins"
    if audit.seed < 0:
        yield "seed is not negative"
    n = len(audit.users)
    if not n or not audit.users.shape[1] or not np.isfinite(audit.users).all():
        yield "its users must be finite, one at least"
    if audit.n_random > n:
        yield f"{audit.n_random} users were drawn at random, and it has {n}"
    for notion, part in audit.by_notion.items():
        yield from _shape_faults(part, notion)
        yield from _cell_faults(part, audit.epsilon)
        yield from _attribute_faults(part, notion, audit)
    arms = [tuple(part[ARM].values.tolist()) for part in audit.by_notion.values()]
    if len(set(arms)) > 1:
        yield "margins under different notions are of different arms"
    told = "realised" if audit.kind == "realised" else audit.verdicts[audit.notion]
    if audit.verdict != told:
        yield f"its verdict is {audit.verdict}, and its margins say {told}"
    if audit.n_not_vouched > audit.n_posteriors:
        yield f"{audit.n_not_vouched:,} of {audit.n_posteriors:,} posteriors are said not to be vouched for"
    yield from _compliance_faults(audit.compliance, audit.epsilon)


def _is_labelled(part: "xr.Dataset", dim: str) -> bool:
    """Whether a dimension has labels of text that differ."""
    if dim not in part.coords or part[dim].dims != (dim,):
        return False
    labels = part[dim].values.tolist()
    return bool(labels) and all(isinstance(one, str) for one in labels) and len(set(labels)) == len(labels)


def _shape_faults(part: "xr.Dataset", notion: str) -> Iterator[str]:
    dims = tuple(str(dim) for dim in part["estimate"].dims) if "estimate" in part else ()
    if dims not in (("stage", ARM, "rival"), ("stage", "user", ARM, "rival")):
        yield f"margins under {notion} are over stages, arms and rivals, got {dims}"
    if "user" in dims and not NOTIONS[notion].is_per_user:
        yield f"margins under {notion} are averaged over users"
    for name in CELLS:
        if name not in part.data_vars or part[name].dims != dims or part[name].dtype.kind not in "fi":
            yield f"margins under {notion} lack {name}, or have it in another shape"
    if not all(_is_labelled(part, dim) for dim in ("stage", ARM, "rival")):
        yield "stages, arms and rivals need labels that differ"
    if len(part[ARM]) < 2 or part["rival"].values.tolist() not in (part[ARM].values.tolist(), [ANY_RIVAL]):
        yield "rivals are the arms"
    if "user" in dims and (not part.sizes["user"] or part["user"].values.tolist() != list(range(part.sizes["user"]))):
        yield "users are numbered"
    if "n_worlds" in part and not (part["n_worlds"].dtype.kind == "i" and (part["n_worlds"].values >= 1).all()):
        yield "worlds of a stage are one at least"
    if "share" in part and not ((part["share"].values >= 0.0) & (part["share"].values <= 1.0)).all():
        yield "shares of runs are in [0, 1]"
    if not set(map(str, part.dims)) <= {*dims}:
        yield "margins have dimensions that we do not write"


def _cell_faults(part: "xr.Dataset", epsilon: float) -> Iterator[str]:
    """A cell has a verdict if and only if it has an estimate, bounds around that, and on the verdict's side."""
    found: dict[str, FloatArray] = {name: part[name].values.astype(float) for name in CELLS}
    verdict, is_cell = found["verdict"], ~np.isnan(found["estimate"])
    if not np.isin(verdict, (-1, *range(len(VERDICTS)))).all() or not ((verdict >= 0) == is_cell).all():
        yield "cells have verdicts without estimates, or estimates without verdicts"
    if not is_cell.any(axis=tuple(range(1, is_cell.ndim))).all():
        yield "a stage has no cell at all"
    if is_cell.shape[-1] > 1 and np.diagonal(is_cell, axis1=-2, axis2=-1).any():
        yield "an arm is its own rival"
    estimate, lower, upper = (found[name][is_cell] for name in ("estimate", "lower", "upper"))
    room = _ROUNDING * (1.0 + np.abs(np.where(np.isfinite(estimate), estimate, 0.0)))
    if not (np.isfinite(estimate) & (lower <= estimate + room) & (estimate <= upper + room)).all():
        yield "an estimate is not between its bounds"
    if (found["mcse"] < 0.0).any() or (found["mass"] < 0.0).any() or (found["mass"] > 1.0 + _ROUNDING).any():
        yield "an error is negative, or a probability is not in [0, 1]"
    passes, fails = verdict[is_cell] == VERDICTS.index("pass"), verdict[is_cell] == VERDICTS.index("fail")
    if (lower[passes] < -epsilon - room[passes]).any() or (upper[fails] > -epsilon + room[fails]).any():
        yield "a cell's verdict contradicts its bounds"


def _attribute_faults(part: "xr.Dataset", notion: str, audit: "Audit") -> Iterator[str]:
    """What a group says of itself agrees with the whole."""
    told = {"notion": notion, "epsilon": audit.epsilon, "verdict": verdict_of(part), "n_worlds": audit.n_worlds}
    told |= {"knows": audit.knows}
    for name, value in told.items():
        if name in part.attrs and not bool(np.all(np.asarray(part.attrs[name]) == value)):
            yield f"margins under {notion} say {name} {str(part.attrs[name])[:40]}, and it is {value}"
    if audit.kind == "realised":
        lowest = told_lowest(part)
        if any(bool(np.any(part.attrs.get(name, "") != value)) for name, value in lowest.items()):
            yield f"the lowest margin under {notion} is another than it says"
        shares = [part.attrs.get(name, 0.0) for name in ("share_as_low", "share_as_low_mcse")]
        runs = part.attrs.get("n_runs", 1)
        if not (all(is_number(one) and 0 <= one <= 1 for one in shares) and is_number(runs) and runs >= 1):
            yield f"the share of runs under {notion} is no share"


def _compliance_faults(found: "xr.Dataset", epsilon: float) -> Iterator[str]:
    if tuple(found.dims) != ("epsilon",) or "epsilon" not in found.coords:
        yield "compliance is over epsilon"
    if not all(name in found.data_vars and found[name].dtype.kind == "f" for name in SHARES):
        yield f"compliance needs {', '.join(SHARES)}"
    grid = found["epsilon"].values
    if grid.dtype.kind != "f" or not len(grid) or not ((grid >= 0.0).all() and np.isfinite(grid).all()):
        yield "compliance is over numbers that are not negative"
    if (np.diff(grid) <= 0.0).any() or np.abs(grid - epsilon).min() > _ROUNDING * (1.0 + epsilon):
        yield "compliance is over numbers that increase, epsilon among them"
    values = {name: found[name].values for name in SHARES}
    if not all(((part >= 0.0) & (part <= 1.0 + _ROUNDING)).all() for part in values.values()):
        yield "shares are in [0, 1]"
    in_order = (values["share_lower"] <= values["share"] + _ROUNDING) & (
        values["share"] <= values["share_upper"] + _ROUNDING
    )
    if not in_order.all() or (np.diff(values["share"]) < -_ROUNDING).any():
        yield "shares are between their bounds, and grow with epsilon"
