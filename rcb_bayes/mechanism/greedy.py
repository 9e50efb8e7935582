r"""Greedy recommendations in many worlds side by side: what everybody would follow anyway, and what it never learns.

A platform that always recommends the arm with the largest posterior mean needs no incentives. In world w it serves T
users; of every arm it is told how often it was tried and, from the truth, for which share of users it is the best.

Under a Gaussian belief, or a finite mixture of Gaussians, with Gaussian rewards of known noise the platform learns
after every user: a sample (x, y) of an arm moves each component c of its block by

.. math:: s_c = z'V_c z + \sigma^2, \quad e_c = y - z'm_c, \quad m_c \mathrel{+}= V_c z\, e_c / s_c, \quad
          V_c \mathrel{-}= V_c z z' V_c / s_c, \quad \log w_c \mathrel{-}= \tfrac12 (\log s_c + e_c^2 / s_c),

with z the user's features at the arm's place. Other posteriors are fitted anew, all worlds at once: after each of the
first rounds, and then whenever there are so many more of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.belief.law import GaussianLaw
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.greedy_kernel import serve
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.worlds import Worlds, draw_worlds, noise_sd
from rcb_bayes.posterior.data import Tallies, unchecked_statistics
from rcb_bayes.posterior.engines import Engine
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.telling.progress import track

_EACH_ROUND = 16  # after each of so many rounds posteriors without a closed form are fitted anew
_GROWTH, _GROWTH_OF_COUNTS = 1.15, 1.5  # and then as rounds have grown by this; 0/1 posteriors take longer
_CHUNK_VALUES = 2_000_000
_ROUNDING = 1e-6  # of a share: weights, in single precision perhaps, are divided by their sum and added up again


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GreedyRuns:
    """Greedy in W worlds.

    Attributes
    ----------
    n_tried : how often each arm was recommended, (W, K)
    best_share : the share of users for whom each arm is truly the best, (W, K)
    regret : against the truly best arm, over all rounds, (W,)
    n_fitted, n_not_vouched : posteriors that were fitted anew, and those that no engine vouches for
    """

    n_tried: FloatArray
    best_share: FloatArray
    regret: FloatArray
    n_fitted: int = 0
    n_not_vouched: int = 0

    def starved(self, *, share: float) -> BoolArray:
        """Worlds in which an arm that is best for at least this share of users is never tried, (W,)."""
        return np.any(self._matters(share) & (self.n_tried == 0), axis=1)

    def neglected(self, *, share: float, part: float, horizon: int) -> BoolArray:
        """Worlds in which such an arm gets less than a part of the users it is best for, (W,)."""
        few = self.n_tried < part * self.best_share * horizon
        return np.any(self._matters(share) & few, axis=1)

    def _matters(self, share: float) -> BoolArray:
        """Arms that are best for at least this share of users, up to the rounding of weights, (W, K)."""
        return self.best_share >= share * (1.0 - _ROUNDING)


def is_exact(market: Market) -> bool:
    """Whether posteriors move sample by sample in closed form."""
    known = market.noise.is_gaussian and getattr(market.noise, "sigma", None) is not None
    return market.prior.law is not None and known


def greedy_runs(
    market: Market, panel: Panel, engine: Engine | None, *, horizon: int, n_worlds: int, rng: np.random.Generator
) -> GreedyRuns:
    """Greedy under the users' belief, in worlds of that belief; users come from a panel.

    Parameters
    ----------
    engine : of the users' belief, where posteriors have no closed form
    """
    return greedy_in(market, panel, engine, draw_worlds(market.prior, n_worlds, rng=rng), horizon=horizon, rng=rng)


def greedy_in(
    market: Market, panel: Panel, engine: Engine | None, worlds: Worlds, *, horizon: int, rng: np.random.Generator
) -> GreedyRuns:
    """The same in given worlds."""
    if engine is None:
        return _one_by_one(market, panel, worlds, horizon=horizon, rng=rng)
    return _in_batches(market, panel, worlds, engine, horizon=horizon, rng=rng)


def _truth(market: Market, panel: Panel, beta: FloatArray) -> FloatArray:
    """True mean rewards of the panel, (w, K, P)."""
    return market.noise.mean_reward(beta @ panel.users.T)


def _arrivals(panel: Panel, shape: tuple[int, int], *, rng: np.random.Generator) -> np.ndarray:
    """Positions of users as they come."""
    if panel.weights.min() == panel.weights.max():
        return rng.integers(panel.n_users, size=shape)
    return rng.choice(panel.n_users, size=shape, p=panel.weights)


# --- sample by sample ------------------------------------------------------------------------------------------------


def _one_by_one(market: Market, panel: Panel, worlds: Worlds, *, horizon: int, rng: np.random.Generator) -> GreedyRuns:
    assert market.prior.law is not None  # it has a closed form
    state = _packed(market.prior.law)
    k, w = market.n_arms, worlds.n_worlds
    sigma = float(noise_sd(worlds, market.noise)[0])
    n_tried, regret, shares = np.zeros((w, k)), np.zeros(w), np.zeros((w, k))
    step = max(1, _CHUNK_VALUES // max(horizon, k * panel.n_users))
    for start in track(range(0, w, step), description="greedy"):
        some = slice(start, start + step)
        truth = _truth(market, panel, worlds.beta[some])
        shares[some] = best_shares(truth, axis=1) @ panel.weights
        come = _arrivals(panel, (len(truth), horizon), rng=rng)
        noise = sigma * rng.standard_normal(come.shape)
        uniforms = rng.random(come.shape)
        serve(
            state,
            panel.users,
            truth,
            come,
            noise,
            uniforms,
            variance=sigma**2,
            n_tried=n_tried[some],
            regret=regret[some],
        )
    return GreedyRuns(n_tried=n_tried, best_share=shares, regret=regret)


def _packed(law: GaussianLaw) -> tuple[Any, ...]:
    """Blocks and components in arrays: means (B, C, p), covariances, log weights (B, C); block and place of each arm.

    Blocks that are smaller, or have fewer components, are padded; a padded component has no weight.
    """
    d, n_blocks = law.n_features, len(law.blocks)
    most = max(block.n_components for block in law.blocks)
    size = d * max(len(block.arms) for block in law.blocks)
    means, covariances = np.zeros((n_blocks, most, size)), np.zeros((n_blocks, most, size, size))
    log_weights = np.full((n_blocks, most), -np.inf)
    block_of, place_of = np.zeros(law.n_arms, dtype=np.int64), np.zeros(law.n_arms, dtype=np.int64)
    for number, block in enumerate(law.blocks):
        c, p = block.means.shape
        means[number, :c, :p], covariances[number, :c, :p, :p] = block.means, block.covariances
        with np.errstate(divide="ignore"):
            log_weights[number, :c] = np.log(block.weights)
        for place, arm in enumerate(block.arms):
            block_of[arm], place_of[arm] = number, place * d
    return means, covariances, log_weights, block_of, place_of


# --- in batches ------------------------------------------------------------------------------------------------------


def learning_rounds(horizon: int, *, each: int, growth: float) -> Iterator[tuple[int, int]]:
    """Rounds (start, stop) between which the platform does not learn: one by one at first, then ever more."""
    start = 0
    while start < horizon:
        stop = start + 1 if start < each else max(start + 1, int(start * growth))
        yield start, min(stop, horizon)
        start = stop


def n_refits(market: Market, *, horizon: int) -> int:
    """How often posteriors without a closed form are fitted anew in a world."""
    each, growth = (_Sums if market.noise.is_gaussian else _Tallied).schedule
    return len(list(learning_rounds(horizon, each=each, growth=growth)))


def _in_batches(
    market: Market, panel: Panel, worlds: Worlds, engine: Engine, *, horizon: int, rng: np.random.Generator
) -> GreedyRuns:
    learner = (_Sums if market.noise.is_gaussian else _Tallied)(market, panel, worlds, engine, horizon=horizon)
    truth = _truth(market, panel, worlds.beta)
    best, shares = truth.max(axis=1), best_shares(truth, axis=1) @ panel.weights
    w, k, _ = truth.shape
    at = np.arange(w)[:, None]
    n_tried, regret, n_fitted, n_not_vouched = np.zeros((w, k)), np.zeros(w), 0, 0
    each, growth = learner.schedule
    for start, stop in track(list(learning_rounds(horizon, each=each, growth=growth)), description="greedy"):
        batch_rewards, vouched = learner.expected()  # (w, K, P)
        n_fitted, n_not_vouched = n_fitted + len(vouched), n_not_vouched + int((~vouched).sum())
        come = _arrivals(panel, (w, stop - start), rng=rng)
        scores = np.take_along_axis(batch_rewards, come[:, None], axis=2)  # (w, K, n)
        arm = (np.cumsum(best_shares(scores, axis=1), axis=1) < rng.random((w, 1, stop - start))).sum(axis=1)
        arm = np.minimum(arm, k - 1)
        regret += (best[at, come] - truth[at, arm, come]).sum(axis=1)
        learner.learn(come, arm, rng=rng)
        n_tried += (arm[:, :, None] == np.arange(k)).sum(axis=1)
    return GreedyRuns(n_tried=n_tried, best_share=shares, regret=regret, n_fitted=n_fitted, n_not_vouched=n_not_vouched)


class _Sums:
    """Gaussian rewards: data as sums."""

    schedule = (_EACH_ROUND, _GROWTH)

    def __init__(self, market: Market, panel: Panel, worlds: Worlds, engine: Engine, *, horizon: int) -> None:
        self.market, self.panel, self.worlds, self.engine = market, panel, worlds, engine
        w, k, d = worlds.beta.shape
        self.sigma = noise_sd(worlds, market.noise)
        self.sums = [np.zeros((w, k, d, d)), np.zeros((w, k, d)), np.zeros((w, k)), np.zeros((w, k))]

    def expected(self) -> tuple[FloatArray, np.ndarray]:
        """What is expected of every arm by every user of the panel, (w, K, P), and where that is vouched for."""
        batch = self.engine.fit(unchecked_statistics(*self.sums))
        return batch.mean @ self.panel.users.T, batch.vouched

    def learn(self, come: np.ndarray, arm: np.ndarray, *, rng: np.random.Generator) -> None:
        """Rewards of users who came, (w, n), and got these arms."""
        x = self.panel.users[come]  # (w, n, d)
        eta = (x * self.worlds.beta[np.arange(len(arm))[:, None], arm]).sum(axis=2)
        y = eta + self.sigma[:, None] * rng.standard_normal(eta.shape)
        got = (arm[:, None] == np.arange(self.market.n_arms)[:, None]).astype(float)  # (w, K, n)
        fresh = (np.einsum("wkn,wni,wnj->wkij", got, x, x, optimize=True), (got * y[:, None]) @ x)
        for total, part in zip(self.sums, (*fresh, got @ (y**2)[..., None], got.sum(axis=2)), strict=True):
            total += part.reshape(total.shape)


class _Tallied:
    """Other rewards: users are those of a panel, so that data are counts of them, however many come."""

    schedule = (_EACH_ROUND, _GROWTH_OF_COUNTS)

    def __init__(self, market: Market, panel: Panel, worlds: Worlds, engine: Engine, *, horizon: int) -> None:
        self.market, self.panel, self.worlds, self.engine = market, panel, worlds, engine
        shape = (len(worlds.beta), market.n_arms, panel.n_users)
        self.trials, self.successes = np.zeros(shape), np.zeros(shape)

    def expected(self) -> tuple[FloatArray, np.ndarray]:
        """What is expected of every arm by every user of the panel, (w, K, P), and where that is vouched for."""
        if not self.trials.any():
            w, k, p = self.trials.shape
            return np.broadcast_to(self.panel.prior_rewards.T, (w, k, p)), np.ones(w, dtype=bool)
        data = Tallies(users=self.panel.users, trials=self.trials, successes=self.successes)
        batch = self.engine.fit(data, users=self.panel.users)
        assert batch.reward is not None  # users were given
        return batch.reward.swapaxes(1, 2), batch.vouched

    def learn(self, come: np.ndarray, arm: np.ndarray, *, rng: np.random.Generator) -> None:
        """Rewards of users who came, (w, n), and got these arms."""
        x = self.panel.users[come]
        at = np.arange(len(arm))[:, None]
        eta = (x * self.worlds.beta[at, arm]).sum(axis=2)
        np.add.at(self.trials, (at, arm, come), 1.0)
        np.add.at(self.successes, (at, arm, come), self.market.noise.sample(eta, rng=rng))
