r"""Hidden exploration: a sample of an arm that users dislike, hidden among L - 1 recommendations of the best one.

Once the arms that users prefer have N samples each, the next one in the order of prior means is recommended to one user
in L, the others get the best arm by what is known. With

.. math:: G_i = E[\mu_i | S] - \max_{j \ne i} E[\mu_j | S], \qquad \Pr(G_i \ge \tau) \ge \rho,

users follow if :math:`L \ge 1 + (\mu^0_{max} - \mu^0_{min}) / (\tau \rho)`.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np

from rcb_bayes.baselines.cold_started import ColdStarted, Collecting, collecting
from rcb_bayes.baselines.learner import shared_oracle
from rcb_bayes.baselines.user_types import panel_of
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.estimation import best_tau, probability_error
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import TIE, best_shares
from rcb_bayes.mechanism.decisions import Decisions, chosen
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.running.oracle import Predictor
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, is_number

_Z = 3.0  # Monte Carlo errors that are left


def hidden_inverse_rate(spread: float, *, tau: float, rho: float) -> float:
    """L = 1 + (mu_max - mu_min) / (tau rho), infinite where tau rho is 0 and the spread is not.

    Parameters
    ----------
    spread : float
        By how much users expect to lose, at most, by the arm that is explored.
    tau : float
        By how much that arm turns out better.
    rho : float
        How often it does.

    Returns
    -------
    float
        L.

    Raises
    ------
    RcbError
        A negative spread or tau, rho outside [0, 1].
    """
    if not (is_number(spread) and spread >= 0 and is_number(tau) and tau >= 0):
        raise RcbError(f"spread and tau must be numbers of at least 0, got {spread!r} and {tau!r}.")
    if not (is_number(rho) and 0 <= rho <= 1):
        raise RcbError(f"rho is a probability: expected a number between 0 and 1, got {rho!r}.")
    if spread == 0:
        return 1.0
    return 1.0 + spread / (tau * rho) if tau * rho > 0 else inf


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRate:
    """L of the user who needs the largest, and what it comes from: the arm's tau, and rho less three errors.

    ``rho_hat`` and ``rho_mcse`` are rho's estimate and error.
    """

    inverse_rate: float
    spread: float
    arm: str
    tau: float
    rho: float
    rho_hat: float
    rho_mcse: float


@lru_cache(maxsize=16)
def estimate_hidden_rate(
    market: Market, *, n_per_arm: int, n_worlds: int = 4000, seed: int = DEFAULT_SEED
) -> HiddenRate:
    """L by simulation under the users' belief.

    tau maximises tau rho in one half of the worlds; rho is taken from the other, less three Monte Carlo errors. Where
    users are alike the stages are those of the arms in order. Else each user has her own order, others may have
    sampled arms that she does not prefer, and an arm is to be hidden when all others are sampled: of those, L is the
    largest over a panel.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int
        Samples of every arm that is known.
    n_worlds : int
        Worlds drawn from the users' belief.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    HiddenRate
        L, with what it rests on.
    """
    users = panel_of(market)
    before = expected_rewards(market.prior, market.noise, users)  # (U, K)
    stages = Stages(market, n_per_arm=n_per_arm, n_worlds=as_count(n_worlds, name="n_worlds", least=100), seed=seed)
    spread = before.max(axis=1) - before.min(axis=1)
    worst = HiddenRate(inverse_rate=1.0, spread=0.0, arm="", tau=0.0, rho=1.0, rho_hat=1.0, rho_mcse=0.0)
    order = [int(arm) for arm in np.argsort(-before[0], kind="stable")]
    every = range(market.n_arms)
    for place, arm in enumerate(order):
        sampled = order[:place] if len(users) == 1 else [k for k in every if k != arm]
        liked = before[:, arm] >= before.max(axis=1) - TIE
        if not sampled or liked.all():
            continue
        rewards = stages.rewards(sampled, users=users)  # (K, U, W)
        gaps = rewards[arm] - rewards[[k for k in every if k != arm]].max(axis=0)
        tau, rho_hat, rho_mcse = _split(gaps)
        rho = np.maximum(rho_hat - _Z * rho_mcse, 0.0)
        for user in np.flatnonzero(~liked):
            found = hidden_inverse_rate(float(spread[user]), tau=float(tau[user]), rho=float(rho[user]))
            if found > worst.inverse_rate:
                worst = HiddenRate(
                    inverse_rate=found,
                    spread=float(spread[user]),
                    arm=market.arms[arm],
                    tau=float(tau[user]),
                    rho=float(rho[user]),
                    rho_hat=float(rho_hat[user]),
                    rho_mcse=float(rho_mcse[user]),
                )
    return worst


def _split(gaps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """tau from one half of the worlds, rho and its error from the other, (U, W) -> (U,) each."""
    half = gaps.shape[1] // 2
    tau = best_tau(gaps[None, :, :half], by_user=True)[0]
    reached = (gaps[:, half:] >= tau[:, None]).astype(float)
    return tau, reached.mean(axis=1), probability_error(reached)


def settled_rate(market: Market, inverse_rate: float | None, *, n_per_arm: int, what: str) -> float:
    """The L that is given, or the one that users need.

    Raises
    ------
    RcbError
        L below 1, or none that would do.
    """
    if inverse_rate is not None:
        if not (is_number(inverse_rate) and inverse_rate >= 1.0):
            raise RcbError(f"inverse_rate is L, a number of at least 1, got {inverse_rate!r}.")
        return float(inverse_rate)
    found = estimate_hidden_rate(market, n_per_arm=n_per_arm)
    if found.inverse_rate == inf:
        raise RcbError(
            f"{what} does not apply: some users never come to prefer {found.arm}, so no L hides it from them. "
            "Plan with rcb.calibrate, or give inverse_rate."
        )
    return found.inverse_rate


class RefittedLater(ColdStarted):
    """A cold start, then posterior means that are renewed whenever the data have doubled."""

    def __init__(self, market: Market, cold: Collecting) -> None:
        super().__init__(market, cold)
        self.oracle = shared_oracle(market)
        self.predictor: Predictor | None = None
        self._next_fit = 0

    def begin(self) -> None:
        """Fit what has been collected."""
        self.predictor = self.oracle.fit(self.history)
        self._next_fit = 2 * self.history.n_samples


class HiddenExploration(RefittedLater):
    r"""Hidden exploration until every arm has N samples, then the best arm by all of them.

    .. math:: L \ge 1 + \frac{\mu^0_{max} - \mu^0_{min}}{\tau \rho}, \qquad \Pr(G_i \ge \tau) \ge \rho

    for every arm i once the arms before it, in the order of prior means, have N samples.

    Source: Mansour, Slivkins and Syrgkanis, "Bayesian incentive-compatible bandit exploration", 2015 and 2020.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int
        N.
    inverse_rate : float, optional
        L, from the belief unless given (``estimate_hidden_rate``).
    seed : int
        The same seed gives the same answer.

    Attributes
    ----------
    inverse_rate : float
        L.

    Raises
    ------
    RcbError
        N below 1, L below 1, a belief under which no L will do.

    Applicability
    -------------
    Independent arms and users who are all alike, as in the source; there users follow in every round, up to Monte Carlo
    error in L. Each round tosses a coin of its own, where the source hides one round in each L of them: the chance and
    so the arithmetic are the same, but the length is random. With covariates an arm is hidden from those who do not
    prefer it, at the L of the user who needs the largest, over a panel and with samples from the whole population:
    nothing is proven then, and many beliefs have users whom no L would convince. Ask ``audit``. Later rounds recommend
    the best posterior mean, renewed whenever the data have doubled.

    Examples
    --------
    Users who are all alike:

    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5], [0.4]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    >>> round(rcb.baselines.HiddenExploration(market, n_per_arm=10).inverse_rate, 1)
    2.9
    """

    def __init__(
        self, market: Market, *, n_per_arm: int = 10, inverse_rate: float | None = None, seed: int = DEFAULT_SEED
    ) -> None:
        self.n_per_arm = as_count(n_per_arm, name="n_per_arm", least=1)
        self.inverse_rate = settled_rate(market, inverse_rate, n_per_arm=self.n_per_arm, what="Hidden exploration")
        cold = collecting(market, n_per_arm=self.n_per_arm, collect="hidden", inverse_rate=self.inverse_rate)
        super().__init__(market, cold)

    def decide_later(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """The best arm, until the estimates are renewed."""
        assert self.predictor is not None  # the cold start is over
        n = self._next_fit - self.history.n_samples
        scores = self.predictor.scores(features[:, :n])
        return chosen(best_shares(scores, axis=0), scores, uniforms)

    def proba_later(self, x: FloatArray) -> FloatArray:
        """The best arm's share, (n, d) -> (n, K)."""
        assert self.predictor is not None  # the cold start is over
        return best_shares(self.predictor.scores(np.ascontiguousarray(x.T)), axis=0).T

    def update_later(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn from all of it."""
        self.history.add(x, decisions.arm, reward)
        if self.history.n_samples >= self._next_fit:
            self.begin()
