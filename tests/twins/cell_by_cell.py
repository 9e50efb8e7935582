"""The cells of a view one by one, from their terms in every world: what products over worlds have to agree with.

A world of weight omega counts omega times: a world of integer weight might as well have been drawn that often.
"""

from dataclasses import dataclass, field

import numpy as np

from rcb_bayes.auditing.view import View
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.mechanism.margins import FEW_EVENTS, steadied_terms
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.schema import FloatArray

Place = tuple[int, ...]


@dataclass
class PlainCells:
    """By user, arm and rival; under a notion that averages over users by arm and rival."""

    estimate: dict[Place, float] = field(default_factory=dict)
    error: dict[Place, float] = field(default_factory=dict)
    margin_error: dict[Place, float] = field(default_factory=dict)
    always_holds: dict[Place, bool] = field(default_factory=dict)
    n_events: dict[Place, int] = field(default_factory=dict)
    n_negative: dict[Place, int] = field(default_factory=dict)
    gain: dict[Place, float] = field(default_factory=dict)
    loss: dict[Place, float] = field(default_factory=dict)
    least: dict[Place, float] = field(default_factory=dict)
    thin: dict[Place, bool] = field(default_factory=dict)


def plain_cells(view: View, notion: Notion, epsilon: float) -> PlainCells:
    """Every cell of a view whose worlds all count, under a notion that asks of each user by herself."""
    k, u, w = view.chances.shape
    weights = np.ones(w) if view.weights is None else view.weights
    out = PlainCells()
    for arm in range(k):
        chances = view.chances[arm]
        terms = steadied_terms(chances, view.rewards, view.prior_rewards, arm=arm, epsilon=epsilon, notion=notion)
        for user in range(u):
            if not chances[user].max() > 0:
                continue
            for rival in range(k):
                if rival != arm:
                    lead = view.rewards[arm, user] - view.rewards[rival, user] + epsilon
                    best = view.best[arm, user]
                    place = (user, arm, rival)
                    _enter(out, place, terms[rival, user], chances[user], lead, best, weights, notion, epsilon)
    return out


def _enter(
    out: PlainCells,
    place: Place,
    terms: FloatArray,
    chances: FloatArray,
    lead: FloatArray,
    best: FloatArray,
    weights: FloatArray,
    notion: Notion,
    epsilon: float,
) -> None:
    _, extra = notion.epsilon_parts(epsilon)
    always = chances.min()
    moving = (chances - always) * weights
    # E[omega (m_i - m_j)] is the prior gap, so that what never moves is not weighed.
    certain = terms - (chances - always) * (lead - epsilon + extra)
    own = certain[0]
    values = own + (chances - always) * (lead - epsilon + extra)
    form = own + (moving * (lead - epsilon + extra)).mean()
    mass = 1.0 if notion.is_joint else always + moving.mean()
    out.estimate[place], out.error[place] = form, _error(values, weights)
    masses = notion.mass(chances)
    differing = (masses != masses.min()).sum()
    ratio = 0.0 if 0 < differing < FEW_EVENTS else form / mass
    out.margin_error[place] = _error(values - ratio * masses, weights) / mass
    holds = bool(values.min() >= -TIE)
    least = np.where(chances > 0, lead, np.inf).min() - epsilon
    out.always_holds[place] = holds or least >= -epsilon
    out.least[place] = max(least, -epsilon) if holds else least
    out.n_events[place], out.n_negative[place] = int((best > 0).sum()), int((moving * lead < 0).sum())
    scale = (weights**2).mean()
    out.gain[place] = scale * max(lead.std() + epsilon, np.where(best == 0, 0.0, lead).max())
    out.loss[place] = np.abs(lead).max() * np.where(best == 0, moving, 0.0).max()
    out.thin[place] = (values != np.median(values)).sum() < FEW_EVENTS


def _error(values: FloatArray, weights: FloatArray) -> float:
    """Of a weighted mean over worlds."""
    moved = weights * (values - (weights * values).mean())
    return float(np.sqrt((moved**2).mean() / (len(values) - (weights**2).mean())))
