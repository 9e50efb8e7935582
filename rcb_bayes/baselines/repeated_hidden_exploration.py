r"""Repeated hidden exploration: any bandit algorithm, made to be followed.

With probability e a round belongs to the inner policy, which learns from such rounds only; else the best arm by
everything that warm-up and explored rounds have shown is recommended. With two arms, :math:`G = E[\mu_2 - \mu_1 | S]`
given the warm-up and :math:`F = E[G^+]`, a user who is told arm 2 gains at least :math:`(1 - e) F` by the rounds of
exploitation and loses at most :math:`e (F + E[\mu_1 - \mu_2])` by the others, whatever the inner policy does:

.. math:: F > e (2 F + E[\mu_1 - \mu_2]), \qquad \text{so, with rewards in } [0, 1], \qquad e < F / 3.

With more arms :math:`F_{ij} = E[(m_i - m_j) 1\{i = \arg\max m\}]`, :math:`H_{ij} = E[(m_j - m_i)^+]`, and
:math:`e < \min_{ij} F_{ij} / (F_{ij} + H_{ij})`, which is the same for two.
"""

from functools import lru_cache
from typing import Literal

import numpy as np

from rcb_bayes.baselines.cold_started import collecting
from rcb_bayes.baselines.hidden_exploration import RefittedLater, settled_rate
from rcb_bayes.baselines.learner import as_rate, shared_oracle
from rcb_bayes.baselines.user_types import panel_of, sole_user
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares, is_best
from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR, PROMOTED, Decisions
from rcb_bayes.mechanism.kernel import pick
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.running.history import History
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count, is_number, no_such

Rule = Literal["sharp", "third"]
WarmUp = Literal["preferred", "all"]
_WORDS = {"rule": ("sharp", "third"), "warm_up": ("preferred", "all")}
_N_WORLDS = 4000
_Z = 3.0  # Monte Carlo errors that are left
_LEAST_RATE = 1e-6


def repeated_rate(gain: float, loss: float | None = None, *, prior_gap: float = 0.0, rule: str = "sharp") -> float:
    """The exploration rate e up to which users follow, from F = E[G+].

    Parameters
    ----------
    gain : float
        F.
    loss : float, optional
        H, what an explored user loses at most; F + E[mu_1 - mu_2] unless given.
    prior_gap : float
        E[mu_1 - mu_2].
    rule : str
        "sharp" for F / (F + H), "third" for F / 3.

    Returns
    -------
    float
        e.

    Raises
    ------
    RcbError
        Numbers that are negative, another rule.
    """
    _check_word("rule", rule)
    lost = gain + prior_gap if loss is None else loss
    if not all(is_number(value) and value >= 0 for value in (gain, lost, prior_gap)):
        raise RcbError(
            f"gain, loss and prior_gap must be numbers of at least 0, got {gain!r}, {lost!r}, {prior_gap!r}."
        )
    if rule == "third":
        return min(gain / 3.0, 1.0)
    return gain / (gain + lost) if gain > 0 else 0.0


@lru_cache(maxsize=16)
def estimate_repeated_rate(
    market: Market, *, n_per_arm: int, warm_up: str, rule: str, n_worlds: int = _N_WORLDS, seed: int = DEFAULT_SEED
) -> float:
    """The rate that the warm-up allows, of the user who allows the least; F and H three errors on the safe side.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    n_per_arm : int
        Samples of every arm that is known.
    warm_up : str
        Which arms are sampled before: see ``RepeatedHiddenExploration``.
    rule : str
        How the rate is bounded: see ``RepeatedHiddenExploration``.
    n_worlds : int
        Worlds drawn from the users' belief.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    float
        The rate, with what it rests on.
    """
    users = panel_of(market)
    stages = Stages(market, n_per_arm=n_per_arm, n_worlds=n_worlds, seed=seed)
    every = range(market.n_arms)
    sampled = [_preferred(market, users)] if warm_up == "preferred" else list(every)
    rewards = stages.rewards(sampled, users=users)  # (K, U, W)
    best = is_best(rewards, axis=0)
    rate = 1.0
    for i in every:
        for j in every:
            if i == j:
                continue
            lead = rewards[i] - rewards[j]
            gain = _bound(np.where(best[i], lead, 0.0), -_Z)
            loss = _bound(np.maximum(-lead, 0.0), _Z)
            rate = min([rate, *(repeated_rate(float(f), float(h), rule=rule) for f, h in zip(gain, loss, strict=True))])
    return rate


def _bound(values: FloatArray, z: float) -> FloatArray:
    """Means over worlds and z errors, at least 0: (U, W) -> (U,)."""
    return np.maximum(values.mean(axis=1) + z * values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]), 0.0)


def _preferred(market: Market, users: FloatArray) -> int:
    return int(expected_rewards(market.prior, market.noise, users)[0].argmax())


def _check_word(name: str, word: object) -> None:
    if word not in _WORDS[name]:
        raise no_such(f"{name}", word, _WORDS[name])


class PreferredFirst:
    """N rounds of the arm that users prefer."""

    def __init__(self, market: Market, *, n: int) -> None:
        user = sole_user(market, what="A warm-up with the preferred arm alone")
        if market.n_arms != 2:
            raise RcbError(
                f"A warm-up with the preferred arm alone is for two arms, got {market.n_arms}. Use warm_up='all'."
            )
        oracle = shared_oracle(market)
        self.history = History(2, market.n_features, keep_rows=oracle.needs_rows)
        self.n = n
        self.arm = _preferred(market, user[None])
        self._prior = oracle.fit(self.history)

    @property
    def is_over(self) -> bool:
        """Whether the arm has its samples."""
        return self.history.n_samples >= self.n

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """The arm, to the end."""
        n = min(len(x), self.n - self.history.n_samples)
        return Decisions(
            arm=np.full(n, self.arm),
            stage=np.full(n, MOST_POPULAR, dtype=np.int8),
            counted=np.ones(n, dtype=bool),
            probabilities=self.probabilities(x[:n], features[:, :n]),
            scores=self._prior.scores(features[:, :n]),
        )

    def probabilities(self, x: FloatArray, features: FloatArray) -> FloatArray:
        """1 for the arm, (2, n)."""
        out = np.zeros((2, len(x)))
        out[self.arm] = 1.0
        return out

    def absorb(self, x: FloatArray, arm: np.ndarray, reward: FloatArray) -> None:
        """All samples count."""
        self.history.add(x, arm, reward)


class RepeatedHiddenExploration(RefittedLater):
    r"""Any policy, hidden among recommendations of the best arm: with probability e a round is the inner policy's.

    .. math:: F > e (2 F + E[\mu_1 - \mu_2]) \quad \text{(sharp)}, \qquad e < F / 3 \quad \text{(third)}, \qquad
              F = E[(E[\mu_2 - \mu_1 | S])^+]

    Source: Mansour, Slivkins and Syrgkanis, "Bayesian incentive-compatible bandit exploration", 2015 and 2020;
    Slivkins, "Introduction to multi-armed bandits", 2019, chapter on bandits and agents.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    inner : callable
        A function (market, seed) -> policy, such as ``lambda market, seed: LinUcb(market)``.
    n_per_arm : int
        Samples of the warm-up.
    rate : float, optional
        e, what the belief allows unless given.
    rule : {"sharp", "third"}
        By which it is computed, "sharp" or "third".
    warm_up : {"preferred", "all"}
        "preferred": only of the arm that users prefer; "all": of every arm, by hidden exploration.
    inverse_rate : float, optional
        Of that hidden exploration, from the belief unless given.
    seed : int
        The same seed gives the same answer.

    Attributes
    ----------
    exploration_rate : float
        e.

    Raises
    ------
    RcbError
        A rate outside [0, 1], other words, a belief that allows no rate, a warm-up that does not apply.

    Applicability
    -------------
    Two independent arms and users who are alike: as proven, whatever the inner policy. "third" supposes rewards in
    [0, 1]. With more arms, or covariates, use ``warm_up="all"``: the rate is that of the user of a panel who allows the
    least, right after the warm-up. Later data help two arms; of more this is not proven. Ask ``audit``. The inner
    policy learns from its own rounds only, so that it takes 1/e times as long.

    Examples
    --------
    Users who are all alike:

    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5], [0.4]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    >>> policy = rcb.baselines.RepeatedHiddenExploration(market, lambda market, seed: rcb.baselines.LinUcb(market))
    >>> round(policy.exploration_rate, 2)
    0.34
    """

    def __init__(
        self,
        market: Market,
        inner: PolicyMaker,
        *,
        n_per_arm: int = 10,
        rate: float | None = None,
        rule: Rule = "sharp",
        warm_up: WarmUp = "preferred",
        inverse_rate: float | None = None,
        seed: int = DEFAULT_SEED,
    ) -> None:
        n = as_count(n_per_arm, name="n_per_arm", least=1)
        _check_word("rule", rule)
        _check_word("warm_up", warm_up)
        given = None if rate is None else as_rate(rate, name="rate")
        if warm_up == "preferred":
            cold = PreferredFirst(market, n=n)
        else:
            found = settled_rate(market, inverse_rate, n_per_arm=n, what="A warm-up by hidden exploration")
            cold = collecting(market, n_per_arm=n, collect="hidden", inverse_rate=found)
        super().__init__(market, cold)
        self.exploration_rate = (
            estimate_repeated_rate(market, n_per_arm=n, warm_up=warm_up, rule=rule) if given is None else given
        )
        if given is None and self.exploration_rate < _LEAST_RATE:
            raise RcbError(
                "Repeated hidden exploration does not apply: after the warm-up some users never come to prefer an arm. "
                "Raise n_per_arm, plan with rcb.calibrate, or give rate."
            )
        self.inner = inner(market, seed)

    def decide_later(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations as far as the inner policy answers, and until the estimates are renewed."""
        assert self.predictor is not None  # the warm-up is over
        rate = self.exploration_rate
        explored = np.flatnonzero(uniforms[:, 0] < rate)[: self._next_fit - self.history.n_samples]
        n = len(x)
        inside = None
        if len(explored):
            coins = uniforms[explored].copy()
            coins[:, 0] /= rate  # uniform again, given that it is below the rate
            inside = self.inner.decide(x[explored], np.ascontiguousarray(features[:, explored]), coins)
            later = np.flatnonzero(uniforms[:, 0] < rate)[len(inside) :]
            n = int(later[0]) if len(later) else n
        scores = self.predictor.scores(features[:, :n])
        best = best_shares(scores, axis=0)
        arm = pick(best, uniforms[:n, 1])
        mine = np.zeros(n, dtype=bool)
        probabilities = (1.0 - rate) * best
        if rate > 0:
            probabilities += rate * self.inner.recommend_proba(x[:n]).T
        if inside is not None:
            own = explored[: len(inside)]
            mine[own], arm[own] = True, inside.arm
            probabilities[:, own] = (1.0 - rate) * best[:, own] + rate * inside.probabilities
        return Decisions(
            arm=arm,
            stage=np.where(mine, PROMOTED, EXPLOIT).astype(np.int8),
            counted=mine,
            probabilities=probabilities,
            scores=scores,
        )

    def proba_later(self, x: FloatArray) -> FloatArray:
        """The mixture, (n, d) -> (n, K)."""
        assert self.predictor is not None  # the warm-up is over
        best = best_shares(self.predictor.scores(np.ascontiguousarray(x.T)), axis=0).T
        return self.exploration_rate * self.inner.recommend_proba(x) + (1.0 - self.exploration_rate) * best

    def update_later(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Feed the inner policy its rounds."""
        own = np.flatnonzero(decisions.counted)
        if not len(own):
            return
        inside = Decisions(
            arm=decisions.arm[own],
            stage=decisions.stage[own],
            counted=np.ones(len(own), dtype=bool),
            probabilities=decisions.probabilities[:, own],
            scores=decisions.scores[:, own],
        )
        self.inner.update(x[own], inside, reward[own])
        self.history.add(x[own], decisions.arm[own], reward[own])
        if self.history.n_samples >= self._next_fit:
            self.begin()
