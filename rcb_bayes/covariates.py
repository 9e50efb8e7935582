"""User populations x ~ P_X: who arrives, and how well the arrivals cover the feature space.

Every population samples users and knows its moments exactly: E[x], E[xx'], and

    phi0 = lambda_min(E[xx']),

the constant by which the paper divides to get from samples to estimation error (Assumption 2, Theorem 1). It is
a property of the covariates alone, never of the prior. phi0 = 0 means that some direction of the feature space is
never visited (a full set of dummies beside an intercept does it): a finding with the directions named, not an error.

A population with an intercept is ``Empirical`` with a column of ones, or ``Gaussian`` with mean 1 and variance 0 there.
"""

import csv
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.schema import FEATURE, FloatArray, Seed, as_finite_array, as_labels, as_rng, suggestion

if TYPE_CHECKING:
    import pandas as pd

BoolArray = NDArray[np.bool_]
SampleSeed = Seed | np.random.Generator

_MOST_TERMS = 8  # terms of a direction shown as text
_NEGLIGIBLE = 1e-6  # entries of a unit vector not worth a term


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
        """sup |x| over the support; infinite for an unbounded population."""
        ...

    def weak_directions(self, tolerance: float = 1e-6) -> "WeakDirections":
        """Directions the population visits hardly or never."""
        ...

    def sample(self, n: int, seed: SampleSeed = None) -> FloatArray:
        """Independent users, shape (n, d)."""
        ...

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether points of shape (..., d) lie in the support; shape (...)."""
        ...

    def describe(self) -> str:
        """The population in one line."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeakDirections:
    """Eigenvectors of E[xx'] whose eigenvalue is zero or nearly so.

    Attributes
    ----------
    eigenvalues : (m,) array
        Ascending; exactly 0.0 for directions no user has a component in.
    directions : (m, d) array
        Unit vectors v with E[(x'v)^2] = eigenvalue. Among those with eigenvalue 0 the basis is chosen to have few
        non-zero entries (so that it can be read) and need not be orthogonal. The first entry is positive.
    text : tuple of str
        The same in words, such as ``"0.71 female - 0.71 male"``; small entries are left out.
    """

    eigenvalues: FloatArray
    directions: FloatArray
    text: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.text)

    def __str__(self) -> str:
        pairs = zip(self.text, self.eigenvalues, strict=True)
        return "; ".join(f"{text} (eigenvalue {value:.3g})" for text, value in pairs) or "none"


class _Moments:
    """What follows from E[xx'] alone, for every population alike."""

    __slots__ = ()
    n_features: int
    features: tuple[str, ...]
    second_moment: FloatArray

    @property
    def phi0(self) -> float:
        """Smallest eigenvalue of E[xx'], exactly 0.0 below 64 d (machine epsilon) times the largest."""
        return float(_spectrum(self.second_moment)[0][0])

    def weak_directions(self, tolerance: float = 1e-6) -> WeakDirections:
        """Eigenvectors whose eigenvalue is at most ``tolerance`` times the largest; always those with phi0 = 0.

        Raises
        ------
        DataError
            When the tolerance is not in [0, 1).

        Applicability
        -------------
        Eigenvalues depend on the units of the features: an intercept beside an income in dollars is "weak" until
        the income is rescaled. That is a fact about the theorem's N as well, which divides by the same eigenvalue.
        """
        if not _is_number(tolerance) or not 0 <= tolerance < 1:
            raise DataError(f"tolerance must be a share of the largest eigenvalue in [0, 1), got {tolerance!r}.")
        values, vectors = _spectrum(self.second_moment)
        weak = values <= tolerance * values[-1]
        directions = vectors.T[weak]
        n_null = int((values == 0).sum())
        directions[:n_null] = _sparse_basis(directions[:n_null])
        leading = (np.abs(directions) > _NEGLIGIBLE).argmax(axis=1)
        directions *= np.sign(directions[np.arange(len(directions)), leading])[:, None]
        text = tuple(_direction_text(direction, self.features) for direction in directions)
        return WeakDirections(eigenvalues=_frozen(values[weak]), directions=_frozen(directions), text=text)

    def _summary(self, kind: str) -> str:
        phi0 = self.phi0
        cover = f"phi0 = {phi0:.4g}" if phi0 > 0 else "phi0 = 0 (some direction is never visited)"
        plural = "" if self.n_features == 1 else "s"
        return f"{kind}, {self.n_features} feature{plural}, {cover}"

    def describe(self) -> str:
        """The population in one line."""
        return self._summary(type(self).__name__)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"


class _Round(_Moments):
    """What the unit sphere and the unit ball have in common."""

    __slots__ = ()

    @property
    def mean(self) -> FloatArray:
        """E[x] = 0, shape (d,)."""
        return _frozen(np.zeros(self.n_features))

    @property
    def max_norm(self) -> float:
        """sup |x| = 1."""
        return 1.0


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Sphere(_Round):
    """Users uniform on the unit sphere: |x| = 1, E[x] = 0, E[xx'] = I/d, phi0 = 1/d.

    Parameters
    ----------
    n_features : int
        d >= 1. For d = 1 the sphere is {-1, 1}.
    features : iterable of str, optional
        Labels; ``feature_0, ...`` by default.

    Raises
    ------
    DataError
        When d is not a positive integer or the labels do not fit.

    Applicability
    -------------
    The population of the paper's simulations. |x| <= 1 as its theorems ask, and phi0 is as large as it can then be.
    """

    n_features: int
    features: tuple[str, ...]
    second_moment: FloatArray = field(init=False)

    def __init__(self, n_features: int, *, features: Iterable[object] | None = None) -> None:
        size = _as_count(n_features, name="n_features", least=1)
        _set(self, n_features=size, features=_as_features(features, size), second_moment=_frozen(np.eye(size) / size))

    def sample(self, n: int, seed: SampleSeed = None) -> FloatArray:
        """Independent users, shape (n, d): normal vectors divided by their length."""
        normal = _generator(seed).standard_normal((_as_count(n, name="n"), self.n_features))
        return normal / np.linalg.norm(normal, axis=1, keepdims=True)

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether |x| = 1 up to the tolerance; x of shape (..., d)."""
        return np.abs(np.linalg.norm(_as_points(x, self.n_features), axis=-1) - 1.0) <= tolerance

    def describe(self) -> str:
        """The population in one line."""
        return self._summary("uniform on the unit sphere")


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Ball(_Round):
    """Users uniform in the unit ball: |x|^d is uniform, E[x] = 0, E[xx'] = I/(d + 2), phi0 = 1/(d + 2).

    Parameters
    ----------
    n_features : int
        d >= 1. For d = 1 the ball is [-1, 1].
    features : iterable of str, optional
        Labels; ``feature_0, ...`` by default.

    Raises
    ------
    DataError
        When d is not a positive integer or the labels do not fit.

    Applicability
    -------------
    Bounded as the theorems ask. Users near the centre gain little from any arm, so their constraint binds early.
    """

    n_features: int
    features: tuple[str, ...]
    second_moment: FloatArray = field(init=False)

    def __init__(self, n_features: int, *, features: Iterable[object] | None = None) -> None:
        size = _as_count(n_features, name="n_features", least=1)
        moment = _frozen(np.eye(size) / (size + 2))
        _set(self, n_features=size, features=_as_features(features, size), second_moment=moment)

    def sample(self, n: int, seed: SampleSeed = None) -> FloatArray:
        """Independent users, shape (n, d): a point of the sphere times U^(1/d)."""
        rng = _generator(seed)
        size = _as_count(n, name="n")
        normal = rng.standard_normal((size, self.n_features))
        radius = rng.random((size, 1)) ** (1.0 / self.n_features)
        return radius * normal / np.linalg.norm(normal, axis=1, keepdims=True)

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether |x| <= 1 up to the tolerance; x of shape (..., d)."""
        return np.linalg.norm(_as_points(x, self.n_features), axis=-1) <= 1.0 + tolerance

    def describe(self) -> str:
        """The population in one line."""
        return self._summary("uniform in the unit ball")


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Gaussian(_Moments):
    """Users x ~ N(mean, cov), so that E[xx'] = cov + mean mean'.

    Parameters
    ----------
    cov : (d, d) array, or (d,) array of variances
        Symmetric and positive semi-definite. A variance of zero makes a constant feature, such as an intercept.
    mean : (d,) array, optional
        Zero by default.
    features : iterable of str, optional
        Labels; ``feature_0, ...`` by default.

    Raises
    ------
    DataError
        When ``cov`` is not finite, not square, not symmetric or has a negative eigenvalue, or the mean does not fit.

    Applicability
    -------------
    |x| is unbounded, against the paper's |x| <= 1: the theorem's constants do not cover it, sampled plans do.
    """

    cov: FloatArray
    mean: FloatArray
    features: tuple[str, ...]
    n_features: int = field(init=False)
    second_moment: FloatArray = field(init=False)
    _values: FloatArray = field(init=False)
    _vectors: FloatArray = field(init=False)

    def __init__(
        self, cov: ArrayLike, *, mean: ArrayLike | None = None, features: Iterable[object] | None = None
    ) -> None:
        matrix, values, vectors = _as_covariance(cov)
        size = len(matrix)
        centre = np.zeros(size) if mean is None else _as_numeric(mean, name="mean", ndim=1)
        if centre.shape != (size,):
            raise DataError(f"mean must have one entry per row of cov ({size}), got shape {centre.shape}.")
        _set(
            self,
            cov=_frozen(matrix),
            mean=_frozen(centre),
            features=_as_features(features, size),
            n_features=size,
            second_moment=_moment_about_zero(matrix, centre),
            _values=_frozen(values),
            _vectors=_frozen(vectors),
        )

    @property
    def max_norm(self) -> float:
        """sup |x|: infinite, unless every variance is zero."""
        return math.inf if self._values[-1] > 0 else float(np.linalg.norm(self.mean))

    def sample(self, n: int, seed: SampleSeed = None) -> FloatArray:
        """Independent users, shape (n, d): mean + z cov^(1/2), by the symmetric root."""
        # The symmetric root does not depend on the signs LAPACK gives the eigenvectors; a factor V sqrt(D) would.
        root = (self._vectors * np.sqrt(self._values)) @ self._vectors.T
        normal = _generator(seed).standard_normal((_as_count(n, name="n"), self.n_features))
        return self.mean + normal @ root

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether x - mean lies in the range of cov (always, at full rank); x of shape (..., d)."""
        points = _as_points(x, self.n_features)
        outside = (points - self.mean) @ self._vectors[:, self._values == 0]  # (..., n_null)
        reach = tolerance * np.maximum(1.0, np.linalg.norm(points, axis=-1))
        return np.linalg.norm(outside, axis=-1) <= reach

    def describe(self) -> str:
        """The population in one line."""
        return self._summary("Gaussian")


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Uniform(_Moments):
    """Users uniform in a box, features independent: E[xx'] = diag((high - low)^2 / 12) + mean mean'.

    Parameters
    ----------
    low, high : float or (d,) array
        Corners of the box, low < high in every feature.
    n_features : int, optional
        d, needed only when both corners are plain numbers.
    features : iterable of str, optional
        Labels; ``feature_0, ...`` by default.

    Raises
    ------
    DataError
        When a corner is not finite, low >= high somewhere, or the sizes disagree or are unknown.

    Applicability
    -------------
    |x| <= 1 holds only for a small enough box: [-1, 1]^d reaches sqrt(d). See ``max_norm``.
    """

    low: FloatArray
    high: FloatArray
    n_features: int
    features: tuple[str, ...]
    second_moment: FloatArray = field(init=False)

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        *,
        n_features: int | None = None,
        features: Iterable[object] | None = None,
    ) -> None:
        bottom, top = _as_box(low, high, n_features=n_features)
        with np.errstate(over="ignore"):
            moment = _moment_about_zero(np.diag((top - bottom) ** 2 / 12), bottom / 2 + top / 2)
        _set(
            self,
            low=_frozen(bottom),
            high=_frozen(top),
            n_features=len(bottom),
            features=_as_features(features, len(bottom)),
            second_moment=moment,
        )

    @property
    def mean(self) -> FloatArray:
        """E[x], the centre of the box, shape (d,)."""
        return _frozen(self.low / 2 + self.high / 2)

    @property
    def max_norm(self) -> float:
        """sup |x|, the length of the farthest corner."""
        return float(np.linalg.norm(np.maximum(np.abs(self.low), np.abs(self.high))))

    def sample(self, n: int, seed: SampleSeed = None) -> FloatArray:
        """Independent users, shape (n, d)."""
        return _generator(seed).uniform(self.low, self.high, size=(_as_count(n, name="n"), self.n_features))

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether low <= x <= high up to the tolerance times the width; x of shape (..., d)."""
        points = _as_points(x, self.n_features)
        slack = tolerance * (self.high - self.low)
        return ((points >= self.low - slack) & (points <= self.high + slack)).all(axis=-1)

    def describe(self) -> str:
        """The population in one line."""
        return self._summary("uniform in a box")


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Empirical(_Moments):
    """Users resampled from a table: x is row r with probability w_r, E[xx'] = sum_r w_r x_r x_r'.

    Parameters
    ----------
    rows : (n, d) array or DataFrame
        One user per row, one feature per column, numeric or boolean. The labels of a DataFrame are its columns.
    weights : (n,) array, optional
        Relative frequencies, not negative, not all zero; equal by default. Stored so that they sum to one.
    features : iterable of str, optional
        Labels, instead of the columns of the DataFrame or ``feature_0, ...``.

    Raises
    ------
    DataError
        When a value is missing, infinite or not a number (its column and row are named), when the table is empty
        or not two-dimensional, or when weights or labels do not fit.

    Applicability
    -------------
    The rows are the population: moments and phi0 are exact for them. Where they are a sample of the users to come,
    ``phi0_interval`` says how well they determine the phi0 of that wider population.
    """

    rows: FloatArray
    weights: FloatArray
    features: tuple[str, ...]
    n_features: int = field(init=False)
    second_moment: FloatArray = field(init=False)

    def __init__(
        self,
        rows: "ArrayLike | pd.DataFrame",
        *,
        weights: ArrayLike | None = None,
        features: Iterable[object] | None = None,
    ) -> None:
        table, labels = _as_rows(rows, features)
        mass = _as_weights(weights, len(table))
        _set(
            self,
            rows=_frozen(table),
            weights=_frozen(mass),
            features=labels,
            n_features=table.shape[1],
            second_moment=_finite_moment(_weighted_moment(table, mass)),
        )

    @classmethod
    def from_csv(cls, path: str | Path, *, columns: Iterable[str] | None = None) -> Self:
        """Read users from a comma-separated file whose first line names the columns.

        Parameters
        ----------
        path : str or Path
            A UTF-8 file, with or without byte order mark. Blank lines are skipped; ``true`` and ``false`` are 1 and 0.
        columns : iterable of str, optional
            The columns to take, in this order; all by default.

        Raises
        ------
        DataError
            When the file cannot be read, is empty or has no data, when a column is unknown, unnamed or repeated, or
            when a value is missing or not a number; the file, column and line are named.
        """
        header, lines, cells = _read_csv(Path(path))
        chosen = _choose_columns(header, columns, path=path)
        values = [
            _numeric_column(
                [_parse_cell(row[k]) for row in cells], label=name, where=lambda row: f"line {lines[row]} of {path}"
            )
            for name, k in chosen
        ]
        return cls(np.column_stack(values), features=[name for name, _ in chosen])

    @property
    def n_rows(self) -> int:
        """Number of rows n, those of weight zero included."""
        return len(self.rows)

    @property
    def mean(self) -> FloatArray:
        """E[x], the weighted mean of the rows, shape (d,)."""
        return _frozen(self.weights @ self.rows)

    @property
    def max_norm(self) -> float:
        """sup |x|, the length of the longest row of positive weight."""
        return float(np.linalg.norm(self.rows[self.weights > 0], axis=1).max())

    def sample(self, n: int, seed: SampleSeed = None) -> FloatArray:
        """Rows drawn with replacement, shape (n, d)."""
        return self.rows[_generator(seed).choice(self.n_rows, size=_as_count(n, name="n"), p=self.weights)]

    def contains(self, x: ArrayLike, *, tolerance: float = 1e-8) -> BoolArray:
        """Whether x equals a row of positive weight, up to the tolerance times each column's size."""
        from scipy.spatial import KDTree

        points = _as_points(x, self.n_features)
        scale = np.maximum(np.abs(self.rows).max(axis=0), 1.0)
        tree = KDTree(np.unique(self.rows[self.weights > 0], axis=0) / scale)
        distance, _ = tree.query(points / scale, p=np.inf)
        return np.asarray(distance <= tolerance)

    def phi0_interval(self, level: float = 0.95, *, n_boot: int = 1000, seed: SampleSeed = 0) -> tuple[float, float]:
        """Bootstrap interval (lower, upper) of phi0 when the rows are a sample of a wider population.

        With M* the second moment of a resample of the rows (weights carried along) and a = (1 - level)/2::

            lower = quantile_a(lambda_min(M*)),   upper = phi0 / quantile_a(lambda_min(W' M* W)),

        upper at most quantile_(1-a)(trace M*)/d, W the eigenvectors of E[xx'] that cannot be told from the weakest,
        each divided by the root of its eigenvalue.

        Parameters
        ----------
        level : float
            Nominal coverage, in (0, 1).
        n_boot : int
            Number of resamples, at least 100.
        seed : int, SeedSequence or Generator, optional
            Of the resampling.

        Raises
        ------
        DataError
            When the level or the number of resamples is out of range.

        Applicability
        -------------
        The rows must be independent draws. The smallest eigenvalue of a sample is biased downwards, most where several
        are close: percentile and basic intervals miss the phi0 of a sphere nearly always, hence the ratio for the
        upper end. The interval errs on the wide side; a lower end of 0 means that a direction hangs on a few rows.
        **At the boundary**, phi0 = 0, every resample has phi0 = 0 as well and the bootstrap is silent. The lower end
        is then 0, the upper end a rule of three: a direction absent from the n - rank rows that do not define it
        appears with probability at most 1 - a^(1/(n - rank)). Where a relation holds for everyone (dummies that sum to
        one) phi0 is simply 0.
        """
        if not _is_number(level) or not 0 < level < 1:
            raise DataError(f"level must lie strictly between 0 and 1, got {level!r}. Usual: 0.95.")
        n_boot = _as_count(n_boot, name="n_boot", least=100)
        kept = self.weights > 0
        moments = _resampled_moments(self.rows[kept], self.weights[kept], n_boot=n_boot, rng=_generator(seed))
        return _eigenvalue_interval(
            self.second_moment, moments, n_rows=int(kept.sum()), max_norm=self.max_norm, level=float(level)
        )

    def describe(self) -> str:
        """The population in one line."""
        return self._summary(f"{self.n_rows:,} observed rows")


def _set(population: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(population, name, value)


def _frozen(array: FloatArray) -> FloatArray:
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


# --- moments ---------------------------------------------------------------------------------------------------------


def _spectrum(moment: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ascending eigenvalues and eigenvectors (in columns), zero where zero up to rounding; (..., d, d) in."""
    values, vectors = np.linalg.eigh(moment)
    # Forming X'X costs about d eps of the largest eigenvalue. A wider cut would take different units for deficiency.
    floor = 64 * moment.shape[-1] * np.finfo(np.float64).eps * values[..., -1:]
    return np.where(values <= floor, 0.0, values), vectors


def _finite_moment(moment: FloatArray) -> FloatArray:
    if not np.isfinite(moment).all():
        raise DataError("The covariates are too large: their second moment E[xx'] overflows. Rescale the features.")
    return _frozen((moment + moment.T) / 2)


def _moment_about_zero(cov: FloatArray, mean: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return _finite_moment(cov + np.outer(mean, mean))


def _weighted_moment(rows: FloatArray, weights: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return (rows * weights[:, None]).T @ rows


def _resampled_moments(
    rows: FloatArray, weights: FloatArray, *, n_boot: int, rng: np.random.Generator
) -> FloatArray:  # (n_boot, d, d)
    n, d = rows.shape
    moments = np.empty((n_boot, d, d))
    for k in range(n_boot):
        mass = weights * np.bincount(rng.integers(n, size=n), minlength=n)
        moments[k] = _weighted_moment(rows, mass / mass.sum())
    return moments


def _eigenvalue_interval(
    moment: FloatArray, moments: FloatArray, *, n_rows: int, max_norm: float, level: float
) -> tuple[float, float]:
    """Interval of lambda_min of a population whose sample has ``moment`` and resamples ``moments`` (n_boot, d, d)."""
    tail = (1 - level) / 2
    values, vectors = _spectrum(moment)
    ceiling = float(np.quantile(np.trace(moments, axis1=1, axis2=2), 1 - tail)) / len(values)
    if values[0] == 0:
        # Rule of three: v is fixed by `rank` of the rows and absent from the others; E[(x'v)^2] is at most the
        # probability that it appears times max |x|^2.
        n_others = n_rows - int((values > 0).sum())
        unseen = 1 - tail ** (1 / n_others) if n_others > 0 else 1.0
        return 0.0, min(unseen * max_norm**2, ceiling)
    lower = float(np.quantile(_spectrum(moments)[0][:, 0], tail))
    shrinkage = _tied_shrinkage(moments, values, vectors, level=level)
    upper = float(values[0]) / shrinkage if shrinkage > 0 else math.inf
    return lower, max(lower, min(upper, ceiling))


def _tied_shrinkage(moments: FloatArray, values: FloatArray, vectors: FloatArray, *, level: float) -> float:
    """Lower quantile of lambda_min(M*)/lambda_min(M) if all eigenvalues not told from the smallest were equal."""
    whitener = vectors / np.sqrt(values)
    whitened = whitener.T @ moments @ whitener  # (n_boot, d, d), mean about I
    spread = np.linalg.eigvalsh(whitened)
    with np.errstate(divide="ignore"):
        spacing = np.quantile(spread[:, -1] / np.maximum(spread[:, 0], 0.0), level, method="higher")
    tied = int((values <= spacing * values[0]).sum())
    smallest = np.linalg.eigvalsh(whitened[:, :tied, :tied])[:, 0]
    shrinkage = float(np.quantile(smallest, (1 - level) / 2))
    return shrinkage if shrinkage > 1e-9 else 0.0


def _sparse_basis(null: FloatArray) -> FloatArray:
    """A basis of the same space (m, d) with few non-zero entries, in rows of length 1."""
    basis = null.copy()
    for k in range(len(basis)):
        row, column = divmod(int(np.abs(basis[k:]).argmax()), basis.shape[1])
        basis[[k, k + row]] = basis[[k + row, k]]
        basis[k] /= basis[k, column]
        others = np.arange(len(basis)) != k
        basis[others] -= np.outer(basis[others, column], basis[k])
    basis[np.abs(basis) < 1e-9] = 0.0
    return basis / np.linalg.norm(basis, axis=1, keepdims=True)


def _direction_text(direction: FloatArray, features: Sequence[str]) -> str:
    """``"0.71 female - 0.71 male"``: the largest terms, in the order of the features."""
    terms = np.flatnonzero(np.abs(direction) > _NEGLIGIBLE)
    shown = sorted(terms[np.argsort(-np.abs(direction[terms]), kind="stable")[:_MOST_TERMS]])
    text = " ".join(f"{'-' if direction[k] < 0 else '+'} {abs(direction[k]):.2g} {features[k]}" for k in shown)
    return text.removeprefix("+ ") + (" + ..." if len(terms) > len(shown) else "")


# --- checked input ---------------------------------------------------------------------------------------------------


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _as_count(value: int, *, name: str, least: int = 0) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or count < least or isinstance(value, (bool, np.bool_)):
        raise DataError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return count


def _generator(seed: SampleSeed) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    try:
        return as_rng(seed)
    except (TypeError, ValueError):
        raise DataError(f"seed must be a non-negative integer, a SeedSequence or a Generator, got {seed!r}.") from None


def _as_features(features: Iterable[object] | None, size: int) -> tuple[str, ...]:
    if isinstance(features, str) or not (features is None or isinstance(features, Iterable)):
        raise DataError(f"features must be a list of {size} labels, got {features!r}.")
    try:
        return as_labels(features, dim=FEATURE, size=size)
    except RcbError as error:
        raise DataError(str(error)) from None


def _as_numeric(values: ArrayLike, *, name: str, ndim: int | tuple[int, ...] | None = None) -> FloatArray:
    try:
        kind = np.asarray(values).dtype.kind
    except ValueError:
        kind = "O"
    if kind not in "biufO":  # NumPy would parse the text "1.5" and turn dates into nanoseconds
        raise DataError(f"{name} must be numeric, got {type(values).__name__} of {np.asarray(values).dtype}.")
    return as_finite_array(values, name=name, ndim=ndim)


def _as_points(x: ArrayLike, n_features: int) -> FloatArray:
    points = _as_numeric(x, name="x")
    if points.ndim == 0 or points.shape[-1] != n_features:
        raise DataError(f"x must have {n_features} features in its last dimension, got shape {points.shape}.")
    return points


def _as_covariance(cov: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The matrix, its eigenvalues and its eigenvectors."""
    matrix = _as_numeric(cov, name="cov", ndim=(1, 2))
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    if matrix.size == 0 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"cov must be a (d, d) matrix or d variances, got shape {matrix.shape}.")
    size = np.abs(matrix).max()
    gap = np.abs(matrix - matrix.T)
    if gap.max() > 1e-8 * size:
        i, j = (int(k) for k in np.unravel_index(gap.argmax(), gap.shape))
        pair = f"cov[{i}, {j}] = {matrix[i, j]:.6g} but cov[{j}, {i}] = {matrix[j, i]:.6g}"
        raise DataError(f"cov must be symmetric, got {pair}. Use (cov + cov.T) / 2 if that is rounding.")
    matrix = matrix / 2 + matrix.T / 2
    values, vectors = _spectrum(matrix)
    lowest = float(np.linalg.eigvalsh(matrix)[0])
    if lowest < -1e-8 * size:
        raise DataError(
            f"cov must be positive semi-definite, got smallest eigenvalue {lowest:.3g}. "
            "Check variances and correlations, or raise the negative eigenvalues to zero."
        )
    return matrix, values, vectors


def _as_box(low: ArrayLike, high: ArrayLike, *, n_features: int | None) -> tuple[FloatArray, FloatArray]:
    bottom = _as_numeric(low, name="low", ndim=(0, 1))
    top = _as_numeric(high, name="high", ndim=(0, 1))
    sizes = {corner.size for corner in (bottom, top) if corner.ndim == 1}
    if n_features is not None:
        sizes.add(_as_count(n_features, name="n_features", least=1))
    if not sizes:
        raise DataError("low and high are plain numbers: give n_features as well, or a vector for one of them.")
    if len(sizes) > 1 or 0 in sizes:
        raise DataError(f"low, high and n_features must agree on a size of at least 1, got {sorted(sizes)}.")
    bottom, top = (np.broadcast_to(corner, (max(sizes),)) for corner in (bottom, top))
    if (bottom >= top).any():
        k = int((bottom >= top).argmax())
        raise DataError(
            f"low must be below high, got low[{k}] = {bottom[k]:.6g}, high[{k}] = {top[k]:.6g}. "
            "For a constant feature use Empirical, or Gaussian with variance 0."
        )
    return bottom, top


def _as_weights(weights: ArrayLike | None, n_rows: int) -> FloatArray:
    if weights is None:
        return np.full(n_rows, 1.0 / n_rows)
    mass = _as_numeric(weights, name="weights", ndim=1)
    if len(mass) != n_rows:
        raise DataError(f"Expected one weight per row ({n_rows}), got {len(mass)}.")
    if (mass < 0).any() or not mass.any():
        raise DataError(f"weights must not be negative nor all zero, got a smallest of {mass.min():.6g}.")
    mass = mass / mass.max()
    return mass / mass.sum()


def _as_rows(rows: "ArrayLike | pd.DataFrame", features: Iterable[object] | None) -> tuple[FloatArray, tuple[str, ...]]:
    """The table as floats, shape (n, d), and its labels."""
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):  # a DataFrame, without importing pandas
        return _frame_rows(rows, features)  # pyright: ignore[reportArgumentType]
    try:
        raw = np.asarray(rows)
        # From the objects, not from `raw`: a single text among the numbers turns all of them into text there.
        raw = raw if raw.dtype.kind in "biuf" else np.asarray(rows, dtype=object)
    except ValueError:
        raise DataError("rows must form an (n, d) table, got rows of different lengths.") from None
    if raw.ndim != 2:
        hint = " For one user give [[...]], for one feature rows.reshape(-1, 1)." if raw.ndim == 1 else ""
        raise DataError(f"rows must be an (n, d) table, got {type(rows).__name__} of shape {raw.shape}.{hint}")
    _require_cells(raw.shape)
    labels = _as_features(features, raw.shape[1])
    columns = [
        _numeric_column(raw[:, k], label=label, where=lambda row: f"row {row}") for k, label in enumerate(labels)
    ]
    return np.column_stack(columns), labels


def _frame_rows(frame: "pd.DataFrame", features: Iterable[object] | None) -> tuple[FloatArray, tuple[str, ...]]:
    _require_cells(frame.shape)
    labels = _as_features(frame.columns if features is None else features, frame.shape[1])
    columns = [
        _numeric_column(
            frame.iloc[:, k].to_numpy(), label=label, where=lambda row: f"row {row} (index {frame.index[row]!r})"
        )
        for k, label in enumerate(labels)
    ]
    return np.column_stack(columns), labels


def _require_cells(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise DataError(f"rows must have at least one row and one column, got shape {tuple(shape)}.")


def _numeric_column(values: Iterable[object], *, label: str, where: Callable[[int], str]) -> FloatArray:
    """One column as finite floats; the first value that is none is named by its column and place."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and np.isfinite(values).all():
        return values.astype(np.float64)
    numbers = []
    for row, value in enumerate(values):
        fault = _fault(value)
        if fault is not None:
            raise DataError(f"Column '{label}', {where(row)}: expected a number, got {fault}")
        numbers.append(float(value))  # pyright: ignore[reportArgumentType]
    return np.array(numbers, dtype=np.float64)


def _fault(value: object) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return "a missing value. Fill it in or drop the row."
    if not isinstance(value, (Real, np.bool_)):
        return f"{str(value)[:40]!r}. Encode categories as 0/1 columns (pandas.get_dummies) or drop the column."
    if math.isnan(value):
        return "a missing value (NaN). Fill it in or drop the row."
    return "an infinite value. Replace it or drop the row." if math.isinf(value) else None


# --- comma-separated files -------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> tuple[list[str], list[int], list[list[str]]]:
    """Column names, and for each record its line number and cells."""
    lines, cells = [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for record in reader:
                if len(record) > 1 or any(cell.strip() for cell in record):
                    lines.append(reader.line_num)
                    cells.append(record)
    except FileNotFoundError:
        raise DataError(f"No such file: {path}. Check the path (relative paths start at {Path.cwd()}).") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text. Save it as 'CSV UTF-8'.") from None
    except (OSError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file: {error}.") from None
    if not cells:
        raise DataError(f"{path} is empty. Expected a line of column names, then one line per user.")
    header = [name.strip() for name in cells[0]]
    _check_layout(header, lines[1:], cells[1:], path=path)
    return header, lines[1:], cells[1:]


def _check_layout(header: list[str], lines: list[int], cells: list[list[str]], *, path: Path) -> None:
    if all(isinstance(_parse_cell(name), float) for name in header):
        raise DataError(f"{path}, line 1: expected column names, got numbers. Add a header line.")
    if not cells:
        raise DataError(f"{path} has column names but no rows. Add one line per user.")
    for line, record in zip(lines, cells, strict=True):
        if len(record) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} values, got {len(record)}. "
                "Separate values by commas and quote those that contain one."
            )
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise DataError(f"{path}, line 1: expected commas, got {header[0]!r}. Save the file comma-separated.")


def _choose_columns(
    header: list[str], columns: Iterable[str] | None, *, path: str | Path
) -> list[tuple[str, int]]:  # (name, position)
    if isinstance(columns, str):
        raise DataError(f"columns must be a list of names, got {columns!r}. Write [{columns!r}].")
    chosen = list(header if columns is None else columns)
    if not chosen:
        raise DataError("columns must name at least one column, got none.")
    for name in chosen:
        if name not in header:
            known = ", ".join(header)
            raise DataError(f"{path} has no column '{name}', only {known}.{suggestion(str(name), header)}")
        if name == "":
            position = header.index("") + 1
            raise DataError(
                f"{path}, line 1: column {position} has no name. Name it, or choose others with columns=; "
                "pandas writes such a column for its index unless told index=False."
            )
        if header.count(name) > 1 or chosen.count(name) > 1:
            raise DataError(f"{path}: column '{name}' occurs more than once. Rename or choose one.")
    return [(name, header.index(name)) for name in chosen]


def _parse_cell(cell: str) -> object:
    """A float, a bool, None for an empty cell, or the text itself."""
    text = cell.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return text if "_" in text else float(text)  # Python reads 1_000 as a number; a table rarely means it
    except ValueError:
        return text if text.lower() not in ("", "na", "n/a", "null", "none") else None
