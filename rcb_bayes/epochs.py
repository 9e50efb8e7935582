r"""Exploitation in many worlds side by side: where guards are computed, and audits look.

All worlds are fitted together, and the rewards of an epoch are drawn as sums given the users, X'y from X'X, so that
nothing as long as an epoch is kept. Users are those of a panel, of whom guards are known.
"""

from collections.abc import Callable

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.exploit import Exploiting, inflation_factor
from rcb_bayes.kernel import ipgs_probabilities, pick
from rcb_bayes.market import Market
from rcb_bayes.panel import Panel
from rcb_bayes.posterior import Engine
from rcb_bayes.posterior.data import Statistics, unchecked_statistics
from rcb_bayes.posterior.stretched import StretchedEngine
from rcb_bayes.schema import FloatArray
from rcb_bayes.worlds import Worlds, draw_rewards, noise_sd

_CHUNK_ROUNDS = 200_000
_ERROR_USERS = 512
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
        self._some = self._rng.choice(panel.n_users, size=_ERROR_USERS, p=panel.weights)
        n_worlds, k = len(worlds.beta), market.n_arms
        self._kernel = np.full((k, n_worlds, _ERROR_USERS), 1.0 / k)
        self.gamma = np.zeros(n_worlds)
        self.epoch = -1
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
        self.means = fitted.mean
        same = platform is None and self._fed is self._all
        self.user_means = self.means if same else engine.fit(self._all).mean
        self.gamma = np.maximum(self.gamma, self._spread(fitted.covariance))
        users = self.panel.users[self._some]
        self._kernel = self.probabilities(users)

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
        self, users: FloatArray, *, guard: FloatArray | None = None, worlds: slice = slice(None)
    ) -> FloatArray:
        """Recommendation probabilities of users in every world, or some, (K, W, U); ``guard`` (U, K)."""
        means, gamma = self.means[worlds], self.gamma[worlds]
        k, w, u = self.market.n_arms, len(means), len(users)
        scores = (means.transpose(1, 0, 2) @ users.T).reshape(k, w * u)
        factors = None if guard is None else np.tile(guard.T, (1, w))
        return ipgs_probabilities(scores, np.repeat(gamma, u), guard=factors).reshape(k, w, u)

    def regret(self, users: FloatArray, *, guard: FloatArray | None = None) -> FloatArray:
        """Expected regret of a round of this epoch in every world, averaged over users, (W,); ``guard`` (U, K)."""
        truth = self.worlds.beta.transpose(1, 0, 2) @ users.T  # (K, W, U)
        given = (self.probabilities(users, guard=guard) * truth).sum(axis=0)
        return (truth.max(axis=0) - given).mean(axis=1)

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
        k, d = self.market.n_arms, self.market.n_features
        multiple = 4.0 * (self.options.spread_multiple or 1.0)
        if self.options.spread == "paper":
            sigma = noise_sd(self.worlds, self.market.noise)
            error = (sigma**2 * d + 1.0) / (self.market.covariates.phi0 * self._fed.n.sum(axis=1))
            return multiple * np.sqrt(k / error)
        users = self.panel.users[self._some]
        tiles = covariance.reshape(-1, k, d, k, d)
        error = np.zeros(len(covariance))
        for arm in range(k):
            variance = np.einsum("ud,wde,ue->wu", users, tiles[:, arm, :, arm], users, optimize=True)
            error += (self._kernel[arm] * variance).mean(axis=1)
        return multiple * np.sqrt(k / error)
