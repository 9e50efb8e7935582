"""What an audit looks at: a stage in simulated worlds of the users' belief, as users of a panel see it."""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.margins import Notion, steadied_terms
from rcb_bayes.market import Market
from rcb_bayes.panel import Panel, expected_rewards
from rcb_bayes.schema import FloatArray


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
class View:
    """A stage in W worlds, as seen by U users.

    Attributes
    ----------
    chances : the probability with which each arm is recommended, (K, U, W)
    rewards : what users expect of it, m_j(x), (K, U, W)
    prior_rewards : what they expected before any data, (U, K), the mean of ``rewards`` over worlds
    best : shares of the arms that the platform takes for the best, (K, U, W)
    """

    name: str
    chances: FloatArray
    rewards: FloatArray
    prior_rewards: FloatArray
    best: FloatArray

    @property
    def n_worlds(self) -> int:
        """W, the number of worlds."""
        return self.chances.shape[2]

    @property
    def n_users(self) -> int:
        """U, the number of users."""
        return self.chances.shape[1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crowd:
    """The first users of every view: those by whom averages over the population are taken.

    ``weights`` (U,) sum to 1; ``is_exact`` where they are all the users there are, rather than a sample.
    """

    users: FloatArray
    weights: FloatArray
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seats:
    """Users (U, d) and what they, and the platform, expect before any data, (U, K) each."""

    users: FloatArray
    prior_rewards: FloatArray
    promoted_by: FloatArray


def seats_of(market: Market, users: FloatArray) -> Seats:
    """What any users expect before any data."""
    prior_rewards = expected_rewards(market.prior, market.noise, users)
    same = market.platform_prior is market.prior
    promoted_by = prior_rewards if same else expected_rewards(market.platform_prior, market.noise, users)
    return Seats(users=users, prior_rewards=prior_rewards, promoted_by=promoted_by)


def make_crowd(panel: Panel, asked: Asked, *, rng: np.random.Generator) -> Crowd:
    """Users as they come, drawn from the panel; all of them where the panel is a short table; or those given."""
    if asked.users is not None:
        n = len(asked.users)
        return Crowd(users=asked.users, weights=np.full(n, 1.0 / n), is_exact=False)
    if panel.is_exact and panel.n_users <= asked.n_users:
        return Crowd(users=panel.users, weights=panel.weights, is_exact=True)
    some = rng.choice(panel.n_users, size=asked.n_users, p=panel.weights)
    return Crowd(users=panel.users[some], weights=np.full(asked.n_users, 1.0 / asked.n_users), is_exact=False)


def cell_terms(view: View, arm: int, *, epsilon: float, notion: Notion) -> FloatArray:
    """Terms of the linear form for an arm and every rival, (W, U, K)."""
    return steadied_terms(
        np.ascontiguousarray(view.chances[arm].T),
        np.ascontiguousarray(view.rewards.T),
        view.prior_rewards,
        arm=arm,
        epsilon=epsilon,
        notion=notion,
    )
