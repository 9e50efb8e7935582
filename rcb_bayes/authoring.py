"""Helpers for writing a belief: labelled coordinates, and parameters as numbers or one per arm or coefficient."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.schema import ARM, FEATURE, FloatArray, as_count, default_labels, is_number

_LEAST = {ARM: 2, FEATURE: 1}
_MOST_COEFFICIENTS = 10_000


def labelled_coords(
    n_arms: int, n_features: int, *, arms: Sequence[str] | None = None, features: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Coordinates for ``pm.Model(coords=...)``: the labels given, or ``arm_0, ...`` and ``feature_0, ...``.

    Raises
    ------
    ValueError
        When there are fewer than two arms or no feature, too many of both, or labels are no list or stand twice.
    """
    coords = {ARM: _labels(ARM, n_arms, arms), FEATURE: _labels(FEATURE, n_features, features)}
    n = len(coords[ARM]) * len(coords[FEATURE])
    if n > _MOST_COEFFICIENTS:
        raise ValueError(
            f"{len(coords[ARM]):,} arms and {len(coords[FEATURE]):,} features are {n:,} coefficients, and "
            f"{_MOST_COEFFICIENTS:,} are the most: their covariance alone takes {_MOST_COEFFICIENTS**2 * 8 / 1e9:g} GB."
        )
    return coords


def per_coefficient(value: ArrayLike, *, name: str, coords: dict[str, list[str]], positive: bool = False) -> FloatArray:
    """One number, one per arm, or one per arm and feature, as an array (n_arms, n_features).

    Raises
    ------
    ValueError
        When the value is no number, has another shape, is not finite or, on request, not positive.
    """
    shape = len(coords[ARM]), len(coords[FEATURE])
    expected = f"{name} must be one number, one per arm, or of shape {shape}"
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{expected}, got {short(value)}.") from None
    array = array[:, None] if array.ndim == 1 else array
    if array.shape not in ((), (shape[0], 1), shape):
        raise ValueError(f"{expected}, got shape {np.shape(value)}.")
    if not np.isfinite(array).all() or (positive and array.min() <= 0):
        raise ValueError(f"{name} must be finite{' and positive' * positive}, got {array.min():g} to {array.max():g}.")
    return np.broadcast_to(array, shape)


def number_above(value: float, bound: float = 0.0, *, name: str, why: str = "") -> float:
    """A finite number above a bound; ``why`` there is such a bound stands in the message.

    Raises
    ------
    ValueError
        When the value is anything else, such as text.
    """
    if not is_number(value) or value <= bound:
        wanted = "positive and finite" if bound == 0 else f"finite and exceed {bound:g}"
        raise ValueError(f"{name} must be {wanted}{', ' * bool(why)}{why}, got {short(value)}.")
    return float(value)


def described_arms(table: Any) -> tuple[FloatArray, list[str] | None]:
    """A table that describes arms, as rows of numbers (K, q), and the arms' names where it has them.

    Parameters
    ----------
    table : a CSV file or a DataFrame, with names in the column ``arm``; rows by name; or an array

    Raises
    ------
    ValueError
        A file that cannot be read, text in the place of numbers, fewer than two rows, values that are not finite.
    """
    import pandas as pd

    if isinstance(table, str | Path):
        try:
            table = pd.read_csv(Path(table).expanduser())
        except (OSError, ValueError) as error:
            raise ValueError(f"Cannot read a table of arms from {table}: {error}") from None
    names = None
    if isinstance(table, Mapping):
        table = pd.DataFrame.from_dict({str(arm): list(row) for arm, row in table.items()}, orient="index")
        names = list(table.index)
    if isinstance(table, pd.DataFrame) and "arm" in table.columns:
        names = [str(arm) for arm in table["arm"]]
        table = table.drop(columns="arm")
    try:
        rows = np.asarray(table, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("A table of arms has numbers only, and their names in the column arm.") from None
    if rows.ndim != 2 or len(rows) < 2 or not rows.shape[1] or not np.isfinite(rows).all():
        raise ValueError(f"A table of arms has two rows or more of finite numbers, got shape {rows.shape}.")
    return rows, names


def _labels(dim: str, size: int, given: Sequence[str] | None) -> list[str]:
    least = _LEAST[dim]
    if given is None:
        return list(default_labels(dim, as_count(size, name=f"n_{dim}s", least=least, most=_MOST_COEFFICIENTS)))
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"{dim}s must be a list of labels, got {short(given)}: write {dim}s=['a', 'b'].")
    labels = [str(label) for label in given]
    if len(labels) < least or len(set(labels)) < len(labels):
        raise ValueError(f"{dim}s must be {least} or more distinct {dim} labels, got {labels}.")
    return labels
