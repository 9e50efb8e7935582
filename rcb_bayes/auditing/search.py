"""The users for whom a stage stands worst, looked for in worlds of their own."""

from collections.abc import Callable
from typing import cast

import numpy as np

from rcb_bayes.auditing.view import Asked, View
from rcb_bayes.market import Market
from rcb_bayes.mechanism.loops import lowest_forms
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.search import worst_users
from rcb_bayes.schema import FloatArray

SEARCH_WORLDS = 300
_ROUGH_WORLDS = 64  # in which the panel is looked at first
_CHUNK_VALUES = 300_000
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
        found.append(_lowest(view.counted(), asked))
    return np.concatenate(found)


def _lowest(view: View, asked: Asked) -> FloatArray:
    """The same of one view; the error allows for worlds not seen in which the arm is best."""
    fixed, extra = asked.notion.by_user.epsilon_parts(asked.epsilon)
    return lowest_forms(
        view.chances, view.rewards, view.prior_rewards, view.weights, fixed=fixed, extra=extra, unseen=_UNSEEN
    )
