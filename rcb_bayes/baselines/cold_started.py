"""Policies that first collect samples of every arm: by exploration hidden among organic rounds, or arms in turn."""

from typing import Literal, Protocol

import numpy as np

from rcb_bayes.baselines.learner import Remembering, shared_oracle
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.sizes import MOST_SAMPLES
from rcb_bayes.mechanism.decisions import PROMOTED, Decisions, chosen
from rcb_bayes.mechanism.protocol import OneRate
from rcb_bayes.running.cold_start import ColdStart
from rcb_bayes.running.history import History
from rcb_bayes.schema import FloatArray, Table, as_count, suggestion

Collect = Literal["hidden", "in turn"]
COLLECT = ("hidden", "in turn")


class Collecting(Protocol):
    """What a cold start is to a policy."""

    history: History

    @property
    def is_over(self) -> bool:
        """Whether every arm has its samples."""
        ...

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the next change."""
        ...

    def probabilities(self, x: FloatArray, features: FloatArray) -> FloatArray:
        """Probability of each arm now, (K, n)."""
        ...

    def absorb(self, x: FloatArray, arm: np.ndarray, reward: FloatArray) -> None:
        """Counted samples."""
        ...


class InTurn:
    """Arm t mod K in round t, until each has N samples: data that users were not asked for."""

    def __init__(self, market: Market, *, n_per_arm: int) -> None:
        oracle = shared_oracle(market)
        self.history = History(market.n_arms, market.n_features, keep_rows=oracle.needs_rows)
        self.n_rounds = market.n_arms * n_per_arm
        self._n_arms = market.n_arms
        self._prior = oracle.fit(self.history)

    @property
    def is_over(self) -> bool:
        """Whether every arm has its samples."""
        return self.history.n_samples >= self.n_rounds

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """The arms in turn, to the end."""
        done = self.history.n_samples
        n = min(len(x), self.n_rounds - done)
        probabilities = np.zeros((self._n_arms, n))
        probabilities[(done + np.arange(n)) % self._n_arms, np.arange(n)] = 1.0
        return chosen(probabilities, self._prior.scores(features[:, :n]), uniforms, stage=PROMOTED)

    def probabilities(self, x: FloatArray, features: FloatArray) -> FloatArray:
        """1 for the arm whose turn it is, (K, n)."""
        out = np.zeros((self._n_arms, len(x)))
        out[self.history.n_samples % self._n_arms] = 1.0
        return out

    def absorb(self, x: FloatArray, arm: np.ndarray, reward: FloatArray) -> None:
        """All samples count."""
        self.history.add(x, arm, reward)


def collecting(market: Market, *, n_per_arm: int, collect: str, inverse_rate: float) -> Collecting:
    """The cold start that is wanted."""
    if collect == "in turn":
        return InTurn(market, n_per_arm=n_per_arm)
    n = as_count(n_per_arm, name="n_per_arm", least=1, most=MOST_SAMPLES)
    mechanism = OneRate(n_per_arm=n, n_arms=market.n_arms, exploration_rate=1.0 / inverse_rate)
    return ColdStart(market, mechanism, shared_oracle(market))


def as_collect(collect: str) -> None:
    """Refuse another way."""
    if collect not in COLLECT:
        raise RcbError(
            f"There is no way to collect '{collect}'.{suggestion(str(collect), COLLECT)} Use 'hidden' or 'in turn'."
        )


class ColdStarted(Remembering):
    """A cold start, then something else.

    Attributes
    ----------
    history : all samples that count
    """

    def __init__(self, market: Market, cold: Collecting) -> None:
        self.market = market
        self.cold = cold
        self.history = cold.history
        self.rounds = 0
        self._length = -1

    @property
    def cold_start_length(self) -> int:
        """Rounds it took, -1 before it is over."""
        return self._length

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the next change."""
        if self._length < 0:
            return self.cold.decide(x, features, uniforms)
        return self.decide_later(x, features, uniforms)

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        if self._length < 0:
            return self.cold.probabilities(x, np.ascontiguousarray(x.T)).T
        return self.proba_later(x)

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Count what is to be counted; end the cold start where it is over."""
        self.rounds += len(decisions)
        if self._length >= 0:
            self.update_later(x, decisions, reward)
            return
        kept = np.flatnonzero(decisions.counted)
        self.cold.absorb(x[kept], decisions.arm[kept], reward[kept])
        if self.cold.is_over:
            self._length = self.rounds
            self.begin()

    def begin(self) -> None:
        """What happens when the cold start is over."""
        raise NotImplementedError

    def decide_later(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations after the cold start."""
        raise NotImplementedError

    def proba_later(self, x: FloatArray) -> FloatArray:
        """Probabilities after the cold start."""
        raise NotImplementedError

    def update_later(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """What is learnt after the cold start."""
        raise NotImplementedError
