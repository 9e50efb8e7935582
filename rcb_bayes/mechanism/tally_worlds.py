r"""Exploitation with 0/1 rewards in many worlds side by side, for users of a table.

The data of a world are how often each user was given each arm, and how often the reward was 1. In an epoch each user of
the table comes a multinomial number of times, is given each arm by the frozen probabilities, and succeeds with her
chance in that world: counts in, counts out, however long the epoch. What is expected,
:math:`E[\mathrm{logistic}(x'b) \mid S]`, is a table itself, worlds x users x arms.
"""

from functools import cached_property

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.epoch_worlds import EpochWorlds
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.mechanism.outlook import TableOutlook, arms_first, find_rows, places_of
from rcb_bayes.posterior import Engine
from rcb_bayes.posterior.data import Tallies
from rcb_bayes.schema import FloatArray

_CHUNK_WORLDS = 100  # expected chances and counts of users of so many at a time


class TallyWorlds(EpochWorlds):
    """W worlds that go through exploitation together, their rewards 0 or 1.

    ``means`` and ``user_means`` are expected rewards of the table's users, (W, P, K).

    Raises
    ------
    RcbError
        Prior variances that grow: what 0/1 rewards would have been then is not told by what they were.
    """

    _any_rewards = True
    _all: Tallies
    _fed: Tallies

    @property
    def outlook(self) -> TableOutlook:
        """What users expect, and what the platform goes by, as the epoch begins."""
        assert self.means is not None  # an epoch has begun
        return TableOutlook(self.panel.users, self.user_means, None if self.means is self.user_means else self.means)

    def begin(self) -> None:
        """Fit what was fed, and set the spreads of the next epoch."""
        if self.options.inflation != "none":
            raise RcbError("Growing prior variances are for Gaussian rewards. Use inflation='none'.")
        wants_error = self.options.spread == "posterior"
        means, variances = self._expected(self.engines.all[-1], self._fed, variances=wants_error)
        same = self.engines.platform is None and self._fed is self._all
        self.user_means = means if same else self._expected(self.engines.users, self._all, variances=False)[0]
        error = self._spread_error(variances) if variances is not None else None
        self.state = self._next(error)
        self.means = means

    def _expected(self, engine: Engine, data: Tallies, *, variances: bool) -> tuple[FloatArray, FloatArray | None]:
        """Expected rewards of the table's users, and their posterior variances, (W, P, K) each."""
        batch = engine.fit(data, covariance=variances, users=self.panel.users)
        assert batch.reward is not None  # users were given
        return batch.reward, batch.reward_variance if variances else None

    @cached_property
    def _spread_rows(self) -> list[int]:
        """Where the users over whom a spread averages stand in the table."""
        return find_rows(places_of(self.panel.users), self._prediction_error.users)

    def _spread_error(self, variances: FloatArray) -> FloatArray:
        """The platform's prediction error in every world, (W,), by the kernel of the epoch that ends."""
        rows, errors = self._spread_rows, []
        for start in range(0, len(variances), _CHUNK_WORLDS):
            worlds = slice(start, start + _CHUNK_WORLDS)
            kernel = None
            if self.means is not None:
                scores = arms_first(self.means[worlds][:, rows])
                kernel = self.probabilities(self._prediction_error.users, worlds=worlds, scores=scores)
            errors.append(self._prediction_error(kernel, arms_first(variances[worlds][:, rows])))
        return np.concatenate(errors)

    def probabilities(
        self,
        users: FloatArray,
        *,
        guard: FloatArray | None = None,
        worlds: slice | np.ndarray = slice(None),
        scores: FloatArray | None = None,
    ) -> FloatArray:
        """Recommendation probabilities of users of the table in every world, or some, (K, U, W)."""
        scores = self.outlook.in_worlds(worlds).acted_on(users) if scores is None else scores
        return super().probabilities(users, guard=guard, worlds=worlds, scores=scores)

    def regret(self, users: FloatArray, weights: FloatArray, *, guard: FloatArray | None = None) -> FloatArray:
        """Expected regret of a round in every world, (W,), averaged over users with weights (U,); ``guard`` (U, K)."""
        truth = np.ascontiguousarray(self._chances(users, slice(None)).transpose(1, 2, 0))  # (K, U, W)
        given = (self.probabilities(users, guard=guard) * truth).sum(axis=0)
        return weights @ (truth.max(axis=0) - given)

    def _chances(self, users: FloatArray, worlds: slice) -> FloatArray:
        """Of the reward 1, in each world, (w, K, U)."""
        return self.market.noise.mean_reward(self.worlds.beta[worlds] @ users.T)

    def run(self, guard: FloatArray | None = None) -> None:
        """Rounds of the epoch, in all worlds; ``guard`` (P, K) for the users of the panel."""
        assert self.means is not None  # an epoch has begun
        users, lengths = self.panel.users, self.state.lengths
        guard = self._cut(guard, len(users))
        w, p, k = self.means.shape
        trials, successes = np.zeros((w, k, p)), np.zeros((w, k, p))
        for start in range(0, w, _CHUNK_WORLDS):
            worlds = slice(start, min(start + _CHUNK_WORLDS, w))
            size = worlds.stop - start
            scores = np.ascontiguousarray(self.means[worlds].transpose(2, 0, 1)).reshape(k, size * p)
            factors = None if guard is None else np.tile(guard.T, size)
            told = ipgs_probabilities(scores, np.repeat(self.gamma[worlds], p), guard=factors)
            kernel = self.panel.taken(told).reshape(k, size, p)
            chances = self._chances(users, worlds)
            left = self._rng.multinomial(lengths[worlds].astype(np.int64), self.panel.weights)  # (w, P)
            rest = np.ones((size, p))
            for arm in range(k):
                there = np.nonzero(left)
                if arm < k - 1:
                    taken = np.zeros_like(left)
                    share = np.clip(kernel[arm][there] / np.maximum(rest[there], 1e-300), 0.0, 1.0)
                    taken[there] = self._rng.binomial(left[there], share)
                    left = left - taken
                    rest = rest - kernel[arm]
                else:
                    taken = left
                some = np.nonzero(taken)
                trials[worlds, arm] = taken
                wins = np.zeros((size, p))
                wins[some] = self._rng.binomial(taken[some], chances[:, arm][some])
                successes[worlds, arm] = wins
        fresh = Tallies(users=users, trials=trials, successes=successes)
        self._all = self._all.plus(fresh)
        self._fed = self._all if self.options.feeds_all else fresh
