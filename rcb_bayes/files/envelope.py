"""What every file has: the name and version of its format, the digest of its content, and a way onto the disk."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import seen

MOST_BYTES = 2**29
"""Larger files are refused unread: the largest plan we have seen, of 20 arms, takes 15 MB."""

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe waits for whoever writes to it, unless told not to."""

FORMAT, VERSION, DIGEST = "format", "format_version", "digest"
OWNER = "rcb_bayes"
DAMAGED = "its digest does not match its content: a digit was changed, or the file is damaged"
_CONTROL = re.compile(r"(?<!\\)(?:\\\\)*\\u00[01]|[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # of canonical text


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A kind of file.

    Attributes
    ----------
    name : "plan", "agent", ...
    version : raised whenever files of the last one cannot be read any more
    remedy : what to do about a file that cannot be read
    most_values : numbers, words and lists of a file of text: in memory each takes some hundred bytes
    """

    name: str
    version: int
    remedy: str
    most_values: int = 2**22

    @property
    def full_name(self) -> str:
        """As it stands in a file."""
        return f"{OWNER} {self.name}"


def refused(form: Format, where: str | Path, why: object) -> RcbError:
    """The error for a file that cannot be read: one line, with the remedy."""
    told = " ".join(str(why).split()).rstrip(".")
    article = "an" if form.name[0] in "aeiou" else "a"
    return RcbError(f"Cannot read {article} {form.name} from {where}: {told[:400]}. {form.remedy}")


# --- text ------------------------------------------------------------------------------------------------------------


def as_text(form: Format, content: dict[str, Any]) -> str:
    """JSON text of a content, with format, version and digest before it.

    Raises
    ------
    RcbError
        A content that could not be read again: of too many values, or with halves of characters.
    """
    full = {FORMAT: form.full_name, VERSION: form.version, **content}
    try:
        head = {FORMAT: form.full_name, VERSION: form.version, DIGEST: digest_of(full)}
    except UnicodeEncodeError as error:
        half = seen(str(error.object[error.start : error.end]))
        raise RcbError(f"Cannot write a file with '{half}', half of a character. Write text without it.") from None
    text = json.dumps({**head, **content}, indent=1, allow_nan=False)
    if n_values(text) > form.most_values:
        raise RcbError(f"Cannot write a file of {n_values(text):,} values; {form.most_values:,} are the most we read.")
    return text


def content_of(form: Format, text: str, *, where: str | Path) -> dict[str, Any]:
    """The content of a JSON text, if its format, version and digest are right.

    Raises
    ------
    RcbError
        Text that is no JSON, or cut off, or of very many values; another format, another version; a digest that does
        not match; words with controls of a terminal.
    """
    if n_values(text) > form.most_values:
        raise refused(form, where, f"it has {n_values(text):,} values, and {form.most_values:,} are the most we read")
    try:
        full = json.loads(
            text, object_pairs_hook=_without_repetitions, parse_constant=_no_constant, parse_float=_finite
        )
    except RecursionError:
        raise refused(form, where, "it is nested too deeply") from None
    except ValueError as error:  # of JSON itself, of our own hooks, of numbers with thousands of digits
        raise refused(form, where, f"it is not JSON, or cut off ({error})") from None
    check_version(form, full, where=where)
    digest = full.pop(DIGEST, None)
    try:
        canonical = _canonical(full)
        matches = _digest(canonical) == digest
    except (UnicodeEncodeError, RecursionError):
        raise refused(form, where, "it has text that is no text") from None
    if ("\\u00" in canonical or not canonical.isascii()) and _CONTROL.search(canonical):
        raise refused(form, where, "it has words with controls of a terminal")
    if digest is None or not matches:
        raise refused(form, where, "it has no digest" if digest is None else DAMAGED)
    return {name: value for name, value in full.items() if name not in (FORMAT, VERSION)}


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the content, whatever its layout: keys sorted, no spaces."""
    return _digest(_canonical(content))


def n_values(text: str) -> int:
    """A bound on the values of a JSON text, read or not: each is the first, or behind a bracket, a comma or a colon."""
    return 1 + text.count("[") + text.count(",") + text.count(":")


def _canonical(content: dict[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _digest(canonical: str) -> str:
    return "sha256:" + hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def check_version(form: Format, full: object, *, where: str | Path) -> None:
    """Refuse a file that is not of this format and version.

    Raises
    ------
    RcbError
        Another format, another version.
    """
    if not isinstance(full, dict):
        raise refused(form, where, f"it has no format, expected '{form.full_name}'")
    name, version = full.get(FORMAT), full.get(VERSION)
    if name != form.full_name:
        raise refused(form, where, f"its format is {str(name)[:60]!r}, expected '{form.full_name}'")
    if version != form.version or not isinstance(version, int) or isinstance(version, bool):
        why = f"it has version {str(version)[:20]} of the format, this version of rcb_bayes reads {form.version}"
        raise refused(form, where, why)


def _without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


# --- the disk --------------------------------------------------------------------------------------------------------


def read_text(form: Format, path: str | Path) -> str:
    """The text of a file; RcbError where there is none."""
    try:
        return read_bytes(form, path).decode("utf-8")
    except UnicodeDecodeError:
        raise refused(form, path, "it is no text") from None


def read_bytes(form: Format, path: str | Path) -> bytes:
    """The bytes of a regular file of bounded size; RcbError where there is none."""
    try:
        return regular_bytes(path, most=MOST_BYTES)
    except (OSError, ValueError, TypeError) as error:  # ValueError: a path with a null byte; RcbError is one, too
        raise refused(form, path, getattr(error, "strerror", None) or error) from None


def regular_bytes(path: str | Path, *, most: int) -> bytes:
    """The bytes of a regular file, at most so many.

    Raises
    ------
    RcbError
        A pipe, whose writer may never come; a folder, a device; a larger file. Why, in a few words.
    OSError, ValueError, TypeError
        A file that is not there, or what is no path.
    """
    with open(os.fspath(path), "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise RcbError("it is no regular file")
        if found.st_size > most:
            raise RcbError(f"it has {found.st_size:,} bytes, and {most:,} are the most we read")
        return file.read(most)


def write_atomically(path: str | Path, write: bytes | Callable[[Path], None]) -> None:
    """Write a file beside its place and move it there: who interrupts it finds the old file.

    ``write`` is the content, or a function that writes it to the path it is given. A pipe or a device is written to as
    it is.

    Raises
    ------
    RcbError
        A place that cannot be written to.
    """
    unfinished: Path | None = None
    try:
        target = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
        put = write if callable(write) else lambda place: place.write_bytes(write)
        if target.exists() and not target.is_file():
            put(Path(path))
            return
        unfinished = target.with_name(f".{target.name[:100]}.{os.getpid()}-{os.urandom(4).hex()}.unfinished")
        put(unfinished)
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        with suppress(OSError):
            os.chmod(unfinished, stat.S_IMODE(target.stat().st_mode))  # as the old file had it
        os.replace(unfinished, target)
    except (OSError, ValueError) as error:
        raise RcbError(
            f"Cannot write {path}: {getattr(error, 'strerror', None) or error}. Choose another place."
        ) from None
    finally:
        if unfinished is not None:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
    with suppress(OSError, AttributeError):  # the name is to last, too; not every system lets folders be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
