"""The engines of a market: the users' and, where it believes otherwise, the platform's, with a count of doubts."""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.posterior import Engine, make_engine
from rcb_bayes.posterior.data import Rows, Statistics
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.posterior.stretched import StretchedEngine
from rcb_bayes.schema import FloatArray


@dataclass(slots=True)
class Counts:
    """Posteriors fitted, and those that no engine vouches for."""

    n_fitted: int = 0
    n_not_vouched: int = 0


class CountingEngine:
    """An engine that counts what it is asked for, and what is not vouched for."""

    def __init__(self, engine: Engine, counts: Counts) -> None:
        self._engine, self._counts = engine, counts
        self.prior, self.name, self.reason = engine.prior, engine.name, engine.reason

    def fit(
        self, data: Statistics | Rows, *, covariance: bool = False, users: FloatArray | None = None
    ) -> PosteriorBatch:
        """Posterior moments of every data set, counted."""
        batch = self._engine.fit(data, covariance=covariance, users=users)
        self._counts.n_fitted += batch.n_sets
        self._counts.n_not_vouched += int((~batch.vouched).sum())
        return batch

    def draw(self, data: Statistics | Rows, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d)."""
        return self._engine.draw(data, n, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engines:
    """What users and the platform make of data.

    Attributes
    ----------
    users : under the users' belief
    platform : under the platform's; None where it is the same
    """

    market: Market
    users: Engine
    platform: Engine | None
    counts: Counts

    @property
    def all(self) -> tuple[Engine, ...]:
        """The users' engine and, where it is another, the platform's."""
        return (self.users,) if self.platform is None else (self.users, self.platform)

    def loosened(self, factor: float) -> "Engines":
        """The same under beliefs whose variances are multiplied by a factor (Assumption 4)."""
        if factor == 1.0:
            return self

        def stretched(engine: Engine) -> Engine:
            return CountingEngine(StretchedEngine(engine.prior, self.market.noise, factor=factor), self.counts)

        platform = None if self.platform is None else stretched(self.platform)
        return replace(self, users=stretched(self.users), platform=platform)


def make_engines(market: Market, *, engine: str = "auto", seed: int) -> Engines:
    """The engines of a market; ``engine`` names the users'."""
    counts = Counts()
    same = market.platform_prior is market.prior
    return Engines(
        market=market,
        users=CountingEngine(make_engine(market.prior, market.noise, engine=engine, seed=seed), counts),
        platform=None if same else CountingEngine(make_engine(market.platform_prior, market.noise, seed=seed), counts),
        counts=counts,
    )
