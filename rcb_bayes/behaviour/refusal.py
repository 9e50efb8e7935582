"""Users who refuse by a taste that nobody sees: what they then get is no fair sample of an arm."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from rcb_bayes.baselines.learner import as_rate
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.kernel import pick
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.running.conduct import Conduct, Offers, Scene
from rcb_bayes.schema import Table, position_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    r"""Users who refuse where a taste of their own is low, which is part of what they would get.

    With z the standard normal noise of a user's reward and e a normal number of her own, her taste is
    :math:`k z + \sqrt{1 - k^2}\, e`. The share of users with the lowest taste refuses the arm and takes the arm she
    expects most of among the others. Who takes the arm has more of the noise than who does not: the platform's
    posterior is too good for the arm and too bad for what refusers take. The recommendation is not so: see
    ``rcb.behaviour.instrument``.

    Parameters
    ----------
    arm : str, optional
        What they refuse; unless given, whatever is not their own favourite.
    share : float
        Of users who refuse it.
    known : float
        k, the correlation of the taste and the noise, between 0 (refusal by chance) and 1.

    Raises
    ------
    RcbError
        A share or a correlation that is not between 0 and 1; when it is used: an arm that the market does not have.

    Applicability
    -------------
    The taste moves the rewards of all arms alike: users who get more of one arm than others like them get more of any.
    Where a taste is for one arm, an instrument tells of those who follow, and not of all.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> users = rcb.behaviour.Refusal(arm="new", share=0.4, known=0.8)
    >>> runs = rcb.simulate(market, plan, horizon=2000, n_worlds=5, behaviour=users, seed=1)
    >>> offered, taken = runs["offer_n"].sum("world").sel(offered="new").values.sum(), runs["offer_n"].sum("world")
    >>> round(float(taken.sel(offered="new", taken="old") / offered), 1)
    0.4
    """

    arm: str | None = None
    share: float = 0.3
    known: float = 0.5

    def __post_init__(self) -> None:
        as_rate(self.share, name="share")
        as_rate(self.known, name="known")

    def check(self, market: Market, plan: Any) -> None:
        """Refuse an arm that is not there."""
        if self.arm is not None:
            position_of(self.arm, market.arms)

    def prepared(self, scene: Scene) -> Callable[[], Conduct]:
        """The same users in every world."""
        users = _Refusing(self, scene.market)
        return lambda: users

    def response(self, market: Market, prior_rewards: Table) -> NoReturn:
        """How often is known, but not what they would have got."""
        raise RcbError(
            "Users who refuse by taste make samples that no belief allows for: no plan can be made for that. Plan for "
            "users who follow, simulate with behaviour=Refusal(...), and look at rcb.behaviour.instrument."
        )


class _Refusing:
    def __init__(self, refusal: Refusal, market: Market) -> None:
        self._refusal, self._market = refusal, market
        self._arm = None if refusal.arm is None else position_of(refusal.arm, market.arms)

    def take(self, offers: Offers) -> np.ndarray:
        from scipy.special import ndtr, ndtri

        if offers.noise is None:
            raise RcbError("Who refuses by taste has to know her own: pass the noise of her reward (noise=).")
        known = self._refusal.known
        taste = known * offers.noise + np.sqrt(1.0 - known**2) * ndtri(offers.whims[:, 1])
        expected = expected_rewards(self._market.prior, self._market.noise, offers.features)
        columns = np.arange(len(offers))
        if self._arm is None:
            refusable = best_shares(expected)[columns, offers.arm] == 0.0
        else:
            refusable = offers.arm == self._arm
        refuses = refusable & (ndtr(taste) < self._refusal.share)
        others = expected.copy()
        others[columns, offers.arm] = -np.inf
        return np.where(refuses, pick(best_shares(others).T, offers.whims[:, 2]), offers.arm)
