r"""The arrow of ``rcb_bayes.posterior.arrow`` at several values side by side, compiled.

A factor of a small matrix is a chain of roots and divisions, each of which waits for the one before. Eight values at a
time leave nothing to wait for: the last axis of every array here runs over these ``LANES``. What is left of the lanes
where values are fewer repeats the first one, and is not read.

Numba is imported here: import this module late.
"""

from math import log, sqrt
from typing import Any

import numpy as np
from numba import njit

OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
# Of functions that compiled code alone calls.
INNER: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
LANES = 8


def spaces(n_arms: int, d: int, r: int) -> tuple[np.ndarray, ...]:
    """What the functions below write over: made here, since compiled code takes long to compile that makes arrays.

    Roots (K, d, d), tails (K, d, r), pulls (K, d, 1), the tip's root (r, r) and right side (r, 1), inverses of the
    roots (K, d, d), spreads (K, d, r), a row (r, 1), log determinants, products and squared norms; lanes last.
    """
    shapes = ((n_arms, d, d), (n_arms, d, r), (n_arms, d, 1), (r, r), (r, 1), (n_arms, d, d), (n_arms, d, r), (r, 1))
    return (*(np.empty((*shape, LANES)) for shape in shapes), np.empty(LANES), np.empty(LANES), np.empty(LANES))


@njit(**INNER)
def _factor(matrix, log_det, product) -> None:
    """Lower factors of positive matrices (p, p), in place, with the reciprocals of their diagonals; the logarithms of
    these diagonals go into ``log_det`` and, as factors, ``product``: a product costs a tenth of a logarithm."""
    p = len(matrix)
    for i in range(p):
        for k in range(i):
            for q in range(k):
                for lane in range(LANES):
                    matrix[i, k, lane] -= matrix[i, q, lane] * matrix[k, q, lane]
            for lane in range(LANES):
                matrix[i, k, lane] *= matrix[k, k, lane]
        for q in range(i):
            for lane in range(LANES):
                matrix[i, i, lane] -= matrix[i, q, lane] ** 2
        is_far = False
        for lane in range(LANES):
            root = sqrt(max(matrix[i, i, lane], 1e-300))
            product[lane] *= root
            matrix[i, i, lane] = 1.0 / root
            is_far |= not 1e-100 < product[lane] < 1e100
        if is_far:
            for lane in range(LANES):
                log_det[lane] += log(product[lane])
                product[lane] = 1.0


@njit(**INNER)
def _solve_down(factor, right) -> None:
    """L^-1 times the columns of ``right`` (p, r), in place."""
    p, r, _ = right.shape
    for c in range(r):
        for i in range(p):
            for q in range(i):
                for lane in range(LANES):
                    right[i, c, lane] -= factor[i, q, lane] * right[q, c, lane]
            for lane in range(LANES):
                right[i, c, lane] *= factor[i, i, lane]


@njit(**INNER)
def _solve_up(factor, right) -> None:
    """L'^-1 times the columns of ``right`` (p, r), in place."""
    p, r, _ = right.shape
    for c in range(r):
        for i in range(p - 1, -1, -1):
            for q in range(i + 1, p):
                for lane in range(LANES):
                    right[i, c, lane] -= factor[q, i, lane] * right[q, c, lane]
            for lane in range(LANES):
                right[i, c, lane] *= factor[i, i, lane]


@njit(**INNER)
def _load(table, gram, moment, points, space) -> None:
    """Write the arrows of the points, before they are factored."""
    shaft, head, tip, pull, tip_pull, _, noise, _ = table
    roots, tails, pulls, tip_root, tip_right = space[:5]
    n_arms, d, r = head.shape[1:]
    for lane in range(LANES):
        j = points[lane]
        for b in range(r):
            tip_right[b, 0, lane] = tip_pull[j, b]
            for c in range(b + 1):
                tip_root[b, c, lane] = tip[j, b, c]
        for i in range(n_arms):
            for a in range(d):
                for b in range(a + 1):
                    roots[i, a, b, lane] = shaft[j, i, a, b] + noise[j] * gram[i, a, b]
                pulls[i, a, 0, lane] = pull[j, i, a] + noise[j] * moment[i, a]
                for b in range(r):
                    tails[i, a, b, lane] = head[j, i, a, b]


@njit(**INNER)
def factor_arrows(table, gram, moment, points, space) -> None:
    """Factor the arrows at ``points`` (LANES,) and solve forwards; see ``spaces`` for what is written.

    ``table`` is an ``Arrow``'s, field by field; ``gram`` and ``moment`` are a data set's X'X and X'y.
    """
    roots, tails, pulls, tip_root, tip_right, _, _, _, log_det, product, norm = space
    n_arms, d, r, _ = tails.shape
    _load(table, gram, moment, points, space)
    for lane in range(LANES):
        log_det[lane], product[lane], norm[lane] = 0.0, 1.0, 0.0
    for i in range(n_arms):
        _factor(roots[i], log_det, product)
        _solve_down(roots[i], pulls[i])
        _solve_down(roots[i], tails[i])
        for a in range(d):
            for lane in range(LANES):
                norm[lane] += pulls[i, a, 0, lane] ** 2
            for b in range(r):
                for lane in range(LANES):
                    tip_right[b, 0, lane] += tails[i, a, b, lane] * pulls[i, a, 0, lane]
                for c in range(b + 1):
                    for lane in range(LANES):
                        tip_root[b, c, lane] -= tails[i, a, b, lane] * tails[i, a, c, lane]
    _factor(tip_root, log_det, product)
    _solve_down(tip_root, tip_right)
    for b in range(r):
        for lane in range(LANES):
            norm[lane] += tip_right[b, 0, lane] ** 2
    for lane in range(LANES):
        log_det[lane] += log(product[lane])


@njit(**INNER)
def solve_back(space) -> None:
    """Turn what was solved forwards into posterior means, in place: of z and of every arm."""
    roots, tails, pulls, tip_root, tip_right = space[:5]
    n_arms, d, r, _ = tails.shape
    _solve_up(tip_root, tip_right)
    for i in range(n_arms):
        for a in range(d):
            for b in range(r):
                for lane in range(LANES):
                    pulls[i, a, 0, lane] += tails[i, a, b, lane] * tip_right[b, 0, lane]
        _solve_up(roots[i], pulls[i])


@njit(**INNER)
def spreads(space) -> None:
    """Inverses of the arms' roots, in the lower halves of ``own``, and E_i (d, r): Cov(b_i, b_k) = E_i E_k', i != k."""
    roots, tails, _, tip_root, _, own, spread, row = space[:8]
    n_arms, d, r, _ = tails.shape
    for i in range(n_arms):
        for b in range(d):
            for lane in range(LANES):
                own[i, b, b, lane] = roots[i, b, b, lane]
            for a in range(b + 1, d):
                for lane in range(LANES):
                    own[i, a, b, lane] = 0.0
                for c in range(b, a):
                    for lane in range(LANES):
                        own[i, a, b, lane] -= roots[i, a, c, lane] * own[i, c, b, lane]
                for lane in range(LANES):
                    own[i, a, b, lane] *= roots[i, a, a, lane]
        for a in range(d):
            for b in range(r):
                for lane in range(LANES):
                    row[b, 0, lane] = 0.0
                for c in range(a, d):
                    for lane in range(LANES):
                        row[b, 0, lane] += own[i, c, a, lane] * tails[i, c, b, lane]
            _solve_down(tip_root, row)
            for b in range(r):
                for lane in range(LANES):
                    spread[i, a, b, lane] = row[b, 0, lane]


@njit(**INNER)
def write_sd(space, lane, sd) -> None:
    """Standard deviations at one point; after ``spreads``."""
    own, spread = space[5:7]
    n_arms, d, r, _ = spread.shape
    for i in range(n_arms):
        for a in range(d):
            value = 0.0
            for c in range(a, d):
                value += own[i, c, a, lane] ** 2
            for c in range(r):
                value += spread[i, a, c, lane] ** 2
            sd[i * d + a] = sqrt(value)


@njit(**INNER)
def add_covariances(space, weight, joint) -> None:
    """Add the points' second moments, by their weights (LANES,), to the lower half of ``joint`` (K d, K d).

    After ``solve_back`` and ``spreads``.
    """
    mean, own, spread, scaled = space[2], space[5], space[6], space[9]
    n_arms, d, r, _ = spread.shape
    for i in range(n_arms):
        for a in range(d):
            line = joint[i * d + a]
            for lane in range(LANES):
                scaled[lane] = weight[lane] * mean[i, a, 0, lane]
            for k in range(i + 1):
                for b in range(d):
                    value = 0.0
                    for lane in range(LANES):
                        value += scaled[lane] * mean[k, b, 0, lane]
                    line[k * d + b] += value
            for c in range(r):
                for lane in range(LANES):
                    scaled[lane] = weight[lane] * spread[i, a, c, lane]
                for k in range(i + 1):
                    for b in range(d):
                        value = 0.0
                        for lane in range(LANES):
                            value += scaled[lane] * spread[k, b, c, lane]
                        line[k * d + b] += value
            for c in range(a, d):
                for lane in range(LANES):
                    scaled[lane] = weight[lane] * own[i, c, a, lane]
                for b in range(a + 1):
                    value = 0.0
                    for lane in range(LANES):
                        value += scaled[lane] * own[i, c, b, lane]
                    line[i * d + b] += value
