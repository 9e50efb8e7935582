r"""Any oracle, within what the users themselves would accept.

Exploitation with another oracle than the users' own posterior mean may recommend what they hold to be worse. With
:math:`g_i(x) = \max_j m_j(x) - m_i(x)` the gap by the *users'* posterior mean, this policy cuts the oracle's
probabilities to

.. math::

    p_i \to p_i 1\{g_i \le \epsilon\} \quad (\text{user}), \qquad
    p_i \to p_i \min(1, \epsilon / (p_i g_i)) \quad (\text{proof}),

and gives what is cut to the arm that users hold to be best. The cut may depend on the data because the constraint then
holds given any history whatsoever, and so on average: a user who is told i loses at most epsilon by following
(``user``), or at most epsilon times how rarely she is told so (``proof``).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import EXPLOIT, Decisions
from rcb_bayes.mechanism.kernel import pick
from rcb_bayes.mechanism.notions import NOTIONS, as_notion
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, Predictor
from rcb_bayes.running.policies import Rcb
from rcb_bayes.schema import FloatArray, is_number


class Heeding(Rcb):
    """RCB whose exploitation recommends nothing that users hold to be worse by more than epsilon.

    Parameters
    ----------
    inner : the algorithm, with any oracle, before its first round; its cold start is left as it is
    epsilon, notion : what users put up with, in which sense; the plan's unless given

    Raises
    ------
    RcbError
        A negative epsilon, an unknown notion, an algorithm that has begun.

    Applicability
    -------------
    The users' posterior is frozen in each epoch, as the oracle is. The margin holds given the data of all earlier
    epochs, and so by construction, see ``kept_by_construction``: an audit of exploitation under those notions says that
    the program does what it should, and nothing about patients. In the cold start the plan's rates answer for it.
    """

    def __init__(self, inner: Rcb, *, epsilon: float | None = None, notion: str | None = None) -> None:
        if inner.rounds:
            raise RcbError(
                f"Heeding begins with the first round, this algorithm has seen {inner.rounds}. Make it anew."
            )
        super().__init__(inner.market, inner.plan, oracle=inner.oracle, options=inner.options)
        self.epsilon = inner.plan.epsilon if epsilon is None else epsilon
        self.notion = as_notion(notion or inner.plan.notion).name
        if not (is_number(self.epsilon) and self.epsilon >= 0):
            raise RcbError(f"epsilon must be a finite number of at least 0, got {epsilon!r}.")
        self._users = PosteriorOracle(self.market.prior, self.market.noise, read="engine")
        self._history = History(self.market.n_arms, self.market.n_features, keep_rows=self._users.needs_rows)
        self._epoch = -1
        self._predictor: Predictor | None = None

    def recommend_proba(self, x: FloatArray) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        found = super().recommend_proba(x).T
        return self.cut(found, np.ascontiguousarray(x.T))[0].T if self.exploitation is not None else found.T

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """RCB's recommendations, cut; scores are the users' own in exploitation."""
        found = super().decide(x, features, uniforms)
        n = len(found)
        if self.exploitation is None:
            return found
        probabilities, scores = self.cut(found.probabilities, features[:, :n])
        return Decisions(
            arm=pick(probabilities, uniforms[:n, 1]),
            stage=np.full(n, EXPLOIT, dtype=np.int8),
            counted=found.counted,
            probabilities=probabilities,
            scores=scores,
        )

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn as RCB does."""
        kept = np.flatnonzero(decisions.counted)
        self._history.add(x[kept], decisions.arm[kept], reward[kept])
        super().update(x, decisions, reward)

    def absorb_one(self, x: FloatArray, arm: int, reward: float) -> None:
        """One reward that counts, whenever it comes."""
        self._history.add_one(x, arm, reward)
        super().absorb_one(x, arm, reward)

    def absorb_many(self, x: FloatArray, arm: np.ndarray, counted: np.ndarray, reward: FloatArray) -> None:
        """Rewards of many users that come in exploitation."""
        kept = np.flatnonzero(counted)
        self._history.add(x[kept], arm[kept], reward[kept])
        super().absorb_many(x, arm, counted, reward)

    def cut(self, probabilities: FloatArray, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities (K, n) without arms that users would not accept, and what users expect of each."""
        assert self.exploitation is not None
        if self.exploitation.epoch != self._epoch:
            self._predictor, self._epoch = self._users.fit(self._history), self.exploitation.epoch
        assert self._predictor is not None  # just fitted
        expected = self._predictor.scores(features)
        gap = expected.max(axis=0) - expected
        kept = np.minimum(probabilities, as_notion(self.notion).largest_chance(gap, self.epsilon))
        return kept + (1.0 - kept.sum(axis=0)) * best_shares(expected, axis=0), expected


HeedingMaker = Callable[[Market, int], Heeding]
"""A heeding policy for a world, from the market and a seed."""


def kept_by_construction(notion: str) -> tuple[str, ...]:
    """Notions that exploitation keeps whatever the data, where it heeds this one.

    Heeding ``proof`` bounds each user's loss times its probability: ``proof`` alone. Heeding ``user``, or
    ``definition``, for which the same cut serves, bounds the loss itself in every world: all three.
    """
    return tuple(name for name, other in NOTIONS.items() if as_notion(notion).implies(other))


@dataclass(frozen=True, slots=True, eq=False)
class WithSpread:
    """An oracle's scores, with the posterior variances of a belief, from which exploitation takes its spread."""

    oracle: Oracle
    belief: PosteriorOracle

    @property
    def needs_rows(self) -> bool:
        """Whether either of them does."""
        return self.oracle.needs_rows or self.belief.needs_rows

    @property
    def read(self) -> str:
        """How posterior means are read."""
        return self.belief.read

    def fit(self, history: History) -> Predictor:
        """Both, fitted."""
        return _Joined(self.oracle.fit(history), self.belief.fit(history))


@dataclass(frozen=True, slots=True, eq=False)
class _Joined:
    scored: Predictor
    spread: Predictor

    def scores(self, features: FloatArray) -> FloatArray:
        return self.scored.scores(features)

    def variances(self, features: FloatArray) -> FloatArray | None:
        return self.spread.variances(features)
