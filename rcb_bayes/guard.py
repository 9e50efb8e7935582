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
    step = max(1, _CHUNK_VALUES // (outlook.n_worlds * outlook.means.shape[1] ** 2))
    parts = []
    for start in range(0, max(len(users), 1), step):
        some = users[start : start + step]
        rewards = outlook.rewards(some)
        scores = rewards if outlook.platform is None else outlook.acted_on(some)
        parts.append(guard_factors(rewards, scores, gamma, epsilon=epsilon, notion=notion, slack=slack))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
    lead = rewards[:, None] - rewards[None] + extra  # (K, K, U, W)
    lead *= chances[:, None]
    gained = np.where(best[:, None], lead, 0.0)
    lost = gained - lead  # never both other than zero
    cross: FloatArray | float = 0.0
    if notion == "definition":
        gained, lost = gained.mean(axis=2, keepdims=True), lost.mean(axis=2, keepdims=True)
        cross = np.einsum("...w,...w->...", gained, lost)
    cuts = _largest_cuts(gained, lost, cross=cross, fixed=fixed, slack=slack)  # (K, K, U)
    cuts[range(k), range(k)] = 1.0
    return np.broadcast_to(cuts.min(axis=1).T, (u, k))


def _largest_cuts(
    gained: FloatArray, lost: FloatArray, *, cross: FloatArray | float, fixed: float, slack: float
) -> FloatArray:
    r"""The largest c in [0, 1] with mean(fixed + gained - c lost) - slack sd >= 0, (..., W) -> (...); 0 if none.

    ``cross`` is the sum over worlds of gained times lost. The bound is concave in c. Where it holds at 0 and not at 1,
    c is the smaller root of
    :math:`(A - c B)^2 = s^2 (v_g - 2 c v_{gl} + c^2 v_l)`.
    """
    n = gained.shape[-1]
    gain, loss = gained.mean(axis=-1), lost.mean(axis=-1)
    parts = ((gained, gain), (lost, loss))
    of_gain, of_loss = ((np.einsum("...w,...w->...", part, part) - n * mean**2) / (n - 1) for part, mean in parts)
    of_both = (cross - n * gain * loss) / (n - 1)

    def bound(c: float) -> FloatArray:
        spread = of_gain - 2.0 * c * of_both + c**2 * of_loss
        return fixed + gain - c * loss - slack * np.sqrt(np.maximum(spread, 0.0))

    whole = (bound(1.0) >= 0.0) | (lost.max(axis=-1) <= 0.0)  # or nothing is ever lost
    a = loss**2 - slack**2 * of_loss
    half = -((fixed + gain) * loss - slack**2 * of_both)  # b / 2
    free = (fixed + gain) ** 2 - slack**2 * of_gain
    root = np.sqrt(np.maximum(half**2 - a * free, 0.0))
    turned = -(half + np.where(half >= 0.0, root, -root))
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([turned / a, free / turned])
    roots = np.where((roots >= 0.0) & (roots <= 1.0), roots, np.inf).min(axis=0)
    cut = np.where((bound(0.0) >= 0.0) & np.isfinite(roots), roots, 0.0)
    return np.where(whole, 1.0, cut)
