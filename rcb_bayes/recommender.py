"""The live recommender: the paper's algorithm, one user at a time or many, with rewards as they come.

Its random numbers are those of a simulated world with the same seed, so that a live loop and a block simulation give
the same trajectory. Rewards may come late, out of order or never; a new epoch begins when the next user asks.
"""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.agent_files import read_agent, restore, seed_of, write_agent
from rcb_bayes.decisions import EXPLOIT, MOST_POPULAR, PROMOTED, STAGES, Decisions
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.exploit import Exploiting
from rcb_bayes.kernel import ipgs_one, pick_one
from rcb_bayes.market import Market
from rcb_bayes.oracle import Oracle
from rcb_bayes.plan import Plan
from rcb_bayes.policies import Rcb
from rcb_bayes.schema import FloatArray, as_finite_array, is_number, suggestion
from rcb_bayes.simulation import PAGE, choice_uniforms
from rcb_bayes.tickets import Pending, Tickets


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to recommend to a user, and why.

    Attributes
    ----------
    arm : its label
    ticket : to be handed in with the reward
    propensity : the probability with which this arm was recommended to her
    probabilities : of every arm, by label
    stage : "most popular", "promoted", "organic" or "exploit"
    reason : the same in words
    """

    arm: str
    ticket: int
    propensity: float
    probabilities: dict[str, float]
    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recommendations:
    """The same for n users: labels (n,), tickets (n,), propensities (n,), probabilities (n, K), stages (n,)."""

    arm: np.ndarray
    ticket: np.ndarray
    propensity: FloatArray
    probabilities: FloatArray
    stage: np.ndarray

    def __len__(self) -> int:
        return len(self.arm)


class Recommender:
    """RCB in a live loop.

    Parameters
    ----------
    oracle : of the exploitation stage; the posterior mean under the platform's belief unless given
    options : of the exploitation stage (clock, feed, spread, inflation)
    seed : of the recommender's own choices

    Raises
    ------
    RcbError
        A plan for another market, or one that is not feasible.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))
    >>> plan = rcb.calibrate(market, epsilon=0.1, n_per_arm=10, n_worlds=500, seed=1)
    >>> agent = rcb.Recommender(market, plan, seed=1)
    >>> for x in market.covariates.sample(100, seed=2):  # your users
    ...     told = agent.recommend(x)
    ...     agent.observe(0.4 * x.sum(), ticket=told.ticket)  # their rewards
    >>> agent.rounds, agent.stage, agent.saturated
    (100, 'exploit', ('old', 'new'))
    """

    def __init__(
        self,
        market: Market,
        plan: Plan,
        *,
        oracle: Oracle | None = None,
        options: Exploiting | None = None,
        seed: int | np.random.SeedSequence = 0,
    ) -> None:
        if plan.kind == "sampled" and not plan.feasible:
            raise RcbError(f"This plan cannot be run: {plan.reason}")
        self.market = market
        self.plan = plan
        self._rcb = Rcb(market, plan, oracle=oracle, options=options)
        self.own_oracle = oracle
        self._seed = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._shape = (market.n_features,)
        self._page = -1
        self._uniforms = np.empty((0, 2))
        self._choices: list[float] = []
        self._pending = Tickets()

    @property
    def options(self) -> Exploiting:
        """How it exploits."""
        return self._rcb.options

    @property
    def rounds(self) -> int:
        """Recommendations made."""
        return self._rcb.rounds

    @property
    def stage(self) -> str:
        """Where the algorithm is: "most popular", "rest of the arms" or "exploit"."""
        if self._rcb.exploitation is not None:
            return STAGES[EXPLOIT]
        return "rest of the arms" if self._rcb.cold.saturated else STAGES[MOST_POPULAR]

    @property
    def saturated(self) -> tuple[str, ...]:
        """Arms that have their N samples."""
        return tuple(self.market.arms[arm] for arm in self._rcb.cold.saturated)

    @property
    def n_samples(self) -> dict[str, int]:
        """Samples that count, by arm."""
        return dict(zip(self.market.arms, self._rcb.counts.tolist(), strict=True))

    @property
    def n_pending(self) -> int:
        """Recommendations whose reward has not come."""
        return len(self._pending)

    def recommend(self, x: ArrayLike) -> Recommendation:
        """A recommendation for one user, x (d,).

        Raises
        ------
        DataError
            A user of the wrong width, or with values that are not finite; nothing has changed then.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, seed=1)
        >>> told = agent.recommend([0.9, 0.1])
        >>> told.arm, told.stage, told.ticket
        ('old', 'most popular', 0)
        >>> told.reason
        'first samples: old is what users like her expect most of'
        """
        user = self._as_users(x, ndim=1)
        self._rcb.move_on()
        exploitation = self._rcb.exploitation
        rows = None if exploitation is None else exploitation.rows
        if exploitation is None or rows is None:
            decisions = self._decide(user[None])
            ticket = self._issue(user[None], decisions)
            chances, scores = decisions.probabilities[:, 0].tolist(), decisions.scores[:, 0].tolist()
            return self._record(ticket, int(decisions.arm[0]), int(decisions.stage[0]), chances, scores)
        guard = self.plan.guard(user, exploitation.epoch).tolist() if exploitation.is_guarded else None
        chances, scores = ipgs_one(rows, user.tolist(), exploitation.gamma, guard=guard)
        ticket = self._rcb.rounds
        arm = pick_one(chances, self._uniform(ticket))
        self._pending.issue(ticket, Pending(user, arm, True, False))
        self._rcb.rounds = ticket + 1
        return self._record(ticket, arm, EXPLOIT, chances, scores)

    def recommend_many(self, x: ArrayLike) -> Recommendations:
        """Recommendations for many users, x (n, d), none of whose rewards is known before the last is served."""
        users = self._as_users(x, ndim=2).copy()  # kept until the rewards come, whatever becomes of the caller's array
        parts: list[Decisions] = []
        first = self._rcb.rounds
        start = 0
        while start < len(users):
            self._rcb.move_on()
            decisions = self._decide(users[start:])
            self._issue(users[start : start + len(decisions)], decisions)
            parts.append(decisions)
            start += len(decisions)
        arm = np.concatenate([np.zeros(0, dtype=np.int64), *(part.arm for part in parts)])
        stage = np.concatenate([np.zeros(0, dtype=np.int8), *(part.stage for part in parts)])
        chances = np.concatenate([np.zeros((self.market.n_arms, 0)), *(part.probabilities for part in parts)], axis=1)
        return Recommendations(
            arm=np.array(self.market.arms)[arm],
            ticket=np.arange(first, first + len(arm)),
            propensity=chances[arm, np.arange(len(arm))],
            probabilities=chances.T,
            stage=np.array(STAGES)[stage],
        )

    def observe(self, reward: float, *, ticket: int | None = None, taken: str | None = None) -> None:
        """The reward of a recommendation, the latest unless a ticket is given.

        ``taken`` is the arm that the user took, where it is not the one recommended: in the cold start such a sample is
        not counted, later the reward is that of the arm taken.

        Raises
        ------
        DataError
            A reward that is not finite (or, with Bernoulli rewards, neither 0 nor 1), a ticket that was not issued or
            whose reward has come already, an arm that does not exist; nothing has changed then.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, seed=1)
        >>> first, second = agent.recommend([0.9, 0.1]), agent.recommend([0.2, 0.3])
        >>> agent.observe(0.5, ticket=first.ticket)
        >>> agent.n_samples, agent.n_pending
        ({'old': 1, 'new': 0}, 1)
        """
        which = self._rcb.rounds - 1 if ticket is None else ticket
        pending = self._pending.get(which)
        if pending is None:
            raise DataError(self._unknown(which))
        value = self._as_reward(reward)
        arm = pending.arm if taken is None else self._as_arm(taken)
        self._pending.hand_in(which)
        self._rcb.absorb_one(
            pending.x, arm, value, counted=pending.counted and (arm == pending.arm or not pending.in_cold_start)
        )

    def observe_many(self, rewards: ArrayLike, *, tickets: ArrayLike) -> None:
        """Rewards of many recommendations; all are checked before any is taken in."""
        values = as_finite_array(rewards, name="rewards", ndim=1)
        numbers = np.asarray(tickets)
        if numbers.shape != values.shape:
            raise DataError(f"Expected a ticket for each of {len(values)} rewards, got shape {numbers.shape}.")
        if len(np.unique(numbers)) != len(numbers):
            raise DataError("A ticket comes twice among these. Hand in each reward once.")
        there = self._pending.are_out(numbers)
        if not there.all():
            raise DataError(self._unknown(numbers[int(np.argmin(there))].item()))
        if not self.market.noise.is_gaussian:
            for value in values:
                self._as_reward(float(value))
        if self._rcb.exploitation is None:  # any of them may end a stage
            for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
                self.observe(value, ticket=number)
            return
        self._rcb.absorb_many(*self._pending.hand_in_many(numbers), values)

    def recommend_proba(self, x: ArrayLike) -> FloatArray:
        """Probability of each arm for each user at the present stage, (n, d) -> (n, K); nothing changes."""
        return self._rcb.recommend_proba(self._as_users(x, ndim=2))

    # --- saving ---

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file, plan included, from which ``load`` goes on exactly.

        The file has a digest of its content, and an interrupted write leaves the old file.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, seed=1)
        >>> told = agent.recommend([0.9, 0.1])
        >>> agent.save("agent.json")
        >>> rcb.Recommender.load("agent.json", market).n_pending
        1
        """
        write_agent(self, path)

    @classmethod
    def load(cls, path: str | Path, market: Market, *, oracle: Oracle | None = None) -> Self:
        """Go on where a saved recommender stopped.

        Raises
        ------
        RcbError
            A file that is not there, broken or of another format; a digit that was changed, a state that cannot be; a
            market or an oracle that is not the saved one's.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> rcb.Recommender(market, plan, seed=1).save("agent.json")
        >>> rcb.Recommender.load("agent.json", market).recommend([0.9, 0.1]).arm
        'old'
        """
        state = read_agent(path, market)
        if state.own_oracle != (oracle is not None):
            raise RcbError("The saved recommender had another oracle. Pass the one it was made with.")
        made = cls(market, state.plan, oracle=oracle, options=state.options, seed=seed_of(state))
        restore(made, state)
        return made

    # --- one round ---

    def _decide(self, users: FloatArray) -> Decisions:
        """Recommendations for the first of these users, as far as the page and the stage go."""
        place = self._turn_to(self._rcb.rounds)
        n = min(len(users), PAGE - place)
        x = users[:n]
        return self._rcb.recommend_now(x, np.ascontiguousarray(x.T), self._uniforms[place : place + n])

    def _turn_to(self, round_number: int) -> int:
        """Have the page of random numbers of a round at hand; returns the round's place on it."""
        page, place = divmod(round_number, PAGE)
        if page != self._page:
            self._page, self._uniforms = page, choice_uniforms(self._seed, page)
            self._choices = self._uniforms[:, 1].tolist()
        return place

    def _uniform(self, round_number: int) -> float:
        """The number by which a round's arm is picked."""
        place = self._turn_to(round_number)
        return self._choices[place]

    def _issue(self, users: FloatArray, decisions: Decisions) -> int:
        """Tickets for recommendations; returns the first."""
        first = self._rcb.rounds
        cold = self._rcb.exploitation is None
        self._pending.issue_many(first, users, decisions.arm, decisions.counted, in_cold_start=cold)
        self._rcb.rounds += len(decisions)
        return first

    def _record(self, ticket: int, arm: int, stage: int, chances: list[float], scores: list[float]) -> Recommendation:
        labels = self.market.arms
        return Recommendation(
            arm=labels[arm],
            ticket=ticket,
            propensity=chances[arm],
            probabilities=dict(zip(labels, chances, strict=True)),
            stage=STAGES[stage],
            reason=self._reason(stage, arm, scores),
        )

    def _reason(self, stage: int, arm: int, scores: list[float]) -> str:
        name = self.market.arms[arm]
        if stage == MOST_POPULAR:
            return f"first samples: {name} is what users like her expect most of"
        if stage == PROMOTED:
            return f"exploration: {name} is the best liked arm that still needs samples"
        top = max(scores)
        if scores[arm] == top or stage != EXPLOIT:
            return f"{name} is expected to be best, {scores[arm]:.3g}"
        best = self.market.arms[scores.index(top)]
        return f"{best} is expected to be better by {top - scores[arm]:.3g}: sampled in proportion to that"

    def _as_users(self, x: ArrayLike, *, ndim: int) -> FloatArray:
        if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.shape == self._shape and isfinite(x.sum()):
            return x.copy()
        users = as_finite_array(x, name="x", ndim=ndim)
        if users.shape[-1] != self.market.n_features:
            raise DataError(f"x must have {self.market.n_features} features, got {users.shape[-1]}.")
        return users

    def _as_reward(self, reward: float) -> float:
        if not is_number(reward):
            raise DataError(f"A reward must be a finite number, got {reward!r}. Leave out rewards that never came.")
        if not self.market.noise.is_gaussian and reward not in (0, 1):
            raise DataError(f"Bernoulli rewards are 0 or 1, got {reward!r}.")
        return float(reward)

    def _as_arm(self, arm: str) -> int:
        if arm not in self.market.arms:
            close = suggestion(str(arm), self.market.arms)
            raise DataError(f"There is no arm '{arm}'.{close} The arms are {', '.join(self.market.arms)}.")
        return self.market.arms.index(arm)

    def _unknown(self, ticket: object) -> str:
        if isinstance(ticket, int) and 0 <= ticket < self._rcb.rounds:
            return f"The reward of ticket {ticket} has come already. Hand in each reward once."
        return f"There is no ticket {ticket!r}. Use the ticket of a recommendation."
