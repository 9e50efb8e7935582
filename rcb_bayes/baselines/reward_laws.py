"""Laws of one arm's reward, as the threshold policy asks for them: partial means, excesses, integrals."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rcb_bayes.schema import FloatArray

_TINY = 1e-14
_TAIL = 9.0  # standard deviations beyond which nothing is left
_PANELS, _NODES = 32, 20


@runtime_checkable
class RewardLaw(Protocol):
    """The law of a number R."""

    @property
    def mean(self) -> float:
        """E[R]."""
        ...

    def partial(self, upto: float, *, level: float) -> float:
        """E[(R - level) 1{R <= upto}]."""
        ...

    def excess(self, level: FloatArray) -> FloatArray:
        """E[max(R - level, 0)] of every level."""
        ...

    def integral(self, function: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
        """E[function(R) 1{low < R <= high}]."""
        ...

    def reach(self, total: float, *, level: float) -> float:
        """The largest r at which E[(R - level) 1{R <= r}] is at most ``total``; minus infinity if there is none."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ContinuousLaw:
    """A continuous law of SciPy, frozen: ``ContinuousLaw(scipy.stats.beta(2, 3))``.

    Parameters
    ----------
    law : object
        A frozen distribution of SciPy.
    """

    law: Any

    @property
    def mean(self) -> float:
        """E[R]."""
        return float(self.law.mean())

    def partial(self, upto: float, *, level: float) -> float:
        """E[(R - level) 1{R <= upto}], by parts: (u - level) F(u) less the integral of F."""
        low, high = self._ends()
        upto = min(upto, high)
        if upto <= low:
            return 0.0
        return (upto - level) * float(self.law.cdf(upto)) - _quadrature(self.law.cdf, low, upto)

    def excess(self, level: FloatArray) -> FloatArray:
        """E[max(R - level, 0)], the integral of 1 - F above the level."""
        low, high = self._ends()
        flat = np.asarray(level, dtype=float).ravel()
        out = [max(low - r, 0.0) + _quadrature(self.law.sf, max(r, low), high) if r < high else 0.0 for r in flat]
        return np.array(out).reshape(np.shape(level))

    def integral(self, function: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
        """E[function(R) 1{low < R <= high}]."""
        ends = self._ends()
        below, above = max(low, ends[0]), min(high, ends[1])
        if above <= below:
            return 0.0
        return _quadrature(lambda r: function(r) * self.law.pdf(r), below, above)

    def reach(self, total: float, *, level: float) -> float:
        """The root above the level, where the partial mean grows."""
        low, high = self._ends()
        start = max(level, low)
        if total >= self.mean - level - _TINY:
            return inf
        if self.partial(start, level=level) > total + _TINY or start == low:
            return -inf
        return root(lambda r: self.partial(r, level=level) - total, start, high)

    def _ends(self) -> tuple[float, float]:
        """The support, cut where nothing is left of it."""
        low, high = (float(end) for end in self.law.support())
        return (
            low if np.isfinite(low) else float(self.law.ppf(1e-17)),
            high if np.isfinite(high) else float(self.law.isf(1e-17)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalLaw:
    """A normal law, with sd above 0.

    Parameters
    ----------
    mean : float
        E[R].
    sd : float
        Its standard deviation, above 0.
    """

    mean: float
    sd: float

    def partial(self, upto: float, *, level: float) -> float:
        """E[(R - level) 1{R <= upto}]."""
        z = (upto - self.mean) / self.sd
        return float((self.mean - level) * _cdf(z) - self.sd * _pdf(z))

    def excess(self, level: FloatArray) -> FloatArray:
        """E[max(R - level, 0)]."""
        z = (self.mean - np.asarray(level, dtype=float)) / self.sd
        return self.sd * (_pdf(z) + z * _cdf(z))

    def integral(self, function: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
        """E[function(R) 1{low < R <= high}], by Gauss-Legendre rules on panels."""
        below, above = max(low, self.mean - _TAIL * self.sd), min(high, self.mean + _TAIL * self.sd)
        if above <= below:
            return 0.0
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        edges = np.linspace(below, above, _PANELS + 1)
        half = (above - below) / (2 * _PANELS)
        r = ((edges[:-1] + half)[:, None] + half * nodes).reshape(-1)
        return float((function(r) * _pdf((r - self.mean) / self.sd)) @ np.tile(weights, _PANELS) * half / self.sd)

    def reach(self, total: float, *, level: float) -> float:
        """The root above the level, where the partial mean grows."""
        if total >= self.mean - level - _TINY:
            return inf
        low, high = max(level, self.mean - _TAIL * self.sd), self.mean + _TAIL * self.sd
        if not self.partial(low, level=level) <= total < self.partial(high, level=level):
            return -inf if self.partial(low, level=level) > total else inf
        return root(lambda r: self.partial(r, level=level) - total, low, high)


class SampledLaw:
    """The law of draws (n,), each as likely as another; atoms are taken whole or not at all.

    Parameters
    ----------
    draws : ndarray
        Draws of R, (n,).
    """

    def __init__(self, draws: FloatArray) -> None:
        self._values, counts = np.unique(np.asarray(draws, dtype=float), return_counts=True)
        self._weights = counts / counts.sum()
        self._mass = np.append(0.0, np.cumsum(self._weights))
        self._moment = np.append(0.0, np.cumsum(self._weights * self._values))

    @property
    def mean(self) -> float:
        """Their average."""
        return float(self._moment[-1])

    def partial(self, upto: float, *, level: float) -> float:
        """E[(R - level) 1{R <= upto}]."""
        at = np.searchsorted(self._values, upto, side="right")
        return float(self._moment[at] - level * self._mass[at])

    def excess(self, level: FloatArray) -> FloatArray:
        """E[max(R - level, 0)]."""
        at = np.searchsorted(self._values, level, side="right")
        return (self._moment[-1] - self._moment[at]) - level * (1.0 - self._mass[at])

    def integral(self, function: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
        """E[function(R) 1{low < R <= high}]."""
        start, stop = np.searchsorted(self._values, [low, high], side="right")
        return float(self._weights[start:stop] @ function(self._values[start:stop])) if stop > start else 0.0

    def reach(self, total: float, *, level: float) -> float:
        """The largest draw up to which the partial mean is at most ``total``."""
        if total >= self.mean - level - _TINY:
            return inf
        upto = self._moment[1:] - level * self._mass[1:]  # falls up to the level, then grows
        fits = np.flatnonzero((upto <= total + _TINY) & (self._mass[1:] > 0.0))
        return float(self._values[fits[-1]]) if len(fits) else -inf


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function changes its sign, to the last digits."""
    from scipy.optimize import brentq

    found: Any = brentq(function, low, high, xtol=1e-14)
    return float(found)


def _cdf(z: Any) -> Any:
    from scipy.special import ndtr

    return ndtr(z)


def _pdf(z: Any) -> Any:
    return np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)


def _quadrature(function: Callable[[Any], Any], low: float, high: float) -> float:
    from scipy.integrate import quad

    return float(quad(function, low, high, epsabs=1e-13, epsrel=1e-12, limit=400)[0])
