r"""How sure is an oracle without a posterior? Bootstrap and conformal intervals, which also size the spread.

**Bootstrap** (``Bootstrapped``). The oracle is fitted again to B samples drawn with replacement from those of each arm,
n - d of n with d features, at least half of them: that makes up for the d that a fit uses up. One that is linear is
also fitted to its own predictions of them, :math:`\hat f`, which gives :math:`\hat f_2`; what it shrinks a second time,
:math:`\hat b = \hat f - \hat f_2`, tells what a penalty or a prior shrank the first time (Tukey's twicing); of others
:math:`\hat b = 0`. With :math:`s(x, a)` the standard deviation of its B predictions,

.. math:: \hat f(x, a) \pm \{t_{B-1}\, s(x, a) + |\hat b(x, a)|\}

is an interval for the *mean reward* :math:`\mu(x, a)`, and :math:`s^2 + \hat b^2` the oracle's squared error, from
which exploitation takes its spread. It knows the oracle's variance and how it shrinks, and nothing of a shape that it
cannot follow: it covers where the oracle can follow the truth.

**Conformal** (``Conformal``). The samples of each arm are dealt into folds, and each is predicted by the oracle fitted
without its fold, with residual :math:`r_i`. The CV+ interval of Barber, Candes, Ramdas and Tibshirani (2021),

.. math:: [q^-\{\hat f_{-k(i)}(x, a) - |r_i|\},\; q^+\{\hat f_{-k(i)}(x, a) + |r_i|\}],

is one for a *reward y* of a new user, whatever the truth and however bad the oracle. Its level is for users who come as
those of the arm's samples did: its floor is :math:`1 - 2 \alpha`, what is met is about :math:`1 - \alpha`. The same
residuals tell the squared error of the mean, bias included: their mean square less the noise's variance, from above
at 95 %. That bound falls with the square root of the samples, not with their number: not to trust the oracle's shape
has a price in exploration.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market.noise import Noise
from rcb_bayes.running.heeding import Heeding
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import LinearPredictor, Oracle, Predictor
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, is_number

_LEAST = 2  # samples of an arm, below which nothing is known of its error
_BOUND = 1.6448536269514722  # 95 %, from one side
_CHUNK_VALUES = 4_000_000


@runtime_checkable
class SurePredictor(Predictor, Protocol):
    """A predictor that knows how sure it is.

    Attributes
    ----------
    of : what its intervals are of, "mean" (the mean reward) or "reward" (a reward to come)
    """

    of: str

    def intervals(self, features: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
        """Bounds at a level of miscoverage, (K, n) each, for users (d, n); infinite where nothing is known."""
        ...

    def margins(self, features: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
        """Bounds of the lead of each arm over each rival, (K, K, n) each."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrapped:
    """An oracle with bootstrap intervals for mean rewards, from whose widths exploitation takes its spread.

    Parameters
    ----------
    oracle : Oracle
        Any oracle; it is fitted ``n_replicates`` times more in each epoch.
    n_replicates : int
        B; intervals make up for a small one by Student's t.
    seed : int
        Of the resampling; the same data give the same replicates.

    Raises
    ------
    RcbError
        Too few replicates.

    Applicability
    -------------
    Samples that are independent given the arm, and an oracle that can follow the truth; of one that is not linear the
    bias must be small next to its spread. A penalty as large as what the
    samples tell hides how much it shrank: ridge regression with a penalty of 1 and 10 samples of 5 features on the
    sphere covers 85 % for 95, with 20 samples 94 %. Arms with one sample, or none, have infinite intervals.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> from rcb_bayes.running.history import History
    >>> rng = np.random.default_rng(1)
    >>> x, arm = rng.normal(size=(200, 2)), np.arange(200) % 2
    >>> history = History(2, 2, keep_rows=True)
    >>> history.add(x, arm, x[:, 0] * arm + 0.3 * rng.normal(size=200))
    >>> found = rcb.Bootstrapped(rcb.RidgeOracle(penalty=0.01)).fit(history)
    >>> lower, upper = found.intervals(np.array([[1.0], [0.0]]), level=0.05)  # of one user
    >>> bool(lower[1, 0] < 1.0 < upper[1, 0]), (upper - lower).round(2).ravel()
    (True, array([0.11, 0.14]))
    """

    oracle: Oracle
    n_replicates: int = 30
    seed: int = DEFAULT_SEED

    def __post_init__(self) -> None:
        _check_inner(self.oracle, type(self).__name__)
        as_count(self.n_replicates, name="n_replicates", least=5)
        as_count(self.seed, name="seed")

    @property
    def needs_rows(self) -> bool:
        """Samples are drawn from."""
        return True

    def fit(self, history: History) -> "BootstrapPredictor":
        """The oracle, and its replicates.

        Parameters
        ----------
        history : History
            What the platform has seen.

        Returns
        -------
        BootstrapPredictor
            The oracle's own predictions, with variances and intervals.
        """
        rng = np.random.default_rng([self.seed, history.n_samples])
        x, arm, reward = history.rows()
        places = [np.flatnonzero(arm == which) for which in range(len(history.n))]
        sizes = [max(len(own) - x.shape[1], (len(own) + 1) // 2) for own in places]
        replicates = []
        for _ in range(self.n_replicates):
            drawn = np.sort(np.concatenate([rng.choice(own, m) for own, m in zip(places, sizes, strict=True)]))
            replicates.append(self.oracle.fit(_of_rows(history, x[drawn], arm[drawn], reward[drawn])))
        fitted = again = self.oracle.fit(history)
        if isinstance(fitted, LinearPredictor):
            own = fitted.scores(np.ascontiguousarray(x.T))[arm, np.arange(len(arm))]
            again = self.oracle.fit(_of_rows(history, x, arm, own))
        return BootstrapPredictor(fitted, again, tuple(replicates), history.n >= _LEAST)


@dataclass(frozen=True, slots=True, eq=False)
class BootstrapPredictor:
    """An oracle's predictions, those fitted to them, those of replicates, and which arms have samples enough, (K,)."""

    fitted: Predictor
    again: Predictor
    replicates: tuple[Predictor, ...]
    known: np.ndarray
    of: str = "mean"

    def scores(self, features: FloatArray) -> FloatArray:
        """The oracle's own, (K, n)."""
        return self.fitted.scores(features)

    def variances(self, features: FloatArray) -> FloatArray | None:
        """Of the replicates, and the square of what was shrunk, (K, n); infinite where an arm has no two samples."""
        found = self._replicated(features).var(axis=0, ddof=1) + self._shrunk(features) ** 2
        return np.where(self.known[:, None], found, np.inf)

    def intervals(self, features: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
        """Of mean rewards, (K, n) each."""
        half = self._critical(level) * self._replicated(features).std(axis=0, ddof=1) + np.abs(self._shrunk(features))
        half = np.where(self.known[:, None], half, np.inf)
        centre = self.scores(features)
        return centre - half, centre + half

    def margins(self, features: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
        """Of differences of mean rewards, (K, K, n) each: replicates have all arms at once."""
        replicated, shrunk = self._replicated(features), self._shrunk(features)
        spread = (replicated[:, :, None] - replicated[:, None]).std(axis=0, ddof=1)
        half = self._critical(level) * spread + np.abs(shrunk[:, None] - shrunk)
        half = np.where((self.known[:, None] & self.known)[:, :, None], half, np.inf)
        centre = self.scores(features)
        lead = centre[:, None] - centre
        return lead - half, lead + half

    def _shrunk(self, features: FloatArray) -> FloatArray:
        return self.scores(features) - self.again.scores(features)

    def _critical(self, level: float) -> float:
        from scipy import stats

        return float(stats.t.isf(level / 2.0, len(self.replicates) - 1))

    def _replicated(self, features: FloatArray) -> FloatArray:
        return np.stack([one.scores(features) for one in self.replicates])  # (B, K, n)


@dataclass(frozen=True, slots=True, eq=False)
class Conformal:
    """An oracle with conformal intervals for rewards, whose residuals also tell exploitation's spread, bias included.

    Parameters
    ----------
    oracle : Oracle
        Any oracle; it is fitted once for each fold more in each epoch.
    noise : Noise, optional
        Gaussian with a known sigma: that is no error of the oracle. Without it, and with 0/1 rewards, all of a residual
        counts as error, and exploration does not fall off.
    n_folds : int
        Folds; an arm with fewer samples has one for each.
    seed : int
        By which samples are dealt.

    Raises
    ------
    RcbError
        Fewer than two folds.

    Applicability
    -------------
    New users who come as those of an arm's samples did. In a cold start arms are told by x: the level then is one over
    those users, not over all. Arms with one sample, or none, have infinite intervals, and so have levels below
    1/(n + 1): at 95 % an arm needs 19 samples, and 39 for its margins, each of whose two intervals has half the level.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> from rcb_bayes.running.history import History
    >>> rng = np.random.default_rng(1)
    >>> x, arm = rng.normal(size=(200, 2)), np.arange(200) % 2
    >>> history = History(2, 2, keep_rows=True)
    >>> history.add(x, arm, x[:, 0] * arm + 0.3 * rng.normal(size=200))
    >>> found = rcb.Conformal(rcb.RidgeOracle(penalty=0.01), noise=rcb.GaussianNoise(0.3)).fit(history)
    >>> lower, upper = found.intervals(np.array([[1.0], [0.0]]), level=0.1)
    >>> (upper - lower).round(1).ravel()  # rewards, not means: about 2 x 1.645 x .3
    array([1. , 1.1])
    """

    oracle: Oracle
    noise: Noise | None = None
    n_folds: int = 10
    seed: int = DEFAULT_SEED

    def __post_init__(self) -> None:
        _check_inner(self.oracle, type(self).__name__)
        as_count(self.n_folds, name="n_folds", least=2)
        as_count(self.seed, name="seed")

    @property
    def needs_rows(self) -> bool:
        """Samples are dealt into folds."""
        return True

    def fit(self, history: History) -> "ConformalPredictor":
        """The oracle, and what it is without each fold.

        Parameters
        ----------
        history : History
            What the platform has seen.

        Returns
        -------
        ConformalPredictor
            The oracle's own predictions, with variances and intervals.
        """
        rng = np.random.default_rng([self.seed, history.n_samples])
        x, arm, reward = history.rows()
        fold = np.empty(len(arm), dtype=np.int64)
        for which in range(len(history.n)):
            own = np.flatnonzero(arm == which)
            fold[own] = rng.permutation(len(own)) % self.n_folds
        without, predicted = [], np.empty(len(arm))
        for k in range(int(fold.max(initial=-1)) + 1):
            held = fold == k
            model = self.oracle.fit(_of_rows(history, x[~held], arm[~held], reward[~held]))
            found = model.scores(np.ascontiguousarray(x[held].T))
            predicted[held] = found[arm[held], np.arange(int(held.sum()))]
            without.append(model)
        residual = np.abs(reward - predicted)
        errors = np.array([self._squared_error(residual[arm == a]) for a in range(len(history.n))])
        by_arm = tuple((fold[arm == a], residual[arm == a]) for a in range(len(history.n)))
        return ConformalPredictor(self.oracle.fit(history), tuple(without), by_arm, errors)

    def _squared_error(self, residual: FloatArray) -> float:
        """The oracle's mean squared error for an arm's mean reward, from above at 95 %; infinite where not known."""
        n = len(residual)
        if n < _LEAST:
            return np.inf
        excess = residual**2 - _known_variance(self.noise)
        return float(max(excess.mean(), 0.0) + _BOUND * excess.std(ddof=1) / np.sqrt(n))


@dataclass(frozen=True, slots=True, eq=False)
class ConformalPredictor:
    """An oracle's predictions, those without each fold, folds and residuals of each arm's samples, squared errors."""

    fitted: Predictor
    without: tuple[Predictor, ...]
    residuals: tuple[tuple[np.ndarray, FloatArray], ...]
    errors: FloatArray
    of: str = "reward"

    def scores(self, features: FloatArray) -> FloatArray:
        """The oracle's own, (K, n)."""
        return self.fitted.scores(features)

    def variances(self, features: FloatArray) -> FloatArray | None:
        """The squared error of each arm's mean reward from above, the same for all users, (K, n)."""
        return np.repeat(self.errors[:, None], features.shape[1], axis=1)

    def intervals(self, features: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
        """Of rewards to come, (K, n) each."""
        k, n = len(self.residuals), features.shape[1]
        lower, upper = np.full((k, n), -np.inf), np.full((k, n), np.inf)
        if not self.without:
            return lower, upper
        without = np.stack([model.scores(features) for model in self.without])  # (folds, K, n)
        for arm, (fold, residual) in enumerate(self.residuals):
            m = len(residual)
            rank = int(np.ceil((1.0 - level) * (m + 1) - 1e-9))  # of the ordered ends, from 1
            if m < _LEAST or rank > m:
                continue
            step = max(1, _CHUNK_VALUES // m)
            for start in range(0, n, step):
                some = slice(start, start + step)
                at = without[fold, arm, some]  # (m, users)
                upper[arm, some] = np.partition(at + residual[:, None], rank - 1, axis=0)[rank - 1]
                lower[arm, some] = np.partition(at - residual[:, None], m - rank, axis=0)[m - rank]
        return lower, upper

    def margins(self, features: FloatArray, *, level: float) -> tuple[FloatArray, FloatArray]:
        """Of differences of two rewards to come, (K, K, n) each: both intervals hold but for half the level each."""
        lower, upper = self.intervals(features, level=level / 2.0)
        own = np.eye(len(lower), dtype=bool)[:, :, None]
        return np.where(own, 0.0, lower[:, None] - upper), np.where(own, 0.0, upper[:, None] - lower)


def _check_inner(oracle: Oracle, name: str) -> None:
    if isinstance(oracle, (Heeding, Bootstrapped, Conformal)):
        raise RcbError(f"{name} is for an oracle as such, got {type(oracle).__name__}. Heeding goes around it.")


def _known_variance(noise: Noise | None) -> float:
    """The variance of rewards about their mean, where it is known; of 0/1 rewards it takes the mean to tell."""
    sigma = getattr(noise, "sigma", None)
    return float(sigma) ** 2 if is_number(sigma) else 0.0


def _of_rows(like: History, x: FloatArray, arm: np.ndarray, reward: FloatArray) -> History:
    made = History(len(like.n), x.shape[1], keep_rows=True)
    made.add(x, arm, reward)
    return made
