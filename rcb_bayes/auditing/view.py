"""What an audit looks at: a stage in simulated worlds of the users' belief, as users of a panel see it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.knowledge import STAGE, Knowledge
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.panel import Panel, panel_of_people
from rcb_bayes.schema import BoolArray, FloatArray

_LEAST_POPULATION = 100  # users of an average


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an audit is asked; ``users`` (U, d) where they are given rather than drawn at random.

    ``knows`` is what users know of the clock; ``alone`` that no notion but the one asked for is judged.
    """

    notion: Notion
    epsilon: float
    n_worlds: int
    n_users: int
    level: float
    seed: int
    users: FloatArray | None = None
    knows: Knowledge = STAGE
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmForm:
    """An untried arm's form with all rewards averaged out: what is left to differ between worlds is who was sampled.

    Attributes
    ----------
    fixed : the probability with which it is recommended whatever the data, (U,)
    chances : that with which it is recommended as the best, (U, W)
    leads : what it is worth beyond every arm then, (K, U, W)
    overlap : how much of the worlds' spread stays in their average, however many they are
    """

    fixed: FloatArray
    chances: FloatArray
    leads: FloatArray
    overlap: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Smoothed:
    """Forms of untried arms: ``fixed`` of every user and arm, (U, K), and the form of an arm for some of the users."""

    fixed: FloatArray
    form: Callable[[int, np.ndarray], ArmForm]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """A stage in W worlds, as seen by U users.

    Attributes
    ----------
    chances : the probability with which each arm is recommended, (K, U, W)
    rewards : what users expect of it, m_j(x), (K, U, W)
    prior_rewards : what they expected before any data, (U, K), the mean of ``rewards`` over worlds
    best : the arms that the platform takes for the best, or their shares, (K, U, W)
    share : of runs that get here before the horizon
    weights : how much each world counts, (W,) with mean one, whatever its rewards; None where all count alike
    averages : the linear form averaged over the population; None where nobody asks for it
    smoothed : of untried arms, whose form is known given who was sampled; None where it is not
    users : who they are, by their features (U, d); None where nobody asks
    absent : arms that are not there, and nobody's rivals, (K,); None where all are
    """

    name: str
    chances: FloatArray
    rewards: FloatArray
    prior_rewards: FloatArray
    best: FloatArray | BoolArray
    share: float = 1.0
    weights: FloatArray | None = None
    averages: "Averages | None" = None
    smoothed: Smoothed | None = None
    users: FloatArray | None = None
    absent: BoolArray | None = None

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return self.chances.shape[2]

    @property
    def n_users(self) -> int:
        """U, the number of users."""
        return self.chances.shape[1]

    @property
    def world_weights(self) -> FloatArray:
        """How much each world counts, (W,)."""
        return np.ones(self.n_worlds) if self.weights is None else self.weights

    def of_users(self, some: slice | np.ndarray) -> "View":
        """The stage as some of the users see it."""
        return replace(
            self,
            chances=self.chances[:, some],
            rewards=self.rewards[:, some],
            prior_rewards=self.prior_rewards[some],
            best=self.best[:, some],
            smoothed=None,  # of the users as they were
            users=None if self.users is None else self.users[some],
        )

    def counted(self) -> "View":
        """The view of the worlds that count, with weights of mean one.

        A world of weight zero might as well not have been drawn.
        """
        if self.weights is None:
            return self
        some = np.flatnonzero(self.weights)
        weights = self.weights[some] / self.weights[some].mean()
        if len(some) == len(self.weights):
            return replace(self, weights=weights)
        return replace(
            self,
            chances=self.chances[:, :, some],
            rewards=self.rewards[:, :, some],
            best=self.best[:, :, some],
            weights=weights,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Averages:
    """What a notion that averages over users needs of a stage; K arms, K rivals.

    Attributes
    ----------
    varying : the average of p_i (m_i - m_j + epsilon) over users with their weights, in every world, (K, K, W): the
        part that depends on the world
    constant : the part that does not, (K, K)
    chances : how often each arm is recommended, (K, W)
    weights : how much each world counts, (W,) with mean one; None where all count alike
    user_values, user_chances : of every user, averaged over worlds, (U, K, K) and (U, K)
    fixed_error : of what is the same in all worlds and averaged over users of its own, (K, K)
    is_exact : whether the users are all there are
    n_events : worlds in which some user has the arm as her best, (K,)
    least : the lowest m_i - m_j of any user in any world in which she is recommended i, (K, K); 0 where it is no less,
        and no more than it says where it is below -epsilon
    """

    varying: FloatArray
    constant: FloatArray
    chances: FloatArray
    weights: FloatArray | None
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
    """All that an audit looks at: users, stages, what was left out, and how many posteriors nobody vouches for.

    ``views`` are as they were, or condensed.
    """

    crowd: Crowd
    views: list[Any]
    notes: tuple[str, ...]
    n_posteriors: int
    n_not_vouched: int


def make_crowd(market: Market, panel: Panel, asked: Asked, *, rng: np.random.Generator) -> Crowd:
    """Users as they come, drawn from the panel; all of them where the panel is a short table; or those given."""
    if asked.users is not None:
        given = panel_of_people(market, asked.users)
        return Crowd(judged=given, population=given)
    if panel.is_exact and panel.n_users <= asked.n_users:
        return Crowd(judged=panel, population=panel)
    judged = panel.take(rng.choice(panel.n_users, size=asked.n_users, p=panel.weights))
    return Crowd(judged=judged, population=_population(panel, judged, asked, rng=rng))


def _population(panel: Panel, judged: Panel, asked: Asked, *, rng: np.random.Generator) -> Panel:
    """Those by whom averages are taken: a by-product under notions that judge one by one, of few users then.

    Of too few users an average has no error to speak of: by eight of them it is off by 30 of its own errors at times.
    """
    if not asked.notion.is_per_user:
        return panel
    if judged.n_users >= _LEAST_POPULATION:
        return judged
    places, weights = panel.some(_LEAST_POPULATION, rng=rng)
    return panel.take(places, weights=weights, is_exact=panel.is_exact and len(places) == panel.n_users)
