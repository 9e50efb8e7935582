r"""Scales of single effects, drawn with the effects of their arm integrated out, compiled.

Given what arms share, the effects of an arm are normal with precision :math:`D + \mathrm{diag}(1/v)`; let C be its
inverse and :math:`\mu = Cb` the mean. Of one of them, with all others integrated out, the data say
:math:`\exp(qu - Pu^2/2)`, where :math:`P = 1/C_{ee} - 1/v_e` and :math:`q = \mu_e/C_{ee}`; so of its variance

.. math:: (1 + vP)^{-1/2} \exp\Bigl(\frac{q^2 v}{2(1 + vP)}\Bigr),

one number with a known density, drawn by a slice. C and :math:`\mu` follow by a change of rank one.

Drawn given the effect, a scale stays near the effect's size, and the effect near zero once its scale is: which of two
effects is large is then decided once and hardly ever again. Integrated out, nothing holds it.

Numba is imported here: import this module late.
"""
# ruff: noqa: NPY002

from math import exp, log

import numpy as np
from numba import njit

from rcb_bayes.posterior.arrow import _cholesky, _solve_down, _solve_up

_OPTIONS = {"cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
_MOST_STEPS = 12  # outwards, of a slice
_SMALL = 1e-9


@njit(**_OPTIONS)
def height_of(value, low, step, line) -> float:
    """The log density of a log scale, read off its line; beyond its ends there is none."""
    place = (value - low) / step
    if not (0.0 <= place < len(line) - 1):
        return -np.inf
    left = int(place)
    return line[left] + (place - left) * (line[left + 1] - line[left])


@njit(**_OPTIONS)
def _height(value, here, rate, part, rest, precision, pull, low, step, line) -> float:
    """The log density of a log scale, its effect integrated out; 1/v is ``part`` exp(-rate * change) plus ``rest``."""
    height = height_of(value, low, step, line)
    if height == -np.inf:
        return height
    prior = part * exp(-rate * (value - here)) + rest
    total = prior + precision
    return height + 0.5 * (log(prior / total) + pull * pull / total)


@njit(**_OPTIONS)
def _slice(here, width, rate, part, rest, precision, pull, low, step, line) -> float:
    """A new value of a log scale by a slice: stepped out, then shrunk."""
    level = _height(here, here, rate, part, rest, precision, pull, low, step, line)
    level += log(max(np.random.random(), 1e-300))
    left = here - width * np.random.random()
    right = left + width
    for _ in range(_MOST_STEPS):
        if not _height(left, here, rate, part, rest, precision, pull, low, step, line) > level:
            break
        left -= width
    for _ in range(_MOST_STEPS):
        if not _height(right, here, rate, part, rest, precision, pull, low, step, line) > level:
            break
        right += width
    for _ in range(100):
        value = left + (right - left) * np.random.random()
        if _height(value, here, rate, part, rest, precision, pull, low, step, line) > level:
            return value
        if value < here:
            left = value
        else:
            right = value
    return here


@njit(**_OPTIONS)
def _inverse(root, out) -> None:
    """The inverse of L L', its lower half."""
    p = len(root)
    for j in range(p):  # the transpose of L^-1 above and on the diagonal
        for i in range(j, p):
            value = 1.0 if i == j else 0.0
            for k in range(j, i):
                value -= root[i, k] * out[j, k]
            out[j, i] = value / root[i, i]
    for i in range(p):  # row i of it is not read again once column i below the diagonal is written
        for j in range(i, p):
            value = 0.0
            for k in range(j, p):
                value += out[i, k] * out[j, k]
            out[i, j] = value
    for i in range(p):
        for j in range(i):
            out[i, j] = out[j, i]


@njit(**_OPTIONS)
def _cavity(a, variance, most, own, pull, inverse, mean, column):
    """What the data say of the a-th effect, all others integrated out: precision and pull; ``column`` is C's.

    Read off the inverse, unless the variance is so far below the ``most`` it can be that this were a small difference
    of large numbers; then it comes from the data less what the other effects take.
    """
    m = len(mean)
    for b in range(a + 1):
        column[b] = inverse[a, b]
    for b in range(a + 1, m):
        column[b] = inverse[b, a]
    spread = column[a]
    if variance > _SMALL * most:
        return max(1.0 / spread - 1.0 / variance, 0.0), mean[a] / spread
    precision, moment = own[a, a], pull[a]
    for b in range(m):
        value = 0.5 * inverse[b, b] * own[a, b]
        for c in range(b):
            value += inverse[b, c] * own[a, c]
        precision -= 2.0 * own[a, b] * value
        moment -= own[a, b] * mean[b]
    precision = max(precision, 0.0)
    share = 1.0 - min(variance * precision, 0.5)
    return precision / share, moment / share


@njit(**_OPTIONS)
def _move(a, variance, precision, pull, inverse, mean, column) -> None:
    """The inverse and the mean when the a-th effect has another variance; ``column`` is written over."""
    m = len(mean)
    before, spread = column[a], 1.0 / (precision + 1.0 / variance)
    for b in range(m):
        column[b] /= before
    away = pull * spread - mean[a]
    for b in range(m):
        mean[b] += column[b] * away
        slope = column[b] * (spread - before)
        for c in range(b + 1):
            inverse[b, c] += slope * column[c]
    mean[a] = pull * spread
    for b in range(a + 1):
        inverse[a, b] = column[b] * spread
    for b in range(a + 1, m):
        inverse[b, a] = column[b] * spread


@njit(**_OPTIONS)
def _redraw(first, own, pull, root, work, u, v) -> None:
    """Draw the effects of an arm, which begin at ``first``, given their variances."""
    m = len(pull)
    for a in range(m):
        for b in range(a + 1):
            work[a, b] = own[a, b]
        work[a, a] += 1.0 / v[first + a]
    _cholesky(work[:m], root)
    right = np.empty((m, 1))
    for a in range(m):
        right[a, 0] = pull[a]
    _solve_down(root, right)
    for a in range(m):
        right[a, 0] += np.random.standard_normal()
    _solve_up(root, right)
    for a in range(m):
        u[first + a] = right[a, 0]


@njit(**_OPTIONS)
def draw_own(i, own, pull, root, work, u, v, inner, outer, x, belief, singles, member, start, rate) -> None:
    """Draw the ``singles`` of arm i, scales of one effect each, then its effects.

    ``root`` is the factor of the arm's precision ``own`` + diag(1/v), ``pull`` (m,) what the data and shared effects
    pull it to, ``work`` (m + 2, m) is written over. Log scales ``x``, effects ``u``, variances ``v`` and the two parts
    of their inverses, ``inner`` and ``outer``, are kept up.
    """
    slab, _, _, low, step, line, line_of = belief[3:]
    m = len(pull)
    inverse, mean, column = work[:m], work[m], work[m + 1]
    _inverse(root, inverse)
    for a in range(m):
        value = 0.0
        for b in range(m):
            value += inverse[a, b] * pull[b]
        mean[a] = value
    for s in singles:
        e = member[start[s]]
        a, here, own_line = e - i * m, x[s], line[line_of[s]]
        part, rest = (outer[e], inner[e]) if slab[e] == s else (inner[e], outer[e])
        far = low[s] + step[s] * (len(own_line) - 1) if rate[s] > 0.0 else low[s]
        most = 1.0 / (part * exp(-rate[s] * (far - here)) + rest)
        precision, moment = _cavity(a, v[e], most, own, pull, inverse, mean, column)
        width = 4.0 / max(abs(rate[s]), 0.5)
        new = _slice(here, width, rate[s], part, rest, precision, moment, low[s], step[s], own_line)
        factor = exp(-rate[s] * (new - here))
        x[s] = new
        if slab[e] == s:
            outer[e] *= factor
        else:
            inner[e] *= factor
        v[e] = 1.0 / (inner[e] + outer[e])
        _move(a, v[e], precision, moment, inverse, mean, column)
    _redraw(i * m, own, pull, root, work, u, v)
