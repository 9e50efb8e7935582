r"""Pareto k-hat of many sets of importance weights at once.

The largest weights of each data set are fitted by a generalised Pareto distribution (Zhang and Stephens 2009, with the
weak prior of Vehtari et al. 2024), as ArviZ does for one; here all data sets are fitted side by side.
"""

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import BoolArray, FloatArray

_PRIOR_WEIGHT = 10.0
_MIN_TAIL = 5


def pareto_khat(log_weights: FloatArray) -> FloatArray:
    """Shape k-hat of the upper tail of each row's weights, (M, S) -> (M,).

    Rows whose weights are all alike get ``-inf`` (nothing to worry about); rows whose weights have collapsed (most of
    the tail zero, or nothing finite) get NaN. So test for a good row by ``k <= 0.7``, which NaN fails.

    With a tail of shape k the largest of S weights is about (1 - k) S^k times their mean. Rows in which it is less than
    a fifth of that at k = .7 (a chance of 5e-5 if that were the shape) get 0 and are not fitted. The fit takes a
    plateau of like weights below a few larger ones for a long tail: shapes of 1 to 7 were seen where 98 % of the draws
    counted.
    """
    n_draws = log_weights.shape[1]
    n_tail = int(3.0 * np.sqrt(n_draws)) if n_draws > 225 else n_draws // 5
    if n_tail < _MIN_TAIL:
        raise RcbError(f"A Pareto fit needs at least {5 * _MIN_TAIL} draws, got {n_draws}. Use more draws.")
    top = log_weights.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        scaled = log_weights - top
        fitted = ~has_short_tail(1.0 / np.exp(scaled).mean(axis=1), n_draws=n_draws)
    khat = np.where(log_weights.min(axis=1) == top[:, 0], -np.inf, 0.0)
    if fitted.any():
        khat[fitted] = _of_tail(scaled[fitted], n_tail)
    return np.where(np.isfinite(top[:, 0]), khat, np.nan)


def _of_tail(scaled: FloatArray, n_tail: int) -> FloatArray:
    """The shape of the n largest weights of each row, log weights (M, S) less their largest."""
    n_draws = scaled.shape[1]
    with np.errstate(invalid="ignore"):
        largest = np.partition(scaled, n_draws - n_tail - 1, axis=1)[:, n_draws - n_tail - 1 :]
    ordered = np.exp(np.sort(largest, axis=1))  # (M, n_tail + 1), the cutoff first
    tail = ordered[:, 1:] - ordered[:, :1]
    return np.where(tail[:, -1] <= 1e-12, -np.inf, _fit(tail))


def has_short_tail(largest: FloatArray, *, n_draws: int) -> BoolArray:
    """Whether the largest of n weights over their mean, (M,), is so small that the shape cannot be .7."""
    return largest <= 0.2 * (1.0 - 0.7) * n_draws**0.7


def _fit(tail: FloatArray) -> FloatArray:
    """Empirical Bayes estimate of the generalised Pareto shape of ascending exceedances (M, n)."""
    n = tail.shape[1]
    n_grid = 30 + int(np.sqrt(n))
    quartile = tail[:, int(n / 4 + 0.5) - 1]
    grid = 1.0 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))  # (G,)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = grid / (3.0 * quartile[:, None]) + 1.0 / tail[:, -1:]  # b, (M, G)
        shape = _mean_log1m(scale, tail)
        profile = n * (np.log(-scale / shape) - shape - 1.0)
        weight = np.exp(profile - profile.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        weight = np.where(weight >= 10 * np.finfo(float).eps, weight, 0.0)
        best = (weight * scale).sum(axis=1) / weight.sum(axis=1)
        k = _mean_log1m(best[:, None], tail)[:, 0]
    k = (n * k + _PRIOR_WEIGHT * 0.5) / (n + _PRIOR_WEIGHT)
    return np.where(quartile > tail[:, 0], k, np.nan)  # else the tail is nothing like a Pareto's


def _mean_log1m(scale: FloatArray, tail: FloatArray) -> FloatArray:
    """Mean over the tail of log(1 - b x) for each b: (M, G), (M, n) -> (M, G).

    Factors are multiplied eight at a time before the logarithm is taken, which costs ten times as much as a product.
    """
    n = tail.shape[1]
    padded = np.zeros((len(tail), -(-n // 8) * 8))
    padded[:, :n] = tail
    groups = padded.reshape(len(tail), 1, 8, padded.shape[1] // 8)
    product = 1.0 - scale[:, :, None] * groups[:, :, 0]
    for k in range(1, 8):
        product *= 1.0 - scale[:, :, None] * groups[:, :, k]
    return np.log(product).sum(axis=2) / n
