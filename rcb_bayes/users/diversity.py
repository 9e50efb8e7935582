r"""Covariate diversity: do users differ enough for greedy recommendations to try every arm by themselves?

The constant of Bastani, Bayati and Khosravi ("Mostly exploration-free algorithms for contextual bandits", 2021) is

.. math:: \lambda_0 = \min_{|u| = 1} \lambda_{\min}\left(E[xx' 1\{x'u \ge 0\}]\right).

Above 0, the users on either side of any two arms' border cover all directions, so that greedy learns about both. It is
half of phi0 where x and -x are equally likely, and 0 where all users lie on one side of some plane through the origin:
non-negative features do, and so does an intercept.
"""

import numpy as np

from rcb_bayes.schema import FloatArray
from rcb_bayes.users.empirical import Empirical
from rcb_bayes.users.populations import Ball, Gaussian, Sphere, Uniform
from rcb_bayes.users.protocol import Covariates

_USERS = 4096
_STARTS, _STEPS, _KEPT, _TRIALS = 512, 24, 8, 32
_CHUNK_VALUES = 4_000_000


def covariate_diversity(covariates: Covariates, *, seed: int = 0) -> float:
    """The constant, exact for populations that are symmetric around 0; else the least over directions looked at.

    Parameters
    ----------
    covariates : Covariates
        The users.
    seed : int
        Of the users, where they have to be drawn, and of the directions.

    Returns
    -------
    float
        An upper bound where directions are searched, near the least for up to some ten features.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> from rcb_bayes.users.diversity import covariate_diversity
    >>> covariate_diversity(rcb.Sphere(5)), covariate_diversity(rcb.Uniform([0, 0], [1, 1]))
    (0.1, 0.0)
    """
    # Each of these is symmetric around its mean.
    if isinstance(covariates, Sphere | Ball | Gaussian | Uniform) and not covariates.mean.any():
        return covariates.phi0 / 2.0
    rng = np.random.default_rng(seed)
    if isinstance(covariates, Empirical):
        there = covariates.weights > 0
        users, weights = covariates.rows[there], covariates.weights[there]
        if len(users) > _USERS:
            users, weights = covariates.sample(_USERS, seed=rng), np.full(_USERS, 1.0 / _USERS)
    else:
        users, weights = covariates.sample(_USERS, seed=rng), np.full(_USERS, 1.0 / _USERS)
    return _least(users, weights, rng)


def _least(users: FloatArray, weights: FloatArray, rng: np.random.Generator) -> float:
    """The least over directions: many at random and telling ones, then nearer and nearer to the best of them."""
    d = users.shape[1]
    axes = np.linalg.eigh((users * weights[:, None]).T @ users)[1].T
    telling = np.concatenate([axes, np.eye(d), (weights @ users)[None], users[:_STARTS]])
    directions = _unit(np.concatenate([telling, -telling, rng.standard_normal((_STARTS, d))]))
    values = _constants(users, weights, directions)
    width = 0.5
    for _ in range(_STEPS):
        best = np.argsort(values, kind="stable")[:_KEPT]
        directions, values = directions[best], values[best]
        if values[0] <= 0.0:
            break
        tried = _unit((directions[:, None] + width * rng.standard_normal((_KEPT, _TRIALS, d))).reshape(-1, d))
        directions = np.concatenate([directions, tried])
        values = np.concatenate([values, _constants(users, weights, tried)])
        width *= 0.8
    return float(max(values.min(), 0.0))


def _unit(vectors: FloatArray) -> FloatArray:
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[norm[:, 0] > 0] / norm[norm[:, 0] > 0]


def _constants(users: FloatArray, weights: FloatArray, directions: FloatArray) -> FloatArray:
    """lambda_min(E[xx' 1{x'u >= 0}]) of every direction, and 0 for what rounding leaves, (D,)."""
    n, d = users.shape
    outer = (weights[:, None, None] * users[:, :, None] * users[:, None, :]).reshape(n, d * d)
    step = max(1, _CHUNK_VALUES // max(n, d * d))
    found = []
    for start in range(0, len(directions), step):
        above = (directions[start : start + step] @ users.T >= 0.0).astype(float)
        values = np.linalg.eigvalsh((above @ outer).reshape(-1, d, d))
        scale = np.maximum(values[:, -1], np.finfo(float).tiny)
        found.append(np.where(values[:, 0] > 1e-12 * scale, values[:, 0], 0.0))
    return np.concatenate(found)
