r"""The lasso bandit: few features matter, and forced samples keep the estimates honest.

Lasso estimates are computed from sums over samples: with a root R of X'X, :math:`R'R = X'X`, the objective

.. math:: \frac{1}{2n} |y - X b|^2 + \alpha |b|_1 = \frac{1}{2n} |z - R b|^2 + \alpha |b|_1 + \mathrm{const}, \qquad
          R'z = X'y,

is one with at most d rows, however many samples there are.
"""

import warnings
from math import log, sqrt

import numpy as np

from rcb_bayes.baselines.learner import Remembering
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import EXPLOIT, PROMOTED, Decisions, chosen
from rcb_bayes.mechanism.kernel import linear_scores
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.running.history import History
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_count, as_positive, is_number

_NEGLIGIBLE = 1e-12  # eigenvalues of X'X, beside the largest


class LassoBandit(Remembering):
    r"""Forced samples and two lasso estimators per arm.

    With :math:`\hat b(A, \lambda) = \arg\min |y - X b|^2 / |A| + \lambda |b|_1` over the samples A, arm i is forced in
    the rounds :math:`\{(2^n - 1) K q + j : q i < j \le q (i + 1)\}`, n = 0, 1, .... In any other round t arms within
    h/2 of the best by the forced samples' estimates :math:`\hat b(T_i, \lambda_1)` are candidates, and among them the
    best by the estimates of all samples :math:`\hat b(S_i, \lambda_{2,t})` is recommended, with
    :math:`\lambda_{2,t} = \lambda_{2,0} \sqrt{(\log t + \log d) / t}`.

    Source: Bastani and Bayati, "Online decision making with high-dimensional covariates", 2020; the defaults are those
    of their experiments.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_forced : int
        q, forced samples of each arm in a row.
    localization : float
        h.
    penalty_forced, penalty_all : float
        lambda_1 and lambda_{2,0}.
    batch : int
        Rounds after which the estimates of all samples are renewed.
    growth : float
        Share of new samples that an arm must have had for its estimate to be renewed; 0 renews after any.
    tolerance : float
        Scikit-learn's, of a Lasso.
    seed : int
        The same seed gives the same answer.

    Raises
    ------
    RcbError
        Counts below 1, numbers that are not positive.

    Applicability
    -------------
    Rewards linear in the features, with no intercept beyond a column of ones; Bernoulli rewards are fitted by a linear
    probability. The belief is not used, but for what is expected of arms before any data: nothing. Forced rounds are
    known by their numbers, and a user in one is told an arm whatever it is worth.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> rcb.baselines.LassoBandit(market).forced_arms(8)
    array([ 0,  1,  0,  1, -1, -1,  0,  1])
    """

    def __init__(
        self,
        market: Market,
        *,
        n_forced: int = 1,
        localization: float = 5.0,
        penalty_forced: float = 0.05,
        penalty_all: float = 0.05,
        batch: int = 1,
        growth: float = 0.0,
        tolerance: float = 1e-6,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.market = market
        self.n_forced = as_count(n_forced, name="n_forced", least=1)
        self.batch = as_count(batch, name="batch", least=1)
        self.localization = as_positive(localization, name="localization")
        self.penalty_forced = as_positive(penalty_forced, name="penalty_forced")
        self.penalty_all = as_positive(penalty_all, name="penalty_all")
        if not (is_number(growth) and growth >= 0):
            raise RcbError(f"growth must be a number of at least 0, got {growth!r}.")
        self.growth, self.tolerance = float(growth), as_positive(tolerance, name="tolerance")
        k, d = market.n_arms, market.n_features
        self.history, self.forced = History(k, d), History(k, d)
        self.rounds = 0
        self.forced_means, self.all_means = np.zeros((k, d)), np.zeros((k, d))
        self._renewed_at = np.zeros(k)
        self._fresh = 0

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the next forced round or the next estimates; forced rounds in a row at once."""
        forced = self.forced_arms(len(x))
        if forced[0] >= 0:
            n = len(forced) if (forced >= 0).all() else int(np.argmax(forced < 0))
            scores = linear_scores(self.all_means, features[:, :n])
            probabilities = np.zeros(scores.shape)
            probabilities[forced[:n], np.arange(n)] = 1.0
            return chosen(probabilities, scores, uniforms, stage=PROMOTED)
        n = len(forced) if (forced < 0).all() else int(np.argmax(forced >= 0))
        n = min(n, self.batch - self._fresh)
        scores = linear_scores(self.all_means, features[:, :n])
        return chosen(self._free(features[:, :n], scores), scores, uniforms, stage=EXPLOIT)

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        features = np.ascontiguousarray(x.T)
        forced = int(self.forced_arms(1)[0])
        scores = linear_scores(self.all_means, features)
        if forced < 0:
            return self._free(features, scores).T
        out = np.zeros((len(x), self.market.n_arms))
        out[:, forced] = 1.0
        return out

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Renew the estimates of arms with new samples."""
        n = len(decisions)
        self.rounds += n
        self.history.add(x, decisions.arm, reward)
        forced = decisions.stage == PROMOTED
        if forced.any():
            self.forced.add(x[forced], decisions.arm[forced], reward[forced])
            arms = np.unique(decisions.arm[forced])
            renew(self.forced_means, self.forced.sums(), arms, penalty=self.penalty_forced, tolerance=self.tolerance)
        self._fresh += n
        if self._fresh >= self.batch or forced.any():
            t = max(self.rounds, 2)
            penalty = self.penalty_all * sqrt((log(t) + log(self.market.n_features)) / t)
            arms = np.flatnonzero(self.history.n > (1.0 + self.growth) * self._renewed_at)
            renew(self.all_means, self.history.sums(), arms, penalty=penalty, tolerance=self.tolerance)
            self._renewed_at[arms] = self.history.n[arms]
            self._fresh = 0

    def forced_arms(self, n: int) -> np.ndarray:
        """The arm forced in each of the next n rounds, -1 where none is."""
        length = self.market.n_arms * self.n_forced
        t = self.rounds + np.arange(n)  # from 0
        # Forced rounds are (2^m - 1) K q + 0 .. K q - 1, those for which t // (K q) + 1 is a power of two.
        cycle = t // length + 1
        return np.where(cycle & (cycle - 1) == 0, (t % length) // self.n_forced, -1)

    def _free(self, features: FloatArray, scores: FloatArray) -> FloatArray:
        forced = linear_scores(self.forced_means, features)
        near = forced >= forced.max(axis=0) - self.localization / 2.0
        return best_shares(np.where(near, scores, -np.inf), axis=0)


def renew(means: FloatArray, data: Statistics, arms: np.ndarray, *, penalty: float, tolerance: float = 1e-6) -> None:
    """Lasso estimates of some arms, (K, d), in place, from one data set."""
    for arm in arms:
        n = int(data.n[0, arm])
        means[arm] = lasso(data.xtx[0, arm], data.xty[0, arm], n, penalty=penalty, tolerance=tolerance)


def lasso(xtx: FloatArray, xty: FloatArray, n: int, *, penalty: float, tolerance: float = 1e-6) -> FloatArray:
    """argmin |y - X b|^2 / n + penalty |b|_1, (d,)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    values, vectors = np.linalg.eigh(xtx)
    kept = values > _NEGLIGIBLE * max(values[-1], 0.0)
    if n == 0 or not kept.any():
        return np.zeros(len(xty))
    root = np.sqrt(values[kept])
    rows = root[:, None] * vectors[:, kept].T  # R, (r, d)
    target = (vectors[:, kept].T @ xty) / root
    scale = sqrt(len(rows) / n)  # scikit-learn divides by the number of rows
    model = Lasso(alpha=penalty / 2.0, fit_intercept=False, max_iter=10_000, tol=tolerance, random_state=0)
    with warnings.catch_warnings():
        # Fewer samples than features and hardly a penalty: a hair off the optimum will do until the next estimate.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(model.fit(rows * scale, target * scale).coef_)
