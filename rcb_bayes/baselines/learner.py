"""What most baselines have in common: scores from an oracle, learnt anew every ``batch`` rounds.

With a Gaussian belief and rounds one by one the posterior is updated by the sample that came in, not fitted anew.
"""

from functools import lru_cache

import numpy as np

from rcb_bayes.baselines.conjugate import Conjugate
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import Decisions, chosen
from rcb_bayes.running.heeding import refuse_heeding
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, Predictor
from rcb_bayes.running.protocol import Policy
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_count, as_rng, is_number


@lru_cache(maxsize=8)
def shared_oracle(market: Market) -> PosteriorOracle:
    """The platform's posterior means; one engine, compiled once, for all worlds of a market."""
    return PosteriorOracle(market.platform_prior, market.noise, read="engine")


class Remembering(Policy):
    """A policy that keeps its samples.

    Attributes
    ----------
    history : what it has learnt or will learn from
    """

    history: History

    @property
    def n_by_arm(self) -> np.ndarray:
        """Samples in its history, (K,)."""
        return self.history.n


class Learner(Remembering):
    """A policy that learns every ``batch`` rounds, and gives each arm a probability by what it then expects.

    Attributes
    ----------
    history : all samples
    predictor : expectations, frozen until it learns again
    """

    def __init__(
        self, market: Market, *, oracle: Oracle | None = None, batch: int = 1, seed: int = DEFAULT_SEED
    ) -> None:
        refuse_heeding(oracle, name=type(self).__name__)
        self.market = market
        self.batch = as_count(batch, name="batch", least=1)
        self.oracle: Oracle = oracle or shared_oracle(market)
        self.history = History(market.n_arms, market.n_features, keep_rows=self.oracle.needs_rows)
        self.rng = as_rng(seed)
        self.rounds = 0
        one_by_one = self.batch == 1 and oracle is None
        self.conjugate = Conjugate.of(market.platform_prior, market.noise) if one_by_one else None
        self.predictor: Predictor = self.oracle.fit(self.history) if self.conjugate is None else self.conjugate
        self._fresh = 0
        self._learnt = self.history.n.copy()

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations until it learns again."""
        n = self.batch - self._fresh
        features, uniforms = features[:, :n], uniforms[:n]
        scores = self.predictor.scores(features)
        probabilities = self.probabilities(features, scores)
        return chosen(probabilities, scores, uniforms)

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K); asking changes nothing."""
        features = np.ascontiguousarray(x.T)
        before = self.rng.bit_generator.state
        found = self.probabilities(features, self.predictor.scores(features), now=True).T
        self.rng.bit_generator.state = before
        return found

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn from all of it."""
        n = len(decisions)
        self.rounds += n
        if self.conjugate is not None:
            for row, arm, value in zip(x, decisions.arm.tolist(), reward.tolist(), strict=True):
                self.history.add_one(row, arm, value)
                self.conjugate.learn(row, arm, value, self.history)
            return
        self.history.add(x, decisions.arm, reward)
        self._fresh += n
        if self._fresh >= self.batch:
            self._fit()

    @property
    def n_acted_on(self) -> FloatArray:
        """Samples it has learnt from, (K,)."""
        return self._learnt if self.conjugate is None else self.history.n

    def begin_with(self, history: History) -> None:
        """Samples from before the first round."""
        self.history.join(history)
        if self.conjugate is None:
            self._fit()
        else:
            self.conjugate.fit(self.history)

    def probabilities(self, features: FloatArray, scores: FloatArray, *, now: bool = False) -> FloatArray:
        """Of every arm for users in a row, or, ``now``, for users each of whom is the next, (K, n)."""
        raise NotImplementedError

    def _fit(self) -> None:
        self.predictor = self.oracle.fit(self.history)
        self._fresh, self._learnt = 0, self.history.n.copy()


def only(arm: int, scores: FloatArray) -> FloatArray:
    """Probabilities (K, n) of one arm for everybody."""
    out = np.zeros(scores.shape)
    out[arm] = 1.0
    return out


def as_rate(value: object, *, name: str) -> float:
    """A number between 0 and 1."""
    if not (is_number(value) and 0.0 <= value <= 1.0):
        raise RcbError(f"{name} must be a number between 0 and 1, got {value!r}.")
    return float(value)
