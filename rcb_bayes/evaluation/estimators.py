r"""Values of a policy from a log of another: five estimators, over arrays.

In round t of a log user :math:`x_t` was told arm :math:`a_t` with probability :math:`e_t(a_t | x_t)`, which may depend
on all that came before, and got :math:`y_t`. Of a policy :math:`\pi` let :math:`w_t = \pi(a_t | x_t)/e_t(a_t | x_t)`
and :math:`\hat\mu_t` a regression on rounds before t alone. Its value :math:`V = E[\sum_a \pi(a | x) \mu(x, a)]` is
estimated by

- ``ips``, :math:`\frac1n \sum w_t y_t`;
- ``snips``, :math:`\sum w_t y_t / \sum w_t`;
- ``dr``, :math:`\frac1n \sum \Gamma_t` with
  :math:`\Gamma_t = \sum_a \pi(a | x_t) \hat\mu_t(x_t, a) + w_t (y_t - \hat\mu_t(x_t, a_t))`;
- ``adaptive``, :math:`\sum h_t \Gamma_t / \sum h_t`;
- ``direct``, the average of :math:`\sum_a \pi(a | x_t) \hat\mu(x_t, a)` with a regression on all rounds.

Given the past every :math:`\Gamma_t` has mean V, so that their average is unbiased whoever collected the log. Its
*interval* is another matter. Where propensities drift with the rewards, so does the conditional variance of
:math:`\Gamma_t`, and the average is not normal; where they get small, an arm that the policy wants was told a few times
or never, and what was *seen* of :math:`\Gamma_t` says nothing of how it varies. ``adaptive`` answers both:

- weights known before round t and inverse to the conditional standard deviation, :math:`h_t = v_t^{-1/2}` with
  :math:`v_t` an average of :math:`u_s = \sum_a \pi(a | x_s)^2 / e_s(a | x_s)` over rounds s just before t, make the
  variance of every term alike (Hadad, Hirshberg, Zhan, Wager and Athey 2021; Bibaut, Dimakopoulou, Kallus, Chambaz and
  van der Laan 2021);
- the error is that which the propensities *predict*,
  :math:`\sum h_t^2 (\sum_a \pi(a | x_t)^2 r_a^2 / e_t(a | x_t) + s^2) / (\sum h_t)^2`, or what was seen if that is
  more. :math:`r_a^2` is the mean square of an arm's residuals :math:`y_t - \hat\mu_t`, :math:`s^2` the variance of
  :math:`\sum_a \pi \hat\mu_t` over users. A martingale over its predicted deviation is normal in the limit, whatever
  was told. It takes the propensities of all arms; with those of the arms told alone it is what was seen.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.schema import FloatArray

MEMORY = 100.0
"""Rounds over which the variance of a round to come is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An estimate of a policy's value, its standard error, and the rounds that it rests on, for Student's t."""

    value: float
    mcse: float
    n_effective: float

    def bounds(self, level: float) -> tuple[float, float]:
        """An interval that misses with probability ``level``."""
        from scipy import stats

        half = float(stats.t.isf(level / 2.0, max(self.n_effective - 1.0, 1.0))) * self.mcse
        return self.value - half, self.value + half


def weighted_mean(terms: FloatArray, weights: FloatArray | None = None) -> Value:
    """The weighted mean of terms whose mean given the past is one and the same, weights known before each."""
    h = np.ones(len(terms)) if weights is None else weights
    total = h.sum()
    value = float(h @ terms / total)
    error = float(np.sqrt(h**2 @ (terms - value) ** 2) / total)
    n = float(total**2 / (h @ h))
    return Value(value=value, mcse=error * np.sqrt(n / max(n - 1.0, 1.0)), n_effective=n)


def predicted_error(weights: FloatArray, squares: FloatArray, by_arm: FloatArray, expected: FloatArray) -> float:
    """The standard error of a weighted mean of doubly robust terms, as propensities predict it.

    Parameters
    ----------
    weights : h, (n,)
    squares : pi^2/e of every arm, (n, K)
    by_arm : the mean squared residual of every arm, (K,)
    expected : what the regression expects of the policy, (n,)
    """
    variance = squares @ by_arm + expected.var()
    return float(np.sqrt(weights**2 @ variance) / weights.sum())


def squared_residuals(residual: FloatArray, arm: np.ndarray, propensity: FloatArray, *, n_arms: int) -> FloatArray:
    """The mean square of each arm's residuals, (K,): over the rounds that told it, or over all, whichever is more.

    All arms' together count as one round more of each, so that an arm told never or once has an answer.
    """
    pooled = float((residual**2).mean())
    out = np.full(n_arms, pooled)
    for k in range(n_arms):
        own = residual[arm == k] ** 2
        inverse = 1.0 / propensity[arm == k]
        if len(own):
            plain = (own.sum() + pooled) / (len(own) + 1)
            overall = (inverse @ own + inverse.mean() * pooled) / (inverse.sum() + inverse.mean())
            out[k] = max(plain, overall)
    return out


def ips(ratio: FloatArray, reward: FloatArray) -> Value:
    """Inverse propensity weighting; its interval is for logs whose propensities do not depend on rewards.

    Without an error where no round told what the policy tells: all terms are then 0, which says nothing.
    """
    return seen_if_any(ratio, weighted_mean(ratio * reward))


def seen_if_any(ratio: FloatArray, found: Value) -> Value:
    """An estimate whose error is what was seen, without one where no round has a weight."""
    return found if ratio.any() else Value(value=found.value, mcse=np.nan, n_effective=0.0)


def snips(ratio: FloatArray, reward: FloatArray) -> Value:
    """The same, divided by the sum of the weights; the error by the delta method."""
    total = ratio.sum()
    if total <= 0.0:
        return Value(value=np.nan, mcse=np.nan, n_effective=0.0)
    value = float(ratio @ reward / total)
    n = len(ratio)
    error = float(np.sqrt((ratio**2 @ (reward - value) ** 2) * n / max(n - 1.0, 1.0)) / total)
    return Value(value=value, mcse=error, n_effective=float(total**2 / (ratio @ ratio)))


def scores_of(
    policy: FloatArray, expected: FloatArray, ratio: FloatArray, arm: np.ndarray, reward: FloatArray
) -> FloatArray:
    """Doubly robust terms, (n,), from the policy's probabilities and expected rewards, (n, K) each."""
    own = expected[np.arange(len(arm)), arm]
    return (policy * expected).sum(axis=1) + ratio * (reward - own)


def squared_ratios(policy: FloatArray, propensities: FloatArray) -> FloatArray:
    """pi^2/e of every arm, (n, K); 0 where the policy has no mass."""
    safe = np.where(policy > 0.0, propensities, 1.0)
    return policy**2 / safe


def steadying_weights(squares: FloatArray, *, first: float, memory: float = MEMORY) -> FloatArray:
    """Weights v^(-1/2), (n,), with v the average of the squares before each round, older ones counting less.

    Parameters
    ----------
    squares : what is known after each round, (n,)
    first : what v is before any of them, and counts as one of them
    memory : rounds after which a square counts exp(-1) of what it did
    """
    from scipy.signal import lfilter

    keep = np.exp(-1.0 / memory)
    sums = lfilter([1.0], [1.0, -keep], np.concatenate([[first], squares[:-1]]))
    counts = lfilter([1.0], [1.0, -keep], np.ones(len(squares)))
    return 1.0 / np.sqrt(np.asarray(sums) / np.asarray(counts))
