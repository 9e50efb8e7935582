"""Reward models: how a reward y comes about for a user with linear predictor eta = x'b.

Gaussian rewards are y = eta + sigma z, Bernoulli rewards are 1 with probability 1 / (1 + exp(-eta)). With the latter
the mean reward of a user is not linear in b: average ``mean_reward`` over the posterior, do not apply it to the mean.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.calling import checked
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import FloatArray, as_finite_array, is_number

_SMALLEST, _LARGEST = 1e-50, 1e50  # of a standard deviation

NoiseKind = Literal["gaussian", "bernoulli_logit"]


@runtime_checkable
class Noise(Protocol):
    """A law of the reward given the linear predictor eta = x'b."""

    @property
    def name(self) -> str:
        """A name for tables and messages."""
        ...

    @property
    def kind(self) -> NoiseKind:
        """Which model this is."""
        ...

    @property
    def is_gaussian(self) -> bool:
        """Whether y is eta plus Gaussian noise, so that data enter through X'X and X'y only."""
        ...

    @property
    def needs_sigma(self) -> bool:
        """Whether sigma is unknown, so that ``sample`` and ``variance`` must be given it."""
        ...

    def mean_reward(self, eta: ArrayLike) -> FloatArray:
        """E[y | eta], same shape."""
        ...

    def variance(self, eta: ArrayLike, *, sigma: ArrayLike | None = None) -> FloatArray:
        """Var(y | eta), shape of eta and sigma broadcast against each other."""
        ...

    def sample(self, eta: ArrayLike, *, rng: np.random.Generator, sigma: ArrayLike | None = None) -> FloatArray:
        """Independent rewards, shape of eta and sigma broadcast against each other."""
        ...

    def describe(self) -> str:
        """The model in one line."""
        ...


@checked
@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Rewards y = eta + sigma z with z standard normal.

    Parameters
    ----------
    sigma : float, optional
        Standard deviation, positive and finite. None: unknown, a variable ``sigma`` of the belief.

    Raises
    ------
    RcbError
        When sigma is not a positive finite number.

    Applicability
    -------------
    The paper's model. With sigma known and a Gaussian (mixture) prior the posterior is exact; an unknown sigma takes
    MCMC. Rewards are not clipped to [0, 1], the range the paper's bounds assume.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> noise = rcb.GaussianNoise(0.3)
    >>> noise.mean_reward([0.5, 1.0]), noise.variance([0.5, 1.0])
    (array([0.5, 1. ]), array([0.09, 0.09]))
    >>> rcb.GaussianNoise().needs_sigma
    True
    """

    sigma: float | None = None

    def __post_init__(self) -> None:
        if self.sigma is not None:
            object.__setattr__(self, "sigma", _as_sigma(self.sigma))

    @property
    def name(self) -> str:
        """A name for tables and messages."""
        return "Gaussian"

    @property
    def kind(self) -> NoiseKind:
        """Which model this is."""
        return "gaussian"

    @property
    def is_gaussian(self) -> bool:
        """Always true."""
        return True

    @property
    def needs_sigma(self) -> bool:
        """Whether sigma is unknown, so that ``sample`` and ``variance`` must be given it."""
        return self.sigma is None

    def mean_reward(self, eta: ArrayLike) -> FloatArray:
        """E[y | eta] = eta, as an array of its own."""
        return as_finite_array(eta, name="eta").copy()

    def variance(self, eta: ArrayLike, *, sigma: ArrayLike | None = None) -> FloatArray:
        """Var(y | eta) = sigma^2, shape of eta and sigma broadcast against each other.

        Raises
        ------
        RcbError
            When sigma is unknown and not given, known and given, not positive, or does not broadcast.
        """
        _, scale = self._broadcast(eta, sigma)
        return scale**2

    def sample(self, eta: ArrayLike, *, rng: np.random.Generator, sigma: ArrayLike | None = None) -> FloatArray:
        """Independent rewards eta + sigma z, shape of eta and sigma broadcast against each other.

        Parameters
        ----------
        eta : array
            Linear predictors x'b, any shape.
        rng : numpy.random.Generator
            Numpy.random.Generator Source of the noise.
        sigma : array, optional
            Standard deviations, such as one draw per world; needed if, and only if, the model's own is unknown.

        Returns
        -------
        ndarray
            The shape of eta.

        Raises
        ------
        RcbError
            When sigma is unknown and not given, known and given, not positive, or does not broadcast.
        """
        centre, scale = self._broadcast(eta, sigma)
        return centre + scale * rng.standard_normal(centre.shape)

    def describe(self) -> str:
        """The model in one line."""
        scale = "unknown sigma, from the belief's variable 'sigma'" if self.sigma is None else f"sigma = {self.sigma:g}"
        return f"Gaussian rewards, {scale}"

    def _broadcast(self, eta: ArrayLike, sigma: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
        centre = as_finite_array(eta, name="eta")
        scale = self._scale(sigma)
        try:
            shape = np.broadcast_shapes(centre.shape, scale.shape)
        except ValueError:
            raise RcbError(
                f"eta of shape {centre.shape} and sigma of shape {scale.shape} do not broadcast. "
                "Give sigma one value, or trailing dimensions of size 1, as in sigma[:, None]."
            ) from None
        return np.broadcast_to(centre, shape), np.broadcast_to(scale, shape)

    def _scale(self, sigma: ArrayLike | None) -> FloatArray:
        if self.sigma is not None:
            if sigma is not None:
                raise RcbError(
                    f"sigma is fixed at {self.sigma:g}: leave it out here, or use GaussianNoise(sigma=None)."
                )
            return np.asarray(self.sigma)
        if sigma is None:
            raise RcbError("sigma is unknown in GaussianNoise(): give sigma=, such as draws of the belief's 'sigma'.")
        return _as_sigmas(sigma)


@checked
@dataclass(frozen=True, slots=True)
class BernoulliLogit:
    """Rewards y in {0, 1} with Pr(y = 1) = 1 / (1 + exp(-eta)).

    Applicability
    -------------
    Clicks, purchases, correct doses. Outside the paper's linear model: regret bounds and Theorem 1's constants do
    not cover it, sampled plans and audits do. The noise has no scale of its own, so sigma is refused.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> noise = rcb.BernoulliLogit()
    >>> noise.mean_reward([-2.0, 0.0, 2.0]).round(2)
    array([0.12, 0.5 , 0.88])
    >>> noise.sample([0.0, 0.0, 0.0], rng=np.random.default_rng(1))
    array([0., 0., 1.])
    """

    @property
    def name(self) -> str:
        """A name for tables and messages."""
        return "Bernoulli-logit"

    @property
    def kind(self) -> NoiseKind:
        """Which model this is."""
        return "bernoulli_logit"

    @property
    def is_gaussian(self) -> bool:
        """Always false."""
        return False

    @property
    def needs_sigma(self) -> bool:
        """Always false."""
        return False

    def mean_reward(self, eta: ArrayLike) -> FloatArray:
        """E[y | eta] = 1 / (1 + exp(-eta)), accurate in both tails."""
        return np.exp(-np.logaddexp(0.0, -as_finite_array(eta, name="eta")))

    def variance(self, eta: ArrayLike, *, sigma: ArrayLike | None = None) -> FloatArray:
        """Var(y | eta) = p (1 - p) with p the mean reward.

        Raises
        ------
        RcbError
            When sigma is given.
        """
        _refuse_sigma(sigma)
        predictor = as_finite_array(eta, name="eta")
        return self.mean_reward(predictor) * self.mean_reward(-predictor)

    def sample(self, eta: ArrayLike, *, rng: np.random.Generator, sigma: ArrayLike | None = None) -> FloatArray:
        """Independent rewards 0.0 or 1.0, same shape as eta.

        Raises
        ------
        RcbError
            When sigma is given.
        """
        _refuse_sigma(sigma)
        chance = self.mean_reward(eta)
        return (rng.random(chance.shape) < chance).astype(np.float64)

    def describe(self) -> str:
        """The model in one line."""
        return "Bernoulli rewards, logit link"


def _as_sigma(value: object) -> float:
    if is_number(value) and value > 0:
        if not _SMALLEST <= float(value) <= _LARGEST:
            raise RcbError(
                f"sigma must be between {_SMALLEST:g} and {_LARGEST:g}, got {value!r}: beyond, its powers have no "
                "digits left. Give rewards in other units."
            )
        return float(value)
    remedy = "Give the standard deviation of the rewards, or None if it is unknown."
    raise RcbError(f"sigma must be a positive finite number, got {value!r}. {remedy}")


def _as_sigmas(values: ArrayLike) -> FloatArray:
    raw = np.asarray(values)
    if raw.dtype.kind not in "iuf" or not np.isfinite(raw).all() or (raw <= 0).any():
        bad = raw.dtype if raw.dtype.kind not in "iuf" else raw[~(np.isfinite(raw) & (raw > 0))][0]
        raise RcbError(f"sigma must be positive finite numbers, got {bad}. Check the belief's draws of 'sigma'.")
    return raw.astype(np.float64)


def _refuse_sigma(sigma: ArrayLike | None) -> None:
    if sigma is not None:
        raise RcbError("BernoulliLogit rewards have no sigma: leave it out, or use GaussianNoise.")
