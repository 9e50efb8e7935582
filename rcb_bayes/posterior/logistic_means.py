r"""Averages of the logistic function over posteriors that are known by weighted draws, for many users at once.

The average over the draws would cost a logistic function for every draw, user and arm. Mean and variance of a user's
predictor cost next to nothing, and a few draws, R of them, resampled, do for what these leave out:

.. math:: E[\mathrm{logistic}(\eta)] \approx f(m, v) + \frac 1R \sum_r \mathrm{logistic}(\eta_r) - f(m_R, v_R), \qquad
          f(m, v) = \mathrm{logistic}\bigl(m / \sqrt{1 + \pi v / 8}\bigr)

with the moments m, v of all draws and :math:`m_R, v_R` of the few. Whatever f is, the sum tends to the average.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.schema import FloatArray

N_FEW = 128
_CHUNK_VALUES = 400_000


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Weighted moments of the draws of K arms: ``mean`` (M, K, d) and ``covariance`` (M, K, d, d) of the coefficients,
    ``error`` (M, K, d, d) of their means, ``apart`` (M, K, d) the means of two halves of the draws."""

    mean: FloatArray
    covariance: FloatArray
    error: FloatArray
    apart: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class LogisticMeans:
    """Mean rewards ``mean`` and their posterior ``variance`` (M, U, K), and the largest ``error`` and ``gap`` of a mean
    reward, (M,)."""

    mean: FloatArray
    variance: FloatArray
    error: FloatArray
    gap: FloatArray


def few_of(weight: FloatArray, n: int = N_FEW) -> np.ndarray:
    """Draws that stand for all, each as often as its weight (M, S) says: positions (M, n)."""
    upto = np.cumsum(weight, axis=1)
    wanted = (np.arange(n) + 0.5) / n
    n_sets, n_draws = weight.shape
    flat = (upto / upto[:, -1:] + np.arange(n_sets)[:, None]).reshape(-1)
    found = np.searchsorted(flat, (wanted + np.arange(n_sets)[:, None]).reshape(-1)).reshape(n_sets, n)
    return np.minimum(found - n_draws * np.arange(n_sets)[:, None], n_draws - 1)


def logistic_means(moments: Moments, few: FloatArray, x: FloatArray, offset: FloatArray) -> LogisticMeans:
    """Mean rewards of users with rows x (U, d) or (M, U, d) and predictors at zero, offset (K, U) or (K, M, U).

    ``few`` are coefficients of resampled draws, (M, R, K, d).
    """
    n_sets, n_few, n_arms, _ = few.shape
    n_users = x.shape[-2]
    mean, variance = (np.empty((n_sets, n_users, n_arms)) for _ in range(2))
    error, gap = np.zeros(n_sets), np.zeros(n_sets)
    short: Any = np.float32
    own = x.ndim == 3
    step = max(1, _CHUNK_VALUES // (n_few * max(n_users, 1)))
    for start in range(0, n_sets, step):
        some = slice(start, start + step)
        rows = x[some] if own else x[None]
        for k in range(n_arms):
            shift = offset[k][some] if own else offset[k][None]  # (M or 1, U)
            at = (rows @ moments.mean[some, k, :, None])[..., 0] + shift
            spread, of_mean = (
                (rows @ part[some, k] * rows).sum(axis=2) for part in (moments.covariance, moments.error)
            )
            eta = few[some, :, k].astype(short) @ rows.astype(short).swapaxes(1, 2)  # (m, R, U)
            eta += shift.astype(short)[:, None]
            at_few = eta.mean(axis=1)
            spread_few = np.maximum(np.einsum("mru,mru->mu", eta, eta) / n_few - at_few**2, 0.0)
            given = np.negative(eta)
            np.exp(np.minimum(given, short(80.0), out=given), out=given)
            given += short(1.0)
            np.reciprocal(given, out=given)
            average = given.mean(axis=1)
            guess, slope = _approximate(at, spread)
            mean[some, :, k] = np.clip(guess + average - _approximate(at_few, spread_few)[0], 0.0, 1.0)
            spread_given = np.maximum(np.einsum("mru,mru->mu", given, given) / n_few - average**2, 0.0)
            variance[some, :, k] = spread_given * (n_few / (n_few - 1.0))
            if n_users:
                together = np.einsum("mru,mru->mu", given, eta) / n_few - average * at_few
                left = spread_given - together**2 / np.maximum(spread_few, 1e-12)  # what a line in eta leaves
                square = slope**2 * np.maximum(of_mean, 0.0) + np.maximum(left, 0.0) / n_few
                error[some] = np.maximum(error[some], np.sqrt(square.max(axis=1)))
                between = slope * np.abs((rows @ moments.apart[some, k, :, None])[..., 0])
                gap[some] = np.maximum(gap[some], between.max(axis=1))
    return LogisticMeans(mean, variance, error, gap)


def _approximate(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """f(m, v), and its slope in m."""
    shrunk = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * np.maximum(variance, 0.0))
    share = 0.5 * (1.0 + np.tanh(0.5 * shrunk * mean))
    return share, shrunk * share * (1.0 - share)
