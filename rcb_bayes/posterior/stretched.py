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
from rcb_bayes.posterior.data import Rows, Statistics, as_statistics, unchecked_statistics
from rcb_bayes.posterior.engines import Engine, make_engine
from rcb_bayes.posterior.results import PosteriorBatch, linear_rewards
from rcb_bayes.schema import DEFAULT_SEED, FloatArray

Sums = tuple[FloatArray, FloatArray]


class StretchedEngine:
    """Posteriors under a belief whose variances are multiplied by ``factor``.

    Raises
    ------
    RcbError
        Rewards other than Gaussian with a known sigma.
    """

    def __init__(self, prior: Prior, noise: Noise, *, factor: float, seed: int = DEFAULT_SEED) -> None:
        sigma = known_sigma(noise)
        self.prior = prior
        self._stretch = math.sqrt(factor)
        self._inner: Engine = make_engine(prior, GaussianNoise(sigma / self._stretch), seed=seed)
        self.name = self._inner.name
        self.reason = f"{self._inner.reason}; variances times {factor:g}"

    def fit(
        self, data: Statistics | Rows, *, covariance: bool = False, users: FloatArray | None = None
    ) -> PosteriorBatch:
        """Posterior moments of every data set."""
        data, mean, s = as_statistics(data), self.prior.mean.values, self._stretch
        xty, yty = stretched_sums(data.xtx, data.xty, data.yty, mean=mean, stretch=s)
        found = self._inner.fit(unchecked_statistics(data.xtx, xty, yty, data.n), covariance=covariance)
        means = mean + s * (found.mean - mean)
        spread = None if found.covariance is None else s**2 * found.covariance
        return replace(found, mean=means, covariance=spread, reason=self.reason, reward=linear_rewards(means, users))

    def draw(self, data: Statistics | Rows, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d)."""
        data, mean, s = as_statistics(data), self.prior.mean.values, self._stretch
        xty, yty = stretched_sums(data.xtx, data.xty, data.yty, mean=mean, stretch=s)
        inner = self._inner.draw(unchecked_statistics(data.xtx, xty, yty, data.n), n, rng=rng)
        return mean + s * (inner - mean)


def stretched_sums(xtx: FloatArray, xty: FloatArray, yty: FloatArray, *, mean: FloatArray, stretch: float) -> Sums:
    """X'y and y'y of the rewards that c, rather than b, would have given; leading axes are data sets."""
    shift = (1.0 - 1.0 / stretch) * mean  # (K, d)
    moved = np.einsum("...kde,ke->...kd", xtx, shift)
    cross = np.einsum("...kd,kd->...k", xty, shift)
    return xty / stretch + moved, yty / stretch**2 + 2.0 * cross / stretch + np.einsum("...kd,kd->...k", moved, shift)


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
