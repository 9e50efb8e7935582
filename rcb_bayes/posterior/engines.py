"""Which engine answers for a belief, and what happens to the data sets it does not vouch for.

| engine        | belief                                                  | rewards           |
|---------------|---------------------------------------------------------|-------------------|
| `exact`       | Gaussian, or a finite mixture of Gaussians              | Gaussian          |
| `importance`  | any with a density of beta                              | Gaussian          |
| `conditional` | Gaussian given scales, correlations or the noise's sd   | Gaussian          |
| `gibbs`       | normal effects with unknown scales, each of any density | Gaussian          |
| `laplace`     | any with a density of beta, or Gaussian given one scale | Bernoulli         |
| `nuts`        | any                                                     | any               |

Student-t and Laplace effects are Gaussian given scales, so that a few of them around a shared level, or with an unknown
noise, are for `conditional`; many of them, and horseshoes, are for `gibbs`, which also comes before NUTS wherever it
can answer.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.moving import MovedPrior
from rcb_bayes.calling import checked
from rcb_bayes.errors import BeliefError, DataError, RcbError
from rcb_bayes.market.noise import GaussianNoise, Noise
from rcb_bayes.posterior.conditional import ConditionalEngine
from rcb_bayes.posterior.counting import counted
from rcb_bayes.posterior.data import Data, Statistics, Tallies, as_counted, as_statistics
from rcb_bayes.posterior.exact import exact_arm_moments, exact_draws, exact_moments
from rcb_bayes.posterior.gibbs import GibbsEngine, layout_of
from rcb_bayes.posterior.importance import ImportanceSampler
from rcb_bayes.posterior.laplace import LaplaceEngine
from rcb_bayes.posterior.moving import MovedEngine, noise_left
from rcb_bayes.posterior.nuts import NutsEngine
from rcb_bayes.posterior.results import PosteriorBatch, linear_rewards, merged, users_of, warn_if_not_vouched
from rcb_bayes.posterior.site_draws import SiteSampler
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, no_such

_CHUNK_VALUES = 20_000_000
MOST_DRAWN = 20  # unknown scales that are drawn from the belief


class Engine(Protocol):
    """Posterior moments for batches of data sets under one belief and one reward model."""

    prior: Prior
    name: str
    reason: str

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior means of every data set; covariances, and mean rewards of users, on request.

        ``users`` are (U, d), the same for all data sets, or (M, U, d), each data set's own.

        Parameters
        ----------
        data : Statistics or Rows
            One or more data sets, as sums or, for 0/1 rewards, as rows.
        covariance : bool
            Whether covariances are wanted too.
        users : ndarray, optional
            Users whose mean rewards are wanted: (U, d), the same for all data sets, or (M, U, d), each one's own.

        Returns
        -------
        PosteriorBatch
            Means, and on request covariances and mean rewards.
        """
        ...

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d).

        Parameters
        ----------
        data : Statistics or Rows
            One or more data sets, as sums or, for 0/1 rewards, as rows.
        n : int
            Draws of each data set.
        rng : numpy.random.Generator
            Where random numbers come from.

        Returns
        -------
        ndarray
            (M, n, K, d).
        """
        ...


class ExactEngine:
    """Closed-form posteriors of Gaussian beliefs and finite mixtures of them."""

    name = "exact"

    def __init__(self, prior: Prior, noise: GaussianNoise) -> None:
        if prior.law is None or noise.sigma is None:
            raise BeliefError(
                f"The exact engine needs a Gaussian (mixture) belief and a known sigma, '{prior.name}' is not that. "
                "Use engine='auto'."
            )
        self.prior = prior
        self.reason = "exact: the belief is " + ("Gaussian" if prior.is_gaussian else "a finite mixture of Gaussians")
        self._law = prior.law
        self._sigma = noise.sigma

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set, in chunks that bound the memory."""
        data = as_statistics(data)
        size = self.prior.n_arms * self.prior.n_features
        step = max(1, _CHUNK_VALUES // (size * size * max(block.n_components for block in self._law.blocks)))
        parts = [
            exact_moments(self._law, data.take(slice(start, start + step)), sigma=self._sigma, covariance=covariance)
            for start in range(0, max(data.n_sets, 1), step)
        ]
        mean = np.concatenate([part[0] for part in parts])
        return PosteriorBatch(
            mean=mean,
            covariance=np.concatenate([part[1] for part in parts if part[1] is not None]) if covariance else None,
            vouched=np.ones(len(mean), dtype=bool),
            engine=np.full(len(mean), self.name, dtype=object),
            diagnostics={},
            reason=self.reason,
            reward=linear_rewards(mean, users),
        )

    def fit_arms(self, data: Data) -> PosteriorBatch:
        """Posterior means, and the covariance of every arm's own coefficients."""
        data = as_statistics(data)
        size = max(len(block.arms) * block.n_components for block in self._law.blocks)
        step = max(1, _CHUNK_VALUES // (self.prior.n_arms * self.prior.n_features**2 * size))
        parts = [
            exact_arm_moments(self._law, data.take(slice(start, start + step)), sigma=self._sigma)
            for start in range(0, max(data.n_sets, 1), step)
        ]
        mean, own = parts[0] if len(parts) == 1 else (np.concatenate(part) for part in zip(*parts, strict=True))
        return PosteriorBatch(
            mean=mean,
            covariance=own,
            vouched=np.ones(len(mean), dtype=bool),
            engine=np.full(len(mean), self.name, dtype=object),
            diagnostics={},
            reason=self.reason,
        )

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Independent draws of the posterior, (M, n, K, d)."""
        return exact_draws(self._law, as_statistics(data), precision=1.0 / self._sigma**2, n=n, rng=rng)


def fit_arms(engine: Engine, data: Data) -> PosteriorBatch:
    """Posterior means, and at least the covariance of every arm's own coefficients: see ``arm_covariances``.

    An engine that need not work out how arms go together has ``fit_arms``.
    """
    own = getattr(engine, "fit_arms", None)
    return engine.fit(data, covariance=True) if own is None else own(data)


class ImportanceEngine:
    """Importance sampling from surrogate posteriors; see ``rcb_bayes.posterior.importance``."""

    name = "importance"

    def __init__(self, prior: Prior, noise: GaussianNoise, *, seed: int = DEFAULT_SEED) -> None:
        if noise.sigma is None:
            raise BeliefError("The importance engine needs a known sigma. Use engine='conditional' or engine='nuts'.")
        self.prior = prior
        self.reason = "importance: the belief has a density"
        self._sampler = ImportanceSampler(prior, sigma=noise.sigma, seed=seed)

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set with k-hat and effective size."""
        found = self._sampler.fit(as_statistics(data), covariance=covariance)
        return PosteriorBatch(
            mean=found.mean,
            covariance=found.covariance,
            vouched=found.vouched,
            engine=np.full(len(found.mean), self.name, dtype=object),
            diagnostics={
                "khat": found.khat,
                "effective_size": found.effective_size,
                "effective_share": found.effective_share,
            },
            reason=self.reason,
            reward=linear_rewards(found.mean, users),
        )

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Draws of the posterior, resampled from the weighted ones, (M, n, K, d)."""
        return self._sampler.draw(as_statistics(data), n, rng=rng)


class CheckedEngine:
    """A fast engine whose unvouched data sets are sent on: to Gibbs sampling where it can answer, then to NUTS.

    A belief with discrete variables has nowhere to send them: they come back as they are, not vouched for.
    """

    def __init__(self, first: Engine, noise: Noise, *, seed: int = DEFAULT_SEED) -> None:
        self.prior = first.prior
        self.name = first.name
        self._first = first
        self._second = None if first.name == GibbsEngine.name else _gibbs_or_none(first.prior, noise, seed)
        way = "nuts" if self._second is None else "gibbs, and what that does not goes to nuts"
        self.reason = f"{first.reason}; what it does not vouch for goes to {way}"
        self.nuts = NutsEngine(first.prior, noise, seed=seed)

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set; ``n_sent`` of the result counts those that NUTS answered."""
        batch = self._first.fit(data, covariance=covariance, users=users)
        sent = np.flatnonzero(~batch.vouched)
        if len(sent) and self._second is not None:
            answered = self._second.fit(data.take(sent), covariance=covariance, users=users_of(users, sent))
            batch = replace(merged(batch, answered, sent), reason=self.reason)
            sent = np.flatnonzero(~batch.vouched)
        if not len(sent) or self.nuts.discrete:
            return batch
        answered = self.nuts.fit(data.take(sent), covariance=covariance, users=users_of(users, sent))
        return replace(merged(batch, answered, sent), n_sent=len(sent), reason=self.reason)

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws, (M, n, K, d), by NUTS where the first engine does not vouch for its own."""
        sent = np.flatnonzero(~self._first.fit(data).vouched)
        draws = self._first.draw(data, n, rng=rng)
        if len(sent) and self._second is not None:
            draws[sent] = self._second.draw(data.take(sent), n, rng=rng)
            sent = sent[~self._second.fit(data.take(sent)).vouched]
        if len(sent) and not self.nuts.discrete:
            draws[sent] = self.nuts.draw(data.take(sent), n, rng=rng)
        return draws


def make_engine(prior: Prior, noise: Noise, *, engine: str = "auto", seed: int = DEFAULT_SEED) -> Engine:
    """The engine for a belief and a reward model; its ``reason`` says which it is and why.

    Parameters
    ----------
    prior : Prior
        The belief.
    noise : Noise
        How rewards come about.
    engine : str
        "auto", or the name of an engine.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Engine
        With ``fit`` and ``draw``.

    Raises
    ------
    RcbError
        An unknown name, or an engine that cannot serve this belief or these rewards.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> data = rcb.posterior.Statistics.from_rows([[1.0, 0.0], [0.0, 1.0]], arm=[0, 1], reward=[1.0, 0.0], n_arms=2)
    >>> engine = rcb.posterior.make_engine(market.prior, market.noise)
    >>> engine.reason
    'exact: the belief is Gaussian'
    >>> engine.fit(data).mean[0].round(2)
    array([[0.87, 0.2 ],
           [0.2 , 0.05]])
    """
    known = ("auto", *ENGINES)
    if engine not in known:
        raise no_such("engine", engine, known)
    if isinstance(prior, MovedPrior):  # its posteriors are those of the belief that was moved
        inner = make_engine(prior.base, noise_left(noise, scale=prior.scale), engine=engine, seed=seed)
        return MovedEngine(prior, inner, scale=prior.scale, shift=prior.shift, reason="moved")
    made = ENGINES[_choose(prior, noise) if engine == "auto" else engine](prior, noise, as_count(seed, name="seed"))
    checked(type(made))
    return counted(made)


def is_sampled(prior: Prior, noise: Noise, *, engine: str = "auto") -> bool:
    """Whether every posterior of a belief is sampled by NUTS: no faster engine can answer, or it was asked for."""
    if engine == "auto":
        return _choose(prior, noise) == NutsEngine.name
    return engine == NutsEngine.name


def posterior_means(
    prior: Prior,
    noise: Noise,
    data: Data,
    *,
    engine: str = "auto",
    covariance: bool = False,
    seed: int = DEFAULT_SEED,
) -> PosteriorBatch:
    """Posterior means of beta for a batch of data sets; warns where some are not vouched for.

    Making an engine compiles what it needs, so for more than one batch keep ``make_engine(...)`` and call its ``fit``.

    Parameters
    ----------
    prior : Prior
        The belief.
    noise : Noise
        How rewards come about.
    data : Statistics or Rows
        One or more data sets, as sums or, for 0/1 rewards, as rows.
    engine : str
        What computes posterior means; see ``posterior.make_engine``.
    covariance : bool
        Whether covariances are wanted too.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    PosteriorBatch
        Means, and whether they are vouched for.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> data = rcb.posterior.Statistics.from_rows([[1.0, 0.0], [0.0, 1.0]], arm=[0, 1], reward=[1.0, 0.0], n_arms=2)
    >>> batch = rcb.posterior.posterior_means(market.prior, market.noise, data)
    >>> batch.mean[0].round(2), batch.vouched
    (array([[0.87, 0.2 ],
           [0.2 , 0.05]]), array([ True]))
    """
    check_data(prior, noise, data)
    return warn_if_not_vouched(make_engine(prior, noise, engine=engine, seed=seed).fit(data, covariance=covariance))


def _choose(prior: Prior, noise: Noise) -> str:
    """The name of the engine for a belief and a reward model."""
    if not isinstance(noise, GaussianNoise):
        return "laplace" if prior.has_density or SiteSampler.of(prior) is not None else "nuts"
    if noise.sigma is not None and prior.law is not None:
        return "exact"
    if noise.sigma is not None and prior.has_density:
        return "importance"
    if noise.sigma is not None and _has_many_scales(prior):
        return "gibbs"
    return "conditional" if prior.is_conditionally_gaussian else "nuts"


def _has_many_scales(prior: Prior) -> bool:
    """Whether effects have so many unknown scales that drawing them from the belief is no way to a posterior."""
    mixture = prior.scale_mixture
    if mixture is None or layout_of(prior) is None:
        return False
    return mixture.n_scales + int((mixture.kind != 0).sum()) > MOST_DRAWN


def _gibbs_or_none(prior: Prior, noise: Noise, seed: int) -> GibbsEngine | None:
    if not isinstance(noise, GaussianNoise) or noise.sigma is None or layout_of(prior) is None:
        return None
    return GibbsEngine(prior, noise, seed=seed)


def _gaussian(noise: Noise, engine: str) -> GaussianNoise:
    """The noise, if rewards are Gaussian."""
    if not isinstance(noise, GaussianNoise):
        raise RcbError(f"The {engine} engine is for Gaussian rewards. Use engine='laplace', 'nuts' or 'auto'.")
    return noise


def _importance(prior: Prior, noise: Noise, seed: int) -> Engine:
    return CheckedEngine(ImportanceEngine(prior, _gaussian(noise, "importance"), seed=seed), noise, seed=seed)


def _conditional(prior: Prior, noise: Noise, seed: int) -> Engine:
    return CheckedEngine(ConditionalEngine(prior, _gaussian(noise, "conditional")), noise, seed=seed)


def _gibbs(prior: Prior, noise: Noise, seed: int) -> Engine:
    return CheckedEngine(GibbsEngine(prior, _gaussian(noise, "gibbs"), seed=seed), noise, seed=seed)


def _laplace(prior: Prior, noise: Noise, seed: int) -> Engine:
    if isinstance(noise, GaussianNoise):
        raise RcbError("The laplace engine is for Bernoulli rewards. Use engine='auto'.")
    return CheckedEngine(LaplaceEngine(prior, seed=seed), noise, seed=seed)


EngineMaker = Callable[[Prior, Noise, int], Engine]
ENGINES: dict[str, EngineMaker] = {
    "exact": lambda prior, noise, seed: ExactEngine(prior, _gaussian(noise, "exact")),
    "importance": _importance,
    "conditional": _conditional,
    "gibbs": _gibbs,
    "laplace": _laplace,
    "nuts": lambda prior, noise, seed: NutsEngine(prior, noise, seed=seed),
}
"""What makes an engine of each name from a belief, a reward model and a seed; enter one of your own under its name."""


def check_data(prior: Prior, noise: Noise, data: Data, *, n_sets: int | None = None) -> None:
    """Raise where data do not fit the belief, the reward model or the number of data sets wanted."""
    if n_sets is not None and data.n_sets != n_sets:
        raise DataError(f"Expected {n_sets} data set(s), got {data.n_sets}. Use posterior_means for a batch.")
    if isinstance(data, Statistics):
        k, d = data.xty.shape[1:]
    else:
        k, d = data.n_arms, (data.users if isinstance(data, Tallies) else data.x).shape[-1]
    if (k, d) != (prior.n_arms, prior.n_features):
        raise DataError(f"The data have {k} arms and {d} features, the belief {prior.n_arms} and {prior.n_features}.")
    as_statistics(data) if noise.is_gaussian else as_counted(data)
