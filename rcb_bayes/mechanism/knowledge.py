"""What users know of the clock: which moments of a run they can tell apart.

A linear form that holds at every moment holds for any user who knows less, since it is linear: what she cannot tell
apart she averages, each moment as often as users meet it, which is by the rounds spent there. So whoever judges a
mechanism looks at it once for each thing that users can tell (a *view*), and users who know less have fewer views,
pooled from those of users who know more.

From the most to the least: ``stage`` (the saturated set, and the epoch), ``level`` (how many arms are saturated, and
the epoch), ``phase`` (cold start or exploitation, the paper's own assumption), ``mechanism`` (nothing of the clock).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, Protocol

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import suggestion

Knows = Literal["stage", "level", "phase", "mechanism"]
MOST_SETS = 128
"""Saturated sets that are planned one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment of a run: the saturated arms of a cold start, by position, or the epoch of exploitation, from 0 on."""

    saturated: tuple[int, ...] = ()
    epoch: int | None = None


class Knowledge(Protocol):
    """What users know; moments with one key are one to them."""

    @property
    def name(self) -> Knows:
        """As ``knows`` has it."""
        ...

    @property
    def words(self) -> str:
        """What users know, in words."""
        ...

    def key(self, moment: Moment) -> Hashable:
        """What users can tell of a moment."""
        ...

    def label(self, moment: Moment, arms: Sequence[str]) -> str:
        """The same in words; ``arms`` are the labels of all arms."""
        ...


class _Known:
    """One object for each kind of knowledge, in any process: people compare them by identity."""

    name: Knows

    def __reduce__(self) -> str:
        return self.name.upper()


class _Stage(_Known):
    """Users know the saturated set in the cold start, and the number of the epoch in exploitation."""

    name: Knows = "stage"
    words = "which arms are saturated"

    def key(self, moment: Moment) -> tuple[int | None, frozenset[int]]:
        """Every stage by itself; an epoch whatever came before it."""
        return moment.epoch, frozenset(moment.saturated if moment.epoch is None else ())

    def label(self, moment: Moment, arms: Sequence[str]) -> str:
        """``most popular``, ``arm_0, arm_1`` or ``epoch 3``."""
        if moment.epoch is not None:
            return f"epoch {moment.epoch}"
        return ", ".join(arms[arm] for arm in sorted(moment.saturated)) or "most popular"


class _Level(_Known):
    """Users know how many arms are saturated, and the number of the epoch in exploitation."""

    name: Knows = "level"
    words = "how many arms are saturated"

    def key(self, moment: Moment) -> tuple[int | None, int]:
        """The number of saturated arms; an epoch whatever came before it."""
        return moment.epoch, len(moment.saturated) if moment.epoch is None else 0

    def label(self, moment: Moment, arms: Sequence[str]) -> str:
        """``most popular``, ``2 of 5 arms`` or ``epoch 3``."""
        if moment.epoch is not None:
            return f"epoch {moment.epoch}"
        return f"{len(moment.saturated)} of {len(arms)} arms" if moment.saturated else "most popular"


class _Phase(_Known):
    """Users know whether the cold start is over."""

    name: Knows = "phase"
    words = "whether the cold start is over"

    def key(self, moment: Moment) -> bool:
        """Cold start or exploitation."""
        return moment.epoch is not None

    def label(self, moment: Moment, arms: Sequence[str]) -> str:
        """``cold start`` or ``exploitation``."""
        return "cold start" if moment.epoch is None else "exploitation"


class _Mechanism(_Known):
    """Users know nothing of their place in line."""

    name: Knows = "mechanism"
    words = "nothing of the clock"

    def key(self, moment: Moment) -> None:
        """All rounds are one."""

    def label(self, moment: Moment, arms: Sequence[str]) -> str:
        """``any round``."""
        return "any round"


STAGE: Knowledge = _Stage()
LEVEL: Knowledge = _Level()
PHASE: Knowledge = _Phase()
MECHANISM: Knowledge = _Mechanism()
KNOWLEDGE: dict[str, Knowledge] = {each.name: each for each in (STAGE, LEVEL, PHASE, MECHANISM)}
"""From the most that users may know to the least."""


def as_knowledge(name: object) -> Knowledge:
    """What users know, by its name.

    Raises
    ------
    RcbError
        An unknown name, with the nearest.
    """
    found = KNOWLEDGE.get(name) if isinstance(name, str) else None
    if name == "auto":
        raise RcbError(f"'auto' is for plans. What users know here is one of {', '.join(KNOWLEDGE)}.")
    if found is None:
        close = suggestion(str(name), (*KNOWLEDGE, "auto"))
        raise RcbError(f"Users cannot know '{name}'.{close} knows is auto, {', '.join(KNOWLEDGE)}.")
    return found


def chosen_knowledge(name: object, *, alike: Sequence[Sequence[int]]) -> Knowledge:
    """What users know, by its name; ``auto`` is the stage where all saturated sets can be planned, else the level.

    ``alike`` are classes of arms that may change places: sets that differ only by such arms are one.
    """
    if name != "auto":
        return as_knowledge(name)
    return STAGE if count_sets(alike) <= MOST_SETS else LEVEL


def count_sets(alike: Sequence[Sequence[int]]) -> int:
    """Saturated sets that a cold start may pass, without none and all."""
    return prod(len(arms) + 1 for arms in alike) - 2
