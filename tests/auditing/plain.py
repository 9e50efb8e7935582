"""The mechanism, played plainly: true rewards, recommendations drawn, nothing averaged out. K arms, one user x = 1."""

import numpy as np


def draw_worlds(
    mean: np.ndarray, variance: float, sigma: float, *, n_per_arm: int, n_worlds: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """True rewards and posterior means after N samples of every arm, (W, K) each, by conjugate formulas."""
    truth = mean + np.sqrt(variance) * rng.standard_normal((n_worlds, len(mean)))
    average = truth + sigma / np.sqrt(n_per_arm) * rng.standard_normal(truth.shape)
    trust = variance / (variance + sigma**2 / n_per_arm)
    return truth, mean + trust * (average - mean)


def margins(
    truth: np.ndarray, chances: np.ndarray, *, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a recommendation in every world; mean and error of the true gain over each rival given it, and its mass.

    chances (W, K); returns (K, K), (K, K) and (K,).
    """
    k = truth.shape[1]
    drawn = (rng.random(len(truth))[:, None] > np.cumsum(chances, axis=1)).sum(axis=1).clip(max=k - 1)
    mean, error = np.zeros((k, k)), np.full((k, k), np.inf)
    for arm in range(k):
        some = truth[drawn == arm]
        gain = some[:, [arm]] - some
        if len(some) > 1:
            mean[arm], error[arm] = gain.mean(axis=0), gain.std(axis=0, ddof=1) / np.sqrt(len(some))
    return mean, error, np.bincount(drawn, minlength=k) / len(truth)


def kernel(scores: np.ndarray, gamma: float | np.ndarray) -> np.ndarray:
    """The paper's kernel, (W, K) -> (W, K); a spread for all worlds, or one for each, (W, 1)."""
    k = scores.shape[1]
    best = scores.argmax(axis=1)
    out = 1.0 / (k + gamma * (scores.max(axis=1, keepdims=True) - scores))
    rows = np.arange(len(scores))
    out[rows, best] = 0.0
    out[rows, best] = 1.0 - out.sum(axis=1)
    return out
