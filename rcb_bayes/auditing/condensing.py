"""A view condensed: what bands and verdicts need of its cells, at whatever level, without its worlds.

Views are as large as users times worlds times arms, and an audit looks at many. Each is condensed as it is seen, under
every notion from one set of moments, and forgotten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.auditing.cells import CellMoments, cell_moments
from rcb_bayes.auditing.evidence import Evidence, Forms, evidence_of, gathered, joined_evidence
from rcb_bayes.auditing.sharpening import SharpCells, better_known, in_doubt, joined_cells, sharpened
from rcb_bayes.auditing.view import Asked, Averages, View
from rcb_bayes.mechanism.bands import NO_REACH, Reach, reach_of
from rcb_bayes.mechanism.margins import FEW_EVENTS, is_thin
from rcb_bayes.mechanism.notions import NOTIONS, Notion
from rcb_bayes.schema import BoolArray, FloatArray

_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """The C cells of a stage under a notion.

    Attributes
    ----------
    shape, at : of the array that they are part of, and their places in it, laid flat
    estimate, error : of the linear form, (C,)
    margin_error : of the form over its mass, (C,)
    mass : by which forms become margins, in a shape that broadcasts to the array's
    chance : how often each arm is recommended, likewise
    is_thin : cells too thin for a bootstrap, (C,)
    reach : of the errors of all cells together
    n_worlds : that count
    sharp : cells that are better known in closed form; None where there are none
    n_sharp : cells that might have been
    """

    shape: tuple[int, ...]
    at: np.ndarray
    estimate: FloatArray
    error: FloatArray
    margin_error: FloatArray
    mass: FloatArray
    chance: FloatArray
    is_thin: BoolArray
    evidence: Evidence
    reach: Reach
    n_worlds: int
    sharp: SharpCells | None = None
    n_sharp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LowestCells:
    """Margins of a stage against the rival whom they are lowest against, (U, K) each, NaN where there is none.

    Attributes
    ----------
    estimate, lower, upper : the lowest of each over rivals: bounds of the lowest margin, as all of them hold at once
    mcse : of the margin that is estimated lowest
    mass : how often the arm is recommended
    verdict : the worst over rivals
    """

    estimate: FloatArray
    mcse: FloatArray
    lower: FloatArray
    upper: FloatArray
    mass: FloatArray
    verdict: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """A view that has been looked at, ``cells`` by the name of a notion; ``absent`` as in ``View``."""

    name: str
    share: float
    n_worlds: int
    n_users: int
    cells: dict[str, Cells | LowestCells]
    absent: BoolArray | None = None


def condensed(view: View, asked: Asked, *, notions: Iterable[Notion] | None = None, is_whole: bool = True) -> Seen:
    """What verdicts need of a view under some notions, or all; of a part of its users without the reach of errors."""
    wanted = tuple(NOTIONS.values() if notions is None else notions)
    counted = view.counted()
    by_user = [notion for notion in wanted if notion.is_per_user]
    moments = cell_moments(counted, [notion.epsilon_parts(asked.epsilon)[1] for notion in by_user]) if by_user else None
    cells: dict[str, Cells | LowestCells] = {
        notion.name: _averaged(counted, asked, notion)
        if moments is None or not notion.is_per_user
        else _by_user(counted, moments, asked, notion, is_whole=is_whole)
        for notion in wanted
    }
    n, share, absent = view.n_users, view.share, view.absent
    return Seen(name=view.name, share=share, n_worlds=view.n_worlds, n_users=n, cells=cells, absent=absent)


# --- user by user ----------------------------------------------------------------------------------------------------


def _by_user(view: View, moments: CellMoments, asked: Asked, notion: Notion, *, is_whole: bool) -> Cells:
    k, u, _ = view.chances.shape
    shape, rows = (u, k, k), moments.rows
    parts = [_of_rows(view, block, asked, notion) for block in moments.blocks()]
    at, estimate, error, margin_error, thin = (np.concatenate([part[0][n] for part in parts]) for n in range(5))
    evidence = joined_evidence([part[1] for part in parts])
    chance = np.zeros((u, k))
    chance[rows.user, rows.arm] = moments.chance
    doubtful = np.concatenate([part[2] for part in parts])
    sharp = None
    if len(doubtful):
        is_doubtful = np.zeros(shape, dtype=bool)
        is_doubtful.reshape(-1)[doubtful] = True
        sharp = sharpened(view, is_doubtful, notion=notion, epsilon=asked.epsilon)
    if sharp is not None:
        own = sharp.places(at, shape)
        sharp = better_known(sharp, error=error[own], n_events=evidence.n_events[own])
    return Cells(
        shape=shape,
        at=at,
        estimate=estimate,
        error=error,
        margin_error=margin_error,
        mass=notion.mass(chance)[:, :, None],
        chance=chance[:, :, None],
        is_thin=thin,
        evidence=evidence,
        reach=reach_of(
            estimate,
            error,
            is_thin=thin,
            holds=evidence.always_holds,
            deviations=lambda places: deviations(view, at[places], notion, asked.epsilon),
            n_worlds=moments.n_worlds,
        )
        if is_whole
        else NO_REACH,
        n_worlds=moments.n_worlds,
        sharp=sharp,
        n_sharp=0 if view.smoothed is None else int((view.smoothed.fixed > 0.0).sum()) * (k - 1),
    )


def deviations(view: View, at: np.ndarray, notion: Notion, epsilon: float) -> FloatArray:
    """What cells of a view whose worlds all count, given by their places, deviate from their means, (C, W)."""
    k, u, _ = view.chances.shape
    chances, lead = gathered(view, np.stack(np.unravel_index(at, (u, k, k))), slice(None))
    chances -= chances.min(axis=1, keepdims=True)
    lead += notion.epsilon_parts(epsilon)[1]
    chances *= lead
    chances -= chances.mean(axis=1, keepdims=True) if view.weights is None else _mean(chances, view.weights)
    return chances if view.weights is None else chances * view.weights


def together(parts: Sequence[Cells]) -> Cells:
    """Cells of all users from those of some at a time, in their order; their reach is not known yet."""
    k = parts[0].shape[-1]
    n_users = np.cumsum([0, *(part.shape[0] for part in parts)])
    sharp = [
        replace(part.sharp, user=part.sharp.user + start)
        for part, start in zip(parts, n_users, strict=False)
        if part.sharp is not None
    ]
    of_all = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("estimate", "error", "margin_error", "mass", "chance", "is_thin")
    }
    return Cells(
        **of_all,
        shape=(int(n_users[-1]), k, k),
        at=np.concatenate([part.at + start * k * k for part, start in zip(parts, n_users, strict=False)]),
        evidence=joined_evidence([part.evidence for part in parts]),
        reach=NO_REACH,
        n_worlds=parts[0].n_worlds,
        sharp=joined_cells(sharp) if sharp else None,
        n_sharp=sum(part.n_sharp for part in parts),
    )


def _of_rows(
    view: View, moments: CellMoments, asked: Asked, notion: Notion
) -> tuple[list[np.ndarray], Evidence, np.ndarray]:
    """Cells of some rows: places, estimates, errors, those of margins and thinness; evidence; places in doubt."""
    fixed, extra = notion.epsilon_parts(asked.epsilon)
    rows, certain = moments.rows, moments.certain(extra, fixed)
    forms = Forms(
        estimate=certain + moments.moments.mean(extra),
        error=moments.error(extra),
        certain=certain,
        used=moments.used,
        mass=notion.mass(moments.chance),
    )
    evidence = evidence_of(view, moments, forms, notion, epsilon=asked.epsilon)
    k = forms.used.shape[1]
    at = (rows.user * k + rows.arm)[:, None] * k + np.arange(k)
    kept = np.flatnonzero(forms.used)
    margin_error = moments.ratio_error(notion, asked.epsilon, forms.estimate)
    found = [part.reshape(-1)[kept] for part in (at, forms.estimate, forms.error, margin_error)]
    doubtful = in_doubt(view, rows.user, rows.arm, forms.estimate, forms.error, evidence.always_holds) & forms.used
    return [*found, _thin(view, moments, found[0], extra)], evidence.at(kept), at[doubtful]


def _thin(view: View, moments: CellMoments, at: np.ndarray, extra: float) -> BoolArray:
    """Cells in which fewer than ten worlds differ from the rest: those of a chance that hardly ever moves.

    A chance that hardly ever leaves its largest value makes a thin cell where the lead does not move, either.
    """
    rows, k = moments.rows, len(view.chances)
    by_row = rows.n_moving < FEW_EVENTS
    found = np.repeat(by_row, k - 1)
    doubtful = np.flatnonzero(np.repeat(~by_row & (rows.n_below < FEW_EVENTS), k - 1))
    step = max(1, _CHUNK_VALUES // view.n_worlds)
    for start in range(0, len(doubtful), step):
        places = doubtful[start : start + step]
        chances, lead = gathered(view, np.stack(np.unravel_index(at[places], (view.n_users, k, k))), slice(None))
        moving = chances - rows.always[places // (k - 1)][:, None]
        found[places] = is_thin((moving * (lead + extra)).T)
    return found


# --- averaged over users ---------------------------------------------------------------------------------------------


def _averaged(view: View, asked: Asked, notion: Notion) -> Cells:
    """A cell for each arm and rival, averaged over the population."""
    found = view.averages
    assert found is not None  # made for every view that is judged by it
    weights = found.weights
    chance = found.chances.mean(axis=1) if weights is None else _mean(found.chances, weights)[:, 0]
    k = len(chance)
    used = (chance > 0.0)[:, None] & ~np.eye(k, dtype=bool)
    parts = [
        _of_arm(found, arm, np.flatnonzero(used[arm]), asked.epsilon, notion) for arm in np.flatnonzero(chance).tolist()
    ]
    at = np.flatnonzero(used)
    arms, rivals = np.divmod(at, k)
    estimate, error, ratio_error = (np.concatenate([part[0][n] for part in parts]) for n in range(3))
    thin = np.concatenate([part[1] for part in parts])
    evidence = joined_evidence([part[2] for part in parts])
    mass = notion.mass(chance)[arms]
    # Averages allow epsilon as often as the arm is recommended; a notion may allow it more often.
    user_chances = found.user_chances[:, arms]
    user_masses = notion.mass(user_chances)
    user_values = found.user_values[:, arms, rivals] + asked.epsilon * (user_masses - user_chances)
    apart = (user_values - estimate / mass * user_masses) / mass
    others = found.fixed_error[arms, rivals]
    error = np.sqrt(error**2 + _user_errors(found, user_values) ** 2 + others**2)  # users are a sample, too

    def of_averages(places: np.ndarray) -> FloatArray:
        values = found.varying[arms[places], rivals[places]]
        values += asked.epsilon * (notion.mass(found.chances) - found.chances)[arms[places]]
        values -= values.mean(axis=1, keepdims=True) if weights is None else _mean(values, weights)
        return values if weights is None else values * weights

    return Cells(
        shape=(k, k),
        at=at,
        estimate=estimate,
        error=error,
        margin_error=np.sqrt(ratio_error**2 + _user_errors(found, apart) ** 2 + (others / mass) ** 2),
        mass=notion.mass(chance)[:, None],
        chance=chance[:, None],
        is_thin=thin,
        evidence=evidence,
        reach=reach_of(estimate, error, is_thin=thin, holds=evidence.always_holds, deviations=of_averages),
        n_worlds=found.chances.shape[1],
    )


def _of_arm(
    found: Averages, arm: int, rivals: np.ndarray, epsilon: float, notion: Notion
) -> tuple[list[FloatArray], BoolArray, Evidence]:
    """Of one arm against its rivals, (C,) each: estimate, error and error of the ratio; thinness; evidence."""
    weights = np.ones(found.chances.shape[1]) if found.weights is None else found.weights
    varying, chances = found.varying[arm, rivals], found.chances[arm]
    masses = notion.mass(chances)
    values = varying + found.constant[arm, rivals][:, None] + epsilon * (masses - chances)
    estimate = (values * weights).mean(axis=1)
    mass = (masses * weights).mean()
    scale = float((weights**2).mean())
    differing = int((masses != masses.min()).sum())
    ratio = np.zeros(len(rivals)) if 0 < differing < FEW_EVENTS else estimate / mass
    apart = values - ratio[:, None] * masses
    weighed = varying * weights
    least = found.least[arm, rivals]
    evidence = Evidence(
        always_holds=least >= -epsilon,
        n_events=np.full(len(rivals), found.n_events[arm]),
        n_negative=(varying < 0.0).sum(axis=1),
        gain=np.maximum(np.maximum(weighed.std(axis=1), weighed.max(axis=1)), 0.0),
        loss=np.maximum(-weighed.min(axis=1), 0.0),
        least=least,
    )
    error = _error(values, weights, scale)
    return [estimate, error, _error(apart, weights, scale) / mass], is_thin(values.T), evidence


def _mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted means over worlds, (C, W) -> (C, 1)."""
    return (values @ weights / len(weights))[:, None]


def _error(values: FloatArray, weights: FloatArray, scale: float) -> FloatArray:
    """Standard errors of weighted means over worlds, (C, W) -> (C,); ``scale`` is E[omega^2]."""
    moved = (values - _mean(values, weights)) * weights
    n = len(weights)
    return np.sqrt((moved**2).mean(axis=1) / (n - scale))


def _user_errors(found: Averages, values: FloatArray) -> FloatArray:
    """Standard errors of averages over users of values (U, C), from how much they differ; unknown of a single one."""
    if found.is_exact:
        return np.zeros(values.shape[1])
    n = len(values)
    return values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(values.shape[1], np.inf)
