"""What users make of a recommendation: the arm that each of them takes.

A platform sees the arm taken and its reward. In a cold start a sample counts if it is of the arm that was recommended,
and the next one takes the place of one that does not, as ``Recommender.observe(..., taken=...)`` has it: which samples
count then depends on who follows, and on nothing else as long as users do not act on what they will get. In
exploitation, and of policies without a cold start, a reward is that of the arm taken.

What users do has a room of its own, ``behaviour``; runs know these protocols only.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, Decisions
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import Moment
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.planning.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offers:
    """What users of rounds in a row are told, and what is theirs alone.

    Attributes
    ----------
    features : as beliefs see them, (n, d)
    arm : recommended, (n,)
    moment : where the run is; None of a policy that does not say
    whims : uniform numbers of their own, (n, 3): who she is, what she makes of it, what she then picks
    noise : the standard normal part of her reward, whatever the arm, (n,); None where it is not known in advance
    rewards : arms (n,) -> what she would get of them, (n,)
    """

    features: FloatArray
    arm: np.ndarray
    moment: Moment | None
    whims: FloatArray
    noise: FloatArray | None
    rewards: Callable[[np.ndarray], FloatArray]

    def __len__(self) -> int:
        return len(self.arm)

    def some(self, places: np.ndarray) -> "Offers":
        """Those of some of the users."""
        every = self.rewards

        def rewards(arm: np.ndarray) -> FloatArray:
            whole = self.arm.copy()
            whole[places] = arm
            return every(whole)[places]

        return Offers(
            features=self.features[places],
            arm=self.arm[places],
            moment=self.moment,
            whims=self.whims[places],
            noise=None if self.noise is None else self.noise[places],
            rewards=rewards,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """What users may know of what they are part of: the market, what runs, for how long, and a seed."""

    market: Market
    plan: "Plan | None"
    horizon: int
    options: Exploiting
    seed: int


class Conduct(Protocol):
    """Users of one world, who may remember."""

    def take(self, offers: Offers) -> np.ndarray:
        """Positions of the arms that users take, in the order in which they come, (n,)."""
        ...


@runtime_checkable
class Behaviour(Protocol):
    """What users do, in any world."""

    def check(self, market: Market, plan: Any) -> None:
        """Refuse what cannot be, before anything is drawn; ``plan`` is a plan, or whatever else runs."""
        ...

    def prepared(self, scene: Scene) -> Callable[[], Conduct]:
        """What makes users of a world; what is the same in all worlds is worked out here, once."""
        ...

    def response(self, market: Market, prior_rewards: FloatArray) -> FloatArray:
        """The chance that each user takes arm a as arm i is recommended, (U, K, K) in the order of i, a.

        By what users expect before any data, (U, K).

        Raises
        ------
        RcbError
            Users of whom that is not known before a run.
        """
        ...


def responding(market: Market, behaviour: Behaviour | None) -> Market:
    """The market whose users do as a behaviour has it, for whoever simulates its mechanism without a run.

    Raises
    ------
    RcbError
        Users of whom it is not known before a run what they do.
    """
    if behaviour is None:
        return market
    behaviour.check(market, None)
    behaviour.response(market, np.zeros((1, market.n_arms)))  # refused here, before anything is drawn
    return replace(market, response=partial(behaviour.response, market))


def as_taken(decisions: Decisions, taken: np.ndarray) -> Decisions:
    """Decisions as a policy learns of them: the arms taken; in a cold start others than recommended do not count."""
    own = (taken == decisions.arm) | (decisions.stage == EXPLOIT)
    return replace(decisions, arm=taken, counted=decisions.counted & own)
