"""Policies: whatever turns users into recommendations and learns from rewards.

``Rcb`` is the paper's algorithm; what it is compared with is in ``baselines``. All are simulated alike, and audited
alike, through ``recommend_proba``.
"""

from typing import Protocol

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.checks import check_arms
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.cold_start import ColdStart
from rcb_bayes.running.exploit import Exploitation
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, Predictor, Read, is_vouched
from rcb_bayes.schema import FloatArray


class Policy(Protocol):
    """A recommendation policy in one world.

    ``decide`` answers for as many of the users, from the first on, as it can before it has to learn; ``update`` then
    gets exactly those.
    """

    def recommend_proba(self, x: FloatArray) -> FloatArray:
        """Probability of recommending each arm to each user now, (n, d) -> (n, K).

        Parameters
        ----------
        x : ndarray
            Users, (n, d).

        Returns
        -------
        ndarray
            (n, K).
        """
        ...

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations for the first users; x (n, d), features (d, n), uniforms (n, 2).

        Parameters
        ----------
        x : ndarray
            Users, (n, d).
        features : ndarray
            The same users, (d, n).
        uniforms : ndarray
            Random numbers in [0, 1), two for each user, (n, 2).

        Returns
        -------
        Decisions
            For the first users, as many as it could answer for.
        """
        ...

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn from what was recommended to the users x (n, d) and what they got (n,).

        Parameters
        ----------
        x : ndarray
            The users that ``decide`` answered for, (n, d).
        decisions : Decisions
            What was recommended to them.
        reward : ndarray
            What they got, (n,).
        """
        ...


class Rcb:
    """The paper's algorithm: a cold start, then exploitation.

    Parameters
    ----------
    oracle : of the exploitation stage; the posterior mean under the platform's belief unless given. A posterior oracle
        with ``read="engine"`` keeps the cold start from reading ArviZ summaries, too
    options : of the exploitation stage

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
        self, market: Market, plan: Plan, *, oracle: Oracle | None = None, options: Exploiting | None = None
    ) -> None:
        check_arms(market, plan)
        self.market = market
        self.plan = plan
        self.options = options or Exploiting()
        read: Read = getattr(oracle, "read", "summary")
        posterior = PosteriorOracle(market.platform_prior, market.noise, read=read)
        self.oracle: Oracle = oracle or posterior
        self.cold = ColdStart(market, plan, posterior, keep_rows=self.oracle.needs_rows)
        self.exploitation: Exploitation | None = None
        self._n_fits = self._n_not_vouched = 0
        self.rounds = 0
        self.counts = np.zeros(market.n_arms, dtype=np.int64)

    @property
    def predictor(self) -> Predictor | None:
        """What is expected now; None where it is what users expect before any data."""
        return self.cold.predictor if self.exploitation is None else self.exploitation.predictor

    @property
    def n_fits(self) -> int:
        """Times that a posterior, or another learner, was fitted."""
        return self.cold.n_fits + self._n_fits

    @property
    def n_not_vouched(self) -> int:
        """Times that its engine did not vouch for the posterior."""
        return self.cold.n_not_vouched + self._n_not_vouched

    def recommend_proba(self, x: FloatArray) -> FloatArray:
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

    def recommend_now(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations for users none of whose rewards is known: all at the present stage, up to the epoch's end.

        Of a cold start an arm's first N count, whenever their rewards come.
        """
        if self.exploitation is None:
            return self.cold.claim(self.cold.decide_now(x, features, uniforms))
        return self.decide(x, features, uniforms)

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
