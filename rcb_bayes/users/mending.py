"""Tables of real users, met halfway: all that is wrong with them at once, missing values filled in, scales made alike.

What is done is said: every step that changes or leaves out a column gives a note, in words.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.files.tables import parse_cell, read_cells, shown
from rcb_bayes.schema import FloatArray, suggestion
from rcb_bayes.users.tables import choose_columns, fault_of

MISSING = ("refuse", "drop", "mean", "indicator")
"""What may be done about missing values: nothing, leave the user out, fill in the column's mean, or do that and add a
column that is 1 where the value was missing."""
INTERCEPT = "intercept"
_MOST_NAMED = 3
_MOST_CATEGORIES = 12
_FEWEST_NUMBERED = 10  # fewer rows may differ by chance
_NUMBERING = (
    "id",
    "index",
    "row",
    "number",
    "no",
    "nr",
    "user",
    "patient",
    "subject",
    "customer",
    "person",
    "case",
    "key",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mending:
    """What may be done to a table.

    Parameters
    ----------
    missing : one of ``MISSING``
    intercept : the name of a column of ones to be put first; None for none
    standardise : whether columns other than constants and 0/1 are centred and divided by their standard deviation
    leave_text : whether columns of text are left out rather than refused, and row numbers with them
    dummies : whether a column of text with a few values becomes 0/1 columns, one for each value but the first
    """

    missing: str = "refuse"
    intercept: str | None = None
    standardise: bool = False
    leave_text: bool = False
    dummies: bool = False

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            close = suggestion(str(self.missing), MISSING)
            raise DataError(f"missing must be one of {', '.join(MISSING)}, got {self.missing!r}.{close}")


@dataclass(slots=True, kw_only=True)
class Column:
    """A column as it stands: parsed values, and where they are no finite numbers."""

    name: str
    values: list[object]
    text: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    infinite: list[int] = field(default_factory=list)
    source: str = ""  # of a 0/1 column: the column of text that it is made of

    @property
    def is_plain(self) -> bool:
        """Whether what is there is constant or 0/1, which no scale improves."""
        there = [float(value) for k, value in enumerate(self.values) if k not in set(self.missing)]  # type: ignore[arg-type]
        return bool(there) and is_plain(np.array(there))

    @property
    def is_text(self) -> bool:
        """Whether it is text rather than numbers with a slip."""
        return 2 * len(self.text) > len(self.values) - len(self.missing)

    @property
    def is_row_number(self) -> bool:
        """Whether its name and its values, whole and all different, say which user it is and nothing about her."""
        if self.text or self.missing or self.infinite or len(self.values) < _FEWEST_NUMBERED:
            return False
        last = re.split(r"[^a-z]+", self.name.lower().strip())[-1]
        numbers = np.array(self.values, dtype=float)
        return last in _NUMBERING and len(np.unique(numbers)) == len(numbers) and bool((numbers % 1 == 0).all())

    @classmethod
    def of(cls, name: str, values: list[object]) -> "Column":
        """With the places of what is no number."""
        found = cls(name=name, values=values)
        for k, value in enumerate(values):
            if value is None or (isinstance(value, float) and math.isnan(value)):
                found.missing.append(k)
            elif not isinstance(value, bool | int | float):
                found.text.append(k)
            elif math.isinf(value):
                found.infinite.append(k)
        return found


def read_users(
    path: Path, *, columns: Iterable[str] | None, mending: Mending, wanted: Collection[str] = ()
) -> tuple[FloatArray, list[str], tuple[str, ...]]:
    """The chosen columns of a comma-separated file as floats (n, d), their names, and what was done to them.

    Of 0/1 columns made of text those that are ``wanted`` are kept, where any is.

    Raises
    ------
    DataError
        Whatever cannot be used and may not be mended, all of it at once.
    """
    table = read_cells(path)
    names = choose_columns(table.header, columns, path=path)
    found = [
        Column.of(name, [parse_cell(record[table.header.index(name)]) for record in table.records]) for name in names
    ]
    notes: list[str] = []
    if mending.dummies:
        found = [made for column in found for made in _encoded(column, wanted, notes)]
    if mending.leave_text:
        left = [column.name for column in found if column.is_text]
        if left and len(left) < len(found):
            told = ", ".join(_text_words(column) for column in found if column.is_text)
            notes.append(f"columns left out, text and not numbers: {told}")
            found = [column for column in found if not column.is_text]
        numbers = [column.name for column in found if column.is_row_number]
        if numbers and len(numbers) < len(found):
            notes.append(f"columns left out, they only number the rows: {', '.join(map(shown, numbers))}")
            found = [column for column in found if not column.is_row_number]
    _refuse(found, table.lines, path=path, mending=mending)
    grid = np.array([[_as_float(value) for value in column.values] for column in found]).T.reshape(-1, len(found))
    return _mended(grid, found, mending=mending, notes=notes, path=path)


def _encoded(column: Column, wanted: Collection[str], notes: list[str]) -> list[Column]:
    """A column of text with a few values as 0/1 columns; any other column as it is."""
    levels = categories_of(column)
    if not levels:
        return [column]
    names = {level: f"{column.name}_{level}" for level in levels}
    kept = [level for level in levels if names[level] in wanted] or levels[1:]
    absent = set(column.missing)
    others = [level for level in levels if level not in kept]
    plural = "s" if len(kept) > 1 else ""
    notes.append(
        f"{shown(column.name)}: text as 0/1 column{plural} {', '.join(shown(names[level]) for level in kept)}"
        + (f"; where all are 0 it is {' or '.join(map(shown, others))}" if len(kept) > 1 and others else "")
        + (f"; 0 is {' or '.join(map(shown, others))}" if len(kept) == 1 and others else "")
    )
    return [
        Column(
            name=names[level],
            values=[None if k in absent else float(_as_text(value) == level) for k, value in enumerate(column.values)],
            missing=list(column.missing),
            source=column.name,
        )
        for level in kept
    ]


def categories_of(column: Column) -> list[str]:
    """The values of a column of text in order, where they are few enough to be categories; else none."""
    absent = set(column.missing)
    seen = sorted({_as_text(value) for k, value in enumerate(column.values) if k not in absent})
    is_few = 1 < len(seen) <= _MOST_CATEGORIES and len(column.values) - len(absent) >= 2 * len(seen)
    return seen if column.is_text and is_few else []


def _as_text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).strip()


def _mended(
    grid: FloatArray, found: Sequence[Column], *, mending: Mending, notes: list[str], path: Path
) -> tuple[FloatArray, list[str], tuple[str, ...]]:
    names = [column.name for column in found]
    plain = [column.is_plain for column in found]  # of what is there: a share that is filled in leaves it so
    marked: set[str] = set()
    holes = np.isnan(grid)
    if mending.missing == "drop" and holes.any():
        whole = ~holes.any(axis=1)
        if not whole.any():
            raise DataError(
                f"{path}: every row misses a value, so that none is left. Use missing='mean' or 'indicator'."
            )
        notes.append(f"rows left out, a value is missing: {(~whole).sum():,} of {len(grid):,}")
        grid, holes = grid[whole], holes[whole]
    added: list[np.ndarray] = []
    for k in np.flatnonzero(holes.any(axis=0)).tolist():
        if holes[:, k].all():
            raise DataError(f"{path}: column '{shown(names[k])}' is empty. Leave it out.")
        mean = float(grid[~holes[:, k], k].mean())
        notes.append(f"{names[k]}: {holes[:, k].sum():,} missing values filled in with the mean, {_figure(mean)}")
        grid[holes[:, k], k] = mean
        source = found[k].source or names[k]
        if mending.missing == "indicator" and source not in marked:
            marked.add(source)
            added.append(holes[:, k].astype(float))
            names = [*names, f"{source}_missing"]
    if added:
        notes.append(f"columns added, 1 where a value was missing: {', '.join(names[-len(added) :])}")
        grid = np.column_stack([grid, *added])
    if mending.standardise:
        grid = _standardised(grid, names, [*plain, *[True] * len(added)], notes)
    if mending.intercept is not None:
        if mending.intercept in names:
            raise DataError(f"{path} has a column '{mending.intercept}' already: leave out the other intercept.")
        grid, names = np.column_stack([np.ones(len(grid)), grid]), [mending.intercept, *names]
        notes.append(f"column added: {mending.intercept}, 1 for everybody")
    return grid, names, tuple(notes)


def _standardised(grid: FloatArray, names: Sequence[str], plain: Sequence[bool], notes: list[str]) -> FloatArray:
    is_scaled = ~(np.array(plain) | [is_plain(column) for column in grid.T])
    if not is_scaled.any():
        return grid
    chosen = grid[:, is_scaled]
    done = grid.copy()
    done[:, is_scaled] = (chosen - chosen.mean(axis=0)) / chosen.std(axis=0)
    told = [
        f"{names[k]} (x - {_figure(grid[:, k].mean())}) / {_figure(grid[:, k].std())}"
        for k in np.flatnonzero(is_scaled).tolist()
    ]
    notes.append(f"standardised: {', '.join(told)}")
    return done


def _figure(value: float) -> str:
    """Four digits, as people write numbers: 43,590 and not 4.359e+04."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def is_plain(values: FloatArray) -> bool:
    """Whether a column is constant or 0/1, which no scale improves."""
    return bool(np.isin(values, (0.0, 1.0)).all() or np.ptp(values) <= 1e-12 * np.abs(values).max())


def drowning_note(rows: FloatArray, names: Sequence[str], spread: FloatArray) -> str | None:
    """What to say where one column decides nearly all that a belief expects; None where none does.

    ``spread`` (d,) is the root mean square of each feature's coefficients under the belief. A column's weight is the
    root mean square of its values times that; an intercept is no column of this kind.
    """
    weight = np.sqrt((rows**2).mean(axis=0)) * spread
    varying = [k for k in range(rows.shape[1]) if np.ptp(rows[:, k]) > 0]
    if len(varying) < 2 or not np.isfinite(weight).all():
        return None
    top = max(varying, key=lambda k: weight[k])
    others = max(weight[k] for k in range(rows.shape[1]) if k != top)
    if weight[top] < _DROWNS * others:
        return None
    return (
        f"note: '{shown(names[top])}' (values around {np.sqrt((rows[:, top] ** 2).mean()):.3g}) outweighs every other "
        f"column {_times(float(weight[top] / others))} under this belief. Standardise the columns, or give its "
        "coefficients a smaller scale."
    )


_DROWNS = 10.0


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio < 1e6 else "by far"


def _text_words(column: Column) -> str:
    """A column of text with its values, where these are few enough to be categories."""
    seen = categories_of(column)
    if not seen:
        return shown(column.name)
    return f"{shown(column.name)} ({', '.join(map(shown, seen))}: --dummies makes 0/1 columns of it)"


def _as_float(value: object) -> float:
    return math.nan if value is None else float(value)  # type: ignore[arg-type]


# --- what is wrong ---------------------------------------------------------------------------------------------------


def _refuse(columns: Sequence[Column], lines: Sequence[int], *, path: Path, mending: Mending) -> None:
    """All that is wrong with the columns, in one message; the words of a single slip name its line."""
    may_fill = mending.missing != "refuse"
    bad = [one for one in columns if one.text or one.infinite or (one.missing and not may_fill)]
    if not bad:
        return
    first = bad[0]
    places: list[int] = [*first.text, *first.infinite, *([] if may_fill else first.missing)]
    if len(bad) == 1 and len(places) == 1:
        words = fault_of(first.values[places[0]])
        more = " Or use missing='drop', 'mean' or 'indicator'." if first.missing else ""
        raise DataError(
            f"Column '{shown(first.name)}', line {lines[places[0]]} of {path}: expected a number, got {words}{more}"
        )
    told = "; ".join(_faults(one, lines, may_fill=may_fill) for one in bad)
    raise DataError(f"{path} cannot be used as it is: {told}. {_remedy(columns, bad, may_fill=may_fill)}")


def _faults(column: Column, lines: Sequence[int], *, may_fill: bool) -> str:
    words = []
    if column.text:
        seen = list(dict.fromkeys(str(column.values[k])[:20] for k in column.text))
        some = ", ".join(repr(value) for value in seen[:_MOST_NAMED]) + (", ..." if len(seen) > _MOST_NAMED else "")
        words.append(f"text ({some})" if column.is_text else f"text {_where(column.text, lines)} ({some})")
    if column.missing and not may_fill:
        words.append(f"{len(column.missing):,} missing {_where(column.missing, lines)}")
    if column.infinite:
        words.append(f"infinite {_where(column.infinite, lines)}")
    return f"column '{shown(column.name)}': {', '.join(words)}"


def _where(places: Sequence[int], lines: Sequence[int]) -> str:
    some = ", ".join(str(lines[k]) for k in places[:_MOST_NAMED])
    return f"in line{'s' if len(places) > 1 else ''} {some}{', ...' if len(places) > _MOST_NAMED else ''}"


def _remedy(columns: Sequence[Column], bad: Sequence[Column], *, may_fill: bool) -> str:
    words = []
    if any(column.text for column in bad):
        if any(categories_of(column) for column in bad):
            words.append("Text as 0/1 columns: dummies=True.")
        if any(column.text and not categories_of(column) for column in bad):
            words.append("Replace what should be a number, or choose other columns.")
    if any(column.missing for column in bad) and not may_fill:
        words.append(
            "Missing values: drop (leave the users out), mean (fill it in) or indicator (fill it in and add a 0/1 "
            "column): missing='drop', 'mean' or 'indicator'."
        )
    if any(column.infinite for column in bad):
        words.append("Replace infinite values.")
    return " ".join(words)
