r"""A belief that has loosened: its deviations from the mean stretched, answered by an engine of the belief itself.

Assumption 4 multiplies prior variances by a factor g. With :math:`s = \sqrt g`, the prior mean m and c from the belief,
:math:`b = m + s (c - m)` has those variances, and the rewards

.. math:: y/s + x'm (1 - 1/s) = x'c + \text{noise}/s

are those of c with noise sigma/s. So an engine of the belief with that noise answers, and its means are stretched back.
"""

import math
from dataclasses import replace

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market.noise import GaussianNoise, Noise
from rcb_bayes.posterior.data import Data, Statistics, as_statistics, unchecked_statistics
from rcb_bayes.posterior.engines import Engine, make_engine
from rcb_bayes.posterior.results import PosteriorBatch, linear_rewards
from rcb_bayes.schema import DEFAULT_SEED, FloatArray


class StretchedEngine:
    """Posteriors under a belief whose variances are multiplied by ``factor``.

    Attributes
    ----------
    inner : the engine of the belief itself, with the noise that is left
    stretch : s, the root of the factor

    Raises
    ------
    RcbError
        Rewards other than Gaussian with a known sigma.
    """

    def __init__(
        self, prior: Prior, noise: Noise, *, factor: float, engine: str = "auto", seed: int = DEFAULT_SEED
    ) -> None:
        sigma = known_sigma(noise)
        self.prior = prior
        self.stretch = math.sqrt(factor)
        self.inner: Engine = make_engine(prior, GaussianNoise(sigma / self.stretch), engine=engine, seed=seed)
        self.name = self.inner.name
        self.reason = f"{self.inner.reason}; variances times {factor:g}"

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set."""
        batch = self.inner.fit(self.inner_data(data), covariance=covariance)
        means = self.stretched(batch.mean)
        spread = None if batch.covariance is None else self.stretch**2 * batch.covariance
        return replace(batch, mean=means, covariance=spread, reason=self.reason, reward=linear_rewards(means, users))

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d)."""
        return self.stretched(self.inner.draw(self.inner_data(data), n, rng=rng))

    def stretched(self, beta: FloatArray) -> FloatArray:
        """b of c, (..., K, d)."""
        mean = self.prior.mean.values
        return mean + self.stretch * (beta - mean)

    def inner_data(self, data: Data) -> Statistics:
        """The data with the rewards that c, rather than b, would have given."""
        data, s = as_statistics(data), self.stretch
        shift = (1.0 - 1.0 / s) * self.prior.mean.values  # (K, d)
        moved = np.einsum("...kde,ke->...kd", data.xtx, shift)
        cross = np.einsum("...kd,kd->...k", data.xty, shift)
        yty = data.yty / s**2 + 2.0 * cross / s + np.einsum("...kd,kd->...k", moved, shift)
        return unchecked_statistics(data.xtx, data.xty / s + moved, yty, data.n)


def known_sigma(noise: Noise | None) -> float:
    """The noise's standard deviation, which a stretch needs to know.

    Raises
    ------
    RcbError
        Where there is none.
    """
    sigma = getattr(noise, "sigma", None)
    if sigma is None:
        raise RcbError(
            "Inflation stretches a prior, so it needs a posterior oracle and Gaussian rewards with a known sigma. "
            "Use inflation='none'."
        )
    return float(sigma)
