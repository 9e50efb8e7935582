r"""Inverse-proportional-gap sampling: how often each arm is recommended, given what is expected of it.

With b the best arm by the scores m and :math:`\gamma` the spread,

.. math:: p_i = \frac{1}{K + \gamma (m_b - m_i)} \quad (i \ne b), \qquad p_b = 1 - \sum_{i \ne b} p_i .

Arrays have arms first, (K, n): the best of a few arms is then found column by column at the speed of memory. Scores are
summed feature by feature, so that a user's are the same to the last bit alone and among thousands.
"""

from itertools import accumulate

import numpy as np

from rcb_bayes.choice import TIE, is_best
from rcb_bayes.schema import FloatArray


def linear_scores(means: FloatArray, features: FloatArray) -> FloatArray:
    """x'b of every arm and user, from means (K, d) and the users' features (d, n): (K, n)."""
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

    Arms that are best up to rounding share what is left to the best one.
    """
    top = scores.max(axis=0)
    gap = top - scores
    best = is_best(scores, axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        out = gamma * gap  # inf * 0 is NaN, and overwritten: a best arm gets what is left
    out += len(scores)
    np.divide(1.0, out, out=out)
    if guard is not None:
        out *= guard
    out[best] = 0.0
    taken = out[0].copy()
    for row in out[1:]:  # one by one, as for a single user: a sum over an axis may group them otherwise
        taken += row
    np.copyto(out, (1.0 - taken) / best.sum(axis=0), where=best)
    return out


def pick(probabilities: FloatArray, uniforms: FloatArray) -> np.ndarray:
    """The arm that each uniform number falls on, (K, n), (n,) -> (n,)."""
    total = probabilities[0].copy()
    for row in probabilities[1:]:
        total += row
    threshold = uniforms * total
    upto = np.zeros(len(uniforms))
    arm = np.zeros(len(uniforms), dtype=np.int8 if len(probabilities) < 128 else np.int64)
    for row in probabilities[:-1]:
        upto += row
        arm += (threshold >= upto).view(np.int8)
    return arm.astype(np.int64)


def best_arm(values: FloatArray) -> np.ndarray:
    """The first of the largest values of each column, (K, n) -> (n,)."""
    best, top = np.zeros(values.shape[1], dtype=np.int64), values[0].copy()
    for k in range(1, len(values)):
        best[values[k] > top] = k
        np.maximum(top, values[k], out=top)
    return best


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
