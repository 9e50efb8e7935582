r"""Margins of the incentive constraint, and simultaneous bands for them.

What is tested of a notion is its linear form (``notions``), world by world; the ratio that people read,
:math:`E[p_i (m_i - m_j)] / E[p_i]`, is not: with thin mass its delta-method band covers far less than it says.

Since :math:`E[m_i - m_j] = U_{ij}`, the prior gap, is known, the part of p_i that is the same in all worlds is taken
from the mean exactly and not from the sample (``steadied_terms``). Sums of the form over many users, or worlds, are
products of arrays: no cell's terms are written down (``world_leads``, ``user_leads``, ``user_means``).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.schema import BoolArray, FloatArray

Verdict = Literal["pass", "fail", "inconclusive"]
VERDICTS: tuple[Verdict, ...] = ("pass", "inconclusive", "fail")
N_BOOT = 1000
FEW_EVENTS = 10
ENOUGH_EVENTS = 50
MIN_WORLDS = 50  # for bands of a stage
_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bands:
    """Means over worlds of some cells, (C,) each, with bands that hold for all cells at once.

    ``lower`` and ``upper`` are one-sided each, at the level given; ``critical`` (C,) is the number of errors between
    them and the estimate.
    """

    estimate: FloatArray
    mcse: FloatArray
    lower: FloatArray
    upper: FloatArray
    critical: FloatArray


def steadied_terms(
    chances: FloatArray,
    rewards: FloatArray,
    prior_rewards: FloatArray,
    *,
    arm: int,
    epsilon: float,
    notion: Notion,
) -> FloatArray:
    """Terms whose mean over worlds is H_ij, for one arm i and every rival j: (K, U, W).

    Parameters
    ----------
    chances : p_i(x) in every world, (U, W), for this arm
    rewards : m_j(x), (K, U, W)
    prior_rewards : mu0(x, j), (U, K), the mean of m_j(x) over worlds
    """
    always = chances.min(axis=1, keepdims=True)  # (U, 1): what does not depend on the world
    prior_lead = prior_rewards[:, arm] - prior_rewards.T  # (K, U)
    gains = (chances - always) * (rewards[arm] - rewards) + always * prior_lead[:, :, None]
    return notion.allowing(gains, chances, epsilon)


def below_best(rewards: FloatArray) -> FloatArray:
    """Rewards less the best arm's, (K, ...): only differences count in a form, and these are small."""
    return rewards - rewards.max(axis=0)


def world_leads(weights: FloatArray, below: FloatArray, epsilon: float) -> FloatArray:
    """Sums over users of a_i (m_i - m_j + epsilon) in every world, from a and m, see ``below_best``: (K, K, W)."""
    first, second = (np.ascontiguousarray(part.transpose(2, 0, 1)) for part in (weights, below))  # (W, K, U)
    products = (first @ second.swapaxes(1, 2)).transpose(1, 2, 0)  # (K, K, W)
    own = np.einsum("iiw->iw", products) + epsilon * weights.sum(axis=1)
    return own[:, None] - products


def user_leads(weights: FloatArray, below: FloatArray, epsilon: float) -> FloatArray:
    """Averages over worlds of the same for every user, (U, K, K)."""
    products = _over_worlds(weights, below)
    own = np.einsum("uii->ui", products) + epsilon * weights.sum(axis=2).T
    return (own[:, :, None] - products) / weights.shape[2]


def user_means(
    weights: FloatArray, below: FloatArray, square: FloatArray, epsilon: float
) -> tuple[FloatArray, FloatArray]:
    """Averages over worlds of the same and of its square for every user, (U, K, K) each; ``square`` is below^2."""
    n = weights.shape[2]
    first, twice = _over_worlds(weights, below), weights * weights
    second, third = _over_worlds(twice, below), _over_worlds(twice, square)
    crossed = _over_worlds(twice * below, below)
    mean, mean_square = (part.sum(axis=2).T[:, :, None] for part in (weights, twice))
    own, own_square, own_third = (np.einsum("uii->ui", part)[:, :, None] for part in (first, second, crossed))
    leads = own - first + epsilon * mean
    squares = own_third - 2.0 * crossed + third + epsilon * (2.0 * (own_square - second) + epsilon * mean_square)
    return leads / n, squares / n


def _over_worlds(one: FloatArray, other: FloatArray) -> FloatArray:
    """Sums over worlds of products of every arm's with every rival's, (K, U, W) each: (U, K, K)."""
    return one.transpose(1, 0, 2) @ other.transpose(1, 2, 0)


def critical_value(values: FloatArray, *, level: float = 0.05, seed: int = 0) -> float:
    """Number of errors such that all cells' means stay within them, one side, with probability 1 - level.

    A studentised multiplier bootstrap over worlds (rows): every world's deviations from the means get a common standard
    normal factor. Cells with fewer than ten events say nothing about their own spread and are left out. The number is
    at least that of a single cell, the normal quantile at 1 - level.
    """
    from scipy.special import ndtri

    single = float(ndtri(1.0 - level))
    useful = ~is_thin(values)
    if not useful.any():
        return single
    return max(single, float(np.quantile(largest_errors(values[:, useful], seed=seed), 1.0 - level)))


def largest_errors(values: FloatArray, *, seed: int) -> FloatArray:
    """The largest error of any cell's mean, in errors, in each replicate of the bootstrap, (B,); values (W, C)."""
    centred = values - values.mean(axis=0)
    scaled = (centred / np.sqrt((centred**2).sum(axis=0))).astype(np.float32)  # a quantile of few replicates
    factors = boot_factors(len(values), seed).T
    largest = np.full(N_BOOT, -np.inf)
    step = max(1, _CHUNK_VALUES // N_BOOT)
    for start in range(0, scaled.shape[1], step):
        largest = np.maximum(largest, (factors @ scaled[:, start : start + step]).max(axis=1))
    return largest


@lru_cache(maxsize=3)
def boot_factors(n_worlds: int, seed: int) -> np.ndarray:
    """A standard normal factor for every world and replicate, (W, B), always the same ones, in single precision."""
    return np.random.default_rng(seed).standard_normal((n_worlds, N_BOOT), dtype=np.float32)


def simultaneous_bands(values: FloatArray, *, level: float = 0.05, seed: int = 0) -> Bands:
    """Bands for the means of all columns of values (W, C) at once.

    Cells too thin for the bootstrap have Bonferroni's bands, over all cells.
    """
    from scipy.special import ndtri

    critical = np.full(values.shape[1], critical_value(values, level=level, seed=seed))
    critical[is_thin(values)] = max(float(ndtri(1.0 - level / max(values.shape[1], 1))), critical.max(initial=0.0))
    estimate = values.mean(axis=0)
    mcse = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return Bands(
        estimate=estimate,
        mcse=mcse,
        lower=estimate - critical * mcse,
        upper=estimate + critical * mcse,
        critical=critical,
    )


def verdict_codes(
    bands: Bands,
    *,
    always_holds: BoolArray,
    n_events: np.ndarray,
    n_negative: np.ndarray,
    gain: FloatArray,
    loss: FloatArray,
    n_worlds: int,
) -> np.ndarray:
    """Verdict of each cell, (C,) of positions in ``VERDICTS``.

    Bands trust the worlds that were seen. What few of them show may be more frequent than it looks: k worlds seen leave
    room for 2 sqrt(k) + 4 more.

    Parameters
    ----------
    always_holds : in every world the constraint holds, or the arm is not recommended: such a cell passes
    n_events : worlds in which the arm is the best one; with fewer than fifty (terms are skewed to the right: at thirty
        a true margin of zero failed 8 % of the time where 5 % were meant) a fail needs room for more of them, each
        worth ``gain``
    n_negative : worlds whose own part, what depends on the world, is negative; with fewer than ten a pass needs room
        for more of them, each worth ``loss``
    """
    more_gains = np.where(n_events < ENOUGH_EVENTS, (2.0 * np.sqrt(n_events) + 4.0) / n_worlds * gain, 0.0)
    more_losses = np.where(n_negative < FEW_EVENTS, (2.0 * np.sqrt(n_negative) + 4.0) / n_worlds * loss, 0.0)
    # A margin that is -epsilon exactly, with no spread, is computed to rounding only.
    rounding = TIE * np.maximum(1.0, np.maximum(gain, loss))
    passed = always_holds | (bands.lower - more_losses >= -rounding)
    failed = ~passed & (bands.upper + more_gains < 0.0)
    return np.where(passed, 0, np.where(failed, 2, 1)).astype(np.int8)


def is_thin(values: FloatArray) -> BoolArray:
    """Cells (columns) in which fewer than ten worlds differ from the rest."""
    return (values != np.median(values, axis=0)).sum(axis=0) < FEW_EVENTS
