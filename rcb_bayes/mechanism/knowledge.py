"""What users know of the clock: which moments of a run they can tell apart.

A linear form that holds at every moment holds for any user who knows less, since it is linear: what she cannot tell
apart she averages. So whoever judges a mechanism looks at it once for each thing that users can tell (a *view*), and
users who know less have fewer views, pooled from those of users who know more. A coarser knowledge than ``STAGE`` is
one more object here.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment of a run: the saturated arms of a cold start, by position, or the epoch of exploitation, from 0 on."""

    saturated: tuple[int, ...] = ()
    epoch: int | None = None


class Knowledge(Protocol):
    """What users know; moments with one key are one to them."""

    @property
    def name(self) -> str:
        """As ``knows`` has it."""
        ...

    def key(self, moment: Moment) -> Hashable:
        """What users can tell of a moment."""
        ...

    def label(self, moment: Moment, arms: Sequence[str]) -> str:
        """The same in words; ``arms`` are the labels of all arms."""
        ...


class _Stage:
    """Users know the saturated set in the cold start, and the number of the epoch in exploitation."""

    name = "stage"

    def key(self, moment: Moment) -> tuple[int | None, frozenset[int]]:
        """Every stage by itself; an epoch whatever came before it."""
        return moment.epoch, frozenset(moment.saturated if moment.epoch is None else ())

    def label(self, moment: Moment, arms: Sequence[str]) -> str:
        """``most popular``, ``arm_0, arm_1`` or ``epoch 3``."""
        if moment.epoch is not None:
            return f"epoch {moment.epoch}"
        return ", ".join(arms[arm] for arm in sorted(moment.saturated)) or "most popular"


STAGE: Knowledge = _Stage()
