r"""Gibbs sweeps over effects and their scales, compiled: see ``posterior.gibbs``.

Effects of single arms come first, m of each, then r effects that arms share. Given their variances they are normal,
with a precision that is an arrow: :math:`D_i + \mathrm{diag}(1/v_i)` down its shaft, :math:`H_i` along its head and
:math:`T + \mathrm{diag}(1/v_0)` at its tip. A sweep draws

- the effects given all variances, at once;
- the mixing variance of each Student-t or Laplace effect, in closed form;
- the scales of single effects arm by arm, with the arm's effects integrated out (``collapsed``), then these effects;
- every other scale by a slice (Neal 2003), given its effects, and once more given these over their standard deviations,
  which moves scale and effects together (Yu and Meng 2011): the first is slow where the data say little, the second
  where they say much.

Numba is imported here: import this module late. Its random numbers are compiled code's own, seeded chain by chain.
"""
# ruff: noqa: NPY002

from math import exp, log, sqrt

import numpy as np
from numba import njit

from rcb_bayes.posterior.arrow import _cholesky, _solve_down, _solve_up
from rcb_bayes.posterior.collapsed import draw_own, height_of

_OPTIONS = {"cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
_MOST_STEPS = 12  # outwards, of a slice
_STUDENT, _LAPLACE = 1, 2


@njit(**_OPTIONS)
def _precisions(x, mixing, base, term, power, slab, slab_base, slab_power, inner, outer) -> None:
    """The two parts of 1/v of every effect, without and with its slab, given log scales and log mixing variances."""
    for e in range(len(inner)):
        value = base[e] + mixing[e]
        for t in range(term.shape[1]):
            if term[e, t] >= 0:
                value += power[e, t] * x[term[e, t]]
        inner[e] = exp(-value)
        outer[e] = 0.0 if slab[e] < 0 else exp(-slab_base[e] - slab_power[e] * x[slab[e]])


@njit(**_OPTIONS)
def _solve_rows(factor, right) -> None:
    """L^-1 times ``right`` (p, r), in place, row by row: quicker than ``_solve_down`` where r is not small."""
    p, r = right.shape
    for i in range(p):
        for q in range(i):
            slope = factor[i, q]
            for c in range(r):
                right[i, c] -= slope * right[q, c]
        scale = 1.0 / factor[i, i]
        for c in range(r):
            right[i, c] *= scale


@njit(**_OPTIONS)
def _draw_effects(own, head, tip, pull, tip_pull, v, roots, tails, right, tip_root, tip_right, u, centre) -> None:
    """Draw all effects given their variances, to ``u``; their means are written to ``centre``."""
    n_arms, m, r = head.shape
    matrix, joint = np.empty((m, m)), np.empty((r, r))
    first = n_arms * m
    for a in range(r):
        for b in range(a + 1):
            joint[a, b] = tip[a, b]
        joint[a, a] += 1.0 / v[first + a]
        tip_right[a, 0] = tip_pull[a]
    for i in range(n_arms):
        for a in range(m):
            for b in range(a + 1):
                matrix[a, b] = own[i, a, b]
            matrix[a, a] += 1.0 / v[i * m + a]
            right[i, a, 0] = pull[i, a]
            for b in range(r):
                tails[i, a, b] = head[i, a, b]
        _cholesky(matrix, roots[i])
        _solve_down(roots[i], right[i])
        if r:
            _solve_rows(roots[i], tails[i])
            for a in range(m):
                for b in range(r):
                    value = tails[i, a, b]
                    tip_right[b, 0] -= value * right[i, a, 0]
                    for c in range(b + 1):
                        joint[b, c] -= value * tails[i, a, c]
    work = np.empty((max(m, r), 2))
    if r:
        _cholesky(joint, tip_root)
        _solve_down(tip_root, tip_right)
        for a in range(r):
            work[a, 0] = tip_right[a, 0]
            work[a, 1] = tip_right[a, 0] + np.random.standard_normal()
        _solve_up(tip_root, work[:r])
        for a in range(r):
            centre[first + a], u[first + a] = work[a, 0], work[a, 1]
    for i in range(n_arms):
        for a in range(m):
            work[a, 0] = right[i, a, 0]
            work[a, 1] = right[i, a, 0] + np.random.standard_normal()
            for b in range(r):
                work[a, 0] -= tails[i, a, b] * centre[first + b]
                work[a, 1] -= tails[i, a, b] * u[first + b]
        _solve_up(roots[i], work[:m])
        for a in range(m):
            centre[i * m + a], u[i * m + a] = work[a, 0], work[a, 1]


@njit(**_OPTIONS)
def _draw_mixing(kind, nu, u, v, inner, mixing) -> None:
    """Draw the log mixing variances given the effects; ``v`` and ``inner``, its inverse, are kept up."""
    for e in range(len(u)):
        if kind[e] == 0:
            continue
        square = u[e] * u[e] / (v[e] * exp(-mixing[e]))
        if kind[e] == _STUDENT:
            new = log(0.5 * (nu[e] + square)) - log(max(np.random.standard_gamma(0.5 * (nu[e] + 1.0)), 1e-300))
        else:  # 1 over the variance is inverse Gaussian
            mean = 1.0 / sqrt(max(square, 1e-24))
            normal = np.random.standard_normal()
            y = normal * normal
            root = mean + 0.5 * mean * mean * y - 0.5 * mean * sqrt(4.0 * mean * y + mean * mean * y * y)
            root = max(root, 1e-12 * mean)
            if np.random.random() > mean / (mean + root):
                root = mean * mean / root
            new = -log(root)
        v[e] *= exp(new - mixing[e])
        inner[e] = 1.0 / v[e]
        mixing[e] = new


@njit(**_OPTIONS)
def _log_likelihood(own, head, tip, pull, tip_pull, u, first_arm, end_arm, shared) -> float:
    """The log likelihood of effects, without terms of arms outside the range if nothing shared changes."""
    n_arms, m, r = head.shape
    total = 0.0
    first = n_arms * m
    for i in range(first_arm, end_arm):
        for a in range(m):
            value = pull[i, a] - 0.5 * own[i, a, a] * u[i * m + a]
            for b in range(a):
                value -= own[i, a, b] * u[i * m + b]
            for b in range(r):
                value -= head[i, a, b] * u[first + b]
            total += u[i * m + a] * value
    if shared:
        for a in range(r):
            value = tip_pull[a] - 0.5 * tip[a, a] * u[first + a]
            for b in range(a):
                value -= tip[a, b] * u[first + b]
            total += u[first + a] * value
    return total


@njit(**_OPTIONS)
def _given_effects(factor, members, u, part, rest, square) -> float:
    """The log density of effects with precisions ``part * factor + rest``; ``square`` < 0 unless there is no rest."""
    if square >= 0.0:
        return 0.5 * (len(members) * log(factor) - square * factor)
    total, product = 0.0, 1.0
    for k in range(len(members)):
        precision = part[k] * factor + rest[k]
        total -= u[members[k]] ** 2 * precision
        product *= precision
        if not (1e-100 < product < 1e100):  # a logarithm costs ten products
            total += log(product)
            product = 1.0
    return 0.5 * (total + log(product))


@njit(**_OPTIONS)
def _with_effects(factor, members, u, moved, part, rest, slope, bend, span, data) -> float:
    """The log likelihood when effects move along with their scale; ``bend`` >= 0 where it is a parabola."""
    if bend >= 0.0:
        stretch = sqrt((part[0] + rest[0]) / (part[0] * factor + rest[0]))
        return stretch * (slope - 0.5 * bend * stretch)
    own, head, tip, pull, tip_pull = data
    for k in range(len(members)):
        stretch = (part[k] + rest[k]) / (part[k] * factor + rest[k])
        moved[members[k]] = u[members[k]] * sqrt(stretch)
    return _log_likelihood(own, head, tip, pull, tip_pull, moved, span[0], span[1], span[2] == 1)


@njit(**_OPTIONS)
def _slice(together, here, rate, width, low, step, line, members, u, moved, part, rest, span, data) -> float:
    """A new value of a log scale by a slice: stepped out, then shrunk.

    The effects' precisions are ``part`` times exp(-rate * change) plus ``rest``.
    """
    one, two, three = _summed(together, members, u, moved, part, rest, span, data)
    left = here - width * np.random.random()
    right = left + width
    level, value, stage, steps = 0.0, here, 0, 0
    for _ in range(200):  # at the value itself; outwards to the left, to the right; inwards
        height = height_of(value, low, step, line)
        if height > -np.inf:
            factor = exp(-rate * (value - here))
            if together:
                height += _with_effects(factor, members, u, moved, part, rest, one, two, span, data)
            else:
                height += _given_effects(factor, members, u, part, rest, three)
        if stage == 0:
            level = height + log(max(np.random.random(), 1e-300))
            stage, value = 1, left
            continue
        if stage == 1:
            if height > level and steps < _MOST_STEPS:
                left -= width
                value, steps = left, steps + 1
            else:
                stage, value, steps = 2, right, 0
            continue
        if stage == 2:
            if height > level and steps < _MOST_STEPS:
                right += width
                value, steps = right, steps + 1
                continue
            stage = 3
        elif height > level:
            return value
        elif value < here:
            left = value
        else:
            right = value
        value = left + (right - left) * np.random.random()
    return here


@njit(**_OPTIONS)
def _summed(together, members, u, moved, part, rest, span, data):
    """What spares a loop over the effects, -1 where nothing does.

    Effects that are stretched alike: slope and bend of the likelihood's parabola in the stretch.
    Precisions without a rest: the sum of the effects' squares over their variances.
    """
    own, head, tip, pull, tip_pull = data
    for k in range(len(members)):
        if rest[k] != 0.0:
            return -1.0, -1.0, -1.0
    if not together:
        square = 0.0
        for k in range(len(members)):
            square += u[members[k]] ** 2 * part[k]
        return -1.0, -1.0, square
    heights = np.empty(3)
    for sign in range(3):
        for e in members:
            moved[e] = u[e] * (sign - 1.0)
        heights[sign] = _log_likelihood(own, head, tip, pull, tip_pull, moved, span[0], span[1], span[2] == 1)
    for e in members:
        moved[e] = u[e]
    return 0.5 * (heights[2] - heights[0]), max(2.0 * heights[1] - heights[2] - heights[0], 0.0), -1.0


@njit(**_OPTIONS)
def _draw_scales(x, inner, outer, u, v, moved, part, rest, belief, shared, member, start, spans, rate, data) -> None:
    """Draw the scales that several effects, or one that arms share, have in common; effects and variances follow."""
    slab, _, _, low, step, line, line_of = belief[3:]
    for s in shared:
        members = member[start[s] : start[s + 1]]
        n = len(members)
        for together in (False, True):
            if together:
                moved[:] = u
            for k in range(n):
                e = members[k]
                part[k], rest[k] = (outer[e], inner[e]) if slab[e] == s else (inner[e], outer[e])
            width = (1.0 if together else 4.0 / sqrt(float(n))) / max(abs(rate[s]), 0.5)
            new = _slice(
                together, x[s], rate[s], width, low[s], step[s], line[line_of[s]],
                members, u, moved, part[:n], rest[:n], spans[s], data,
            )  # fmt: skip
            factor = exp(-rate[s] * (new - x[s]))
            x[s] = new
            for k in range(n):
                e = members[k]
                if slab[e] == s:
                    outer[e] *= factor
                else:
                    inner[e] *= factor
                variance = 1.0 / (inner[e] + outer[e])
                if together:
                    u[e] *= sqrt(variance / v[e])
                v[e] = variance


@njit(**_OPTIONS)
def _load(effects, loads, shared_loads, out) -> None:
    """What effects do to the coefficients."""
    n_arms, d, m = loads.shape
    r = shared_loads.shape[2]
    for i in range(n_arms):
        for k in range(d):
            value = 0.0
            for a in range(m):
                value += loads[i, k, a] * effects[i * m + a]
            for a in range(r):
                value += shared_loads[i, k, a] * effects[n_arms * m + a]
            out[i * d + k] = value


@njit(**_OPTIONS)
def run_chains(
    belief, kind, nu, member, start, spans, rate, shared, singles, single_start, loads, shared_loads,
    own, head, tip, pull, tip_pull, seeds, n_sweeps, n_batches, x, mixing, means, squares, joint, kept,
) -> None:  # fmt: skip
    """Sweeps of C chains for each of M data sets.

    Read are the ``belief`` and its ``kind`` and ``nu``, the effects ``member[start[s] : start[s + 1]]`` of each scale
    with the arms that they touch, ``spans`` (S, 3), and the power ``rate`` of the scale in their variances, what
    effects do to coefficients, ``loads`` (K, d, m) and ``shared_loads`` (K, d, r), and the data: D (M, K, m, m),
    H (M, K, m, r), T (M, r, r), their pulls, and seeds (M, C). Read and written is the state: log scales ``x``
    (M, C, S) and log mixing variances (M, C, E).

    Written are, over the sweeps of a batch, the means of the effects given their variances, ``means``
    (M, C, batches, E), and over all sweeps the second moments of the coefficients (less their centre), as those of the
    means plus those around them: ``squares`` (M, C, K d), and the whole ``joint`` (M, K d, K d) unless it is empty.
    ``kept`` (M, C, draws, K d) takes draws of the coefficients, evenly spread over the sweeps.
    """
    n_sets, n_chains, n_effects = mixing.shape
    n_arms, m, r = head.shape[1:]
    d = loads.shape[1]
    base, term, power, slab, slab_base, slab_power = belief[:6]
    u, v, centre, moved = np.empty(n_effects), np.empty(n_effects), np.empty(n_effects), np.empty(n_effects)
    roots, tails, right = np.zeros((n_arms, m, m)), np.zeros((n_arms, m, r)), np.zeros((n_arms, m, 1))
    tip_root, tip_right = np.zeros((r, r)), np.zeros((r, 1))
    part, rest = np.empty(n_effects), np.empty(n_effects)
    inner, outer = np.empty(n_effects), np.empty(n_effects)
    own_pull, work = np.empty(m), np.empty((m + 2, m))
    beta, away = np.empty(n_arms * d), np.empty(n_arms * d)
    n_kept = kept.shape[2]
    for q in range(n_sets):
        data = (own[q], head[q], tip[q], pull[q], tip_pull[q])
        for c in range(n_chains):
            np.random.seed(seeds[q, c])
            log_scale, log_mixing = x[q, c], mixing[q, c]
            _precisions(log_scale, log_mixing, base, term, power, slab, slab_base, slab_power, inner, outer)
            for e in range(n_effects):
                v[e] = 1.0 / (inner[e] + outer[e])
            for sweep in range(n_sweeps):
                _draw_effects(
                    own[q], head[q], tip[q], pull[q], tip_pull[q], v,
                    roots, tails, right, tip_root, tip_right, u, centre,
                )  # fmt: skip
                batch = sweep * n_batches // n_sweeps
                for e in range(n_effects):
                    means[q, c, batch, e] += centre[e]
                _load(centre, loads, shared_loads, beta)
                for e in range(n_effects):
                    moved[e] = u[e] - centre[e]
                _load(moved, loads, shared_loads, away)
                for i in range(len(beta)):
                    squares[q, c, i] += beta[i] * beta[i] + away[i] * away[i]
                if len(joint):
                    for i in range(len(beta)):
                        for k in range(i + 1):
                            joint[q, i, k] += beta[i] * beta[k] + away[i] * away[k]
                if n_kept:
                    place = sweep * n_kept // n_sweeps
                    for i in range(len(beta)):
                        kept[q, c, place, i] = beta[i] + away[i]
                _draw_mixing(kind, nu, u, v, inner, log_mixing)
                for i in range(n_arms):
                    own_singles = singles[single_start[i] : single_start[i + 1]]
                    if len(own_singles):
                        for a in range(m):
                            own_pull[a] = pull[q, i, a]
                            for b in range(r):
                                own_pull[a] -= head[q, i, a, b] * u[n_arms * m + b]
                        draw_own(
                            i, own[q, i], own_pull, roots[i], work, u, v, inner, outer, log_scale,
                            belief, own_singles, member, start, rate,
                        )  # fmt: skip
                _draw_scales(
                    log_scale, inner, outer, u, v, moved, part, rest, belief, shared, member, start, spans, rate, data
                )
