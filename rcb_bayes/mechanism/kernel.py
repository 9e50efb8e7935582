r"""Inverse-proportional-gap sampling: how often each arm is recommended, given what is expected of it.

With b the best arm by the scores m and :math:`\gamma` the spread,

.. math:: p_i = \frac{1}{K + \gamma (m_b - m_i)} \quad (i \ne b), \qquad p_b = 1 - \sum_{i \ne b} p_i .

Arrays have arms first, (K, n): the best of a few arms is then found column by column at the speed of memory. Scores are
summed feature by feature, so that a user's are the same to the last bit alone and among thousands.
"""

from itertools import accumulate

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.schema import FloatArray

_LARGE, _LARGE_SINGLE = 1e100, 1e20  # spreads from here on may overflow
_BLOCK_VALUES = 50_000  # a few arrays of them stay in a core's own cache


def linear_scores(means: FloatArray, features: FloatArray) -> FloatArray:
    """x'b of every arm and user, from means (K, d) and the users' features (d, n): (K, n)."""
    if len(features) != means.shape[1]:
        raise DataError(f"Users have {means.shape[1]} features each, got {len(features)}.")
    out = means[:, :1] * features[0]
    if features.shape[0] == 1:
        return out
    part = np.empty_like(out)
    for j in range(1, features.shape[0]):
        np.multiply(means[:, j : j + 1], features[j], out=part)
        out += part
    return out


def ipgs_probabilities(scores: FloatArray, gamma: float | FloatArray, *, guard: FloatArray | None = None) -> FloatArray:
    """Recommendation probabilities, (K, n) -> (K, n).

    Parameters
    ----------
    gamma : spread, 0 (uniform) to infinity (greedy), the same for all or (n,)
    guard : (K, n), factors in [0, 1] on the part of an arm's probability that it has where it is not the best; what is
        cut goes to the best arm

    Arms that are best up to rounding share what is left to the best one. Scores in single precision give probabilities
    in single precision.
    """
    k, n = scores.shape
    out = np.empty((k, n), dtype=scores.dtype)
    plain = bool(np.max(gamma, initial=0.0) < (_LARGE if out.itemsize > 4 else _LARGE_SINGLE))
    spreads = np.asarray(gamma, dtype=out.dtype)
    step = max(1, _BLOCK_VALUES // k)
    for start in range(0, n, step):
        some = slice(start, start + step)
        own = spreads if spreads.ndim == 0 else spreads[some]
        _fill(out[:, some], scores[:, some], own, None if guard is None else guard[:, some], plain=plain)
    return out


def _fill(out: FloatArray, scores: FloatArray, gamma: FloatArray, guard: FloatArray | None, *, plain: bool) -> None:
    """Probabilities of some columns; ``plain`` where no spread may overflow."""
    top = scores[0].copy()
    for row in scores[1:]:  # row by row: far faster than along the first axis of a few arms
        np.maximum(top, row, out=top)
    best = scores >= top - TIE * np.maximum(np.abs(top), 1.0)
    np.subtract(top, scores, out=out)
    if plain:
        out *= gamma
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            out *= gamma
        out[best] = 0.0  # inf * 0 is NaN
    out += len(scores)
    np.divide(1.0, out, out=out)
    if guard is not None:
        out *= guard
    out *= ~best
    taken = out[0].copy()
    for chances in out[1:]:  # in turn, as for a single user: a sum may regroup
        taken += chances
    np.subtract(1.0, taken, out=taken)
    if np.count_nonzero(best) > len(taken):  # somewhere arms tie
        taken /= best.sum(axis=0)
    out += best * taken


def pick(probabilities: FloatArray, uniforms: FloatArray) -> np.ndarray:
    """The arm that each uniform number falls on, (K, n), (n,) -> (n,)."""
    total = probabilities[0].copy()
    for row in probabilities[1:]:
        total += row
    threshold = uniforms * total
    upto = np.zeros(len(uniforms))
    arm = np.zeros(len(uniforms), dtype=_positions(len(probabilities)))
    for row in probabilities[:-1]:
        upto += row
        arm += (threshold >= upto).view(np.int8)
    return arm.astype(np.int64)


def best_arm(values: FloatArray) -> np.ndarray:
    """The first of the largest values of each column, (K, n) -> (n,)."""
    best, top = np.zeros(values.shape[1], dtype=_positions(len(values))), values[0].copy()
    for k in range(1, len(values)):
        np.copyto(best, k, where=values[k] > top)
        np.maximum(top, values[k], out=top)
    return best


def _positions(n_arms: int) -> type[np.signedinteger]:
    """The smallest integers that number the arms: what moves less memory is faster."""
    return np.int8 if n_arms < 128 else np.int16 if n_arms < 2**15 else np.int64


def ipgs_one(
    means: list[list[float]], x: list[float], gamma: float, *, guard: list[float] | None = None
) -> tuple[list[float], list[float]]:
    """Probabilities and scores of every arm for one user, to the last bit those of the functions above.

    Plain numbers are ten times faster here than arrays of a single user.
    """
    scores = []
    for row in means:
        score = row[0] * x[0]
        for j in range(1, len(x)):
            score += row[j] * x[j]
        scores.append(score)
    top, k = max(scores), len(scores)
    limit = top - TIE * max(abs(top), 1.0)
    out, taken, n_best = [0.0] * k, 0.0, 0
    for arm, score in enumerate(scores):
        if score >= limit:
            n_best += 1
        else:
            chance = 1.0 / (gamma * (top - score) + k)
            out[arm] = chance if guard is None else chance * guard[arm]
            taken += out[arm]
    left = (1.0 - taken) / n_best
    return [left if score >= limit else chance for score, chance in zip(scores, out, strict=True)], scores


def pick_one(probabilities: list[float], uniform: float) -> int:
    """The arm that a uniform number falls on."""
    upto = list(accumulate(probabilities))
    threshold = uniform * upto[-1]
    return sum(threshold >= below for below in upto[:-1])
