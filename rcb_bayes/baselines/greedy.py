"""Greedy: no exploration at all."""

from rcb_bayes.baselines.learner import Learner
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.schema import FloatArray


class Greedy(Learner):
    r"""The arm with the largest posterior mean, :math:`\arg\max_k E[\mu(x, k) | S]`.

    Source: Bastani, Bayati and Khosravi, "Mostly exploration-free algorithms for contextual bandits", 2021.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    oracle : Oracle, optional
        What expects rewards; the posterior mean under the platform's belief unless given.
    batch : int
        Rounds after which it learns.
    seed : int
        The same seed gives the same answer.

    Applicability
    -------------
    Any belief and any rewards. With the users' belief and the posterior mean it is what users would choose themselves,
    so that they follow; it explores only as far as users differ, and may never try an arm.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> rcb.baselines.Greedy(market).recommend_proba(np.array([[0.2, 0.5], [0.9, 0.5]]))
    array([[1., 0.],
           [1., 0.]])
    >>> rcb.audit(market, lambda market, seed: rcb.baselines.Greedy(market, seed=seed), horizon=4, n_worlds=100).verdict
    'pass'
    """

    def probabilities(self, features: FloatArray, scores: FloatArray, *, now: bool = False) -> FloatArray:
        """The best arm's share, (K, n)."""
        return best_shares(scores, axis=0)
