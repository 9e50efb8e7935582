r"""How often an arm is the best before anybody has tried it, and what its rivals are worth then: in closed form.

That an unpopular arm i is the organic one, :math:`a^* = i`, is rare, and what a stage is judged by. In a Gaussian
belief with independent arms an untried arm is worth its prior mean :math:`c = \mu_0(x, i)` in every world, and the
posterior means of the others are, given who was sampled, independent normals :math:`N(\mu_j, s_j^2)`. With
:math:`z_j = (c - \mu_j) / s_j`,

.. math:: \Pr(a^* = i) = \prod_j \Phi(z_j), \qquad E[m_j | a^* = i] = \mu_j - s_j \phi(z_j) / \Phi(z_j).

Averages over worlds are then averages over designs only, which hardly differ; no world need be lucky enough to show
the event. Arms that tie at the top, with nothing in them that varies, share the event as ``choice`` says.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.schema import FloatArray

_NEVER = 1e-200  # a chance so small that its products would lose their digits


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
    from scipy.special import erfc, erfcx

    mean = np.broadcast_to(prior_rewards.T[:, :, None], variances.shape)
    varies = variances > 0.0
    settled = np.where(varies, -np.inf, mean)
    best = settled.max(axis=0)
    spread = np.sqrt(variances)
    # -z / sqrt(2); an arm that is settled is no rival, whatever it is worth.
    below = np.full(variances.shape, -np.inf)
    np.divide(mean - best, np.sqrt(2.0) * spread, out=below, where=varies)
    chance = (0.5 * erfc(below)).prod(axis=0)
    chance[chance < _NEVER] = 0.0
    shortfall = np.sqrt(2.0 / np.pi) * spread / erfcx(below)  # s phi(z) / Phi(z)
    return SettledBest(shares=best_shares(settled, axis=0) * chance, rewards=mean - shortfall)
