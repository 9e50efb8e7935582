"""Logs of bandits that are not ours, in Open Bandit's form: epsilon-greedy and Thompson sampling, block by block."""

from typing import Any

import numpy as np

N_ARMS, _BLOCK, _NOISE = 3, 20, 0.5


def mean_rewards(x: np.ndarray, *, curved: bool) -> np.ndarray:
    """Of every arm, (n, 3): lines, or curves that a regression of lines misses."""
    lines = np.column_stack([0.2 + 0.3 * x[:, 0], 0.3 * x[:, 1], 0.1 - 0.3 * x[:, 0]])
    if not curved:
        return lines
    return lines + np.column_stack([0.4 * np.sin(3 * x[:, 0]), 0.3 * (x[:, 1] ** 2 - 1), np.zeros(len(x))])


def bandit_log(seed: int, *, thompson: bool, n: int = 600) -> dict[str, Any]:
    """A log of Thompson sampling in lines, propensities down to .005, or of epsilon-greedy in curves, down to .014."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    means = mean_rewards(x, curved=not thompson)
    rows = np.column_stack([np.ones(n), x])
    gram, moment = np.tile(np.eye(3), (N_ARMS, 1, 1)), np.zeros((N_ARMS, 3))
    action, reward, chances = np.zeros(n, dtype=int), np.zeros(n), np.zeros((n, N_ARMS))
    for start in range(0, n, _BLOCK):
        at = slice(start, start + _BLOCK)
        inverse = np.linalg.inv(gram)
        guess = rows[at] @ np.einsum("kij,kj->ki", inverse, moment).T
        if thompson:
            sd = _NOISE * np.sqrt(np.einsum("ti,kij,tj->tk", rows[at], inverse, rows[at]))
            drawn = (guess[:, :, None] + sd[:, :, None] * rng.normal(size=(_BLOCK, N_ARMS, 300))).argmax(axis=1)
            told = 0.985 * np.stack([(drawn == k).mean(axis=1) for k in range(N_ARMS)], axis=1) + 0.015 / N_ARMS
        else:
            epsilon = max(0.03, 1.0 / np.sqrt(start + 1.0))
            told = np.full((_BLOCK, N_ARMS), epsilon / N_ARMS)
            told[np.arange(_BLOCK), guess.argmax(axis=1)] += 1.0 - epsilon
        action[at] = np.minimum((told.cumsum(axis=1) < rng.random((_BLOCK, 1))).sum(axis=1), N_ARMS - 1)
        chances[at] = told
        reward[at] = means[np.arange(start, start + _BLOCK), action[at]] + _NOISE * rng.normal(size=_BLOCK)
        for k in range(N_ARMS):
            own = rows[at][action[at] == k]
            gram[k] += own.T @ own
            moment[k] += own.T @ reward[at][action[at] == k]
    pscore = chances[np.arange(n), action]
    return {
        "n_rounds": n,
        "n_actions": N_ARMS,
        "context": x,
        "action": action,
        "reward": reward,
        "pscore": pscore,
        "pi_b": chances,
    }
