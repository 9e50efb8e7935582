"""Linear Thompson sampling: each arm as often as it is the best."""

import numpy as np

from rcb_bayes.baselines.learner import Learner
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.kernel import linear_scores
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count

_MOST_DRAWS = 4096  # of all coefficients at a time


class LinThompson(Learner):
    r"""Linear Thompson sampling: each arm with the posterior probability that it is the best for the user.

    .. math:: p_k(x) = \Pr(k = \arg\max_j \mu(x, j) \mid S)

    Source: Agrawal and Goyal, "Thompson sampling for contextual bandits with linear payoffs", 2013; Thompson, "On the
    likelihood that one unknown probability exceeds another in view of the evidence of two samples", 1933.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_draws : int
        Posterior draws for each user; probabilities are shares among them, by which recommendations are made, too, so
        that more draws make propensities that off-policy estimates can use.
    batch : int
        Rounds after which it learns.
    seed : int
        The same seed gives the same answer.

    Applicability
    -------------
    Any belief; Gaussian rewards, or Bernoulli ones, whose mean grows with x'b, so that the best arm is that of x'b.
    Arms may be correlated. Whether users follow depends on the data at the start: see ``WarmThompson``.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> policy = rcb.baselines.LinThompson(market, n_draws=1000, seed=1)
    >>> policy.recommend_proba(np.array([[0.2, 0.5], [0.9, 0.5]])).round(1)
    array([[0.6, 0.4],
           [0.7, 0.3]])
    """

    def __init__(self, market: Market, *, n_draws: int = 1, batch: int = 1, seed: int = DEFAULT_SEED) -> None:
        super().__init__(market, batch=batch, seed=seed)
        self.n_draws = as_count(n_draws, name="n_draws", least=1)
        prior = market.platform_prior
        gaussian = prior.law is not None and prior.is_gaussian and getattr(market.noise, "sigma", None) is not None
        # Independent Gaussian arms are drawn by what they give the user: a number each, not d of them.
        self._by_user = gaussian and prior.arms_independent

    def probabilities(self, features: FloatArray, scores: FloatArray, *, now: bool = False) -> FloatArray:
        """Shares of each user's own draws in which each arm is the best, (K, n)."""
        if not self._by_user:
            return self._by_coefficients(features)
        variances = self.predictor.variances(features)
        assert variances is not None  # a posterior's
        normal = self.rng.standard_normal((self.n_draws, *scores.shape))
        return best_shares(scores + np.sqrt(np.maximum(variances, 0.0)) * normal, axis=1).mean(axis=0)

    @property
    def n_acted_on(self) -> FloatArray:
        """Samples it has learnt from, (K,); draws of coefficients know all."""
        return super().n_acted_on if self._by_user else self.history.n

    def _by_coefficients(self, features: FloatArray) -> FloatArray:
        """The same by draws of all coefficients; beyond some thousands users share them."""
        assert isinstance(self.oracle, PosteriorOracle)  # no other can be given
        n = features.shape[1]
        size = max(self.n_draws, min(n * self.n_draws, _MOST_DRAWS))
        history = self.history
        data = history.sums() if self.market.noise.is_gaussian else history.as_rows(range(self.market.n_arms))
        draws = self.oracle.made.draw(data, size, rng=self.rng)[0]  # (size, K, d)
        out = np.empty((self.market.n_arms, n))
        for user in range(n):
            own = draws[(user * self.n_draws + np.arange(self.n_draws)) % size]
            eta = linear_scores(own.reshape(-1, own.shape[2]), features[:, user : user + 1])
            out[:, user] = best_shares(eta.reshape(self.n_draws, -1), axis=1).mean(axis=0)
        return out
