"""In which order arms fill up in a cold start: the saturation orders that really occur.

Promotion goes by prior means alone, so the order depends on the users and on ties, never on rewards: it can be
simulated without any.
"""

from collections import Counter

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.schema import FloatArray

_TIE = 1e-12


def promoted_arms(means: FloatArray, open_arms: list[int], *, rng: np.random.Generator) -> np.ndarray:
    """The open arm with the largest prior mean for each user, ties broken at random: (U, K) -> (U,)."""
    candidates = means[:, open_arms]
    top = candidates.max(axis=1, keepdims=True)
    tied = candidates >= top - _TIE * np.maximum(np.abs(top), 1.0)
    noise = rng.uniform(size=candidates.shape)
    return np.array(open_arms)[np.where(tied, noise, -1.0).argmax(axis=1)]


def saturated_sets(market: Market, *, n_per_arm: int, n_runs: int = 200, seed: int = 0) -> dict[tuple[int, ...], float]:
    """The sets of saturated arms that cold starts go through, with the share of runs that pass each.

    The empty set (the first phase) and the full set (the end) are left out.
    """
    rng = np.random.default_rng(seed)
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(n_runs):
        seen.update(_one_run(market, n_per_arm=n_per_arm, rng=rng))
    return {arms: count / n_runs for arms, count in sorted(seen.items(), key=lambda item: -item[1])}


def _one_run(market: Market, *, n_per_arm: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    mean = market.prior.mean.values
    counts = np.zeros(market.n_arms, dtype=int)
    visited: list[tuple[int, ...]] = []
    open_arms = list(range(market.n_arms))
    while len(open_arms) > 1:
        filled = _next_filled(market, mean, counts, open_arms, n_per_arm=n_per_arm, rng=rng)
        open_arms.remove(filled)
        visited.append(tuple(k for k in range(market.n_arms) if k not in open_arms))
    return visited


def _next_filled(
    market: Market,
    mean: FloatArray,
    counts: np.ndarray,
    open_arms: list[int],
    *,
    n_per_arm: int,
    rng: np.random.Generator,
) -> int:
    """Send users until an arm has its samples; ``counts`` is updated in place."""
    size = n_per_arm * len(open_arms)  # enough for some arm to fill up
    users = market.covariates.sample(size, seed=rng)
    arms = promoted_arms(users @ mean.T, open_arms, rng=rng)
    running = counts[open_arms] + np.cumsum(arms[:, None] == np.array(open_arms), axis=0)  # (U, open)
    step = int(np.argmax((running >= n_per_arm).any(axis=1)))
    counts[open_arms] = running[step]
    return open_arms[int(np.argmax(running[step]))]
