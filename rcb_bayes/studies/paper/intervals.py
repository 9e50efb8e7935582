"""Intervals for means over worlds, and what they decide: held, not held, or undecided where they cover the limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rcb_bayes.schema import FloatArray

Decision = Literal["held", "not held", "undecided"]
LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate, its error and simultaneous bounds."""

    estimate: float
    error: float
    lower: float
    upper: float


def mean_interval(values: FloatArray, *, n_tests: int = 1) -> Interval:
    """Student's interval for the mean of values (W,), at level .05 over ``n_tests`` of them (Bonferroni)."""
    from scipy.special import stdtrit

    values = values[np.isfinite(values)]
    n = len(values)
    mean = float(values.mean()) if n else np.nan
    if n < 2:
        return Interval(estimate=mean, error=np.nan, lower=-np.inf, upper=np.inf)
    error = float(values.std(ddof=1) / np.sqrt(n))
    reach = float(stdtrit(n - 1, 1.0 - LEVEL / (2 * n_tests))) * error
    return Interval(estimate=mean, error=error, lower=mean - reach, upper=mean + reach)


def log_contrast(values: list[FloatArray], weights: FloatArray) -> Interval:
    r"""Interval for :math:`\sum_c w_c \log E[y_c]` from values (W,) of every cell c, in the same worlds.

    By the delta method, world by world, so that cells may be correlated.
    """
    from scipy.special import stdtrit

    table = np.stack(values)  # (cells, worlds)
    means = table.mean(axis=1)
    estimate = float(weights @ np.log(means))
    n = table.shape[1]
    if n < 2:
        return Interval(estimate=estimate, error=np.nan, lower=-np.inf, upper=np.inf)
    error = float((weights @ (table / means[:, None])).std(ddof=1) / np.sqrt(n))
    reach = float(stdtrit(n - 1, 1.0 - LEVEL / 2)) * error
    return Interval(estimate=estimate, error=error, lower=estimate - reach, upper=estimate + reach)


def exponent_weights(x: FloatArray, groups: FloatArray) -> FloatArray:
    """Weights by which log means (C,) give the exponent in x (C,): least squares within groups, averaged over them."""
    logs = np.log(x)
    out = np.zeros(len(x))
    kept = [group for group in np.unique(groups) if len(np.unique(x[groups == group])) > 1]
    for group in kept:
        own = groups == group
        centred = logs[own] - logs[own].mean()
        out[own] = centred / (centred**2).sum() / len(kept)
    return out


def decide(interval: Interval, *, low: float = -np.inf, high: float = np.inf) -> Decision:
    """Held if the interval lies within [low, high], not held if it lies outside, else undecided."""
    if np.isnan(interval.estimate):
        return "undecided"
    if interval.lower >= low and interval.upper <= high:
        return "held"
    if interval.upper < low or interval.lower > high:
        return "not held"
    return "undecided"


def all_of(decisions: Sequence[Decision]) -> Decision:
    """Held if all are, not held if one is not."""
    if "not held" in decisions:
        return "not held"
    return "held" if decisions and all(one == "held" for one in decisions) else "undecided"


def any_of(decisions: Sequence[Decision]) -> Decision:
    """Held if one is, not held if none is."""
    if "held" in decisions:
        return "held"
    return "not held" if decisions and all(one == "not held" for one in decisions) else "undecided"
