"""Files that went wrong: bytes, JSON documents, netCDF trees and tables, each changed at random in one place or a few.

Nothing here knows what a field means; what is expected of a reader is in the tests.
"""

import copy
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Rng = np.random.Generator
Place = tuple[Any, ...]

NUMBERS: tuple[Any, ...] = (
    *("nan", "inf", "-inf", -1, -1.0, -0.5, 0, 0.0, 1, 2, 1.5, 1.0000001, 3, 7.25, 255, 65536, 2**31, 2**53, 2**63),
    *(2**64, 10**30, 1e30, 1e-300, 1e300, -1e300, 1e308, 0.1 + 0.2, 10**400),
)
OTHERS: tuple[Any, ...] = (
    "",
    "1",
    "x",
    "é\u2028",
    "user",
    None,
    True,
    False,
    [],
    {},
    [1],
    {"a": 1},
    [None],
    [[[]]],
    -1,
)
WORDS = (
    "",
    " ",
    "nan",
    "inf",
    "-1",
    "1e400",
    "1_000",
    "0x10",
    "true",
    "NA",
    '"',
    '"a',
    "a,b",
    "a\nb",
    "\0",
    "é",
    "\uff19",
)
CELLS = (
    *WORDS,
    "1e308",
    "-1e308",
    "5e-324",
    "99999999999999999999",
    ";",
    "\t",
    "x" * 200,
    "1.5.2",
    "--1",
    "1+2j",
    "None",
)

# --- bytes -----------------------------------------------------------------------------------------------------------


def changed_bytes(data: bytes, rng: Rng) -> tuple[str, bytes]:
    """One random accident to the bytes of a file."""
    kind = str(rng.choice(["flip", "digit", "truncate", "insert", "delete", "repeat", "overwrite", "nothing left"]))
    n = len(data)
    at = int(rng.integers(n))
    size = int(min(rng.integers(1, 40), n - at))
    if kind == "flip":
        return kind, data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]
    if kind == "digit":
        digits = [k for k in range(at, min(at + 4000, n)) if 48 <= data[k] <= 57]
        at = digits[0] if digits else at
        return kind, data[:at] + bytes([48 + (data[at] - 47) % 10]) + data[at + 1 :]
    if kind == "truncate":
        return kind, data[:at]
    if kind == "insert":
        return kind, data[:at] + rng.bytes(size) + data[at:]
    if kind == "delete":
        return kind, data[:at] + data[at + size :]
    if kind == "repeat":
        return kind, data[:at] + data[at : at + size] + data[at:]
    if kind == "overwrite":
        return kind, data[:at] + rng.bytes(size) + data[at + size :]
    return kind, b"" if rng.random() < 0.5 else data[: int(rng.integers(4))]


# --- JSON documents --------------------------------------------------------------------------------------------------


def changed_document(document: dict[str, Any], rng: Rng, arrays: "Arrays") -> tuple[str, dict[str, Any]]:
    """A document with one to three random changes, and the name of the last one."""
    made = copy.deepcopy(document)
    kind = "none"
    for _ in range(1 if rng.random() < 0.8 else int(rng.integers(2, 4))):
        change = _CHANGES[int(rng.integers(len(_CHANGES)))]
        kind = change.__name__.strip("_")
        change(made, rng, arrays)
    return kind, made


def with_a_name_twice(text: str, rng: Rng) -> str:
    """JSON text in which some name of the top level stands a second time, with another value."""
    document = json.loads(text)
    names = list(document)
    name = names[int(rng.integers(len(names)))]
    value = NUMBERS[int(rng.integers(len(NUMBERS)))]
    return text.rstrip()[:-1] + f", {json.dumps(name)}: {json.dumps(value)}}}"


class Arrays:
    """How arrays stand in documents: told by ``is_array``, read and written by the package's own functions."""

    def __init__(
        self,
        read: Callable[[dict[str, Any]], np.ndarray],
        write: Callable[[np.ndarray, dict[str, Any]], dict[str, Any]],
    ) -> None:
        self.read, self.write = read, write

    @staticmethod
    def is_array(node: Any) -> bool:
        return isinstance(node, dict) and "shape" in node and "data" in node


def _nodes(node: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value of a document with its place."""
    yield at, node
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, part in inner:
        yield from _nodes(part, (*at, name))


def _pick(document: Any, rng: Rng, wanted: Callable[[Any], bool]) -> Place | None:
    places = [at for at, node in _nodes(document) if at and wanted(node)]
    return places[int(rng.integers(len(places)))] if places else None


def _get(document: Any, at: Place) -> Any:
    for name in at:
        document = document[name]
    return document


def _set(document: Any, at: Place, value: Any) -> None:
    _get(document, at[:-1])[at[-1]] = value


def _is_number(node: Any) -> bool:
    return isinstance(node, int | float) and not isinstance(node, bool)


def _deleted(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, lambda node: True)
    if at is not None:
        del _get(document, at[:-1])[at[-1]]


def _renamed(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, lambda node: isinstance(node, dict) and len(node) > 0)
    owner = document if at is None else _get(document, at)
    name = list(owner)[int(rng.integers(len(owner)))]
    owner[f"{name}_" if rng.random() < 0.5 else name[:-1]] = owner.pop(name)


def _added(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, lambda node: isinstance(node, dict))
    (document if at is None else _get(document, at))["extra"] = NUMBERS[int(rng.integers(len(NUMBERS)))]


def _another_number(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, _is_number)
    if at is not None:
        value = _get(document, at)
        near = (value + 1, value - 1, -value, 2 * value, value / 2, value + 1e-3, value * (1 + 1e-9))
        some = near if rng.random() < 0.5 else NUMBERS
        _set(document, at, some[int(rng.integers(len(some)))])


def _another_type(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, lambda node: True)
    if at is not None:
        value = _get(document, at)
        _set(document, at, str(value)[:50] if rng.random() < 0.2 else OTHERS[int(rng.integers(len(OTHERS)))])


def _another_word(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, lambda node: isinstance(node, str) and len(node) < 200)
    if at is not None:
        value = _get(document, at)
        words = (*WORDS, value + "x", value[:-1], value.upper(), "proof", "sampled", "inf", "nan", "last", "\ud800")
        _set(document, at, words[int(rng.integers(len(words)))])


def _truth_turned(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, lambda node: isinstance(node, bool))
    if at is not None:
        _set(document, at, not _get(document, at))


def _list_changed(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, lambda node: isinstance(node, list) and len(node) > 0)
    if at is None:
        return
    values = _get(document, at)
    k = int(rng.integers(len(values)))
    what = int(rng.integers(4))
    if what == 0:
        values.pop(k)
    elif what == 1:
        values.insert(k, copy.deepcopy(values[k]))
    elif what == 2:
        values.reverse()
    else:
        values.clear()


def _swapped(document: Any, rng: Rng, arrays: Arrays) -> None:
    one, two = (_pick(document, rng, lambda node: True) for _ in range(2))
    if one is None or two is None or one == two[: len(one)] or two == one[: len(two)]:
        return
    first, second = _get(document, one), _get(document, two)
    _set(document, one, copy.deepcopy(second))
    _set(document, two, copy.deepcopy(first))


def _arrays_swapped(document: Any, rng: Rng, arrays: Arrays) -> None:
    one, two = (_pick(document, rng, arrays.is_array) for _ in range(2))
    if one is not None and two is not None and one != two:
        first, second = _get(document, one), _get(document, two)
        _set(document, one, second)
        _set(document, two, first)


def _array_value(document: Any, rng: Rng, arrays: Arrays) -> None:
    """One number of an array, or all of them."""
    at = _pick(document, rng, arrays.is_array)
    if at is None:
        return
    node = _get(document, at)
    try:
        values = arrays.read(node)
        if not values.size:
            return
        k = int(rng.integers(values.size))
        old = values.flat[k]
        some = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1.5, 1e300, -1e300, old + 1, -old, 2 * old, old * (1 + 1e-9))
        with np.errstate(all="ignore"):
            values.flat[k] = some[int(rng.integers(len(some)))]
            if rng.random() < 0.1:
                values[...] = values.flat[k]
        _set(document, at, arrays.write(values, node))
    except Exception:  # an earlier change has left no array there
        return


def _array_shape(document: Any, rng: Rng, arrays: Arrays) -> None:
    at = _pick(document, rng, arrays.is_array)
    if at is None:
        return
    node = _get(document, at)
    shape = node["shape"] if isinstance(node["shape"], list) else []
    shapes: tuple[Any, ...] = (
        shape[::-1],
        [*shape, 1],
        shape[1:],
        [10**12],
        [2**40, 2**40, 2**40],
        [-1],
        [0],
        [10**30],
        [1.5],
        [],
        "x",
    )
    node["shape"] = shapes[int(rng.integers(len(shapes)))]


def _array_reshaped(document: Any, rng: Rng, arrays: Arrays) -> None:
    """An array that is right by itself, of another shape than it should have."""
    at = _pick(document, rng, arrays.is_array)
    if at is None:
        return
    node = _get(document, at)
    try:
        values = arrays.read(node)
        what = int(rng.integers(4))
        made = (values[:-1], np.concatenate([values, values]), values.T, values.reshape(-1))[what]
        _set(document, at, arrays.write(np.ascontiguousarray(made), node))
    except Exception:  # no array, or none that can be cut
        return


_CHANGES: tuple[Callable[[Any, Rng, Arrays], None], ...] = (
    _deleted,
    _renamed,
    _added,
    _another_number,
    _another_number,
    _another_number,
    _another_type,
    _another_word,
    _truth_turned,
    _list_changed,
    _swapped,
    _arrays_swapped,
    _array_value,
    _array_value,
    _array_shape,
    _array_reshaped,
)


# --- netCDF files ----------------------------------------------------------------------------------------------------


def changed_netcdf(data: bytes, rng: Rng) -> tuple[str, bytes]:
    """The bytes of a netCDF (HDF5) file with one random change that HDF5 itself can hold."""
    import h5py

    held = io.BytesIO(data)
    with h5py.File(held, "r+") as opened:
        file: Any = opened
        variables: list[Any] = []
        groups: list[Any] = [file]
        file.visititems(lambda _, item: (variables if isinstance(item, h5py.Dataset) else groups).append(item))
        kinds = [
            "value",
            "value",
            "values",
            "values",
            "attribute",
            "attribute",
            "lost",
            "kind",
            "swap",
            "size",
            "label",
        ]
        kind = str(rng.choice(kinds))
        name = variables[int(rng.integers(len(variables)))].name
        numeric = [part for part in variables if part.dtype.kind in "fi" and part.size]
        if kind in ("value", "values"):
            part = numeric[int(rng.integers(len(numeric)))]
            part[...] = _with_values(part[...], rng, kind)
        elif kind == "attribute":
            told = [group for group in groups if len(group.attrs)]
            _change_attribute(told[int(rng.integers(len(told)))], rng)
        elif kind == "lost":
            del file[name]
        elif kind == "label":
            labels = [part for part in variables if part.dtype.kind == "O" and part.size]
            part = labels[int(rng.integers(len(labels)))]
            values = part[...]
            values.flat[int(rng.integers(values.size))] = rng.choice([values.flat[0], b"", b"\xff", b"other"])
            part[...] = values
        elif kind == "kind":
            values = file[name][...]
            del file[name]
            made = rng.choice(["f4", "i8", "S3"])
            file[name] = np.zeros(values.shape, dtype=str(made))
        elif kind == "swap":
            other = numeric[int(rng.integers(len(numeric)))]
            same = [part for part in numeric if part.shape == other.shape and part.dtype == other.dtype]
            with_ = same[int(rng.integers(len(same)))]
            other[...], with_[...] = with_[...], other[...]
        else:
            del file[name]
            shapes = ((10**12,), (2**31, 2**20), (0,), (3,), ())
            shape = shapes[int(rng.integers(len(shapes)))]
            file.create_dataset(
                name, shape=shape, dtype="f8", chunks=(1024,) * len(shape) if np.prod(shape) > 1e6 else None
            )
    return kind, held.getvalue()


def _with_values(values: np.ndarray, rng: Rng, kind: str) -> np.ndarray:
    out = values.copy()
    n = 1 if kind == "value" else int(rng.integers(1, out.size + 1))
    some = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0, 2.0, 1e300, -1e300, 0.5, -0.3, 100.0)
    with np.errstate(all="ignore"):
        for k in rng.choice(out.size, size=n, replace=False):
            value = some[int(rng.integers(len(some)))] if rng.random() < 0.7 else -out.flat[k]
            if out.dtype.kind == "f" or np.isfinite(value):
                out.flat[k] = int(np.clip(value, -100, 100)) if out.dtype.kind == "i" else value
    return out


def _change_attribute(node: Any, rng: Rng) -> None:
    names = [name for name in node.attrs if not name.startswith("_")]
    if not names:
        return
    name = names[int(rng.integers(len(names)))]
    others = (*NUMBERS[:-5], "pass", "fail", "inconclusive", "proof", "definition", "[1]", "{", '["a"]', "null", "")
    if rng.random() < 0.15:
        del node.attrs[name]
    elif rng.random() < 0.1:
        node.attrs[f"{name}_"] = node.attrs[name]
        del node.attrs[name]
    else:
        value = others[int(rng.integers(len(others)))]
        node.attrs[name] = value if not isinstance(value, int) or abs(value) < 2**63 else str(value)


# --- tables ----------------------------------------------------------------------------------------------------------


def changed_table(text: str, rng: Rng) -> tuple[str, bytes]:
    """Comma-separated text with one to three random changes, or with random bytes."""
    if rng.random() < 0.35:
        return changed_bytes(text.encode("utf-8"), rng)
    lines = [line.split(",") for line in text.splitlines()]
    kind = "none"
    for _ in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(["cell", "cell", "cell", "line lost", "line twice", "short", "long", "column", "header"]))
        row = int(rng.integers(len(lines)))
        line = lines[row]
        if kind == "cell" and line:
            line[int(rng.integers(len(line)))] = CELLS[int(rng.integers(len(CELLS)))]
        elif kind == "line lost" and len(lines) > 1:
            lines.pop(row)
        elif kind == "line twice":
            lines.insert(row, list(line))
        elif kind == "short":
            lines[row] = line[:-1]
        elif kind == "long":
            lines[row] = [*line, "1"]
        elif kind == "column":
            k = int(rng.integers(max(len(line), 1)))
            lines = [[cell for j, cell in enumerate(one) if j != k] for one in lines]
        elif kind == "header" and lines[0]:
            k = int(rng.integers(len(lines[0])))
            lines[0][k] = lines[0][int(rng.integers(len(lines[0])))] if rng.random() < 0.5 else WORDS[k % len(WORDS)]
    ends = ("\n", "\r\n", "\r", "\n\n")
    joined = ends[int(rng.integers(len(ends)))].join(",".join(line) for line in lines)
    codecs = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")
    return kind, joined.encode(codecs[int(rng.integers(len(codecs)))], errors="replace")
