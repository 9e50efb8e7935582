r"""Simulated posterior means in few bytes: 16-bit steps away from the prior mean, column by column.

A posterior mean of arm a and feature f in world w becomes :math:`\mu_{0,af} + k_{waf} 2^{e_{af}}` with whole
:math:`|k| \le 32767` and the smallest exponent that reaches the column's largest deviation. A step is at most 1/16384
of that deviation, and the rounding is far below what the worlds are off by themselves. It is applied when a plan is
made: what is written can then be read back to the last bit. Means that are the prior mean stay it, so ties stay ties.
"""

from dataclasses import replace

import numpy as np

from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.schema import FloatArray

STEPS = 32_767
LEAST_EXPONENT = -1000


def compact_outlook(
    outlook: LinearOutlook, prior_mean: FloatArray, platform_mean: FloatArray | None = None
) -> LinearOutlook:
    """The outlook with posterior means (W, K, d) that ``steps_of`` tells exactly, and designs in single precision.

    ``prior_mean`` (K, d) is the users' and ``platform_mean`` the platform's, where it differs.
    """
    platform, law = outlook.platform, outlook.law
    if platform is not None:
        platform = compact_means(platform, prior_mean if platform_mean is None else platform_mean)
    if law is not None:
        law = replace(law, grams=law.grams.astype(np.float32).astype(np.float64), overlap=float)
    return replace(outlook, means=compact_means(outlook.means, prior_mean), platform=platform, law=law)


def compact_means(means: FloatArray, prior_mean: FloatArray) -> FloatArray:
    """Posterior means (W, K, d), each rounded to its column's steps away from the prior mean (K, d)."""
    steps, exponents = _rounded(means, prior_mean)
    return from_steps(steps, exponents, prior_mean)


def compact_gamma(gamma: FloatArray) -> FloatArray:
    """Spreads (W,), rounded to single precision; what that does not reach stays as it is."""
    with np.errstate(over="ignore", under="ignore"):
        short = gamma.astype(np.float32).astype(np.float64)
    return np.where((short > 0.0) & (np.isfinite(short) | np.isinf(gamma)), short, gamma)


def steps_of(means: FloatArray, prior_mean: FloatArray) -> tuple[np.ndarray, np.ndarray] | None:
    """Steps (W, K, d) and exponents (K, d) that tell means exactly; None where none do."""
    steps, exponents = _rounded(means, prior_mean)
    return (steps, exponents) if np.array_equal(from_steps(steps, exponents, prior_mean), means) else None


def from_steps(steps: np.ndarray, exponents: np.ndarray, prior_mean: FloatArray) -> FloatArray:
    """The means (W, K, d) again."""
    return prior_mean + np.ldexp(steps.astype(np.float64), exponents)


def _rounded(means: FloatArray, prior_mean: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    away = means - prior_mean
    reach = np.abs(away).max(axis=0, initial=0.0)
    # The smallest power of two of which 32,767 steps reach the largest deviation.
    fraction, exponents = np.frexp(reach / STEPS)
    exponents = np.where(fraction == 0.5, exponents - 1, exponents)
    exponents = np.where(reach > 0.0, np.maximum(exponents, LEAST_EXPONENT), 0)
    steps = np.clip(np.rint(np.ldexp(away, -exponents)), -STEPS, STEPS)
    return steps.astype(np.int16), exponents.astype(np.int64)
