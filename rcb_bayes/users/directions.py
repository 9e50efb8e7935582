"""Principal directions of users, turned to where a rate changes most: one or two axes to see them along."""

import numpy as np

from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import percent
from rcb_bayes.users.empirical import Empirical
from rcb_bayes.users.protocol import Covariates

_ONE_FEATURE = 0.95  # a direction with this loading on a feature bears its name
_MOST_NAMED = 3  # features in the name of a direction that has no name of its own
_LEAST_NAMED = 0.25  # of the largest loading


def principal_places(
    users: FloatArray, rates: FloatArray, *, features: tuple[str, ...]
) -> tuple[FloatArray, list[str]]:
    """Where users stand along their one or two principal directions, (U, 1 or 2), and what those are called."""
    directions, names = _principal_directions(users, rates)
    shares = _shares_of_variance(users, directions)
    labels = [
        _direction_label(direction, name, share, features)
        for direction, name, share in zip(directions, names, shares, strict=True)
    ]
    return users @ directions.T, labels


def _principal_directions(users: FloatArray, rates: FloatArray) -> tuple[FloatArray, list[str]]:
    """One or two directions of unit length, (1 or 2, d), each with what it is called."""
    n, d = users.shape
    centred = users - users.mean(axis=0)
    _, spread, directions = np.linalg.svd(centred, full_matrices=False)
    moving = spread > 1e-10 * np.linalg.norm(users)
    names = ["where users vary most", "where they vary next"]
    # Sampled eigenvalues of equal ones spread by about this much.
    tied = moving & (spread**2 >= spread[0] ** 2 * (1.0 - min(0.5, 4.0 * np.sqrt(d / n))))
    if tied.sum() > 1 and np.ptp(rates) > 0:
        directions[tied] = _turned_to(rates, centred @ directions[tied].T) @ directions[tied]
        names = ["where the rate changes most", "across it"]
    chosen = directions[: max(1, min(2, int(moving.sum())))]
    largest = chosen[range(len(chosen)), np.abs(chosen).argmax(axis=1)]
    return chosen * np.sign(largest)[:, None], names[: len(chosen)]


def _shares_of_variance(users: FloatArray, directions: FloatArray) -> FloatArray:
    """The share of the users' variance along each direction; NaN where they do not vary."""
    total = users.var(axis=0).sum()
    if total <= (1e-10 * np.linalg.norm(users)) ** 2:
        return np.full(len(directions), np.nan)
    return (users @ directions.T).var(axis=0) / total


def _turned_to(rates: FloatArray, scores: FloatArray) -> FloatArray:
    """A rotation of the directions behind scores (U, m), (m, m): the first row is where the rate changes most."""
    slope = np.linalg.lstsq(scores, rates - rates.mean(), rcond=None)[0]
    basis = np.column_stack([slope, np.eye(len(slope))]) if np.abs(slope).max() > 0 else np.eye(len(slope))
    return np.linalg.qr(basis)[0].T


def _direction_label(direction: FloatArray, name: str, share: float, features: tuple[str, ...]) -> str:
    feature = int(np.abs(direction).argmax())
    if abs(direction[feature]) >= _ONE_FEATURE:
        more = []
        told = features[feature]
    else:
        told, more = _sum_of(direction, features), [name]
    if len(features) == 1:
        return told
    more += [] if np.isnan(share) else [f"{percent(share)} of the variance"]
    return f"{told} ({', '.join(more)})" if more else told


def _sum_of(direction: FloatArray, features: tuple[str, ...]) -> str:
    """A direction as a sum of named features, the heaviest first: ``0.8 age - 0.6 dose``."""
    size = np.abs(direction)
    order = [int(k) for k in np.argsort(-size) if size[k] >= _LEAST_NAMED * size.max()]
    terms = [f"{'-' if direction[k] < 0 else '+'} {size[k]:.2g} {features[k]}" for k in order[:_MOST_NAMED]]
    rest = " + ..." if len(order) > _MOST_NAMED else ""
    return f"{' '.join(terms).removeprefix('+ ')}{rest}"


def users_to_draw(covariates: Covariates, n: int, *, seed: int) -> FloatArray:
    """Users for a map: the rows of a short table, or as many at random, (U, d)."""
    if isinstance(covariates, Empirical) and covariates.n_rows <= n:
        return covariates.rows
    return covariates.sample(n, seed=seed)
