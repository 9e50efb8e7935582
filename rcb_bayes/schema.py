"""Names and shapes shared by the whole package: dimensions, labels, checked arrays and seeds.

The dimensions ``chain`` and ``draw`` are ArviZ's; ours are named here once. Arms and features carry labels,
``arm_0 ...`` and ``feature_0 ...`` unless the user gives others.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rcb_bayes.errors import DataError, RcbError

ARM = "arm"
FEATURE = "feature"

FloatArray = NDArray[np.float64]
Seed = int | np.random.SeedSequence | None


def default_labels(dim: str, size: int) -> tuple[str, ...]:
    """Labels ``dim_0, dim_1, ...`` for a dimension whose entries have no names of their own."""
    return tuple(f"{dim}_{k}" for k in range(size))


def as_labels(labels: Iterable[object] | None, *, dim: str, size: int) -> tuple[str, ...]:
    """Check that labels are distinct and as many as the dimension is long; default labels for None."""
    if labels is None:
        return default_labels(dim, size)
    named = tuple(str(label) for label in labels)
    if len(named) != size:
        raise RcbError(f"Expected {size} {dim} labels, got {len(named)}: {_shorten(named)}. Give one label per {dim}.")
    if len(set(named)) != size:
        raise RcbError(f"The {dim} labels must differ from each other, got {_shorten(named)}.")
    return named


def as_finite_array(values: ArrayLike, *, name: str, ndim: int | tuple[int, ...] | None = None) -> FloatArray:
    """A float array without NaN or infinity, of one of the given numbers of dimensions.

    Raises
    ------
    DataError
        When the values are not numeric, not finite or of another rank.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numeric, got {type(values).__name__} ({error}).") from None
    ranks = (ndim,) if isinstance(ndim, int) else ndim
    if ranks is not None and array.ndim not in ranks:
        wanted = " or ".join(str(rank) for rank in ranks)
        raise DataError(f"{name} must have {wanted} dimension(s), got shape {array.shape}.")
    if not np.isfinite(array).all():
        bad = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        count = int((~np.isfinite(array)).sum())
        where = f" at index {bad}" if bad else ""
        raise DataError(f"{name} must be finite, got {count} NaN or infinite value(s), the first{where}. Fill or drop them.")
    return array


def as_rng(seed: Seed) -> np.random.Generator:
    """A generator from a seed or a spawned ``SeedSequence``."""
    return np.random.default_rng(seed)


def suggestion(word: str, known: Sequence[str]) -> str:
    """``" Did you mean 'x'?"`` where a known word is close, else an empty string."""
    close = get_close_matches(word, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def _shorten(labels: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(labels[:most])
    return shown + (", ..." if len(labels) > most else "")
