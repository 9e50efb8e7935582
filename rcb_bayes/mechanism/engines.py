"""The engines of a market: the users' and, where it believes otherwise, the platform's, with a count of doubts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.market import Market
from rcb_bayes.mechanism.handing_out import HandedOutEngine, HandOut, digest
from rcb_bayes.posterior import Engine, make_engine
from rcb_bayes.posterior.data import Data
from rcb_bayes.posterior.engines import ExactEngine, fit_arms
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.posterior.stretched import StretchedEngine
from rcb_bayes.schema import FloatArray

_MOST_REMEMBERED = 50_000_000  # values, 400 MB


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

    def counted(self, counts: Counts) -> "CountingEngine":
        """The same engine, counted elsewhere."""
        return CountingEngine(self._engine, counts)

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set, counted."""
        return self._count(self._engine.fit(data, covariance=covariance, users=users))

    def fit_arms(self, data: Data) -> PosteriorBatch:
        """Posterior means and covariances arm by arm, counted."""
        return self._count(fit_arms(self._engine, data))

    def fit_blocks(self, blocks: Sequence[Data], *, users: FloatArray | None = None) -> list[PosteriorBatch]:
        """Posterior means of every data set, block by block, counted."""
        return [self._count(batch) for batch in fit_blocks(self._engine, blocks, users=users)]

    def _count(self, batch: PosteriorBatch) -> PosteriorBatch:
        self._counts.n_fitted += batch.n_sets
        self._counts.n_not_vouched += int((~batch.vouched).sum())
        return batch

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d)."""
        return self._engine.draw(data, n, rng=rng)


class RememberingEngine:
    """An engine that answers the same question with the answer it gave before.

    Plans that differ in epsilon alone ask for the same posteriors wherever the law of their data does not depend on
    rates: at every stage of one rate for all, at the first stage of any plan. Data are told apart by all their digits,
    so that nothing but time changes.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.prior, self.name, self.reason = engine.prior, engine.name, engine.reason
        self._known: dict[str, PosteriorBatch] = {}
        self._n_values = 0

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set; covariances are not remembered."""
        if covariance:
            return self._engine.fit(data, covariance=True, users=users)
        question = digest(data, users)
        if question in self._known:
            return self._known[question]
        batch = self._engine.fit(data, users=users)
        self._n_values += batch.mean.size + (0 if batch.reward is None else batch.reward.size)
        if self._n_values <= _MOST_REMEMBERED:
            self._known[question] = batch
        return batch

    def fit_arms(self, data: Data) -> PosteriorBatch:
        """Posterior means and covariances arm by arm; these are not remembered."""
        return fit_arms(self._engine, data)

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d)."""
        return self._engine.draw(data, n, rng=rng)


def fit_blocks(engine: Engine, blocks: Sequence[Data], *, users: FloatArray | None = None) -> list[PosteriorBatch]:
    """Posterior means of every data set, block by block; an engine that hands blocks out has ``fit_blocks``."""
    own = getattr(engine, "fit_blocks", None)
    return [engine.fit(data, users=users) for data in blocks] if own is None else own(blocks, users=users)


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

    def recounted(self) -> "Engines":
        """The same engines, with a count that begins anew."""
        counts = Counts()
        again = [engine.counted(counts) if isinstance(engine, CountingEngine) else engine for engine in self.all]
        return replace(self, users=again[0], platform=again[1] if len(again) > 1 else None, counts=counts)

    def loosened(self, factor: float) -> "Engines":
        """The same under beliefs whose variances are multiplied by a factor (Assumption 4)."""
        if factor == 1.0:
            return self

        def stretched(engine: Engine) -> Engine:
            return CountingEngine(StretchedEngine(engine.prior, self.market.noise, factor=factor), self.counts)

        platform = None if self.platform is None else stretched(self.platform)
        return replace(self, users=stretched(self.users), platform=platform)


def make_engines(
    market: Market, *, engine: str = "auto", remember: bool = False, hand_out: HandOut | None = None, seed: int
) -> Engines:
    """The engines of a market; ``engine`` names the users'.

    They may ``remember`` what they were asked before, or ``hand_out`` posteriors that take long.
    """
    counts = Counts()

    def counting(prior: Prior, name: str) -> CountingEngine:
        make = partial(make_engine, prior, market.noise, engine=name, seed=seed)
        made = make()
        if hand_out is not None and made.name != ExactEngine.name:  # which is done before it is sent
            made = HandedOutEngine(made, make, hand_out=hand_out)
        return CountingEngine(RememberingEngine(made) if remember else made, counts)

    same = market.platform_prior is market.prior
    return Engines(
        market=market,
        users=counting(market.prior, engine),
        platform=None if same else counting(market.platform_prior, "auto"),
        counts=counts,
    )
