"""A population given by a table of users."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.schema import DEFAULT_SEED, BoolArray, FloatArray, Labels, Seed, as_finite_array, as_rng
from rcb_bayes.users import bootstrap
from rcb_bayes.users.base import Population, as_width
from rcb_bayes.users.mending import INTERCEPT, Mending, read_users
from rcb_bayes.users.moments import weighted_moment
from rcb_bayes.users.tables import as_table

if TYPE_CHECKING:
    import pandas as pd

_LEAST_WEIGHT = 1e-15  # of all: less than that is lost in sums


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Empirical(Population):
    """Users resampled from a table: x is row r with probability w_r, E[xx'] = sum_r w_r x_r x_r'.

    Parameters
    ----------
    rows : array_like or pandas.DataFrame
        (n, d) array or DataFrame, one user per row, numeric or boolean; a DataFrame's columns are the labels.
    weights : array_like, optional
        (n,) relative frequencies, equal by default; stored so that they sum to one.
    features : iterable, optional
        Labels, instead of the columns of the DataFrame or ``feature_0, ...``.

    Raises
    ------
    RcbError
        When a value is missing, infinite or not a number (its column and row are named), when the table is empty
        or not two-dimensional, or when weights or labels do not fit.

    Applicability
    -------------
    The rows are the population: moments and phi0 are exact for them. Where they are a sample of the users to come,
    ``phi0_interval`` says how well they determine the phi0 of that wider population.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> users = rcb.Empirical([[1.0, 0.2], [1.0, 0.8], [1.0, 0.5]], features=["intercept", "age"])
    >>> users.n_rows, users.mean, round(users.phi0, 3)
    (3, array([1. , 0.5]), 0.048)
    """

    rows: FloatArray
    weights: FloatArray

    @np.errstate(over="ignore", invalid="ignore")  # an infinite moment is refused
    def __init__(
        self, rows: "ArrayLike | pd.DataFrame", *, weights: ArrayLike | None = None, features: Labels = None
    ) -> None:
        table, labels = as_table(rows, features)
        as_width(table.shape[1])
        mass = _as_weights(weights, len(table))
        moment = weighted_moment(table, mass)
        own = {"rows": table, "weights": mass, "mean": mass @ table}
        max_norm = float(np.linalg.norm(table[mass > 0], axis=1).max())
        kind = f"{len(table):,} observed row{'s' if len(table) > 1 else ''}"
        self._settle(kind, features=labels, second_moment=moment, max_norm=max_norm, **own)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        columns: Iterable[str] | None = None,
        missing: str = "refuse",
        intercept: bool = False,
        standardise: bool = False,
        dummies: bool = False,
    ) -> Self:
        """Read users from a comma-separated UTF-8 file whose first line names the columns.

        Blank lines are skipped; ``true`` and ``false`` are 1 and 0.

        Parameters
        ----------
        path : str or path-like
            The file, with or without byte order mark.
        columns : iterable of str, optional
            The columns to take, in this order; all by default.
        missing : {"refuse", "drop", "mean", "indicator"}
            What is done about missing values: nothing (they are refused), the user is left out, the column's mean is
            filled in, or that and a column ``<name>_missing`` of 0/1 is added at the end.
        intercept : bool
            Whether a column ``intercept`` of ones is put first.
        standardise : bool
            Whether columns are centred and divided by their standard deviation; those of 0/1 and constants are not.
        dummies : bool
            Whether a column of text with at most 12 values becomes 0/1 columns ``<name>_<value>``, one for each value
            but the first in the alphabet.

        Returns
        -------
        Empirical
            A population of these users.

        Raises
        ------
        DataError
            When the file cannot be read, is empty or has no data, when a column is unknown, unnamed or repeated, or
            when values are missing or no numbers: all of them at once, each column with its lines.

        Examples
        --------
        >>> import pandas as pd
        >>> import rcb_bayes as rcb
        >>> pd.DataFrame({"name": ["Ann", "Bob"], "intercept": 1, "age": [0.2, 0.8]}).to_csv("users.csv", index=False)
        >>> rcb.Empirical.from_csv("users.csv", columns=["intercept", "age"]).mean
        array([1. , 0.5])
        """
        ones = INTERCEPT if intercept else None
        wanted = Mending(missing=missing, intercept=ones, standardise=bool(standardise), dummies=bool(dummies))
        table, names, _ = read_users(Path(path), columns=columns, mending=wanted)
        return cls(table, features=names)

    @property
    def n_rows(self) -> int:
        """Number of rows n, those of weight zero included."""
        return len(self.rows)

    def phi0_interval(
        self, level: float = 0.95, *, n_boot: int = 1000, seed: Seed = DEFAULT_SEED
    ) -> tuple[float, float]:
        """Bootstrap interval (lower, upper) of phi0 when the rows are a sample of a wider population.

        Parameters
        ----------
        level : float
            Nominal coverage, in (0, 1).
        n_boot : int
            Number of resamples, at least 100.
        seed : int, SeedSequence, Generator or None
            Of the resampling.

        Returns
        -------
        tuple of float, float
            The lower and the upper end.

        Raises
        ------
        RcbError
            When the level, the number of resamples or the seed is out of range.

        Applicability
        -------------
        The rows must be independent draws. The interval errs on the wide side; a lower end of 0 means that a direction
        hangs on a few rows. The formula, and what holds at phi0 = 0, are in ``rcb_bayes.users.bootstrap``.

        Examples
        --------
        >>> import rcb_bayes as rcb
        >>> users = rcb.Empirical(rcb.Sphere(2).sample(200, seed=1))
        >>> lower, upper = users.phi0_interval()
        >>> lower < users.phi0 < upper
        True
        """
        seen = self.weights > 0
        return bootstrap.phi0_interval(
            self.rows[seen], self.weights[seen], level=level, n_boot=n_boot, rng=as_rng(seed)
        )

    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self.rows[rng.choice(self.n_rows, size=n, p=self.weights)]

    def _in_support(self, points: FloatArray, tolerance: float) -> BoolArray:
        """Equal to a row of positive weight, up to the tolerance times each column's size."""
        from scipy.spatial import KDTree

        scale = np.maximum(np.abs(self.rows).max(axis=0), 1.0)
        tree = KDTree(np.unique(self.rows[self.weights > 0], axis=0) / scale)
        distance, _ = tree.query(points / scale, p=np.inf)
        return np.asarray(distance <= tolerance)


def _as_weights(weights: ArrayLike | None, n_rows: int) -> FloatArray:
    mass = np.ones(n_rows) if weights is None else as_finite_array(weights, name="weights", ndim=1)
    if len(mass) != n_rows:
        raise DataError(f"Expected one weight per row ({n_rows}), got {len(mass)}.")
    if (mass < 0).any() or not mass.any():
        raise DataError(f"weights must not be negative nor all zero, got a smallest of {mass.min():.6g}.")
    mass = mass / mass.max()  # so that the sum cannot overflow
    mass /= mass.sum()
    if (lost := (mass > 0) & (mass < _LEAST_WEIGHT)).any():
        least = f"weights must be 0 or at least {_LEAST_WEIGHT:.0e} of their sum, got {mass[lost].min():.2g} of it."
        raise DataError(f"{least} Give such users, who never come, the weight 0.")
    return mass
