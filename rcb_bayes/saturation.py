"""In which order arms fill up in a cold start: the saturation orders that really occur.

Promotion goes by prior means alone, so the order depends on the users and on ties, never on rewards: it can be
simulated without any. Users arrive independently, so that arms fill up like counters of independent Poisson processes
whose rates are the shares of users that each arm is promoted to: a run is a few gamma variables, whatever n is.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rcb_bayes.covariates import Empirical
from rcb_bayes.market import Market
from rcb_bayes.schema import BoolArray, FloatArray

_TIE = 1e-12
_N_USERS = 5000


def promoted_arms(means: FloatArray, open_arms: Sequence[int], *, rng: np.random.Generator) -> np.ndarray:
    """The open arm with the largest prior mean for each user, ties broken at random: (U, K) -> (U,)."""
    tied = _tied(means, open_arms)
    noise = rng.uniform(size=tied.shape)
    return np.array(open_arms)[np.where(tied, noise, -1.0).argmax(axis=1)]


def promotion_shares(means: FloatArray, open_arms: Sequence[int]) -> FloatArray:
    """pi_i(x), the probability that each open arm is promoted to each user, tied arms alike: (U, K) -> (U, open)."""
    tied = _tied(means, open_arms)
    return tied / tied.sum(axis=1, keepdims=True)


def saturated_sets(market: Market, *, n_per_arm: int, n_runs: int = 200, seed: int = 0) -> dict[tuple[int, ...], float]:
    """The sets of saturated arms that cold starts go through, with the share of runs that pass each.

    The empty set (the first phase) and the full set (the end) are left out.

    Applicability
    -------------
    Users are explored at one rate for all. A rate of each user's own changes how often an arm is promoted, and with it
    the order. The shares of users are exact for a table, else those of 5,000 users.
    """
    rng = np.random.default_rng(seed)
    users, weights = _users(market, rng)
    means = users @ market.prior.mean.values.T
    rates: dict[tuple[int, ...], FloatArray] = {}
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(n_runs):
        counts = np.zeros(market.n_arms, dtype=int)
        open_arms = tuple(range(market.n_arms))
        while len(open_arms) > 1:
            if open_arms not in rates:
                rates[open_arms] = weights @ promotion_shares(means, open_arms)
            counts = _next_counts(counts, open_arms, rates[open_arms], n_per_arm=n_per_arm, rng=rng)
            open_arms = tuple(int(k) for k in np.flatnonzero(counts < n_per_arm))
            seen[tuple(k for k in range(market.n_arms) if k not in open_arms)] += 1
    return {arms: count / n_runs for arms, count in sorted(seen.items(), key=lambda item: (-item[1], item[0]))}


def _next_counts(
    counts: np.ndarray, open_arms: Sequence[int], rates: FloatArray, *, n_per_arm: int, rng: np.random.Generator
) -> np.ndarray:
    """Samples of each arm when the next one is full.

    The last sample that arm k needs comes after a gamma time; the ones before it are uniform on the way there.
    """
    needed = n_per_arm - counts[list(open_arms)]
    with np.errstate(divide="ignore"):
        full_at = rng.standard_gamma(needed) / rates
    first = int(full_at.argmin())
    taken = rng.binomial(needed - 1, full_at[first] / full_at)
    taken[first] = needed[first]
    out = counts.copy()
    out[list(open_arms)] += taken
    return out


def _users(market: Market, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Users (U, d) and their weights (U,): the population itself where it is a table, else a sample."""
    population = market.covariates
    if isinstance(population, Empirical):
        return population.rows, population.weights
    return population.sample(_N_USERS, seed=rng), np.full(_N_USERS, 1.0 / _N_USERS)


def _tied(means: FloatArray, open_arms: Sequence[int]) -> BoolArray:
    """Which open arms have the largest prior mean for each user, up to rounding, (U, open)."""
    candidates = means[:, list(open_arms)]
    top = candidates.max(axis=1, keepdims=True)
    return candidates >= top - _TIE * np.maximum(np.abs(top), 1.0)
