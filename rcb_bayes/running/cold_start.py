"""The cold start (Algorithm 1): samples of the most popular arm first, then exploration hidden among organic rounds.

Samples of an arm wait until it has N of them; then they enter S, what the organic arm is chosen by. Organic rounds are
logged but never counted, so that stages tell nothing about rewards.

Where rewards come late, an arm's samples are its first N counted *recommendations*, whenever their rewards come: those
observed first would be a choice among rewards. Once an arm has its N recommendations and some reward is out, the stage
goes on as it is for users, and no sample of any arm counts until that reward is in. So S, and the order in which arms
are saturated, have the law of a run without delays; only rounds are added.
"""

from dataclasses import replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import is_popular
from rcb_bayes.mechanism.choice import best_shares, promotion_shares
from rcb_bayes.mechanism.decisions import MOST_POPULAR, ORGANIC, PROMOTED, Decisions
from rcb_bayes.mechanism.kernel import linear_scores, pick
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.mechanism.protocol import Mechanism
from rcb_bayes.mechanism.simulator import untouched_arms
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import LinearPredictor, PosteriorOracle, Predictor, is_vouched
from rcb_bayes.running.presence import GivenSamples
from rcb_bayes.schema import FloatArray

_AT_A_TIME = 256  # users decided for at a time at least: what is decided beyond the end of a stage is lost


class ColdStart:
    """Algorithm 1 as it goes on.

    Attributes
    ----------
    history : counted samples of every arm
    saturated : positions of the arms with N samples
    gone : positions of arms that have left, or have not come yet
    waiting : counted recommendations of each arm whose reward is out, (K,); none in a block simulation
    by_samples : whether rates are those that users follow given whom the samples are of (``running.presence``)
    """

    def __init__(
        self, market: Market, mechanism: Mechanism, oracle: PosteriorOracle, *, keep_rows: bool = False
    ) -> None:
        self.market = market
        self.mechanism = mechanism
        self._agenda = mechanism.agenda
        self.oracle = oracle
        keep_rows = keep_rows or oracle.needs_rows
        self.history = History(market.n_arms, market.n_features, keep_rows=keep_rows)
        if any(self._agenda.past):
            self.history = History.of_market(market, keep_rows=keep_rows)
        self.saturated: tuple[int, ...] = ()
        self.gone: frozenset[int] = frozenset()
        self.waiting = np.zeros(market.n_arms, dtype=np.int64)
        self.by_samples = False
        self._given: GivenSamples | None = None
        self.predictor: Predictor | None = None
        self._prior_mean = market.platform_prior.mean.values  # asked for in every round
        self.n_fits = self.n_not_vouched = 0
        self._served = 0  # rounds of the present stage
        self._renew()

    @property
    def is_over(self) -> bool:
        """Whether every arm has its samples."""
        return self._agenda.is_over(self.closed)

    @property
    def closed(self) -> tuple[int, ...]:
        """Arms that are not promoted any more: with their samples, or not there."""
        if not self.gone:
            return self.saturated
        left = {arm for arm in self.gone if self._agenda.is_sampled[arm]}
        return tuple(sorted({*self.saturated, *left}))

    def without(self, gone: frozenset[int], *, lasts: bool) -> None:
        """These arms are not there from now on; ``lasts`` while the cold start does."""
        self.gone, self._served, self._given = gone, 0, None
        if lasts:
            self.predictor = self._fitted() if self.saturated and not self.is_over else None

    @property
    def is_waiting(self) -> bool:
        """Whether some arm has its N recommendations, but not their rewards."""
        full = (self.waiting > 0) & (self._needed() <= 0)
        full[list(self.gone)] = False
        return bool(full.any())

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations at the present stage, up to the round in which an arm becomes full.

        Parameters
        ----------
        x, features : users, (n, d) and (d, n)
        uniforms : (n, 2): the coin of exploration, and the choice among arms
        """
        n = max(_AT_A_TIME, self._served // 4)  # the longer a stage has lasted, the longer it may
        decisions = self.decide_now(x[:n], features[:, :n], uniforms[:n])
        decisions = decisions.first(self._until_change(decisions))
        self._served += len(decisions)
        return decisions

    def probabilities(self, x: FloatArray, features: FloatArray) -> FloatArray:
        """Probability of recommending each arm to users at the present stage, (K, n)."""
        return self.decide_now(x, features, np.zeros((len(x), 2))).probabilities

    def absorb(self, x: FloatArray, arm: np.ndarray, reward: FloatArray) -> None:
        """Counted samples, and the new stage if an arm has become full."""
        self.history.add(x, arm, reward)
        self._renew()

    def claim(self, decisions: Decisions) -> Decisions:
        """The same with those counted that are among an arm's first N; their rewards are to come."""
        n = 0 if self.is_waiting else self._until_change(decisions)
        counted = decisions.counted.copy()
        counted[n:] = False
        self.waiting += np.bincount(decisions.arm[counted], minlength=len(self.waiting))
        return replace(decisions, counted=counted)

    def absorb_one(self, x: FloatArray, arm: int, reward: float) -> None:
        """The reward of a counted recommendation."""
        self.waiting[arm] -= 1
        self.history.add_one(x, arm, reward)
        self._renew()

    def release(self, arm: int) -> None:
        """The reward of a counted recommendation will not come: the next one takes its place."""
        self.waiting[arm] -= 1

    def _renew(self) -> None:
        n = self.history.n
        full = tuple(np.flatnonzero((n >= self._agenda.needed) & (n > 0)).tolist())
        if full != self.saturated:
            self.saturated, self._served, self._given = full, 0, None
            self.predictor = None if self.is_over else self._fitted()
            self.n_fits += self.predictor is not None
            self.n_not_vouched += not is_vouched(self.predictor)

    def _fitted(self) -> Predictor:
        """Expectations from the samples of saturated arms; arms they say nothing about keep their prior mean."""
        predictor = self.oracle.fit_arms(self.history, self.saturated)
        prior = self.market.platform_prior
        if not isinstance(predictor, LinearPredictor):
            return predictor
        means = predictor.means.copy()
        same = untouched_arms(prior, self.saturated)
        means[same] = prior.mean.values[same]
        return LinearPredictor(means, vouched=predictor.vouched)

    def scores(self, x: FloatArray, features: FloatArray) -> FloatArray:
        """What is expected of every arm now, (K, n)."""
        return self._prior_scores(x, features) if self.predictor is None else self.predictor.scores(features)

    def decide_now(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations for all of these users at the present stage."""
        prior = self._prior_scores(x, features)
        promoted = promotion_shares(self._promoted_by(features, prior), self._agenda.open_arms(self.closed)).T
        if self.predictor is None:  # some arms may not be promoted from the start: others are sampled where they can be
            rates = np.ones(len(x)) if self._agenda.is_plain else self.mechanism.rate(x, saturated=())
            scores, kind = prior, np.where(is_popular(self._agenda, prior.T), MOST_POPULAR, PROMOTED)
        else:
            rates, scores, kind = self.rates(x), self.predictor.scores(features), PROMOTED
        organic = best_shares(scores, axis=0)
        explored = uniforms[:, 0] < rates
        return Decisions(
            arm=pick(np.where(explored, promoted, organic), uniforms[:, 1]),
            stage=np.where(explored, kind, ORGANIC).astype(np.int8),
            counted=explored,
            probabilities=rates * promoted + (1.0 - rates) * organic,
            scores=scores,
        )

    def rates(self, x: FloatArray) -> FloatArray:
        """How often users (n, d) are explored once some arm is saturated, (n,)."""
        if not self.by_samples:
            return self.mechanism.rate(x, saturated=[self.market.arms[arm] for arm in self.closed])
        assert isinstance(self.mechanism, Plan)  # others promise nothing that could be kept so
        if self._given is None:
            arms = self.saturated, self.closed, self.gone
            self._given = GivenSamples(self.market, self.mechanism, self.history, *arms)
        return self._given.rates(x)

    def _promoted_by(self, features: FloatArray, prior: FloatArray) -> FloatArray:
        """What arms are promoted by, (n, K): what is expected of them, those last that users are not explored for."""
        regions = self._agenda.regions
        return prior.T if regions is None else regions.ranked(prior.T, regions.admitted(features.T, prior.T))

    def _prior_scores(self, x: FloatArray, features: FloatArray) -> FloatArray:
        prior, noise = self.market.platform_prior, self.market.noise
        if noise.is_gaussian:
            return linear_scores(self._prior_mean, features)
        return expected_rewards(prior, noise, x).T

    def _until_change(self, decisions: Decisions) -> int:
        """Rounds up to and with the one in which the first arm becomes full; all of them if none does."""
        n, missing = len(decisions), self._needed()
        for arm in range(self.market.n_arms):
            if missing[arm] > 0:
                rounds = np.flatnonzero(decisions.counted[:n] & (decisions.arm[:n] == arm))
                needed = int(missing[arm])
                if len(rounds) >= needed:
                    n = int(rounds[needed - 1]) + 1
        return n

    def _needed(self) -> np.ndarray:
        """Recommendations that each arm still needs, (K,)."""
        return np.array(self._agenda.needed) - self.history.n - self.waiting
