"""Logs with rewards of 0 and 1, in Open Bandit's form, and the value of telling everybody the first arm."""

from typing import Any

import numpy as np


def _log(x: np.ndarray, chances: np.ndarray, rates: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Rounds that are told and rewarded by chances and rates, (n, K) each."""
    n, k = chances.shape
    action = np.minimum((chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1)
    reward = (rng.random(n) < rates[np.arange(n), action]).astype(float)
    told = chances[np.arange(n), action]
    return {"action": action, "reward": reward, "context": x, "n_actions": k, "pi_b": chances, "pscore": told}


def even_log(seed: int, *, n: int, k: int, rate: float) -> dict[str, Any]:
    """Every arm as often."""
    rng = np.random.default_rng(seed)
    return _log(np.zeros((n, 0)), np.full((n, k), 1 / k), np.full((n, k), rate), rng)


def uneven_log(seed: int, *, n: int, rate: float, least: float = 0.01, tilt: float = 0.0) -> dict[str, Any]:
    """The first arm told with a chance from ``least`` to .6 by x; with ``tilt`` its rate is higher where it is rare."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 1))
    first = np.exp(np.log(least) + x[:, 0] * np.log(0.6 / least))
    chances = np.column_stack([first, 0.7 * (1 - first), 0.3 * (1 - first)])
    rates = np.column_stack([rate * (1 + tilt * (1 - 2 * x[:, 0])), np.full(n, rate / 2), np.full(n, rate)])
    return _log(x, chances, rates, rng)


def heavy_log(seed: int, *, n: int, rate: float) -> dict[str, Any]:
    """The first arm told by a logit of x, with chances down to 1e-4 and less: weights without a bound."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    first = np.maximum(1.0 / (1.0 + np.exp(2.5 + 1.5 * x[:, 0])), 1e-5)
    return _log(x, np.column_stack([first, 1 - first]), np.full((n, 2), rate), rng)


def learnt_log(seed: int, *, n: int, rates: tuple[float, ...]) -> dict[str, Any]:
    """Thompson sampling in blocks of 50, every arm at least .02: the first arm is not the best."""
    rng, k = np.random.default_rng(seed), len(rates)
    won, lost = np.ones(k), np.full(k, 1.0 / np.mean(rates))
    parts = []
    for _ in range(n // 50):
        drawn = rng.beta(won, lost, size=(400, k)).argmax(axis=1)
        chances = 0.02 + (1 - 0.02 * k) * np.bincount(drawn, minlength=k) / 400
        part = _log(np.zeros((50, 0)), np.tile(chances, (50, 1)), np.tile(rates, (50, 1)), rng)
        np.add.at(won, part["action"], part["reward"])
        np.add.at(lost, part["action"], 1 - part["reward"])
        parts.append(part)
    whole = {name: np.concatenate([part[name] for part in parts]) for name in ("action", "reward", "pi_b", "pscore")}
    return whole | {"context": None, "n_actions": k}
