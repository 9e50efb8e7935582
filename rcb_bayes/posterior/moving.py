r"""A belief shifted and scaled, answered by an engine of the belief itself.

With the prior mean m, c from the belief and :math:`b = m + s (c - m) + \delta`, the rewards :math:`y = x'b` + noise are
such that

.. math:: y/s + x'(m (1 - 1/s) - \delta/s) = x'c + \text{noise}/s

are those of c with noise sigma/s. So an engine of the belief with that noise answers, and its means are moved back.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market.noise import GaussianNoise, Noise
from rcb_bayes.posterior.data import Data, Statistics, as_statistics, unchecked_statistics
from rcb_bayes.posterior.results import PosteriorBatch, linear_rewards
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.posterior.engines import Engine


class MovedEngine:
    """Posteriors under a belief that was moved.

    Parameters
    ----------
    prior : Prior
        What data sets are answered for.
    inner : Engine
        Of the belief as it was, with the noise that is left; see ``noise_left``.
    scale : float
        s.
    shift : ndarray
        delta, (K, d) or what broadcasts.
    reason : str
        What was done, in words.
    """

    def __init__(
        self, prior: Prior, inner: "Engine", *, scale: float, shift: FloatArray | float = 0.0, reason: str
    ) -> None:
        self.prior, self.inner = prior, inner
        self.scale, self.shift = scale, shift
        self.name = inner.name
        self.reason = f"{inner.reason}; {reason}"

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set."""
        batch = self.inner.fit(self.inner_data(data), covariance=covariance)
        means = self.moved(batch.mean)
        spread = None if batch.covariance is None else self.scale**2 * batch.covariance
        return replace(batch, mean=means, covariance=spread, reason=self.reason, reward=linear_rewards(means, users))

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d)."""
        return self.moved(self.inner.draw(self.inner_data(data), n, rng=rng))

    def moved(self, beta: FloatArray) -> FloatArray:
        """b of c, (..., K, d)."""
        mean = self.inner.prior.mean.values
        return mean + self.scale * (beta - mean) + self.shift

    def inner_data(self, data: Data) -> Statistics:
        """The data with the rewards that c, rather than b, would have given."""
        data, s = as_statistics(data), self.scale
        added = (1.0 - 1.0 / s) * self.inner.prior.mean.values - self.shift / s  # (K, d)
        moved = np.einsum("...kde,ke->...kd", data.xtx, added)
        cross = np.einsum("...kd,kd->...k", data.xty, added)
        yty = data.yty / s**2 + 2.0 * cross / s + np.einsum("...kd,kd->...k", moved, added)
        return unchecked_statistics(data.xtx, data.xty / s + moved, yty, data.n)


def noise_left(noise: Noise, *, scale: float) -> GaussianNoise:
    """The noise that c is seen with; a shift alone leaves it as it is, known or not.

    Raises
    ------
    RcbError
        Rewards other than Gaussian, or with an unknown sigma and another scale than 1.
    """
    if not isinstance(noise, GaussianNoise):
        raise RcbError(
            "A belief without a closed form is shifted and scaled for Gaussian rewards only. Write the moved belief as "
            "a PyMC model, and pass it as prior=."
        )
    if scale == 1.0:
        return noise
    if noise.sigma is None:
        raise RcbError("A belief with a 'sigma' of its own is not scaled. Shift it, or write the scaled belief anew.")
    return GaussianNoise(noise.sigma / scale)
