r"""Are averages that should be zero zero? Tests over independent data sets, whatever hangs together within one.

With an exact posterior the truth is one more draw of it, so that :math:`E[v \mid S] = 0` for every residual v that is
built from the truth and the posterior of S. Data sets are independent; coefficients of the same data set are not, and
are never counted as if they were.
"""

import numpy as np

from rcb_bayes.schema import FloatArray


def slope_test(score: FloatArray, information: FloatArray, *, margin: float) -> tuple[float, float, float]:
    r"""Estimate, its error and the p-value of :math:`|\theta| \le` margin, from scores with mean :math:`\theta I`.

    Parameters
    ----------
    score : (M,), one for each data set
    information : (M,), what the score grows by where theta grows by one
    margin : what an engine that samples is allowed to be off
    """
    from scipy import stats

    total = information.sum()
    if not total > 0.0:  # nothing that it could be told by
        return 0.0, 0.0, 1.0
    estimate = float(score.sum() / total)
    error = float(np.sqrt(((score - estimate * information) ** 2).sum()) / total)
    if error == 0.0:
        return estimate, 0.0, float(abs(estimate) <= margin)
    t = max(0.0, abs(estimate) - margin) / error
    return estimate, error, float(2 * stats.t.sf(t, len(score) - 1)) if t else 1.0


def joint_test(values: FloatArray) -> float:
    """The p-value of a mean of zero in all of q values (M, q) at once, by Hotelling's T-squared."""
    from scipy import stats

    m, q = values.shape
    mean = values.mean(axis=0)
    covariance = np.atleast_2d(np.cov(values, rowvar=False)) / m
    squared = float(mean @ np.linalg.solve(covariance, mean))
    return float(stats.f.sf(squared * (m - q) / (q * (m - 1)), q, m - q))


def holm(p_values: FloatArray, level: float) -> np.ndarray:
    """Which hypotheses are rejected where a false one among all may be so with probability ``level`` at most."""
    order = np.argsort(p_values, kind="stable")
    m = len(p_values)
    below = p_values[order] < level / (m - np.arange(m))
    rejected = np.zeros(m, dtype=bool)
    rejected[order[: m if below.all() else int(below.argmin())]] = True
    return rejected
