"""What verdicts need beside the bands, looked up for the cells that it can matter for.

Most cells are settled by what is known of their arm whatever the rival: an arm that is recommended only where it is
the best holds against everybody. The others are looked at in a few worlds first, and in all of them only where these do
not settle it: a cell that has broken its constraint in some world has broken it.
"""

from dataclasses import dataclass, fields

import numpy as np

from rcb_bayes.auditing.cells import CellMoments
from rcb_bayes.auditing.view import View
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.mechanism.margins import ENOUGH_EVENTS, FEW_EVENTS
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.schema import BoolArray, FloatArray

_FIRST_WORLDS = (32, 256)
_ANY_CRITICAL = 12.0  # errors: beyond any band
_CHUNK_VALUES = 1_000_000


@dataclass(slots=True, kw_only=True, eq=False)
class Evidence:
    """What the verdicts need beside the bands, of all cells; see ``judge_bands``.

    ``least`` is the lowest margin m_i - m_j in any world in which the arm is recommended; known to be no more than it
    says where no bound can be as low.
    """

    always_holds: BoolArray
    n_events: np.ndarray
    n_negative: np.ndarray
    gain: FloatArray
    loss: FloatArray
    least: FloatArray

    def at(self, places: np.ndarray | slice) -> "Evidence":
        """Of the cells at some places, all laid flat."""
        return Evidence(**{item.name: getattr(self, item.name).reshape(-1)[places] for item in fields(Evidence)})


def joined_evidence(parts: list[Evidence]) -> Evidence:
    """Of all cells together."""
    return Evidence(
        **{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(Evidence)}
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forms:
    """The linear form of rows under a notion, (R, K) each: estimates, errors, and which cells there are.

    ``certain`` is the part that is the same in all worlds; ``mass`` turns forms into margins, (R,).
    """

    estimate: FloatArray
    error: FloatArray
    certain: FloatArray
    used: BoolArray
    mass: FloatArray


def evidence_of(view: View, moments: CellMoments, forms: Forms, notion: Notion, *, epsilon: float) -> Evidence:
    """The evidence of every cell of some rows of a view whose worlds all count, (R, K) each."""
    _, extra = notion.epsilon_parts(epsilon)
    rows, shape = moments.rows, forms.estimate.shape
    whole_row = rows.shortfall <= epsilon
    by_terms = forms.certain + moments.worst[extra][:, None] >= -TIE
    found = Evidence(
        always_holds=whole_row[:, None] | by_terms,
        n_events=np.repeat(rows.n_events.astype(np.int32), shape[1]).reshape(shape),
        n_negative=np.full(shape, FEW_EVENTS, dtype=np.int32),
        gain=np.repeat(rows.reach, shape[1]).reshape(shape),
        loss=np.zeros(shape),
        least=np.repeat(np.where(rows.shortfall > 0.0, -np.inf, 0.0), shape[1]).reshape(shape),
    )
    mass = np.where(forms.mass > 0.0, forms.mass, 1.0)[:, None]
    lowest = (forms.estimate - _ANY_CRITICAL * forms.error) / mass - epsilon
    asked = forms.used & (~found.always_holds | ((rows.shortfall > 0.0)[:, None] & (lowest < 0.0)))
    at = np.nonzero(asked)
    if len(at[0]):
        places = np.stack([rows.user[at[0]], rows.arm[at[0]], at[1]])
        _look(view, found, at, places, moments, forms, lowest[at], by_terms, extra=extra, epsilon=epsilon)
        _weigh(view, found, at, places, moments, forms, epsilon=epsilon)
    return found


Rows = tuple[np.ndarray, ...]
"""Places of cells among the rows and their rivals, (C,) each."""


class _Looked:
    """Running facts of C cells over some worlds."""

    def __init__(self, view: View, always: FloatArray, places: np.ndarray) -> None:
        self._view, self._places, self._always = view, places, always
        n = places.shape[1]
        self.least, self.worst, self.n_negative = np.full(n, np.inf), np.full(n, np.inf), np.zeros(n, dtype=np.int32)

    def at(self, cells: np.ndarray, worlds: slice, *, extra: float, epsilon: float) -> None:
        """Look at some of the cells in some of the worlds, too."""
        size = len(range(*worlds.indices(self._view.n_worlds)))
        step = max(1, _CHUNK_VALUES // max(size, 1))
        for start in range(0, len(cells), step):
            some = cells[start : start + step]
            chances, lead = gathered(self._view, self._places[:, some], worlds)
            moving = chances - self._always[some, None]
            allowed = lead + epsilon
            low = np.where(chances > 0.0, allowed, np.inf).min(axis=1) - epsilon
            self.least[some] = np.minimum(self.least[some], low)
            self.n_negative[some] += np.count_nonzero(moving * allowed < 0.0, axis=1)
            self.worst[some] = np.minimum(self.worst[some], (moving * (lead + extra)).min(axis=1))


def _look(
    view: View,
    found: Evidence,
    at: Rows,
    places: np.ndarray,
    moments: CellMoments,
    forms: Forms,
    lowest: FloatArray,
    by_terms: BoolArray,
    *,
    extra: float,
    epsilon: float,
) -> None:
    """Whether cells hold in every world, their least margin, and in how many worlds they lose, entered as found."""
    looked = _Looked(view, moments.rows.always[at[0]], places)
    held, certain, can_pass = found.always_holds[at], forms.certain[at], forms.estimate[at] >= -TIE
    term_held = by_terms[at]
    left = np.arange(places.shape[1])
    begun = 0
    for end in (*_FIRST_WORLDS, view.n_worlds):
        looked.at(left, slice(begun, end), extra=extra, epsilon=epsilon)
        begun = end
        broken = (looked.least[left] < -epsilon) & (certain[left] + looked.worst[left] < -TIE)
        enough = broken & ((looked.n_negative[left] >= FEW_EVENTS) | ~can_pass[left])
        least = np.where(term_held[left], np.maximum(looked.least[left], -epsilon), looked.least[left])
        left = left[~np.where(held[left], least <= lowest[left], enough)]
        if begun >= view.n_worlds or not len(left):
            break
    by_sight = certain + looked.worst >= -TIE
    found.always_holds[at] = held | (looked.least >= -epsilon) | by_sight
    found.least[at] = np.where(term_held | by_sight, np.maximum(looked.least, -epsilon), looked.least)
    found.n_negative[at] = looked.n_negative


def _weigh(
    view: View, found: Evidence, at: Rows, places: np.ndarray, moments: CellMoments, forms: Forms, *, epsilon: float
) -> None:
    """What a world more would gain or lose, of the cells whose verdict may hang on it."""
    can_pass = forms.estimate[at] >= -TIE
    few = np.where(can_pass, found.n_negative[at] < FEW_EVENTS, found.n_events[at] < ENOUGH_EVENTS)
    doubtful = np.flatnonzero(few & ~found.always_holds[at])
    step = max(1, _CHUNK_VALUES // view.n_worlds)
    for start in range(0, len(doubtful), step):
        some = doubtful[start : start + step]
        here = at[0][some], at[1][some]
        user, arm, _ = places[:, some]
        chances, lead = gathered(view, places[:, some], slice(None))
        lead += epsilon
        varying = chances - moments.rows.always[here[0]][:, None]
        if view.weights is not None:
            varying *= view.weights
        not_best = ~view.best[arm, user].astype(bool)
        spread = lead.std(axis=1) + epsilon
        gain = np.maximum(spread, np.where(not_best, 0.0, lead).max(axis=1))
        found.gain[here] = gain * moments.mean_square_weight
        found.loss[here] = np.abs(lead).max(axis=1) * np.where(not_best, varying, 0.0).max(axis=1)


def gathered(view: View, places: np.ndarray, worlds: slice) -> tuple[FloatArray, FloatArray]:
    """Chances p_i and leads m_i - m_j of cells (user, arm, rival) in some worlds, (C, W) each."""
    user, arm, rival = places
    rewards = view.rewards[:, :, worlds]
    return view.chances[:, :, worlds][arm, user], rewards[arm, user] - rewards[rival, user]
