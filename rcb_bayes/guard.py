r"""The guard: how much of an arm's off-best probability users will follow.

Inverse-proportional-gap sampling recommends arms that are not the best it knows of, and under a strong prior users lose
by that. Scaling p_i everywhere changes nothing, the ratio stays; so the guard cuts the *off-best* part only,
:math:`p_i \to c_i(x) p_i` where i is not the best arm b, and gives the mass to b. With

.. math:: g_{ij} = E[1\{b = i\} p_i (m_i - m_j + \epsilon)], \qquad l_{ij} = E[1\{b \ne i\} p_i (m_j - m_i - \epsilon)]

the constraint holds from :math:`c_i = \min_j g_{ij} / l_{ij}` down. It is taken as the largest c whose predicted audit
bound, mean less ``slack`` standard deviations over worlds, is not negative. It depends on the epoch and on x, never on
the data of the run at hand: a cut that did would tell users about them.
"""

import numpy as np

from rcb_bayes.choice import is_best
from rcb_bayes.kernel import ipgs_probabilities
from rcb_bayes.margins import Notion
from rcb_bayes.rates import LinearOutlook
from rcb_bayes.schema import FloatArray

_CHUNK_VALUES = 1_000_000
_STEPS = 20


def users_guard(
    outlook: LinearOutlook,
    gamma: FloatArray,
    users: FloatArray,
    *,
    epsilon: float,
    notion: Notion,
    slack: float,
) -> FloatArray:
    """c_i of users (U, d), some at a time, (U, K)."""
    step = max(1, _CHUNK_VALUES // (outlook.n_worlds * outlook.means.shape[1]))
    return np.concatenate(
        [
            guard_factors(
                outlook.rewards(some), outlook.acted_on(some), gamma, epsilon=epsilon, notion=notion, slack=slack
            )
            for some in (users[start : start + step] for start in range(0, max(len(users), 1), step))
        ]
    )


def guard_factors(
    rewards: FloatArray,
    scores: FloatArray,
    gamma: FloatArray,
    *,
    epsilon: float,
    notion: Notion,
    slack: float,
) -> FloatArray:
    """c_i of every user, (U, K), from simulated states; one for all users under ``definition``.

    Parameters
    ----------
    rewards : what users expect, m_j(x), (K, U, W)
    scores : what the platform expects, (K, U, W)
    gamma : the spread in every world, (W,)
    slack : standard deviations over worlds that are left for the audit's bands
    """
    k, u, w = rewards.shape
    chances = ipgs_probabilities(scores.reshape(k, u * w), np.tile(gamma, u)).reshape(k, u, w)
    best = is_best(scores, axis=0)
    fixed, extra = (epsilon, 0.0) if notion == "proof" else (0.0, epsilon)
    out = np.ones((u, k))
    for i in range(k):
        at_best, elsewhere = np.where(best[i], chances[i], 0.0), np.where(best[i], 0.0, chances[i])
        own = rewards[i] + extra
        for j in range(k):
            if i != j:
                lead = own - rewards[j]
                gained, lost = at_best * lead, -elsewhere * lead  # (U, W), never both other than zero
                if notion == "definition":
                    gained, lost = gained.mean(axis=0, keepdims=True), lost.mean(axis=0, keepdims=True)
                np.minimum(out[:, i], _largest_cut(gained, lost, fixed=fixed, slack=slack), out=out[:, i])
    return out


def _largest_cut(gained: FloatArray, lost: FloatArray, *, fixed: float, slack: float) -> FloatArray:
    """The largest c in [0, 1] with mean(fixed + gained - c lost) - slack sd >= 0, (U, W) -> (U,); 0 if none."""
    n = gained.shape[1]
    gain, loss = gained.mean(axis=1), lost.mean(axis=1)
    of_gain, of_loss, of_both = (
        (np.einsum("uw,uw->u", one, two) - n * first * second) / (n - 1)
        for one, two, first, second in (
            (gained, gained, gain, gain),
            (lost, lost, loss, loss),
            (gained, lost, gain, loss),
        )
    )

    def holds(c: FloatArray | float) -> np.ndarray:
        spread = of_gain - 2.0 * c * of_both + c**2 * of_loss
        return fixed + gain - c * loss - slack * np.sqrt(np.maximum(spread, 0.0)) >= 0.0

    low, high = np.zeros(len(gain)), np.ones(len(gain))
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        fits = holds(middle)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    never_lost = lost.max(axis=1) <= 0.0  # nothing to cut: the arm is as good as any where it is not the best
    return np.where(never_lost | holds(1.0), 1.0, low)
