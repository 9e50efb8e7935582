r"""Posteriors of a Gaussian belief when the noise's sd alone is unknown: one eigendecomposition serves every sd.

With prior :math:`N(m, RR')`, :math:`R'X'XR = Q \mathrm{diag}(l) Q'` and :math:`w = Q'R'(X'y - X'Xm)`, given a
precision :math:`\tau = 1/\sigma^2`,

.. math::

    E[b | S, \tau] = m + RQ \frac{\tau w}{1 + \tau l}, \qquad
    \mathrm{Cov}(b | S, \tau) = RQ \, \mathrm{diag}\Big(\frac{1}{1 + \tau l}\Big) Q'R', \qquad
    \log p(S | \tau) = \frac n2 \log \tau - \frac \tau2 |y - Xm|^2
    + \frac12 \sum \Big(\frac{\tau^2 w^2}{1 + \tau l} - \log(1 + \tau l)\Big)
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np

from rcb_bayes.belief.law import square_root
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.exact import block_statistics
from rcb_bayes.posterior.kernels import compiled
from rcb_bayes.posterior.scales import judge_rule
from rcb_bayes.schema import BoolArray, FloatArray

_N_COARSE = 256  # intervals of the whole line
_ZOOM = np.linspace(-1.0, 1.0, 9)
_WIDER = 4.0 ** np.arange(6)  # steps over which curvatures are taken
_VISIBLE = 0.01  # fall of a log density that is not rounding
_NODES = np.linspace(-7.5, 7.5, 31)  # in sd of the log noise


@dataclass(frozen=True, slots=True, eq=False)
class NoiseMixture:
    """Posteriors of M data sets, each a mixture over C precisions ``tau`` of the noise, (C,) or each one's own (M, C).

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
        within = self._average(pull / self.tau[..., None])  # (M, p)
        centred = self.score[:, None] * (pull - self._average(pull)[:, None])  # (M, C, p)
        between = (np.exp(self.log_weight)[..., None] * centred).swapaxes(1, 2) @ centred
        inner = between + within[..., None] * np.eye(within.shape[1])
        return self.basis @ inner @ self.basis.swapaxes(1, 2)

    def between_halves(self) -> tuple[FloatArray, FloatArray]:
        """Means by odd precisions less means by even ones, and posterior sd within precisions, each (M, p)."""
        pull, weight = self._pull(), np.exp(self.log_weight)
        halves = [
            (weight[:, None, half::2] @ pull[:, half::2])[:, 0] / weight[:, half::2].sum(axis=1)[:, None]
            for half in (0, 1)
        ]
        apart = (self.basis @ (self.score * (halves[1] - halves[0]))[..., None])[..., 0]
        variance = (self.basis**2 @ self._average(pull / self.tau[..., None])[..., None])[..., 0]
        return apart, np.sqrt(np.maximum(variance, np.finfo(float).tiny))

    def draw(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws, (M, n, p): a precision by its weight, then the coefficients exactly."""
        edges = np.cumsum(np.exp(self.log_weight), axis=1)
        uniform = rng.uniform(size=(len(edges), n)) * edges[:, -1:]
        label = np.stack([np.searchsorted(row, u) for row, u in zip(edges, uniform, strict=True)])
        own = np.broadcast_to(self.tau, self.log_weight.shape)
        tau = np.take_along_axis(own, label, axis=1)[..., None]  # (M, n, 1)
        shrunk = 1.0 / (1.0 + tau * self.spectrum[:, None])
        normal = rng.standard_normal(shrunk.shape)
        rotated = tau * shrunk * self.score[:, None] + np.sqrt(shrunk) * normal
        return self.centre + rotated @ self.basis.swapaxes(1, 2)

    def _pull(self) -> FloatArray:
        """tau / (1 + tau l), (M, C, p)."""
        return self.tau[..., None] / (1.0 + self.tau[..., None] * self.spectrum[:, None])

    def _average(self, values: FloatArray) -> FloatArray:
        """Weighted mean over the precisions, (M, C, p) -> (M, p)."""
        return (np.exp(self.log_weight)[:, None] @ values)[:, 0]


def noise_mixture(centre: FloatArray, covariance: FloatArray, data: Statistics, *, tau: FloatArray) -> NoiseMixture:
    """The posterior under equally likely precisions ``tau`` (C,) and beta ~ N(centre, covariance), all arms stacked."""
    given = _NoiseEvidence.of(centre, covariance, data)
    log_weight = given.log_evidence(tau)
    log_weight -= np.logaddexp.reduce(log_weight, axis=1)[:, None]
    return NoiseMixture(centre, given.basis, given.score, given.spectrum, tau, log_weight)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseIntegral:
    """Posteriors of M data sets over an unknown noise, by the trapezoid rule over its logarithm.

    ``effective_size`` and ``vouched``, (M,), are those of the rule: see ``scales``.
    """

    mixture: NoiseMixture
    effective_size: FloatArray
    vouched: BoolArray


def integrate_noise(
    centre: FloatArray, covariance: FloatArray, data: Statistics, *, line: tuple[FloatArray, FloatArray]
) -> NoiseIntegral:
    """The posterior under beta ~ N(centre, covariance) and a noise with log densities at logarithms ``line``.

    Each data set has nodes of its own, around the mode of its log sd and as wide as its curvature says. What lies
    beyond them on the whole line, at another mode, counts as lying at their ends.
    """
    given = _NoiseEvidence.of(centre, covariance, data)

    def log_posterior(nodes: FloatArray) -> FloatArray:
        log_prior = np.interp(nodes, *line, left=-np.inf, right=-np.inf)
        return given.log_evidence(np.exp(-2.0 * nodes)) + log_prior

    stride = len(line[0]) // _N_COARSE
    coarse, step = line[0][::stride], line[0][stride] - line[0][0]
    nodes, spacing = np.broadcast_to(coarse, (data.n_sets, len(coarse))), step
    everywhere = log_posterior(nodes)
    best = np.take_along_axis(nodes, everywhere.argmax(axis=1)[:, None], axis=1)
    nodes = best + step * _ZOOM
    for _ in range(4):
        best = np.take_along_axis(nodes, log_posterior(nodes).argmax(axis=1)[:, None], axis=1)
        step /= 4.0
        nodes = best + step * _ZOOM
    nodes = best + _NODES / np.sqrt(_bends(log_posterior, best, step))[:, None]
    log_weight = log_posterior(nodes)
    beyond = (coarse < nodes[:, :1]) | (coarse > nodes[:, -1:])
    outside = np.logaddexp.reduce(np.where(beyond, everywhere, -np.inf), axis=1) + np.log(spacing)
    with np.errstate(invalid="ignore"):
        total = np.logaddexp.reduce(log_weight, axis=1)
        outside = np.exp(np.minimum(outside - total - np.log(nodes[:, 1] - nodes[:, 0]), 0.0))
        log_weight -= total[:, None]
    mixture = NoiseMixture(centre, given.basis, given.score, given.spectrum, np.exp(-2.0 * nodes), log_weight)
    weight = np.exp(log_weight)
    odd = weight[:, 1::2].sum(axis=1)
    apart, sd = mixture.between_halves()
    size, vouched = judge_rule(apart, sd, odd=odd, ends=np.column_stack([weight[:, [0, -1]], outside]))
    return NoiseIntegral(mixture, size, vouched)


def _bends(log_posterior: Callable[[FloatArray], FloatArray], best: FloatArray, step: float) -> FloatArray:
    """Curvatures at the modes ``best`` (M, 1), each over the least of some steps that shows a fall: (M,).

    Where the noise is next to nothing, squares of residuals are what large sums leave: rounding hides a fall over less.
    """
    steps = step * _WIDER
    heights = log_posterior(best + np.concatenate([[0.0], -steps, steps]))
    falls = 2.0 * heights[:, :1] - heights[:, 1 : len(steps) + 1] - heights[:, len(steps) + 1 :]
    shown = np.isfinite(falls) & (falls > _VISIBLE)
    chosen = np.where(shown.any(axis=1), shown.argmax(axis=1), len(steps) - 1)
    fall = np.take_along_axis(falls, chosen[:, None], axis=1)[:, 0]
    return np.maximum(np.where(np.isfinite(fall), fall, 0.0), 1e-12) / steps[chosen] ** 2


@dataclass(frozen=True, slots=True, eq=False)
class _NoiseEvidence:
    """What the evidence of M data sets is made of, whatever the noise: see the module's formula."""

    basis: FloatArray
    score: FloatArray
    spectrum: FloatArray
    square: FloatArray
    n: FloatArray

    @classmethod
    def of(cls, centre: FloatArray, covariance: FloatArray, data: Statistics) -> "_NoiseEvidence":
        gram, moment = block_statistics(np.arange(data.n.shape[1])[None], data)
        gram, moment = gram[:, 0], moment[:, 0]  # (M, p, p), (M, p)
        root = square_root(covariance)
        spectrum, basis = _spectra(data.xtx, gram, root)
        residual = moment - gram @ centre  # X'(y - Xm)
        score = (residual[:, None] @ basis)[:, 0]
        square = data.yty.sum(axis=1) - (moment + residual) @ centre  # |y - Xm|^2
        return cls(basis, score, spectrum, square, data.n.sum(axis=1))

    def log_evidence(self, tau: FloatArray) -> FloatArray:
        """Log evidence of precisions, (C,) or (M, C): (M, C)."""
        tau = np.broadcast_to(tau, (len(self.n), np.shape(tau)[-1]))
        out = np.empty(tau.shape)
        compiled(_log_evidence)(tau, self.spectrum, self.score, self.square, self.n, out)
        return out


def _spectra(xtx: FloatArray, gram: FloatArray, root: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (M, p) of R'X'XR and RQ (M, p, p): arm by arm where the belief does not couple arms."""
    n_sets, n_arms, d, _ = xtx.shape
    blocks = root.reshape(n_arms, d, n_arms, d).swapaxes(1, 2)
    if n_arms > 1 and not blocks[~np.eye(n_arms, dtype=bool)].any():
        own = blocks[range(n_arms), range(n_arms)]  # (K, d, d)
        spectrum, vectors = np.linalg.eigh(own.swapaxes(1, 2) @ xtx @ own)
        basis = np.zeros((n_sets, n_arms, d, n_arms, d))
        basis[:, range(n_arms), :, range(n_arms)] = (own @ vectors).swapaxes(0, 1)
        return np.maximum(spectrum.reshape(n_sets, -1), 0.0), basis.reshape(n_sets, n_arms * d, n_arms * d)
    spectrum, vectors = np.linalg.eigh(root.T @ gram @ root)
    return np.maximum(spectrum, 0.0), root @ vectors


def _log_evidence(tau, spectrum, score, square, n, out) -> None:
    p = spectrum.shape[1]
    for m in range(len(out)):
        for c in range(tau.shape[1]):
            t = tau[m, c]
            pulled, stretch, log_det = 0.0, 1.0, 0.0
            for k in range(p):
                stretched = 1.0 + t * spectrum[m, k]
                pulled += score[m, k] ** 2 / stretched
                stretch *= stretched
                if stretch > 1e100:  # a product costs a tenth of a logarithm
                    log_det += log(stretch)
                    stretch = 1.0
            log_det += log(stretch)
            out[m, c] = 0.5 * (n[m] * log(t) - square[m] * t + t * t * pulled - log_det)
