r"""Posteriors of arms around a shared level at each value of a scale, compiled.

Given the j-th value, arm i has :math:`b_i = m_i + Fz + e_i` with :math:`z \sim N(0, I)` and
:math:`e_i \sim N(0, W_i^{-1})`. The precision of :math:`(b_1, \dots, b_K, z)` given data is an arrow:
:math:`A_i = W_i + X_i'X_i/\sigma^2 = L_iL_i'` down its shaft, :math:`-W_iF` along its head and
:math:`I + \sum_i F'W_iF` at its tip, so that arms are factored one by one, at several values side by side (``lanes``).

Numba is imported here: import this module late.
"""

from math import exp, log, sqrt

import numpy as np
from numba import njit

from rcb_bayes.posterior import lanes
from rcb_bayes.posterior.lanes import (
    INNER,
    LANES,
    OPTIONS,
    add_covariances,
    factor_arrows,
    solve_back,
    spreads,
    write_sd,
)

_STRIDE = 4  # of the first, coarse pass over the values
_NEGLIGIBLE = 12.0  # log weights below the largest that do not count
_FAINT = 20.0  # of draws, of which there may be many: a hundred thousand such are a few thousandths of the largest


@njit(**INNER)
def _cholesky(matrix, out) -> float:
    """The lower factor of a positive matrix, written to ``out``; returned is half of its log determinant."""
    p = len(matrix)
    log_det, product = 0.0, 1.0
    for i in range(p):
        for k in range(i + 1):
            value = matrix[i, k]
            for q in range(k):
                value -= out[i, q] * out[k, q]
            if i == k:
                out[i, i] = sqrt(max(value, 1e-300))
                product *= out[i, i]  # costs a tenth of a logarithm
                if not 1e-100 < product < 1e100:
                    log_det += log(product)
                    product = 1.0
            else:
                out[i, k] = value / out[k, k]
    return log_det + log(product)


@njit(**INNER)
def _solve_down(factor, right) -> None:
    """L^-1 times the columns of ``right`` (p, r), in place."""
    p, r = right.shape
    for c in range(r):
        for i in range(p):
            value = right[i, c]
            for q in range(i):
                value -= factor[i, q] * right[q, c]
            right[i, c] = value / factor[i, i]


@njit(**INNER)
def _solve_up(factor, right) -> None:
    """L'^-1 times the columns of ``right`` (p, r), in place."""
    p, r = right.shape
    for c in range(r):
        for i in range(p - 1, -1, -1):
            value = right[i, c]
            for q in range(i + 1, p):
                value -= factor[q, i] * right[q, c]
            right[i, c] = value / factor[i, i]


@njit(**INNER)
def take_lanes(queue, start, n_queued, points) -> int:
    """Write the next LANES points of a queue, the first again where they end; returned is how many they are."""
    n_here = min(LANES, n_queued - start)
    for lane in range(LANES):
        points[lane] = queue[start + (lane if lane < n_here else 0)]
    return n_here


@njit(**INNER)
def weigh_points(table, gram, moment, square, n, points, evidence, space) -> None:
    """Write the log evidence of the points (LANES,), which are factored and solved forwards."""
    constant, noise = table[5], table[6]
    factor_arrows(table, gram, moment, points, space)
    log_det, norm = space[8], space[10]
    for lane in range(LANES):
        j = points[lane]
        fit = norm[lane] + n * log(noise[j]) - noise[j] * square
        evidence[j] = constant[j] - log_det[lane] + 0.5 * fit


@njit(**INNER)
def _weigh_queue(table, gram, moment, square, n, queue, n_queued, points, evidence, space) -> None:
    """Write the log evidence of the first points of a queue."""
    for start in range(0, n_queued, LANES):
        take_lanes(queue, start, n_queued, points)
        weigh_points(table, gram, moment, square, n, points, evidence, space)


@njit(**INNER)
def _queue_coarse(constant, queue) -> int:
    """The values to look at in any case; returned is how many they are."""
    n_queued, n_values = 0, len(constant)
    for j in range(n_values):
        if (j % _STRIDE == 0 or j == n_values - 1) and constant[j] > -np.inf:
            queue[n_queued] = j
            n_queued += 1
    return n_queued


@njit(**INNER)
def _queue_between(evidence, constant, best, queue) -> int:
    """Values between those of the coarse pass that are not negligible."""
    n_queued, n_values, last = 0, len(evidence), -1
    for j in range(n_values):
        if evidence[j] > best - _NEGLIGIBLE - 3.0:
            for k in range(max(j - _STRIDE + 1, last + 1), min(j + _STRIDE, n_values)):
                if evidence[k] == -np.inf and constant[k] > -np.inf:
                    queue[n_queued] = k
                    n_queued += 1
            last = min(j + _STRIDE, n_values) - 1
    return n_queued


@njit(**INNER)
def _queue_above(evidence, least, queue) -> int:
    """Values whose evidence is larger."""
    n_queued = 0
    for j in range(len(evidence)):
        if evidence[j] > least:
            queue[n_queued] = j
            n_queued += 1
    return n_queued


@njit(**INNER)
def _add_means(pulls, lane, weight, mean) -> None:
    """Add a value's means, by its weight."""
    n_arms, d, _, _ = pulls.shape
    for i in range(n_arms):
        for a in range(d):
            mean[i * d + a] += weight * pulls[i, a, 0, lane]


@njit(**INNER)
def divide(covariance, totals, mean, halves, joint) -> None:
    """Sums over values as means and, where wanted, covariances."""
    total = totals[0] + totals[1]
    for i in range(len(mean)):
        mean[i] /= total
        halves[0, i] /= totals[0]
        halves[1, i] /= totals[1]
    if covariance:
        for i in range(len(mean)):
            for k in range(i + 1):
                joint[i, k] = joint[i, k] / total - mean[i] * mean[k]
                joint[k, i] = joint[i, k]


def spaces(n_values: int, n_arms: int, d: int, r: int) -> tuple[np.ndarray, ...]:
    """What ``integrate`` writes over; see ``lanes.spaces``."""
    own = np.empty(n_values), np.empty(n_values, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    return (*lanes.spaces(n_arms, d, r), *own, np.empty(LANES), np.empty(2))


@njit(**OPTIONS)
def integrate(table, gram, moment, square, n, covariance, mean, halves, sd, shares, joint, space) -> None:
    """Posterior moments of M data sets over J values.

    Read are the ``table`` of shaft W (J, K, d, d), head WF (J, K, d, r), tip (J, r, r), pull Wm (J, K, d), tip's pull
    (J, r), constants, the noise's precision and whether it is an edge of the grid (J,), and the data: X'X (M, K, d, d),
    X'y (M, K, d), y'y and n (M,). Written are ``mean`` (M, K d), ``halves`` (M, 2, K d), the means by every other
    value, and ``joint`` (M, K d, K d) where wanted, all of them zero before; ``sd`` (M, K d) at the best value,
    ``shares`` (M, 2) of the edges and of all odd values. ``space`` comes from ``spaces``.
    """
    small, (evidence, queue, points, weight, totals) = space[:11], space[11:]
    constant, edge = table[5], table[7]
    for m in range(len(moment)):
        data = gram[m], moment[m], square[m], n[m]
        evidence[:] = -np.inf
        n_queued = _queue_coarse(constant, queue)
        _weigh_queue(table, *data, queue, n_queued, points, evidence, small)
        n_queued = _queue_between(evidence, constant, evidence.max(), queue)
        _weigh_queue(table, *data, queue, n_queued, points, evidence, small)
        best, place, at_edge = evidence.max(), evidence.argmax(), 0.0
        totals[0] = totals[1] = 0.0
        n_queued = _queue_above(evidence, best - _NEGLIGIBLE, queue)
        for start in range(0, n_queued, LANES):
            n_here, has_best = take_lanes(queue, start, n_queued, points), False
            factor_arrows(table, gram[m], moment[m], points, small)
            solve_back(small)
            weight[:] = 0.0
            for lane in range(n_here):
                j = points[lane]
                weight[lane] = exp(evidence[j] - best)
                totals[j % 2] += weight[lane]
                if edge[j]:
                    at_edge += weight[lane]
                has_best |= j == place
                _add_means(small[2], lane, weight[lane], mean[m])
                _add_means(small[2], lane, weight[lane], halves[m, j % 2])
            if covariance or has_best:
                spreads(small)
            if covariance:
                add_covariances(small, weight, joint[m])
            for lane in range(n_here):
                if points[lane] == place:
                    write_sd(small, lane, sd[m])
        divide(covariance, totals, mean[m], halves[m], joint[m if covariance else 0])
        shares[m, 0] = at_edge / (totals[0] + totals[1])
        shares[m, 1] = totals[1] / (totals[0] + totals[1])


@njit(**OPTIONS)
def average_draws(table, gram, moment, square, n, covariance, mean, joint, log_weight, space) -> None:
    """Posterior moments of M data sets over J draws, and the draws' normalised log weights, written to the last three.

    The rest as in ``integrate``: draws have no order, so that all are looked at.
    """
    small, (_, queue, points, weight, _) = space[:11], space[11:]
    for m in range(len(moment)):
        evidence = log_weight[m]
        n_queued = _queue_above(table[5], -np.inf, queue)
        evidence[:] = -np.inf
        _weigh_queue(table, gram[m], moment[m], square[m], n[m], queue, n_queued, points, evidence, small)
        best, total = evidence.max(), 0.0
        n_queued = _queue_above(evidence, best - _FAINT, queue)
        for start in range(0, n_queued, LANES):
            n_here = take_lanes(queue, start, n_queued, points)
            factor_arrows(table, gram[m], moment[m], points, small)
            solve_back(small)
            weight[:] = 0.0
            for lane in range(n_here):
                weight[lane] = exp(evidence[points[lane]] - best)
                total += weight[lane]
                _add_means(small[2], lane, weight[lane], mean[m])
            if covariance:
                spreads(small)
                add_covariances(small, weight, joint[m])
        mean[m] /= total
        for j in range(len(evidence)):
            evidence[j] -= best + log(total)
        if covariance:
            for i in range(mean.shape[1]):
                for k in range(i + 1):
                    joint[m, i, k] = joint[m, i, k] / total - mean[m, i] * mean[m, k]
                    joint[m, k, i] = joint[m, i, k]
