"""What all populations have in common: labels, exact moments and what follows from them, checked calls."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.schema import (
    FEATURE,
    BoolArray,
    FloatArray,
    Labels,
    Seed,
    as_count,
    as_finite_array,
    as_labels,
    as_rng,
    frozen,
)
from rcb_bayes.users.moments import WeakDirections, find_weak_directions, spectrum

MOST_FEATURES = 5_000  # E[xx'] is held whole: 200 MB


def as_width(n_features: object) -> int:
    """D, of users whose second moment can be held."""
    return as_count(n_features, name="n_features", least=1, most=MOST_FEATURES, why="E[xx'] has its square of numbers")


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Population(ABC):
    """A population of users; subclasses fill in its moments, and say how to draw users and where they can lie.

    Attributes
    ----------
    n_features, features : d, and the labels
    mean, second_moment : E[x] (d,) and E[xx'] (d, d), exact and read-only
    max_norm : sup ``|x|`` over the support
    """

    features: tuple[str, ...]
    n_features: int = field(init=False)
    mean: FloatArray = field(init=False)
    second_moment: FloatArray = field(init=False)
    max_norm: float = field(init=False)
    _kind: str = field(init=False)

    def _settle(self, kind: str, *, features: Labels, second_moment: FloatArray, **own: object) -> None:
        """Set the fields, ``own`` those that need no further check; arrays become read-only copies."""
        if not np.isfinite(second_moment).all():
            raise DataError("The covariates are too large: their second moment E[xx'] overflows. Rescale the features.")
        d = len(second_moment)
        own |= {"_kind": kind, "n_features": d, "features": as_labels(features, dim=FEATURE, size=d)}
        own |= {"second_moment": second_moment / 2 + second_moment.T / 2}  # a product X'X is not symmetric to the bit
        for name, value in own.items():
            object.__setattr__(self, name, frozen(value) if isinstance(value, np.ndarray) else value)

    @abstractmethod
    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Independent users, shape (n, d)."""

    @abstractmethod
    def _in_support(self, points: FloatArray, tolerance: float) -> BoolArray:
        """Which of the points (..., d) a user can be."""

    @property
    def phi0(self) -> float:
        """Smallest eigenvalue of E[xx'], exactly 0.0 below 64 d (machine epsilon) times the largest."""
        return float(spectrum(self.second_moment)[0][0])

    def weak_directions(self, tolerance: float = 1e-6) -> WeakDirections:
        """Eigenvectors whose eigenvalue is at most ``tolerance`` times the largest; always those with eigenvalue 0.

        Raises
        ------
        DataError
            When the tolerance is not in [0, 1).

        Applicability
        -------------
        Eigenvalues depend on the units of the features: an intercept beside an income in dollars is "weak" until
        the income is rescaled. That is a fact about the theorem's N as well, which divides by the same eigenvalue.
        """
        return find_weak_directions(self.second_moment, features=self.features, tolerance=tolerance)

    def sample(self, n: int, seed: Seed = None) -> FloatArray:
        """Independent users, shape (n, d)."""
        return self._draw(as_count(n, name="n"), as_rng(seed))

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether points of shape (..., d) lie in the support, up to the tolerance; shape (...)."""
        points = as_finite_array(x, name="x")
        if points.ndim == 0 or points.shape[-1] != self.n_features:
            raise DataError(f"x must have {self.n_features} features in its last dimension, got shape {points.shape}.")
        return self._in_support(points, tolerance)

    def describe(self) -> str:
        """The population in one line."""
        cover = f"phi0 = {self.phi0:.4g}" if self.phi0 > 0 else "phi0 = 0 (some direction is never visited)"
        return f"{self._kind}, {self.n_features} feature{'s' if self.n_features > 1 else ''}, {cover}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"
