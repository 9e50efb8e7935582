"""Posteriors of Student-t beliefs by many plain chains, which share nothing with the engines.

A coefficient is Student-t: normal with a precision that is gamma. Chains start from the belief. Under normal rewards a
sweep draws the precisions given the coefficients and the coefficients given the precisions. Under 0/1 rewards it draws
the precisions, moves all coefficients along an ellipse (Murray, Adams and MacKay 2010), then moves each coefficient,
and all of them together, by Metropolis steps of the belief's own density: stretched, shifted, or drawn anew from the
belief, which jumps between modes. The chains of a problem are independent, so that the spread of their means is the
error of the answer.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from rcb_bayes.posterior import Rows
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainMoments:
    """Posterior ``mean`` and ``sd`` (B, d) of B arms, the ``error`` of the mean (B, d), and the expected ``reward``
    (B, U) of users with its ``reward_error``."""

    mean: FloatArray
    sd: FloatArray
    error: FloatArray
    reward: FloatArray
    reward_error: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """Independent Student-t coefficients around 0; ``nu`` may be infinite, which makes them normal."""

    nu: float
    scale: float

    def log_density(self, values: FloatArray) -> FloatArray:
        """Of each coefficient, without constants."""
        square = (values / self.scale) ** 2
        return -0.5 * square if np.isinf(self.nu) else -0.5 * (self.nu + 1.0) * np.log1p(square / self.nu)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draws of the belief."""
        normal = self.scale * rng.standard_normal(shape)
        return normal if np.isinf(self.nu) else normal / np.sqrt(rng.chisquare(self.nu, shape) / self.nu)

    def spread(self, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A standard deviation for each coefficient, drawn from its law given the coefficient."""
        if np.isinf(self.nu):
            return np.full(values.shape, self.scale)
        rate = 0.5 * (self.nu + (values / self.scale) ** 2)
        return self.scale / np.sqrt(rng.standard_gamma(0.5 * (self.nu + 1.0), values.shape) / rate)


def signed_rows(data: Rows) -> FloatArray:
    """Rows times the sign of their outcome, arm after arm, (M K, n, d); zero where a row is another arm's."""
    sign = 2.0 * data.reward - 1.0
    own = (data.arm[:, None] == np.arange(data.n_arms)[:, None]) * sign[:, None]  # (M, K, n)
    return (own[..., None] * data.x[:, None]).reshape(-1, *data.x.shape[1:])


def sampled_moments(
    belief: Student, z: FloatArray, *, users: FloatArray, n_chains: int = 32, n_sweeps: int = 2000, seed: int = 0
) -> ChainMoments:
    """Moments of B problems ``z`` (B, n, d), users (U, d)."""
    rng = np.random.default_rng(seed)
    n_problems, _, d = z.shape
    b = belief.draw((n_problems, n_chains, d), rng)
    burn = n_sweeps // 4
    total = np.zeros((n_problems, n_chains, d))
    square, reward = np.zeros((n_problems, d)), np.zeros((n_problems, n_chains, len(users)))
    for sweep in range(n_sweeps):
        b = _sweep(belief, z, b, rng)
        if sweep >= burn:
            total += b
            square += (b**2).mean(axis=1)
            if sweep % 4 == 0:
                reward += expit(b @ users.T)
    kept = n_sweeps - burn
    means, rewards = total / kept, reward / sum(sweep % 4 == 0 for sweep in range(burn, n_sweeps))
    mean = means.mean(axis=1)
    return ChainMoments(
        mean=mean,
        sd=np.sqrt(square / kept - mean**2),
        error=means.std(axis=1, ddof=1) / np.sqrt(n_chains),
        reward=rewards.mean(axis=1),
        reward_error=rewards.std(axis=1, ddof=1) / np.sqrt(n_chains),
    )


def gibbs_moments(
    belief: Student, gram: FloatArray, moment: FloatArray, *, n_chains: int = 16, n_sweeps: int = 1000, seed: int = 0
) -> ChainMoments:
    """Moments of B problems under normal rewards, with X'X (B, d, d) and X'y (B, d) over the noise's variance.

    Means and variances are averaged over the sweeps given the precisions.
    """
    rng = np.random.default_rng(seed)
    n_problems, d = moment.shape
    b = belief.draw((n_problems, n_chains, d), rng)
    total, square = np.zeros(b.shape), np.zeros(b.shape)
    burn = n_sweeps // 4
    for sweep in range(n_sweeps):
        precision = gram[:, None] + np.eye(d) / belief.spread(b, rng)[..., None] ** 2
        covariance = np.linalg.inv(precision)
        mean = (covariance @ moment[:, None, :, None])[..., 0]
        root = np.linalg.cholesky(covariance)
        b = mean + (root @ rng.standard_normal(b.shape)[..., None])[..., 0]
        if sweep >= burn:
            total += mean
            square += mean**2 + np.diagonal(covariance, axis1=-2, axis2=-1)
    means = total / (n_sweeps - burn)
    centre = means.mean(axis=1)
    nothing = np.zeros((n_problems, 0))
    return ChainMoments(
        mean=centre,
        sd=np.sqrt(square.mean(axis=1) / (n_sweeps - burn) - centre**2),
        error=means.std(axis=1, ddof=1) / np.sqrt(n_chains),
        reward=nothing,
        reward_error=nothing,
    )


def _log_likelihood(eta: FloatArray) -> FloatArray:
    """Sum of log logistic over the rows, without the constant that rows of zeros add."""
    return -np.logaddexp(0.0, -eta).sum(axis=-1)


def _sweep(belief: Student, z: FloatArray, b: FloatArray, rng: np.random.Generator) -> FloatArray:
    b = _ellipse(b, belief.spread(b, rng), z, rng)
    eta = b @ z.swapaxes(1, 2)  # (B, C, n)
    now = _log_likelihood(eta)
    kind = rng.integers(3)
    for i in range(b.shape[2]):
        old = b[..., i]
        if kind == 0:
            stretch = rng.standard_normal(old.shape)
            new = old * np.exp(stretch) * np.where(rng.random(old.shape) < 0.2, -1.0, 1.0)
            log_ratio = belief.log_density(new) - belief.log_density(old) + stretch
        elif kind == 1:
            new = old + belief.scale * rng.standard_normal(old.shape)
            log_ratio = belief.log_density(new) - belief.log_density(old)
        else:
            new = belief.draw(old.shape, rng)
            log_ratio = np.zeros(old.shape)
        moved = eta + (new - old)[..., None] * z[:, None, :, i]
        there = _log_likelihood(moved)
        accept = np.log(rng.random(old.shape)) < log_ratio + there - now
        b[..., i] = np.where(accept, new, old)
        eta = np.where(accept[..., None], moved, eta)
        now = np.where(accept, there, now)
    stretch = 0.5 * rng.standard_normal(now.shape)
    factor = np.exp(stretch)[..., None]
    log_ratio = (belief.log_density(b * factor) - belief.log_density(b)).sum(axis=-1) + b.shape[2] * stretch
    accept = np.log(rng.random(now.shape)) < log_ratio + _log_likelihood(eta * factor) - now
    return np.where(accept[..., None], b * factor, b)


def _ellipse(b: FloatArray, spread: FloatArray, z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Elliptical slice sampling of normal coefficients with standard deviations ``spread``."""
    nu = spread * rng.standard_normal(b.shape)
    rows = z.swapaxes(1, 2)
    here, aside = b @ rows, nu @ rows
    height = _log_likelihood(here) + np.log(rng.random(b.shape[:2]))
    angle = rng.uniform(0.0, 2.0 * np.pi, b.shape[:2])
    low, high = angle - 2.0 * np.pi, angle.copy()
    for _ in range(60):
        eta = here * np.cos(angle)[..., None] + aside * np.sin(angle)[..., None]
        bad = _log_likelihood(eta) < height
        if not bad.any():
            break
        low = np.where(bad & (angle < 0), angle, low)
        high = np.where(bad & (angle >= 0), angle, high)
        angle = np.where(bad, rng.uniform(low, high), angle)
    return b * np.cos(angle)[..., None] + nu * np.sin(angle)[..., None]
