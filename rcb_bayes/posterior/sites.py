r"""0/1 rewards as if they were normal ones: a Gaussian factor in place of the likelihood, found for each data set.

The likelihood of n trials and s successes of users with linear predictors :math:`\eta_c = o_c + x_c'u` is replaced by
:math:`\exp(r'u - u'\Lambda u / 2)` with

.. math:: \Lambda = \sum_c n_c h_c x_c x_c', \qquad r = \Lambda \bar u + \sum_c (s_c - n_c g_c) x_c,

where :math:`g_c` and :math:`h_c` are the averages of the logistic function and of its slope over the normal law that
the approximation itself gives :math:`\eta_c` (Gaussian variational inference; MacKay's
:math:`\mathrm{logistic}(m / \sqrt{1 + \pi v / 8})` for the average). That centres it at the mean of the posterior and
not at its mode. Under this factor a Gaussian belief has a Gaussian posterior, and a belief that is Gaussian given a
scale a finite mixture over the scale's grid; draws from either are weighted by likelihood over factor.

Numba is imported here: import this module late.
"""

from math import exp, log, pi, sqrt

import numpy as np
from numba import njit

from rcb_bayes.posterior.arrow import _cholesky

_ITERATIONS = 12
_SETTLED = 1e-3  # of the largest move, in prior standard deviations
_NARROWEST = 0.3  # share of Λ that proposals keep at least
_TOLERANT = {"reassoc", "contract", "nnan", "ninf", "nsz", "arcp"}


@njit(cache=True, error_model="numpy", fastmath=_TOLERANT)
def _factor(x, offset, n, s, mean, covariance, gram, pull) -> None:
    """Λ (K, d, d) and r (K, d) around a normal law with that mean (p,) and covariance (p, p)."""
    n_arms, n_cells = n.shape
    d = x.shape[2]
    gram[:] = 0.0
    pull[:] = 0.0
    moved = np.empty(d)
    for k in range(n_arms):
        own = x[k if len(x) > 1 else 0]
        start = k * d
        for c in range(n_cells):
            if n[k, c] == 0.0:
                continue
            row = own[c]
            at, variance = 0.0, 0.0
            for i in range(d):
                at += row[i] * mean[start + i]
                total = 0.0
                for j in range(d):
                    total += covariance[start + i, start + j] * row[j]
                variance += row[i] * total
            shrunk = 1.0 / sqrt(1.0 + pi / 8.0 * max(variance, 0.0))
            share = 1.0 / (1.0 + exp(-shrunk * (at + offset[k, c])))
            weight = n[k, c] * max(shrunk * share * (1.0 - share), 1e-10)
            push = s[k, c] - n[k, c] * share + weight * at
            for i in range(d):
                pull[k, i] += push * row[i]
                moved[i] = weight * row[i]
            for i in range(d):
                for j in range(i + 1):
                    gram[k, i, j] += moved[i] * row[j]
        for i in range(d):
            for j in range(i):
                gram[k, j, i] = gram[k, i, j]


@njit(cache=True, error_model="numpy", fastmath=_TOLERANT)
def _posterior(precision, gram, pull, matrix, root, mean) -> float:
    """Root of the precision given the factor, and the mean (p,); returned is the log evidence but for constants."""
    n_arms, d = pull.shape
    p = n_arms * d
    matrix[:] = precision
    for k in range(n_arms):
        for i in range(d):
            for j in range(d):
                matrix[k * d + i, k * d + j] += gram[k, i, j]
    half = _cholesky(matrix, root)
    square = 0.0
    for i in range(p):
        value = pull[i // d, i % d]
        for q in range(i):
            value -= root[i, q] * mean[q]
        mean[i] = value / root[i, i]
        square += mean[i] * mean[i]
    _back(root, mean)
    return 0.5 * square - half


@njit(cache=True, error_model="numpy", fastmath=_TOLERANT)
def _back(root, values) -> None:
    """L'^-1 values, in place."""
    p = len(values)
    for i in range(p - 1, -1, -1):
        values[i] /= root[i, i]
        for q in range(i):
            values[q] -= root[i, q] * values[i]


@njit(cache=True, error_model="numpy", fastmath=_TOLERANT)
def _covariance(root, inverse, out) -> None:
    """(L L')^-1."""
    p = len(root)
    for c in range(p):
        for i in range(c):
            inverse[i, c] = 0.0
        inverse[c, c] = 1.0 / root[c, c]
        for i in range(c + 1, p):
            value = 0.0
            for q in range(c, i):
                value -= root[i, q] * inverse[q, c]
            inverse[i, c] = value / root[i, i]
    for i in range(p):
        for j in range(i + 1):
            value = 0.0
            for q in range(i, p):
                value += inverse[q, i] * inverse[q, j]
            out[i, j] = value
            out[j, i] = value


@njit(cache=True, error_model="numpy", fastmath=_TOLERANT)
def _width(covariance, gram, matrix, kept) -> float:
    """The share of Λ in proposals of which this share of the draws counts, were the likelihood as the factor says.

    With the eigenvalues t of (Q + Λ)^-1 Λ a fraction 1 - w less of Λ leaves exp(-(1 - w)^2 sum(t^2) / 2), about.
    """
    n_arms, d = gram.shape[:2]
    p = n_arms * d
    for i in range(p):
        for k in range(n_arms):
            for j in range(d):
                value = 0.0
                for q in range(d):
                    value += covariance[i, k * d + q] * gram[k, q, j]
                matrix[i, k * d + j] = value
    squares = 0.0
    for i in range(p):
        for j in range(p):
            squares += matrix[i, j] * matrix[j, i]
    return max(1.0 - sqrt(-2.0 * log(kept) / max(squares, 1e-9)), _NARROWEST)


@njit(cache=True, error_model="numpy", fastmath=_TOLERANT)
def approximate(
    x, offset, n, s, typical, precisions, log_weight, kept, again, base, labels, draws, against, settled
) -> None:
    """Draws of M data sets under the approximation, and the factor that stands for the likelihood there.

    Parameters
    ----------
    x : rows (M or 1, K or 1, C, d)
    offset : of their predictors, (M or 1, K, C)
    n, s : trials and successes, (M, K, C)
    typical : prior precision (p, p) that the factor is found under
    precisions : of the belief at each value of its scale, (J, p, p); means are zero
    log_weight : of the values, with half the log determinant of the precision, (J,)
    kept : share of the draws that should still count after Λ was made smaller for the proposals
    again : whether the factor is found once more, under the scale that the data speak for
    base : standard normal draws, (S, p)
    labels : uniform draws that choose the values, (S,)
    draws : filled in, (M, S, p)
    against : filled in, log of the proposals' factor less the linear part of the likelihood, (M, S)
    settled : filled in, whether the factor was found, (M,)
    """
    n_sets, n_arms, n_cells = n.shape
    n_draws, p = base.shape
    d = p // n_arms
    n_values = len(precisions)
    gram, pull, tilt = np.empty((n_arms, d, d)), np.empty((n_arms, d)), np.empty((n_arms, d))
    matrix, inverse, covariance = np.empty((p, p)), np.zeros((p, p)), np.empty((p, p))
    roots, means = np.zeros((n_values, p, p)), np.empty((n_values, p))
    evidence, mean, last, u = np.empty(n_values), np.empty(p), np.empty(p), np.empty(p)
    for m in range(n_sets):
        own = x[m if len(x) > 1 else 0]
        shift = offset[m if len(offset) > 1 else 0]
        mean[:] = 0.0
        last[:] = 0.0
        covariance[:] = 0.0
        settled[m] = False
        best = -1
        for turn in range(2 if n_values > 1 and again else 1):
            if turn == 1:  # the scale that the data speak for, in place of an average one
                top = -np.inf
                for j in range(n_values):
                    value = _posterior(precisions[j], gram, pull, matrix, roots[j], means[j]) + log_weight[j]
                    if value > top:
                        top, best = value, j
            for step in range(_ITERATIONS):
                _factor(own, shift, n[m], s[m], mean, covariance, gram, pull)
                _posterior(typical if best < 0 else precisions[best], gram, pull, matrix, roots[0], mean)
                move = 0.0
                for i in range(p):
                    move = max(move, abs(mean[i] - last[i]))
                    last[i] = mean[i]
                if move < _SETTLED and step > 1:
                    settled[m] = True
                    break
                _covariance(roots[0], inverse, covariance)
        _covariance(roots[0], inverse, covariance)
        width = _width(covariance, gram, matrix, kept)
        if width < 1.0:
            for k in range(n_arms):
                for i in range(d):
                    for j in range(d):
                        pull[k, i] -= (1.0 - width) * gram[k, i, j] * mean[k * d + j]
            gram *= width
        top = -np.inf
        for j in range(n_values):
            evidence[j] = _posterior(precisions[j], gram, pull, matrix, roots[j], means[j]) + log_weight[j]
            top = max(top, evidence[j])
        total = 0.0
        for j in range(n_values):
            evidence[j] = exp(evidence[j] - top)
            total += evidence[j]
        upto = 0.0
        for j in range(n_values):
            upto += evidence[j] / total
            evidence[j] = upto
        tilt[:] = pull
        for k in range(n_arms):
            rows = own[k if len(own) > 1 else 0]
            for c in range(n_cells):
                if s[m, k, c] > 0.0:
                    for i in range(d):
                        tilt[k, i] -= s[m, k, c] * rows[c, i]
        for b in range(n_draws):
            j = 0
            while j < n_values - 1 and evidence[j] < labels[b]:
                j += 1
            u[:] = base[b]
            _back(roots[j], u)
            value = 0.0
            for k in range(n_arms):
                for i in range(d):
                    q = k * d + i
                    u[q] += means[j, q]
                for i in range(d):
                    total = 0.0
                    for a in range(d):
                        total += gram[k, i, a] * u[k * d + a]
                    value += u[k * d + i] * (tilt[k, i] - 0.5 * total)
            draws[m, b] = u
            against[m, b] = value
