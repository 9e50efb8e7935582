"""What a cold start is to collect: samples of each arm, and which arms may be promoted when.

An arm that asks for no samples is never promoted, and is unsaturated for good: in organic rounds it stands at what is
expected of it without samples of its own, its prior mean where arms are independent. In exploitation it is recommended
where it is the best, and nowhere else. Samples that a platform has from before count towards what an arm needs; with as
many as that it is saturated from the start.

Arms may be admitted one after the other, in an order that is published: some at first, and the next one whenever an arm
is saturated. An arm may be explored among some users only, for whom it may be the best (``regions``). All this is
settled before the first reward, so that stages tell nothing about rewards.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.choice import best_shares, is_best, promotion_shares
from rcb_bayes.mechanism.regions import Regions
from rcb_bayes.schema import BoolArray, FloatArray


@dataclass(frozen=True, kw_only=True)
class Agenda:
    """Samples of each of K arms, and the order in which arms are admitted.

    Attributes
    ----------
    needed : N of each arm, with which it is saturated; 0 for one that is not explored
    past : samples of each arm from before the first round; none where it is empty
    order : positions of the arms that need samples, as they are admitted; all at once where it is empty
    first : how many of them are admitted at first
    regions : for whom each arm is explored; for everybody where there are none

    Raises
    ------
    RcbError
        No samples of any arm; an order that leaves out an arm, or names one twice.
    """

    needed: tuple[int, ...]
    past: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    first: int = 0
    regions: Regions | None = None

    def __post_init__(self) -> None:
        if not any(self.needed):
            raise RcbError("n_per_arm is 0 for every arm: nothing would be explored. Ask for samples of some arm.")
        if min(self.needed) < 0 or len(self.past) not in (0, len(self.needed)) or min(self.past, default=0) < 0:
            raise RcbError("Samples of arms are counts, one for each arm.")
        if self.order and (sorted(self.order) != np.flatnonzero(self.missing).tolist() or self.first < 1):
            raise RcbError("An order of admission has every arm that needs samples once, and begins with one at least.")

    @classmethod
    def same(cls, n_per_arm: int, n_arms: int) -> "Agenda":
        """As many samples of every arm."""
        return cls(needed=(n_per_arm,) * n_arms)

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        return len(self.needed)

    @property
    def n_per_arm(self) -> int | tuple[int, ...]:
        """N of each arm, as one number where it is the same for all."""
        return self.needed[0] if len(set(self.needed)) == 1 else self.needed

    @property
    def most(self) -> int:
        """The largest N."""
        return max(self.needed)

    @property
    def words(self) -> str:
        """N in words: ``20``, or ``20 of 3 arms, 0 of 17``."""
        kinds = sorted(set(self.needed), reverse=True)
        if len(kinds) == 1:
            return f"{kinds[0]:,}"
        first, *others = [(n, self.needed.count(n)) for n in kinds]
        told = [f"{first[0]:,} of {first[1]:,} arm{'s' if first[1] > 1 else ''}"]
        return ", ".join([*told, *(f"{n:,} of {count:,}" for n, count in others)])

    @cached_property
    def missing(self) -> np.ndarray:
        """Samples that each arm needs beyond those of before, (K,)."""
        return np.maximum(np.array(self.needed) - np.array(self.past or (0,) * self.n_arms), 0)

    @cached_property
    def totals(self) -> np.ndarray:
        """Samples of each arm at the end of the cold start, (K,)."""
        return np.maximum(self.needed, self.past) if self.past else np.array(self.needed)

    @cached_property
    def is_sampled(self) -> BoolArray:
        """Which arms have samples at the end of the cold start, (K,)."""
        return self.totals > 0

    @cached_property
    def begun(self) -> tuple[int, ...]:
        """Arms that are saturated before the first round."""
        return tuple(np.flatnonzero(self.is_sampled & (self.missing == 0)).tolist())

    @property
    def first_level(self) -> int:
        """How many arms are saturated before the first round."""
        return len(self.begun)

    @cached_property
    def n_levels(self) -> int:
        """How many arms are saturated at the end of the cold start."""
        return int(self.is_sampled.sum())

    @property
    def is_plain(self) -> bool:
        """Whether every arm may be promoted from the first round on."""
        return not self.order and bool((self.missing > 0).all())

    def open(self, saturated: BoolArray) -> BoolArray:
        """Arms that may be promoted at saturated sets, (S, K) -> (S, K)."""
        is_open = ~saturated & (self.missing > 0)
        if not self.order:
            return is_open
        place = np.full(self.n_arms, self.n_arms)
        place[list(self.order)] = np.arange(len(self.order))
        admitted = self.first + saturated.sum(axis=1) - self.first_level
        return is_open & (place < admitted[:, None])

    def open_arms(self, saturated: Iterable[int]) -> list[int]:
        """Arms that may be promoted once these are saturated, in their order."""
        full = np.zeros((1, self.n_arms), dtype=bool)
        full[0, list(saturated)] = True
        return np.flatnonzero(self.open(full)[0]).tolist()

    def is_over(self, saturated: Iterable[int]) -> bool:
        """Whether every arm has its samples."""
        return len(tuple(saturated)) == self.n_levels

    def asking(self, n_per_arm: int) -> "Agenda":
        """The same arms, in the same order, with so many samples of each that is explored."""
        return replace(self, needed=tuple(n_per_arm if n else 0 for n in self.needed))

    @cached_property
    def cut(self) -> FloatArray | None:
        """Factors on the off-best probability of each arm in exploitation, (K,): none of arms that are not explored.

        None where nothing is cut.
        """
        return None if self.is_sampled.all() else self.is_sampled.astype(float)

    def cut_from(self, guard: FloatArray | None, n_users: int) -> FloatArray | None:
        """A guard's factors, (U, K), with those of arms that are not explored at 0."""
        if self.cut is None:
            return guard
        return np.tile(self.cut, (n_users, 1)) if guard is None else guard * self.cut


def as_agenda(value: "int | Agenda", n_arms: int) -> Agenda:
    """An agenda as it is, or as many samples of every arm."""
    return value if isinstance(value, Agenda) else Agenda.same(int(value), n_arms)


# --- the first phase -------------------------------------------------------------------------------------------------


def is_popular(agenda: Agenda, promoted_by: FloatArray) -> BoolArray:
    """Users whose most popular arm, or one of those that tie, may be promoted in the first phase, (U, K) -> (U,)."""
    return is_best(promoted_by)[:, agenda.open_arms(agenda.begun)].any(axis=1)


def first_chances(agenda: Agenda, promoted_by: FloatArray, rates: FloatArray | float) -> FloatArray:
    """Chances of each arm while none is saturated, (U, K).

    A sampled user gets what is promoted to her; where her most popular arm is not explored, others are told that arm,
    and no sample of it counts.

    Parameters
    ----------
    promoted_by : the platform's prior means, (U, K)
    rates : how often users are sampled, (U,) or all of them
    """
    promoted = promotion_shares(promoted_by, agenda.open_arms(agenda.begun))
    if agenda.is_plain:
        return promoted
    sampled = np.broadcast_to(rates, len(promoted_by))[:, None]
    return sampled * promoted + (1.0 - sampled) * best_shares(promoted_by)
