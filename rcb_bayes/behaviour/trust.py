"""Users who trust the platform as far as it has earned it: epsilon as a balance."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.kernel import pick
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.running.conduct import Conduct, Offers, Scene
from rcb_bayes.schema import FloatArray, Table, as_amount, as_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    r"""Users who take a recommendation at its face value and follow as far as their trust goes.

    A user gives up :math:`\ell = \max_j \mu_0(x, j) - \mu_0(x, i)` by what she knew before any data. She follows where
    that is at most the balance b of what the platform has been trusted with and has earned; who followed and got y
    tells the others, and

    .. math:: b \leftarrow \min(\max(b + r\,(y - \max_j \mu_0(x, j)), b_{min}), b_{max}) .

    So epsilon is spent by recommendations that disappoint and earned by those that please: Assumption 4, that users
    hold on to their beliefs less as time goes by, as something that users do, or the contrary of it.

    Parameters
    ----------
    epsilon : float
        The balance before the first round, in units of the reward.
    rate : float
        r, how much of what somebody got beyond her expectation is added.
    least, most : float
        Between which the balance stays.

    Raises
    ------
    RcbError
        Numbers that are negative or not finite, ``least`` above ``most``.

    Applicability
    -------------
    Who follows depends on rewards that came before, and so do the samples of a cold start and how long it lasts. What
    the platform believes is right all the same, as nobody acts on her own reward; what users who know the mechanism
    would make of its stages is not what an audit assumes.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> runs = rcb.simulate(market, plan, horizon=500, n_worlds=5, behaviour=rcb.behaviour.Trust(epsilon=0.2), seed=1)
    >>> bool(0 < runs["followed"].mean() < 1)
    True
    """

    epsilon: float = 0.05
    rate: float = 0.1
    least: float = 0.0
    most: float = 1e6

    def __post_init__(self) -> None:
        for name in ("epsilon", "least"):
            value = getattr(self, name)
            as_amount(value, name=name)
        as_positive(self.rate, name="rate")
        as_positive(self.most, name="most")
        if not self.least <= self.most:
            raise RcbError(f"least is at most most, got {self.least:g} and {self.most:g}.")

    def check(self, market: Market, plan: Any) -> None:
        """Nothing can be wrong."""

    def prepared(self, scene: Scene) -> Callable[[], Conduct]:
        """Users who begin anew in every world."""
        return lambda: _Trusting(self, scene.market)

    def response(self, market: Market, prior_rewards: Table) -> NoReturn:
        """Not known before a run."""
        raise RcbError(
            "Whom trusting users follow depends on what happened: no plan can be made for that. Plan for users who "
            "follow, and simulate the plan with behaviour=Trust(...)."
        )


class _Trusting:
    """The users of a world; ``balance`` is what they trust the platform with now."""

    def __init__(self, trust: Trust, market: Market) -> None:
        self._trust, self._market = trust, market
        self.balance = min(max(trust.epsilon, trust.least), trust.most)

    def take(self, offers: Offers) -> np.ndarray:
        expected = expected_rewards(self._market.prior, self._market.noise, offers.features)  # (n, K)
        best = expected.max(axis=1)
        loss = best - expected[np.arange(len(offers)), offers.arm]
        earned = (self._trust.rate * (offers.rewards(offers.arm) - best)).tolist()
        follows = np.empty(len(offers), dtype=bool)
        for place, gap in enumerate(loss.tolist()):
            follows[place] = gap <= self.balance
            if follows[place]:
                self.balance = min(max(self.balance + earned[place], self._trust.least), self._trust.most)
        own: FloatArray = best_shares(expected).T
        return np.where(follows, offers.arm, pick(own, offers.whims[:, 2]))
