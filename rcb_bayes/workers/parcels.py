"""What is large and travels to workers: as bytes, or, on this machine, in memory that they look into themselves.

Arrays in shared memory are neither sent nor copied. The memory has no name, so that nothing is left behind by a process
that is killed: a worker finds it by its parent's descriptor, under ``/proc``. Where that cannot be, bytes are sent.
"""

import mmap
import os
import pickle
import weakref
from dataclasses import dataclass
from typing import Any

_ALIGNED = 64  # bytes, as arrays like to begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Where a value is: its pickle but for the arrays, and from where to where these are in a process's memory."""

    data: bytes
    path: str
    spans: tuple[tuple[int, int], ...]
    size: int


class Parcel:
    """A value in memory of this process that others look into; gone with this object."""

    def __init__(self, descriptor: int, told: Shared) -> None:
        self.told = told
        self._close = weakref.finalize(self, os.close, descriptor)


def shared(value: object, *, least: int = 0) -> Parcel | None:
    """A value put where processes of this machine find it; None where there is no such place, or little to put there.

    ``least`` are bytes of arrays, below which it is not worth it.
    """
    import cloudpickle

    if not hasattr(os, "memfd_create") or not os.path.isdir(f"/proc/{os.getpid()}/fd"):
        return None
    buffers: list[pickle.PickleBuffer] = []
    data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    spans, size = [], 0
    for part in parts:
        spans.append((size, size + part.nbytes))
        size += -(-part.nbytes // _ALIGNED) * _ALIGNED
    if size < least:
        return None
    try:
        descriptor = os.memfd_create("rcb_bayes")
    except OSError:
        return None
    try:
        os.truncate(descriptor, max(size, 1))
        for part, (start, _) in zip(parts, spans, strict=True):
            _write(descriptor, part, start)
    except OSError:  # no room for it
        os.close(descriptor)
        return None
    path = f"/proc/{os.getpid()}/fd/{descriptor}"
    return Parcel(descriptor, Shared(data=data, path=path, spans=tuple(spans), size=max(size, 1)))


class Hidden(Exception):
    """The memory that a value is in is not to be found from here."""


def opened(part: bytes | Shared) -> Any:
    """The value, its arrays where they are; what is written into them is seen by nobody else.

    Raises
    ------
    Hidden
        It is in memory that is not to be found from here.
    """
    if not isinstance(part, Shared):
        return pickle.loads(part)
    try:
        descriptor = os.open(part.path, os.O_RDONLY)
        try:
            memory = memoryview(mmap.mmap(descriptor, part.size, access=mmap.ACCESS_COPY))
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise Hidden from error
    return pickle.loads(part.data, buffers=[memory[start:stop] for start, stop in part.spans])


def _write(descriptor: int, part: memoryview, start: int) -> None:
    done = 0
    while done < part.nbytes:
        done += os.pwrite(descriptor, part[done:], start + done)
