"""Users who stand for the whole population, and what each expects of every arm before any data."""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import GaussianLaw
from rcb_bayes.market import Market
from rcb_bayes.market.noise import Noise
from rcb_bayes.mechanism.regions import Regions
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.users import Covariates, Empirical

_LARGEST_TABLE = 8192
_SPREAD_USERS = 512
_SPREAD_TABLE = 2048
_PRIOR_DRAWS = 20_000
_NODES = 64
_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """P users with weights that sum to 1.

    Attributes
    ----------
    users : as beliefs see them, features (P, d)
    weights : (P,)
    prior_rewards : mu0(x, i) under the users' belief, (P, K)
    promoted_by : the same under the platform's belief, by which it promotes arms
    is_exact : whether these are all the users there are (a table), rather than a sample of them
    x : as people know them, (P, p); None where features are x
    admitted : for whom each arm is explored, (P, K); None where that is everybody. Others have arms that are not
        admitted for them last in ``promoted_by``
    response : the chance that each takes arm a as arm i is recommended, (P, K, K) in the order of i, a; None where
        everybody follows
    """

    users: FloatArray
    weights: FloatArray
    prior_rewards: FloatArray
    promoted_by: FloatArray
    is_exact: bool
    x: FloatArray | None = None
    response: FloatArray | None = None
    admitted: BoolArray | None = None

    @property
    def follows(self) -> FloatArray | None:
        """The chance that each user takes an arm as it is recommended, (P, K); None where everybody does."""
        return None if self.response is None else np.einsum("pii->pi", self.response)

    def taken(self, chances: FloatArray, users: np.ndarray | None = None) -> FloatArray:
        """How often arms are taken, (K, n), from how often they are recommended, to users by place or to all in turn.

        ``chances`` (K, n); without ``users`` n is P, or a multiple of it.
        """
        if self.response is None:
            return chances
        who = np.arange(chances.shape[1]) % self.n_users if users is None else users
        return np.einsum("in,nia->an", chances, self.response[who])

    @property
    def people(self) -> FloatArray:
        """Users as people know them, x (P, p)."""
        return self.users if self.x is None else self.x

    @property
    def n_users(self) -> int:
        """P, the number of users."""
        return len(self.users)

    def mean(self, values: FloatArray) -> tuple[float, float]:
        """Average over users of values (P,) and its error, which is none where these are all the users."""
        average = float(self.weights @ values)
        if self.is_exact:
            return average, 0.0
        spread = float(self.weights @ (values - average) ** 2)
        return average, float(np.sqrt(spread / self.n_users))

    def take(self, places: np.ndarray, *, weights: FloatArray | None = None, is_exact: bool = False) -> "Panel":
        """The users at these places, with weights of their own, all alike unless given."""
        return Panel(
            users=self.users[places],
            weights=np.full(len(places), 1.0 / len(places)) if weights is None else weights,
            prior_rewards=self.prior_rewards[places],
            promoted_by=self.promoted_by[places],
            is_exact=is_exact,
            x=None if self.x is None else self.x[places],
            response=None if self.response is None else self.response[places],
            admitted=None if self.admitted is None else self.admitted[places],
        )

    def under(self, regions: Regions | None) -> "Panel":
        """The same users where each arm is explored among some of them."""
        if regions is None:
            return self
        admitted = regions.admitted(self.users, self.promoted_by)
        return replace(self, promoted_by=regions.ranked(self.promoted_by, admitted), admitted=admitted)

    def some(self, n: int, *, rng: np.random.Generator) -> tuple[np.ndarray, FloatArray]:
        """Positions of users who stand for all, and their weights: everybody of a short table, else n as they come."""
        if self.is_exact and self.n_users <= n:
            return np.arange(self.n_users), self.weights
        return rng.choice(self.n_users, size=n, p=self.weights), np.full(n, 1.0 / n)


def panel_of(market: Market, users: FloatArray, *, weights: FloatArray | None = None, is_exact: bool = False) -> Panel:
    """Given users by their features (U, d), with weights (U,) that sum to 1, all alike unless given."""
    prior_rewards = expected_rewards(market.prior, market.noise, users)
    same = market.platform_prior is market.prior
    return Panel(
        users=users,
        weights=np.full(len(users), 1.0 / max(len(users), 1)) if weights is None else weights,
        prior_rewards=prior_rewards,
        promoted_by=prior_rewards if same else expected_rewards(market.platform_prior, market.noise, users),
        is_exact=is_exact,
        response=None if market.response is None else market.response(prior_rewards),
    )


def make_panel(market: Market, *, n_users: int, rng: np.random.Generator) -> Panel:
    """The rows of a table, or a sample of n users where there is no table or a very long one."""
    x, weights, is_exact = some_users(market.covariates, n_users=n_users, rng=rng)
    return panel_of_people(market, x, weights=weights, is_exact=is_exact)


def panel_of_people(
    market: Market, x: FloatArray, *, weights: FloatArray | None = None, is_exact: bool = False
) -> Panel:
    """Given users as people know them, x (U, p)."""
    found = panel_of(market, market.features_of(x), weights=weights, is_exact=is_exact)
    return found if market.feature_map is None else replace(found, x=x)


def spread_users(covariates: Covariates) -> tuple[FloatArray, FloatArray]:
    """Users (n, d) over whom a spread averages the prediction error, and their weights (n,).

    They are the same ones in every run, live, simulated or audited: all rows of a table with their weights, else a
    fixed sample. So a spread is a function of the data alone, and users who know the mechanism can work it out.
    """
    if isinstance(covariates, Empirical):
        rows, weights = _distinct(covariates)
        if len(rows) <= _SPREAD_TABLE:
            return rows, weights
        some = np.random.default_rng(0).choice(len(rows), size=_SPREAD_TABLE, p=weights)
        return rows[some], np.full(_SPREAD_TABLE, 1.0 / _SPREAD_TABLE)
    return covariates.sample(_SPREAD_USERS, seed=0), np.full(_SPREAD_USERS, 1.0 / _SPREAD_USERS)


def expected_rewards(prior: Prior, noise: Noise, users: FloatArray) -> FloatArray:
    """mu0(x, i) = E[mean reward of arm i for user x] before any data, (U, d) -> (U, K).

    Rewards that are not linear in beta are integrated by Gauss-Hermite rules where the belief is a finite mixture of
    Gaussians or Gaussian given one scale, else averaged over draws of the belief, always the same ones.
    """
    if noise.is_gaussian:
        return users @ prior.mean.values.T
    if prior.law is not None:
        return _integrated(prior.law, noise, users, n_arms=prior.n_arms)
    if prior.conditional_grid is not None and prior.conditional_grid.sigma is None:
        return _integrated(prior.conditional_grid.law, noise, users, n_arms=prior.n_arms)
    beta, _ = prior.draw_arrays(_PRIOR_DRAWS, rng=np.random.default_rng(0))
    out = np.empty((len(users), prior.n_arms))
    step = max(1, _CHUNK_VALUES // _PRIOR_DRAWS)
    for start in range(0, len(users), step):
        some = users[start : start + step]
        for arm in range(prior.n_arms):
            out[start : start + step, arm] = noise.mean_reward(some @ beta[:, arm].T).mean(axis=1)
    return out


def _integrated(law: GaussianLaw, noise: Noise, users: FloatArray, *, n_arms: int) -> FloatArray:
    """E[mean reward] where x'b is a finite mixture of normals."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    d = users.shape[1]
    out = np.zeros((len(users), n_arms))
    for block in law.blocks:
        for place, arm in enumerate(block.arms):
            own = slice(place * d, (place + 1) * d)
            for share, mean, cov in zip(block.weights, block.means, block.covariances, strict=True):
                sd = np.sqrt(np.maximum(((users @ cov[own, own]) * users).sum(axis=1), 0.0))
                eta = (users @ mean[own])[:, None] + sd[:, None] * nodes
                out[:, arm] += share * (noise.mean_reward(eta) @ weights)
    return out


def some_users(
    covariates: Covariates, *, n_users: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, bool]:
    """Users (n, d) who stand for a population, their weights (n,), and whether they are all there are."""
    if isinstance(covariates, Empirical):
        rows, weights = _distinct(covariates)
        if len(rows) <= max(n_users, _LARGEST_TABLE):
            return rows, weights, True
    return covariates.sample(n_users, seed=rng), np.full(n_users, 1.0 / n_users), False


def _distinct(table: Empirical) -> tuple[FloatArray, FloatArray]:
    """The rows of a table that occur, each once and in an order of their own, with their weights.

    Whoever wrote the table may have sorted it: nothing may depend on that.
    """
    there = table.weights > 0
    rows, places = np.unique(table.rows[there] + 0.0, axis=0, return_inverse=True)
    shares = np.sort(table.weights[there])  # summed in an order of their own, too
    order = np.argsort(table.weights[there], kind="stable")
    return rows, np.bincount(places.reshape(-1)[order], weights=shares, minlength=len(rows))
