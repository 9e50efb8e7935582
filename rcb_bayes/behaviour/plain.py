"""Users who do not weigh what they are told: obedient, stubborn, contrary, random."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.kernel import pick
from rcb_bayes.mechanism.panel import expected_rewards
from rcb_bayes.running.conduct import Conduct, Offers, Scene
from rcb_bayes.schema import FloatArray, Table, position_of


class Plain:
    """Users who take arms with chances that depend on who they are and what is recommended, and on nothing else."""

    def check(self, market: Market, plan: Any) -> None:
        """Nothing can be wrong."""

    def prepared(self, scene: Scene) -> Callable[[], Conduct]:
        """The same users in every world."""
        users = _Steady(self, scene.market)
        return lambda: users

    def response(self, market: Market, prior_rewards: Table) -> FloatArray:
        """The chance that each user takes arm a as arm i is recommended, (U, K, K) in the order of i, a."""
        return np.swapaxes(self.chances(market, prior_rewards), 0, 1)

    def chances(self, market: Market, prior_rewards: Table) -> FloatArray:
        """The same with arms recommended first, (K, U, K), by what users expect before any data, (U, K)."""
        raise NotImplementedError


class _Steady:
    def __init__(self, behaviour: Plain, market: Market) -> None:
        self._behaviour, self._market = behaviour, market

    def take(self, offers: Offers) -> np.ndarray:
        expected = expected_rewards(self._market.prior, self._market.noise, offers.features)
        chances = self._behaviour.chances(self._market, expected)[offers.arm, np.arange(len(offers))]
        return pick(chances.T, offers.whims[:, 2])


def _whatever(shares: FloatArray, n_arms: int) -> FloatArray:
    """The same shares (U, K) whatever is recommended."""
    return np.broadcast_to(shares, (n_arms, *shares.shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class Obedient(Plain):
    """Users who take what is recommended.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> runs = rcb.simulate(market, plan, horizon=100, n_worlds=2, behaviour=rcb.behaviour.Obedient(), seed=1)
    >>> float(runs["followed"].mean())
    1.0
    """

    def chances(self, market: Market, prior_rewards: Table) -> FloatArray:
        """1 for the arm recommended, (K, U, K)."""
        u, k = prior_rewards.shape
        return np.broadcast_to(np.eye(k)[:, None, :], (k, u, k))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stubborn(Plain):
    """Users who take their own favourite, whatever is recommended.

    Parameters
    ----------
    arm : str, optional
        What they take; unless given, the arm that each expects most of before any data (of several any).

    Raises
    ------
    RcbError
        When it is used: an arm that the market does not have.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``; they do what is recommended now and then, as it is what they like:

    >>> stubborn = rcb.behaviour.Stubborn()
    >>> runs = rcb.simulate(market, plan, horizon=100, n_worlds=2, behaviour=stubborn, seed=1)
    >>> bool(0 < runs["followed"].mean() < 1), bool((runs["chosen"] == 0).all())
    (True, True)
    """

    arm: str | None = None

    def check(self, market: Market, plan: Any) -> None:
        """Refuse an arm that is not there."""
        if self.arm is not None:
            position_of(self.arm, market.arms)

    def chances(self, market: Market, prior_rewards: Table) -> FloatArray:
        """1 for their favourite, (K, U, K)."""
        k = prior_rewards.shape[1]
        if self.arm is None:
            return _whatever(best_shares(prior_rewards), k)
        own = np.zeros(prior_rewards.shape)
        own[:, position_of(self.arm, market.arms)] = 1.0
        return _whatever(own, k)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrary(Plain):
    """Users who take anything but what is recommended: of the other arms the one they expect most of.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``; with two arms the cold start gets no sample:

    >>> runs = rcb.simulate(market, plan, horizon=100, n_worlds=2, behaviour=rcb.behaviour.Contrary(), seed=1)
    >>> float(runs["followed"].mean()), runs["cold_start_length"].values
    (0.0, array([-1, -1]))
    """

    def chances(self, market: Market, prior_rewards: Table) -> FloatArray:
        """1 for the best other arm, (K, U, K)."""
        k = prior_rewards.shape[1]
        others = np.where(np.eye(k, dtype=bool)[:, None, :], -np.inf, prior_rewards)
        return best_shares(others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Random(Plain):
    """Users who take any arm, each as often, whatever is recommended.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> runs = rcb.simulate(market, plan, horizon=1000, n_worlds=5, behaviour=rcb.behaviour.Random(), seed=1)
    >>> round(float(runs["followed"].mean()), 1)
    0.5
    """

    def chances(self, market: Market, prior_rewards: Table) -> FloatArray:
        """Alike for all arms, (K, U, K)."""
        k = prior_rewards.shape[1]
        return np.full((k, *prior_rewards.shape), 1.0 / k)
