"""Recommendations whose reward has not come: singly, or in blocks that cost nothing a user until one is asked for.

``Tally`` counts what was recommended and what came of it, by stage and arm.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rcb_bayes.mechanism.decisions import EXPLOIT, ROUND_KINDS
from rcb_bayes.schema import BoolArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd

FATES = ("n_recommended", "n_observed", "n_given_up", "n_too_late")
RECOMMENDED, OBSERVED, GIVEN_UP, TOO_LATE = range(len(FATES))


class Pending(NamedTuple):
    """A user (d,), the arm recommended to her, whether the sample counts, and the stage (in ``ROUND_KINDS``)."""

    x: FloatArray
    arm: int
    counted: bool
    stage: int

    @property
    def in_cold_start(self) -> bool:
        """Whether it was made before exploitation began."""
        return self.stage != EXPLOIT


class Early(NamedTuple):
    """A reward that came before it is looked at, and the arm that was taken."""

    pending: Pending
    arm: int
    reward: float


@dataclass(slots=True, eq=False)
class _Block:
    """Tickets first, first + 1, ...: users (n, d), arms, counted, stages, and which are still out, (n,) each."""

    first: int
    users: FloatArray
    arms: np.ndarray
    counted: BoolArray
    stages: np.ndarray
    out: BoolArray
    n_out: int


class Tickets:
    """Tickets that are out, by number; numbers only grow."""

    def __init__(self) -> None:
        self._single: dict[int, Pending] = {}
        self._blocks: list[_Block] = []

    def __len__(self) -> int:
        return len(self._single) + sum(block.n_out for block in self._blocks)

    def issue(self, ticket: int, pending: Pending) -> None:
        """One more."""
        self._single[ticket] = pending

    def issue_many(
        self, first: int, users: FloatArray, arms: np.ndarray, counted: BoolArray, stages: np.ndarray
    ) -> None:
        """Tickets first, first + 1, ... for users (n, d)."""
        n = len(users)
        self._blocks.append(_Block(first, users, arms, counted, stages, np.ones(n, dtype=bool), n))

    def get(self, ticket: object) -> Pending | None:
        """What a ticket was issued for; None if it is not out."""
        if not isinstance(ticket, int | np.integer) or isinstance(ticket, bool):
            return None
        found = self._single.get(int(ticket))
        block, place = (None, 0) if found is not None else self._place(int(ticket))
        return found if block is None else _of(block, place)

    def hand_in(self, ticket: int) -> None:
        """A ticket that is out is no longer."""
        if self._single.pop(int(ticket), None) is not None:
            return
        block, place = self._place(int(ticket))
        if block is not None:
            block.out[place] = False
            block.n_out -= 1
            if not block.n_out:
                self._blocks.remove(block)

    def are_out(self, tickets: np.ndarray) -> BoolArray:
        """Which of some tickets are out, (n,)."""
        if not np.issubdtype(tickets.dtype, np.integer):
            return np.array([self.get(ticket) is not None for ticket in tickets.tolist()], dtype=bool)
        found = np.array([ticket in self._single for ticket in tickets.tolist()], dtype=bool)
        for block, rows, places in self._in_blocks(tickets):
            found[rows] |= block.out[places]
        return found

    def hand_in_many(self, tickets: np.ndarray) -> tuple[FloatArray, np.ndarray, BoolArray, np.ndarray]:
        """Tickets that are out, each once, are no longer; their users (n, d), arms, whether counted, stages, (n,)."""
        first = self.get(tickets[0]) if len(tickets) else None
        width = 0 if first is None else len(first.x)
        n = len(tickets)
        x, arm, counted = np.empty((n, width)), np.empty(n, dtype=np.int64), np.empty(n, dtype=bool)
        stage = np.empty(n, dtype=np.int64)
        for block, rows, places in self._in_blocks(tickets):
            x[rows], arm[rows], counted[rows] = block.users[places], block.arms[places], block.counted[places]
            stage[rows] = block.stages[places]
            block.out[places] = False
            block.n_out -= len(places)
        for row, ticket in enumerate(tickets.tolist()):
            pending = self._single.pop(ticket, None)
            if pending is not None:
                x[row], arm[row], counted[row], stage[row] = pending
        self._blocks = [block for block in self._blocks if block.n_out]
        return x, arm, counted, stage

    def _in_blocks(self, tickets: np.ndarray) -> Iterator[tuple[_Block, np.ndarray, np.ndarray]]:
        """Of every block the rows of the tickets it issued, and their places in it."""
        for block in self._blocks:
            rows = np.flatnonzero((tickets >= block.first) & (tickets < block.first + len(block.out)))
            if len(rows):
                yield block, rows, tickets[rows] - block.first

    def items(self) -> Iterator[tuple[int, Pending]]:
        """All that are out."""
        yield from self._single.items()
        for block in self._blocks:
            for place in np.flatnonzero(block.out).tolist():
                yield block.first + place, _of(block, place)

    def _place(self, ticket: int) -> tuple[_Block | None, int]:
        k = bisect_right(self._blocks, ticket, key=lambda block: block.first) - 1
        if k < 0:
            return None, 0
        block = self._blocks[k]
        place = ticket - block.first
        is_out = place < len(block.out) and bool(block.out[place])
        return (block, place) if is_out else (None, 0)


def _of(block: _Block, place: int) -> Pending:
    return Pending(block.users[place], int(block.arms[place]), bool(block.counted[place]), int(block.stages[place]))


class Tally:
    """How many recommendations were made, and what came of them, by stage and arm: ``counts`` (fate, stage, arm)."""

    def __init__(self, n_arms: int) -> None:
        self.counts = np.zeros((len(FATES), len(ROUND_KINDS), n_arms), dtype=np.int64)

    def widen(self, n_arms: int) -> None:
        """So many arms from now on."""
        more = n_arms - self.counts.shape[2]
        self.counts = np.pad(self.counts, ((0, 0), (0, 0), (0, more)))

    def note(self, fate: int, stage: int, arm: int) -> None:
        """One more."""
        self.counts[fate, stage, arm] += 1

    def note_many(self, fate: int, stages: np.ndarray, arms: np.ndarray) -> None:
        """Stages and arms of some more, (n,) each."""
        n_arms = self.counts.shape[2]
        places = np.bincount(stages.astype(np.int64) * n_arms + arms, minlength=len(ROUND_KINDS) * n_arms)
        self.counts[fate] += places.reshape(len(ROUND_KINDS), n_arms)

    def table(self, arms: tuple[str, ...]) -> "pd.DataFrame":
        """A row for each stage and arm that was recommended at it."""
        import pandas as pd

        made, seen, *_ = self.counts
        stage, arm = np.nonzero(made)
        columns: dict[str, list] = {"stage": [ROUND_KINDS[k] for k in stage], "arm": [arms[k] for k in arm]}
        columns |= {name: part[stage, arm].tolist() for name, part in zip(FATES, self.counts, strict=True)}
        columns["share_unobserved"] = (1.0 - seen[stage, arm] / made[stage, arm]).tolist()
        return pd.DataFrame(columns)
