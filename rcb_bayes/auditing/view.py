"""What an audit looks at: a stage in simulated worlds of the users' belief, as users of a panel see it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.margins import steadied_terms
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.panel import Panel, panel_of
from rcb_bayes.schema import FloatArray

_BY_PRODUCT_USERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an audit is asked; ``users`` (U, d) where they are given rather than drawn at random."""

    notion: Notion
    epsilon: float
    n_worlds: int
    n_users: int
    level: float
    seed: int
    users: FloatArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmForm:
    """An untried arm's form with all rewards averaged out: what is left to differ between worlds is who was sampled.

    Attributes
    ----------
    fixed : the probability with which it is recommended whatever the data, (U,)
    chances : that with which it is recommended as the best, (U, W)
    rewards : what users expect of every arm then, (K, U, W)
    overlap : how much of the worlds' spread stays in their average, however many they are
    """

    fixed: FloatArray
    chances: FloatArray
    rewards: FloatArray
    overlap: float = 0.0


Smoothed = Callable[[int, np.ndarray], ArmForm]
"""The form of an untried arm, for some of a view's users."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """A stage in W worlds, as seen by U users.

    Attributes
    ----------
    chances : the probability with which each arm is recommended, (K, U, W)
    rewards : what users expect of it, m_j(x), (K, U, W)
    prior_rewards : what they expected before any data, (U, K), the mean of ``rewards`` over worlds
    best : shares of the arms that the platform takes for the best, (K, U, W)
    share : of runs that get here before the horizon
    averages : the linear form averaged over the population; None where nobody asks for it
    untried, smoothed : arms whose form is known given who was sampled, and how; none, and None, where there is none
    """

    name: str
    chances: FloatArray
    rewards: FloatArray
    prior_rewards: FloatArray
    best: FloatArray
    share: float = 1.0
    averages: "Averages | None" = None
    untried: tuple[int, ...] = ()
    smoothed: Smoothed | None = None

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return self.chances.shape[2]

    @property
    def n_users(self) -> int:
        """U, the number of users."""
        return self.chances.shape[1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Averages:
    """What a notion that averages over users needs of a stage; K arms, K rivals.

    Attributes
    ----------
    values : the average of p_i (m_i - m_j + epsilon) over users with their weights, in every world, (K, K, W)
    varying : its part that depends on the world, (K, K, W)
    chances : how often each arm is recommended, (K, W)
    user_values, user_chances : of every user, averaged over worlds, (U, K, K) and (U, K)
    fixed_error : of what is the same in all worlds and averaged over users of its own, (K, K)
    is_exact : whether the users are all there are
    n_events : worlds in which some user has the arm as her best, (K,)
    least : the lowest m_i - m_j of any user in any world in which she is recommended i, (K, K)
    """

    values: FloatArray
    varying: FloatArray
    chances: FloatArray
    user_values: FloatArray
    user_chances: FloatArray
    fixed_error: FloatArray
    is_exact: bool
    n_events: np.ndarray
    least: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crowd:
    """The first users of every view, judged one by one (``judged``), and those by whom averages are taken."""

    judged: Panel
    population: Panel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Looked:
    """All that an audit looks at: users, stages, what was left out, and how many posteriors nobody vouches for."""

    crowd: Crowd
    views: list[View]
    notes: tuple[str, ...]
    n_posteriors: int
    n_not_vouched: int


def make_crowd(market: Market, panel: Panel, asked: Asked, *, rng: np.random.Generator) -> Crowd:
    """Users as they come, drawn from the panel; all of them where the panel is a short table; or those given."""
    if asked.users is not None:
        given = panel_of(market, asked.users)
        return Crowd(judged=given, population=given)
    if panel.is_exact and panel.n_users <= asked.n_users:
        return Crowd(judged=panel, population=panel)
    some = rng.choice(panel.n_users, size=asked.n_users, p=panel.weights)
    return Crowd(judged=panel.take(some), population=_population(panel, asked, rng=rng))


def _population(panel: Panel, asked: Asked, *, rng: np.random.Generator) -> Panel:
    """The whole panel where averages over users are asked for, else some of it: then they are a by-product."""
    if not asked.notion.is_per_user:
        return panel
    some, weights = panel.some(_BY_PRODUCT_USERS, rng=rng)
    return panel.take(some, weights=weights, is_exact=panel.is_exact and len(some) == panel.n_users)


def cell_terms(view: View, arm: int, *, epsilon: float, notion: Notion) -> FloatArray:
    """Terms of the linear form for an arm and every rival, (K, U, W)."""
    return steadied_terms(view.chances[arm], view.rewards, view.prior_rewards, arm=arm, epsilon=epsilon, notion=notion)
