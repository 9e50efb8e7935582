"""Greedy first: no exploration until an arm starves, then a plan."""

import numpy as np

from rcb_bayes.baselines.greedy import Greedy
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.planning.checks import check_feasible
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.protocol import Policy
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_count


class GreedyFirst(Policy):
    r"""Greedy recommendations for ``patience`` rounds; if an arm has fewer than ``least`` samples by then, a plan.

    It looks again after twice, four times, ... as many rounds, as arms that were liked at first may starve later: an
    arm starves where it got fewer than ``least`` samples since the last look. Once a plan runs it runs to the end, from
    its own first round on.

    Source: after Bastani, Bayati and Khosravi, "Mostly exploration-free algorithms for contextual bandits", 2021, whose
    Greedy-First goes over to a bandit when the samples of an arm stop covering the features.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan
        What runs once an arm starves.
    patience : int
        Rounds before the first look.
    least : int
        Samples that every arm must have got between two looks.
    seed : int
        The same seed gives the same answer.

    Raises
    ------
    RcbError
        A plan for another market, or one that is not feasible; counts below 1.

    Applicability
    -------------
    Any belief and any rewards. Whether it goes over depends on what arms were tried, and so on rewards: users who see
    that a plan runs learn from it that an arm starved. A plan's guarantee does not cover that; ``audit`` tells.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> policy = rcb.baselines.GreedyFirst(market, plan, patience=50)
    >>> policy.recommend_proba(np.array([[0.2, 0.5], [0.9, 0.5]]))
    array([[1., 0.],
           [1., 0.]])
    >>> runs = rcb.simulate(
    ...     market, lambda market, seed: rcb.baselines.GreedyFirst(market, plan, patience=50, seed=seed), horizon=200
    ... )
    >>> dict(runs["regret"].sizes)
    {'world': 20, 't': 200}
    """

    def __init__(
        self, market: Market, plan: Plan, *, patience: int = 100, least: int = 5, seed: int = DEFAULT_SEED
    ) -> None:
        check_feasible(plan)
        self.patience = as_count(patience, name="patience", least=1)
        self.least = as_count(least, name="least", least=1)
        self._greedy = Greedy(market, seed=seed)
        self._plan = Rcb(market, plan)
        self._rounds, self._next_look = 0, self.patience
        self._before = np.zeros(market.n_arms)
        self.switched_at: int | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether no arm has starved yet."""
        return self.switched_at is None

    @property
    def _now(self) -> Policy:
        return self._greedy if self.is_greedy else self._plan

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        return self._now.recommend_proba(x)

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the next change."""
        n = self._next_look - self._rounds if self.is_greedy else len(x)
        return self._now.decide(x[:n], features[:, :n], uniforms[:n])

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn; look, when it is time."""
        self._now.update(x, decisions, reward)
        self._rounds += len(decisions)
        if self.is_greedy and self._rounds == self._next_look:
            self._look()

    def _look(self) -> None:
        counts = self._greedy.history.n
        if (counts - self._before < self.least).any():
            self.switched_at = self._rounds
        self._before, self._next_look = counts.copy(), 2 * self._next_look

    @property
    def n_by_arm(self) -> np.ndarray:
        """Samples of each arm, (K,)."""
        return self._greedy.history.n + (0 if self.is_greedy else self._plan.counts)

    @property
    def cold_start_length(self) -> int:
        """Rounds of the plan's cold start: 0 as long as greedy does, -1 before it is over."""
        return self._now.cold_start_length
