r"""How often an arm is the best before anybody has tried it, and what its rivals are worth then: in closed form.

That an unpopular arm i is the organic one, :math:`a^* = i`, is rare, and what a stage is judged by. In a Gaussian
belief with independent arms an untried arm is worth its prior mean :math:`c = \mu_0(x, i)` in every world, and the
posterior means of the others are, given who was sampled, independent normals :math:`N(\mu_j, s_j^2)`. With
:math:`z_j = (c - \mu_j) / s_j`,

.. math:: \Pr(a^* = i) = \prod_j \Phi(z_j), \qquad E[m_j | a^* = i] = \mu_j - s_j \phi(z_j) / \Phi(z_j).

Averages over worlds are then averages over designs only, which hardly differ; no world need be lucky enough to show
the event. Arms that tie at the top, with nothing in them that varies, share the event as ``choice`` says.

Where arms are coupled, or the arm has samples, it varies, too. Its leads :math:`l_j = m_i - m_j` are then jointly
normal given the design, and :math:`a^* = i` says that none is negative. The leads are gone through one after the other,
that over the rival whom users like best before any data first: each is drawn where it is not negative, given those
before, and its chance to be so is a factor (Geweke, Hajivassiliou and Keane). Of the last one the mean is taken. So
every draw shows the event, of two arms nothing is left to draw, and of more a few points of a lattice do, shifted at
random from world to world.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.choice import TIE, best_shares
from rcb_bayes.mechanism.loops import below_settled
from rcb_bayes.posterior.preposterior import MeanLaw
from rcb_bayes.schema import FloatArray

_NEVER = 1e-200  # a chance so small that its products would lose their digits
_NOTHING = 1e-10  # of the variance of a lead: what is left of it then is rounding
_POINTS = 4  # of a lattice in each world, which has hundreds of neighbours with other shifts
_TURNS = 40
_LEAST_POINT = 1e-12


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
class Best:
    """An arm being the organic one, given the design of each world.

    ``chance`` is that it is, (U, W), and ``leads`` what it is worth beyond every arm if so, (K, U, W).
    """

    chance: FloatArray
    leads: FloatArray


def best_of(law: MeanLaw, users: FloatArray, prior_rewards: FloatArray, arm: int) -> Best:
    """The law of the event that an arm is the best one, for users (U, d) who expect so much before any data, (U, K).

    Plans and audits both ask here.
    """
    variances = None if law.is_coupled else law.variances(users)
    if variances is not None and not variances[arm].any():
        found = settled_best(prior_rewards, variances)
        return Best(chance=found.shares[arm], leads=found.rewards[arm] - found.rewards)
    return leading(prior_rewards, law.leads(users, arm), arm=arm)


def leading(prior_rewards: FloatArray, covariance: FloatArray, *, arm: int, n_points: int = _POINTS) -> Best:
    """The same from the covariances of the arm's leads given the design, (K, K, U, W).

    ``n_points`` of a lattice are taken where there are more than two arms.
    """
    from scipy.special import ndtr, ndtri

    n_arms, n_users, n_worlds = covariance.shape[1:]
    n, who = n_arms - 1, np.arange(n_users)
    others = np.delete(np.arange(n_arms), arm)
    # What does not vary leaves nothing to draw, and comes first.
    is_settled = ~(covariance[others, others] > 0.0).any(axis=2)  # (J, U)
    rivals = others[np.lexsort((-prior_rewards.T[others], ~is_settled), axis=0)]
    ordered = covariance[rivals[:, None], rivals[None, :], who]  # (J, J, U, W)
    means = (prior_rewards[:, arm] - prior_rewards[who, rivals])[:, :, None]  # (J, U, 1)
    points = _lattice(n_worlds, n - 1, n_points if n > 1 else 1)  # (J - 1, R, 1, W)
    shape = (points.shape[1], n_users, n_worlds)
    chance, n_tied = np.ones(shape), np.ones(shape[1:])
    factors, drawn = np.zeros(ordered.shape), np.empty((n, *shape))
    leads = np.empty((n, *shape))
    for k in range(n):
        whole = ordered[k, k]
        left = whole - np.square(factors[k, :k]).sum(axis=0)
        varies = left > _NOTHING * np.maximum(whole, 0.0)
        spread = np.sqrt(np.where(varies, left, 0.0))
        own = means[k] + np.einsum("cuw,cruw->ruw", factors[k, :k], drawn[:k])
        low = np.where(varies, -own / np.where(varies, spread, 1.0), -np.inf)
        settled = own >= -TIE * np.maximum(np.abs(means[k]), 1.0)
        share = np.where(varies, ndtr(-low), settled)
        n_tied += ~(whole > 0.0) & (np.abs(means[k]) <= TIE)
        chance *= share
        if k < n - 1:
            drawn[k] = np.where(varies, -ndtri(np.maximum(points[k] * share, _NEVER)), 0.0)  # far out, but finite
            for later in range(k + 1, n):
                apart = ordered[later, k] - (factors[later, :k] * factors[k, :k]).sum(axis=0)
                factors[later, k] = np.where(varies, apart / np.where(varies, spread, 1.0), 0.0)
        else:
            drawn[k] = np.where(varies & (share > 0.0), _density(low) / np.where(share > 0.0, share, 1.0), 0.0)
        leads[k] = own + spread * drawn[k]
    chance[chance < _NEVER] = 0.0
    mean_chance = chance.mean(axis=0)
    out = np.zeros((n_arms, n_users, n_worlds))
    weighted = (chance * leads).mean(axis=1)
    out[rivals, who] = np.divide(weighted, mean_chance, out=np.zeros(weighted.shape), where=mean_chance > 0.0)
    return Best(chance=mean_chance / n_tied, leads=out)


def _lattice(n_worlds: int, n_dims: int, n_points: int) -> FloatArray:
    """Points in the unit cube, (D, R, 1, W): those of a lattice, shifted at random from world to world."""
    if not n_dims:
        return np.empty((0, 1, 1, n_worlds))
    shifts = np.random.default_rng(0).random((n_worlds, n_dims))  # of the first worlds the same, however many
    root = 2.0
    for _ in range(_TURNS):  # x^(D + 1) = x + 1, as of the golden ratio
        root = (1.0 + root) ** (1.0 / (n_dims + 1))
    steps = np.arange(n_points)[:, None] / np.concatenate([[n_points], np.full(n_dims - 1, 1.0)])
    steps[:, 1:] *= root ** -np.arange(1.0, n_dims)
    found = (steps[:, None, :] + shifts) % 1.0  # (R, W, D)
    return np.maximum(found, _LEAST_POINT).transpose(2, 0, 1)[:, :, None]


def spread_of(terms: FloatArray) -> FloatArray:
    """Standard deviations over worlds, which are last; none where what is left is rounding."""
    spread = terms.std(axis=-1, ddof=1)
    return np.where(spread > TIE * np.abs(terms).max(axis=-1), spread, 0.0)


def _density(values: FloatArray) -> FloatArray:
    return np.exp(-0.5 * np.square(values)) / np.sqrt(2.0 * np.pi)
