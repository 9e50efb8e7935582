"""What people say about arms: a table of quantiles, read and checked.

An answer is about a kind of user x and an arm: "with 10 in 100 it gives less than .2". Tables have a column for each
covariate, one for the ``arm``, perhaps a ``rival`` (the answer is then about how much more the arm gives than the
rival) and an ``expert``, and the quantiles: either a column for each level (``q10``, ``q50``, ``q90``) or two columns,
``level`` and ``value``.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rcb_bayes.errors import BeliefError
from rcb_bayes.files.tables import parse_cell, read_cells
from rcb_bayes.schema import FloatArray, as_labels, is_number, suggestion

ARM, RIVAL, EXPERT, LEVEL, VALUE = "arm", "rival", "expert", "level", "value"
WORDS = (ARM, RIVAL, EXPERT, LEVEL, VALUE)
_Key = tuple[str, str, str | None, tuple[float, ...]]  # expert, arm, rival, covariates
_QUANTILE = re.compile(r"q(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What one expert says about an arm (against a ``rival``, where there is one) for users of one kind.

    Attributes
    ----------
    x : covariates, (p,)
    levels, values : quantiles in the order of their levels, each (q,)
    """

    expert: str
    arm: str
    rival: str | None
    x: tuple[float, ...]
    levels: FloatArray
    values: FloatArray

    def about(self, covariates: Iterable[str]) -> str:
        """Whom and what it is about, in words."""
        users = ", ".join(f"{name}={value:g}" for name, value in zip(covariates, self.x, strict=True))
        against = "" if self.rival is None else f" against '{self.rival}'"
        return f"arm '{self.arm}'{against} for {users}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """All answers of a table, with the names of its covariates and of its arms in the order in which they are met."""

    covariates: tuple[str, ...]
    arms: tuple[str, ...]
    answers: tuple[Answer, ...]

    @property
    def experts(self) -> tuple[str, ...]:
        """Who answered, in the order in which they are met."""
        return tuple(dict.fromkeys(answer.expert for answer in self.answers))

    def of(self, expert: str) -> "Answers":
        """One expert's.

        Raises
        ------
        BeliefError
            Nobody of this name.
        """
        if expert not in self.experts:
            raise BeliefError(f"There is no expert '{expert}'.{suggestion(expert, self.experts)}")
        mine = tuple(answer for answer in self.answers if answer.expert == expert)
        return Answers(covariates=self.covariates, arms=self.arms, answers=mine)


def read_answers(table: Any) -> Answers:
    """The answers of a table: a DataFrame, columns by name, records, or the path of a comma-separated file.

    Raises
    ------
    BeliefError
        Missing columns, values that are no numbers, levels outside of (0, 1), quantiles that cross.
    """
    records = _records(table)
    names = list(records[0])
    if ARM not in names:
        raise BeliefError(
            f"Answers need a column 'arm', covariates and quantiles, got the columns {', '.join(names) or 'none'}."
            f"{suggestion(ARM, names)}"
        )
    levels = _level_columns(names)
    covariates = tuple(name for name in names if name not in WORDS and name not in levels)
    if not covariates:
        raise BeliefError("Answers need a column for each covariate of the users they are about, such as 'age'.")
    gathered: dict[_Key, list[tuple[float, float]]] = {}
    for row, record in enumerate(records):
        x = tuple(_number(record[name], name, row) for name in covariates)
        arm, rival, expert = (_word(record.get(name)) for name in (ARM, RIVAL, EXPERT))
        if not arm:
            raise BeliefError(f"Row {row + 1} of the answers names no arm. Fill it in, or leave the row out.")
        key = (expert or "expert", arm, rival or None, x)
        gathered.setdefault(key, []).extend(_points(record, levels, row))
    answers = tuple(_answer(key, points, covariates=covariates) for key, points in gathered.items())
    arms = dict.fromkeys(name for one in answers for name in (one.rival, one.arm) if name is not None)
    found = Answers(covariates=covariates, arms=tuple(arms), answers=answers)
    for dim, names in (("covariate", covariates), ("arm", found.arms), ("expert", found.experts)):
        as_labels(names, dim=dim, size=len(names))
    return found


def _records(table: Any) -> list[dict[str, Any]]:
    if isinstance(table, str | os.PathLike):
        cells = read_cells(Path(os.path.expanduser(table)), row="answer")
        found = [dict(zip(cells.header, map(parse_cell, cells_), strict=True)) for cells_ in cells.records]
    elif hasattr(table, "to_dict") and hasattr(table, "columns"):
        found = table.to_dict("records")
    elif isinstance(table, Mapping):
        columns = {str(name): list(np.atleast_1d(np.asarray(part, dtype=object))) for name, part in table.items()}
        if len({len(part) for part in columns.values()}) > 1:
            raise BeliefError("The columns of the answers have different lengths.")
        found = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        found = list(table) if isinstance(table, Iterable) else []
    if not found or not all(isinstance(row, Mapping) for row in found):
        raise BeliefError(
            "Answers must be a table with at least one row: a DataFrame, a dict of columns, a list of dicts, or the "
            f"path of a CSV file; got {type(table).__name__}."
        )
    names = dict.fromkeys(str(name) for row in found for name in row)
    return [{name: row.get(name) for name in names} for row in ({str(k): v for k, v in row.items()} for row in found)]


def _level_columns(names: list[str]) -> dict[str, float]:
    """Columns of quantiles with their levels; none where there are ``level`` and ``value`` instead."""
    found = {name: float(match[1]) / 100.0 for name in names if (match := _QUANTILE.fullmatch(name))}
    odd = next((name for name, level in found.items() if not 0.0 < level < 1.0), None)
    if odd is not None:
        raise BeliefError(f"Columns of quantiles are q1 to q99, the level in per cent, got '{odd}'. Rename it.")
    if not found and not {LEVEL, VALUE} <= set(names):
        raise BeliefError(
            "Answers need their quantiles: columns such as q10, q50 and q90, or two columns 'level' and 'value'; got "
            f"the columns {', '.join(names)}."
        )
    return found


def _points(record: dict[str, Any], levels: dict[str, float], row: int) -> list[tuple[float, float]]:
    """Levels and values of a row; an empty cell says nothing."""
    found = [(level, record[name]) for name, level in levels.items()]
    if not levels:
        found = [(_number(record[LEVEL], LEVEL, row), record[VALUE])]
    points = [(level, _number(value, "a quantile", row)) for level, value in found if not _is_empty(value)]
    for level, _ in points:
        if not 0.0 < level < 1.0:
            raise BeliefError(f"Row {row + 1} of the answers: levels lie between 0 and 1, got {level:g}.")
    return points


def _word(value: Any) -> str:
    return "" if _is_empty(value) else str(value).strip()


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and np.isnan(value))


def _number(value: Any, name: str, row: int) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, bool) or not is_number(found):
        raise BeliefError(f"Row {row + 1} of the answers: {name} must be a finite number, got {value!r}.")
    return found


def _answer(key: _Key, points: list[tuple[float, float]], *, covariates: tuple[str, ...]) -> Answer:
    expert, arm, rival, x = key
    ordered = sorted(set(points))
    levels, values = (np.array(part) for part in zip(*ordered, strict=True)) if ordered else (np.zeros(0), np.zeros(0))
    found = Answer(expert=expert, arm=arm, rival=rival, x=x, levels=levels, values=values)
    if arm == rival:
        raise BeliefError(f"An arm cannot be its own rival: {found.about(covariates)}.")
    if len(levels) < 2:
        raise BeliefError(
            f"Two quantiles tell a centre and a spread; got {len(levels)} of {found.about(covariates)}. Ask for one "
            "more, such as q90."
        )
    for k in range(len(levels) - 1):
        if levels[k] == levels[k + 1]:
            raise BeliefError(
                f"The answers give two values of {found.about(covariates)} at level {levels[k]:g}: {values[k]:g} and "
                f"{values[k + 1]:g}. Keep one, or say whose they are in a column 'expert'."
            )
        if not (levels[k] < levels[k + 1] and values[k] < values[k + 1]):
            raise BeliefError(
                f"Quantiles of {found.about(covariates)} cross: {values[k]:g} at level {levels[k]:g}, then "
                f"{values[k + 1]:g} at level {levels[k + 1]:g}. Values must rise with their levels."
            )
    return found
