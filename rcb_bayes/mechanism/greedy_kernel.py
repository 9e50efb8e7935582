"""The inner loop of greedy, compiled: one user after the other, and one rank of every component's covariance each."""

from math import exp, log
from typing import Any

import numpy as np

from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.posterior.kernels import compiled
from rcb_bayes.schema import FloatArray


def serve(
    state: tuple[Any, ...],
    users: FloatArray,
    truth: FloatArray,
    come: np.ndarray,
    noise: FloatArray,
    uniforms: FloatArray,
    *,
    variance: float,
    n_tried: FloatArray,
    regret: FloatArray,
) -> None:
    """Serve the users of w worlds, and enter what was recommended and what that lost.

    Parameters
    ----------
    state : means (B, C, p), covariances (B, C, p, p) and log weights (B, C) of blocks of arms, and the block and the
        first coefficient of every arm, (K,)
    users : (P, d)
    truth : mean rewards, (w, K, P)
    come : positions of users, (w, T), with ``noise`` of their rewards, and ``uniforms`` for arms that tie
    variance : of the noise
    n_tried, regret : to be added to, (w, K) and (w,)
    """
    mixed = _mixed_means(state, users.shape[1])
    compiled(_serve)(*state, mixed, users, truth, come, noise, uniforms, variance, n_tried, regret)


def _mixed_means(state: tuple[Any, ...], d: int) -> FloatArray:
    """Prior means of every arm, (K, d)."""
    means, _, log_weights, block_of, place_of = state
    mixed = (np.exp(log_weights)[:, :, None] * means).sum(axis=1)  # (B, p)
    return np.stack([mixed[b, start : start + d] for b, start in zip(block_of, place_of, strict=True)])


def _serve(
    means,
    covariances,
    log_weights,
    block_of,
    place_of,
    prior_mean,
    users,
    truth,
    come,
    noise,
    uniforms,
    variance,
    n_tried,
    regret,
) -> None:
    n_worlds, horizon = come.shape
    n_arms, d = prior_mean.shape
    n_components, size = means.shape[1:]
    scores, moved, weight = np.empty(n_arms), np.empty(size), np.empty(n_components)
    for w in range(n_worlds):
        m, v, lw, mixed = means.copy(), covariances.copy(), log_weights.copy(), prior_mean.copy()
        for t in range(horizon):
            x = users[come[w, t]]
            top, best = -np.inf, -np.inf
            for arm in range(n_arms):
                score = 0.0
                for i in range(d):
                    score += mixed[arm, i] * x[i]
                scores[arm] = score
                top, best = max(top, score), max(best, truth[w, arm, come[w, t]])
            least = top - TIE * max(abs(top), 1.0)
            n_best = 0
            for arm in range(n_arms):
                n_best += scores[arm] >= least
            left, chosen = int(uniforms[w, t] * n_best), -1
            while left >= 0:
                chosen += 1
                left -= scores[chosen] >= least
            mean_reward = truth[w, chosen, come[w, t]]
            regret[w] += best - mean_reward
            n_tried[w, chosen] += 1.0
            b, start, y = block_of[chosen], place_of[chosen], mean_reward + noise[w, t]
            # The posterior of each component, and its weight.
            heaviest = -np.inf
            for c in range(n_components):
                if lw[b, c] == -np.inf:
                    continue
                error, s = y, variance
                for j in range(size):
                    moved[j] = 0.0
                    for i in range(d):
                        moved[j] += v[b, c, j, start + i] * x[i]
                for i in range(d):
                    error -= m[b, c, start + i] * x[i]
                    s += moved[start + i] * x[i]
                lw[b, c] -= 0.5 * (log(s) + error * error / s)
                heaviest = max(heaviest, lw[b, c])
                for j in range(size):
                    m[b, c, j] += moved[j] * error / s
                    for i in range(size):
                        v[b, c, j, i] -= moved[j] * moved[i] / s
            total = 0.0
            for c in range(n_components):
                weight[c] = exp(lw[b, c] - heaviest)
                total += weight[c]
            for arm in range(n_arms):
                if block_of[arm] == b:
                    for i in range(d):
                        mean = 0.0
                        for c in range(n_components):
                            mean += weight[c] * m[b, c, place_of[arm] + i]
                        mixed[arm, i] = mean / total
