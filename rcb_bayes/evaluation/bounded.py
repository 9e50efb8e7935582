r"""Intervals for values of bounded rewards, which hold at a handful of events.

Rewards lie in [0, 1]. Every estimate of ``evaluation.estimators`` is the v at which :math:`\sum_t (u_t - v m_t)` is 0,
and at the true value each term has mean 0 given the past: :math:`u = w y, m = 1` for ``ips``; :math:`u = w y, m = w`
for ``snips``; :math:`u = h \Gamma, m = h` for ``dr`` and ``adaptive``. The interval is that of empirical likelihood:
the lower end is the least v from 0 to the estimate with

.. math:: \max_{0 \le \lambda \le 1/R(v)} \sum_t \log\{1 + \lambda (u_t - v m_t)\} \le c(k, l),

the most that a gambler could have won who bets against "the value is v" and can never lose more than all. So
:math:`R(v)` is the most that a term could have fallen below 0, whichever arm was told and whatever came of it: what was
*not* seen counts by what it could have been, and no event at all still leaves an interval (Karampatziakis, Langford and
Mineiro 2020; Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro 2024). The upper end is one less the lower end for
:math:`1 - y`.

What is won by chance is :math:`c(k, l)`: with equal weights the one at which the interval is that of Clopper and
Pearson, for k events and l rounds without,

.. math::
   c = k \log\frac{k}{(k + l) U} + l \log\frac{l}{(k + l)(1 - U)}, \quad
   U = F^{-1}_{\mathrm{Beta}(k + 1, l)}(1 - \alpha/2)

for the upper end, k and l exchanged for the lower one. With unequal weights k and l are Kish's,
:math:`k = (\sum h w y)^2 / \sum (h w y)^2`, l the same with :math:`1 - y`. c falls from :math:`\log(2/\alpha)` (3.69 at
95 %), without events, at which the product is a test whatever the weights, to half the quantile of chi squared (1.92),
with many, as empirical likelihood has it. In between, with unequal weights, coverage is measured, not proved: at click
rates of .005 to .008, with equal and with small and unequal propensities, and at .3, 95 % of 300 logs at least
(tests/evaluation).

What is assumed of weights, which nothing bounds: those of users to come are no larger than the largest that a round of
the log *could* have had, by the propensities of all arms; with those of the arms told alone, than the largest told. A
single huge one would make R(v) huge, and so every end useless. Weights above C are therefore left out, and their arms
are taken to earn 0 for the lower end, and 1 for the upper end, which only widens the interval. C is the weight at which
:math:`\log(2/\alpha) C/n` and the share of the policy above C are least together, and that share is at most a tenth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.schema import FloatArray

_STEP, _NEAR = 1e-7, 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms u - v m of an estimate, (n,) each, and how far they could have gone.

    Attributes
    ----------
    u, m : as above
    least, most : the least and the most that u could have been
    reach : what m was there
    weight : h w, by which a round counts
    """

    u: FloatArray
    m: FloatArray
    least: FloatArray
    most: FloatArray
    reach: FloatArray
    weight: FloatArray

    @property
    def mirrored(self) -> "Terms":
        """The same for 1 - y, whose value is one less."""
        u, least, most = self.m - self.u, self.reach - self.most, self.reach - self.least
        return Terms(u=u, m=self.m, least=least, most=most, reach=self.reach, weight=self.weight)


def kish(weights: FloatArray) -> float:
    """How many equal weights tell as much: 0 where all are 0."""
    total = weights.sum()
    return float(total**2 / (weights @ weights)) if total > 0.0 else 0.0


def bounded_interval(terms: tuple[Terms, Terms], reward: FloatArray, *, level: float) -> tuple[float, float]:
    """An interval that misses with probability ``level``, from terms for either end and rewards in [0, 1], (n,)."""
    ends = []
    for own, events in ((terms[0], 1.0 - reward), (terms[1].mirrored, reward)):
        threshold = chance_winnings(kish(own.weight * events), kish(own.weight * (1.0 - events)), level=level)
        ends.append(lower_end(own, threshold))
    return ends[0], 1.0 - ends[1]


def chance_winnings(events: float, others: float, *, level: float) -> float:
    """c for the upper end, from k and l; infinite where every round had an event."""
    from scipy import special, stats

    if others <= 0.0:
        return np.inf
    upper = stats.beta.isf(level / 2.0, events + 1.0, others)
    n = events + others
    return float(special.xlogy(events, events / (n * upper)) + others * np.log(others / (n * (1.0 - upper))))


def lower_end(terms: Terms, threshold: float) -> float:
    """The least value that a gambler does not refute."""
    from scipy import optimize

    total = terms.m.sum()
    estimate = min(float(terms.u.sum() / total), 1.0) if total > 0.0 else 0.0

    def excess(value: float) -> float:
        return _winnings(terms, value) - threshold

    if estimate <= _NEAR or not excess(_NEAR) > 0.0:
        return 0.0
    if excess(estimate) > 0.0:
        return estimate  # above 1
    found: Any = optimize.brentq(excess, _NEAR, estimate, xtol=_STEP * estimate)
    return float(found)


def _winnings(terms: Terms, value: float) -> float:
    """The most that could have been won against a value, as a logarithm."""
    from scipy import optimize

    s = terms.u - value * terms.m
    fall = float((value * terms.reach - terms.least).max())
    if s.sum() <= 0.0:
        return 0.0
    if fall <= 0.0:
        return np.inf

    def slope(bet: float) -> float:
        return float((s / (1.0 + bet * s)).sum())

    most = (1.0 - _NEAR) / fall
    bet: Any = most if slope(most) >= 0.0 else optimize.brentq(slope, 0.0, most, xtol=_STEP * most)
    return float(np.log1p(bet * s).sum())
