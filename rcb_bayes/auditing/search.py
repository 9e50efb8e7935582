"""The users for whom a stage stands worst, looked for in worlds of their own."""

from collections.abc import Callable
from typing import cast

import numpy as np

from rcb_bayes.auditing.cells import centred_moments, products
from rcb_bayes.auditing.view import Asked, View
from rcb_bayes.market import Market
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.search import worst_users
from rcb_bayes.schema import FloatArray

SEARCH_WORLDS = 300
_ROUGH_WORLDS = 64  # in which the panel is looked at first
_CHUNK_VALUES = 100_000  # a few arrays of them stay in a core's own cache
_UNSEEN = 4.0

ViewOf = Callable[[FloatArray, slice], View]
"""A stage as users (U, d) see it in some of the worlds."""


def worst_in(view_of: ViewOf, market: Market, panel: Panel, asked: Asked, *, rng: np.random.Generator) -> FloatArray:
    """Users whose constraint is the furthest below, or the least above, in units of its error; (n, d)."""
    k = market.n_arms
    return worst_users(
        lambda users: _scores(view_of, users, asked, n_worlds=SEARCH_WORLDS, n_arms=k),
        market.population,
        panel,
        rng=rng,
        roughly=lambda users: _scores(view_of, users, asked, n_worlds=_ROUGH_WORLDS, n_arms=k),
    )[0]


def _scores(view_of: ViewOf, users: FloatArray, asked: Asked, *, n_worlds: int, n_arms: int) -> FloatArray:
    """The lowest mean over worlds of the linear form, in errors, over arms and rivals; (U,).

    In single precision: scores rank users, who are then judged in other worlds, in double precision.
    """
    found, short = [], cast("FloatArray", users.astype(np.float32))
    step = max(1, _CHUNK_VALUES // (n_worlds * n_arms))
    for start in range(0, len(users), step):
        view = view_of(short[start : start + step], slice(0, n_worlds))
        mean, error = _moments(view.counted(), asked)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error > 0, mean / error, np.where(mean < 0, -np.inf, np.inf))
        found.append(z.min(axis=(1, 2)))
    return np.concatenate(found)


def _moments(view: View, asked: Asked) -> tuple[FloatArray, FloatArray]:
    """Mean and error of every cell, (U, K, K) each; the error allows for worlds not seen in which the arm is best."""
    fixed, extra = asked.notion.by_user.epsilon_parts(asked.epsilon)
    w = view.n_worlds
    always = view.chances.min(axis=2)
    moving = view.chances - always[:, :, None]
    if view.weights is not None:
        moving *= view.weights
    centre = view.rewards.mean(axis=2)
    apart = view.rewards - centre[:, :, None]
    moments = centred_moments(moving, apart, centre)
    prior = view.prior_rewards
    certain = always.T[:, :, None] * (prior[:, :, None] - prior[:, None, :] + extra) + fixed
    mean = moments.mean(extra)
    spread = np.maximum(moments.mean_square(extra) - mean**2, 0.0) / (w - 1)
    own = products(apart, apart) / w
    of_arm = np.einsum("uii->ui", own)
    of_leads = np.maximum(of_arm[:, :, None] + of_arm[:, None, :] - 2.0 * own, 0.0)
    return certain + mean, np.sqrt(spread + (_UNSEEN / w) ** 2 * of_leads)
