"""Users as they are handed in: plain rows in the belief's order, or values with labels, which are taken by name.

A row of a table (a pandas Series), a table, a dict and a DataArray with the dimension ``feature`` name their features,
and may have them in any order. Labels 0, 1, ..., d - 1 are no names: pandas puts them where there are none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FEATURE, FloatArray, as_finite_array, check_unmasked

Users = ArrayLike | Mapping[str, Any]
"""A user or several: arrays, lists, dicts, pandas Series and tables, DataArrays."""


def as_users(
    x: Any,
    *,
    features: Sequence[str],
    name: str,
    ndim: int | tuple[int, ...] = (1, 2),
    also: Sequence[str] | None = None,
) -> FloatArray:
    """Features of users in the belief's order: (d,) of one, (n, d) of several.

    Parameters
    ----------
    x : rows in the order of ``features``, or labelled values in any order
    also : other labels of the same features, in the same order (the population's own)
    name : what messages call it

    Raises
    ------
    DataError
        Unknown, missing or repeated labels; values that are not finite, or of another width.

    Examples
    --------
    >>> as_users({"age": 40, "weight": 70}, features=["weight", "age"], name="x")
    array([70., 40.])
    """
    plain = x if type(x) in (np.ndarray, list, tuple) and not _has_dicts(x) else _by_name(x, features, also, name)
    users = as_finite_array(plain, name=name, ndim=ndim)
    if users.shape[-1] != len(features):
        raise DataError(f"{name} must have {len(features)} features, got {users.shape[-1]}.")
    return users


def _has_dicts(x: Any) -> bool:
    return not isinstance(x, np.ndarray) and len(x) > 0 and isinstance(x[0], Mapping)


def _by_name(x: Any, features: Sequence[str], also: Sequence[str] | None, name: str) -> Any:
    """The values in the order of the features; as they are where they have no labels."""
    if isinstance(x, Mapping):
        order = _order(list(x), features, also, name)
        check_unmasked(list(x.values()), name=name)
        return np.stack([np.asarray(list(x.values())[k]) for k in order], axis=-1)
    if isinstance(x, list | tuple):
        return [_by_name(one, features, also, name) for one in x]
    if hasattr(x, "dims") and hasattr(x, "coords"):  # an xarray.DataArray
        return _of_array(x, features, also, name)
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):
        labels = list(x.columns)
    elif hasattr(x, "index") and hasattr(x, "to_numpy"):
        labels = list(x.index)
    else:
        return x
    values = x.to_numpy()
    return values if labels == list(range(len(labels))) else values[..., _order(labels, features, also, name)]


def _of_array(x: Any, features: Sequence[str], also: Sequence[str] | None, name: str) -> np.ndarray:
    if FEATURE not in x.dims:
        return np.asarray(x.values)
    values = np.asarray(x.transpose(..., FEATURE).values)
    if FEATURE not in x.coords:
        return values
    return values[..., _order(x.coords[FEATURE].values.tolist(), features, also, name)]


def _order(labels: list, features: Sequence[str], also: Sequence[str] | None, name: str) -> list[int]:
    """Where each feature stands among the labels."""
    given = [str(label) for label in labels]
    for known in (features, also or features):
        if len(given) == len(known) and set(given) == set(known):
            return [given.index(label) for label in known]
    missing = [label for label in features if label not in given]
    unknown = [label for label in given if label not in features]
    parts = []
    if missing:
        parts.append(f"lacks {_some(missing)}")
    if unknown:
        parts.append(f"has {_some(unknown)}, which the belief does not know")
    what = " and ".join(parts) or "names a feature twice"
    raise DataError(
        f"{name} {what}. The features are {_some(features)}; select and rename by these, or pass plain numbers in this "
        "order."
    )


def _some(labels: Sequence[str], most: int = 8) -> str:
    return ", ".join(labels[:most]) + (", ..." if len(labels) > most else "")
