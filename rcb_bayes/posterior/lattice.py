r"""Posteriors over a lattice of two scales: as few of its points as the data set needs, compiled.

Points lie row by row. Every eighth point of every eighth row comes first; from all of these that count, neighbours are
looked at as long as they count as well. A rule is taken when its halves agree in both directions: odd rows with even
ones, odd columns with even ones. A direction in which they do not is halved, from strides of eight to four, two and
one. (The fields of a chessboard would not do for halves: where one row has all the weight they agree, whatever lies
beside it.)

Numba is imported here: import this module late.
"""

from math import exp, log

import numpy as np
from numba import njit

from rcb_bayes.posterior.arrow import (
    INNER,
    OPTIONS,
    add_covariance,
    add_means,
    divide,
    factor_arrow,
    solve_back,
    spreads,
    write_sd,
)

_COUNTS = 9.0  # log weights that far below the largest do not count
_FIRST = 8  # stride of what is looked at in any case


def spaces(n_values: int, n_arms: int, d: int, r: int) -> tuple[np.ndarray, ...]:
    """What ``integrate_lattice`` writes over; see ``arrow.spaces``."""
    floats = ((n_arms, d, d), (n_arms, d, r), (n_arms, d, 1), (r, r), (r, 1), (d, d), (r, r))
    own = (np.empty((n_arms, d, d)), np.empty((n_arms, d, r)), np.empty((r, 1)))
    of_values = (np.empty(n_values), np.empty((n_values, n_arms, d, 1)), np.empty(n_values, dtype=np.int64))
    seen = (np.empty(n_values, dtype=np.int64), np.empty(4), np.empty((4, n_arms * d)))
    return (*(np.empty(shape) for shape in floats), *own, *of_values, *seen)


@njit(**INNER)
def _weigh(evidence, best, n_rows, n_columns, down, across, totals) -> None:
    """Totals of even and odd rows, and of even and odd columns, of a rule of given strides."""
    for i in range(4):
        totals[i] = 0.0
    for r in range(0, n_rows, down):
        for c in range(0, n_columns, across):
            height = evidence[r * n_columns + c] - best
            if height > -_COUNTS:
                weight = exp(height)
                totals[(r // down) % 2] += weight
                totals[2 + (c // across) % 2] += weight


@njit(**INNER)
def _add_part(pulls, weight, part) -> None:
    """Add a point's means, by its weight, to those of a half."""
    n_arms, d, _ = pulls.shape
    for i in range(n_arms):
        for a in range(d):
            part[i * d + a] += weight * pulls[i, a, 0]


@njit(**INNER)
def _average(evidence, solved, best, n_rows, n_columns, down, across, mean, parts) -> None:
    """Sums of means by the rule, and by even and odd rows and columns."""
    for k in range(len(mean)):
        mean[k] = 0.0
        for i in range(4):
            parts[i, k] = 0.0
    for r in range(0, n_rows, down):
        for c in range(0, n_columns, across):
            j = r * n_columns + c
            height = evidence[j] - best
            if height > -_COUNTS:
                weight = exp(height)
                add_means(solved[j], weight, mean, parts[(r // down) % 2])
                _add_part(solved[j], weight, parts[2 + (c // across) % 2])


@njit(**INNER)
def _gap(parts, totals, first, sd) -> float:
    """How far the means of two halves are apart, in sd of the best point."""
    gap = 0.0
    for k in range(len(sd)):
        apart = abs(parts[first, k] / totals[first] - parts[first + 1, k] / totals[first + 1]) / sd[k]
        gap = max(gap, apart)
    return gap


@njit(**INNER)
def _stack_first(evidence, best, n_rows, n_columns, down, across, round_, stack, seen) -> int:
    """The points to begin a round with: all of the first rule, later those that count or nearly do."""
    n_stacked = 0
    for r in range(0, n_rows, down):
        for c in range(0, n_columns, across):
            j = r * n_columns + c
            if round_ == 0 or evidence[j] > best - _COUNTS - 4.0:
                stack[n_stacked], seen[j] = j, round_
                n_stacked += 1
    return n_stacked


@njit(**INNER)
def _stack_neighbours(j, n_rows, n_columns, down, across, round_, n_stacked, stack, seen) -> int:
    """Add the neighbours of a point that this round has not seen."""
    for up in range(-1, 2):
        for left in range(-1, 2):
            r, c = j // n_columns + up * down, j % n_columns + left * across
            if 0 <= r < n_rows and 0 <= c < n_columns and seen[r * n_columns + c] < round_:
                stack[n_stacked], seen[r * n_columns + c] = r * n_columns + c, round_
                n_stacked += 1
    return n_stacked


@njit(**OPTIONS)
def integrate_lattice(
    shaft, head, tip, pull, tip_pull, constant, noise, edge, gram, moment, square, n,
    covariance, n_rows, n_columns, widest_gap, uneven, mean, halves, sd, shares, joint, space,
) -> None:  # fmt: skip
    """Posterior moments of M data sets over ``n_rows`` times ``n_columns`` points; the rest as in ``arrow.integrate``.

    Halves agree where their means are at most ``widest_gap`` sd apart and their shares at most ``uneven`` from one
    half. Written to ``halves`` and ``shares`` are those of the direction in which they agree less.
    """
    roots, tails, pulls, tip_root, tip_right, matrix, corner, own, spread, row = space[:10]
    evidence, solved, stack, seen, totals, parts = space[10:]
    for m in range(len(moment)):
        for j in range(len(evidence)):
            evidence[j], seen[j] = -np.inf, -1
        best, place, measured = -np.inf, 0, -1
        down = across = _FIRST
        of_rows, of_columns, round_ = 0.0, 0.0, 0
        while True:
            n_stacked = _stack_first(evidence, best, n_rows, n_columns, down, across, round_, stack, seen)
            while n_stacked > 0:
                n_stacked -= 1
                j = stack[n_stacked]
                if evidence[j] == -np.inf and constant[j] > -np.inf:
                    log_det, norm = factor_arrow(
                        shaft[j], head[j], tip[j], gram[m], moment[m], pull[j], tip_pull[j], noise[j],
                        matrix, corner, roots, tails, pulls, tip_root, tip_right,
                    )  # fmt: skip
                    evidence[j] = constant[j] - log_det + 0.5 * (norm + n[m] * log(noise[j]) - noise[j] * square[m])
                    if evidence[j] > best:
                        best, place = evidence[j], j
                    if evidence[j] > best - _COUNTS:
                        solve_back(roots, tails, pulls, tip_root, tip_right)
                        solved[j] = pulls
                if round_ > 0 and evidence[j] > best - _COUNTS:
                    n_stacked = _stack_neighbours(
                        j, n_rows, n_columns, down, across, round_, n_stacked, stack, seen
                    )  # fmt: skip
            _weigh(evidence, best, n_rows, n_columns, down, across, totals)
            total = totals[0] + totals[1]
            rows_agree = abs(totals[1] / total - 0.5) <= uneven
            columns_agree = abs(totals[3] / total - 0.5) <= uneven
            if (rows_agree or down == 1) and (columns_agree or across == 1):
                if measured != place:
                    factor_arrow(
                        shaft[place], head[place], tip[place], gram[m], moment[m], pull[place], tip_pull[place],
                        noise[place], matrix, corner, roots, tails, pulls, tip_root, tip_right,
                    )  # fmt: skip
                    spreads(roots, tails, tip_root, row, own, spread)
                    write_sd(own, spread, sd[m])
                    measured = place
                _average(evidence, solved, best, n_rows, n_columns, down, across, mean[m], parts)
                of_rows, of_columns = _gap(parts, totals, 0, sd[m]), _gap(parts, totals, 2, sd[m])
                rows_agree &= of_rows <= widest_gap
                columns_agree &= of_columns <= widest_gap
                if (rows_agree or down == 1) and (columns_agree or across == 1):
                    break
            if not rows_agree and down > 1:
                down //= 2
            if not columns_agree and across > 1:
                across //= 2
            round_ += 1
        at_edge = 0.0
        for r in range(0, n_rows, down):
            for c in range(0, n_columns, across):
                j = r * n_columns + c
                if not evidence[j] > best - _COUNTS:
                    continue
                weight = exp(evidence[j] - best)
                if edge[j]:  # of a single step of the lattice, whatever the strides
                    at_edge += weight / (down if r == 0 or r == n_rows - 1 else across)
                if covariance:
                    factor_arrow(
                        shaft[j], head[j], tip[j], gram[m], moment[m], pull[j], tip_pull[j], noise[j],
                        matrix, corner, roots, tails, pulls, tip_root, tip_right,
                    )  # fmt: skip
                    spreads(roots, tails, tip_root, row, own, spread)
                    add_covariance(own, spread, solved[j], weight, joint[m])
        shares[m, 0] = at_edge / total
        worse = 0 if of_rows > of_columns or totals[0] == 0.0 or totals[1] == 0.0 else 2
        of_odd = totals[1] / total, totals[3] / total
        shares[m, 1] = of_odd[0] if abs(of_odd[0] - 0.5) > abs(of_odd[1] - 0.5) else of_odd[1]
        halves[m, 0], halves[m, 1] = parts[worse], parts[worse + 1]
        totals[0], totals[1] = totals[worse], totals[worse + 1]
        divide(covariance, totals, mean[m], halves[m], joint[m if covariance else 0])
