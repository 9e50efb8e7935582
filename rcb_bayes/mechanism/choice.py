"""The best arm, with one rule for ties: arms that are best up to rounding share the choice evenly."""

from collections.abc import Sequence

import numpy as np

from rcb_bayes.schema import BoolArray, FloatArray

TIE = 1e-12


def best_shares(values: FloatArray, *, axis: int = -1) -> FloatArray:
    """The probability that each arm is chosen as the best, same shape; ``axis`` is that of the arms."""
    tied = is_best(values, axis=axis)
    if np.count_nonzero(tied) * values.shape[axis] == values.size:  # no ties
        return tied.astype(values.dtype)
    return tied / tied.sum(axis=axis, keepdims=True, dtype=values.dtype)


def promotion_shares(prior_rewards: FloatArray, open_arms: Sequence[int]) -> FloatArray:
    """pi_i(x): the chance that arm i is promoted, the best unsaturated one by prior means, (U, K) -> (U, K)."""
    out = np.zeros(prior_rewards.shape)
    if not len(open_arms):  # all are saturated: nothing is promoted
        return out
    out[..., list(open_arms)] = best_shares(prior_rewards[..., list(open_arms)])
    return out


def is_best(values: FloatArray, *, axis: int = -1) -> BoolArray:
    """Which arms are best, up to rounding, same shape."""
    top = values.max(axis=axis, keepdims=True)
    return values >= top - TIE * np.maximum(np.abs(top), 1.0)
