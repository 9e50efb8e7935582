r"""Cells that worlds leave open, judged by the closed form of ``smoothing`` where the belief has one.

An untried arm i is recommended q pi_i of the time whatever the data, and else where it is the best, which it seldom is.
Given who was sampled, the mean over rewards of its linear form is known exactly (``mechanism.smoothing``): worlds are
left to differ by their designs alone. What so comes out replaces what the worlds say wherever its error is smaller, or
too few of them show the arm as the best one.

Bands: a share of the level goes to these cells, by Bonferroni over all cells of the stage, the rest to the worlds'. The
designs of all worlds come from one panel of users, so that their average keeps part of their spread, however many they
are: with s^2 the variance over designs, the variance of the average is at most s^2 (1/W + overlap).
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.auditing.view import ArmForm, Smoothed, View
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.mechanism.deciding import VERDICTS
from rcb_bayes.mechanism.margins import ENOUGH_EVENTS, Bands, judge_bands
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.smoothing import settled_best
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import BoolArray, FloatArray

LEVEL_SHARE = 0.1  # of an audit's level, for cells judged in closed form
_CLEAR = 6.0  # errors above zero: passed by any band
_CHUNK_VALUES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharpCells:
    """C cells of a stage under a notion, in closed form given the designs.

    Attributes
    ----------
    at : users, arms and rivals, (3, C)
    estimate, error : of the linear form
    mass, margin_error : by which it becomes a margin, and that margin's error
    chance : how often the arm is recommended
    n_events : designs that count, by Kish, in the chance that the arm is the best
    gain : what one more of them could be worth
    """

    at: np.ndarray
    estimate: FloatArray
    error: FloatArray
    mass: FloatArray
    margin_error: FloatArray
    chance: FloatArray
    n_events: FloatArray
    gain: FloatArray
    n_worlds: int


def smoothed_stage(law: MeanLaw, seats: Panel, users: FloatArray, *, q: FloatArray, promoted: FloatArray) -> Smoothed:
    """The forms of the untried arms at a stage of a cold start, explored at rates q (U,), promoted by shares (U, K)."""

    def form(arm: int, some: np.ndarray) -> ArmForm:
        best = settled_best(seats.prior_rewards[some], law.variances(users[some]))
        return ArmForm(
            fixed=q[some] * promoted[some, arm],
            chances=(1.0 - q[some])[:, None] * best.shares[arm],
            rewards=best.rewards,
            overlap=law.overlap,
        )

    return form


def sharpened(view: View, doubtful: BoolArray, *, notion: Notion, epsilon: float) -> SharpCells | None:
    """The cells among those in doubt, (U, K, K), whose form is known in closed form."""
    parts = []
    if view.smoothed is not None:
        for arm in view.untried:
            users = np.flatnonzero(doubtful[:, arm].any(axis=1))
            step = max(1, _CHUNK_VALUES // view.rewards[:, 0].size)
            for start in range(0, len(users), step):
                some = users[start : start + step]
                form = view.smoothed(arm, some)
                lead = (view.prior_rewards[some, arm] - view.prior_rewards[some].T)  # (K, U)
                at = np.stack(np.nonzero(doubtful[some, arm]))
                parts.append(_cells(form, lead, some, at, arm=arm, notion=notion, epsilon=epsilon))
    if not parts:
        return None
    return SharpCells(
        at=np.concatenate([part.at for part in parts], axis=1),
        n_worlds=view.n_worlds,
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _BY_CELL},
    )


_BY_CELL = ("estimate", "error", "mass", "margin_error", "chance", "n_events", "gain")


def _cells(
    form: ArmForm, prior_lead: FloatArray, some: np.ndarray, at: np.ndarray, *, arm: int, notion: Notion, epsilon: float
) -> SharpCells:
    """Of one arm against rivals, ``at`` (2, C) being places among some users, and rivals."""
    user, rival = at
    organic = form.chances[user]  # (C, W)
    lead = form.rewards[arm, user] - form.rewards[rival, user]
    chances = form.fixed[user][:, None] + organic
    terms = notion.allowing(organic * lead + (form.fixed[user] * prior_lead[rival, user])[:, None], chances, epsilon)
    masses = notion.mass(chances)
    mass, estimate = masses.mean(axis=1), terms.mean(axis=1)
    w = terms.shape[1]
    reach = np.sqrt(1.0 / w + form.overlap)
    square = np.square(organic).sum(axis=1)
    return SharpCells(
        at=np.stack([some[user], np.full(len(user), arm), rival]),
        estimate=estimate,
        error=_spread(terms) * reach,
        mass=mass,
        margin_error=_spread(terms - (estimate / mass)[:, None] * masses) * reach / mass,
        chance=chances.mean(axis=1),
        n_events=np.divide(organic.sum(axis=1) ** 2, square, out=np.zeros(len(user)), where=square > 0.0),
        gain=lead.max(axis=1) + epsilon,
        n_worlds=w,
    )


def _spread(values: FloatArray) -> FloatArray:
    """Standard deviations over worlds, (C, W) -> (C,); none where what is left is rounding."""
    spread = values.std(axis=1, ddof=1)
    return np.where(spread > TIE * np.abs(values).max(axis=1), spread, 0.0)


def in_doubt(estimate: FloatArray, error: FloatArray, always_holds: BoolArray) -> BoolArray:
    """Cells that worlds do not clearly pass."""
    return ~always_holds & (estimate <= _CLEAR * error)


def enter_sharp(
    out: dict[str, FloatArray],
    cells: SharpCells,
    *,
    error: FloatArray,
    n_events: np.ndarray,
    n_cells: int,
    level: float,
    epsilon: float,
) -> None:
    """Enter what is better known in closed form among a stage's margins and verdicts, (U, K, K) each.

    Parameters
    ----------
    error, n_events : of these cells by the worlds, (C,): the error of the form, and worlds that show the arm as best
    n_cells, level : of the stage, and of all of it together
    """
    from scipy.special import ndtri

    better = (cells.error < error) | (n_events < ENOUGH_EVENTS)
    critical = float(ndtri(1.0 - LEVEL_SHARE * level / max(n_cells, 1)))
    lower, upper = cells.estimate - critical * cells.error, cells.estimate + critical * cells.error
    none = np.zeros(len(lower))
    verdicts = judge_bands(
        Bands(estimate=cells.estimate, mcse=cells.error, lower=lower, upper=upper, critical=none + critical),
        always_holds=none > 0.0,
        n_events=cells.n_events,
        n_negative=none,  # given that it is the best, it never loses
        gain=cells.gain,
        loss=none,
        n_worlds=cells.n_worlds,
    )
    verdict = np.array([VERDICTS.index(verdict) for verdict in verdicts])
    at = tuple(cells.at[:, better])
    for name, values in (("estimate", cells.estimate), ("lower", lower), ("upper", upper)):
        out[name][at] = (values / cells.mass - epsilon)[better]
    out["mcse"][at] = cells.margin_error[better]
    out["mass"][at] = cells.chance[better]
    out["verdict"][at] = verdict[better]
