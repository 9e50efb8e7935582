"""One and the same arm for everybody: what is done without a recommender."""

import numpy as np

from rcb_bayes.baselines.learner import Remembering, only
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import Decisions, chosen
from rcb_bayes.mechanism.kernel import linear_scores
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.running.history import History
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, position_of


class AlwaysArm(Remembering):
    """The same arm in every round, :math:`a_t = a`.

    Source: the fixed dose of Bastani and Bayati, "Online decision making with high-dimensional covariates", 2020, who
    compare with it; a single product, a standard treatment.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    arm : str
        Its label.
    seed : int
        The same seed gives the same answer.

    Raises
    ------
    RcbError
        An arm that does not exist (a close one is suggested).

    Applicability
    -------------
    Everywhere. Nothing is learnt; users follow if the arm is the best by their prior.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> rcb.baselines.AlwaysArm(market, "new").recommend_proba(np.array([[0.2, 0.5]]))
    array([[0., 1.]])
    >>> rcb.audit(market, lambda market, seed: rcb.baselines.AlwaysArm(market, "new"), horizon=1, n_worlds=50).verdict
    'fail'
    """

    def __init__(self, market: Market, arm: str, *, seed: int = DEFAULT_SEED) -> None:
        self.market = market
        self.arm = position_of(arm, market.arms)
        self.history = History(market.n_arms, market.n_features)

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """The arm, for all of them."""
        scores = self._scores(x, features)
        return chosen(only(self.arm, scores), scores, uniforms)

    def recommend_proba(self, x: Table) -> FloatArray:
        """1 for the arm, (n, d) -> (n, K)."""
        out = np.zeros((len(x), self.market.n_arms))
        out[:, self.arm] = 1.0
        return out

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Count."""
        self.history.add(x, decisions.arm, reward)

    def _scores(self, x: FloatArray, features: FloatArray) -> FloatArray:
        """What the platform expects before any data, (K, n)."""
        prior, noise = self.market.platform_prior, self.market.noise
        return linear_scores(prior.mean.values, features) if noise.is_gaussian else expected_rewards(prior, noise, x).T
