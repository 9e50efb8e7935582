"""FALCON: inverse-gap sampling in epochs that double, users' incentives left aside."""

import numpy as np

from rcb_bayes.baselines.learner import Remembering, shared_oracle
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import MOST_SAMPLES
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.protocol import OneRate
from rcb_bayes.running.exploit import Exploitation
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import Oracle
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_count


class Falcon(Remembering):
    r"""The exploitation stage of the paper's algorithm from the first round on: no cold start, no guard.

    In epoch m arm i, other than the best one b by the oracle fed so far, is recommended with probability

    .. math:: p_i = \frac{1}{K + \gamma_m (m_b - m_i)}, \qquad \gamma_m = 4 c \sqrt{K / E_m},

    with E the oracle's mean squared prediction error, as in ``Exploiting``.

    Source: Simchi-Levi and Xu, "Bypassing the monster: a faster and simpler optimal algorithm for contextual bandits
    under realizability", 2022 (FALCON+ where the oracle's error is that of a regression).

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int
        The first epoch has K times as many rounds (relative clock).
    oracle : Oracle, optional
        The posterior mean under the platform's belief unless given.
    options : Exploiting, optional
        Clock, feed, spread, its multiple c and inflation, those of the exploitation stage.
    seed : int
        The same seed gives the same answer.

    Applicability
    -------------
    Any belief and any oracle; without a posterior to read the error from, the paper's spread, which needs phi0 > 0. The
    same spread beside the paper's algorithm shows what incentives cost.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> policy = rcb.baselines.Falcon(market, options=rcb.Exploiting(spread_multiple=10))
    >>> policy.recommend_proba(np.array([[0.2, 0.5], [0.9, 0.5]])).round(2)
    array([[0.9 , 0.1 ],
           [0.97, 0.03]])
    """

    def __init__(
        self,
        market: Market,
        *,
        n_per_arm: int = 1,
        oracle: Oracle | None = None,
        options: Exploiting | None = None,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.market = market
        used: Oracle = oracle or shared_oracle(market)
        self.history = History(market.n_arms, market.n_features)
        n = as_count(n_per_arm, name="n_per_arm", least=1, most=MOST_SAMPLES)
        mechanism = OneRate(n_per_arm=n, n_arms=market.n_arms)
        nothing = History(market.n_arms, market.n_features, keep_rows=used.needs_rows)
        self.exploitation = Exploitation(market, mechanism, used, nothing, begins=0, options=options or Exploiting())
        self.rounds = 0

    @property
    def gamma(self) -> float:
        """The present spread."""
        return self.exploitation.gamma

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the end of the epoch."""
        n = self.exploitation.ends - self.rounds
        return self.exploitation.decide(x[:n], features[:, :n], uniforms[:n])

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        return self.exploitation.decide(x, np.ascontiguousarray(x.T), np.zeros((len(x), 2))).probabilities.T

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Keep it for the next epoch, and begin that where this one is over."""
        self.rounds += len(decisions)
        self.history.add(x, decisions.arm, reward)
        self.exploitation.now.add(x, decisions.arm, reward)
        if self.rounds >= self.exploitation.ends:
            self.exploitation.next_epoch()
