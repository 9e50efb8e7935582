r"""Posteriors of arms around a shared level at each value of a scale, compiled.

Given the j-th value, arm i has :math:`b_i = m_i + Fz + e_i` with :math:`z \sim N(0, I)` and
:math:`e_i \sim N(0, W_i^{-1})`. The precision of :math:`(b_1, \dots, b_K, z)` given data is an arrow:
:math:`A_i = W_i + X_i'X_i/\sigma^2 = L_iL_i'` down its shaft, :math:`-W_iF` along its head and
:math:`I + \sum_i F'W_iF` at its tip, so that arms are factored one by one.

Numba is imported here: import this module late.
"""

from math import exp, log, sqrt
from typing import Any

import numpy as np
from numba import njit

OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
# Of functions that compiled code alone calls.
INNER: dict[str, Any] = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_STRIDE = 4  # of the first, coarse pass over the values
_NEGLIGIBLE = 12.0  # log weights below the largest that do not count


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
def factor_arrow(
    shaft, head, tip, gram, moment, pull, tip_pull, noise, matrix, joint, roots, tails, pulls, tip_root, tip_right
):  # fmt: skip
    """Factor the arrow and solve forwards: log determinant (half) and squared norm of what is solved.

    ``matrix`` (d, d) and ``joint`` (r, r) are written over.
    """
    n_arms, d, r = head.shape
    for b in range(r):
        tip_right[b, 0] = tip_pull[b]
        for c in range(b + 1):
            joint[b, c] = tip[b, c]
    log_det, norm = 0.0, 0.0
    for i in range(n_arms):
        for a in range(d):
            for b in range(a + 1):
                matrix[a, b] = shaft[i, a, b] + noise * gram[i, a, b]
            pulls[i, a, 0] = pull[i, a] + noise * moment[i, a]
            for b in range(r):
                tails[i, a, b] = head[i, a, b]
        log_det += _cholesky(matrix, roots[i])
        _solve_down(roots[i], pulls[i])
        _solve_down(roots[i], tails[i])
        for a in range(d):
            norm += pulls[i, a, 0] ** 2
            for b in range(r):
                tip_right[b, 0] += tails[i, a, b] * pulls[i, a, 0]
                for c in range(b + 1):
                    joint[b, c] -= tails[i, a, b] * tails[i, a, c]
    log_det += _cholesky(joint, tip_root)
    _solve_down(tip_root, tip_right)
    for b in range(r):
        norm += tip_right[b, 0] ** 2
    return log_det, norm


@njit(**INNER)
def solve_back(roots, tails, pulls, tip_root, tip_right) -> None:
    """Turn what was solved forwards into posterior means, in place: of z and of every arm."""
    n_arms, d, r = tails.shape
    _solve_up(tip_root, tip_right)
    for i in range(n_arms):
        for a in range(d):
            for b in range(r):
                pulls[i, a, 0] += tails[i, a, b] * tip_right[b, 0]
        _solve_up(roots[i], pulls[i])


@njit(**INNER)
def spreads(roots, tails, tip_root, row, own, spread) -> None:
    """Inverses of the arms' roots, written to the lower halves of ``own``, and to ``spread`` E_i (d, r).

    Cov(b_i, b_k) = E_i E_k' for i != k. ``row`` (r, 1) is written over.
    """
    n_arms, d, r = tails.shape
    for i in range(n_arms):
        for b in range(d):
            own[i, b, b] = 1.0 / roots[i, b, b]
            for a in range(b + 1, d):
                value = 0.0
                for c in range(b, a):
                    value -= roots[i, a, c] * own[i, c, b]
                own[i, a, b] = value / roots[i, a, a]
        for a in range(d):
            for b in range(r):
                value = 0.0
                for c in range(a, d):
                    value += own[i, c, a] * tails[i, c, b]
                row[b, 0] = value
            _solve_down(tip_root, row)
            for b in range(r):
                spread[i, a, b] = row[b, 0]


@njit(**INNER)
def add_covariance(own, spread, mean, weight, joint) -> None:
    """Add a value's second moments to the lower half of ``joint`` (K d, K d)."""
    n_arms, d, r = spread.shape
    for i in range(n_arms):
        for a in range(d):
            scaled, line = weight * mean[i, a, 0], joint[i * d + a]
            for k in range(i + 1):
                for b in range(d):
                    line[k * d + b] += scaled * mean[k, b, 0]
            for b in range(a + 1):
                value = 0.0
                for c in range(a, d):
                    value += own[i, c, a] * own[i, c, b]
                line[i * d + b] += weight * value
            for c in range(r):
                scaled = weight * spread[i, a, c]
                for k in range(i + 1):
                    for b in range(d):
                        line[k * d + b] += scaled * spread[k, b, c]


@njit(**INNER)
def _mark(evidence, best, wanted) -> None:
    """Values between those of the coarse pass that are not negligible."""
    n_values = len(evidence)
    for j in range(n_values):
        wanted[j] = False
    for j in range(n_values):
        if evidence[j] > best - _NEGLIGIBLE - 3.0:
            for k in range(max(j - _STRIDE + 1, 0), min(j + _STRIDE, n_values)):
                wanted[k] = evidence[k] == -np.inf


@njit(**INNER)
def add_means(pulls, weight, mean, half) -> None:
    """Add a value's means, by its weight, to those of all values and to those of its half."""
    n_arms, d, _ = pulls.shape
    for i in range(n_arms):
        for a in range(d):
            mean[i * d + a] += weight * pulls[i, a, 0]
            half[i * d + a] += weight * pulls[i, a, 0]


@njit(**INNER)
def write_sd(own, spread, sd) -> None:
    """Standard deviations at one value."""
    n_arms, d, r = spread.shape
    for i in range(n_arms):
        for a in range(d):
            value = 0.0
            for c in range(a, d):
                value += own[i, c, a] ** 2
            for c in range(r):
                value += spread[i, a, c] ** 2
            sd[i * d + a] = sqrt(value)


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
    """What ``integrate`` writes over: made here, since compiled code takes long to compile that makes arrays."""
    floats = ((n_arms, d, d), (n_arms, d, r), (n_arms, d, 1), (r, r), (r, 1), (d, d), (r, r))
    own = (np.empty((n_arms, d, d)), np.empty((n_arms, d, r)), np.empty((r, 1)))
    of_values = (np.empty(n_values), np.empty(n_values, dtype=bool), np.empty(2))
    return (*(np.empty(shape) for shape in floats), *own, *of_values)


@njit(**OPTIONS)
def integrate(
    shaft, head, tip, pull, tip_pull, constant, noise, edge, gram, moment, square, n,
    covariance, mean, halves, sd, shares, joint, space,
) -> None:  # fmt: skip
    """Posterior moments of M data sets over J values.

    Read are ``shaft`` W (J, K, d, d), ``head`` WF (J, K, d, r), ``tip`` (J, r, r), ``pull`` Wm (J, K, d),
    ``tip_pull`` (J, r), ``constant``, the ``noise``'s precision and whether it is an ``edge`` of the grid (J,), and
    the data: X'X (M, K, d, d), X'y (M, K, d), y'y and n (M,). Written are ``mean`` (M, K d), ``halves`` (M, 2, K d),
    the means by every other value, and ``joint`` (M, K d, K d) where wanted, all of them zero before; ``sd`` (M, K d)
    at the best value, ``shares`` (M, 2) of the edges and of all odd values. ``space`` comes from ``spaces``.
    """
    roots, tails, pulls, tip_root, tip_right, matrix, corner, own, spread, row, evidence, wanted, totals = space
    n_values = len(head)
    for m in range(len(moment)):
        for j in range(n_values):
            wanted[j], evidence[j] = j % _STRIDE == 0 or j == n_values - 1, -np.inf
        best, at_edge = -np.inf, 0.0
        totals[0] = totals[1] = 0.0
        for sweep in range(3):  # coarse; between what is not negligible; with moments
            if sweep == 1:
                _mark(evidence, best, wanted)
            for j in range(n_values):
                skipped = not evidence[j] > best - _NEGLIGIBLE if sweep == 2 else not wanted[j]
                if skipped or constant[j] == -np.inf:
                    continue
                log_det, norm = factor_arrow(
                    shaft[j], head[j], tip[j], gram[m], moment[m], pull[j], tip_pull[j], noise[j],
                    matrix, corner, roots, tails, pulls, tip_root, tip_right,
                )  # fmt: skip
                if sweep < 2:
                    evidence[j] = constant[j] - log_det + 0.5 * (norm + n[m] * log(noise[j]) - noise[j] * square[m])
                    best = max(best, evidence[j])
                    continue
                weight = exp(evidence[j] - best)
                totals[j % 2] += weight
                if edge[j]:
                    at_edge += weight
                solve_back(roots, tails, pulls, tip_root, tip_right)
                add_means(pulls, weight, mean[m], halves[m, j % 2])
                if covariance or evidence[j] == best:
                    spreads(roots, tails, tip_root, row, own, spread)
                if covariance:
                    add_covariance(own, spread, pulls, weight, joint[m])
                if evidence[j] == best:
                    write_sd(own, spread, sd[m])
        divide(covariance, totals, mean[m], halves[m], joint[m if covariance else 0])
        shares[m, 0] = at_edge / (totals[0] + totals[1])
        shares[m, 1] = totals[1] / (totals[0] + totals[1])
