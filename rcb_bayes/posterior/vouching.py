r"""What weighted draws must show before their answer is vouched for, coefficient by coefficient.

A mean over S weighted draws is vouched for when

- the Pareto k-hat of the weights is below :math:`\min(1 - 1/\log_{10} S, .7)` (Vehtari et al. 2024);
- the effective size of every coefficient, its posterior variance over the square of the Monte Carlo error of its mean,
  is large enough that the largest of P such errors, about :math:`\sqrt{2 \log 2P}` of one, stays below .15 posterior
  standard deviations, and so is that of the weights;
- two halves of the draws, made independently, differ by at most .3 posterior standard deviations in every coefficient,
  and each has between a quarter and three quarters of the weight;
- the expected rewards of users, where they are asked for, have an error of at most .025 and halves within .1.

Chains are held to the same error, and to the same gap between any two of them.

The weights' own effective size says nothing about a coefficient whose large values have the large weights, and no
figure about weights tells of a part of the posterior that the draws of one half have missed.
"""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.posterior.pareto import pareto_khat
from rcb_bayes.schema import BoolArray, FloatArray

KHAT_LIMIT = 0.7
MIN_EFFECTIVE_SIZE = 200.0
LARGEST_ERROR = 0.15  # of the coefficients' means, in posterior standard deviations
LARGEST_GAP = 0.3  # between halves, in posterior standard deviations
UNEVEN = 0.25  # share of the weight that one half may have above or below one half
REWARD_ERROR, REWARD_GAP = 0.025, 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What M sets of weighted draws show: ``khat``, ``effective_size`` (of the weights or the worst coefficient), the
    ``gap`` between halves in posterior sd, and the ``reward_error`` and ``reward_gap`` of the worst user; each (M,)."""

    khat: FloatArray
    effective_size: FloatArray
    gap: FloatArray
    reward_error: FloatArray
    reward_gap: FloatArray

    def vouched(self, *, n_draws: int, n_coefficients: int) -> BoolArray:
        """Which answers are vouched for, (M,)."""
        return (
            (self.khat < khat_limit(n_draws))
            & (self.effective_size >= needed_size(n_coefficients))
            & (self.gap <= LARGEST_GAP)
            & (self.reward_error <= REWARD_ERROR)
            & (self.reward_gap <= REWARD_GAP)
        )

    def of_known_means(self, known: BoolArray) -> "Checked":
        """The figures where the means of some data sets (M,) are known without the draws: their rewards' alone."""
        return replace(
            self,
            khat=np.where(known, -np.inf, self.khat),
            effective_size=np.where(known, np.inf, self.effective_size),
            gap=np.where(known, 0.0, self.gap),
        )

    def with_rewards(self, error: FloatArray, gap: FloatArray) -> "Checked":
        """The figures with those of more users' rewards."""
        worst = np.maximum(self.reward_error, error), np.maximum(self.reward_gap, gap)
        return replace(self, reward_error=worst[0], reward_gap=worst[1])

    def worse(self, other: "Checked") -> "Checked":
        """The worse of two groups' figures, data set by data set; NaN stays NaN."""
        return Checked(
            np.maximum(self.khat, other.khat),
            np.minimum(self.effective_size, other.effective_size),
            np.maximum(self.gap, other.gap),
            np.maximum(self.reward_error, other.reward_error),
            np.maximum(self.reward_gap, other.reward_gap),
        )


def khat_limit(n_draws: int) -> float:
    """The k-hat above which n draws do not tell a mean."""
    return min(1.0 - 1.0 / np.log10(n_draws), KHAT_LIMIT)


def needed_size(n_coefficients: int) -> float:
    """The effective size of every coefficient that keeps the largest of n errors below .15 posterior sd."""
    return max(MIN_EFFECTIVE_SIZE, (largest_error(1.0, n_coefficients) / LARGEST_ERROR) ** 2)


def largest_error(effective_size: float, n_coefficients: int) -> float:
    """About the largest of n independent errors of means of that effective size, in posterior sd."""
    return float(np.sqrt(2.0 * np.log(2.0 * n_coefficients) / effective_size))


def check_means(log_weight: FloatArray, weight: FloatArray, centred: FloatArray) -> Checked:
    """Figures of weights (M, S), normalised, of draws (M, S, p) less their weighted mean, in two halves."""
    square = (np.stack([weight, weight**2], axis=1)) @ centred**2  # (M, 2, p)
    variance = np.maximum(square[:, 0], np.finfo(float).tiny)
    of_means = (variance / np.maximum(square[:, 1], np.finfo(float).tiny)).min(axis=1)
    of_weights = 1.0 / np.maximum((weight**2).sum(axis=1), 1.0 / weight.shape[1])
    gap = (np.abs(between_halves(weight, centred)) / np.sqrt(variance)).max(axis=1)
    share = weight[:, : weight.shape[1] // 2].sum(axis=1)
    gap = np.where(np.abs(share - 0.5) > UNEVEN, np.inf, gap)
    nothing = np.zeros(len(weight))
    return Checked(pareto_khat(log_weight), np.minimum(of_means, of_weights), gap, nothing, nothing)


def check_rewards(weight: FloatArray, reward: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest error and gap between halves of mean rewards (M, U) of draws' rewards (M, S, U), each (M,)."""
    if not reward.shape[2]:
        return np.zeros(len(weight)), np.zeros(len(weight))
    twice = (weight**2)[:, None]
    first, second, total = (twice @ reward)[:, 0], (twice @ reward**2)[:, 0], twice.sum(axis=2)
    error = np.sqrt(np.maximum(second - 2.0 * mean * first + mean**2 * total, 0.0))
    return error.max(axis=1), np.abs(between_halves(weight, reward)).max(axis=1)


def between_halves(weight: FloatArray, values: FloatArray) -> FloatArray:
    """The second half's weighted mean of values (M, S, p) less the first's, (M, p)."""
    half = weight.shape[1] // 2
    signed = weight.copy()
    for rows, sign in ((slice(None, half), -1.0), (slice(half, None), 1.0)):
        total = weight[:, rows].sum(axis=1, keepdims=True)
        signed[:, rows] *= sign / np.maximum(total, np.finfo(float).tiny)
    return (signed[:, None] @ values)[:, 0]
