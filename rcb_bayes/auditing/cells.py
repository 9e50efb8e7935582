r"""Moments of every cell of a stage, from products of matrices over worlds: no cell's terms are written down.

With a_i the part of p_i that is the same in all worlds, :math:`q_i = \omega (p_i - a_i)` what is left of it, times the
world's weight, and :math:`l_{ij} = m_i - m_j`, the terms of every notion are :math:`q_i (l_{ij} + s) + const`, s the
part of epsilon that goes with p. So

.. math:: E[q_i l_{ij}], \quad E[q_i^2 l_{ij}], \quad E[q_i^2 l_{ij}^2], \quad E[q_i], \quad E[q_i^2]

give the mean and the variance of all of them, and of the ratio that people read. Rewards are taken from their own means
over worlds first, so that squares of differences lose no digits where arms hardly move.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from rcb_bayes.auditing.view import View
from rcb_bayes.mechanism.margins import FEW_EVENTS
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.schema import FloatArray

_CHUNK_VALUES = 50_000  # a few arrays of them stay in a core's own cache
_ROUNDING = 1e-14  # of what squares add up to: a spread below that is none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeadMoments:
    """Averages over worlds of q_i with leads l_ij = m_i - m_j, users first: (U, K) and (U, K, K).

    Attributes
    ----------
    chance, square_chance : of q and q squared, (U, K)
    lead, square_lead, square : of q l, q^2 l and q^2 l^2, (U, K, K)
    """

    chance: FloatArray
    square_chance: FloatArray
    lead: FloatArray
    square_lead: FloatArray
    square: FloatArray

    def mean(self, extra: float | FloatArray) -> FloatArray:
        """E[q (l + extra)], (U, K, K)."""
        return self.lead + extra * self.chance[:, :, None]

    def mean_square(self, extra: float | FloatArray) -> FloatArray:
        """E[q^2 (l + extra)^2], (U, K, K)."""
        return self.square + extra * (2.0 * self.square_lead + extra * self.square_chance[:, :, None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowFacts:
    """What is known of a user and an arm whatever the rival, (U, K) each.

    Attributes
    ----------
    always : a, the least chance in any world
    n_moving : worlds in which the chance is above that
    n_below : worlds in which it is below its largest
    n_events : worlds in which the arm is the best one
    shortfall : how far below the best arm it is at most where it is recommended
    reach : how far below the best arm it is at most
    """

    always: FloatArray
    n_moving: np.ndarray
    n_below: np.ndarray
    n_events: np.ndarray
    shortfall: FloatArray
    reach: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellMoments:
    """All that the notions share of a stage, as U users see it.

    Attributes
    ----------
    moments : with weights of the worlds in them
    weighted : E[omega q] and E[omega q l] once more times omega, (U, K) and (U, K, K); None where all worlds weigh 1
    worst : by the part of epsilon that goes with p, the lowest (p - a) (m_i - max m + that) in any world, (U, K)
    prior_rewards : (U, K)
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
        """How often each arm is recommended, (U, K)."""
        return self.rows.always + self.moments.chance

    def certain(self, extra: float, fixed: float) -> FloatArray:
        """The part of the form that is the same in all worlds, (U, K, K)."""
        prior = self.prior_rewards
        gap = prior[:, :, None] - prior[:, None, :]
        return self.rows.always[:, :, None] * (gap + extra) + fixed

    def error(self, extra: float | FloatArray) -> FloatArray:
        """The standard error of E[q (l + extra)], (U, K, K)."""
        mean = self.moments.mean(extra)
        again = mean if self.weighted is None else self.weighted[1] + extra * self.weighted[0][:, :, None]
        square = self.moments.mean_square(extra)
        spread = square - mean * (2.0 * again - self.mean_square_weight * mean)
        size = self.moments.square + extra**2 * self.moments.square_chance[:, :, None]
        spread[spread < _ROUNDING * size] = 0.0
        return np.sqrt(spread / (self.n_worlds - self.mean_square_weight))

    def ratio_error(self, notion: Notion, epsilon: float, form: FloatArray) -> FloatArray:
        """The error of the form over its mass, (U, K, K): that of terms less the ratio times what they are divided by.

        Where hardly any world differs from the rest the ratio's own spread cannot be seen, and the form's is taken.
        """
        _, extra = notion.epsilon_parts(epsilon)
        mass = notion.mass(self.chance)[:, :, None]
        if notion.is_joint:
            return self.error(extra) / mass
        few = (self.rows.n_moving > 0) & (self.rows.n_moving < FEW_EVENTS)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.error(extra - np.where(few[:, :, None], 0.0, form / mass)) / mass


def cell_moments(view: View, extras: Iterable[float]) -> CellMoments:
    """Moments of all cells of a view whose worlds all count, users some at a time."""
    k, u, w = view.chances.shape
    step = max(1, _CHUNK_VALUES // (k * w))
    wanted = sorted(set(extras))
    parts = [_part(view, slice(start, start + step), wanted) for start in range(0, u, step)]
    again = [np.concatenate([part[1][n] for part in parts]) for n in range(2)]
    weights = view.weights
    return CellMoments(
        moments=joined([part[0] for part in parts]),
        weighted=None if weights is None else (again[0], again[1]),
        rows=joined([part[2] for part in parts]),
        worst={extra: np.concatenate([part[3][extra] for part in parts]) for extra in wanted},
        prior_rewards=view.prior_rewards,
        n_worlds=w,
        mean_square_weight=1.0 if weights is None else float((weights**2).mean()),
    )


def joined[Part: (LeadMoments, RowFacts)](parts: list[Part]) -> Part:
    """Of all users together."""
    kind = type(parts[0])
    return kind(**{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(kind)})


def _part(
    view: View, users: slice, extras: list[float]
) -> tuple[LeadMoments, tuple[FloatArray, FloatArray], RowFacts, dict[float, FloatArray]]:
    chances, rewards, best = view.chances[:, users], view.rewards[:, users], view.best[:, users]
    always = chances.min(axis=2)
    moving = chances - always[:, :, None]
    n_moving = np.count_nonzero(moving, axis=2)
    n_below = np.count_nonzero(chances < chances.max(axis=2)[:, :, None], axis=2)
    below = rewards - rewards.max(axis=0)
    reach = -below.min(axis=2)
    shortfall = reach if always.min() > 0.0 else -np.where(chances > 0.0, below, 0.0).min(axis=2)
    worst = {extra: (moving * (below + extra)).min(axis=2).T for extra in extras}
    again: tuple[FloatArray, FloatArray] = (np.zeros(0), np.zeros(0))
    if view.weights is not None:
        moving *= view.weights
        twice = lead_moments(moving * view.weights, rewards, squares=False)
        again = twice.chance, twice.lead
    moments = lead_moments(moving, rewards)
    rows = RowFacts(
        always=always.T,
        n_moving=n_moving.T,
        n_below=n_below.T,
        n_events=np.count_nonzero(best, axis=2).T,
        shortfall=shortfall.T,
        reach=reach.T,
    )
    return moments, again, rows, worst


def lead_moments(moving: FloatArray, rewards: FloatArray, *, squares: bool = True) -> LeadMoments:
    """Moments of some users, from q and m, (K, U, W) each."""
    centre = rewards.mean(axis=2)
    return centred_moments(moving, rewards - centre[:, :, None], centre, squares=squares)


def centred_moments(moving: FloatArray, apart: FloatArray, centre: FloatArray, *, squares: bool = True) -> LeadMoments:
    """The same from q, m less its mean over worlds, and that mean (K, U)."""
    n = moving.shape[2]
    gap = centre.T[:, :, None] - centre.T[:, None, :]
    chance = moving.mean(axis=2).T
    lead = gap * chance[:, :, None] + _differences(products(moving, apart) / n)
    if not squares:
        none = np.zeros(0)
        return LeadMoments(chance=chance, square_chance=none, lead=lead, square_lead=none, square=none)
    square = moving * moving
    square_chance = square.mean(axis=2).T
    first = _differences(products(square, apart) / n)
    crossed = products(square * apart, apart)
    own = np.einsum("uii->ui", crossed)[:, :, None]
    second = (own - 2.0 * crossed + products(square, apart * apart)) / n
    return LeadMoments(
        chance=chance,
        square_chance=square_chance,
        lead=lead,
        square_lead=gap * square_chance[:, :, None] + first,
        square=gap * (gap * square_chance[:, :, None] + 2.0 * first) + np.maximum(second, 0.0),
    )


def _differences(sums: FloatArray) -> FloatArray:
    """Sums of q_i (m_i - m_j) from those of q_i m_j, (U, K, K)."""
    return np.einsum("uii->ui", sums)[:, :, None] - sums


def products(one: FloatArray, other: FloatArray) -> FloatArray:
    """Sums over worlds of products of every arm's with every rival's, (K, U, W) each: (U, K, K)."""
    return one.transpose(1, 0, 2) @ other.transpose(1, 2, 0)
