r"""Exploitation in many worlds side by side: where guards are computed, and audits look.

All worlds are fitted together, and the rewards of an epoch are drawn as sums given the users, X'y from X'X, so that
nothing as long as an epoch is kept. Users are those of a panel, of whom guards are known.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.engines import Engines
from rcb_bayes.mechanism.epoch import Epoch, PredictionError, before_the_first, epoch_numbered, loosening, next_epoch
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.kernel import ipgs_probabilities, pick
from rcb_bayes.mechanism.loops import kernel_table, visit_sums
from rcb_bayes.mechanism.outlook import LinearOutlook, TableOutlook
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.protocol import Mechanism
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.mechanism.worlds import BLOCK, Worlds, draw_rewards, loosened, noise_sd
from rcb_bayes.posterior.data import Statistics, unchecked_statistics
from rcb_bayes.posterior.engines import fit_arms
from rcb_bayes.schema import FloatArray

_CHUNK_ROUNDS = 200_000
_BLOCK_VALUES = 50_000  # a few arrays of them stay in a core's own cache
_MOST_COVARIANCES = 50_000_000  # numbers at a time
_LONG = 2  # rounds for each user of the panel, from which on rounds of one user are drawn together
GuardAt = Callable[[int], FloatArray | None]
"""Factors of the panel's users in an epoch, (P, K); None where nothing is cut."""


def begin_exploitation(
    simulator: Simulator,
    walked: ColdStarts,
    paths: np.ndarray,
    *,
    mechanism: Mechanism,
    options: Exploiting,
    n_worlds: int,
    purpose: Stream,
    epoch: int = 0,
    rounds: FloatArray | None = None,
    comers: int | None = None,
    block: int | None = None,
) -> tuple["EpochWorlds", np.ndarray]:
    """Worlds that have come to the end of their cold start on some of the paths, and the path of each, (W,).

    Parameters
    ----------
    purpose : the stream of what they draw from then on
    epoch : under Assumption 4 worlds are drawn from the prior as widened by then, those of all epochs before it, too
    rounds : of the cold start of each path, (R,); 0 where the clock does not ask for them
    comers : users of a world's own, see ``EpochWorlds``
    block : of the worlds, with a stream of its own; all of them in one stream unless given
    """
    from rcb_bayes.mechanism.tally_worlds import TallyWorlds  # which are such worlds themselves

    market = simulator.market
    chosen, seed = simulator.paths_after_cold_start(paths, n_worlds=n_worlds)
    worlds, data = simulator.after_cold_start(walked, chosen, seed=seed, block=block)
    chosen = chosen if block is None else chosen[block * BLOCK : (block + 1) * BLOCK]
    began = np.zeros(len(chosen)) if rounds is None else rounds[chosen]
    begins = epoch_numbered(epoch, began, market=market, mechanism=mechanism, options=options).begins
    factor = loosening(options, begins - began)
    if isinstance(data, Statistics):
        worlds, data = loosened(worlds, data, mean=market.prior.mean.values, factor=factor)
    own = int(simulator.rng(purpose).integers(2**63))
    stream = np.random.SeedSequence(own, spawn_key=() if block is None else (block,))
    kind = EpochWorlds if market.noise.is_gaussian else TallyWorlds
    found = kind(
        simulator.engines,
        simulator.panel,
        worlds,
        data,
        mechanism=mechanism,
        options=options,
        began=began,
        rng=np.random.default_rng(stream),
        comers=comers,
    )
    return found, chosen


class EpochWorlds:
    """W worlds that go through exploitation together.

    With ``comers``, each world draws users of its own from the panel: one for each round of a short epoch, about so
    many for a long one, and then they come equally often. Any user is as likely to come as before; that the same ones
    come again makes X'X of an epoch vary over worlds as that of as many samples would, a few per cent. The visits of a
    user are told by one uniform number (``visit_sums``): each arm is as frequent as before, to less than a visit.
    Posterior means and spreads feel the square of all that.

    Attributes
    ----------
    state : the epoch that has begun
    means : posterior means under the platform's belief, by which it recommends, (W, K, d)
    user_means : those under the users' belief given all data, (W, K, d)

    Raises
    ------
    RcbError
        Rewards other than Gaussian.
    """

    _any_rewards = False

    def __init__(
        self,
        engines: Engines,
        panel: Panel,
        worlds: Worlds,
        data: Any,
        *,
        mechanism: Mechanism,
        options: Exploiting,
        began: FloatArray,
        rng: np.random.Generator,
        comers: int | None = None,
    ) -> None:
        if not engines.market.noise.is_gaussian and not self._any_rewards:
            raise RcbError("These worlds are for Gaussian rewards. Use TallyWorlds for 0/1 rewards.")
        self.market, self.engines, self.panel, self.worlds = engines.market, engines, panel, worlds
        self.mechanism, self.options = mechanism, options
        self._all = self._fed = data
        self._rng, self._comers = rng, comers
        self._prediction_error = PredictionError(self.market, mechanism.agenda)
        self.means: FloatArray | None = None
        self.state = before_the_first(began)
        self.begin()

    @property
    def epoch(self) -> int:
        """The number of the epoch, from 0."""
        return self.state.number

    @property
    def gamma(self) -> FloatArray:
        """Spreads, (W,)."""
        return self.state.gamma

    @property
    def outlook(self) -> LinearOutlook | TableOutlook:
        """What users expect, and what the platform goes by, as the epoch begins."""
        return LinearOutlook(self.user_means, None if self.means is self.user_means else self.means)

    def begin(self) -> None:
        """Fit what was fed, and set the spreads of the next epoch."""
        factors = loosening(self.options, self.state.ends - self.state.began)
        means, errors = self._posteriors(self._fed, factors, of_platform=True)
        same = self.engines.platform is None and self._fed is self._all
        self.user_means = means if same else self._posteriors(self._all, factors, of_platform=False)[0]
        self.state = self._next(errors if self.options.spread == "posterior" else None)
        self.means = means

    def _next(self, error: FloatArray | None) -> Epoch:
        n_fed = self._fed.n.sum(axis=1)
        return next_epoch(
            self.state, market=self.market, mechanism=self.mechanism, options=self.options, error=error, n_fed=n_fed
        )

    def _posteriors(self, data: Statistics, factors: FloatArray, *, of_platform: bool) -> tuple[FloatArray, FloatArray]:
        """Posterior means (W, K, d) and, of the platform's, prediction errors (W,), under priors as loose as now.

        Covariances of all coefficients may be as large as their square: of very many, some worlds are fitted at a time.
        """
        w, k, d = data.xty.shape
        means, errors = np.empty((w, k, d)), np.zeros(w)
        spread = of_platform and self.options.spread == "posterior"
        step = max(1, _MOST_COVARIANCES // (k * d) ** 2) if spread else w
        for factor in np.unique(factors):
            engines = self.engines.loosened(float(factor))
            engine = engines.all[-1] if of_platform else engines.users
            alike = np.flatnonzero(factors == factor)
            for start in range(0, len(alike), step):
                worlds = alike[start : start + step]
                some = data if len(worlds) == w else data.take(worlds)
                batch = fit_arms(engine, some) if spread else engine.fit(some)
                means[worlds] = batch.mean
                if spread:
                    errors[worlds] = self._errors(batch.arm_covariances(), worlds)
        return means, errors

    def _errors(self, covariances: FloatArray, some: np.ndarray) -> FloatArray:
        """The platform's prediction error in some worlds, (w,), by the kernel of the epoch that ends.

        Averages over users of p_k(x) x' C_k x are those of p_k(x) xx', times C_k: no user's variance is written down.
        """
        w, k = covariances.shape[:2]
        users = self._prediction_error.users
        if self.means is None:
            return self._prediction_error.averaged(None, covariances)
        short: Any = users if self._comers is None else users.astype(np.float32)  # audits need no more digits
        step = max(1, _BLOCK_VALUES // (k * len(users)))
        errors = []
        for start in range(0, w, step):
            kernel = self.probabilities(short, worlds=some[start : start + step])
            errors.append(self._prediction_error.averaged(kernel, covariances[start : start + step]))
        return np.concatenate(errors)

    def probabilities(
        self,
        users: FloatArray,
        *,
        guard: FloatArray | None = None,
        worlds: slice | np.ndarray = slice(None),
        scores: FloatArray | None = None,
    ) -> FloatArray:
        """Recommendation probabilities of users in every world, or some, (K, U, W).

        Parameters
        ----------
        guard : of the users, (U, K)
        scores : what the platform expects there, (K, U, W), where that is known
        """
        assert self.means is not None  # an epoch has begun
        scores = LinearOutlook(self.means[worlds]).rewards(users) if scores is None else scores
        return kernel_table(scores, self.gamma[worlds], self._cut(guard, len(users)))

    def _cut(self, guard: FloatArray | None, n_users: int) -> FloatArray | None:
        """A guard's factors, (U, K), with nothing for arms that are not explored."""
        return self.mechanism.agenda.cut_from(guard, n_users)

    def regret(self, users: FloatArray, weights: FloatArray, *, guard: FloatArray | None = None) -> FloatArray:
        """Expected regret of a round in every world, (W,), averaged over users with weights (U,); ``guard`` (U, K)."""
        truth = LinearOutlook(self.worlds.beta).rewards(users)  # (K, U, W)
        given = (self.probabilities(users, guard=guard) * truth).sum(axis=0)
        return weights @ (truth.max(axis=0) - given)

    def advance_to(self, epoch: int, guard_at: GuardAt) -> None:
        """Run epochs, each with its guard, until this one has begun."""
        while self.epoch < epoch:
            self.run(guard_at(self.epoch))
            self.begin()

    # --- rounds ---

    def run(self, guard: FloatArray | None = None) -> None:
        """Rounds of the epoch, in all worlds; ``guard`` (P, K) for the users of the panel."""
        assert self.means is not None  # an epoch has begun
        w, k, d = self.means.shape
        guard = self._cut(guard, self.panel.n_users)
        xtx, n = np.zeros((w, k, d, d)), np.zeros((w, k))
        longest = int(self.state.lengths.max())
        by_user = longest > _LONG * self.panel.n_users
        own = self._comers is not None and longest == self.state.lengths.min() > 0 and self.panel.response is None
        each = 2 * self._comers * k if own and self._comers else self.panel.n_users if by_user else longest
        step = max(1, _CHUNK_ROUNDS // each)
        for start in range(0, w, step):
            worlds = slice(start, min(start + step, w))
            if own:
                self._visits(worlds, longest, guard, xtx, n)
                continue
            if by_user:
                self._counts(worlds, guard, xtx, n)
                continue
            for begun in range(0, longest, _CHUNK_ROUNDS):
                self._rounds(worlds, begun, min(_CHUNK_ROUNDS, longest - begun), guard, xtx, n)
        xty, yty = np.zeros((w, k, d)), np.zeros((w, k))
        sigma = noise_sd(self.worlds, self.market.noise)
        for arm in range(k):
            xty[:, arm], yty[:, arm] = draw_rewards(
                xtx[:, arm], self.worlds.beta[:, arm], sigma, n=n[:, arm], rng=self._rng
            )
        self.absorb(unchecked_statistics(xtx, xty, yty, n))

    def absorb(self, fresh: Statistics) -> None:
        """The samples of the epoch, in all worlds."""
        self._all = self._all.plus(fresh)
        self._fed = self._all if self.options.feeds_all else fresh

    def _counts(self, worlds: slice, guard: FloatArray | None, xtx: FloatArray, n: FloatArray) -> None:
        """The whole epoch in some worlds, entered into X'X and n: how often each user comes, and with which arms.

        The panel's users come again and again in a long epoch, each time with the same probabilities.
        """
        users, d = self.panel.users, self.market.n_features
        chances = self._world_by_world(users, guard, worlds)  # (K, w, P)
        k, w, p = chances.shape
        left = self._rng.multinomial(self.state.lengths[worlds], self.panel.weights)  # (w, P)
        share = np.ones((w, p))
        outer = (users[:, :, None] * users[:, None, :]).reshape(p, d * d)
        for arm in range(k):
            taken = left.astype(float)
            if arm < k - 1:
                taken = np.zeros((w, p))
                some = np.nonzero((left > 0) & (share > 0.0))
                taken[some] = self._rng.binomial(left[some], np.clip(chances[arm][some] / share[some], 0.0, 1.0))
                left -= taken.astype(left.dtype)
                share -= chances[arm]
            xtx[worlds, arm] += (taken @ outer).reshape(w, d, d)
            n[worlds, arm] += taken.sum(axis=1)

    def _visits(self, worlds: slice, length: int, guard: FloatArray | None, xtx: FloatArray, n: FloatArray) -> None:
        """The whole epoch in some worlds, entered into X'X and n: users of each world's own, equally often each."""
        assert self._comers is not None  # or nobody would call
        assert self.means is not None  # an epoch has begun
        times = max(length // self._comers, 1)
        users = self._arrivals((worlds.stop - worlds.start, length // times))  # (w, M)
        w, m = users.shape
        visits = np.full(m, float(times))
        visits[: length - times * m] += 1.0  # what is left over goes to the first users
        visit_sums(
            self.panel.users,
            users,
            self.means[worlds],
            self.gamma[worlds],
            guard,
            visits=visits,
            uniforms=self._rng.random((w, m)),
            xtx=xtx[worlds],
            n=n[worlds],
        )

    def _world_by_world(self, users: FloatArray, guard: FloatArray | None, worlds: slice) -> FloatArray:
        """How often the panel's users take each arm, worlds before users: (K, w, P)."""
        assert self.means is not None  # an epoch has begun
        scores = self.means[worlds].swapaxes(0, 1) @ users.T
        k, w, u = scores.shape
        factors = None if guard is None else np.tile(guard.T, w)
        gamma = np.repeat(self.gamma[worlds], u)
        told = ipgs_probabilities(scores.reshape(k, w * u), gamma, guard=factors)
        return self.panel.taken(told).reshape(k, w, u)

    def _rounds(
        self, worlds: slice, begun: int, size: int, guard: FloatArray | None, xtx: FloatArray, n: FloatArray
    ) -> None:
        """Users of ``size`` rounds in some worlds, entered into X'X and n; epochs that are over by then count none."""
        assert self.means is not None  # an epoch has begun
        means, gamma, lengths = self.means[worlds], self.gamma[worlds], self.state.lengths[worlds]
        w, k, d = means.shape
        users = self._arrivals((w, size))
        uniforms = self._rng.random(w * size).reshape(w, size)
        arms = np.empty((w, size), dtype=np.int64)
        step = max(1, _BLOCK_VALUES // (k * size))
        for start in range(0, w, step):
            some = slice(start, start + step)
            arms[some] = self._picked(means[some], gamma[some], users[some], uniforms[some], guard)
        arms[begun + np.arange(size) >= lengths[:, None]] = k  # epochs that are over
        key = ((k + 1) * np.arange(w)[:, None] + arms).ravel()
        who = users.ravel()

        def summed(values: FloatArray | None) -> np.ndarray:
            return np.bincount(key, weights=values, minlength=w * (k + 1)).reshape(w, k + 1)[:, :k]

        n[worlds] += summed(None)
        for i in range(d):
            for j in range(i + 1):
                part = summed((self.panel.users[:, i] * self.panel.users[:, j])[who])
                xtx[worlds, :, i, j] += part
                if i != j:
                    xtx[worlds, :, j, i] += part

    def _picked(
        self, means: FloatArray, gamma: FloatArray, users: np.ndarray, uniforms: FloatArray, guard: FloatArray | None
    ) -> np.ndarray:
        """The arms of users of the panel in some worlds, (w, size) each."""
        chances = self._chances_of(means, gamma, users, guard)
        return pick(chances, uniforms.reshape(-1)).reshape(users.shape)

    def _chances_of(
        self, means: FloatArray, gamma: FloatArray, users: np.ndarray, guard: FloatArray | None
    ) -> FloatArray:
        """How often users of the panel, each world's own (w, size), take each arm: (K, w size)."""
        w, size = users.shape
        x = self.panel.users[users]
        scores = (means @ x.swapaxes(1, 2)).swapaxes(0, 1).reshape(-1, w * size)
        who = users.reshape(-1)
        factors = None if guard is None else guard.T[:, who]
        return self.panel.taken(ipgs_probabilities(scores, np.repeat(gamma, size), guard=factors), who)

    def _arrivals(self, shape: tuple[int, int]) -> np.ndarray:
        """Users of the panel as they come."""
        weights = self.panel.weights
        if weights.min() == weights.max():
            return self._rng.integers(len(weights), size=shape)
        return self._rng.choice(len(weights), size=shape, p=weights)
