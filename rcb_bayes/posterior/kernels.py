"""Inner loops of importance sampling, compiled: a draw is moved, weighed and averaged while it is near the processor.

Each function is compiled when it is first called, and kept on disk for the next process: Numba is not imported before.
"""

from collections.abc import Callable
from functools import cache
from math import copysign, exp, log, sqrt
from typing import Any

import numpy as np

from rcb_bayes.schema import FloatArray

# Tables of a belief's density along one coefficient: dense near its mean, far out in the tails.
N_SITE_VALUES, SITE_REACH, SITE_UNIT = 801, 6.5, 0.05


def mixture_draws(
    mean: FloatArray,
    root: FloatArray,
    inverse: FloatArray,
    log_weight: FloatArray,
    precision: FloatArray,
    moment: FloatArray,
    base: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Draws of mixtures of Gaussians, and the log likelihood of each less its log density, up to a constant.

    Parameters
    ----------
    mean : of the components of Q mixtures, (Q, C, p)
    root, inverse : lower triangular roots of their covariances, and the inverses of these, (Q, C, p, p)
    log_weight : of the components, (Q, C)
    precision, moment : X'X/s2 (Q, p, p) and X'y/s2 (Q, p) of the likelihood
    base : a uniform variable, which picks the component, and standard normal ones, (S, 1 + p)

    Returns
    -------
    values : (Q, S, p)
    log_ratio : (Q, S)
    """
    values = np.empty((len(mean), len(base), mean.shape[2]))
    log_ratio = np.empty(values.shape[:2])
    compiled(_mixture_draws)(mean, root, inverse, log_weight, precision, moment, base, values, log_ratio)
    return values, log_ratio


def single_draws(
    mean: FloatArray,
    root: FloatArray,
    form: FloatArray,
    normal: FloatArray,
    terms: FloatArray,
    index: np.ndarray,
    group: np.ndarray,
    draws: FloatArray,
    log_ratio: FloatArray,
) -> None:
    """Draws of single Gaussians, written to their places, with a form of their base draws for each.

    Parameters
    ----------
    mean, root : of M data sets and B groups, (M, B, p) and, lower triangular, (M, B, p, p)
    form : what to add up of each of T ``terms`` (T, S) of the base draws, (M, B, T)
    normal : standard normal base draws, (p, S)
    index, group : the groups' coefficients (B, p) and numbers (B,)
    draws, log_ratio : to be written at these, (M, S, P) and (M, G, S)
    """
    compiled(_single_draws)(mean, root, form, normal, terms, index, group, draws, log_ratio)


def weighted_moments(
    draws: FloatArray,
    log_weight: FloatArray,
    index: np.ndarray,
    start: np.ndarray,
    weight: FloatArray,
    mean: FloatArray,
) -> FloatArray:
    """Normalised weights and means of every group, written to their places, and what they rest on.

    Parameters
    ----------
    draws : (M, S, P)
    log_weight : of G groups, (M, G, S); none finite makes all weights alike
    index, start : the coefficients of group g are ``index[start[g] : start[g + 1]]``
    weight : to be written, (M, G, S)
    mean : to be written at ``index``, (M, P)

    Returns
    -------
    ndarray
        (M, G, 3): the effective size of the weights, the number of draws that the variance of the worst coefficient
        rests on, and the largest weight over their mean.
    """
    top = log_weight.max(axis=2, keepdims=True)
    collapsed = top[..., 0] == -np.inf
    np.subtract(log_weight, top, out=weight, where=~collapsed[..., None])
    np.exp(weight, out=weight, where=True if not collapsed.any() else ~collapsed[..., None])
    weight[collapsed] = 1.0
    size = np.empty((*collapsed.shape, 3))
    compiled(_weighted_moments)(draws, index, start, weight, mean, size)
    size[collapsed, 2] = np.inf
    return size


def site_sweeps(
    precision: FloatArray,
    moment: FloatArray,
    index: np.ndarray,
    centre: FloatArray,
    sd: FloatArray,
    table: FloatArray,
    *,
    n_sweeps: int,
) -> tuple[FloatArray, FloatArray]:
    """Gaussian sites of one coefficient each that match a tabulated density where the data put the coefficient.

    Parameters
    ----------
    precision, moment : X'X/s2 (M, B, p, p) and X'y/s2 (M, B, p) of M data sets and B groups
    index : the groups' coefficients, (B, p)
    centre, sd : of every coefficient, (P,)
    table : log densities of every coefficient at ``centre + sd * SITE_UNIT * sinh(...)``, (P, N_SITE_VALUES)
    n_sweeps : damped sweeps over all sites

    Returns
    -------
    precision, shift : of the sites, each (M, B, p)
    """
    found = np.empty((2, *moment.shape))
    compiled(_site_sweeps)(precision, moment, index, centre, sd, table, n_sweeps, found)
    return found[0], found[1]


@cache
def compiled(function: Callable[..., None]) -> Any:
    """A function of arrays and numbers as machine code; sums may be taken in another order."""
    from numba import njit

    return njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})(function)


def _mixture_draws(mean, root, inverse, log_weight, precision, moment, base, values, log_ratio) -> None:
    n_mixtures, n_components, p = mean.shape
    n_draws = len(base)
    constant = np.empty(n_components)
    edge = np.empty(n_components)
    term = np.empty(n_components)
    away = np.empty(p)
    for q in range(n_mixtures):
        total = 0.0
        for c in range(n_components):
            log_det = 0.0
            for k in range(p):
                log_det += log(root[q, c, k, k])
            constant[c] = log_weight[q, c] - log_det
            total += exp(log_weight[q, c])
            edge[c] = total
        for s in range(n_draws):
            label = 0
            while label < n_components - 1 and base[s, 0] > edge[label]:
                label += 1
            for k in range(p):
                moved = mean[q, label, k]
                for j in range(k + 1):
                    moved += root[q, label, k, j] * base[s, 1 + j]
                values[q, s, k] = moved
            log_likelihood = 0.0
            for k in range(p):
                pull = 0.5 * precision[q, k, k] * values[q, s, k]
                for j in range(k):
                    pull += precision[q, k, j] * values[q, s, j]
                log_likelihood += values[q, s, k] * (moment[q, k] - pull)
            top = -np.inf
            for c in range(n_components):
                square = 0.0
                if c == label:
                    for k in range(p):
                        square += base[s, 1 + k] ** 2
                else:
                    for k in range(p):
                        away[k] = values[q, s, k] - mean[q, c, k]
                    for k in range(p):
                        scaled = 0.0
                        for j in range(k + 1):
                            scaled += inverse[q, c, k, j] * away[j]
                        square += scaled * scaled
                term[c] = constant[c] - 0.5 * square
                top = max(top, term[c])
            density = 0.0
            for c in range(n_components):
                if term[c] > top - 40.0:
                    density += exp(term[c] - top)
            log_ratio[q, s] = log_likelihood - top - log(density)


def _single_draws(mean, root, form, normal, terms, index, group, draws, log_ratio) -> None:
    n_sets, n_blocks, p = mean.shape
    n_terms, n_draws = terms.shape
    row = np.empty(n_draws)
    for m in range(n_sets):
        for b in range(n_blocks):
            for k in range(p):
                for s in range(n_draws):
                    row[s] = mean[m, b, k]
                for j in range(k + 1):
                    slope = root[m, b, k, j]
                    for s in range(n_draws):
                        row[s] += slope * normal[j, s]
                place = index[b, k]
                for s in range(n_draws):
                    draws[m, s, place] = row[s]
            for s in range(n_draws):
                row[s] = 0.0
            for t in range(n_terms):
                slope = form[m, b, t]
                for s in range(n_draws):
                    row[s] += slope * terms[t, s]
            for s in range(n_draws):
                log_ratio[m, group[b], s] = row[s]


def _weighted_moments(draws, index, start, weight, mean, size) -> None:
    n_sets, n_draws, _ = draws.shape
    row = np.empty(n_draws)
    for m in range(n_sets):
        for g in range(len(start) - 1):
            own = weight[m, g]
            total, most = 0.0, 0.0
            for s in range(n_draws):
                total += own[s]
                most = max(most, own[s])
            of_weights = 0.0
            for s in range(n_draws):
                own[s] /= total
                of_weights += own[s] * own[s]
            least = np.inf
            for k in range(start[g], start[g + 1]):
                place = index[k]
                middle = 0.0
                for s in range(n_draws):
                    row[s] = draws[m, s, place]
                for s in range(n_draws):
                    middle += own[s] * row[s]
                mean[m, place] = middle
                square, fourth = 0.0, 0.0
                for s in range(n_draws):
                    centred = row[s] - middle
                    centred *= centred * own[s]
                    square += centred
                    fourth += centred * centred
                least = min(least, square * square / max(fourth, 2.2250738585072014e-308))
            size[m, g, 0], size[m, g, 1] = 1.0 / max(of_weights, 1.0 / n_draws), least
            size[m, g, 2] = n_draws * most / total


def _site_sweeps(precision, moment, index, centre, sd, table, n_sweeps, found) -> None:
    n_sets, n_blocks, p = moment.shape
    n_nodes, reach = 33, 5.0
    half = 0.5 * (N_SITE_VALUES - 1)
    factor, inverse = np.empty((p, p)), np.empty((p, p))
    mean = np.empty(p)
    log_weight, value = np.empty(n_nodes), np.empty(n_nodes)
    for m in range(n_sets):
        for b in range(n_blocks):
            own, shift = found[0, m, b], found[1, m, b]
            for k in range(p):
                own[k] = 1.0 / sd[index[b, k]] ** 2
                shift[k] = own[k] * centre[index[b, k]]
            for _ in range(n_sweeps):
                for i in range(p):  # Cholesky's factor of the posterior precision, and its inverse
                    for j in range(i + 1):
                        total = precision[m, b, i, j]
                        if i == j:
                            total += own[i]
                        for k in range(j):
                            total -= factor[i, k] * factor[j, k]
                        if i == j:
                            factor[i, i] = sqrt(max(total, 1e-300))
                        else:
                            factor[i, j] = total / factor[j, j]
                for j in range(p):
                    for i in range(j, p):
                        total = 1.0 if i == j else 0.0
                        for k in range(j, i):
                            total -= factor[i, k] * inverse[k, j]
                        inverse[i, j] = total / factor[i, i]
                for i in range(p):
                    mean[i] = 0.0
                for i in range(p):  # mean = inverse' (inverse (moment + shift))
                    total = 0.0
                    for j in range(i + 1):
                        total += inverse[i, j] * (moment[m, b, j] + shift[j])
                    for j in range(i + 1):
                        mean[j] += inverse[i, j] * total
                for k in range(p):
                    c = index[b, k]
                    variance = 0.0
                    for i in range(k, p):
                        variance += inverse[i, k] ** 2
                    least = 1e-3 / sd[c] ** 2
                    cavity = max(1.0 / variance - own[k], least)
                    cavity_mean = (mean[k] / variance - shift[k]) / cavity
                    step = min(1.0 / sqrt(cavity), 3.0 * sd[c])
                    unit = 1.0 / (sd[c] * SITE_UNIT)
                    top = -np.inf
                    for q in range(n_nodes):
                        away = step * reach * (2.0 * q / (n_nodes - 1) - 1.0)
                        value[q] = cavity_mean + away
                        scaled = (value[q] - centre[c]) * unit
                        far = min(abs(scaled), 400.0)  # its asinh by hand: a library's takes three times as long
                        bent = copysign(log(far + sqrt(far * far + 1.0)), scaled)
                        position = (bent / SITE_REACH + 1.0) * half
                        position = min(max(position, 0.0), N_SITE_VALUES - 1.001)
                        left = int(position)
                        share = position - left
                        density = table[c, left] * (1.0 - share) + table[c, left + 1] * share
                        log_weight[q] = density - 0.5 * cavity * away * away
                        top = max(top, log_weight[q])
                    total, first, second = 0.0, 0.0, 0.0
                    for q in range(n_nodes):
                        weight = exp(log_weight[q] - top)
                        away = value[q] - cavity_mean
                        total += weight
                        first += weight * away
                        second += weight * away * away
                    first /= total
                    second = max(second / total - first * first, 1e-10 * sd[c] ** 2)
                    new = min(max(1.0 / second - cavity, least), 1e8 / sd[c] ** 2)
                    new_shift = (cavity_mean + first) * (new + cavity) - cavity_mean * cavity
                    own[k] = sqrt(sqrt(own[k] * new) * new)  # damped: three parts of four are new
                    shift[k] = 0.25 * shift[k] + 0.75 * new_shift
