"""How many posteriors a computation asks for: engines that are made meanwhile count them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.posterior.data import Data
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    from rcb_bayes.posterior.engines import Engine


@dataclass(slots=True)
class Count:
    """Posteriors asked for so far."""

    n_posteriors: int = 0


_count: ContextVar[Count | None] = ContextVar("posteriors asked for", default=None)


@contextmanager
def counting() -> Iterator[Count]:
    """Count what engines are asked for that are made in here, in this process."""
    count = Count()
    token = _count.set(count)
    try:
        yield count
    finally:
        _count.reset(token)


def counted(engine: "Engine") -> "Engine":
    """The engine, counted where anybody counts."""
    count = _count.get()
    return engine if count is None else _CountedEngine(engine, count)


class _CountedEngine:
    """An engine whose data sets are counted, wherever means are asked for."""

    def __init__(self, engine: "Engine", count: Count) -> None:
        self._engine, self._count = engine, count
        self.prior, self.name, self.reason = engine.prior, engine.name, engine.reason

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set, counted."""
        self._count.n_posteriors += data.n_sets
        return self._engine.fit(data, covariance=covariance, users=users)

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Posterior draws; where means were asked for before, these are of the same posteriors."""
        return self._engine.draw(data, n, rng=rng)
