"""What the rest of the package asks of a population of users; a class of your own will do."""

from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from rcb_bayes.schema import BoolArray, FloatArray, Seed
from rcb_bayes.users.moments import WeakDirections


@runtime_checkable
class Covariates(Protocol):
    """A population of users with d features: samples, and exact first and second moments."""

    @property
    def n_features(self) -> int:
        """Number of features d."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """Labels of the features, as many as ``n_features``."""
        ...

    @property
    def mean(self) -> FloatArray:
        """E[x], shape (d,)."""
        ...

    @property
    def second_moment(self) -> FloatArray:
        """E[xx'], shape (d, d), exact and read-only."""
        ...

    @property
    def phi0(self) -> float:
        """Smallest eigenvalue of E[xx'], exactly 0.0 where it is zero up to rounding."""
        ...

    @property
    def max_norm(self) -> float:
        """sup ``|x|`` over the support; infinite for an unbounded population."""
        ...

    def weak_directions(self, tolerance: float = 1e-6) -> WeakDirections:
        """Directions the population visits hardly or never.

        Parameters
        ----------
        tolerance : float
            How little of the variation counts as hardly any, as a share of the largest.

        Returns
        -------
        WeakDirections
            The directions, and how much of the variation each has.
        """
        ...

    def sample(self, n: int, seed: Seed = None) -> FloatArray:
        """Independent users, shape (n, d).

        Parameters
        ----------
        n : int
            How many users.
        seed : int, SeedSequence, Generator or None
            None draws anew every time.

        Returns
        -------
        ndarray
            (n, d).
        """
        ...

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether points of shape (..., d) lie in the support; shape (...).

        Parameters
        ----------
        x : array_like
            Points, (..., d).
        tolerance : float
            How far outside still counts as inside.

        Returns
        -------
        ndarray
            (...).
        """
        ...

    def describe(self) -> str:
        """The population in one line."""
        ...
