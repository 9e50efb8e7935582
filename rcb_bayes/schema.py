"""Names and shapes shared by the whole package: dimensions, labels, checked arrays, numbers and seeds.

The dimensions ``chain`` and ``draw`` are ArviZ's; ours are named here once. Arms and features carry labels,
``arm_0 ...`` and ``feature_0 ...`` unless the user gives others.
"""

import math
import re
from collections.abc import Iterable, Sequence, Sized
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from itertools import islice
from numbers import Integral, Real
from typing import Annotated, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rcb_bayes.errors import DataError, RcbError

ARM = "arm"
FEATURE = "feature"

LOG_COLUMNS = ("ticket", "arm", "stage", "propensity", "taken", "reward", "counted", "known_from")
"""Of logs, beside those of features and ``p_<arm>`` of every arm."""

DEFAULT_SEED = 1
"""Of every function that draws, and of the command line; a plan and its audit may share it, since streams are named."""
DEFAULT_HORIZON = 10_000
"""T, rounds in all, of every function that needs them."""

FloatArray = NDArray[np.float64]
Table = Annotated[FloatArray, 2]
"""A row for each user; of what is public, the number of dimensions is looked at."""
BoolArray = NDArray[np.bool_]
Labels = Iterable[object] | None
Seed = int | np.random.SeedSequence | np.random.Generator | None

MOST_COUNT = 2**62
_LARGEST = 1e100
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls of a terminal, of lines and of the direction of text, and halves of characters."""
_NOT_NUMBERS = (str, bytes, np.datetime64, np.timedelta64)
_NOT_COUNTS = (bool, np.timedelta64)  # which Python takes for integers


def default_labels(dim: str, size: int) -> tuple[str, ...]:
    """Labels ``dim_0, dim_1, ...`` for a dimension whose entries have no names of their own."""
    return tuple(f"{dim}_{k}" for k in range(size))


def as_labels(labels: Labels, *, dim: str, size: int) -> tuple[str, ...]:
    """Check that labels are distinct and as many as the dimension is long; default labels for None.

    Raises
    ------
    RcbError
        When the labels are no list (a bare string is none), too few, too many or repeated, or have characters that
        cannot be seen.
    """
    if labels is None:
        return default_labels(dim, size)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise RcbError(f"Expected a list of {size} {dim} labels, got {labels!r}. Put the labels into a list.")
    named = tuple(str(label) for label in (labels if isinstance(labels, Sized) else islice(labels, size + 1)))
    if len(named) != size:
        raise RcbError(f"Expected {size} {dim} labels, got {len(named)}: {_shorten(named)}. Give one label per {dim}.")
    if len(set(named)) != size:
        raise RcbError(f"The {dim} labels must differ from each other, got {_shorten(named)}. Rename some.")
    odd = next((label for label in named if _UNSEEN.search(label)), None)
    if odd is not None:
        raise RcbError(f"The {dim} labels must be text that can be seen, got '{seen(odd)[:80]}'. Rename it.")
    return named


def seen(text: str, *, but: str = "") -> str:
    """Text with controls, and characters that no file can have, spelled out; ``but`` are left as they are."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in but else ascii(found[0])[1:-1], text)


def as_finite_array(values: ArrayLike, *, name: str, ndim: int | tuple[int, ...] | None = None) -> FloatArray:
    """A float array without NaN or infinity, of one of the given numbers of dimensions; copied only where needed.

    Raises
    ------
    DataError
        When the values are not numeric (text, dates and complex numbers are not), not finite or of another rank.
    """
    array = _as_floats(values, name=name)
    ranks = (ndim,) if isinstance(ndim, int) else ndim
    if ranks is not None and array.ndim not in ranks:
        wanted = " or ".join(str(rank) for rank in ranks)
        raise DataError(f"{name} must have {wanted} dimension(s), got shape {array.shape}.")
    if not np.isfinite(array).all():
        bad = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        count = int((~np.isfinite(array)).sum())
        where = f", the first at index {bad}" if bad else ""
        raise DataError(f"{name} must be finite, got {count} NaN or infinite value(s){where}. Fill or drop them.")
    return array


def check_unmasked(values: object, *, name: str) -> None:
    """Refuse NumPy arrays, or lists of them, with entries that are masked: what is below a mask is no datum."""
    for part in values if isinstance(values, (list, tuple)) else [values]:
        if np.ma.is_masked(part):
            raise DataError(f"{name} has masked entries. Drop them, or fill them in (.filled(value)).")


def as_covariance(values: ArrayLike, *, name: str) -> FloatArray:
    """A covariance matrix (d, d), exactly symmetric, from a matrix or from d variances.

    Raises
    ------
    DataError
        When the values are not finite, not square, not symmetric or not positive semi-definite, up to rounding.
    """
    matrix = as_finite_array(values, name=name, ndim=(1, 2))
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    if matrix.size == 0 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"{name} must be a (d, d) matrix or d variances, got shape {matrix.shape}.")
    negligible = 1e-8 * np.abs(matrix).max()
    gap = np.abs(matrix - matrix.T)
    if gap.max() > negligible:
        i, j = (int(k) for k in np.unravel_index(gap.argmax(), gap.shape))
        pair = f"{name}[{i}, {j}] = {matrix[i, j]:.6g} but {name}[{j}, {i}] = {matrix[j, i]:.6g}"
        raise DataError(f"{name} must be symmetric, got {pair}. Use ({name} + {name}.T) / 2 if that is rounding.")
    matrix = matrix / 2 + matrix.T / 2
    lowest = float(np.linalg.eigvalsh(matrix)[0])
    if lowest < -negligible:
        raise DataError(
            f"{name} must be positive semi-definite, got smallest eigenvalue {lowest:.3g}. "
            "Check variances and correlations, or raise the negative eigenvalues to zero."
        )
    return matrix


def as_count(value: object, *, name: str, least: int = 0, most: int = MOST_COUNT, why: str = "") -> int:
    """An integer from ``least`` to ``most``, for the reason ``why``; RcbError for anything else, such as 2.0 or True.

    Whatever is counted has to fit 64 bits with something to spare.
    """
    if isinstance(value, _NOT_COUNTS) or not isinstance(value, Integral) or value < least:
        raise RcbError(f"{name} must be an integer of at least {least}, got {shown(value)}.")
    if int(value) > most:
        because = f" ({why})" if why else ""
        raise RcbError(f"{name} must be an integer of at most {most:,}{because}, got {shown(value)}.")
    return int(value)


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is one finite real number, and not a truth value.

    Beyond 1e100 squares and sums of them are not finite any more, so neither is the number.
    """
    if not isinstance(value, Real) or isinstance(value, _NOT_COUNTS):
        return False
    try:
        return abs(float(value)) <= _LARGEST
    except OverflowError:  # of a whole number
        return False


def shown(value: object) -> str:
    """A value in a message; a number of hundreds of digits by its size."""
    if isinstance(value, Integral) and not isinstance(value, _NOT_COUNTS) and abs(int(value)) >= 10**30:
        return f"about {'-' * (int(value) < 0)}10^{int(abs(int(value)).bit_length() * math.log10(2))}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_rng(seed: Seed) -> np.random.Generator:
    """A generator from a seed or a spawned ``SeedSequence``; a generator is used as it stands, and moves on.

    Raises
    ------
    RcbError
        When the seed is something else: negative, a float, a truth value, text.
    """
    if isinstance(seed, bool) or not (
        seed is None
        or isinstance(seed, np.random.SeedSequence | np.random.Generator)
        or (isinstance(seed, Integral) and seed >= 0)
    ):
        expected = "a non-negative integer, a SeedSequence, a Generator or None"
        raise RcbError(f"seed must be {expected}, got {seed!r}. Write seed=1, or another whole number.")
    return np.random.default_rng(seed)


def frozen(array: FloatArray) -> FloatArray:
    """A copy that cannot be written to."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def suggestion(word: str, known: Sequence[str]) -> str:
    """``" Did you mean 'x'?"`` where a known word is close, else an empty string."""
    close = get_close_matches(word, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def no_such(
    kind: str, word: object, known: Iterable[str], *, told: str = "Use one of", error: type[RcbError] = RcbError
) -> RcbError:
    """The error for a word that is none of those that are known: with the nearest, and all of them."""
    words = tuple(known)
    return error(f"There is no {kind} '{word}'.{suggestion(str(word), words)} {told} {', '.join(words)}.")


def arms_among(saturated: Sequence[str], arms: Sequence[str]) -> tuple[str, ...]:
    """Arms that somebody names, one or several, in the order of all of them."""
    names = [saturated] if isinstance(saturated, str) else [str(name) for name in saturated]
    places = {position_of(name, arms) for name in names}
    return tuple(arm for place, arm in enumerate(arms) if place in places)


def position_of(label: object, arms: Sequence[str], *, error: type[RcbError] = RcbError) -> int:
    """Where an arm stands."""
    if label not in arms:
        raise no_such("arm", label, arms, told="The arms are", error=error)
    return list(arms).index(str(label))


def as_amount(value: object, *, name: str) -> float:
    """A finite number of at least 0."""
    if not (is_number(value) and value >= 0.0):
        raise RcbError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(value)


def as_positive(value: object, *, name: str) -> float:
    """A number above 0."""
    if not (is_number(value) and value > 0.0):
        raise RcbError(f"{name} must be a positive number, got {value!r}.")
    return float(value)


def as_probability(value: object, *, name: str) -> float:
    """A number between 0 and 1, neither of them."""
    if not (is_number(value) and 0.0 < value < 1.0):
        raise RcbError(f"{name} is a probability between 0 and 1, got {value!r}.")
    return float(value)


def _as_floats(values: ArrayLike, *, name: str) -> FloatArray:
    check_unmasked(values, name=name)
    try:
        raw = np.asarray(values)
        # NumPy would read the text "1.5" as a number, turn dates into nanoseconds and drop imaginary parts.
        if raw.dtype.kind not in "biufO":
            raise TypeError(f"values of type {raw.dtype}")
        if raw.dtype.kind == "O" and any(isinstance(value, _NOT_NUMBERS) for value in raw.flat):
            raise TypeError("with text or dates among the values")
        return raw.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        got = f"{type(values).__name__} ({error})"
        raise DataError(f"{name} must be numeric, got {got}. Give numbers, in rows of equal length.") from None


def plain(value: Any) -> Any:
    """A value as JSON has it: records by name, lists, numbers, words, and None for what is endless or unknown."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shorten(labels: Sequence[str], most: int = 6) -> str:
    told = ", ".join(" ".join(label.split())[:80] for label in labels[:most])
    return told + (", ..." if len(labels) > most else "")
