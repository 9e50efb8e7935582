r"""The optimal policy for two arms whose rewards are known once tried.

Everybody is alike, :math:`R_1` and :math:`R_2` are independent with means :math:`\mu_1 \ge \mu_2`, and a reward is the
same in every round. The first user gets arm 1. User t is sent to explore arm 2 if :math:`i_{t-1} < R_1 \le i_t`; if
:math:`R_1 \le i_{t-1}` arm 2 is known by then and she gets the better one, else arm 1. She follows "arm 2" as long as

.. math:: E[(R_1 - \mu_2) 1\{i_{t-1} < R_1 \le i_t\}] \le E[(R_2 - R_1)^+ 1\{R_1 \le i_{t-1}\}],

and the thresholds are the largest ones, with equality until all is explored.
"""

from functools import lru_cache
from math import inf

import numpy as np

from rcb_bayes.baselines.learner import Remembering, only, shared_oracle
from rcb_bayes.baselines.reward_laws import NormalLaw, RewardLaw, SampledLaw, root
from rcb_bayes.baselines.user_types import sole_user
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR, ORGANIC, PROMOTED, Decisions, chosen
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.running.history import History
from rcb_bayes.running.oracle import Predictor
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, Table, as_count

_N_WORLDS = 4000
_MOST_THRESHOLDS = 100_000


def kremer_thresholds(first: RewardLaw, second: RewardLaw, *, horizon: int | None = None) -> FloatArray:
    r"""i_2, i_3, ... of users 2, 3, ..., up to the one from whom on nothing changes.

    Parameters
    ----------
    first, second : RewardLaw
        Laws of the rewards of the arm that users prefer and of the other.
    horizon : int, optional
        T; user t explores only where that is worth it, up to the root of :math:`(T - t) E[(R_2 - r)^+] = r - \mu_2`.
        None: always.

    Returns
    -------
    ndarray
        Thresholds in order, infinite where everybody left explores; empty where nobody ever can.

    Raises
    ------
    RcbError
        Arms in the wrong order, a horizon below 2.
    """
    level = second.mean
    if first.mean < level - 1e-12 * max(abs(level), 1.0):
        raise RcbError(
            f"The first arm must be the one that users prefer, its mean is {first.mean:.4g} and the second's "
            f"{level:.4g}. Exchange them."
        )
    most = _MOST_THRESHOLDS if horizon is None else as_count(horizon, name="horizon", least=2) - 1
    found: list[float] = []
    last, known, gain = -inf, 0.0, 0.0  # i_{t-1}, what exploring so far has cost, what it brings a user now
    for t in range(2, 2 + most):
        reach = first.reach(known + gain, level=level)
        if horizon is not None:
            reach = min(reach, worth_exploring(second, horizon - t))
        if not reach > last:
            break
        found.append(reach)
        if reach == inf:
            break
        gain += first.integral(second.excess, last, reach)
        last, known = reach, first.partial(reach, level=level)
    return np.array(found)


def worth_exploring(second: RewardLaw, n_left: int) -> float:
    """The largest reward of the first arm at which n later users gain as much as exploring costs."""

    def worth(r: float) -> float:
        return n_left * float(second.excess(np.array(r))) - (r - second.mean)

    high = 1.0
    while worth(second.mean + high) > 0.0:
        high *= 2.0
    return root(worth, second.mean, second.mean + high)


class Kremer(Remembering):
    r"""The optimal policy of Kremer, Mansour and Perry, with noise: rewards are learnt by n samples.

    Rounds come in phases of n. The first phase is the preferred arm's and gives its posterior mean :math:`M_1`, which
    takes the place of :math:`R_1` in the thresholds; the other arm is explored in the phase t with
    :math:`i_{t-1} < M_1 \le i_t`, and the better one by posterior means is recommended from then on. A user's
    arithmetic is the same with posterior means as with rewards: the constraint holds with equality, as without noise.

    Source: Kremer, Mansour and Perry, "Implementing the 'wisdom of the crowd'", 2014.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_samples : int
        n.
    horizon : int, optional
        Rounds, by which exploration has to pay; None for ever.
    learn : bool
        Whether posterior means go on with later data, once both arms were tried; they are renewed whenever the data
        have doubled. Users only follow more gladly then.
    seed : int
        The same seed gives the same answer.

    Attributes
    ----------
    thresholds : ndarray
        Of the phases 2, 3, ...; empty where users would never try the other arm.

    Raises
    ------
    RcbError
        More than two arms, users who differ, arms that are not independent, counts too small.

    Applicability
    -------------
    Two independent arms, users who are all alike (one row of covariates, such as x = 1), and one belief of users and
    platform. Gaussian beliefs have thresholds in closed form, others those of simulated posterior means, which hold up
    to Monte Carlo error; Bernoulli rewards make posterior means discrete, and thresholds that do not split an atom
    leave some slack. Covariates are refused: thresholds would differ by user, and one user's sample tells about
    another's reward.

    Examples
    --------
    Users who are all alike:

    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5], [0.4]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    >>> rcb.baselines.Kremer(market, horizon=1000).thresholds.round(2)
    array([1.  , 1.44])
    """

    def __init__(
        self,
        market: Market,
        *,
        n_samples: int = 1,
        horizon: int | None = None,
        learn: bool = True,
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.market = market
        self.n_samples = as_count(n_samples, name="n_samples", least=1)
        n_phases = None
        if horizon is not None:
            n_phases = max(2, as_count(horizon, name="horizon", least=2) // self.n_samples)
        self.learn = learn
        self.first, self.thresholds = _planned(market, self.n_samples, n_phases)
        self.user = sole_user(market, what="Kremer's policy")
        self.oracle = shared_oracle(market)
        rows = self.oracle.needs_rows
        self.history = History(2, market.n_features)
        self._data = History(2, market.n_features, keep_rows=rows)
        self.predictor: Predictor = self.oracle.fit(self._data)
        self.rounds = 0
        self._tried_both = -1  # the round by which both arms were tried
        self._explores = inf  # the phase, from 0, in which the second arm is tried
        self._next_fit = inf

    @property
    def second(self) -> int:
        """The position of the arm that users do not prefer."""
        return 1 - self.first

    @property
    def cold_start_length(self) -> int:
        """Rounds until both arms were tried, -1 before."""
        return self._tried_both

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the next change."""
        stage, upto = self._stage()
        n = int(min(len(x), upto - self.rounds))
        scores = self.predictor.scores(features[:, :n])
        return chosen(self._shares(stage, scores), scores, uniforms, stage=stage, counted=stage != ORGANIC)

    def recommend_proba(self, x: Table) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        return self._shares(self._stage()[0], self.predictor.scores(np.ascontiguousarray(x.T))).T

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Learn, and go to the next phase where one is over."""
        stage, _ = self._stage()
        n = self.n_samples
        self.rounds += len(decisions)
        self.history.add(x, decisions.arm, reward)
        if stage in (MOST_POPULAR, PROMOTED) or self.learn:
            self._data.add(x, decisions.arm, reward)
        if stage == MOST_POPULAR and self.rounds == n:
            self._fit()
            known = float(self.predictor.scores(self.user[:, None])[self.first, 0])
            place = int(np.searchsorted(self.thresholds, known))
            self._explores = 1 + place if place < len(self.thresholds) else inf
        elif stage == PROMOTED and self.rounds == (self._explores + 1) * n:
            self._fit()
            self._tried_both = self.rounds
            self._next_fit = 2 * self.rounds if self.learn else inf
        elif self.rounds >= self._next_fit:
            self._fit()
            self._next_fit = 2 * self.rounds

    def _fit(self) -> None:
        self.predictor = self.oracle.fit(self._data)

    def _stage(self) -> tuple[int, float]:
        """The stage, and the round at which it or the estimates change."""
        n = self.n_samples
        if self.rounds < n:
            return MOST_POPULAR, n
        if self.rounds < self._explores * n:
            return ORGANIC, self._explores * n
        if self.rounds < (self._explores + 1) * n:
            return PROMOTED, (self._explores + 1) * n
        return EXPLOIT, self._next_fit

    def _shares(self, stage: int, scores: FloatArray) -> FloatArray:
        if stage == EXPLOIT:
            return best_shares(scores, axis=0)
        return only(self.second if stage == PROMOTED else self.first, scores)


@lru_cache(maxsize=16)
def _planned(market: Market, n_samples: int, n_phases: int | None) -> tuple[int, FloatArray]:
    """The arm that users prefer, and the thresholds; once for all worlds of a market."""
    if market.n_arms != 2:
        raise RcbError(f"Kremer's policy is for two arms, got {market.n_arms}. Use HiddenExploration for more.")
    user = sole_user(market, what="Kremer's policy")
    if not market.prior.arms_independent or market.prior.has_sigma:
        raise RcbError("Kremer's policy is for independent arms and a known sigma. Use rcb.calibrate instead.")
    before = expected_rewards(market.prior, market.noise, user[None])[0]
    first = int(before.argmax())
    laws = _laws(market, user, n_samples, before)
    return first, kremer_thresholds(laws[first], laws[1 - first], horizon=n_phases)


def _laws(market: Market, user: FloatArray, n: int, before: FloatArray) -> list[RewardLaw]:
    """Laws of both arms' posterior means after n samples, whose own means are known, (2,)."""
    prior, sigma = market.prior, getattr(market.noise, "sigma", None)
    if prior.law is not None and prior.is_gaussian and sigma is not None:
        covariance, d = prior.law.covariance(), market.n_features
        laws: list[RewardLaw] = []
        for arm, mean in enumerate(before):
            variance = float(user @ covariance[arm * d : (arm + 1) * d, arm * d : (arm + 1) * d] @ user)
            spread = variance / np.sqrt(variance + sigma**2 / n)
            laws.append(NormalLaw(mean=float(mean), sd=spread) if spread > 0 else SampledLaw(np.array([mean])))
        return laws
    stages = Stages(market, n_per_arm=n, n_worlds=_N_WORLDS)
    draws = [stages.rewards([arm], users=user[None])[arm, 0] for arm in range(2)]
    return [SampledLaw(own - own.mean() + mean) for own, mean in zip(draws, before, strict=True)]
