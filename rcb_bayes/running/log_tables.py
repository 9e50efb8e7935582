"""Logs as tables: a row a round, read and checked.

A column for each feature of the market, ``arm``, ``reward`` and, if known, propensities: ``p_<arm>`` for every arm, or
``propensity`` of the arm recommended. The cell of an arm that a user could not have is empty.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.market import Market
from rcb_bayes.market.samples import Samples
from rcb_bayes.mechanism.margins import MIN_WORLDS
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.users.tables import read_log as read_log_file

if TYPE_CHECKING:
    import pandas as pd

_AGREE = 1e-6  # by as much may propensities differ that are given twice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Log:
    """A log as arrays.

    Attributes
    ----------
    x : (T, d); ``arm``, ``taken`` : positions of what was recommended, and of what was taken, (T,)
    reward : (T,), NaN where none came
    weights : (T, K), propensities, or what was recommended
    has_propensities : whether they are propensities
    counted : whether the sample entered the data, (T,)
    people : users' own x, (T, p), of which ``x`` are the features
    propensity : of what was recommended, (T,); None where it was not logged
    past : the private history of the run, where it had one
    available : arms that users could have, (T, K); None where they could have all
    """

    x: FloatArray
    arm: np.ndarray
    taken: np.ndarray
    reward: FloatArray
    weights: FloatArray
    has_propensities: bool
    counted: np.ndarray
    people: FloatArray
    propensity: FloatArray | None
    past: Samples | None = None
    available: BoolArray | None = None


def as_log(market: Market, table: "pd.DataFrame", *, least: int = MIN_WORLDS) -> Log:
    """A table of at least so many rounds as arrays, checked."""
    wanted = [*market.features, "arm", "reward"]
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise DataError(
            f"The log lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing[:5])}. "
            "It needs one for each feature of the belief, arm and reward."
        )
    if len(table) < least:
        raise DataError(f"The log has {len(table)} rounds, and {least} are the least that can be judged.")
    arm = _arms(table, "arm", market)
    people = np.stack([_numbers(table, name) for name in market.features], axis=1)
    weights, available = _weights(table, market, arm)
    has_propensities = f"p_{market.arms[0]}" in table.columns
    own = _numbers(table, "propensity") if "propensity" in table.columns else None
    counted = (_numbers(table, "counted") if "counted" in table.columns else np.ones(len(table))) > 0
    return Log(
        x=market.features_of(people),
        arm=arm,
        taken=_arms(table, "taken", market) if "taken" in table.columns else arm,
        reward=_numbers(table, "reward", where=counted),
        weights=weights,
        has_propensities=has_propensities,
        counted=counted,
        people=people,
        propensity=weights[np.arange(len(arm)), arm] if has_propensities else own,
        available=available,
    )


def read_log(log: "pd.DataFrame | str | Path") -> "pd.DataFrame":
    """A log's table, rounds in their order."""
    import pandas as pd

    if isinstance(log, pd.DataFrame):
        table = log
    else:
        try:
            table = read_log_file(Path(log), words=("arm", "taken", "stage"))
        except (DataError, TypeError) as error:
            raise DataError(f"Cannot read a log: {error}") from None
    if "ticket" not in table.columns:
        return table
    return table.iloc[np.argsort(_numbers(table, "ticket"), kind="stable")].reset_index(drop=True)


def _arms(table: "pd.DataFrame", name: str, market: Market) -> np.ndarray:
    """Positions of the arms of a column."""
    labels = np.array([str(label) for label in table[name]], dtype=object)
    places = {label: k for k, label in enumerate(market.arms)}
    unknown = sorted({label for label in labels.tolist() if label not in places})
    if unknown:
        raise DataError(f"The log has the arm {unknown[0][:60]!r}, the market {', '.join(market.arms)}.")
    return np.array([places[label] for label in labels.tolist()])


def _numbers(table: "pd.DataFrame", name: str, *, where: np.ndarray | None = None) -> FloatArray:
    """A column of finite numbers, at least where they are needed."""
    import pandas as pd

    values = np.asarray(pd.to_numeric(table[name], errors="coerce"), dtype=float)
    missing = ~np.isfinite(values) if where is None else ~np.isfinite(values) & where
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        place = f"line {table.index[row]}" if table.index.name == "line" else f"row {row + 1}"
        raise DataError(
            f"Column '{name}' of the log has no finite number in {place}: {str(table[name].iloc[row])[:40]!r}."
        )
    return values


def _weights(table: "pd.DataFrame", market: Market, arm: np.ndarray) -> tuple[FloatArray, BoolArray | None]:
    """Propensities of all arms where they were logged, else what was recommended; and which arms users could have."""
    rounds = np.arange(len(arm))
    if "propensity" in table.columns:
        _check_own(_numbers(table, "propensity"))
    names = [f"p_{label}" for label in market.arms]
    there = [name for name in names if name in table.columns]
    if not there:
        return np.eye(market.n_arms)[arm], None
    if len(there) < len(names):
        lacking = ", ".join(name for name in names if name not in there)
        raise DataError(f"Propensities are needed of every arm, or of none; the log lacks {lacking}.")
    available = np.stack([~_is_empty(table, name) for name in names], axis=1)
    found = np.stack([_numbers(table, name, where=available[:, k]) for k, name in enumerate(names)], axis=1)
    found = np.where(available, found, 0.0)
    if (found < 0).any() or np.abs(found.sum(axis=1) - 1.0).max() > 1e-6:
        row = int(np.flatnonzero((found < 0).any(axis=1) | (np.abs(found.sum(axis=1) - 1.0) > 1e-6))[0])
        raise DataError(f"Propensities must not be negative and must sum to one; in row {row + 1} they do not.")
    _check_own(found[rounds, arm])
    if "propensity" in table.columns:
        _check_agreement(_numbers(table, "propensity"), found[rounds, arm])
    return found, None if available.all() else available


def _is_empty(table: "pd.DataFrame", name: str) -> BoolArray:
    """Cells of a column without a value, (T,)."""
    import pandas as pd

    return np.asarray(pd.isna(table[name]), dtype=bool)


def _check_agreement(own: FloatArray, found: FloatArray) -> None:
    """The propensity of the arm recommended, given twice."""
    apart = np.abs(own - found) > _AGREE
    if apart.any():
        row = int(np.flatnonzero(apart)[0])
        raise DataError(
            f"Column 'propensity' and the propensities of every arm differ in row {row + 1}: {own[row]:.4g} and "
            f"{found[row]:.4g} for the arm recommended. Leave out those that were not acted on."
        )


def _check_own(propensity: FloatArray) -> None:
    if not ((propensity > 0) & (propensity <= 1)).all():
        row = int(np.flatnonzero(~((propensity > 0) & (propensity <= 1)))[0])
        raise DataError(
            f"The arm recommended in row {row + 1} has the propensity {propensity[row]:g}: what was recommended must "
            "have had a chance, of at most 1."
        )
