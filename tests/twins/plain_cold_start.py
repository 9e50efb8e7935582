"""A cold start with no cleverness at all: users, coins, true rewards, one round at a time, many runs side by side.

For user types with orthogonal features (rows of the identity) and independent Gaussian coefficients: the posterior of
each arm and type is then a scalar one. What it returns is what users who were told to take an arm really got.
"""

from collections.abc import Callable

import numpy as np

Rates = Callable[[tuple[int, ...]], np.ndarray]
"""The exploration rate of every type, (T,), once these arms are saturated."""


class Record:
    """Sums over the users of a type who were recommended an arm at a stage."""

    def __init__(self, n_arms: int) -> None:
        self.n = 0
        self.lead = np.zeros(n_arms)
        self.squares = np.zeros(n_arms)
        self.shortfall = 0.0  # what the best arm would have given beyond this one

    def add(self, lead: np.ndarray) -> None:
        self.n += len(lead)
        self.shortfall -= lead.min(axis=1).sum()
        self.lead += lead.sum(axis=0)
        self.squares += (lead**2).sum(axis=0)

    @property
    def mean(self) -> np.ndarray:
        """What the arm gave beyond each rival, on average."""
        return self.lead / self.n

    @property
    def error(self) -> np.ndarray:
        return np.sqrt((self.squares / self.n - self.mean**2) / self.n)


def run(
    prior_mean: np.ndarray,
    variance: np.ndarray,
    *,
    weights: np.ndarray,
    sigma: float,
    n_per_arm: int,
    rates: Rates,
    n_runs: int,
    seed: int,
    max_rounds: int = 100_000,
) -> tuple[dict[tuple[tuple[int, ...], int, int], Record], np.ndarray]:
    """Leads of recommended arms by (saturated arms, type, arm), and the length of each run.

    ``prior_mean`` and ``variance`` are (K, T): an arm's coefficient for a type.
    """
    rng = np.random.default_rng(seed)
    k, n_types = prior_mean.shape
    truth = prior_mean + np.sqrt(variance) * rng.standard_normal((n_runs, k, n_types))
    n, total = np.zeros((n_runs, k, n_types)), np.zeros((n_runs, k, n_types))
    saturated = np.zeros((n_runs, k), dtype=bool)
    length = np.zeros(n_runs, dtype=int)
    records: dict[tuple[tuple[int, ...], int, int], Record] = {}
    for _ in range(max_rounds):
        running = np.flatnonzero(~saturated.all(axis=1))
        if not len(running):
            return records, length
        length[running] += 1
        types = rng.choice(n_types, p=weights, size=len(running))
        promoted = draw_best(np.where(saturated[running], -np.inf, prior_mean.T[types]), rng)
        posterior = (prior_mean / variance + total[running] / sigma**2) / (1 / variance + n[running] / sigma**2)
        expected = np.where(
            saturated[running],
            np.take_along_axis(posterior, types[:, None, None], axis=2)[:, :, 0],
            prior_mean.T[types],
        )
        organic = draw_best(expected, rng)
        coin = rng.random(len(running))
        codes = saturated[running] @ (1 << np.arange(k))
        explored = np.ones(len(running), dtype=bool)
        for code in np.unique(codes):
            if code:
                arms = tuple(a for a in range(k) if code >> a & 1)
                some = codes == code
                explored[some] = coin[some] < rates(arms)[types[some]]
        arm = np.where(explored, promoted, organic)
        own = truth[running, :, types]  # (runs, K)
        for code in np.unique(codes):
            for kind in range(n_types):
                for a in range(k):
                    some = (codes == code) & (types == kind) & (arm == a)
                    if some.any():
                        key = (tuple(b for b in range(k) if code >> b & 1), kind, a)
                        records.setdefault(key, Record(k)).add(own[some, a, None] - own[some])
        reward = own[range(len(running)), arm] + sigma * rng.standard_normal(len(running))
        kept = running[explored]
        n[kept, promoted[explored], types[explored]] += 1
        total[kept, promoted[explored], types[explored]] += reward[explored]
        saturated[kept] = n[kept].sum(axis=2) >= n_per_arm
    raise AssertionError("the cold start does not end")


def draw_best(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The largest of each row, ties at random."""
    best = values >= values.max(axis=1, keepdims=True) - 1e-12
    return np.where(best, rng.random(values.shape), -1.0).argmax(axis=1)
