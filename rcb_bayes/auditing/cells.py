r"""Moments of every cell of a stage, from products of matrices over worlds: no cell's terms are written down.

With a_i the part of p_i that is the same in all worlds, :math:`q_i = \omega (p_i - a_i)` what is left of it, times the
world's weight, and :math:`l_{ij} = m_i - m_j`, the terms of every notion are :math:`q_i (l_{ij} + s) + const`, s the
part of epsilon that goes with p. So

.. math:: E[q_i l_{ij}], \quad E[q_i^2 l_{ij}], \quad E[q_i^2 l_{ij}^2], \quad E[q_i], \quad E[q_i^2]

give the mean and the variance of all of them, and of the ratio that people read. Rewards are taken from their own means
over worlds first, so that squares of differences lose no digits where arms hardly move.

A row is a user and an arm that is recommended to her in some world. Arms that never are have no cells, and at a stage
of a cold start of many arms most have none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from rcb_bayes.auditing.view import View
from rcb_bayes.mechanism.margins import FEW_EVENTS
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.schema import BoolArray, FloatArray

_CHUNK_VALUES = 50_000  # a few arrays of them stay in a core's own cache
_BLOCK_CELLS = 50_000  # likewise
_ROUNDING = 1e-14  # of what squares add up to: a spread below that is none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeadMoments:
    """Averages over worlds of q_i with leads l_ij = m_i - m_j, row by row: (R,) and (R, K).

    Attributes
    ----------
    chance, square_chance : of q and q squared, (R,)
    lead, square_lead, square : of q l, q^2 l and q^2 l^2, (R, K)
    """

    chance: FloatArray
    square_chance: FloatArray
    lead: FloatArray
    square_lead: FloatArray
    square: FloatArray

    def mean(self, extra: float | FloatArray) -> FloatArray:
        """E[q (l + extra)], (R, K)."""
        return self.lead + extra * self.chance[:, None]

    def mean_square(self, extra: float | FloatArray) -> FloatArray:
        """E[q^2 (l + extra)^2], (R, K)."""
        return self.square + extra * (2.0 * self.square_lead + extra * self.square_chance[:, None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowFacts:
    """Users and arms, and what is known of them whatever the rival, (R,) each.

    Attributes
    ----------
    user, arm : in the order of users, then of arms
    always : a, the least chance in any world
    n_moving : worlds in which the chance is above that
    n_below : worlds in which it is below its largest
    n_events : worlds in which the arm is the best one
    shortfall : how far below the best arm it is at most where it is recommended
    reach : how far below the best arm any arm is at most
    """

    user: np.ndarray
    arm: np.ndarray
    always: FloatArray
    n_moving: np.ndarray
    n_below: np.ndarray
    n_events: np.ndarray
    shortfall: FloatArray
    reach: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellMoments:
    """All that the notions share of a stage, row by row.

    Attributes
    ----------
    moments : with weights of the worlds in them
    weighted : E[omega q] and E[omega q l] once more times omega, (R,) and (R, K); None where all worlds weigh 1
    worst : by the part of epsilon that goes with p, the lowest (p - a) (m_i - max m + that) in any world, (R,)
    prior_rewards : of all users, (U, K)
    n_worlds, mean_square_weight : W, and E[omega^2]
    """

    moments: LeadMoments
    weighted: tuple[FloatArray, FloatArray] | None
    rows: RowFacts
    worst: dict[float, FloatArray]
    prior_rewards: FloatArray
    n_worlds: int
    mean_square_weight: float

    @property
    def chance(self) -> FloatArray:
        """How often the arm is recommended, (R,)."""
        return self.rows.always + self.moments.chance

    @property
    def used(self) -> BoolArray:
        """Cells that there are, (R, K): no arm is a rival of its own."""
        return self.rows.arm[:, None] != np.arange(self.prior_rewards.shape[1])

    def blocks(self) -> "Iterator[CellMoments]":
        """Some rows at a time, as many as stay near the processor."""
        step = max(1, _BLOCK_CELLS // self.prior_rewards.shape[1])
        for start in range(0, len(self.rows.user), step):
            some = slice(start, start + step)
            yield replace(
                self,
                moments=_taken(self.moments, some),
                weighted=None if self.weighted is None else (self.weighted[0][some], self.weighted[1][some]),
                rows=_taken(self.rows, some),
                worst={extra: values[some] for extra, values in self.worst.items()},
            )

    def certain(self, extra: float, fixed: float) -> FloatArray:
        """The part of the form that is the same in all worlds, (R, K)."""
        user, arm = self.rows.user, self.rows.arm
        gap = self.prior_rewards[user, arm][:, None] - self.prior_rewards[user]
        return self.rows.always[:, None] * (gap + extra) + fixed

    def error(self, extra: float | FloatArray) -> FloatArray:
        """The standard error of E[q (l + extra)], (R, K)."""
        mean = self.moments.mean(extra)
        again = mean if self.weighted is None else self.weighted[1] + extra * self.weighted[0][:, None]
        square = self.moments.mean_square(extra)
        spread = square - mean * (2.0 * again - self.mean_square_weight * mean)
        size = self.moments.square + extra**2 * self.moments.square_chance[:, None]
        spread[spread < _ROUNDING * size] = 0.0
        return np.sqrt(spread / (self.n_worlds - self.mean_square_weight))

    def ratio_error(self, notion: Notion, epsilon: float, form: FloatArray) -> FloatArray:
        """The error of the form over its mass, (R, K): that of terms less the ratio times what they are divided by.

        Where hardly any world differs from the rest the ratio's own spread cannot be seen, and the form's is taken.
        """
        _, extra = notion.epsilon_parts(epsilon)
        mass = notion.mass(self.chance)[:, None]
        if notion.is_joint:
            return self.error(extra) / mass
        few = (self.rows.n_moving > 0) & (self.rows.n_moving < FEW_EVENTS)
        return self.error(extra - np.where(few[:, None], 0.0, form / mass)) / mass


def _taken[Part: (LeadMoments, RowFacts)](part: Part, some: slice) -> Part:
    return type(part)(**{item.name: getattr(part, item.name)[some] for item in fields(part)})


def cell_moments(view: View, extras: Iterable[float]) -> CellMoments:
    """Moments of all cells of a view whose worlds all count, users some at a time."""
    k, u, w = view.chances.shape
    step = max(1, _CHUNK_VALUES // (k * w))
    wanted = sorted(set(extras))
    parts = [_part(view, slice(start, min(start + step, u)), wanted) for start in range(0, u, step)]
    again = [np.concatenate([part[1][n] for part in parts]) for n in range(2)]
    weights = view.weights
    return CellMoments(
        moments=_joined([part[0] for part in parts]),
        weighted=None if weights is None else (again[0], again[1]),
        rows=_joined([part[2] for part in parts]),
        worst={extra: np.concatenate([part[3][extra] for part in parts]) for extra in wanted},
        prior_rewards=view.prior_rewards,
        n_worlds=w,
        mean_square_weight=1.0 if weights is None else float((weights**2).mean()),
    )


def _joined[Part: (LeadMoments, RowFacts)](parts: list[Part]) -> Part:
    """Of all users together."""
    kind = type(parts[0])
    return kind(**{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(kind)})


def _part(
    view: View, users: slice, extras: list[float]
) -> tuple[LeadMoments, tuple[FloatArray, FloatArray], RowFacts, dict[float, FloatArray]]:
    """Of some users; what is worked out for arms that anybody among them is recommended is kept of her own, only."""
    rewards = view.rewards[:, users]
    highest = view.chances[:, users].max(axis=2)  # (K, u)
    arms = np.flatnonzero(highest.max(axis=1) > 0.0)
    chances, highest = view.chances[arms, users], highest[arms]
    used = highest.T > 0.0  # (u, A)
    always = chances.min(axis=2)
    moving = chances - always[:, :, None]
    top = rewards.max(axis=0)
    below = rewards[arms] - top
    shortfall = -(below if always.min() > 0.0 else np.where(chances > 0.0, below, 0.0)).min(axis=2)
    worst = {extra: (moving * (below + extra)).min(axis=2).T[used] for extra in extras}
    user, place = np.nonzero(used)
    rows = RowFacts(
        user=users.start + user,
        arm=arms[place],
        always=always.T[used],
        n_moving=np.count_nonzero(moving, axis=2).T[used],
        n_below=np.count_nonzero(chances < highest[:, :, None], axis=2).T[used],
        n_events=np.count_nonzero(view.best[arms, users], axis=2).T[used],
        shortfall=shortfall.T[used],
        reach=(top - rewards.min(axis=0)).max(axis=1)[user],
    )
    again: tuple[FloatArray, FloatArray] = (np.zeros(0), np.zeros(0))
    centre = rewards.mean(axis=2)
    apart = rewards - centre[:, :, None]
    if view.weights is not None:
        moving *= view.weights
        again = _leads(moving * view.weights, apart, centre, arms, used)
    return _moments(moving, apart, centre, arms, used), again, rows, worst


def _moments(
    moving: FloatArray, apart: FloatArray, centre: FloatArray, arms: np.ndarray, used: BoolArray
) -> LeadMoments:
    """Moments of some users, from q of some arms (A, u, W), m less its mean over worlds (K, u, W), and that mean.

    Kept are those of the users and arms that are used, (u, A).
    """
    n = moving.shape[2]
    chance, lead = _leads(moving, apart, centre, arms, used)
    square = moving * moving
    square_chance = square.mean(axis=2).T[used]
    first = _differences(_products(square, apart), arms, used) / n
    crossed = _products(square * apart[arms], apart)
    crossed *= -2.0
    own = -0.5 * crossed[:, np.arange(len(arms)), arms]
    crossed += _products(square, apart * apart)
    second = (own[used][:, None] + crossed[used]) / n
    gap = _gaps(centre, arms, used)
    return LeadMoments(
        chance=chance,
        square_chance=square_chance,
        lead=lead,
        square_lead=gap * square_chance[:, None] + first,
        square=gap * (gap * square_chance[:, None] + 2.0 * first) + np.maximum(second, 0.0),
    )


def _leads(
    moving: FloatArray, apart: FloatArray, centre: FloatArray, arms: np.ndarray, used: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """E[q] and E[q l], (R,) and (R, K)."""
    chance = moving.mean(axis=2).T[used]
    sums = _differences(_products(moving, apart), arms, used)
    return chance, _gaps(centre, arms, used) * chance[:, None] + sums / moving.shape[2]


def _gaps(centre: FloatArray, arms: np.ndarray, used: BoolArray) -> FloatArray:
    """Differences of mean rewards, (R, K)."""
    user, place = np.nonzero(used)
    return centre[arms[place], user][:, None] - centre.T[user]


def _differences(sums: FloatArray, arms: np.ndarray, used: BoolArray) -> FloatArray:
    """Sums of q_i (m_i - m_j), (R, K), from those of q_i m_j, (u, A, K)."""
    return sums[:, np.arange(len(arms)), arms][used][:, None] - sums[used]


def _products(one: FloatArray, other: FloatArray) -> FloatArray:
    """Sums over worlds of products of some arms' with every rival's, (A, u, W) and (K, u, W): (u, A, K)."""
    return one.transpose(1, 0, 2) @ other.transpose(1, 2, 0)
