"""The design matrix of a formula for any users and arms, and the functions of x that its columns are."""

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.belief.basis import INTERCEPT
from rcb_bayes.errors import BeliefError, DataError
from rcb_bayes.schema import FloatArray


def levels_of(column: Any) -> list[Any]:
    """The levels of a column, in the order of its categories or sorted."""
    if hasattr(column, "cat"):
        return list(column.cat.categories)
    return sorted(column.dropna().unique().tolist())


# --- covariates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A covariate: a number, or a level that x has by its position."""

    name: str
    levels: tuple[Any, ...] | None

    def of(self, x: FloatArray) -> Any:
        """What the formula is told, for values of x.

        Raises
        ------
        DataError
            A number that is no position of a level.
        """
        if self.levels is None:
            return x
        position = np.rint(x).astype(int)
        if not np.array_equal(position, x) or (position < 0).any() or (position >= len(self.levels)).any():
            raise DataError(
                f"The covariate '{self.name}' is a factor: x has the position of its level, 0 to "
                f"{len(self.levels) - 1} ({', '.join(map(str, self.levels[:6]))})."
            )
        return np.asarray(self.levels, dtype=object)[position]

    def positions(self, values: Any) -> FloatArray:
        """The other way round."""
        if self.levels is None:
            return np.asarray(values, dtype=float)
        where = {level: k for k, level in enumerate(self.levels)}
        return np.array([where[value] for value in values], dtype=float)


def covariates_of(model: Any, component: Any, arm: str) -> tuple[Column, ...]:
    """The covariates that the formula's terms mention, in the order of the data's columns."""
    used: set[str] = set()
    for matrix in (component.design.common, component.design.group):
        for term in matrix.terms.values() if matrix else ():
            parts = [term] if hasattr(term, "var_names") else [term.expr, term.factor]
            used |= {str(name) for part in parts for name in part.var_names}
    names = [str(column) for column in model.data.columns if str(column) in used - {arm}]
    if not names:
        raise BeliefError("The formula has no covariate beside the arms: every user would get the same.")
    found = []
    for name in names:
        column = model.data[name]
        is_number = np.issubdtype(np.asarray(column).dtype, np.number) and not hasattr(column, "cat")
        found.append(Column(name, None if is_number else tuple(levels_of(column))))
    return tuple(found)


# --- functions of x ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The design matrix of any users, for any arm."""

    common: Any
    group: Any
    arm: str
    arms: tuple[Any, ...]
    inputs: tuple[Column, ...]

    def table(self, x: FloatArray) -> dict[str, Any]:
        """What is known of users, x (n, p), by the formula's names."""
        return {column.name: column.of(x[:, k]) for k, column in enumerate(self.inputs)}

    def rows(self, x: FloatArray, arm: Any) -> FloatArray:
        """The design matrix (n, P) of users who all get the same arm."""
        import pandas as pd

        data = pd.DataFrame(self.table(x) | {self.arm: [arm] * len(x)})
        data[self.arm] = pd.Categorical(data[self.arm], categories=list(self.arms))
        parts = [matrix.evaluate_new_data(data).design_matrix for matrix in (self.common, self.group) if matrix]
        dense = [part.toarray() if hasattr(part, "toarray") else part for part in parts]
        return np.concatenate([np.asarray(part, dtype=float).reshape(len(x), -1) for part in dense], axis=1)

    def names(self) -> list[str]:
        """Names of the columns."""
        found: list[str] = []
        for matrix in (self.common, self.group):
            for term in matrix.terms.values() if matrix else ():
                found.extend(str(label) for label in np.ravel(term.labels))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Functions of x, (n, p) -> (n, F): columns of the design matrix, each of an arm that has it."""

    design: Design
    chosen: tuple[tuple[int, int], ...]  # of each function an arm and a column

    def __call__(self, x: FloatArray) -> FloatArray:
        """The functions of users, (n, F)."""
        out = np.empty((len(x), len(self.chosen)))
        for arm in sorted({one for one, _ in self.chosen}):
            rows = self.design.rows(x, self.design.arms[arm])
            for k, (one, column) in enumerate(self.chosen):
                if one == arm:
                    out[:, k] = rows[:, column]
        return out


def functions_of(design: Design, data: Any) -> tuple[FloatArray, list[str], tuple[tuple[int, int], ...]]:
    """Which function each column is for each arm, as a matrix (K, F, P) of zeros and ones, and the functions."""
    x = np.stack([column.positions(data[column.name]) for column in design.inputs], axis=1)
    x = np.unique(x, axis=0)
    names = design.names()
    known: dict[bytes, int] = {}
    chosen: list[tuple[int, int]] = []
    labels: list[str] = []
    uses: list[tuple[int, int, int]] = []
    for arm, level in enumerate(design.arms):
        for k, column in enumerate(np.ascontiguousarray(design.rows(x, level).T)):
            if not column.any():
                continue
            key = (column + 0.0).tobytes()
            if key not in known:
                known[key] = len(chosen)
                chosen.append((arm, k))
                labels.append(_label(column, x, design, name=names[k] if k < len(names) else "", taken=labels))
            uses.append((arm, known[key], k))
    n_columns = design.rows(x[:1], design.arms[0]).shape[1]
    places = np.zeros((len(design.arms), len(chosen), n_columns))
    for use in uses:
        places[use] = 1.0
    return places, labels, tuple(chosen)


def _label(column: FloatArray, x: FloatArray, design: Design, *, name: str, taken: Sequence[str]) -> str:
    """What to call a function: the covariate that it is, 1, or the column's own name without the arm's part."""
    if (column == 1.0).all():
        label = INTERCEPT
    else:
        same = [one.name for k, one in enumerate(design.inputs) if np.array_equal(column, x[:, k])]
        bare = re.sub(rf"(^|:){re.escape(design.arm)}(\[[^\]]*\])?(?=:|$)", "", name).strip(":")
        label = same[0] if same else bare
    return label if label and label not in taken else f"basis_{len(taken)}"


# --- sent to other processes -----------------------------------------------------------------------------------------


def portable(matrix: Any, names: set[str]) -> Any:
    """A copy of a part of the design that can be sent to other processes.

    Formulae keeps the frame that a model was written in; of it only what the formula names is kept.
    """
    if not matrix:
        return None
    found: dict[int, Any] = {id(matrix.data): None}
    parts = [matrix, *(part for term in matrix.terms.values() for part in _calls(term))]
    for part in parts:
        env = getattr(part, "env", None)
        if env is not None:
            inner = env.namespace
            found[id(env)] = type(env)([{name: inner[name] for name in names if name in inner}])
    return deepcopy(matrix, found)


def _calls(term: Any) -> list[Any]:
    """Parts of a term that may be calls of functions."""
    inner = [getattr(term, name, None) for name in ("term", "expr", "factor")]
    own = list(getattr(term, "components", None) or [])
    return own + [part for one in inner if one is not None for part in [one, *_calls(one)]]
