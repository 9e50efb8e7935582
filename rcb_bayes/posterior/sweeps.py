r"""Gibbs sweeps over effects and their scales, compiled: see ``posterior.gibbs``.

Effects of single arms come first, m of each, then r effects that arms share. Given their variances they are normal,
with a precision that is an arrow: :math:`D_i + \mathrm{diag}(1/v_i)` down its shaft, :math:`H_i` along its head and
:math:`T + \mathrm{diag}(1/v_0)` at its tip. A sweep draws

- the effects given all variances, at once;
- the mixing variance of each Student-t or Laplace effect, in closed form;
- every scale by a slice (Neal 2003), given the effects; those of several effects once more given the effects over
  their standard deviations, which moves scale and effects together (Yu and Meng 2011): the first is slow where the data
  say little, the second where they say much.

Numba is imported here: import this module late.
"""

from math import exp, log, sqrt

import numpy as np
from numba import njit

from rcb_bayes.posterior.arrow import _cholesky, _solve_down, _solve_up

_OPTIONS = {"cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
_MOST_STEPS = 12  # outwards, of a slice
_STUDENT, _LAPLACE = 1, 2


@njit(**_OPTIONS)
def _variance(e, x, mixing, base, term, power, slab, slab_base, slab_power) -> float:
    """The variance of an effect given log scales and log mixing variances."""
    value = base[e] + mixing[e]
    for t in range(term.shape[1]):
        if term[e, t] >= 0:
            value += power[e, t] * x[term[e, t]]
    if slab[e] < 0:
        return exp(value)
    return 1.0 / (exp(-value) + exp(-slab_base[e] - slab_power[e] * x[slab[e]]))


@njit(**_OPTIONS)
def _height(value, low, step, line) -> float:
    """The log density of a log scale, read off its line; beyond its ends there is none."""
    place = (value - low) / step
    if not (0.0 <= place < len(line) - 1):
        return -np.inf
    left = int(place)
    return line[left] + (place - left) * (line[left + 1] - line[left])


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
            _solve_down(roots[i], tails[i])
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
def _draw_mixing(kind, nu, u, v, mixing) -> None:
    """Draw the log mixing variances given the effects; ``v`` is kept up."""
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
def _target(
    value, s, together, x, mixing, u, v, moved, belief, members, spans, data
) -> float:
    """The log density of a log scale at a value, given the effects or (``together``) given these over their sd."""
    base, term, power, slab, slab_base, slab_power, low, step, line, line_of = belief
    own, head, tip, pull, tip_pull = data
    height = _height(value, low[s], step[s], line[line_of[s]])
    if height == -np.inf:
        return height
    before = x[s]
    x[s] = value
    if together:
        for e in members:
            moved[e] = u[e] * sqrt(_variance(e, x, mixing, base, term, power, slab, slab_base, slab_power) / v[e])
        height += _log_likelihood(own, head, tip, pull, tip_pull, moved, spans[0], spans[1], spans[2] == 1)
    else:
        for e in members:
            new = _variance(e, x, mixing, base, term, power, slab, slab_base, slab_power)
            height -= 0.5 * (log(new) + u[e] * u[e] / new)
    x[s] = before
    return height


@njit(**_OPTIONS)
def _simple_target(value, s, x, low, step, line, n, square, rate) -> float:
    """As ``_target`` given the effects, where n variances are in proportion to a power ``rate`` of the scale."""
    away = rate * (value - x[s])
    return _height(value, low, step, line) - 0.5 * (n * away + square * exp(-away))


@njit(**_OPTIONS)
def _slice(s, together, simple, rate, width, x, mixing, u, v, moved, belief, members, spans, data) -> float:
    """A new value of a log scale by a slice: stepped out, then shrunk."""
    base, term, power, slab, slab_base, slab_power, low, step, line, line_of = belief
    square, n = 0.0, float(len(members))
    if simple:
        for e in members:
            square += u[e] * u[e] / v[e]
    own_line = line[line_of[s]]
    here = x[s]
    if simple:
        level = _simple_target(here, s, x, low[s], step[s], own_line, n, square, rate)
    else:
        level = _target(here, s, together, x, mixing, u, v, moved, belief, members, spans, data)
    level += log(max(np.random.random(), 1e-300))
    left = here - width * np.random.random()
    right = left + width
    for side in range(2):
        for _ in range(_MOST_STEPS):
            end = left if side == 0 else right
            if simple:
                height = _simple_target(end, s, x, low[s], step[s], own_line, n, square, rate)
            else:
                height = _target(end, s, together, x, mixing, u, v, moved, belief, members, spans, data)
            if not height > level:
                break
            if side == 0:
                left -= width
            else:
                right += width
    for _ in range(100):
        value = left + (right - left) * np.random.random()
        if simple:
            height = _simple_target(value, s, x, low[s], step[s], own_line, n, square, rate)
        else:
            height = _target(value, s, together, x, mixing, u, v, moved, belief, members, spans, data)
        if height > level:
            return value
        if value < here:
            left = value
        else:
            right = value
    return here


@njit(**_OPTIONS)
def _draw_scales(x, mixing, u, v, moved, belief, member, start, spans, simple, rate, data) -> None:
    """Draw every scale in turn; effects and variances are kept up."""
    base, term, power, slab, slab_base, slab_power, low, step, line, line_of = belief
    for s in range(len(x)):
        members = member[start[s] : start[s + 1]]
        n = len(members)
        if n == 0:
            continue
        width = 4.0 / sqrt(float(n)) / max(abs(rate[s]), 0.5)
        x[s] = _slice(s, False, simple[s], rate[s], width, x, mixing, u, v, moved, belief, members, spans[s], data)
        for e in members:
            v[e] = _variance(e, x, mixing, base, term, power, slab, slab_base, slab_power)
        if n == 1:
            continue
        moved[:] = u
        width = 1.0 / max(abs(rate[s]), 0.5)
        x[s] = _slice(s, True, False, rate[s], width, x, mixing, u, v, moved, belief, members, spans[s], data)
        for e in members:
            new = _variance(e, x, mixing, base, term, power, slab, slab_base, slab_power)
            u[e] *= sqrt(new / v[e])
            v[e] = new


@njit(**_OPTIONS)
def run_chains(
    belief, kind, nu, member, start, spans, simple, rate, loads, shared_loads,
    own, head, tip, pull, tip_pull, seeds, n_sweeps, n_batches, x, mixing, means, squares, joint, kept,
) -> None:  # fmt: skip
    """Sweeps of C chains for each of M data sets.

    Read are the ``belief`` and its ``kind`` and ``nu``, the effects ``member[start[s] : start[s + 1]]`` of each scale
    with the arms that they touch, ``spans`` (S, 3), whether all their variances are in proportion to a power ``rate``
    of the scale (``simple``), what effects do to coefficients, ``loads`` (K, d, m) and ``shared_loads`` (K, d, r), and
    the data: D (M, K, m, m), H (M, K, m, r), T (M, r, r), their pulls, and seeds (M, C). Read and written is the state:
    log scales ``x`` (M, C, S) and log mixing variances (M, C, E). Written are, over the sweeps of a batch, the means of
    the effects given their variances, ``means`` (M, C, batches, E), and over all sweeps the second moments of the
    coefficients (less their centre): ``squares`` (M, C, K d), and the whole ``joint`` (M, K d, K d) unless it is
    empty. ``kept`` (M, C, draws, K d) takes draws of the coefficients, evenly spread over the sweeps.
    """
    n_sets, n_chains, n_effects = mixing.shape
    n_arms, m, r = head.shape[1:]
    d = loads.shape[1]
    base, term, power, slab, slab_base, slab_power = belief[:6]
    u, v, centre, moved = np.empty(n_effects), np.empty(n_effects), np.empty(n_effects), np.empty(n_effects)
    roots, tails, right = np.zeros((n_arms, m, m)), np.zeros((n_arms, m, r)), np.zeros((n_arms, m, 1))
    tip_root, tip_right = np.zeros((r, r)), np.zeros((r, 1))
    beta = np.empty(n_arms * d)
    n_kept = kept.shape[2]
    for q in range(n_sets):
        data = (own[q], head[q], tip[q], pull[q], tip_pull[q])
        for c in range(n_chains):
            np.random.seed(seeds[q, c])
            log_scale, log_mixing = x[q, c], mixing[q, c]
            for e in range(n_effects):
                v[e] = _variance(e, log_scale, log_mixing, base, term, power, slab, slab_base, slab_power)
            for sweep in range(n_sweeps):
                _draw_effects(
                    own[q], head[q], tip[q], pull[q], tip_pull[q], v,
                    roots, tails, right, tip_root, tip_right, u, centre,
                )  # fmt: skip
                batch = sweep * n_batches // n_sweeps
                for e in range(n_effects):
                    means[q, c, batch, e] += centre[e]
                for i in range(n_arms):
                    for k in range(d):
                        value = 0.0
                        for a in range(m):
                            value += loads[i, k, a] * u[i * m + a]
                        for a in range(r):
                            value += shared_loads[i, k, a] * u[n_arms * m + a]
                        beta[i * d + k] = value
                        squares[q, c, i * d + k] += value * value
                if len(joint):
                    for i in range(len(beta)):
                        for k in range(i + 1):
                            joint[q, i, k] += beta[i] * beta[k]
                if n_kept:
                    place = sweep * n_kept // n_sweeps
                    for i in range(len(beta)):
                        kept[q, c, place, i] = beta[i]
                _draw_mixing(kind, nu, u, v, log_mixing)
                _draw_scales(
                    log_scale, log_mixing, u, v, moved, belief, member, start, spans, simple, rate, data
                )  # fmt: skip
