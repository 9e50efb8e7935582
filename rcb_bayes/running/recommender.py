"""The live recommender: the paper's algorithm, one user at a time or many, with rewards as they come.

Its random numbers are those of a simulated world with the same seed, so that a live loop and a block simulation give
the same trajectory. A new epoch begins when the next user asks. Rewards may come late and out of order: see
``running.late_rewards``.
"""

import warnings
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR, ROUND_KINDS, Decisions
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.kernel import ipgs_one, pick_one
from rcb_bayes.mechanism.knowledge import Moment
from rcb_bayes.planning.checks import check_feasible, check_plan
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.rule import Rule
from rcb_bayes.posterior.results import DiagnosticWarning
from rcb_bayes.running.agent_files import read_agent, restore, seed_of, write_agent
from rcb_bayes.running.exploit import warn_of_other_guard
from rcb_bayes.running.heeding import heeding
from rcb_bayes.running.late_rewards import AwaitedRewards
from rcb_bayes.running.logbook import Logbook
from rcb_bayes.running.moves import Move, grown, warn_of_missing, warn_of_pooled
from rcb_bayes.running.oracle import Oracle, Predictor, is_vouched
from rcb_bayes.running.policies import Rcb, warn_of_other_users
from rcb_bayes.running.presence import as_present
from rcb_bayes.running.recommendations import Recommendation, Recommendations, recommendation, recommendations
from rcb_bayes.running.shown_posterior import posterior_of
from rcb_bayes.running.tickets import Pending
from rcb_bayes.running.worlds import Choices
from rcb_bayes.schema import DEFAULT_SEED, BoolArray, FloatArray, as_count, position_of, suggestion
from rcb_bayes.users.labelled import Users, as_users

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


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
    rule : Rule, optional
        What ``plan.distil()`` gave: its tables in the place of the plan's own rates and guards, many times faster. It
        is part of ``plan`` from then on, of what is saved, and of what ``rcb.audit(market, agent)`` looks at.
    patience : int, optional
        Rounds after which every reward is looked at, and given up if it has not come, to be fixed before the first
        user; None waits for each as long as it takes, and looks at it when it comes.
    keep_log : int, str or path-like, optional
        A number of rounds to keep in ``log``, or a CSV file to write all of them to; None keeps none.
    absent : sequence of str
        Arms of the market that are not there yet: ``add_arm`` brings them in.
    availability_varies : bool
        Whether users may lack arms (``recommend(..., available=)``): the promise is then kept whatever decides what is
        there for whom, but rewards. Without it the first user who lacks one brings a warning.
    seed : int or numpy.random.SeedSequence
        Of the recommender's own choices.

    Raises
    ------
    RcbError
        A plan for another market, or one that is not feasible; a rule of another plan; a log's file that has rounds.

    Applicability
    -------------
    Rewards in any order and with any delay in the cold start. What may be missing, and what exploitation needs, stands
    at the head of ``running.late_rewards``: missing independently of the reward, given the user and the arm.

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
        rule: Rule | None = None,
        patience: int | None = None,
        keep_log: int | str | Path | None = None,
        absent: Sequence[str] = (),
        availability_varies: bool = False,
        seed: int | np.random.SeedSequence = DEFAULT_SEED,
    ) -> None:
        check_plan(market, plan)
        check_feasible(plan)
        if rule is not None:
            plan = plan.with_rule(rule)
        warn_of_other_users(market, plan)
        self.market = market
        self.plan = plan
        self._rcb = Rcb(market, plan, oracle=oracle, options=options)
        self._is_told = availability_varies  # that users may lack arms
        if availability_varies:
            self._rcb.go_by_samples()
            if not self.by_samples:
                warn_of_missing(plan)
        warn_of_other_guard(market, plan, self._rcb.oracle, self._rcb.options)
        self.own_oracle = oracle
        self._seed = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._shape = (len(market.features),)
        self._cut = None if plan.agenda.cut is None else plan.agenda.cut.tolist()
        self._choices = Choices(self._seed)
        self._awaited = AwaitedRewards(
            self._rcb,
            patience=None if patience is None else as_count(patience, name="patience"),
            log=None if keep_log is None else Logbook.begun(keep_log, features=market.features, arms=market.arms),
        )
        self._checked: Predictor | None = None
        self._has_warned = False
        self.moves: tuple[Move, ...] = ()  # arms that came or left, and when
        self.heeds = False  # whether an arm came in exploitation, for which no guard was made
        for label in [absent] if isinstance(absent, str) else absent:
            self.retire(label)

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
            return ROUND_KINDS[EXPLOIT]
        return "rest of the arms" if self._rcb.cold.saturated else ROUND_KINDS[MOST_POPULAR]

    @property
    def moment(self) -> Moment:
        """Where the algorithm is, as whoever knows the clock could tell: saturated arms, or the epoch."""
        return self._rcb.moment

    @property
    def seed(self) -> np.random.SeedSequence:
        """Of the recommender's own choices."""
        return self._seed

    @property
    def saturated(self) -> tuple[str, ...]:
        """Arms that have their N samples."""
        return tuple(self.market.arms[arm] for arm in self._rcb.cold.saturated)

    @property
    def n_samples(self) -> dict[str, int]:
        """Samples of each arm that are learnt from: up to N in the cold start, then every round of exploitation.

        Which arms have their N is ``saturated``.
        """
        return dict(zip(self.market.arms, self._rcb.counts.tolist(), strict=True))

    @property
    def vouched(self) -> bool:
        """Whether the engine vouches for the posterior that is acted on; True where there is none."""
        return is_vouched(self._rcb.predictor)

    @property
    def acts_on(self) -> Predictor | None:
        """What is expected of the arms now, for auditors; None where it is what users expect before any data."""
        return self._rcb.predictor

    @property
    def n_pending(self) -> int:
        """Recommendations whose reward has not come."""
        return len(self._awaited.pending)

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
        return self._awaited.tally.table(self.market.arms)

    @property
    def log(self) -> "pd.DataFrame":
        """A row for each round that is kept.

        Columns: ``ticket``, the features, ``arm``, ``stage``, ``propensity``, ``p_<arm>`` (empty where the arm was not
        available to the user), ``taken`` (the arm that the user took), ``reward``, ``counted`` (it has entered the
        data) and ``known_from`` (the ticket before which that was settled). ``audit_log`` and ``check_log`` read it, or
        the file.

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
        if self._awaited.log is None:
            raise RcbError("This recommender keeps no log. Make it with keep_log=10_000, or keep_log='log.csv'.")
        return self._awaited.log.table()

    @property
    def absent(self) -> tuple[str, ...]:
        """Arms that have left, or have not come yet."""
        return tuple(self.market.arms[arm] for arm in sorted(self._rcb.cold.gone))

    @property
    def by_samples(self) -> bool:
        """Whether arms were, or may be, missing, so that rates are those followed given whom the samples are of."""
        return self._rcb.cold.by_samples

    def retire(self, label: str) -> None:
        """An arm leaves: nobody is recommended it from now on, and no stage waits for its samples.

        What it would have had goes to the best of the arms that are there. What has been learnt from it stays.

        Parameters
        ----------
        label : str
            The arm.

        Raises
        ------
        RcbError
            No such arm, one that has left already, or the last one; nothing has changed then.

        Applicability
        -------------
        The promise holds on, among the arms that are there, if the arm does not leave because of its rewards (users
        would learn from its leaving) or of who came: from then on users are explored as often as they follow given whom
        the samples so far are of, and heeded in exploitation. Of a cold start whose plan is for users who know less
        than the stage that does not make up for rounds before (``MovesWarning``). See ``running.presence``.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, seed=1)
        >>> agent.retire("new")
        >>> agent.absent, agent.recommend([0.9, 0.1]).probabilities
        (('new',), {'old': 1.0, 'new': 0.0})
        """
        arm = position_of(label, self.market.arms)
        gone = self._rcb.cold.gone
        if arm in gone:
            raise RcbError(f"The arm '{label}' is not there already. Each arm leaves once; add_arm brings it back.")
        if len(gone) + 1 == self.market.n_arms:
            raise RcbError(f"'{label}' is the last arm that is there: nothing would be left to recommend.")
        self._without(gone | {arm}, Move(round=self.rounds, arm=label, comes=False))

    def add_arm(self, label: str, belief: Any = None, *, plan: Plan | None = None) -> None:
        """An arm comes: one of the market that was not there, or one that the market lacks, with a belief about it.

        While the cold start lasts it is promoted: one of the market as the plan has it, a new one by a plan that is
        made anew for the market with it (which takes as long as ``calibrate``), or by the one that is given. Later,
        until it has its samples, it is recommended where it is expected to be best, and nowhere else.

        Parameters
        ----------
        label : str
            The arm.
        belief : tuple of array_like, or Prior
            What users believe of an arm that the market lacks: ``(mean, cov)`` of its coefficients, or a belief about
            all arms, this one last, in which it may be coupled with the others (``models/arm_features.py``). None for
            an arm of the market.
        plan : Plan, optional
            For ``market.with_arm(label, belief)``, with the same samples of the arms there are: those of the new arm
            are 0 once the cold start is over.

        Raises
        ------
        RcbError
            No such arm, or one that is there; a belief or a plan that does not fit, a cold start that no plan with the
            new arm can end, an oracle with a belief of its own; in exploitation options under which users cannot be
            heeded (``feed="last"``, growing variances). Nothing has changed then.

        Applicability
        -------------
        What is promised then stands in ``running.moves``: in the cold start what a plan with the arm from the start
        promises, at rates that users follow given whom the samples so far are of; plans for users who know less than
        the stage warn (``MovesWarning``). In exploitation nobody is told an arm that she would hold to be worse than
        another by more than epsilon, whatever the data (``Heeding``), for guards were made for an arm that had been
        there. Users know that the arm has come, and it does not come because of rewards. ``market`` and ``plan`` are
        the new ones from then on: save the recommender.

        Examples
        --------
        With ``market`` and ``plan`` as in ``calibrate``:

        >>> agent = rcb.Recommender(market, plan, absent=["new"], seed=1)
        >>> agent.add_arm("new")
        >>> agent.absent
        ()
        >>> agent.add_arm("newest", ([0.3, 0.3], 0.25))
        >>> agent.market.arms, agent.plan.n_per_arm, agent.n_samples
        (('old', 'new', 'newest'), 10, {'old': 0, 'new': 0, 'newest': 0})
        """
        if belief is not None:
            self._extend(label, self.market.with_arm(label, belief), plan)
            return
        if label not in self.market.arms:
            raise RcbError(
                f"There is no arm '{label}' in this market.{suggestion(label, self.market.arms)} Say what users "
                f"believe of a new one, add_arm('{label}', (mean, cov)). The arms are {', '.join(self.market.arms)}."
            )
        if plan is not None:
            raise RcbError(f"'{label}' is an arm of the plan there is. Leave out plan=.")
        arm = position_of(label, self.market.arms)
        gone = self._rcb.cold.gone
        if arm not in gone:
            raise RcbError(f"The arm '{label}' is there. Only one that has left, or was absent, can be added.")
        self._awaited.look()
        self._rcb.move_on()
        if self._rcb.exploitation is not None and not self.heeds:
            self._rcb.heed()
            self.heeds = True
        self._without(gone - {arm}, Move(round=self.rounds, arm=label, comes=True))

    def _without(self, gone: frozenset[int], move: Move) -> None:
        lasts = self._rcb.exploitation is None and not self._rcb.cold.is_over
        self.moves += (move,)
        self._rcb.without(gone)
        if lasts and not self._is_told:
            warn_of_pooled(self.plan, move.arm)

    def _extend(self, label: str, market: Market, plan: Plan | None) -> None:
        """Go on in a market with one arm more."""
        self._awaited.look()
        self._rcb.move_on()
        if plan is not None:
            check_plan(market, plan)
        rcb = grown(self._rcb, market, plan, oracle=self.own_oracle)
        self._awaited.go_on_with(rcb)
        self.heeds = rcb.exploitation is not None
        self._rcb, self._checked = rcb, None
        self.moves += (Move(round=self.rounds, arm=label, comes=True, plan=rcb.plan),)
        self.market, self.plan = market, rcb.plan
        self._cut = None if rcb.plan.agenda.cut is None else rcb.plan.agenda.cut.tolist()
        if rcb.exploitation is None:
            warn_of_pooled(rcb.plan, label)

    def _present(self, available: Sequence[str] | None) -> BoolArray | None:
        """Arms that are there for a user, (K,); None where all are, with their samples."""
        rcb = self._rcb
        late = rcb.exploitation is not None and not rcb.has_samples.all()
        if available is None and not rcb.cold.gone and not late:
            return None
        return as_present(available, self.market.arms, rcb.cold.gone)

    def _note_missing(self, present: BoolArray) -> None:
        """A user for whom arms are missing, of those that have not left: the promise is kept otherwise from now on."""
        everything = present.sum() + len(self._rcb.cold.gone) == self.market.n_arms
        if everything or self._is_told or self.heeds:  # heeding holds whatever the data
            return
        self._is_told = True
        self._rcb.go_by_samples()
        warn_of_missing(self.plan)

    def recommend(self, x: Users, *, available: Sequence[str] | None = None) -> Recommendation:
        """A recommendation for one user, x (d,): numbers in the order of the features, or by name.

        Parameters
        ----------
        x : array_like
            The user's features, (d,), or by name.
        available : sequence of str, optional
            The arms that she can have, all that are there unless given: what others would have had goes to the best of
            these.

        Returns
        -------
        Recommendation
            The arm with its ticket, propensity and reason.

        Raises
        ------
        DataError
            A user of the wrong width, with features that are missing or not known, or values that are not finite;
            nothing has changed then.
        RcbError
            Available arms that do not exist, or none that is there.

        Applicability
        -------------
        ``available`` decides who is sampled, so that a plan's own rates and guards hold no more. From the first user
        who lacks an arm on, users are explored as often as they follow given whom the samples so far are of, and heeded
        in exploitation (``Heeding``): the promise holds among the arms that are there, if what is there has nothing to
        do with rewards, or, of a recommender that was not made with ``availability_varies=True``, with who the user is;
        a ``MovesWarning`` says so. Of fixed plans, a theorem's and those for several types nothing is promised then.
        See ``running.presence``.

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
        known = self._as_users(x, ndim=1)
        user = self.market.features_of(known)
        self._awaited.look()
        self._rcb.move_on()
        exploitation = self._rcb.exploitation
        if self._rcb.predictor is not self._checked:
            self._check_vouched()
        rows = None if exploitation is None else exploitation.rows
        present = self._present(available)
        if available is not None and present is not None:
            self._note_missing(present)
        if exploitation is None or rows is None or present is not None:
            decisions = self._decide(user[None], present)
            could_have = None if available is None else as_present(available, self.market.arms, frozenset())
            ticket = self._awaited.issue(user[None], decisions, people=known[None], available=could_have)
            chances, scores = decisions.probabilities[:, 0].tolist(), decisions.scores[:, 0].tolist()
            arm, kind = int(decisions.arm[0]), int(decisions.stage[0])
            return recommendation(ticket, arm, kind, chances, scores, labels=self.market.arms)
        x_plain = user.tolist()
        guard = self.plan.guard_one(x_plain, exploitation.epoch) if exploitation.is_guarded else self._cut
        chances, scores = ipgs_one(rows, x_plain, exploitation.gamma, guard=guard)
        ticket = self._rcb.rounds
        arm = pick_one(chances, self._choices.of_round(ticket))
        self._awaited.issue_one(Pending(user, arm, True, EXPLOIT), chances, person=known)
        return recommendation(ticket, arm, EXPLOIT, chances, scores, labels=self.market.arms)

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
        people = self._as_users(x, ndim=2).copy()  # kept until the rewards come, whatever becomes of the caller's array
        users = self.market.features_of(people)
        self._awaited.look()
        parts: list[Decisions] = []
        first = self._rcb.rounds
        start = 0
        while start < len(users):
            self._rcb.move_on()
            self._check_vouched()
            decisions = self._decide(users[start:], self._present(None))
            some = slice(start, start + len(decisions))
            self._awaited.issue(users[some], decisions, people=people[some])
            parts.append(decisions)
            start += len(decisions)
        return recommendations(parts, first=first, labels=self.market.arms)

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
        self._awaited.observe(reward, ticket=self._rcb.rounds - 1 if ticket is None else ticket, taken=taken)

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
        self._awaited.give_up(ticket)

    def observe_many(self, rewards: ArrayLike, *, tickets: ArrayLike) -> None:
        """Rewards of many recommendations; all are checked before any is taken in.

        Parameters
        ----------
        rewards : array_like
            What the users got, (n,).
        tickets : array_like
            Those of the recommendations.
        """
        self._awaited.observe_many(rewards, tickets=tickets)

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
        users, present = self.market.features_of(self._as_users(x, ndim=2)), self._present(None)
        if present is None:
            return self._rcb.recommend_proba(users)
        return self._rcb.decided_now(users, present).probabilities.T

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
        return posterior_of(self._rcb)

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
        in_force = heeding(market, oracle) if state.heeds else oracle
        made = cls(market, state.plan, oracle=in_force, options=state.options, seed=seed_of(state))
        made.own_oracle = oracle
        restore(made, state)
        return made

    # --- one round ---

    def _decide(self, users: FloatArray, present: BoolArray | None) -> Decisions:
        """Recommendations for the first of these users, as far as the page and the stage go."""
        uniforms = self._choices.of_rounds(self._rcb.rounds, len(users))
        x = users[: len(uniforms)]
        return self._rcb.recommend_now(x, np.ascontiguousarray(x.T), uniforms, present=present)

    def _as_users(self, x: Users, *, ndim: int) -> FloatArray:
        if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.shape == self._shape and isfinite(x.sum()):
            return x.copy()
        market = self.market
        return as_users(x, features=market.features, name="x", ndim=ndim, also=market.covariates.features)
