r"""Gaps once arms are known for good: what Theorem 1's constants are under a belief.

The theorem's N is so large that posterior means of saturated arms are the truth. Then, with mu0 the prior mean,

.. math::

    G(x, i) = \mu_0(x, i) - \max_{j \ne i} \mu(x, j), \qquad
    G_*(x) = \mu(x, b) - \max_{j \ne b} \mu(x, j)

are the gaps of Assumption 1, of the last open arm, and of Assumption 2, of the best arm b. The pair (tau, rho) of
either is a tau and Pr(gap >= tau), averaged over users, of the arm for which it is least.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.gaps.estimation import probability_error
from rcb_bayes.market import Market
from rcb_bayes.mechanism.outlook import arms_first, own_linear_rewards
from rcb_bayes.mechanism.panel import expected_rewards, make_panel
from rcb_bayes.mechanism.worlds import draw_worlds
from rcb_bayes.schema import FloatArray

_USERS_PER_WORLD = 16
_N_USERS = 5000
_N_BATCHES = 10
_N_TAUS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class TauRho:
    """A gap, how often it is reached, and the errors of what was measured."""

    tau: float
    rho: float
    tau_mcse: float = 0.0
    rho_mcse: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LimitingGaps:
    """Gaps in W worlds for U users of each.

    Attributes
    ----------
    chance : G of every arm, (K, U, W); None where arms are coupled, so that the known ones tell about the last one
    lead : G_* of the best arm, (1, U, W)
    """

    chance: FloatArray | None
    lead: FloatArray


def limiting_gaps(market: Market, *, n_worlds: int, seed: int) -> LimitingGaps:
    """Gaps of both assumptions where every arm but the last, and every arm, is known."""
    rng = np.random.default_rng(seed)
    worlds = draw_worlds(market.prior, n_worlds, rng=rng)
    # Prior rewards that are not linear in beta are costly: a user a world will do.
    n_users = _USERS_PER_WORLD if market.noise.is_gaussian else 1
    flat = market.population.sample(n_worlds * n_users, seed=rng)
    users = flat.reshape(n_worlds, n_users, -1)
    rewards: FloatArray = market.noise.mean_reward(own_linear_rewards(users, worlds.beta))
    top = -np.sort(-rewards, axis=0)[:2]
    lead = top[:1] - top[1:]
    if not market.prior.arms_independent:
        return LimitingGaps(chance=None, lead=lead)
    expected = expected_rewards(market.prior, market.noise, flat).reshape(n_worlds, n_users, -1)
    rival = np.where(rewards == top[0], top[1], top[0])
    return LimitingGaps(chance=arms_first(expected) - rival, lead=lead)


def measured(gaps: FloatArray, *, tau: float | None, rho: float | None) -> TauRho:
    """The pair that is left open: rho(tau), the largest tau that has this rho, or the tau that maximises tau rho(tau).

    ``gaps`` are (arms, U, W). The maximiser of a step function settles at the rate n^(-1/3), a quantile at n^(-1/2):
    the error of tau is the spread over batches of worlds, scaled at that rate.
    """
    if tau is not None and rho is not None:
        return TauRho(tau=float(tau), rho=float(rho))
    tau_mcse = 0.0
    if tau is None:
        batches = np.array_split(gaps, min(_N_BATCHES, gaps.shape[2]), axis=2)
        found = np.array([_tau(batch, rho) for batch in batches])
        tau_mcse = float(found.std(ddof=1) / len(batches) ** (1 / 3 if rho is None else 1 / 2))
        tau = _tau(gaps, rho)
    if rho is not None:
        return TauRho(tau=float(tau), rho=float(rho), tau_mcse=tau_mcse)
    share, mcse = chance_of(gaps, tau)
    return TauRho(tau=float(tau), rho=share, tau_mcse=tau_mcse, rho_mcse=mcse)


def chance_of(gaps: FloatArray, tau: float) -> tuple[float, float]:
    """Pr(gap >= tau) of the arm for which it is least, and its error."""
    share = (gaps >= tau).mean(axis=1)  # (arms, W)
    worst = share[share.mean(axis=1).argmin()]
    return float(worst.mean()), float(probability_error(worst))


def largest_prior_gap(market: Market, *, seed: int) -> float:
    """The largest mu0(x, j) - mu0(x, i) over the users of a table, or of a sample where there is none."""
    panel = make_panel(market, n_users=_N_USERS, rng=np.random.default_rng(seed))
    return float((panel.prior_rewards.max(axis=1) - panel.prior_rewards.min(axis=1)).max())


def _tau(gaps: FloatArray, rho: float | None) -> float:
    ordered = np.sort(gaps.reshape(len(gaps), -1), axis=1)  # (arms, n)
    n = ordered.shape[1]
    if rho is not None:
        place = min(int(np.floor((1.0 - rho) * n + 1e-9)), n - 1)
        return max(0.0, float(ordered[:, place].min()))
    taus = np.quantile(ordered, np.linspace(0.0, 1.0, _N_TAUS + 1))
    below = np.stack([np.searchsorted(arm, taus, side="left") for arm in ordered])
    return max(0.0, float(taus[(taus * (1.0 - below.max(axis=0) / n)).argmax()]))
