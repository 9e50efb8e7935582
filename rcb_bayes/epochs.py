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
from rcb_bayes.schema import FloatArray
from rcb_bayes.worlds import Worlds, draw_rewards, noise_sd

_CHUNK_ROUNDS = 200_000
_ERROR_USERS = 512
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
        Options that need what is not here: inflated priors, rewards other than Gaussian.
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
        if inflation_factor(options.inflation, 10**9) != 1.0 or options.clock != "relative":
            raise RcbError("Exploitation side by side knows the relative clock and no inflation.")
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
        fitted = (self.platform or self.engine).fit(self._fed, covariance=True)
        assert fitted.covariance is not None  # asked for
        self.means = fitted.mean
        same = self.platform is None and self._fed is self._all
        self.user_means = self.means if same else self.engine.fit(self._all).mean
        self.gamma = np.maximum(self.gamma, self._spread(fitted.covariance))
        users = self.panel.users[self._some]
        self._kernel = self.probabilities(users)

    def probabilities(self, users: FloatArray, *, guard: FloatArray | None = None) -> FloatArray:
        """Recommendation probabilities of users in every world, (K, W, U); ``guard`` (U, K)."""
        k, w, u = self.market.n_arms, len(self.means), len(users)
        scores = (self.means.transpose(1, 0, 2) @ users.T).reshape(k, w * u)
        factors = None if guard is None else np.tile(guard.T, (1, w))
        return ipgs_probabilities(scores, np.repeat(self.gamma, u), guard=factors).reshape(k, w, u)

    def regret(self, users: FloatArray, *, guard: FloatArray | None = None) -> FloatArray:
        """Expected regret of a round of this epoch in every world, averaged over users, (W,); ``guard`` (U, K)."""
        truth = self.worlds.beta.transpose(1, 0, 2) @ users.T  # (K, W, U)
        given = (self.probabilities(users, guard=guard) * truth).sum(axis=0)
        return (truth.max(axis=0) - given).mean(axis=1)

    def run(self, guard: FloatArray | None = None) -> None:
        """Rounds of the epoch, in all worlds; ``guard`` (P, K) for the users of the panel."""
        w, k, d = self.means.shape
        xtx, n = np.zeros((w, k, d, d)), np.zeros((w, k))
        step = max(1, _CHUNK_ROUNDS // self.length)
        left = self.length
        for start in range(0, w, step):
            worlds = slice(start, min(start + step, w))
            for begun in range(0, left, _CHUNK_ROUNDS):
                size = min(_CHUNK_ROUNDS, left - begun)
                self._rounds(worlds, size, guard, xtx, n)
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

    def _rounds(self, worlds: slice, size: int, guard: FloatArray | None, xtx: FloatArray, n: FloatArray) -> None:
        """Users of ``size`` rounds in some worlds, entered into X'X and n."""
        means = self.means[worlds]
        w, k, _ = means.shape
        users = self._rng.choice(self.panel.n_users, size=(w, size), p=self.panel.weights)
        x = self.panel.users[users]  # (w, size, d)
        scores = (means @ x.swapaxes(1, 2)).swapaxes(0, 1).reshape(k, w * size)
        factors = None if guard is None else guard.T[:, users.reshape(-1)]
        chances = ipgs_probabilities(scores, np.repeat(self.gamma[worlds], size), guard=factors)
        arm = pick(chances, self._rng.random(w * size)).reshape(w, size)
        for which in range(k):
            own = x * (arm == which)[:, :, None]
            xtx[worlds, which] += own.swapaxes(1, 2) @ x
            n[worlds, which] += (arm == which).sum(axis=1)

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
