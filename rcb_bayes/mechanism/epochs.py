r"""Exploitation in many worlds side by side: where guards are computed, and audits look.

All worlds are fitted together, and the rewards of an epoch are drawn as sums given the users, X'y from X'X, so that
nothing as long as an epoch is kept. Users are those of a panel, of whom guards are known.
"""

from collections.abc import Callable

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.exploiting import Exploiting, inflation_factor, paper_error
from rcb_bayes.mechanism.kernel import ipgs_probabilities, pick
from rcb_bayes.mechanism.panel import Panel, spread_users
from rcb_bayes.mechanism.worlds import Worlds, draw_rewards, noise_sd
from rcb_bayes.posterior import Engine
from rcb_bayes.posterior.data import Statistics, unchecked_statistics
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.posterior.stretched import StretchedEngine
from rcb_bayes.schema import FloatArray

_CHUNK_ROUNDS = 200_000
_CHUNK_VALUES = 4_000_000
_LONG = 2  # rounds for each user of the panel, from which on rounds of one user are drawn together
Guard = Callable[[int], FloatArray] | None
"""Factors of the panel's users in an epoch, (P, K)."""


class EpochWorlds:
    """W worlds that go through exploitation together.

    Attributes
    ----------
    epoch : its number, from 0
    means : posterior means under the platform's belief, by which it recommends, (W, K, d)
    user_means : those under the users' belief given all data, (W, K, d)
    gamma : spreads, (W,)

    Raises
    ------
    RcbError
        Options that need what is not here: the global clock, rewards other than Gaussian.
    """

    def __init__(
        self,
        market: Market,
        panel: Panel,
        worlds: Worlds,
        data: Statistics,
        *,
        n_per_arm: int,
        engine: Engine,
        platform: Engine | None,
        options: Exploiting,
        seed: int,
    ) -> None:
        if not market.noise.is_gaussian:
            raise RcbError("Exploitation side by side needs Gaussian rewards. Audit the policy world by world instead.")
        if options.clock != "relative":
            raise RcbError("Exploitation side by side knows the relative clock only.")
        self.market, self.panel, self.worlds, self.options = market, panel, worlds, options
        self.n_per_arm = n_per_arm
        self.engine, self.platform = engine, platform
        self._all = self._fed = data
        self._rng = np.random.default_rng(seed)
        self._spread_users, self._spread_weights = spread_users(market.covariates)
        self._last: tuple[FloatArray, FloatArray] | None = None  # means and gamma of the last kernel
        self.gamma = np.zeros(len(worlds.beta))
        self.epoch = -1
        self.n_fitted = self.n_not_vouched = 0
        self.begin()

    @property
    def length(self) -> int:
        """Rounds of this epoch."""
        return self.market.n_arms * self.n_per_arm << self.epoch

    def begin(self) -> None:
        """Fit what was fed, and set the spreads."""
        self.epoch += 1
        engine, platform = self._engines()
        fitted = (platform or engine).fit(self._fed, covariance=True)
        assert fitted.covariance is not None  # asked for
        self._note(fitted)
        same = platform is None and self._fed is self._all
        of_users = fitted if same else self._note(engine.fit(self._all))
        self.gamma = np.maximum(self.gamma, self._spread(fitted.covariance))
        self.means, self.user_means = fitted.mean, of_users.mean
        self._last = self.means, self.gamma

    def _note(self, fitted: PosteriorBatch) -> PosteriorBatch:
        """Count what no engine vouches for."""
        self.n_fitted += fitted.n_sets
        self.n_not_vouched += int((~fitted.vouched).sum())
        return fitted

    @property
    def inflation(self) -> float:
        """What prior variances are multiplied by in this epoch."""
        before = self.market.n_arms * self.n_per_arm * ((1 << self.epoch) - 1)  # rounds of exploitation
        return inflation_factor(self.options.inflation, before)

    def _engines(self) -> tuple[Engine, Engine | None]:
        """Users' engine, and the platform's where it believes otherwise, under priors as loose as they are now."""
        factor, noise = self.inflation, self.market.noise
        if factor == 1.0:
            return self.engine, self.platform
        users = StretchedEngine(self.engine.prior, noise, factor=factor)
        own = None if self.platform is None else StretchedEngine(self.platform.prior, noise, factor=factor)
        return users, own

    def probabilities(
        self, users: FloatArray, *, guard: FloatArray | None = None, worlds: slice | np.ndarray = slice(None)
    ) -> FloatArray:
        """Recommendation probabilities of users in every world, or some, (K, W, U); ``guard`` (U, K)."""
        return self._kernel(users, self.means[worlds], self.gamma[worlds], guard=guard)

    @staticmethod
    def _kernel(
        users: FloatArray, means: FloatArray, gamma: FloatArray, *, guard: FloatArray | None = None
    ) -> FloatArray:
        w, k, _ = means.shape
        u = len(users)
        scores = (means.transpose(1, 0, 2) @ users.T).reshape(k, w * u)
        factors = None if guard is None else np.tile(guard.T, (1, w))
        return ipgs_probabilities(scores, np.repeat(gamma, u), guard=factors).reshape(k, w, u)

    def regret(self, users: FloatArray, weights: FloatArray, *, guard: FloatArray | None = None) -> FloatArray:
        """Expected regret of a round in every world, (W,), averaged over users with weights (U,); ``guard`` (U, K)."""
        truth = self.worlds.beta.transpose(1, 0, 2) @ users.T  # (K, W, U)
        given = (self.probabilities(users, guard=guard) * truth).sum(axis=0)
        return (truth.max(axis=0) - given) @ weights

    def run(self, guard: FloatArray | None = None) -> None:
        """Rounds of the epoch, in all worlds; ``guard`` (P, K) for the users of the panel."""
        w, k, d = self.means.shape
        xtx, n = np.zeros((w, k, d, d)), np.zeros((w, k))
        by_user = self.length > _LONG * self.panel.n_users
        step = max(1, _CHUNK_ROUNDS // (self.panel.n_users if by_user else self.length))
        for start in range(0, w, step):
            worlds = slice(start, min(start + step, w))
            if by_user:
                self._counts(worlds, guard, xtx, n)
                continue
            for begun in range(0, self.length, _CHUNK_ROUNDS):
                self._rounds(worlds, min(_CHUNK_ROUNDS, self.length - begun), guard, xtx, n)
        xty, yty = np.zeros((w, k, d)), np.zeros((w, k))
        sigma = noise_sd(self.worlds, self.market.noise)
        for arm in range(k):
            xty[:, arm], yty[:, arm] = draw_rewards(
                xtx[:, arm], self.worlds.beta[:, arm], sigma, n=n[:, arm], rng=self._rng
            )
        fresh = unchecked_statistics(xtx, xty, yty, n)
        before = self._all
        self._all = unchecked_statistics(before.xtx + xtx, before.xty + xty, before.yty + yty, before.n + n)
        self._fed = fresh if self.options.feed == "last" else self._all

    def _counts(self, worlds: slice, guard: FloatArray | None, xtx: FloatArray, n: FloatArray) -> None:
        """The whole epoch in some worlds, entered into X'X and n: how often each user comes, and with which arms.

        The panel's users come again and again in a long epoch, each time with the same probabilities.
        """
        users, d = self.panel.users, self.market.n_features
        chances = self.probabilities(users, guard=guard, worlds=worlds)  # (K, w, P)
        k, w, p = chances.shape
        came = self._rng.multinomial(self.length, self.panel.weights, size=w)  # (w, P)
        left, share = came, np.ones((w, p))
        outer = (users[:, :, None] * users[:, None, :]).reshape(p, d * d)
        for which in range(k):
            if which < k - 1:
                with np.errstate(invalid="ignore", divide="ignore"):
                    part = np.clip(np.where(share > 0, chances[which] / share, 0.0), 0.0, 1.0)
                own = self._rng.binomial(left, part)
            else:
                own = left
            left, share = left - own, share - chances[which]
            xtx[worlds, which] += (own @ outer).reshape(w, d, d)
            n[worlds, which] += own.sum(axis=1)

    def _rounds(self, worlds: slice, size: int, guard: FloatArray | None, xtx: FloatArray, n: FloatArray) -> None:
        """Users of ``size`` rounds in some worlds, entered into X'X and n."""
        means = self.means[worlds]
        w, k, _ = means.shape
        users = self._arrivals((w, size))
        x = self.panel.users[users]  # (w, size, d)
        scores = (means @ x.swapaxes(1, 2)).swapaxes(0, 1).reshape(k, w * size)
        factors = None if guard is None else guard.T[:, users.reshape(-1)]
        chances = ipgs_probabilities(scores, np.repeat(self.gamma[worlds], size), guard=factors)
        arm = pick(chances, self._rng.random(w * size)).reshape(w, size)
        for which in range(k):
            own = x * (arm == which)[:, :, None]
            xtx[worlds, which] += own.swapaxes(1, 2) @ x
            n[worlds, which] += (arm == which).sum(axis=1)

    def _arrivals(self, shape: tuple[int, int]) -> np.ndarray:
        """Users of the panel as they come."""
        weights = self.panel.weights
        if weights.min() == weights.max():
            return self._rng.integers(len(weights), size=shape)
        return self._rng.choice(len(weights), size=shape, p=weights)

    def _spread(self, covariance: FloatArray) -> FloatArray:
        """gamma = 4 sqrt(K/E) in every world, (W,)."""
        k = self.market.n_arms
        multiple = 4.0 * (self.options.spread_multiple or 1.0)
        if self.options.spread == "paper":
            return multiple * np.sqrt(k / paper_error(self.market, self._fed.n.sum(axis=1)))
        w = len(covariance)
        step = max(1, _CHUNK_VALUES // (k * len(self._spread_users)))
        parts = [self._prediction_error(covariance, slice(start, start + step)) for start in range(0, w, step)]
        return multiple * np.sqrt(k / np.concatenate(parts))

    def _prediction_error(self, covariance: FloatArray, worlds: slice) -> FloatArray:
        """E: the average over users and the last kernel of the posterior variance of their rewards, some worlds'."""
        k, d = self.market.n_arms, self.market.n_features
        users = self._spread_users
        tiles = covariance[worlds].reshape(-1, k, d, k, d)
        error = np.zeros((len(tiles), len(users)))
        kernel = None if self._last is None else self._kernel(users, self._last[0][worlds], self._last[1][worlds])
        for arm in range(k):
            variance = ((users @ tiles[:, arm, :, arm]) * users).sum(axis=2)  # (w, U)
            error += variance / k if kernel is None else kernel[arm] * variance
        return error @ self._spread_weights
