"""The recommender's own log: a row for each round, the last ones kept or all of them written to a file.

A row has what an audit of the log asks for: the user, the arm, its stage and the probabilities of all arms; the arm
taken and the reward once it is in; ``counted``, whether the sample has entered the data, and ``known_from``, the ticket
before which that was settled (or given up). A file gets a row once it is settled, so that its rows may be out of order:
sort by ``ticket``. An arm that was not available to the user has an empty cell in the place of its probability.

A process that dies leaves rows in the file that the recommender it is resumed from knows nothing of. Before that one
writes its first row, they are moved to a file beside the log, ``<name>.lost``: tickets come once in a log.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.files import write_atomically
from rcb_bayes.mechanism.decisions import ROUND_KINDS, Decisions
from rcb_bayes.schema import LOG_COLUMNS, BoolArray, FloatArray
from rcb_bayes.users.tables import read_log

if TYPE_CHECKING:
    import pandas as pd

_WORDS = ("arm", "stage", "taken")
_AFTER = LOG_COLUMNS[4:]


def columns_of(features: tuple[str, ...], arms: tuple[str, ...]) -> list[str]:
    """The columns of a log."""
    return [LOG_COLUMNS[0], *features, *LOG_COLUMNS[1:4], *(f"p_{arm}" for arm in arms), *_AFTER]


class Logbook:
    """Rows of the rounds so far.

    Parameters
    ----------
    keep : the number of rounds to keep, or a file to write all of them to; one that is there is gone on with
    written : rows of the file that a resumed recommender knows; all of them unless given

    Raises
    ------
    RcbError
        Neither, or a file of another market.
    """

    def __init__(
        self, keep: int | str | Path, *, features: tuple[str, ...], arms: tuple[str, ...], written: int | None = None
    ) -> None:
        self.columns = columns_of(features, arms)
        self._features, self._arms = features, arms
        self._rows: dict[int, list[Any]] = {}
        self.path = None if isinstance(keep, int) else Path(keep).expanduser()
        self.most = keep if isinstance(keep, int) else None
        if isinstance(keep, bool) or (self.most is not None and self.most < 1):
            raise RcbError(f"keep_log is a number of rounds, at least 1, or a file to write to; got {keep!r}.")
        self._resumed = written is not None  # rows of the file that are not known may still be there
        self._written = 0 if self.path is None else self._begin(self.path)
        if written is not None:
            self._written = min(written, self._written)

    @classmethod
    def begun(cls, keep: int | str | Path, *, features: tuple[str, ...], arms: tuple[str, ...]) -> Self:
        """The log of a new recommender, whose tickets begin at 0.

        Raises
        ------
        RcbError
            See the class; a file that has rounds.
        """
        made = cls(keep, features=features, arms=arms)
        if made._written:
            raise RcbError(
                f"{made.path} has {made._written:,} rounds already, and the tickets of a new recommender begin at 0. "
                "Load the one that wrote it, or give another file."
            )
        return made

    def note(self, ticket: int, x: FloatArray, arm: int, stage: int, chances: list[float]) -> None:
        """A recommendation; chances are NaN of arms that the user could not have."""
        name = self._arms[arm]
        row = [ticket, *x.tolist(), name, ROUND_KINDS[stage], chances[arm], *chances, name, np.nan, 0, np.nan]
        self._rows[ticket] = row
        if self.most is not None and len(self._rows) > self.most:
            del self._rows[next(iter(self._rows))]

    def note_many(
        self, first: int, users: FloatArray, decisions: Decisions, *, available: BoolArray | None = None
    ) -> None:
        """Recommendations for users (n, d), tickets first, first + 1, ..., who could have these arms (K,), or all."""
        found = decisions.probabilities
        chances = (found if available is None else np.where(available[:, None], found, np.nan)).T.tolist()
        for k, (arm, stage) in enumerate(zip(decisions.arm.tolist(), decisions.stage.tolist(), strict=True)):
            self.note(first + k, users[k], arm, stage, chances[k])

    def settle(self, ticket: int, *, reward: float, arm: int, counted: bool, known_from: int) -> None:
        """A reward (NaN: none came), that of the arm taken, and whether it has entered the data."""
        row = self._rows.get(ticket)
        if row is None:  # longer ago than is kept
            return
        row[-len(_AFTER) :] = [self._arms[arm], reward, int(counted), known_from]
        if self.path is not None:
            self._drop_lost()
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(["" if value != value else value for value in row])
            self._written += 1
            del self._rows[ticket]

    def widen(self, arms: tuple[str, ...]) -> None:
        """So many arms from now on, the new ones last, with a 0 in the rows there are. A file is replaced at once.

        Raises
        ------
        RcbError
            A file that cannot be read or written; nothing has changed then.
        """
        columns = columns_of(self._features, arms)
        more = len(arms) - len(self._arms)
        if self.path is not None:
            self._drop_lost()
            new = [f"p_{arm}" for arm in arms[len(self._arms) :]]
            _rewrite(self.path, lambda rows: _with_columns(rows, new))
        at = len(self.columns) - len(_AFTER)
        for row in self._rows.values():
            row[at:at] = [0.0] * more
        self.columns, self._arms = columns, arms

    def table(self) -> "pd.DataFrame":
        """The rows there are, by ticket; of a file all of them."""
        import pandas as pd

        rows = pd.DataFrame(list(self._rows.values()), columns=self.columns)
        if self.path is not None:
            written = read_log(self.path, words=_WORDS, least=0)[self.columns].iloc[: self._written]
            whole = {"ticket": int, "counted": int}
            written = written.astype({name: whole.get(name, float) for name in written if name not in _WORDS})
            rows = pd.concat([written, rows], ignore_index=True) if len(rows) else written
        return rows.sort_values("ticket", ignore_index=True)

    def state(self) -> dict[str, Any]:
        """What is to be saved with the recommender."""
        rows = [[None if value != value else value for value in row] for row in self._rows.values()]
        if self.path is None:
            return {"keep": self.most, "rows": rows, "written": None}
        return {"keep": str(self.path), "rows": rows, "written": self._written}

    def restore(self, state: dict[str, Any]) -> None:
        """The rows as they were."""
        for row in state["rows"]:
            if len(row) != len(self.columns):
                raise ValueError("a row of the log is of another length")
            self._rows[int(row[0])] = [np.nan if value is None else value for value in row]

    def _begin(self, path: Path) -> int:
        """Begin a file, or see that one is of this market; how many rows it has.

        Of a resumed recommender it may have more arms: one that came after the last save.
        """
        if path.exists() and not path.is_file():  # a pipe, whose reader may never come
            raise RcbError(f"Cannot write a log to {path}: it is no regular file. Give another one.")
        try:
            if path.exists() and path.stat().st_size:
                with path.open(newline="", encoding="utf-8") as file:
                    rows = csv.reader(file)
                    found, n = next(rows), len(_AFTER)
                    wider = self._resumed and found[: len(self.columns) - n] == self.columns[:-n]
                    if found != self.columns and not (wider and found[-n:] == self.columns[-n:]):
                        raise RcbError(f"{path} is a log of another market. Give another file, or move it away.")
                    return sum(1 for _ in rows)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(self.columns)
        except (OSError, UnicodeDecodeError) as error:
            raise RcbError(f"Cannot write a log to {path}: {error}.") from None
        return 0

    def _drop_lost(self) -> None:
        """Have the file end where a resumed recommender's rows do; what it does not know goes to a file beside it."""
        if not self._resumed or self.path is None:
            return
        known = self._written
        try:
            with self.path.open(newline="", encoding="utf-8") as file:
                header, *rows = csv.reader(file)
            lost = rows[known:]
            if lost:
                beside = self.path.with_name(f"{self.path.name}.lost")
                with beside.open("a", newline="", encoding="utf-8") as file:
                    csv.writer(file).writerows([header, *lost])
        except (OSError, UnicodeDecodeError) as error:
            raise RcbError(f"Cannot write a log to {self.path}: {error}.") from None
        if lost or header != self.columns:
            at = [header.index(name) for name in self.columns]
            _rewrite(self.path, lambda rows: ([row[k] for k in at] for row in islice(rows, known + 1)))
        self._resumed = False


def _with_columns(rows: Iterator[list[str]], names: list[str]) -> Iterator[list[str]]:
    """Rows, the header first, with columns of zeros before those of what came after."""
    n = len(_AFTER)
    for number, row in enumerate(rows):
        yield [*row[:-n], *(names if number == 0 else ["0.0"] * len(names)), *row[-n:]]


def _rewrite(path: Path, change: Callable[[Iterator[list[str]]], Iterable[list[str]]]) -> None:
    """Put a log with changed rows, the header first, in the place of the one that is there, at once."""

    def put(place: Path) -> None:
        with path.open(newline="", encoding="utf-8") as old, place.open("w", newline="", encoding="utf-8") as new:
            csv.writer(new).writerows(change(csv.reader(old)))

    write_atomically(path, put)
