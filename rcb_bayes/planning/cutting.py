r"""Cuts: in every leaf one further split for each group of its values, such as the factors of an arm.

Where an arm may be recommended to users, and where a stage may explore them, is a question of its own for each arm and
stage, and a tree has to share its leaves among all of them. So a leaf has, for each group of values, a half-space
:math:`a'z > t` in which users are given more. z has their features, the lead of the group's arms before any data, and
the crowd of arms near the best (``planning.leaves.Hopes``). Who loses at most epsilon by an arm is told by its lead
alone, and how often an arm turns out to be the best by its lead and the crowd, nearly. The direction is one of these,
or that of a linear classifier (squared hinge, a few Newton steps) with which users who may have more are told from
others; the best is then turned feature by feature as long as more is kept. What is given on the far side is the least
of the users there, and below the least of all users of the leaf: so that a cut which moves on is on the safe side.

Every cut rests on the few users who touch it, and of n users at random about one in n for each of those lies beyond
what was seen. A cut that keeps next to nothing is therefore none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcb_bayes.schema import FloatArray

_FEWEST = 4  # users with weights above a cut
_NEWTON = 6
_RIDGE = 1e-4
_TURNS = (0.3, 0.1)  # of the largest weight, by which a direction is turned
_DIGITS = 4  # of a direction: what is shorter to write is as good
MOST_GROUPS = 64  # with cuts of their own
_CROWDS = (0.0, 0.05, 0.1, 0.2)  # of leads, in widths


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cut:
    """Users with a'z > threshold are given ``above``, (q,); what that keeps beyond the least of the leaf."""

    weights: FloatArray
    threshold: float
    above: FloatArray
    worth: float


def along(users: FloatArray, weights: FloatArray) -> FloatArray:
    """a'x of users, summed feature by feature as tables do it, (U,)."""
    out = users[:, 0] * weights[0]
    for j in range(1, users.shape[1]):
        out += users[:, j] * weights[j]
    return out


def grouped(weights: FloatArray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Groups (q,) of values with weights (U, q), no more than can be cut, and which of those there were they are.

    The lightest are one, which has no cuts.
    """
    mass = np.bincount(groups, weights=weights.sum(axis=0))
    if len(mass) <= MOST_GROUPS:
        return groups, np.arange(len(mass))
    order = np.argsort(-mass, kind="stable")
    return np.minimum(np.argsort(order, kind="stable"), MOST_GROUPS)[groups], order[:MOST_GROUPS]


def best_cuts(
    users: FloatArray,
    looks: FloatArray,
    values: FloatArray,
    weights: FloatArray,
    groups: np.ndarray,
    *,
    width: float,
    n_groups: int,
    worth: float = 0.0,
    known: Sequence[Cut | None] = (),
    turn: bool = True,
    only: np.ndarray | None = None,
) -> list[Cut | None]:
    """The cut of each group of values, (U, q) with weights (U, q), of the users of a leaf; None where none keeps more.

    ``looks`` are leads and crowds of that ``width``, (U, G + 1), and ``worth`` is what a cut has to keep. Values beyond
    the first ``n_groups`` have none. Cuts that are
    ``known`` from other users of the leaf are tried with the thresholds that these ask for; without ``turn`` no others
    are. Those of other groups than ``only`` stay as they are.
    """
    least = values.min(axis=0)
    found: list[Cut | None] = []
    for group in range(n_groups):
        if only is not None and group not in only:
            found.append(known[group])
            continue
        columns = groups == group
        own = values[:, columns], weights[:, columns], least[columns]
        loses = (own[1] * (own[0] - own[2])).sum() > worth
        z = np.column_stack([users, looks[:, group], looks[:, -1]])
        old = known[group] if known and loses else None
        cut = None if old is None else _placed(z, old.weights, *own)
        other = _turned(z, *own, width=width) if turn and loses else None
        both = [each for each in (cut, other) if each is not None and each.worth > worth]
        found.append(max(both, key=lambda each: each.worth, default=None))
    return found


def _turned(
    users: FloatArray, values: FloatArray, weights: FloatArray, least: FloatArray, *, width: float
) -> Cut | None:
    """The best cut that is found for one group."""
    directions = [_classifier(users, (values - least) @ weights.sum(axis=0))]
    directions += [_short(np.array([*[0.0] * (users.shape[1] - 2), 1.0, -crowd * width])) for crowd in _CROWDS]
    placed = [_placed(users, one, values, weights, least) for one in directions if one is not None]
    best = max((cut for cut in placed if cut is not None), key=lambda cut: cut.worth, default=None)
    for size in _TURNS:
        for j in range(users.shape[1]):
            for step in (-size, size):
                if best is None:
                    return None
                turned = best.weights.copy()
                turned[j] += step
                other = _placed(users, _short(turned), values, weights, least)
                best = other if other is not None and other.worth > best.worth else best
    return best


def _classifier(users: FloatArray, target: FloatArray) -> FloatArray | None:
    """The direction that tells high targets from low ones, by squared hinge loss."""
    low, high = target.min(), target.max()
    signs = 2.0 * (target - low) / (high - low) - 1.0
    design = np.column_stack([np.ones(len(users)), users])
    ridge = _RIDGE * len(users) * np.eye(design.shape[1])
    counts, found = np.ones(len(users), dtype=bool), np.zeros(design.shape[1])
    for _ in range(_NEWTON):
        some = design[counts]
        found = np.linalg.solve(some.T @ some + ridge, some.T @ signs[counts])
        scores = design @ found
        now = ~((signs > 0.99) & (scores > 1.0) | (signs < -0.99) & (scores < -1.0))
        if not now.any() or (now == counts).all():
            break
        counts = now
    return _short(found[1:]) if np.abs(found[1:]).max() > 0.0 else None


def _short(weights: FloatArray) -> FloatArray:
    size = np.abs(weights).max()
    return np.round(weights / size, _DIGITS) if size > 0.0 else weights


def _placed(
    users: FloatArray,
    direction: FloatArray,
    values: FloatArray,
    weights: FloatArray,
    least: FloatArray,
) -> Cut | None:
    """The threshold along a direction that keeps the most; it stands right below the first user who is above."""
    z = along(users, direction)
    order = np.argsort(z, kind="stable")[::-1]  # from the highest on
    z, own = z[order], weights[order]
    above = np.minimum.accumulate(values[order], axis=0)
    worth = ((above - least) * np.cumsum(own, axis=0)).sum(axis=1)
    n_above = np.cumsum(own.sum(axis=1) > 0.0)
    is_last = np.append(z[1:] < z[:-1], False)
    worth = np.where(is_last & (n_above >= _FEWEST), worth, 0.0)
    k = int(worth.argmax())
    if not worth[k] > 0.0:
        return None
    threshold = float(np.nextafter(z[k], -np.inf))
    return Cut(weights=direction, threshold=threshold, above=above[k], worth=float(worth[k]))
