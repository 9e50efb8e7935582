r"""Cells that worlds leave open, judged by the closed form of ``smoothing`` where the belief has one.

An untried arm i is recommended q pi_i of the time whatever the data, and else where it is the best, which it seldom is.
Given who was sampled, the mean over rewards of its linear form is known exactly (``mechanism.smoothing``): worlds are
left to differ by their designs alone. What so comes out replaces what the worlds say wherever its error is smaller, or
too few of them show the arm as the best one.

Bands: a share of the level goes to these cells, by Bonferroni over all cells of the stage, the rest to the worlds'. The
designs of all worlds come from one panel of users, so that their average keeps part of their spread, however many they
are: with s^2 the variance over designs, the variance of the average is at most s^2 (1/W + overlap).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from rcb_bayes.auditing.evidence import Evidence
from rcb_bayes.auditing.view import ArmForm, Smoothed, View
from rcb_bayes.mechanism.margins import ENOUGH_EVENTS
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.smoothing import best_of, spread_of
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import BoolArray, FloatArray

LEVEL_SHARE = 0.5  # of the level of a stage, for cells judged in closed form
_CLEAR = 6.0  # errors above zero: passed by any band
_CHUNK_VALUES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharpCells:
    """C cells of a stage under a notion, in closed form given the designs, (C,) each.

    Attributes
    ----------
    user, arm, rival : which cells these are
    estimate, error : of the linear form
    mass, margin_error : by which it becomes a margin, and that margin's error
    chance : how often the arm is recommended
    n_events : designs that count, by Kish, in the chance that the arm is the best
    gain : what one more of them could be worth
    """

    user: np.ndarray
    arm: np.ndarray
    rival: np.ndarray
    estimate: FloatArray
    error: FloatArray
    mass: FloatArray
    margin_error: FloatArray
    chance: FloatArray
    n_events: FloatArray
    gain: FloatArray

    @property
    def at(self) -> tuple[np.ndarray, ...]:
        """Their places among all cells, (U, K, K)."""
        return self.user, self.arm, self.rival

    def places(self, at: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Their places among cells that are given by theirs in an array of some shape, laid flat, in rising order."""
        return np.searchsorted(at, np.ravel_multi_index(self.at, shape))

    def take(self, some: np.ndarray) -> "SharpCells":
        """Some of them."""
        return SharpCells(**{item.name: getattr(self, item.name)[some] for item in fields(self)})

    def evidence(self) -> Evidence:
        """What verdicts need beside the bands: given that the arm is the best, it never loses."""
        none = np.zeros(len(self.user))
        return Evidence(
            always_holds=none > 0.0,
            n_events=self.n_events,
            n_negative=none,
            gain=self.gain,
            loss=none,
            least=none - np.inf,
        )


def smoothed_stage(law: MeanLaw | None, seats: Panel, *, rates: FloatArray, promoted: FloatArray) -> Smoothed | None:
    """The forms of untried arms at a stage of a cold start, where the law of posterior means is known.

    Parameters
    ----------
    rates : how often each user is explored, (U,)
    promoted : the chance that each arm is promoted to her, (U, K)
    """
    if law is None:
        return None
    fixed = rates[:, None] * promoted

    def form(arm: int, some: np.ndarray) -> ArmForm:
        best = best_of(law, seats.users[some], seats.prior_rewards[some], arm)
        return ArmForm(
            fixed=fixed[some, arm],
            chances=(1.0 - rates[some])[:, None] * best.chance,
            leads=best.leads,
            overlap=law.overlap(),
        )

    return Smoothed(fixed=fixed, form=form)


def in_doubt(
    view: View, user: np.ndarray, arm: np.ndarray, estimate: FloatArray, error: FloatArray, always_holds: BoolArray
) -> BoolArray:
    """Cells of rows, (R, K), that worlds do not clearly pass although a closed form could."""
    if view.smoothed is None or view.weights is not None:
        return np.zeros(estimate.shape, dtype=bool)
    own = view.smoothed.fixed[user, arm] > 0.0  # others are recommended as the best only, and hold
    return own[:, None] & ~always_holds & (estimate <= _CLEAR * error)


def sharpened(view: View, doubtful: BoolArray, *, notion: Notion, epsilon: float) -> SharpCells | None:
    """The cells in doubt, (U, K, K), in closed form given the designs."""
    own = view.smoothed
    if own is None or not doubtful.any():
        return None
    parts = []
    for arm in np.flatnonzero(doubtful.any(axis=(0, 2))).tolist():
        users = np.flatnonzero(doubtful[:, arm].any(axis=1))
        step = max(1, _CHUNK_VALUES // view.rewards[:, 0].size)
        for start in range(0, len(users), step):
            some = users[start : start + step]
            parts.append(_cells(view, own, arm, some, doubtful[some, arm], notion=notion, epsilon=epsilon))
    return joined_cells(parts)


def joined_cells(parts: Sequence[SharpCells]) -> SharpCells:
    """All of them."""
    names = [item.name for item in fields(SharpCells)]
    return SharpCells(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _cells(
    view: View, smoothed: Smoothed, arm: int, some: np.ndarray, doubtful: BoolArray, *, notion: Notion, epsilon: float
) -> SharpCells:
    """Of one arm, for some users, against the rivals in doubt (u, K)."""
    form = smoothed.form(arm, some)
    user, rival = np.nonzero(doubtful)
    prior = view.prior_rewards[some[user]]
    certain = form.fixed[user] * (prior[:, arm] - prior[np.arange(len(user)), rival])
    organic = form.chances[user]  # (C, W)
    lead = form.leads[rival, user]
    chances = form.fixed[user][:, None] + organic
    terms = notion.allowing(organic * lead + certain[:, None], chances, epsilon)
    masses = notion.mass(chances)
    mass, estimate = masses.mean(axis=1), terms.mean(axis=1)
    reach = np.sqrt(1.0 / terms.shape[1] + form.overlap)
    square = np.square(organic).sum(axis=1)
    return SharpCells(
        user=some[user],
        arm=np.full(len(user), arm),
        rival=rival,
        estimate=estimate,
        error=spread_of(terms) * reach,
        mass=mass,
        margin_error=spread_of(terms - (estimate / mass)[:, None] * masses) * reach / mass,
        chance=chances.mean(axis=1),
        n_events=np.divide(organic.sum(axis=1) ** 2, square, out=np.zeros(len(user)), where=square > 0.0),
        gain=lead.max(axis=1) + epsilon,
    )


def better_known(cells: SharpCells, *, error: FloatArray, n_events: np.ndarray) -> SharpCells:
    """Cells that are better known in closed form than by worlds, whose error and number of events are given."""
    return cells.take(np.flatnonzero((cells.error < error) | (n_events < ENOUGH_EVENTS)))
