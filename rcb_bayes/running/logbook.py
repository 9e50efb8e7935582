"""The recommender's own log: a row for each round, the last ones kept or all of them written to a file.

A row has what an audit of the log asks for: the user, the arm, its stage and the probabilities of all arms; the arm
taken and the reward once it is in; ``counted``, whether the sample has entered the data, and ``known_from``, the ticket
before which that was settled (or given up). A file gets a row once it is settled, so that its rows may be out of order:
sort by ``ticket``.
"""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.decisions import ROUND_KINDS, Decisions
from rcb_bayes.schema import FloatArray
from rcb_bayes.users.tables import read_log

if TYPE_CHECKING:
    import pandas as pd

_WORDS = ("arm", "stage", "taken")
_AFTER = ("taken", "reward", "counted", "known_from")


def columns_of(features: tuple[str, ...], arms: tuple[str, ...]) -> list[str]:
    """The columns of a log."""
    return ["ticket", *features, "arm", "stage", "propensity", *(f"p_{arm}" for arm in arms), *_AFTER]


class Logbook:
    """Rows of the rounds so far.

    Parameters
    ----------
    keep : the number of rounds to keep, or a file to write all of them to; a file that is there is gone on with

    Raises
    ------
    RcbError
        Neither, or a file of another market.
    """

    def __init__(self, keep: int | str | Path, *, features: tuple[str, ...], arms: tuple[str, ...]) -> None:
        self.columns = columns_of(features, arms)
        self._features, self._arms = features, arms
        self._rows: dict[int, list[Any]] = {}
        self.path = None if isinstance(keep, int) else Path(keep).expanduser()
        self.most = keep if isinstance(keep, int) else None
        if isinstance(keep, bool) or (self.most is not None and self.most < 1):
            raise RcbError(f"keep_log is a number of rounds, at least 1, or a file to write to; got {keep!r}.")
        if self.path is not None:
            self._begin(self.path)

    def note(self, ticket: int, x: FloatArray, arm: int, stage: int, chances: list[float]) -> None:
        """A recommendation."""
        name = self._arms[arm]
        row = [ticket, *x.tolist(), name, ROUND_KINDS[stage], chances[arm], *chances, name, np.nan, 0, np.nan]
        self._rows[ticket] = row
        if self.most is not None and len(self._rows) > self.most:
            del self._rows[next(iter(self._rows))]

    def note_many(self, first: int, users: FloatArray, decisions: Decisions) -> None:
        """Recommendations for users (n, d), tickets first, first + 1, ...."""
        chances = decisions.probabilities.T.tolist()
        for k, (arm, stage) in enumerate(zip(decisions.arm.tolist(), decisions.stage.tolist(), strict=True)):
            self.note(first + k, users[k], arm, stage, chances[k])

    def settle(self, ticket: int, *, reward: float, arm: int, counted: bool, known_from: int) -> None:
        """A reward (NaN: none came), that of the arm taken, and whether it has entered the data."""
        row = self._rows.get(ticket)
        if row is None:  # longer ago than is kept
            return
        row[-len(_AFTER) :] = [self._arms[arm], reward, int(counted), known_from]
        if self.path is not None:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(["" if value != value else value for value in row])
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
            _widen_file(self.path, columns, more)
        at = len(self.columns) - len(_AFTER)
        for row in self._rows.values():
            row[at:at] = [0.0] * more
        self.columns, self._arms = columns, arms

    def table(self) -> "pd.DataFrame":
        """The rows there are, by ticket; of a file all of them."""
        import pandas as pd

        rows = pd.DataFrame(list(self._rows.values()), columns=self.columns)
        if self.path is not None:
            written = read_log(self.path, words=_WORDS, least=0)
            whole = {"ticket": int, "counted": int}
            written = written.astype({name: whole.get(name, float) for name in written if name not in _WORDS})
            rows = pd.concat([written, rows], ignore_index=True) if len(rows) else written
        return rows.sort_values("ticket", ignore_index=True)

    def state(self) -> dict[str, Any]:
        """What is to be saved with the recommender."""
        rows = [[None if value != value else value for value in row] for row in self._rows.values()]
        return {"keep": self.most if self.path is None else str(self.path), "rows": rows}

    def restore(self, state: dict[str, Any]) -> None:
        """The rows as they were."""
        for row in state["rows"]:
            if len(row) != len(self.columns):
                raise ValueError("a row of the log is of another length")
            self._rows[int(row[0])] = [np.nan if value is None else value for value in row]

    def _begin(self, path: Path) -> None:
        try:
            if path.exists() and path.stat().st_size:
                with path.open(newline="", encoding="utf-8") as file:
                    if next(csv.reader(file)) != self.columns:
                        raise RcbError(f"{path} is a log of another market. Give another file, or move it away.")
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(self.columns)
        except (OSError, UnicodeDecodeError) as error:
            raise RcbError(f"Cannot write a log to {path}: {error}.") from None


def _widen_file(path: Path, columns: list[str], more: int) -> None:
    """A log on disk with columns for more arms, in the place of the one that was there."""
    other = path.with_name(f"{path.name}.wider")
    try:
        with (
            path.open(newline="", encoding="utf-8") as old,
            other.open("w", newline="", encoding="utf-8") as new,
        ):
            rows, out = csv.reader(old), csv.writer(new)
            next(rows)
            out.writerow(columns)
            for row in rows:
                out.writerow([*row[: -len(_AFTER)], *(["0.0"] * more), *row[-len(_AFTER) :]])
        other.replace(path)
    except (OSError, UnicodeDecodeError, StopIteration) as error:
        raise RcbError(f"Cannot write a log to {path}: {error}.") from None
