"""Audits of several types of users as one netCDF file: the shares, and a group for the audit of each type."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rcb_bayes.auditing.audit_files import audit_of, tree_of
from rcb_bayes.auditing.result import Audit
from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, read_netcdf, refused, write_netcdf

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.auditing.mixed import MixedAudit

FORM = Format(name="mixed audit", version=1, remedy="Audit again: `audit_types(...).save(path)` writes a file.")
_SHARES = ("share", "share_mcse", "share_lower", "share_upper", "weight")


def write_mixed(mixed: "MixedAudit", path: str | Path) -> None:
    """Write the shares and the audits to a file, at once or not at all."""
    import xarray as xr

    root = xr.Dataset(attrs={"least_share": mixed.least_share})
    tree = xr.DataTree.from_dict({"/": root, "shares": mixed.shares})
    for number, audit in enumerate(mixed.audits.values()):
        tree[f"type_{number}"] = tree_of(audit)
    write_netcdf(FORM, tree, path)


def read_mixed(cls: "type[MixedAudit]", path: str | Path) -> "MixedAudit":
    """What ``write_mixed`` wrote.

    Raises
    ------
    RcbError
        A file that is not there, or is no such audit; a digit that was changed; parts that disagree.
    """
    from rcb_bayes.auditing.mixed import verdict_of_shares

    tree = read_netcdf(FORM, path)
    try:
        least_share = float(tree.attrs["least_share"])
        shares = tree.children["shares"].to_dataset(inherit=False)
        for fault in _faults(shares, least_share):
            raise RcbError(fault)
        names = [str(name) for name in shares["type"].values[:-1]]
        groups = [tree.children[f"type_{number}"] for number in range(len(names))]
    except (KeyError, TypeError, ValueError) as error:  # RcbError is one of the last
        raise refused(FORM, path, error) from None
    return cls(
        verdict=verdict_of_shares(shares, least_share),
        least_share=least_share,
        audits={name: audit_of(Audit, own, form=FORM, where=path) for name, own in zip(names, groups, strict=True)},
        shares=shares,
    )


def _faults(shares: "xr.Dataset", least_share: float) -> Iterator[str]:
    if not 0.0 < least_share <= 1.0:
        yield "the share that it asks for is no share"
    if any(name not in shares or shares[name].dims != ("type",) or shares[name].dtype.kind != "f" for name in _SHARES):
        yield f"it needs {', '.join(_SHARES)} of every type"
    names = [str(name) for name in shares["type"].values]
    if len(names) < 2 or names[-1] != "all" or len(set(names)) < len(names):
        yield "its types need names that differ, and 'all' after them"
    if not all(((shares[name].values >= 0.0) & (shares[name].values <= 1.0 + 1e-9)).all() for name in _SHARES):
        yield "its shares are not in [0, 1]"
