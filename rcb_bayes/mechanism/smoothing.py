r"""How often an arm is the best before anybody has tried it, and what its rivals are worth then: in closed form.

That an unpopular arm i is the organic one, :math:`a^* = i`, is rare, and what a stage is judged by. In a Gaussian
belief with independent arms an untried arm is worth its prior mean :math:`c = \mu_0(x, i)` in every world, and the
posterior means of the others are, given who was sampled, independent normals :math:`N(\mu_j, s_j^2)`. With
:math:`z_j = (c - \mu_j) / s_j`,

.. math:: \Pr(a^* = i) = \prod_j \Phi(z_j), \qquad E[m_j | a^* = i] = \mu_j - s_j \phi(z_j) / \Phi(z_j).

Averages over worlds are then averages over designs only, which hardly differ; no world need be lucky enough to show
the event. Arms that tie at the top, with nothing in them that varies, share the event as ``choice`` says.

Where arms are coupled an untried one varies, too. Then one direction is averaged out: with f the rival that users like
best before any data and t the standardised lead of arm i over f, :math:`m_j = r_j + a_j t`, t standard normal whatever
r, and a_j the covariance of m_j with t. Arm i is the best for t between two crossings, so that its chance and what all
arms are then worth are again in closed form, given r. Of two arms nothing else is left.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.choice import TIE, best_shares
from rcb_bayes.mechanism.loops import below_settled
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import FloatArray

_NEVER = 1e-200  # a chance so small that its products would lose their digits
_LEVEL = 1e-9  # errors of a lead: slopes that differ by less do not cross


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettledBest:
    """The organic arm being one whose worth is settled, given the design of each world.

    Attributes
    ----------
    shares : the probability that arm i is the organic one, (K, U, W); zero for arms whose posterior mean varies
    rewards : what users expect of every arm if so, E[m_j | a* is settled], (K, U, W)
    """

    shares: FloatArray
    rewards: FloatArray


def settled_best(prior_rewards: FloatArray, variances: FloatArray) -> SettledBest:
    """The law of the event that the best arm is one whose posterior mean does not vary.

    Parameters
    ----------
    prior_rewards : mu0(x, j), (U, K), the mean of every m_j(x) over worlds
    variances : Var(m_j(x)) given the design of each world, (K, U, W); at least one arm's is zero
    """
    mean = np.broadcast_to(prior_rewards.T[:, :, None], variances.shape)
    varies = variances > 0.0
    settled = np.where(varies, -np.inf, mean)
    best = settled.max(axis=0)
    chance, rewards = np.ones(variances.shape[1:]), mean.copy()
    for arm in np.flatnonzero(varies.any(axis=(1, 2))).tolist():
        below_settled(best, variances[arm], chance, rewards[arm])
    chance[chance < _NEVER] = 0.0
    return SettledBest(shares=best_shares(settled, axis=0) * chance, rewards=rewards)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BestAlong:
    """An arm being the organic one, given all but one direction in each world.

    ``chance`` is that it is, (U, W), and ``rewards`` what users expect of every arm if so, (K, U, W).
    """

    chance: FloatArray
    rewards: FloatArray


def favourites(prior_rewards: FloatArray, arm: int) -> np.ndarray:
    """The rival of an arm that each user likes best before any data, (U, K) -> (U,)."""
    others = prior_rewards.copy()
    others[:, arm] = -np.inf
    return others.argmax(axis=1)


def best_along(
    rewards: FloatArray, prior_rewards: FloatArray, with_lead: FloatArray, *, arm: int, rivals: np.ndarray
) -> BestAlong:
    """The law of the event that an arm is the best, its lead over each user's rival being averaged out.

    Parameters
    ----------
    rewards : m_j(x) in every world, (K, U, W)
    prior_rewards : their means, (U, K)
    with_lead : Cov(m_j, m_i - m_f) given the design, (K, U, W)
    rivals : f of each user, (U,)
    """
    from scipy.special import ndtr

    users = np.arange(len(rivals))
    variance = np.maximum(with_lead[arm] - with_lead[rivals, users], 0.0)  # (U, W)
    spread = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(variance > 0.0, with_lead / spread, 0.0)
        gap = (prior_rewards[users, arm] - prior_rewards[users, rivals])[:, None]
        t = np.where(variance > 0.0, (rewards[arm] - rewards[rivals, users] - gap) / spread, 0.0)
    rest = rewards - slope * t
    low, high = np.full(t.shape, -np.inf), np.full(t.shape, np.inf)
    n_tied = np.ones(t.shape)
    for rival in range(len(rewards)):
        if rival == arm:
            continue
        lead, rise = rest[arm] - rest[rival], slope[arm] - slope[rival]
        level = np.abs(rise) <= _LEVEL * spread
        crossing = -lead / np.where(level, 1.0, rise)
        low = np.where(~level & (rise > 0.0), np.maximum(low, crossing), low)
        high = np.where(~level & (rise < 0.0), np.minimum(high, crossing), high)
        scale = TIE * np.maximum(np.abs(rest[arm]), 1.0)
        n_tied += level & (np.abs(lead) <= scale)
        high = np.where(level & (lead < -scale), -np.inf, high)
    # Both ends on the side where the tail is thin, so that no digits are lost.
    turned = low > 0.0
    one, two = np.where(turned, -high, low), np.where(turned, -low, high)
    chance = np.where(high > low, ndtr(two) - ndtr(one), 0.0)
    chance[chance < _NEVER] = 0.0
    moment = np.where(chance > 0.0, (_density(low) - _density(high)) / np.where(chance > 0.0, chance, 1.0), 0.0)
    return BestAlong(chance=chance / n_tied, rewards=rest + slope * moment)


def untried_best(
    law: MeanLaw, users: FloatArray, prior_rewards: FloatArray, rewards: FloatArray | None, arm: int
) -> BestAlong:
    """The law of the event that an arm which nobody has tried is the best one, in every world, for users (U, d).

    Plans and audits both ask here.

    Parameters
    ----------
    prior_rewards : mu0(x, j), (U, K)
    rewards : m_j(x) in every world, (K, U, W); of independent arms they say nothing that the law does not, and may be
        left out
    """
    if law.is_coupled:
        assert rewards is not None  # as is said above
        rivals = favourites(prior_rewards, arm)
        with_lead = law.covariances(users, arm)
        for rival in np.unique(rivals).tolist():
            own = rivals == rival
            with_lead[:, own] -= law.covariances(users[own], rival)
        return best_along(rewards, prior_rewards, with_lead, arm=arm, rivals=rivals)
    best = settled_best(prior_rewards, law.variances(users))
    return BestAlong(chance=best.shares[arm], rewards=best.rewards)


def spread_of(terms: FloatArray) -> FloatArray:
    """Standard deviations over worlds, which are last; none where what is left is rounding."""
    spread = terms.std(axis=-1, ddof=1)
    return np.where(spread > TIE * np.abs(terms).max(axis=-1), spread, 0.0)


def _density(values: FloatArray) -> FloatArray:
    return np.exp(-0.5 * np.square(values)) / np.sqrt(2.0 * np.pi)
