r"""Values of a policy from a log of another: five estimators, over arrays.

In round t of a log user :math:`x_t` was told arm :math:`a_t` with probability :math:`e_t(a_t | x_t)`, which may depend
on all that came before, and got :math:`y_t`. Of a policy :math:`\pi` let :math:`w_t = \pi(a_t | x_t)/e_t(a_t | x_t)`
and :math:`\hat\mu_t` a regression on rounds before t alone. It is fitted first after 20 rounds, then again after half
as many more (20, 30, 45, 67, ...), each time to all rounds before, and serves until the next fit; the first 20 rounds
have that of no data. These are the folds of ``dr`` and ``adaptive``. The value
:math:`V = E[\sum_a \pi(a | x) \mu(x, a)]` is estimated by

- ``ips``, :math:`\frac1n \sum w_t y_t`;
- ``snips``, :math:`\sum w_t y_t / \sum w_t`;
- ``dr``, :math:`\frac1n \sum \Gamma_t` with
  :math:`\Gamma_t = \sum_a \pi(a | x_t) \hat\mu_t(x_t, a) + w_t (y_t - \hat\mu_t(x_t, a_t))`;
- ``adaptive``, :math:`\sum h_t \Gamma_t / \sum h_t`;
- ``direct``, the average of :math:`\sum_a \pi(a | x_t) \hat\mu(x_t, a)` with a regression on all rounds.

Given the past every :math:`\Gamma_t` has mean V, so that their average is unbiased whoever collected the log. Its
*interval* is another matter. Where propensities drift with the rewards, so does the conditional variance of
:math:`\Gamma_t`, and the average is not normal; where they get small, an arm that the policy wants was told a few times
or never, and what was *seen* of :math:`\Gamma_t` says nothing of how it varies. ``adaptive`` answers both:

- weights known before round t and inverse to the conditional standard deviation, :math:`h_t = v_t^{-1/2}` with
  :math:`v_t` an average of :math:`u_s = \sum_a \pi(a | x_s)^2 / e_s(a | x_s)` over rounds s just before t, make the
  variance of every term alike (Hadad, Hirshberg, Zhan, Wager and Athey 2021; Bibaut, Dimakopoulou, Kallus, Chambaz and
  van der Laan 2021);
- the error is that which the propensities *predict*,
  :math:`\sum h_t^2 (\sum_a \pi(a | x_t)^2 r_a^2 / e_t(a | x_t) + s^2) / (\sum h_t)^2`, or what was seen if that is
  more. :math:`r_a^2` is the mean square of an arm's residuals :math:`y_t - \hat\mu_t`, :math:`s^2` the variance of
  :math:`\sum_a \pi \hat\mu_t` over users. A martingale over its predicted deviation is normal in the limit, whatever
  was told. It takes the propensities of all arms; with those of the arms told alone it is what was seen.

A price of its weights: what it divides by depends on rewards. A low draw of an arm makes the arm rare and keeps its
weight, a high one is diluted, so that ``adaptive`` is low in short logs, by some 6 % of its error: in 150 rounds of
Thompson sampling by .0076 +- .0010 at rates of .2 to .45 (error .10; tests/evaluation), by .013 +- .003 with
normal rewards (error .22). ``dr`` is not. The interval of ``adaptive`` is wide enough for it.

Rewards in [0, 1] have intervals of their own, ``evaluation.bounded``, and :math:`\hat\mu` is cut to [0, 1].
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcb_bayes.evaluation.bounded import Terms, kish
from rcb_bayes.schema import FloatArray

MEMORY = 100.0
"""Rounds over which the variance of a round to come is averaged."""
_MOST_CUT = 0.1  # of a policy


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounds:
    """Rounds of a log that count.

    Attributes
    ----------
    arm, reward : what was told and what came of it, (n,)
    policy : what is evaluated, (n, K)
    own : propensities of the arms told, (n,)
    propensities : of every arm, (n, K); None where they are not known
    cut, gift : how much of the policy is left out, and what it is taken to have earned, (n,)
    """

    arm: np.ndarray
    reward: FloatArray
    policy: FloatArray
    own: FloatArray
    propensities: FloatArray | None
    cut: FloatArray
    gift: FloatArray

    @cached_property
    def ratio(self) -> FloatArray:
        """w, (n,)."""
        return self.of_told(self.policy) / self.own

    @cached_property
    def ratios(self) -> FloatArray:
        """What w could have been, by arm, (n, K): where propensities are not known, 0 but for the arm told."""
        if self.propensities is None:
            return self.ratio[:, None] * np.eye(self.policy.shape[1])[self.arm]
        return self.policy / np.where(self.policy > 0.0, self.propensities, 1.0)

    def at_worst(self, most: float) -> "tuple[Rounds, Rounds]":
        """The same but for arms with weights above the most, which are taken to earn 0, or 1."""
        heavy = self.ratios > most
        cut = np.where(heavy, self.policy, 0.0).sum(axis=1)
        left = replace(self, policy=np.where(heavy, 0.0, self.policy), cut=cut)
        return left, replace(left, gift=cut)

    def of_told(self, by_arm: FloatArray) -> FloatArray:
        """Of the arm told, (n,), what is known of each, (n, K)."""
        return by_arm[np.arange(len(self.arm)), self.arm]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An estimate of a policy's value, its standard error, and what it rests on.

    Attributes
    ----------
    n_effective : rounds that carry weight, as Kish counts them: m equal weights that tell as much
    degrees : of freedom of Student's t
    n_events : the same of rewards that carry weight, each counted by what it is; NaN without bounds
    ends : an interval that is not Student's
    """

    value: float
    mcse: float
    n_effective: float
    degrees: float
    n_events: float = np.nan
    ends: tuple[float, float] | None = None

    def bounds(self, level: float) -> tuple[float, float]:
        """An interval that misses with probability ``level``."""
        from scipy import stats

        if self.ends is not None:
            return self.ends
        half = float(stats.t.isf(level / 2.0, max(self.degrees, 1.0))) * self.mcse
        return self.value - half, self.value + half


def value_of(terms: Terms, weights: FloatArray, *, predicted: float = 0.0) -> Value:
    """The v at which terms u - v m sum to 0, and its error: what is seen of them, or what was predicted if it is more.

    Parameters
    ----------
    terms : u and m
    weights : h, known before each round, (n,)
    predicted : the error as propensities predict it, whose degrees of freedom are those of the weights
    """
    total, n = terms.m.sum(), kish(weights)
    own = kish(terms.weight)
    if total <= 0.0:
        return Value(value=np.nan, mcse=np.nan, n_effective=own, degrees=0.0)
    value = float(terms.u.sum() / total)
    seen = float(np.linalg.norm(terms.u - value * terms.m) / total * np.sqrt(n / max(n - 1.0, 1.0)))
    if predicted:
        return Value(value=value, mcse=max(predicted, seen), n_effective=own, degrees=n - 1.0)
    # Where no round was told what the policy tells, all terms are 0, which says nothing.
    return Value(value=value, mcse=seen if own else np.nan, n_effective=own, degrees=own - 1.0)


def within_bounds(
    found: Value, weight: FloatArray, reward: FloatArray, ends: tuple[float, float], *, level: float
) -> Value:
    """The same with an interval within [0, 1], and an error of its width where no event carries weight, or all do."""
    from scipy import stats

    n, k, others = found.n_effective, kish(weight * reward), kish(weight * (1.0 - reward))
    most = (level / 2.0) ** (1.0 / n) if n else 0.0  # what n rounds with events alone would leave
    lower, upper = np.clip(ends, (0.0, 1.0 - most), (most, 1.0)).tolist()
    unseen = 0.0 if k and others else (upper - lower) / (2.0 * float(stats.norm.isf(level / 2.0)))
    return replace(found, n_events=k, ends=(lower, upper), mcse=max(found.mcse, unseen))


def squared_residuals(residual: FloatArray, arm: np.ndarray, propensity: FloatArray, *, n_arms: int) -> FloatArray:
    """The mean square of each arm's residuals, (K,): over the rounds that told it, or over all, whichever is more.

    All arms' together count as one round more of each, so that an arm told never or once has an answer.
    """
    pooled = float((residual**2).mean())
    out = np.full(n_arms, pooled)
    for k in range(n_arms):
        own = residual[arm == k] ** 2
        inverse = 1.0 / propensity[arm == k]
        if len(own):
            plain = (own.sum() + pooled) / (len(own) + 1)
            overall = (inverse @ own + inverse.mean() * pooled) / (inverse.sum() + inverse.mean())
            out[k] = max(plain, overall)
    return out


def terms_of(rounds: Rounds, expected: FloatArray | None, h: FloatArray) -> dict[str, Terms]:
    """Terms of "ips" and "snips", and with expected rewards (n, K) of "dr", and "adaptive" with weights h."""
    w, ratios, cut = rounds.ratio, rounds.ratios, rounds.cut
    one, most = np.ones(len(w)), ratios.max(axis=1)
    ends = {"u": w * rounds.reward + rounds.gift, "least": rounds.gift, "most": most + rounds.gift, "weight": w}
    found = {"ips": Terms(m=one, reach=one, **ends), "snips": Terms(m=w + cut, reach=most + cut, **ends)}
    if expected is None:
        return found
    mean = (rounds.policy * expected).sum(axis=1) + rounds.gift
    scores = mean + w * (rounds.reward - rounds.of_told(expected))
    least, most = mean - (ratios * expected).max(axis=1), mean + (ratios * (1.0 - expected)).max(axis=1)
    for name, by in (("dr", one), ("adaptive", h)):
        found[name] = Terms(u=by * scores, m=by, least=by * least, most=by * most, reach=by, weight=by * w)
    return found


def heaviest(rounds: Rounds, *, level: float) -> float:
    """C, the largest weight that a bounded interval takes as it is.

    Without any event an upper end is log(2/level) C/n, and more by the share of the policy that is heavier: the least.
    """
    if rounds.propensities is None:
        return np.inf
    ratios, policy = rounds.ratios[rounds.policy > 0.0], rounds.policy[rounds.policy > 0.0]
    order, n = np.argsort(-ratios), len(rounds.arm)
    heavier = (policy[order].cumsum() - policy[order]) / n
    cost = np.log(2.0 / level) * ratios[order] / n + heavier
    return float(ratios[order][np.argmin(np.where(heavier <= _MOST_CUT, cost, np.inf))])


def steadied(rounds: Rounds, expected: FloatArray) -> tuple[FloatArray, float]:
    """Weights h of "adaptive", and the error that propensities predict, 0 where they are not known."""
    k = rounds.policy.shape[1]
    if rounds.propensities is None:
        return steadying_weights(rounds.ratio**2, first=float(k)), 0.0
    squares = rounds.policy * rounds.ratios
    h = steadying_weights(squares.sum(axis=1), first=float(k))
    by_arm = squared_residuals(rounds.reward - rounds.of_told(expected), rounds.arm, rounds.own, n_arms=k)
    variance = squares @ by_arm + (rounds.policy * expected).sum(axis=1).var()
    return h, float(np.sqrt(h**2 @ variance) / h.sum())


def steadying_weights(squares: FloatArray, *, first: float, memory: float = MEMORY) -> FloatArray:
    """Weights v^(-1/2), (n,), with v the average of the squares before each round, older ones counting less.

    Parameters
    ----------
    squares : what is known after each round, (n,)
    first : what v is before any of them, and counts as one of them
    memory : rounds after which a square counts exp(-1) of what it did
    """
    from scipy.signal import lfilter

    keep = np.exp(-1.0 / memory)
    sums = lfilter([1.0], [1.0, -keep], np.concatenate([[first], squares[:-1]]))
    counts = lfilter([1.0], [1.0, -keep], np.ones(len(squares)))
    return 1.0 / np.sqrt(np.asarray(sums) / np.asarray(counts))
