"""Explore, then commit: every arm in turn, then for good what turned out best."""

import numpy as np

from rcb_bayes.baselines.learner import Remembering, shared_oracle
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import EXPLOIT, PROMOTED, Decisions, chosen
from rcb_bayes.running.heeding import refuse_heeding
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import Oracle, Predictor
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_count


class ExploreThenCommit(Remembering):
    r"""Arms in turn until each has N samples, then the best by what they say, never learning again.

    .. math:: a_t = t \bmod K \quad (t < K N), \qquad a_t = \arg\max_k E[\mu(x, k) | S_{K N}] \quad (t \ge K N)

    Source: Garivier, Lattimore and Kaufmann, "On explore-then-commit strategies", 2016; Robbins, "Some aspects of the
    sequential design of experiments", 1952.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int
        N.
    oracle : Oracle, optional
        What expects rewards; the posterior mean under the platform's belief unless given.
    seed : int
        The same seed gives the same answer.

    Attributes
    ----------
    history : History
        The samples of the first K N rounds, all that it learns from.

    Raises
    ------
    RcbError
        N below 1.

    Applicability
    -------------
    Any belief and any rewards. A user of the first rounds who knows her round is told an arm whatever it is worth: she
    follows only if all arms are alike to her. With N of the order (T/K)^(2/3) regret grows like T^(2/3).

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> policy = lambda market, seed: rcb.baselines.ExploreThenCommit(market, n_per_arm=10)
    >>> runs = rcb.simulate(market, policy, horizon=50, n_worlds=3)
    >>> runs["cold_start_length"].values
    array([20, 20, 20])
    """

    def __init__(
        self, market: Market, *, n_per_arm: int = 50, oracle: Oracle | None = None, seed: int = DEFAULT_SEED
    ) -> None:
        self.market = market
        self.n_per_arm = as_count(n_per_arm, name="n_per_arm", least=1)
        refuse_heeding(oracle, name=type(self).__name__)
        self.oracle: Oracle = oracle or shared_oracle(market)
        self.history = History(market.n_arms, market.n_features, keep_rows=self.oracle.needs_rows)
        self.rounds = 0
        self.predictor: Predictor = self.oracle.fit(self.history)

    @property
    def exploring(self) -> int:
        """Rounds of exploration that are left."""
        return max(0, self.market.n_arms * self.n_per_arm - self.rounds)

    @property
    def cold_start_length(self) -> int:
        """K N once the exploration is over, -1 before."""
        return -1 if self.exploring else self.market.n_arms * self.n_per_arm

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the end of the exploration, or all of them."""
        if not self.exploring:
            scores = self.predictor.scores(features)
            return chosen(best_shares(scores, axis=0), scores, uniforms, stage=EXPLOIT)
        n = min(self.exploring, len(x))
        scores = self.predictor.scores(features[:, :n])
        probabilities = np.zeros(scores.shape)
        probabilities[(self.rounds + np.arange(n)) % self.market.n_arms, np.arange(n)] = 1.0
        return chosen(probabilities, scores, uniforms, stage=PROMOTED)

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        scores = self.predictor.scores(np.ascontiguousarray(x.T))
        if not self.exploring:
            return best_shares(scores, axis=0).T
        out = np.zeros(scores.shape)
        out[self.rounds % self.market.n_arms] = 1.0
        return out.T

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn from the exploration."""
        if not self.exploring:
            self.rounds += len(decisions)
            return
        self.history.add(x, decisions.arm, reward)
        self.rounds += len(decisions)
        if not self.exploring:
            self.predictor = self.oracle.fit(self.history)
