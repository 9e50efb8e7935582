"""Offline oracles: what is to be expected of every arm, given a history.

The default is the posterior mean of a PyMC belief, read from its ArviZ summary, whatever the engine: that is the
recommender's way, and the simulation's. A closed form takes less time than its summary, so that large simulations go
round it, with ``read="engine"``; the means are the same. With 0/1 rewards what is expected is no function of the mean
of beta, and is averaged over posterior draws. Ridge regression and any scikit-learn estimator (``sklearn_oracle``)
serve as well: the algorithm asks for predictions only.

A posterior knows whether its engine vouches for it, and so does what is predicted from it (``vouched``).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market.noise import Noise
from rcb_bayes.mechanism.kernel import linear_scores
from rcb_bayes.posterior import Engine, make_engine, summary_means
from rcb_bayes.posterior.data import Rows, Statistics
from rcb_bayes.posterior.nuts import NutsEngine
from rcb_bayes.posterior.stretched import StretchedEngine, known_sigma
from rcb_bayes.posterior.tree import moved, posterior_tree, read_means, tree_of_draws
from rcb_bayes.running.history import History
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_positive

if TYPE_CHECKING:
    import xarray as xr

Read = Literal["summary", "engine"]
_DRAWS, _PRIOR_DRAWS = 256, 2000
_CHUNK_VALUES = 4_000_000
_ROUNDING = 1e-9


@runtime_checkable
class Predictor(Protocol):
    """Expectations given what was fed; frozen until the next fit."""

    def scores(self, features: FloatArray) -> FloatArray:
        """Expected reward of every arm, from users' features (d, n): (K, n)."""
        ...

    def variances(self, features: FloatArray) -> FloatArray | None:
        """Posterior variance of every arm's mean reward, (K, n); None where the oracle has no posterior."""
        ...


def is_vouched(predictor: Predictor | None) -> bool:
    """Whether the engine vouches for the posterior behind it; where there is none, there is nothing to vouch for."""
    return bool(getattr(predictor, "vouched", True))


def checked_scores(
    predictor: Predictor, features: FloatArray, *, arms: tuple[str, ...], at_all: bool = False
) -> FloatArray:
    """What is predicted of every arm for users (d, n), (K, n), if it can be acted on.

    Coefficients were looked at when they were fitted, ``at_all``, and are not looked at again.

    Raises
    ------
    DataError
        Predictions that are no finite numbers, or of another shape.
    """
    scores = predictor.scores(features)
    if not at_all and isinstance(predictor, LinearPredictor):
        return scores
    if np.shape(scores) != (len(arms), features.shape[1]):
        raise DataError(
            f"An oracle predicts a number for each arm and user, {(len(arms), features.shape[1])}, got an array of "
            f"shape {np.shape(scores)}. Nothing has changed."
        )
    if not np.isfinite(scores).all():
        arm, user = (int(part[0]) for part in np.nonzero(~np.isfinite(scores)))
        raise DataError(
            f"The oracle predicts {scores[arm, user]:g} for arm '{arms[arm]}', and a finite number is needed. Nothing "
            "has changed: bound its predictions, or give another oracle."
        )
    return scores


def checked_variances(predictor: Predictor, features: FloatArray) -> FloatArray | None:
    """Variances of what is predicted, (K, n), infinite where nothing is known; None where the oracle has none.

    Raises
    ------
    DataError
        Variances that are negative or no numbers.
    """
    variances = predictor.variances(features)
    if variances is None:
        return None
    if not (variances >= -_ROUNDING).all():
        raise DataError("An oracle's variances must be numbers of at least 0. Nothing has changed.")
    return np.maximum(variances, 0.0)


@runtime_checkable
class Oracle(Protocol):
    """An offline learner."""

    @property
    def needs_rows(self) -> bool:
        """Whether sums over each arm's samples are not enough."""
        ...

    def fit(self, history: History) -> Predictor:
        """What the history says.

        Parameters
        ----------
        history : History
            What the platform has seen.

        Returns
        -------
        Predictor
            What is expected of every arm, until the next fit.
        """
        ...


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Expected rewards x'm with m (K, d) and, where known, the posterior covariances (K, d, d)."""

    means: FloatArray
    covariances: FloatArray | None = None
    vouched: bool = True

    def scores(self, features: FloatArray) -> FloatArray:
        """x'm of every arm, (K, n)."""
        return linear_scores(self.means, features)

    def variances(self, features: FloatArray) -> FloatArray | None:
        """x'Cx of every arm, (K, n)."""
        if self.covariances is None:
            return None
        return ((self.covariances @ features) * features).sum(axis=1)


@dataclass(frozen=True, eq=False)
class DrawsPredictor:
    """Mean rewards averaged over posterior draws of beta (S, K, d): for rewards that are not linear in it."""

    draws: FloatArray
    noise: Noise
    vouched: bool = True

    def scores(self, features: FloatArray) -> FloatArray:
        """E[mean reward | S], (K, n)."""
        return self._moments(features)[0]

    def variances(self, features: FloatArray) -> FloatArray | None:
        """Var(mean reward | S), (K, n)."""
        return self._moments(features)[1]

    def _moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        s, k, _ = self.draws.shape
        n = features.shape[1]
        mean, square = np.empty((k, n)), np.empty((k, n))
        step = max(1, _CHUNK_VALUES // s)
        for start in range(0, n, step):
            some = slice(start, start + step)
            for arm in range(k):
                reward = self.noise.mean_reward(linear_scores(self.draws[:, arm], features[:, some]))
                mean[arm, some], square[arm, some] = reward.mean(axis=0), (reward**2).mean(axis=0)
        return mean, square - mean**2


@dataclass(frozen=True, eq=False)
class PosteriorOracle:
    """The posterior mean under a belief.

    Parameters
    ----------
    prior : Prior
        The belief.
    noise : Noise
        How rewards come about.
    engine : str
        See ``make_engine``.
    read : {"summary", "engine"}
        "summary" takes the means from ``az.summary`` of a DataTree of the posterior, "engine" from the engine.
    seed : int
        Of engines that draw.
    factor : float
        What the belief's variances are multiplied by (Assumption 4).

    Raises
    ------
    RcbError
        An engine that cannot serve, another way of reading.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> vague = rcb.Prior.gaussian(np.zeros((2, 2)), 4.0, arms=["old", "new"])
    >>> oracle = rcb.PosteriorOracle(vague, market.noise)
    >>> runs = rcb.simulate(market, plan, horizon=200, n_worlds=5, oracle=oracle, seed=1)
    >>> round(runs["regret"].sum("t").mean().item(), 1)
    7.5
    """

    prior: Prior
    noise: Noise
    engine: str = "auto"
    read: Read = "summary"
    seed: int = DEFAULT_SEED
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.read not in ("summary", "engine"):
            raise RcbError(f"read must be 'summary' or 'engine', got {self.read!r}.")

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: nothing that was compiled."""
        return {name: value for name, value in self.__dict__.items() if name != "made"}

    @property
    def needs_rows(self) -> bool:
        """Bernoulli rewards are not told by sums."""
        return not self.noise.is_gaussian

    @cached_property
    def made(self) -> Engine:
        """The engine, compiled once and re-fed."""
        if self.factor != 1.0:
            return StretchedEngine(self.prior, self.noise, factor=self.factor, engine=self.engine, seed=self.seed)
        return make_engine(self.prior, self.noise, engine=self.engine, seed=self.seed)

    def fit(self, history: History) -> Predictor:
        """Posterior means and covariances."""
        return self.fit_arms(history, range(self.prior.n_arms))

    def fit_arms(self, history: History, arms: Iterable[int]) -> Predictor:
        """The same from the samples of some arms alone."""
        data = self._data(history, arms)
        if isinstance(data, Statistics):
            return self._fit_sums(data)
        draws = self.made.draw(data, _DRAWS, rng=np.random.default_rng(self.seed))[0]
        return DrawsPredictor(draws, self.noise, vouched=bool(self.made.fit(data).vouched[0]))

    def tree(self, history: History, arms: Iterable[int], predictor: Predictor) -> "xr.DataTree":
        """The posterior that a predictor was fitted from, with the samples of some arms, as a DataTree."""
        data = self._data(history, arms)
        if isinstance(predictor, DrawsPredictor):
            shown = {"vouched": predictor.vouched, "reason": self.made.reason, "seed": self.seed}
            return tree_of_draws(self.prior, predictor.draws, data, **shown)
        assert isinstance(predictor, LinearPredictor)  # there is no other kind of posterior
        return moved(posterior_tree(self.made, data, seed=self.seed, quiet=True), mean=predictor.means)

    def _data(self, history: History, arms: Iterable[int]) -> Statistics | Rows:
        """The samples of some arms, as the engine takes them."""
        return history.sums().of_arms(arms) if self.noise.is_gaussian else history.as_rows(arms)

    def _fit_sums(self, data: Statistics) -> LinearPredictor:
        k, d = self.prior.n_arms, self.prior.n_features
        if self.made.name == NutsEngine.name:  # sampled once: the summary and the covariances are of the same draws
            tree = posterior_tree(self.made, data, seed=self.seed, quiet=True)
            draws = np.asarray(tree["posterior"]["beta"]).reshape(-1, k, d)
            sampled = [np.atleast_2d(np.cov(draws[:, arm], rowvar=False)) for arm in range(k)]
            return LinearPredictor(summary_means(tree).values, np.stack(sampled), vouched=bool(tree.attrs["vouched"]))
        batch = self.made.fit(data, covariance=True)
        assert batch.covariance is not None  # asked for
        tiles = batch.covariance[0].reshape(k, d, k, d)
        covariances = np.stack([tiles[arm, :, arm] for arm in range(k)])
        means = batch.mean[0] if self.read == "engine" else read_means(self.made, data, batch, seed=self.seed)
        return LinearPredictor(means, covariances, vouched=bool(batch.vouched[0]))


def prior_tree(oracle: PosteriorOracle) -> "xr.DataTree":
    """What is believed before any data, as a DataTree of draws about the belief's own mean."""
    prior = oracle.prior
    draws = prior.draw_arrays(_PRIOR_DRAWS, rng=np.random.default_rng(oracle.seed))[0]
    nothing = History(prior.n_arms, prior.n_features, keep_rows=oracle.needs_rows)
    data = nothing.as_rows(()) if oracle.needs_rows else nothing.sums()
    tree = tree_of_draws(prior, draws, data, vouched=True, reason="the prior: no data yet", seed=oracle.seed)
    return moved(tree, mean=prior.mean.values)


def inflated(oracle: Oracle, factor: float) -> PosteriorOracle:
    """The oracle with prior variances multiplied by a factor (Assumption 4).

    Raises
    ------
    RcbError
        An oracle without a prior, or rewards other than Gaussian with a known sigma.
    """
    known_sigma(oracle.noise if isinstance(oracle, PosteriorOracle) else None)
    assert isinstance(oracle, PosteriorOracle)  # of others no sigma is known
    return replace(oracle, factor=factor)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RidgeOracle:
    """Ridge regression of each arm by itself: (X'X + penalty I)^(-1) X'y, zero without data.

    Parameters
    ----------
    penalty : float
        What the squares of coefficients cost, above 0.
    needs_rows : bool
        Sums over samples are enough.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> runs = rcb.simulate(market, plan, horizon=200, n_worlds=5, oracle=rcb.RidgeOracle(penalty=0.1), seed=1)
    >>> round(runs["regret"].sum("t").mean().item(), 1)
    16.2
    """

    penalty: float = 1.0
    needs_rows: bool = False

    def __post_init__(self) -> None:
        as_positive(self.penalty, name="penalty")

    def fit(self, history: History) -> Predictor:
        """Coefficients of each arm."""
        sums = history.sums()
        gram = sums.xtx[0] + self.penalty * np.eye(sums.xty.shape[2])
        return LinearPredictor(np.linalg.solve(gram, sums.xty[0, ..., None])[..., 0])
