"""Policies: whatever turns users into recommendations and learns from rewards.

``Rcb`` is the paper's algorithm; what it is compared with is in ``baselines``; ``as_policy`` makes one of two functions
of one's own. All are simulated alike, and audited alike: see ``running.protocol`` for what is asked of them.
"""

import warnings
from collections.abc import Callable

import numpy as np

from rcb_bayes.calling import checked
from rcb_bayes.errors import MovesWarning, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import Decisions, chosen
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import STAGE, Moment
from rcb_bayes.planning.checks import check_arms, plan_differs
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.cold_start import ColdStart
from rcb_bayes.running.exploit import Exploitation
from rcb_bayes.running.heeding import Heeding, heeding
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, Predictor, Read, is_vouched
from rcb_bayes.running.presence import confined, promises
from rcb_bayes.running.protocol import Policy, as_probabilities
from rcb_bayes.schema import BoolArray, FloatArray, Table

Recommending = Callable[[FloatArray], FloatArray]
Learning = Callable[[FloatArray, np.ndarray, FloatArray], object]


def as_policy(recommend_proba: Recommending, update: Learning | None = None) -> Policy:
    """A policy from two functions of one's own.

    Parameters
    ----------
    recommend_proba : callable
        Users (n, d) -> the probability of recommending each arm to each of them now, (n, K).
    update : callable, optional
        Called with users (n, d), the positions of the arms recommended to them (n,) and their rewards (n,) after every
        round; nothing is learnt unless given.

    Returns
    -------
    Policy

    Raises
    ------
    DataError
        When it runs: probabilities of another shape, negative, not finite, or that do not sum to one.

    Applicability
    -------------
    Anything that can tell its probabilities. Users are served one at a time, for any of them may change what the next
    is told. A policy has the memory of one world: make it, and what it remembers, anew in a function (market, seed) ->
    policy.

    Examples
    --------
    The arm with the best average so far, one try of each taken for granted. With ``market`` as in ``calibrate``:

    >>> def averages(market, seed):
    ...     total, n = np.full(market.n_arms, 0.5), np.ones(market.n_arms)
    ...
    ...     def recommend_proba(x):
    ...         return np.tile(np.eye(market.n_arms)[(total / n).argmax()], (len(x), 1))
    ...
    ...     def update(x, arm, reward):
    ...         total[arm] += reward
    ...         n[arm] += 1
    ...
    ...     return rcb.as_policy(recommend_proba, update)
    >>> runs = rcb.simulate(market, averages, horizon=200, n_worlds=5, seed=1)
    >>> runs["n_samples"].sum("arm").values
    array([200, 200, 200, 200, 200])
    >>> rcb.audit(market, averages, horizon=8, n_worlds=100, seed=1).verdict in ("fail", "inconclusive")
    True
    """
    return _OfFunctions(recommend_proba, update)


@checked
class _OfFunctions(Policy):
    """Two functions, one user at a time; what the platform expects is not known."""

    def __init__(self, recommend_proba: Recommending, update: Learning | None) -> None:
        self._recommend, self._learn = recommend_proba, update
        self._counts: np.ndarray | None = None

    def recommend_proba(self, x: Table) -> FloatArray:
        """The function's own, (n, d) -> (n, K)."""
        return as_probabilities(self._recommend(x), n_users=len(x))

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """A recommendation for the first user."""
        probabilities = self.recommend_proba(x[:1]).T
        return chosen(probabilities, np.full(probabilities.shape, np.nan), uniforms)

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Tell the function, and count."""
        counts = np.bincount(decisions.arm, minlength=len(decisions.probabilities))
        self._counts = counts if self._counts is None else self._counts + counts
        if self._learn is not None:
            self._learn(x, decisions.arm, reward)

    @property
    def n_by_arm(self) -> np.ndarray | None:
        """How often each arm was recommended, (K,)."""
        return self._counts


class Rcb(Policy):
    """The paper's algorithm: a cold start, then exploitation.

    Parameters
    ----------
    oracle : of the exploitation stage; the posterior mean under the platform's belief unless given. A posterior oracle
        with ``read="engine"`` keeps the cold start from reading ArviZ summaries, too
    options : of the exploitation stage
    read : how the cold start reads posterior means, "summary" or "engine"; as the oracle does unless given

    Raises
    ------
    RcbError
        A plan for other arms or features, or another prior mean.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> from rcb_bayes.running.policies import Rcb
    >>> policy = Rcb(market, plan)
    >>> policy.recommend_proba(np.array([[0.2, 0.5], [0.9, 0.5]]))
    array([[1., 0.],
           [1., 0.]])
    """

    def __init__(
        self,
        market: Market,
        plan: Plan,
        *,
        oracle: Oracle | None = None,
        options: Exploiting | None = None,
        read: Read | None = None,
    ) -> None:
        check_arms(market, plan)
        plan = plan.by_features
        self.market = market
        self.plan = plan
        self.options = options or Exploiting()
        reading: Read = read or getattr(oracle, "read", "summary")
        posterior = PosteriorOracle(market.platform_prior, market.noise, read=reading)
        self.oracle: Oracle = oracle or posterior
        if isinstance(oracle, Heeding):
            self.oracle = oracle.by(epsilon=plan.epsilon, notion=plan.notion, options=self.options)
        self.cold = ColdStart(market, plan, posterior, keep_rows=self.oracle.needs_rows)
        self.exploitation: Exploitation | None = None
        self._n_fits = self._n_not_vouched = 0
        self.rounds = 0
        self.counts = self.cold.history.n.astype(np.int64)
        self.move_on()

    def grown(self, market: Market, plan: Plan, *, oracle: Oracle | None) -> "Rcb":
        """The algorithm where it stands, in a market with more arms, the new ones last, that a plan was made for.

        In exploitation users are heeded from then on.

        Raises
        ------
        RcbError
            Options under which users cannot be heeded.
        """
        new = Rcb(market, plan, oracle=oracle, options=self.options)
        more = market.n_arms - self.market.n_arms
        new.rounds, new.counts = self.rounds, np.pad(self.counts, (0, more))
        new._n_fits, new._n_not_vouched = self._n_fits, self._n_not_vouched
        new.cold.history = self.cold.history.widened(market.n_arms)
        new.cold.saturated, new.cold.waiting = self.cold.saturated, np.pad(self.cold.waiting, (0, more))
        found = self.exploitation
        new.exploitation = None
        if found is not None:
            is_fed = found.fed is self.cold.history
            new.exploitation = Exploitation.resumed(
                market,
                new.plan,
                new.oracle,
                options=self.options,
                began=found.began,
                epoch=found.epoch,
                gamma=found.gamma,
                fed=new.cold.history if is_fed else found.fed.widened(market.n_arms),
                now=found.now.widened(market.n_arms),
                predictor=None,
            )
            new.heed()
        new.without(self.cold.gone)
        return new

    def without(self, gone: frozenset[int]) -> None:
        """These arms are not there from now on: whatever comes or leaves, samples have another law than the plan's."""
        self.cold.without(gone, lasts=self.exploitation is None)
        self.go_by_samples()

    def heed(self) -> None:
        """Exploit within what users would accept from now on, whatever the data.

        Raises
        ------
        RcbError
            Options under which users cannot be heeded; nothing has changed then.
        """
        made = heeding(self.market, self.oracle)
        made = made.by(epsilon=self.plan.epsilon, notion=self.plan.notion, options=self.options)
        if self.exploitation is not None:
            self.exploitation.heed(made)
        self.oracle = made

    def go_by_samples(self) -> None:
        """Arms are missing from now on: keep the promise whoever is sampled (``running.presence``).

        Users are heeded where a guard was to answer for exploitation; where that cannot be, a warning says so.
        """
        if not promises(self.plan) or self.cold.by_samples:
            return
        self.cold.by_samples = True
        if self.options.guard and self.plan.guards:
            try:
                self.heed()
            except RcbError as error:
                told = f"Nothing is promised in exploitation once arms are missing. {error}"
                warnings.warn(told, MovesWarning, stacklevel=3)

    @property
    def predictor(self) -> Predictor | None:
        """What is expected now; None where it is what users expect before any data."""
        return self.cold.predictor if self.exploitation is None else self.exploitation.predictor

    @property
    def known_stage(self) -> str:
        """The epoch of exploitation, or the saturated arms of the cold start: the paper's users know no more."""
        return STAGE.label(self.moment, self.market.arms)

    @property
    def moment(self) -> Moment:
        """Where the run is."""
        epoch = None if self.exploitation is None else self.exploitation.epoch
        return Moment(saturated=self.cold.saturated, epoch=epoch)

    @property
    def n_acted_on(self) -> FloatArray:
        """All samples, whatever the oracle is fed; in the cold start those of saturated arms, for others wait, (K,)."""
        counts = self.counts.astype(float)
        if self.exploitation is None:
            counts[[arm for arm in range(len(counts)) if arm not in self.cold.saturated]] = 0.0
        return counts

    def best(self, x: FloatArray) -> FloatArray:
        """Shares of the arms that are best by what it expects now, (n, d) -> (n, K)."""
        features = np.ascontiguousarray(x.T)
        if self.exploitation is None:
            return best_shares(self.cold.scores(x, features), axis=0).T
        return best_shares(self.exploitation.scores(features), axis=0).T

    @property
    def n_by_arm(self) -> np.ndarray:
        """Samples that count, (K,)."""
        return self.counts

    @property
    def cold_start_length(self) -> int:
        """Rounds of the cold start; -1 before it is over."""
        return -1 if self.exploitation is None else self.exploitation.began

    @property
    def gamma(self) -> float:
        """The spread of the present epoch; NaN in the cold start."""
        return np.nan if self.exploitation is None else self.exploitation.gamma

    @property
    def n_fits(self) -> int:
        """Times that a posterior, or another learner, was fitted."""
        return self.cold.n_fits + self._n_fits

    @property
    def n_not_vouched(self) -> int:
        """Times that its engine did not vouch for the posterior."""
        return self.cold.n_not_vouched + self._n_not_vouched

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user at the present stage, (n, d) -> (n, K)."""
        features = np.ascontiguousarray(x.T)
        still = np.zeros((len(x), 2))
        if self.exploitation is not None:
            return self.exploitation.decide(x, features, still).probabilities.T
        return self.cold.probabilities(x, features).T

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the next saturation, or to the end of the epoch."""
        if self.exploitation is None:
            return self.cold.decide(x, features, uniforms)
        n = self.exploitation.ends - self.rounds
        return self.exploitation.decide(x[:n], features[:, :n], uniforms[:n])

    def recommend_now(
        self, x: FloatArray, features: FloatArray, uniforms: FloatArray, *, present: BoolArray | None = None
    ) -> Decisions:
        """Recommendations for users none of whose rewards is known: all at the present stage, up to the epoch's end.

        Of a cold start an arm's first N count, whenever their rewards come. ``present`` (K,) are the arms that are
        there, where some are not.
        """
        if self.exploitation is None:
            decisions = self.cold.decide_now(x, features, uniforms)
            return self.cold.claim(decisions if present is None else confined(decisions, present, present))
        decisions = self.decide(x, features, uniforms)
        return decisions if present is None else confined(decisions, present, self.has_samples)

    def decided_now(self, x: FloatArray, present: BoolArray) -> Decisions:
        """What users would be told now with these arms there, (K,); nothing is counted."""
        features, still = np.ascontiguousarray(x.T), np.zeros((len(x), 2))
        if self.exploitation is None:
            return confined(self.cold.decide_now(x, features, still), present, present)
        found = self.exploitation.decide(x, features, still)
        return confined(found, present, self.has_samples)

    @property
    def has_samples(self) -> BoolArray:
        """Which arms have the samples that the plan gives them, (K,)."""
        return self.counts >= self.plan.agenda.totals

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Count what is to be counted; end the cold start or the epoch where it is over."""
        self.rounds += len(decisions)
        kept = slice(None) if self.exploitation is not None else np.flatnonzero(decisions.counted)
        arm = decisions.arm[kept]
        self.counts += np.bincount(arm, minlength=len(self.counts))
        if self.exploitation is not None:
            self.exploitation.now.add(x, arm, reward)
        else:
            self.cold.absorb(x[kept], arm, reward[kept])
        self.move_on()

    def absorb_one(self, x: FloatArray, arm: int, reward: float) -> None:
        """One reward that counts, whenever it comes: for the epoch in which it does, or an arm's samples."""
        self.counts[arm] += 1
        if self.exploitation is not None:
            self.exploitation.now.add_one(x, arm, reward)
        else:
            self.cold.absorb_one(x, arm, reward)

    def absorb_many(self, x: FloatArray, arm: np.ndarray, counted: np.ndarray, reward: FloatArray) -> None:
        """Rewards of many users (n, d) that come in exploitation, as one by one."""
        assert self.exploitation is not None  # a cold start looks at every sample
        kept = np.flatnonzero(counted)
        self.counts += np.bincount(arm[kept], minlength=len(self.counts))
        self.exploitation.now.add(x[kept], arm[kept], reward[kept])

    def move_on(self) -> None:
        """Begin what is next: exploitation after the cold start, an epoch after the last."""
        if self.exploitation is None:
            if self.cold.is_over:
                self.exploitation = Exploitation(
                    self.market, self.plan, self.oracle, self.cold.history, begins=self.rounds, options=self.options
                )
                self._note_fit()
        elif self.rounds >= self.exploitation.ends:
            self.exploitation.next_epoch()
            self._note_fit()

    def _note_fit(self) -> None:
        self._n_fits += 1
        self._n_not_vouched += not is_vouched(self.predictor)


def warn_of_other_users(market: Market, plan: Plan) -> None:
    """Warn where a plan was made for users of another belief or population."""
    names = {"belief": "the users' belief", "users": "the population"}
    other = " and ".join(names[part] for part in plan_differs(market, plan, parts=tuple(names)))
    if other:
        warnings.warn(
            f"The plan was made for others: {other} of this market differ. What it promises users may not hold; "
            "audit it here, or calibrate a plan for this market.",
            stacklevel=3,
        )
