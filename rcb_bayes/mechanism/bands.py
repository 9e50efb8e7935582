r"""Simultaneous bands for very many cells, of which few can matter.

A bootstrap over all cells costs as much as all else together. Let :math:`T = \hat H / s` be a cell's estimate in its
own errors, :math:`Z` the error that it makes, in the same unit, and :math:`t = T - Z`. A share of the level goes to
Bonferroni's number of errors :math:`c_2`, over all cells, the rest to a bootstrap over the cells with
:math:`T \le \tau`, whose quantile is :math:`c_1 \le c_2`, never less than one cell's own, :math:`z_1`.

Cells with :math:`T \le \kappa = \tau - c_2 + z_1` have the lower bound :math:`\hat H - c_1 s`, all others
:math:`\hat H - c_2 s`. Unless some :math:`Z > c_2`, which Bonferroni allows for, a bound is too high only where
:math:`c_1 < Z \le \kappa - t`, hence :math:`t < \kappa - z_1` and :math:`T < \tau`: such a cell was in the bootstrap,
which allows for it. With :math:`\tau = 2 c_2 - z_1` a cell beyond :math:`\kappa = c_2` passes by the wider band, too:
nothing is lost by leaving it out. Upper bounds have :math:`c_1` where :math:`T \le -z_1`, as no other cell can fail.

Cells that hold in every world are left out, and so are cells too thin for a bootstrap: Bonferroni speaks for both.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.margins import N_BOOT, Bands, boot_factors
from rcb_bayes.schema import BoolArray, FloatArray

FEW_CELLS = 256  # all of them go into the bootstrap
_BONFERRONI_SHARE = 0.05  # of the level
_MOST_CELLS, _EVER_MOST, _MOST_SHARE = 4000, 20_000, 0.1  # in a bootstrap
_USUAL_LEVEL = 0.05 / 64
_CHUNK_VALUES = 2_000_000
_MOST_DEVIATIONS = 8_000_000
_MOST_FACTORS = 4000  # of a replicate: a factor for each world, or for a few of them

Deviations = Callable[[np.ndarray], FloatArray]
"""What cells, given by their places, deviate from their means in every world, (C, W)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """How far errors of cells go together: whatever a level needs to become numbers of errors.

    Attributes
    ----------
    largest : the largest error, in errors, of any cell in each replicate of a bootstrap, (B,); empty without cells
    limit : the T up to which cells are in the bootstrap; infinite where all are
    """

    largest: FloatArray
    limit: float


NO_REACH = Reach(largest=np.zeros(0), limit=np.inf)
"""Of cells whose errors have not been looked at."""


def reach_of(
    estimate: FloatArray,
    error: FloatArray,
    *,
    is_thin: BoolArray,
    holds: BoolArray,
    deviations: Deviations,
    n_worlds: int = 1,
) -> Reach:
    """The reach of C cells' errors, from their estimates and errors, (C,) each.

    Parameters
    ----------
    is_thin : cells that say nothing about their own spread
    holds : cells that hold in every world
    n_worlds : of what deviates; of many worlds few cells are looked at at a time
    """
    places, limit = tried_cells(estimate, error, is_thin=is_thin, holds=holds)
    return Reach(largest=largest_of(places, deviations, n_worlds=n_worlds), limit=limit)


def tried_cells(
    estimate: FloatArray, error: FloatArray, *, is_thin: BoolArray, holds: BoolArray
) -> tuple[np.ndarray, float]:
    """Places of the cells that go into the bootstrap, and the T up to which cells do; see ``reach_of``."""
    tried = ~is_thin & (error > 0.0)
    if len(estimate) <= FEW_CELLS:
        return np.flatnonzero(tried), np.inf
    tried &= ~holds
    places = np.flatnonzero(tried)
    ratio = estimate[places] / error[places]
    limit = _limit(len(estimate), _USUAL_LEVEL)
    most = max(_MOST_CELLS, min(_EVER_MOST, int(_MOST_SHARE * len(estimate))))
    if (ratio <= limit).sum() > most:
        limit = float(np.partition(ratio, most - 1)[most - 1])
    return places[ratio <= limit], limit


def bands_within(
    reach: Reach,
    estimate: FloatArray,
    error: FloatArray,
    *,
    is_thin: BoolArray,
    holds: BoolArray,
    level: float,
    n_cells: int | None = None,
) -> Bands:
    """Bands for all C cells at once, one-sided at the level each; or for some of ``n_cells``."""
    from scipy.special import ndtri

    n = max(len(estimate) if n_cells is None else n_cells, 1)
    everything = np.isinf(reach.limit)
    share = 1.0 if everything else 1.0 - _BONFERRONI_SHARE
    single = float(ndtri(1.0 - share * level))
    narrow = max(single, float(np.quantile(reach.largest, 1.0 - share * level))) if len(reach.largest) else single
    if everything:
        wide = max(float(ndtri(1.0 - level / n)), narrow)
        lower = upper = np.where(is_thin, wide, narrow)
    else:
        wide = float(ndtri(1.0 - _BONFERRONI_SHARE * level / n))
        narrow = min(narrow, wide)
        tried = ~is_thin & ~holds & (error > 0.0)
        limit = reach.limit - wide + single
        lower = np.where(tried & (estimate <= limit * error), narrow, wide)
        upper = np.where(tried & (estimate <= -single * error), narrow, wide)
    return Bands(
        estimate=estimate, mcse=error, lower=estimate - lower * error, upper=estimate + upper * error, critical=lower
    )


def bonferroni_bands(estimate: FloatArray, error: FloatArray, *, n_cells: int, level: float) -> Bands:
    """Bands for some of n cells, whichever these are: one-sided at the level each, for all of them at once."""
    from scipy.special import ndtri

    critical = np.full(len(estimate), float(ndtri(1.0 - level / max(n_cells, 1))))
    reach = critical * error
    return Bands(estimate=estimate, mcse=error, lower=estimate - reach, upper=estimate + reach, critical=critical)


def _limit(n_cells: int, level: float) -> float:
    from scipy.special import ndtri

    wide = float(ndtri(1.0 - _BONFERRONI_SHARE * level / n_cells))
    return 2.0 * wide - float(ndtri(1.0 - (1.0 - _BONFERRONI_SHARE) * level))


def largest_of(places: np.ndarray, deviations: Deviations, *, n_worlds: int = 1) -> FloatArray:
    """The largest error of some cells in each replicate, (B,).

    Single precision will do: a quantile of a thousand replicates is known to a few hundredths. Of very many worlds
    neighbours share a factor: sums over independent worlds are independent, and thousands of them tell how errors of
    cells go together.
    """
    largest = np.zeros(0)
    step = max(1, min(_CHUNK_VALUES // N_BOOT, _MOST_DEVIATIONS // n_worlds))
    for start in range(0, len(places), step):
        moved = deviations(places[start : start + step])
        each = -(-moved.shape[1] // _MOST_FACTORS)
        if each > 1:
            moved = np.add.reduceat(moved, np.arange(0, moved.shape[1], each), axis=1)
        size = np.sqrt((moved**2).sum(axis=1, keepdims=True))  # 0 where an error is rounding only
        scaled = np.divide(moved, size, out=np.zeros_like(moved), where=size > 0.0).astype(np.float32)
        part = (scaled @ boot_factors(scaled.shape[1], 0)).max(axis=0)
        largest = np.maximum(largest, part) if start else part
    return largest.astype(float)


def clopper_pearson(count: np.ndarray, n: int, level: float) -> tuple[FloatArray, FloatArray]:
    """One-sided bounds of a share, given how many of n users show it."""
    from scipy.special import betaincinv

    lower = np.where(count > 0, betaincinv(np.maximum(count, 1), n - count + 1.0, level), 0.0)
    upper = np.where(count < n, betaincinv(count + 1.0, np.maximum(n - count, 1), 1.0 - level), 1.0)
    return lower, upper
