r"""A Gaussian posterior that learns one sample at a time.

With prior :math:`b \sim N(m, C)` and a reward :math:`y = x'b + \sigma z`,

.. math:: g = \frac{C x}{\sigma^2 + x'Cx}, \qquad m \leftarrow m + g (y - x'm), \qquad C \leftarrow C - g (Cx)',

at the cost of a product of C with x. What rounding leaves behind is wiped out from time to time by a fit from the sums.
"""

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import GaussianLaw
from rcb_bayes.market.noise import GaussianNoise, Noise
from rcb_bayes.mechanism.kernel import linear_scores
from rcb_bayes.posterior.exact import exact_moments
from rcb_bayes.running.history import History
from rcb_bayes.schema import FloatArray

_EVERY = 1024  # samples between fits from the sums


class Conjugate:
    """The posterior of a Gaussian belief under Gaussian rewards with a known sigma; a predictor as it stands.

    Attributes
    ----------
    means : (K, d)
    covariances : of each arm by itself, (K, d, d)
    arms_apart : whether arms are independent
    """

    def __init__(self, law: GaussianLaw, sigma: float) -> None:
        self._law = law
        self._sigma = sigma
        self.arms_apart = all(len(block.arms) == 1 for block in law.blocks)
        self.means = np.empty((law.n_arms, law.n_features))
        self.covariances = np.empty((law.n_arms, law.n_features, law.n_features))
        self._places = {
            arm: (b, slice(k * law.n_features, (k + 1) * law.n_features))
            for b, block in enumerate(law.blocks)
            for k, arm in enumerate(block.arms)
        }
        self._set(law.mean(), law.covariance())

    @classmethod
    def of(cls, prior: Prior, noise: Noise) -> "Conjugate | None":
        """For a belief and a reward model, None where they are not Gaussian."""
        if prior.law is None or not prior.is_gaussian or not isinstance(noise, GaussianNoise) or noise.sigma is None:
            return None
        return cls(prior.law, noise.sigma)

    def scores(self, features: FloatArray) -> FloatArray:
        """x'm of every arm, from users' features (d, n): (K, n)."""
        return linear_scores(self.means, features)

    def variances(self, features: FloatArray) -> FloatArray:
        """x'Cx of every arm, (K, n)."""
        return ((self.covariances @ features) * features).sum(axis=1)

    def fit(self, history: History) -> None:
        """What a whole history says."""
        mean, joint = exact_moments(self._law, history.sums(), sigma=self._sigma, covariance=True)
        assert joint is not None  # asked for
        self._set(mean[0], joint[0])

    def learn(self, x: FloatArray, arm: int, reward: float, history: History) -> None:
        """One more sample, the last of the history."""
        n = history.n_samples
        if n % _EVERY == 0 or n & (n - 1) == 0:
            self.fit(history)
            return
        number, own = self._places[arm]
        mean, cov = self._mean[number], self._cov[number]
        pull = cov[:, own] @ x
        gain = pull / (self._sigma**2 + x @ pull[own])
        mean += gain * (reward - x @ mean[own])
        cov -= gain[:, None] * pull
        if not self.arms_apart:
            self._copy_out(number)

    def _set(self, mean: FloatArray, joint: FloatArray) -> None:
        """All of it, from the means (K, d) and the joint covariance (K d, K d)."""
        flat = mean.reshape(-1)
        self._mean, self._cov = [], []
        for number, block in enumerate(self._law.blocks):
            index = self._law.flat_index(block)
            self._mean.append(flat[index].copy())
            self._cov.append(joint[np.ix_(index, index)].copy())
            if len(block.arms) == 1:  # views: what is learnt shows at once
                arm = block.arms[0]
                self.means[arm], self.covariances[arm] = self._mean[-1], self._cov[-1]
                self._mean[-1], self._cov[-1] = self.means[arm], self.covariances[arm]
            else:
                self._copy_out(number)

    def _copy_out(self, number: int) -> None:
        d = self._law.n_features
        for k, arm in enumerate(self._law.blocks[number].arms):
            own = slice(k * d, (k + 1) * d)
            self.means[arm], self.covariances[arm] = self._mean[number][own], self._cov[number][own, own]
