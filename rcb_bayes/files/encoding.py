"""Arrays and numbers in JSON, without loss: base85 for arrays, words for numbers that JSON does not have.

The text is that of ``base64.b85encode``, whose alphabet has no quote and no backslash, so that JSON takes it as it is;
it is a quarter longer than the bytes where base64 is a third. Both ways go through NumPy: the standard library needs a
second for a megabyte.
"""

import math
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes.errors import RcbError

ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_DIGITS = np.frombuffer(ALPHABET, dtype=np.uint8)
_VALUES = np.full(256, 255, dtype=np.uint8)
_VALUES[_DIGITS] = np.arange(85, dtype=np.uint8)
_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.uint64)

Kind = Literal["f8", "f4", "i8", "i2"]
Length = Annotated[int, Meta(ge=0, le=2**40)]
Word = Literal["nan", "inf", "-inf"]
Number = float | Word
"""A number that may be none: NaN and infinities are words in a file, and only where the schema allows them."""


class Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array as a file has it: kind of number (little-endian), shape, and the bytes in base85."""

    kind: Kind
    shape: Annotated[tuple[Length, ...], Meta(min_length=1, max_length=4)]
    data: str


_MOST_EMPTY = 2**27
"""What the lengths of an array without numbers may multiply to: others would be allocated in its likeness."""


def packed(array: np.ndarray, kind: Kind = "f8") -> dict[str, object]:
    """An array as JSON has it."""
    data = np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
    return {"kind": kind, "shape": list(array.shape), "data": b85(data)}


def unpacked(value: Packed) -> np.ndarray:
    """The array again, as float64 or int64; nothing is allocated that the text is not long enough for.

    Raises
    ------
    RcbError
        Text that is shorter or longer than the shape needs, or is not base85; a shape that no text could fill.
    """
    dtype = np.dtype(f"<{value.kind}")
    n_bytes = math.prod(value.shape) * dtype.itemsize
    if len(value.data) != text_length(n_bytes):
        raise RcbError(
            f"an array of shape {value.shape} needs {text_length(n_bytes)} characters, {len(value.data)} came"
        )
    if not n_bytes and math.prod(max(length, 1) for length in value.shape) > _MOST_EMPTY:
        raise RcbError(f"an array without numbers has the shape {value.shape}")
    raw = np.frombuffer(from_b85(value.data), dtype=dtype).reshape(value.shape)
    return raw.astype(np.float64 if value.kind.startswith("f") else np.int64)


def number(value: float) -> Number:
    """A number as JSON has it."""
    return value if math.isfinite(value) else repr(value)  # pyright: ignore[reportReturnType]


def text_length(n_bytes: int) -> int:
    """Characters that so many bytes take."""
    whole, rest = divmod(n_bytes, 4)
    return 5 * whole + (rest + 1 if rest else 0)


def b85(data: bytes) -> str:
    """Bytes as text, as ``base64.b85encode`` has it."""
    padding = -len(data) % 4
    words = np.frombuffer(data + bytes(padding), dtype=">u4").astype(np.uint64)
    digits = (words[:, None] // _POWERS) % np.uint64(85)
    text = _DIGITS[digits.astype(np.intp)].tobytes().decode("ascii")
    return text[: len(text) - padding] if padding else text


def from_b85(text: str) -> bytes:
    """The bytes of a text.

    Raises
    ------
    RcbError
        Characters that base85 does not have, or digits that no bytes give.
    """
    padding = -len(text) % 5
    try:
        raw = text.encode("ascii")
    except UnicodeEncodeError:
        raise RcbError("an array has characters that are not base85") from None
    values = _VALUES[np.frombuffer(raw + b"~" * padding, dtype=np.uint8)]
    if (values == 255).any():
        raise RcbError("an array has characters that are not base85")
    words = values.reshape(-1, 5).astype(np.uint64) @ _POWERS
    if (words >= 2**32).any():
        raise RcbError("an array has digits that are not base85")
    data = words.astype(">u4").tobytes()
    return data[: len(data) - padding] if padding else data
