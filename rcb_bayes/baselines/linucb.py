"""LinUCB: optimism in the face of uncertainty."""

import numpy as np

from rcb_bayes.baselines.learner import Learner
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.running.oracle import Oracle
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, is_number


class LinUcb(Learner):
    r"""The arm with the largest upper bound :math:`E[\mu(x, k) | S] + w \, sd(\mu(x, k) | S)`.

    Source: Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article
    recommendation", 2010. With a Gaussian belief of variance v and noise sigma this is their ridge regression with
    penalty sigma^2/v and alpha = w sigma.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    width : float
        w, posterior standard deviations.
    oracle : Oracle, optional
        What expects rewards, with a posterior variance; the platform's posterior unless given.
    batch : int
        Rounds after which it learns.
    seed : int
        The same seed gives the same answer.

    Raises
    ------
    RcbError
        A negative width, an oracle that has no variances.

    Applicability
    -------------
    Any belief; with Bernoulli rewards the deviation is that of the click probability. Users are not asked whether they
    would follow.

    Examples
    --------
    An arm that is well known, and one that is not:

    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], [0.01, 0.25], arms=["known", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> rcb.baselines.LinUcb(market, width=2.0).recommend_proba(np.array([[0.9, 0.5]]))
    array([[0., 1.]])
    >>> rcb.baselines.LinUcb(market, width=0.0).recommend_proba(np.array([[0.9, 0.5]]))
    array([[1., 0.]])
    """

    def __init__(
        self,
        market: Market,
        *,
        width: float = 1.0,
        oracle: Oracle | None = None,
        batch: int = 1,
        seed: int = DEFAULT_SEED,
    ) -> None:
        if not (is_number(width) and width >= 0.0):
            raise RcbError(f"width must be a number of at least 0, got {width!r}.")
        super().__init__(market, oracle=oracle, batch=batch, seed=seed)
        self.width = float(width)
        if self.predictor.variances(np.zeros((market.n_features, 1))) is None:
            raise RcbError("LinUCB needs an oracle with posterior variances. Use PosteriorOracle, or leave it out.")

    def probabilities(self, features: FloatArray, scores: FloatArray, *, now: bool = False) -> FloatArray:
        """The share of the best upper bound, (K, n)."""
        variances = self.predictor.variances(features)
        assert variances is not None  # checked as it was made
        return best_shares(scores + self.width * np.sqrt(np.maximum(variances, 0.0)), axis=0)
