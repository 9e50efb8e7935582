"""The users for whom a stage stands worst, looked for in worlds of their own."""

from collections.abc import Callable

import numpy as np

from rcb_bayes.auditing.view import Asked, View, cell_terms
from rcb_bayes.market import Market
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.search import worst_users
from rcb_bayes.schema import FloatArray

SEARCH_WORLDS = 300
_CHUNK_USERS = 25
_UNSEEN = 4.0

ViewOf = Callable[[FloatArray, slice], View]
"""A stage as users (U, d) see it in some of the worlds."""


def worst_in(view_of: ViewOf, market: Market, panel: Panel, asked: Asked, *, rng: np.random.Generator) -> FloatArray:
    """Users whose constraint is the furthest below, or the least above, in units of its error; (n, d)."""
    return worst_users(lambda users: _scores(view_of, users, asked), market.covariates, panel, rng=rng)[0]


def _scores(view_of: ViewOf, users: FloatArray, asked: Asked) -> FloatArray:
    """The lowest mean over worlds of the linear form, in errors, over arms and rivals; (U,)."""
    found = []
    for start in range(0, len(users), _CHUNK_USERS):
        mean, error = _moments(view_of(users[start : start + _CHUNK_USERS], slice(0, SEARCH_WORLDS)), asked)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0, mean / error, np.where(mean < 0, -np.inf, np.inf))
        found.append(z.min(axis=(0, 1)))
    return np.concatenate(found)


def _moments(view: View, asked: Asked) -> tuple[FloatArray, FloatArray]:
    """Mean and error of every cell, (K, K, U) each; the error allows for worlds not seen in which the arm is best."""
    k, u, w = view.chances.shape
    mean, error = np.zeros((k, k, u)), np.zeros((k, k, u))
    for arm in range(k):
        terms = cell_terms(view, arm, epsilon=asked.epsilon, notion=asked.notion.by_user)  # (K, U, W)
        unseen = _UNSEEN / w * (view.rewards[arm] - view.rewards).std(axis=2)  # (K, U)
        mean[arm] = terms.mean(axis=2)
        error[arm] = np.hypot(terms.std(axis=2, ddof=1) / np.sqrt(w), unseen)
    return mean, error
