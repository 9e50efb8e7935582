r"""The linear form of a stage, averaged over the population world by world, for notions that average over users.

With weights w_x, :math:`\sum_x w_x p_i (m_i - m_j + \epsilon)` is a product of matrices in every world, users some at a
time: no cell's terms are written down. What p_i is in every world alike, a_i, is taken from the prior gap exactly;
where a_i is known for any user, as in a cold start with one rate, it is averaged over users of its own, as many as one
likes.
"""

from collections.abc import Callable

import numpy as np

from rcb_bayes.auditing.view import Averages, View
from rcb_bayes.mechanism.margins import below_best, user_leads, world_leads
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.schema import FloatArray

_CHUNK_VALUES = 2_000_000

Fixed = Callable[[FloatArray], FloatArray]
"""The probability of each arm that is the same in all worlds, for users (U, d): (U, K)."""


def averages_of(
    view_of: Callable[[FloatArray], View],
    population: Panel,
    *,
    epsilon: float,
    n_worlds: int,
    fixed: Fixed | None = None,
    fixed_mean: tuple[FloatArray, FloatArray] | None = None,
) -> Averages:
    """Averages over the population of what its users see in W worlds.

    Parameters
    ----------
    view_of : the stage as some users see it
    fixed, fixed_mean : a_i where it is known, with the average of a_i (U_ij + epsilon), (K, K), and its error
    """
    parts: list[Averages] = []
    start = 0
    n = len(population.users)
    step = max(1, _CHUNK_VALUES // n_worlds)
    while start < n:
        some = slice(start, start + step)
        users = population.users[some]
        own = None if fixed is None or fixed_mean is None else fixed(users)
        parts.append(_part(view_of(users), population.weights[some], epsilon=epsilon, fixed=own))
        start += step
        step = max(1, _CHUNK_VALUES // (n_worlds * len(parts[0].chances)))
    return _joined(parts, population, fixed_mean)


def fixed_mean(fixed: Fixed, panel: Panel, *, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """The average of a_i (U_ij + epsilon) over many users, (K, K), and its error."""
    share, prior = fixed(panel.users), panel.prior_rewards
    k = prior.shape[1]
    mean, error = np.zeros((k, k)), np.zeros((k, k))
    for arm in range(k):
        for rival in range(k):
            gap = prior[:, arm] - prior[:, rival] + epsilon
            mean[arm, rival], error[arm, rival] = panel.mean(share[:, arm] * gap)
    return mean, error


def _part(view: View, weights: FloatArray, *, epsilon: float, fixed: FloatArray | None) -> Averages:
    """Of some users; with ``fixed`` (U, K) their part that is the same in all worlds is left to others."""
    chances, rewards, prior = view.chances, view.rewards, view.prior_rewards
    same = chances.min(axis=2) if fixed is None else np.minimum(fixed.T, chances.min(axis=2))  # (K, U)
    moving = chances - same[:, :, None]
    share = weights[:, None]
    below = below_best(rewards)
    varying = world_leads(moving * share, below, epsilon)
    user_values = user_leads(moving, below, epsilon)
    gap = prior[:, :, None] - prior[:, None, :] + epsilon  # (U, K, K)
    if fixed is None:
        own = same.T[:, :, None] * gap
        user_values = user_values + own
        constant = np.tensordot(weights, own, axes=(0, 0))
    else:
        constant = np.zeros(gap.shape[1:])
    return Averages(
        values=varying + constant[:, :, None],
        varying=varying,
        chances=(chances * share).sum(axis=1),
        user_values=user_values,
        user_chances=chances.mean(axis=2).T,
        fixed_error=np.zeros(constant.shape),
        is_exact=False,
        n_events=(view.best > 0.0).any(axis=1),  # (K, W), counted once all users are there
        least=_least_leads(chances, rewards),
    )


def _joined(parts: list[Averages], population: Panel, fixed_mean: tuple[FloatArray, FloatArray] | None) -> Averages:
    none = np.zeros(parts[0].least.shape)
    constant, error = (none, none) if fixed_mean is None else fixed_mean
    events = np.any([part.n_events for part in parts], axis=0)
    return Averages(
        values=np.sum([part.values for part in parts], axis=0) + constant[:, :, None],
        varying=np.sum([part.varying for part in parts], axis=0),
        chances=np.sum([part.chances for part in parts], axis=0),
        user_values=np.concatenate([part.user_values for part in parts]),
        user_chances=np.concatenate([part.user_chances for part in parts]),
        fixed_error=error,
        is_exact=population.is_exact,
        n_events=events.sum(axis=1),
        least=np.min([part.least for part in parts], axis=0),
    )


def _least_leads(chances: FloatArray, rewards: FloatArray) -> FloatArray:
    """The lowest m_i - m_j where arm i is recommended, (K, K); infinite for an arm that never is."""
    k = len(chances)
    out = np.full((k, k), np.inf)
    for arm in range(k):
        used = chances[arm] > 0.0
        if used.any():
            out[arm] = np.where(used, rewards[arm] - rewards, np.inf).min(axis=(1, 2))
    return out
