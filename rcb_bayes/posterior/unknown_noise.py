r"""Posteriors of a Gaussian belief when the noise's sd alone is unknown: one eigendecomposition serves every sd.

With prior :math:`N(m, RR')`, :math:`R'X'XR = Q \mathrm{diag}(l) Q'` and :math:`w = Q'R'(X'y - X'Xm)`, given a
precision :math:`\tau = 1/\sigma^2`,

.. math::

    E[b | S, \tau] = m + RQ \frac{\tau w}{1 + \tau l}, \qquad
    \mathrm{Cov}(b | S, \tau) = RQ \, \mathrm{diag}\Big(\frac{1}{1 + \tau l}\Big) Q'R', \qquad
    \log p(S | \tau) = \frac n2 \log \tau - \frac \tau2 |y - Xm|^2
    + \frac12 \sum \Big(\frac{\tau^2 w^2}{1 + \tau l} - \log(1 + \tau l)\Big)
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.belief.law import square_root
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.exact import block_statistics
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class NoiseMixture:
    """Posteriors of M data sets, each a mixture over C precisions ``tau`` (C,) of the noise.

    ``centre`` (p,) is the prior mean, ``basis`` (M, p, p) is RQ, ``score`` w and ``spectrum`` l are (M, p), and
    ``log_weight`` (M, C) is normalised over C.
    """

    centre: FloatArray
    basis: FloatArray
    score: FloatArray
    spectrum: FloatArray
    tau: FloatArray
    log_weight: FloatArray

    def mean(self) -> FloatArray:
        """Posterior means, (M, p)."""
        return self.centre + (self.basis @ (self.score * self._average(self._pull()))[..., None])[..., 0]

    def covariance(self) -> FloatArray:
        """Posterior covariances, (M, p, p): within the precisions and between them."""
        pull = self._pull()
        within = self._average(pull / self.tau[:, None])  # (M, p)
        centred = self.score[:, None] * (pull - self._average(pull)[:, None])  # (M, C, p)
        between = (np.exp(self.log_weight)[..., None] * centred).swapaxes(1, 2) @ centred
        inner = between + within[..., None] * np.eye(within.shape[1])
        return self.basis @ inner @ self.basis.swapaxes(1, 2)

    def draw(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws, (M, n, p): a precision by its weight, then the coefficients exactly."""
        edges = np.cumsum(np.exp(self.log_weight), axis=1)
        uniform = rng.uniform(size=(len(edges), n)) * edges[:, -1:]
        label = np.stack([np.searchsorted(row, u) for row, u in zip(edges, uniform, strict=True)])
        tau = self.tau[label][..., None]  # (M, n, 1)
        shrunk = 1.0 / (1.0 + tau * self.spectrum[:, None])
        normal = rng.standard_normal(shrunk.shape)
        rotated = tau * shrunk * self.score[:, None] + np.sqrt(shrunk) * normal
        return self.centre + rotated @ self.basis.swapaxes(1, 2)

    def _pull(self) -> FloatArray:
        """tau / (1 + tau l), (M, C, p)."""
        return self.tau[:, None] / (1.0 + self.tau[:, None] * self.spectrum[:, None])

    def _average(self, values: FloatArray) -> FloatArray:
        """Weighted mean over the precisions, (M, C, p) -> (M, p)."""
        return (np.exp(self.log_weight)[:, None] @ values)[:, 0]


def noise_mixture(centre: FloatArray, covariance: FloatArray, data: Statistics, *, tau: FloatArray) -> NoiseMixture:
    """The posterior under equally likely precisions ``tau`` (C,) and beta ~ N(centre, covariance), all arms stacked."""
    gram, moment = block_statistics(np.arange(data.n.shape[1])[None], data)
    gram, moment = gram[:, 0], moment[:, 0]  # (M, p, p), (M, p)
    root = square_root(covariance)
    spectrum, vectors = np.linalg.eigh(root.T @ gram @ root)
    spectrum = np.maximum(spectrum, 0.0)
    basis = root @ vectors
    residual = moment - gram @ centre  # X'(y - Xm)
    score = (residual[:, None] @ basis)[:, 0]
    square = data.yty.sum(axis=1) - (moment + residual) @ centre  # |y - Xm|^2
    log_tau, n = np.log(tau), data.n.sum(axis=1)
    log_weight = 0.5 * (n[:, None] * log_tau - square[:, None] * tau)
    for stretch, w in zip(spectrum.T, score.T, strict=True):  # one coefficient at a time keeps the arrays small
        stretched = 1.0 + tau * stretch[:, None]  # (M, C)
        log_weight += 0.5 * ((tau * w[:, None]) ** 2 / stretched - np.log(stretched))
    log_weight -= np.logaddexp.reduce(log_weight, axis=1)[:, None]
    return NoiseMixture(centre, basis, score, spectrum, tau, log_weight)
