r"""Posteriors over a lattice of two scales: as few of its points as the data set needs, compiled.

Points lie row by row. Every eighth point of every eighth row comes first; from all of these that count, neighbours are
looked at as long as they count as well. A rule is taken when its halves agree in both directions: odd rows with even
ones, odd columns with even ones. A direction in which they do not is halved, from strides of eight to four, two and
one. (The fields of a chessboard would not do for halves: where one row has all the weight they agree, whatever lies
beside it.)

Numba is imported here: import this module late.
"""

from math import exp

import numpy as np
from numba import njit

from rcb_bayes.posterior import lanes
from rcb_bayes.posterior.arrow import divide, take_lanes, weigh_points
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

_COUNTS = 9.0  # log weights that far below the largest do not count
_FIRST = 8  # stride of what is looked at in any case


def spaces(n_values: int, n_arms: int, d: int, r: int) -> tuple[np.ndarray, ...]:
    """What ``integrate_lattice`` writes over; see ``lanes.spaces``."""
    of_values = np.empty(n_values), np.empty((n_values, n_arms * d))
    places = np.empty(n_values, dtype=np.int64), np.empty(n_values, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    return (
        *lanes.spaces(n_arms, d, r), *of_values, *places, np.empty(LANES), np.empty(4), np.empty((4, n_arms * d))
    )  # fmt: skip


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
def _average(evidence, solved, best, n_rows, n_columns, down, across, mean, parts) -> None:
    """Sums of means by the rule, and by even and odd rows and columns."""
    parts[:] = 0.0
    for r in range(0, n_rows, down):
        for c in range(0, n_columns, across):
            j = r * n_columns + c
            height = evidence[j] - best
            if height > -_COUNTS:
                weight, part = exp(height), parts[2 * ((r // down) % 2) + (c // across) % 2]
                for k in range(len(mean)):
                    part[k] += weight * solved[j, k]
    for k in range(len(mean)):
        even, odd = parts[0, k] + parts[1, k], parts[2, k] + parts[3, k]
        parts[2, k], parts[3, k] = parts[0, k] + parts[2, k], parts[1, k] + parts[3, k]
        parts[0, k], parts[1, k] = even, odd
        mean[k] = even + odd


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
    row = j // n_columns
    column = j - row * n_columns
    for r in range(row - down, row + down + 1, down):
        for c in range(column - across, column + across + 1, across):
            if 0 <= r < n_rows and 0 <= c < n_columns and seen[r * n_columns + c] < round_:
                stack[n_stacked], seen[r * n_columns + c] = r * n_columns + c, round_
                n_stacked += 1
    return n_stacked


@njit(**INNER)
def _solve(evidence, best, points, n_here, solved, space) -> None:
    """Write the means of points that count, after ``weigh_points``."""
    any_counts = False
    for lane in range(n_here):
        any_counts |= evidence[points[lane]] > best - _COUNTS
    if not any_counts:
        return
    solve_back(space)
    pulls = space[2]
    n_arms, d, _, _ = pulls.shape
    for lane in range(n_here):
        if evidence[points[lane]] > best - _COUNTS:
            mean = solved[points[lane]]
            for i in range(n_arms):
                for a in range(d):
                    mean[i * d + a] = pulls[i, a, 0, lane]


@njit(**INNER)
def _look(
    table, gram, moment, square, n, n_rows, n_columns, down, across, round_, n_stacked, best, place, space
) -> tuple[float, int]:  # fmt: skip
    """Weigh the points of the stack and, after the first round, the neighbours of what counts; best and its place."""
    small, evidence, solved, stack, seen, points = space[:11], space[11], space[12], space[13], space[14], space[15]
    constant = table[5]
    while n_stacked > 0:
        n_here = 0
        while n_stacked > 0 and n_here < LANES:
            n_stacked -= 1
            j = stack[n_stacked]
            if evidence[j] == -np.inf:
                if constant[j] > -np.inf:
                    points[n_here] = j
                    n_here += 1
            elif round_ > 0 and evidence[j] > best - _COUNTS:
                n_stacked = _stack_neighbours(j, n_rows, n_columns, down, across, round_, n_stacked, stack, seen)
        if n_here == 0:
            break
        for lane in range(n_here, LANES):
            points[lane] = points[0]
        weigh_points(table, gram, moment, square, n, points, evidence, small)
        for lane in range(n_here):
            if evidence[points[lane]] > best:
                best, place = evidence[points[lane]], points[lane]
        _solve(evidence, best, points, n_here, solved, small)
        if round_ > 0:
            for lane in range(n_here):
                j = points[lane]
                if evidence[j] > best - _COUNTS:
                    n_stacked = _stack_neighbours(j, n_rows, n_columns, down, across, round_, n_stacked, stack, seen)
    return best, place


@njit(**INNER)
def _measure(table, gram, moment, place, sd, space) -> None:
    """Write standard deviations at a point."""
    points = space[15]
    points[:] = place
    factor_arrows(table, gram, moment, points, space[:11])
    spreads(space[:11])
    write_sd(space[:11], 0, sd)


@njit(**INNER)
def _finish(table, gram, moment, n_rows, n_columns, down, across, best, covariance, joint, space) -> float:
    """The weight on the rim, of a single step of the lattice whatever the strides; second moments where wanted."""
    small, evidence, queue, points, weight = space[:11], space[11], space[13], space[15], space[16]
    edge, at_edge, n_queued = table[7], 0.0, 0
    for r in range(0, n_rows, down):
        for c in range(0, n_columns, across):
            j = r * n_columns + c
            if evidence[j] > best - _COUNTS:
                queue[n_queued] = j
                n_queued += 1
                if edge[j]:
                    at_edge += exp(evidence[j] - best) / (down if r == 0 or r == n_rows - 1 else across)
    for start in range(0, n_queued if covariance else 0, LANES):
        n_here = take_lanes(queue, start, n_queued, points)
        weight[:] = 0.0
        for lane in range(n_here):
            weight[lane] = exp(evidence[points[lane]] - best)
        factor_arrows(table, gram, moment, points, small)
        solve_back(small)
        spreads(small)
        add_covariances(small, weight, joint)
    return at_edge


@njit(**OPTIONS)
def integrate_lattice(
    table, gram, moment, square, n, covariance, n_rows, n_columns, widest_gap, uneven,
    mean, halves, sd, shares, joint, space,
) -> None:  # fmt: skip
    """Posterior moments of M data sets over ``n_rows`` times ``n_columns`` points; the rest as in ``arrow.integrate``.

    Halves agree where their means are at most ``widest_gap`` sd apart and their shares at most ``uneven`` from one
    half. Written to ``halves`` and ``shares`` are those of the direction in which they agree less.
    """
    evidence, solved, stack, seen = space[11], space[12], space[13], space[14]
    totals, parts = space[17], space[18]
    for m in range(len(moment)):
        evidence[:] = -np.inf
        seen[:] = -1
        best, place, measured = -np.inf, 0, -1
        down = across = _FIRST
        of_rows, of_columns, round_ = 0.0, 0.0, 0
        while True:
            n_stacked = _stack_first(evidence, best, n_rows, n_columns, down, across, round_, stack, seen)
            best, place = _look(
                table, gram[m], moment[m], square[m], n[m], n_rows, n_columns, down, across, round_, n_stacked,
                best, place, space,
            )  # fmt: skip
            _weigh(evidence, best, n_rows, n_columns, down, across, totals)
            total = totals[0] + totals[1]
            rows_agree = abs(totals[1] / total - 0.5) <= uneven
            columns_agree = abs(totals[3] / total - 0.5) <= uneven
            if (rows_agree or down == 1) and (columns_agree or across == 1):
                if measured != place:
                    _measure(table, gram[m], moment[m], place, sd[m], space)
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
        at_edge = _finish(
            table, gram[m], moment[m], n_rows, n_columns, down, across, best, covariance,
            joint[m if covariance else 0], space,
        )  # fmt: skip
        shares[m, 0] = at_edge / total
        worse = 0 if of_rows > of_columns or totals[0] == 0.0 or totals[1] == 0.0 else 2
        of_odd = totals[1] / total, totals[3] / total
        shares[m, 1] = of_odd[0] if abs(of_odd[0] - 0.5) > abs(of_odd[1] - 0.5) else of_odd[1]
        halves[m, 0], halves[m, 1] = parts[worse], parts[worse + 1]
        totals[0], totals[1] = totals[worse], totals[worse + 1]
        divide(covariance, totals, mean[m], halves[m], joint[m if covariance else 0])
