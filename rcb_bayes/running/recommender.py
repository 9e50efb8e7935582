"""The live recommender: the paper's algorithm, one user at a time or many, with rewards as they come.

Its random numbers are those of a simulated world with the same seed, so that a live loop and a block simulation give
the same trajectory. A new epoch begins when the next user asks.

Rewards may come late and out of order. In the cold start an arm's samples are its first N counted recommendations, not
the first N rewards to come in, and its stage lasts until all of them are in: whatever the delays, S is what it would be
without them. Three things are left to the platform.

- A reward that never comes has to be given up, by ``give_up`` or after ``patience`` rounds; the next recommendation
  takes its place. The guarantee then needs that rewards are missing independently of their value, given the user and
  the arm; where it depends on the user, the plan's users are to be those who answer.
- An epoch of exploitation feeds what is in by its end. Without ``patience`` the guarantee needs lateness that does not
  depend on the reward. With it every reward is looked at so many rounds after its recommendation, no sooner and no
  later: if all come within that time, neither what is fed nor how long a stage lasts tells anything about rewards.
- ``unobserved`` reports the share not observed, by stage and arm: look at it.
"""

import warnings
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR, PROMOTED, STAGES, Decisions
from rcb_bayes.mechanism.exploiting import Exploiting, inflation_factor
from rcb_bayes.mechanism.kernel import ipgs_one, pick_one
from rcb_bayes.planning.checks import check_plan, plan_differs
from rcb_bayes.planning.plan import Plan
from rcb_bayes.posterior.results import DiagnosticWarning
from rcb_bayes.running.agent_files import read_agent, restore, seed_of, write_agent
from rcb_bayes.running.exploit import warn_of_other_guard
from rcb_bayes.running.logbook import Logbook
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, Predictor, inflated, is_vouched, prior_tree
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.simulation import PAGE, choice_uniforms
from rcb_bayes.running.tickets import GIVEN_UP, OBSERVED, RECOMMENDED, TOO_LATE, Early, Pending, Tally, Tickets
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, as_finite_array, is_number, suggestion
from rcb_bayes.users.labelled import Users, as_users

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


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
    market : Market
        Who believes what, who the users are, how rewards come about.
    plan : Plan
        Whom to explore, how often, with how many samples.
    oracle : Oracle, optional
        Of the exploitation stage; the posterior mean under the platform's belief unless given.
    options : Exploiting, optional
        Of the exploitation stage (clock, feed, spread, inflation).
    patience : int, optional
        Rounds after which every reward is looked at, and given up if it has not come, to be fixed before the first
        user; None waits for each as long as it takes, and looks at it when it comes.
    keep_log : int, str or path-like, optional
        A number of rounds to keep in ``log``, or a CSV file to write all of them to; None keeps none.
    seed : int or numpy.random.SeedSequence
        Of the recommender's own choices.

    Raises
    ------
    RcbError
        A plan for another market, or one that is not feasible.

    Applicability
    -------------
    Rewards in any order and with any delay in the cold start. What may be missing, and what exploitation needs, stands
    at the head of this module: missing independently of the reward, given the user and the arm.

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
        patience: int | None = None,
        keep_log: int | str | Path | None = None,
        seed: int | np.random.SeedSequence = DEFAULT_SEED,
    ) -> None:
        check_plan(market, plan)
        if plan.kind == "sampled" and not plan.feasible:
            raise RcbError(f"This plan cannot be run: {plan.reason}")
        _warn_of_other_users(market, plan)
        self.market = market
        self.plan = plan
        self._rcb = Rcb(market, plan, oracle=oracle, options=options)
        warn_of_other_guard(market, plan, oracle, self._rcb.options)
        self.own_oracle = oracle
        self._seed = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._shape = (market.n_features,)
        self._page = -1
        self._uniforms = np.empty((0, 2))
        self._choices: list[float] = []
        self._pending = Tickets()
        self._patience = None if patience is None else as_count(patience, name="patience")
        self._looked = 0  # tickets before this one had their time
        self._early: dict[int, Early] = {}
        self._given_up: dict[int, tuple[int, int]] = {}  # stage and arm, by ticket
        self._tally = Tally(market.n_arms)
        self._log = None if keep_log is None else Logbook(keep_log, features=market.features, arms=market.arms)
        self._checked: Predictor | None = None
        self._has_warned = False

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
    def vouched(self) -> bool:
        """Whether the engine vouches for the posterior that is acted on; True where there is none."""
        return is_vouched(self._rcb.predictor)

    @property
    def n_pending(self) -> int:
        """Recommendations whose reward has not come."""
        return len(self._pending)

    @property
    def is_waiting(self) -> bool:
        """Whether a stage of the cold start lasts only because rewards that count are out."""
        return self._rcb.exploitation is None and self._rcb.cold.is_waiting

    @property
    def unobserved(self) -> "pd.DataFrame":
        """Rewards that were not observed, by stage and arm: not yet, given up, or come too late to be looked at.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, seed=1)
        >>> tickets = [agent.recommend([0.9, 0.1]).ticket for _ in range(4)]
        >>> agent.observe(0.5, ticket=tickets[0])
        >>> agent.give_up(tickets[1])
        >>> agent.unobserved[["stage", "arm", "n_recommended", "n_given_up", "share_unobserved"]]
                  stage  arm  n_recommended  n_given_up  share_unobserved
        0  most popular  old              4           1              0.75
        """
        return self._tally.table(self.market.arms)

    @property
    def log(self) -> "pd.DataFrame":
        """A row for each round that is kept.

        Columns: ``ticket``, the features, ``arm``, ``stage``, ``propensity``, ``p_<arm>``, ``taken`` (the arm that the
        user took), ``reward``, ``counted`` (it has entered the data) and ``known_from`` (the ticket before which that
        was settled). ``audit_log`` and ``check_log`` read it, or the file.

        Raises
        ------
        RcbError
            A recommender that keeps no log.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, keep_log=1000, seed=1)
        >>> agent.observe(0.5, ticket=agent.recommend([0.9, 0.1]).ticket)
        >>> agent.log[["ticket", "arm", "stage", "p_new", "reward", "counted"]]
           ticket  arm         stage  p_new  reward  counted
        0       0  old  most popular    0.0     0.5        1
        """
        if self._log is None:
            raise RcbError("This recommender keeps no log. Make it with keep_log=10_000, or keep_log='log.csv'.")
        return self._log.table()

    def recommend(self, x: Users) -> Recommendation:
        """A recommendation for one user, x (d,): numbers in the order of the features, or by name.

        Parameters
        ----------
        x : array_like
            The user's features, (d,), or by name.

        Returns
        -------
        Recommendation
            The arm with its ticket, propensity and reason.

        Raises
        ------
        DataError
            A user of the wrong width, with features that are missing or not known, or values that are not finite;
            nothing has changed then.

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
        if self._patience is not None:
            self._look()
        self._rcb.move_on()
        exploitation = self._rcb.exploitation
        if self._rcb.predictor is not self._checked:
            self._check_vouched()
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
        self._pending.issue(ticket, Pending(user, arm, True, EXPLOIT))
        self._tally.note(RECOMMENDED, EXPLOIT, arm)
        if self._log is not None:
            self._log.note(ticket, user, arm, EXPLOIT, chances)
        self._rcb.rounds = ticket + 1
        return self._record(ticket, arm, EXPLOIT, chances, scores)

    def recommend_many(self, x: Users) -> Recommendations:
        """Recommendations for many users, x (n, d), none of whose rewards is known before the last is served.

        Parameters
        ----------
        x : array_like
            Users, (n, d), or by name.

        Returns
        -------
        Recommendations
            One for each user.
        """
        users = self._as_users(x, ndim=2).copy()  # kept until the rewards come, whatever becomes of the caller's array
        if self._patience is not None:
            self._look()
        parts: list[Decisions] = []
        first = self._rcb.rounds
        start = 0
        while start < len(users):
            self._rcb.move_on()
            self._check_vouched()
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
        not counted and the next takes its place, later the reward is that of the arm taken. A reward that was given
        up is noted in ``unobserved`` when it comes, and not used.

        Parameters
        ----------
        reward : float
            What the user got.
        ticket : int, optional
            That of the recommendation.
        taken : str, optional
            The arm that the user took, where it is not the one recommended.

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
        late = self._given_up.get(which) if pending is None and isinstance(which, int | np.integer) else None
        if pending is None and late is None:
            raise DataError(self._unknown(which))
        value = self._as_reward(reward)
        if pending is None or late is not None:
            self._tally.note(TOO_LATE, *self._given_up.pop(int(which)))
            return
        arm = pending.arm if taken is None else self._as_arm(taken)
        self._pending.hand_in(which)
        self._tally.note(OBSERVED, pending.stage, pending.arm)
        found = Early(pending, arm, value)
        if self._patience is None:
            self._take_in(int(which), found)
        else:
            self._early[int(which)] = found

    def give_up(self, ticket: int) -> None:
        """The reward of a recommendation will not come: in the cold start the next one takes its place.

        Decide by what is known without the reward, such as its age: what is given up because rewards are bad, or bad
        ones because they are slow, makes what is left too good.

        Parameters
        ----------
        ticket : int
            That of the recommendation whose reward will not come.

        Raises
        ------
        DataError
            A ticket that was not issued, or whose reward has come already; nothing has changed then.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, seed=1)
        >>> agent.give_up(agent.recommend([0.9, 0.1]).ticket)
        >>> agent.n_pending
        0
        """
        pending = self._pending.get(ticket)
        if pending is None:
            raise DataError(self._unknown(ticket))
        self._pending.hand_in(ticket)
        self._given_up[int(ticket)] = (pending.stage, pending.arm)
        self._tally.note(GIVEN_UP, pending.stage, pending.arm)
        self._settled(int(ticket), np.nan, pending.arm, counted=False)
        if pending.counted and pending.in_cold_start:
            self._rcb.cold.release(pending.arm)

    def observe_many(self, rewards: ArrayLike, *, tickets: ArrayLike) -> None:
        """Rewards of many recommendations; all are checked before any is taken in.

        Parameters
        ----------
        rewards : array_like
            What the users got, (n,).
        tickets : array_like
            Those of the recommendations.
        """
        values = as_finite_array(rewards, name="rewards", ndim=1)
        numbers = np.asarray(tickets)
        if numbers.shape != values.shape:
            raise DataError(f"Expected a ticket for each of {len(values)} rewards, got shape {numbers.shape}.")
        if len(np.unique(numbers)) != len(numbers):
            raise DataError("A ticket comes twice among these. Hand in each reward once.")
        there = self._pending.are_out(numbers)
        if self._given_up:
            there |= np.array([number in self._given_up for number in numbers.tolist()], dtype=bool)
        if not there.all():
            raise DataError(self._unknown(numbers[int(np.argmin(there))].item()))
        if not self.market.noise.is_gaussian:
            for value in values:
                self._as_reward(float(value))
        # In a cold start any of them may end a stage.
        if self._rcb.exploitation is None or self._patience is not None or self._given_up:
            for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
                self.observe(value, ticket=number)
            return
        x, arm, counted, stage = self._pending.hand_in_many(numbers)
        self._tally.note_many(OBSERVED, stage, arm)
        if self._log is not None:
            for number, value, own, kept in zip(numbers.tolist(), values.tolist(), arm.tolist(), counted, strict=True):
                self._settled(number, value, own, counted=bool(kept))
        self._rcb.absorb_many(x, arm, counted, values)

    def recommend_proba(self, x: Users) -> FloatArray:
        """Probability of each arm for each user at the present stage, (n, d) -> (n, K); nothing changes.

        Parameters
        ----------
        x : array_like
            Users, (n, d), or by name.

        Returns
        -------
        ndarray
            (n, K).
        """
        return self._rcb.recommend_proba(self._as_users(x, ndim=2))

    def posterior(self) -> "xr.DataTree":
        """The posterior that is acted on now, as ArviZ knows it; the prior where no arm has its samples yet.

        Groups ``posterior`` (beta with dims chain, draw, arm, feature), ``sample_stats`` and ``observed_data``; attrs
        ``engine``, ``vouched``, ``n_samples`` and ``seed``. With Gaussian rewards ``az.summary`` of it has the means
        that arms are compared by.

        Raises
        ------
        RcbError
            An oracle that has no posterior.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, seed=1)
        >>> tree = agent.posterior()
        >>> dict(tree["posterior"]["beta"].sizes), tree.attrs["n_samples"]
        ({'chain': 2, 'draw': 1000, 'arm': 2, 'feature': 2}, 0)
        """
        exploitation, cold = self._rcb.exploitation, self._rcb.cold
        if exploitation is None:
            return prior_tree(cold.oracle) if cold.predictor is None else self._cold_tree(cold.predictor)
        oracle = exploitation.oracle
        if not isinstance(oracle, PosteriorOracle) or exploitation.predictor is None:
            raise RcbError(f"A {type(oracle).__name__} has no posterior to show. Use a PosteriorOracle.")
        factor = inflation_factor(self.options.inflation, self._epoch_start() - exploitation.began)
        used = oracle if factor == 1.0 else inflated(oracle, factor)
        return used.tree(exploitation.fed, range(self.market.n_arms), exploitation.predictor)

    def _cold_tree(self, predictor: Predictor) -> "xr.DataTree":
        cold = self._rcb.cold
        return cold.oracle.tree(cold.history, cold.saturated, predictor)

    def _epoch_start(self) -> int:
        """The round at which the present epoch began."""
        exploitation = self._rcb.exploitation
        assert exploitation is not None  # as whoever asks knows
        if self.options.clock == "global":
            return max(exploitation.began, exploitation.ends // 2)
        return exploitation.ends - (self.market.n_arms * self.plan.n_per_arm << exploitation.epoch)

    def _check_vouched(self) -> None:
        """Say once that a posterior is acted on that no engine vouches for."""
        self._checked = self._rcb.predictor
        if self._has_warned or self.vouched:
            return
        self._has_warned = True
        warnings.warn(
            "The recommender acts on a posterior that its engine does not vouch for (agent.vouched). Look at "
            "agent.posterior(), and give the belief lighter tails or a non-centred form.",
            DiagnosticWarning,
            stacklevel=3,
        )

    # --- saving ---

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file, plan included, from which ``load`` goes on exactly.

        The file has a digest of its content, and an interrupted write leaves the old file.

        Parameters
        ----------
        path : str or path-like
            The file.

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

        Parameters
        ----------
        path : str or path-like
            The file.
        market : Market
            The market that the recommender was made for: its belief is code, and not part of the file.
        oracle : Oracle, optional
            The oracle it was made with, where that was not the default.

        Returns
        -------
        Recommender
            As it was, rewards still to come included.

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
        self._pending.issue_many(first, users, decisions.arm, decisions.counted, decisions.stage)
        self._tally.note_many(RECOMMENDED, decisions.stage, decisions.arm)
        if self._log is not None:
            self._log.note_many(first, users, decisions)
        self._rcb.rounds += len(decisions)
        return first

    def _look(self) -> None:
        """Take in, or give up, the rewards that have had their rounds."""
        assert self._patience is not None  # as whoever asks knows
        while self._looked < self._rcb.rounds - self._patience:
            found = self._early.pop(self._looked, None)
            if found is not None:
                self._take_in(self._looked, found)
            elif self._pending.get(self._looked) is not None:
                self.give_up(self._looked)
            self._looked += 1

    def _take_in(self, ticket: int, found: Early) -> None:
        """A reward, at the time that it is looked at."""
        pending, arm, reward = found
        is_own = arm == pending.arm or not pending.in_cold_start
        self._settled(ticket, reward, arm, counted=pending.counted and is_own)
        if not pending.counted:
            return
        if is_own:
            self._rcb.absorb_one(pending.x, arm, reward)
        else:
            self._rcb.cold.release(pending.arm)

    def _settled(self, ticket: int, reward: float, arm: int, *, counted: bool) -> None:
        if self._log is not None:
            self._log.settle(ticket, reward=reward, arm=arm, counted=counted, known_from=self._rcb.rounds)

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

    def _as_users(self, x: Users, *, ndim: int) -> FloatArray:
        if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.shape == self._shape and isfinite(x.sum()):
            return x.copy()
        market = self.market
        return as_users(x, features=market.features, name="x", ndim=ndim, also=market.covariates.features)

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
            return f"The reward of ticket {ticket} has come already, or was given up. Hand in each reward once."
        return f"There is no ticket {ticket!r}. Use the ticket of a recommendation."


def _warn_of_other_users(market: Market, plan: Plan) -> None:
    names = {"belief": "the users' belief", "users": "the population"}
    other = " and ".join(names[part] for part in plan_differs(market, plan, parts=tuple(names)))
    if other:
        warnings.warn(
            f"The plan was made for others: {other} of this market differ. What it promises users may not hold; "
            "audit it here, or calibrate a plan for this market.",
            stacklevel=3,
        )
