"""Epsilon-greedy: now and then an arm at random."""

import numpy as np

from rcb_bayes.baselines.learner import Learner, as_rate
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.running.oracle import Oracle
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_positive, is_number


class EpsilonGreedy(Learner):
    r"""The best arm by posterior means, but with probability :math:`e_t` an arm at random.

    .. math:: p_k = e_t / K + (1 - e_t) 1\{k = \arg\max_j E[\mu(x, j) | S]\}, \qquad
              e_t = r \min(1, h / t)^a

    Source: Auer, Cesa-Bianchi and Fischer, "Finite-time analysis of the multiarmed bandit problem", 2002, whose
    decaying rate is r = 1, a = 1 and h = c K / g^2 with g a bound on the gaps; Sutton and Barto, "Reinforcement
    learning", 1998.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    rate : float
        r, between 0 and 1.
    decay : float
        a, 0 for a constant rate.
    hold : float
        h, rounds before the rate falls.
    oracle : Oracle, optional
        What expects rewards; the posterior mean under the platform's belief unless given.
    batch : int
        Rounds after which it learns.
    seed : int
        The same seed gives the same answer.

    Raises
    ------
    RcbError
        A rate outside [0, 1], a negative decay, a hold that is not positive.

    Applicability
    -------------
    Any belief and any rewards. Regret is linear with a constant rate. A user explored at random may lose whatever the
    belief says she does: she follows only if what the others learn outweighs it.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> policy = rcb.baselines.EpsilonGreedy(market, rate=1.0, decay=1.0, hold=50)
    >>> policy.exploration_rate(np.array([1.0, 50.0, 500.0]))
    array([1. , 1. , 0.1])
    """

    def __init__(
        self,
        market: Market,
        *,
        rate: float = 0.1,
        decay: float = 0.0,
        hold: float = 1.0,
        oracle: Oracle | None = None,
        batch: int = 1,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.rate = as_rate(rate, name="rate")
        if not (is_number(decay) and decay >= 0.0):
            raise RcbError(f"decay must be a number of at least 0, got {decay!r}.")
        self.decay, self.hold = float(decay), as_positive(hold, name="hold")
        super().__init__(market, oracle=oracle, batch=batch, seed=seed)

    def exploration_rate(self, rounds: FloatArray) -> FloatArray:
        """e_t of rounds t, counted from 1."""
        return self.rate * np.minimum(1.0, self.hold / rounds) ** self.decay

    def probabilities(self, features: FloatArray, scores: FloatArray, *, now: bool = False) -> FloatArray:
        """The mixture of both, (K, n)."""
        ahead = np.zeros(scores.shape[1]) if now else np.arange(scores.shape[1])
        rates = self.exploration_rate(self.rounds + 1.0 + ahead)
        return rates / len(scores) + (1.0 - rates) * best_shares(scores, axis=0)
