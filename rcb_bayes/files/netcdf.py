"""netCDF files with a digest: the last line of the file, behind what HDF5 reads.

HDF5 looks at a file from its beginning and does not mind what follows, so that every netCDF reader opens these files.
The digest is of the bytes: a file that was damaged never reaches HDF5, which hangs or asks for any amount of memory on
some of them.
"""

import hashlib
import io
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import RcbError
from rcb_bayes.files.envelope import (
    DAMAGED,
    FORMAT,
    OWNER,
    VERSION,
    Format,
    check_version,
    read_bytes,
    refused,
    write_atomically,
)
from rcb_bayes.schema import seen

if TYPE_CHECKING:
    import xarray as xr

_LONGEST = 400
_LINE = re.compile(rb"\n#rcb_bayes ([^\n]+) version (\d+) sha256:([0-9a-f]{64})\n\Z")
_SPARE_BYTES = 2**20


def write_netcdf(form: Format, tree: "xr.DataTree | xr.Dataset", path: str | Path) -> None:
    """Write a tree or a dataset, at once or not at all.

    HDF5 writes to memory: where a disk is full it would end the process.

    Raises
    ------
    RcbError
        A place that cannot be written to.
    """
    memory = io.BytesIO()
    tree.to_netcdf(memory, engine="h5netcdf")
    write_atomically(path, sealed(form, memory.getvalue()))


def sealed(form: Format, data: bytes) -> bytes:
    """The bytes of a netCDF file with the line that tells format, version and digest."""
    head = f"{form.name} version {form.version}"
    digest = hashlib.sha256(head.encode() + data).hexdigest()
    return data + f"\n#rcb_bayes {head} sha256:{digest}\n".encode()


def read_netcdf(form: Format, path: str | Path) -> "xr.DataTree":
    """The tree of a file, loaded.

    Raises
    ------
    RcbError
        A file that is not there, of another format or version, without a digest or with another one; one that claims
        more data than it has.
    """
    import xarray as xr

    data = _unsealed(form, read_bytes(form, path), path)
    try:
        _check_claims(data)
        # Times are never meant here: what looks like one is taken as the number it is.
        with xr.open_datatree(io.BytesIO(data), engine="h5netcdf", decode_times=False) as tree:
            _check_words(tree.load())
            return tree
    except Exception as error:  # whatever HDF5 and xarray come across in a file that somebody else sealed
        raise refused(form, path, error) from None


def _check_words(tree: "xr.DataTree") -> None:
    """Refuse controls of a terminal in whatever is text: attributes, labels, variables."""
    parts = [part for node in tree.subtree for part in node.variables.values()]
    words = [value for part in (*tree.subtree, *parts) for value in part.attrs.values()]
    words += [value for part in parts if part.dtype.kind in "OU" for value in part.values.flat]
    if any(isinstance(word, str) and seen(word, but="\n\t") != word for word in words):
        raise RcbError("it has words with controls of a terminal")


def _unsealed(form: Format, data: bytes, path: str | Path) -> bytes:
    found = _LINE.search(data[-_LONGEST:])
    if found is None:
        raise refused(form, path, "it has no digest at its end: it is cut off, or was not written by this package")
    name, version, digest = found.group(1).decode("utf-8", "replace"), int(found.group(2)), found.group(3).decode()
    check_version(form, {FORMAT: f"{OWNER} {name}", VERSION: version}, where=path)
    inner = data[: len(data) - len(found.group(0))]
    if hashlib.sha256(f"{form.name} version {form.version}".encode() + inner).hexdigest() != digest:
        raise refused(form, path, DAMAGED)
    return inner


def _check_claims(data: bytes) -> None:
    """Refuse shapes that the file has no bytes for: what we write is stored as it is, never compressed."""
    import h5py

    claimed = 0

    def add(name: str, item: Any) -> None:
        nonlocal claimed
        if isinstance(item, h5py.Dataset):
            if item.shape is None or len(item.shape) > 8:
                raise RcbError(f"the variable {name[:60]!r} has no shape that we write")
            claimed += math.prod(item.shape) * max(item.dtype.itemsize, 1)

    with h5py.File(io.BytesIO(data), "r") as file:
        file.visititems(add)
    if claimed > 2 * len(data) + _SPARE_BYTES:
        raise RcbError(f"its variables claim {claimed:,} bytes, and the file has {len(data):,}")
