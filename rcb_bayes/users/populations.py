"""Populations in closed form: uniform on a sphere, in a ball or in a box, and Gaussian."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.schema import BoolArray, FloatArray, Labels, Table, as_covariance, as_finite_array
from rcb_bayes.users.base import Population, as_width
from rcb_bayes.users.moments import spectrum


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Sphere(Population):
    """Users uniform on the unit sphere: ``|x| = 1``, E[x] = 0, E[xx'] = I/d, phi0 = 1/d.

    Parameters
    ----------
    n_features : int
        D >= 1; for d = 1 the sphere is {-1, 1}.
    features : iterable, optional
        Labels, ``feature_0, ...`` by default.

    Raises
    ------
    RcbError
        When d is not a positive integer or the labels do not fit.

    Applicability
    -------------
    The population of the paper's simulations. ``|x| <= 1`` as its theorems ask, and phi0 is as large as it can then be.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> users = rcb.Sphere(5)
    >>> users.sample(3, seed=1).shape, users.max_norm, round(users.phi0, 2)
    ((3, 5), 1.0, 0.2)
    """

    n_features: int

    def __init__(self, n_features: int, *, features: Labels = None) -> None:
        d = as_width(n_features)
        moments = {"mean": np.zeros(d), "second_moment": np.eye(d) / d, "max_norm": 1.0}
        self._settle("uniform on the unit sphere", features=features, **moments)

    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        normal = rng.standard_normal((n, self.n_features))
        normal /= np.sqrt(np.einsum("nd,nd->n", normal, normal))[:, None]
        return normal

    def _in_support(self, points: Table, tolerance: float) -> BoolArray:
        return np.abs(np.linalg.norm(points, axis=-1) - 1.0) <= tolerance

    def project(self, points: Table) -> FloatArray:
        """The nearest users, (n, d) -> (n, d); the centre, which has none, becomes the first unit vector."""
        norm = np.linalg.norm(points, axis=1, keepdims=True)
        return np.where(norm > 0, points, np.eye(self.n_features)[0]) / np.where(norm > 0, norm, 1.0)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Ball(Population):
    """Users uniform in the unit ball: ``|x|^d`` is uniform, E[x] = 0, E[xx'] = I/(d + 2), phi0 = 1/(d + 2).

    Parameters
    ----------
    n_features : int
        D >= 1; for d = 1 the ball is [-1, 1].
    features : iterable, optional
        Labels, ``feature_0, ...`` by default.

    Raises
    ------
    RcbError
        When d is not a positive integer or the labels do not fit.

    Applicability
    -------------
    Bounded as the theorems ask. Users near the centre gain little from any arm, so their constraint binds early.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> users = rcb.Ball(3)
    >>> users.contains([[0.5, 0.5, 0.5], [1.0, 1.0, 1.0]]), round(users.phi0, 2)
    (array([ True, False]), 0.2)
    """

    n_features: int

    def __init__(self, n_features: int, *, features: Labels = None) -> None:
        d = as_width(n_features)
        moments = {"mean": np.zeros(d), "second_moment": np.eye(d) / (d + 2), "max_norm": 1.0}
        self._settle("uniform in the unit ball", features=features, **moments)

    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        direction = Sphere(self.n_features).sample(n, rng)
        return direction * rng.random((n, 1)) ** (1.0 / self.n_features)

    def _in_support(self, points: Table, tolerance: float) -> BoolArray:
        return np.linalg.norm(points, axis=-1) <= 1.0 + tolerance

    def project(self, points: Table) -> FloatArray:
        """The nearest users, (n, d) -> (n, d)."""
        return points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1.0)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Gaussian(Population):
    """Users x ~ N(mean, cov), so that E[xx'] = cov + mean mean'.

    Parameters
    ----------
    cov : array_like
        (d, d), or (d,) variances; a variance of zero makes a constant feature, such as an intercept.
    mean : array_like, optional
        (d,), zero by default.
    features : iterable, optional
        Labels, ``feature_0, ...`` by default.

    Raises
    ------
    RcbError
        When ``cov`` is not a finite, symmetric, positive semi-definite matrix, or mean or labels do not fit.

    Applicability
    -------------
    ``|x|`` is unbounded, against the paper's ``|x| <= 1``: the theorem's constants do not cover it, sampled plans do.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> users = rcb.Gaussian([0.0, 1.0], mean=[1.0, 0.0], features=["intercept", "age"])
    >>> users.second_moment
    array([[1., 0.],
           [0., 1.]])
    >>> users.max_norm
    inf
    """

    cov: FloatArray
    mean: FloatArray

    @np.errstate(over="ignore")  # an infinite moment is refused
    def __init__(self, cov: ArrayLike, *, mean: ArrayLike | None = None, features: Labels = None) -> None:
        cov = as_finite_array(cov, name="cov", ndim=(1, 2))
        if len(cov):
            as_width(len(cov))
        cov = as_covariance(cov, name="cov")
        mean = np.zeros(len(cov)) if mean is None else as_finite_array(mean, name="mean", ndim=1)
        if len(mean) != len(cov):
            raise DataError(f"mean must have one entry per row of cov ({len(cov)}), got shape {mean.shape}.")
        moment = cov + np.outer(mean, mean)
        max_norm = math.inf if cov.any() else float(np.linalg.norm(mean))
        self._settle("Gaussian", features=features, second_moment=moment, max_norm=max_norm, mean=mean, cov=cov)

    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        values, vectors = spectrum(self.cov)
        # The symmetric root does not depend on the signs LAPACK gives the eigenvectors; a factor V sqrt(D) would.
        root = (vectors * np.sqrt(values)) @ vectors.T
        return self.mean + rng.standard_normal((n, self.n_features)) @ root

    def _in_support(self, points: Table, tolerance: float) -> BoolArray:
        values, vectors = spectrum(self.cov)
        outside = (points - self.mean) @ vectors[:, values == 0]  # (..., n_null), empty at full rank
        return np.linalg.norm(outside, axis=-1) <= tolerance * np.maximum(1.0, np.linalg.norm(points, axis=-1))

    def project(self, points: Table) -> FloatArray:
        """The nearest users no further out than 99.9 % of them, (n, d) -> (n, d): nobody is the worst of a tail."""
        from scipy.stats import chi2

        values, vectors = spectrum(self.cov)
        used = values > 0
        scaled = (points - self.mean) @ vectors[:, used] / np.sqrt(values[used])
        reach = np.sqrt(chi2.ppf(0.999, max(int(used.sum()), 1)))
        scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True) / reach, 1.0)
        return self.mean + (scaled * np.sqrt(values[used])) @ vectors[:, used].T


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Uniform(Population):
    """Users uniform in a box, features independent: E[xx'] = diag((high - low)^2 / 12) + mean mean'.

    Parameters
    ----------
    low, high : array_like
        Numbers or (d,), low < high in every feature.
    n_features : int, optional
        d, needed only when both corners are plain numbers.
    features : iterable, optional
        Labels, ``feature_0, ...`` by default.

    Raises
    ------
    RcbError
        When a corner is not finite, low >= high somewhere, sizes disagree or are unknown, or the labels do not fit.

    Applicability
    -------------
    ``|x| <= 1`` holds only for a small enough box: [-1, 1]^d reaches sqrt(d). See ``max_norm``.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> users = rcb.Uniform([0, -1], [1, 1])
    >>> users.mean, round(users.max_norm, 3)
    (array([0.5, 0. ]), 1.414)
    """

    low: FloatArray
    high: FloatArray

    @np.errstate(over="ignore")  # an infinite moment is refused
    def __init__(
        self, low: ArrayLike, high: ArrayLike, *, n_features: int | None = None, features: Labels = None
    ) -> None:
        low, high = _as_box(low, high, n_features=n_features)
        mean = low / 2 + high / 2
        moment = np.diag((high - low) ** 2 / 12) + np.outer(mean, mean)
        own = {"low": low, "high": high, "mean": mean}
        max_norm = float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))
        self._settle("uniform in a box", features=features, second_moment=moment, max_norm=max_norm, **own)

    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(self.low, self.high, size=(n, self.n_features))

    def _in_support(self, points: Table, tolerance: float) -> BoolArray:
        slack = tolerance * (self.high - self.low)
        return ((points >= self.low - slack) & (points <= self.high + slack)).all(axis=-1)

    def project(self, points: Table) -> FloatArray:
        """The nearest users, (n, d) -> (n, d)."""
        return np.clip(points, self.low, self.high)


def _as_box(low: ArrayLike, high: ArrayLike, *, n_features: int | None) -> tuple[FloatArray, FloatArray]:
    low, high = as_finite_array(low, name="low", ndim=(0, 1)), as_finite_array(high, name="high", ndim=(0, 1))
    sizes = {corner.size for corner in (low, high) if corner.ndim == 1}
    if n_features is not None:
        sizes.add(as_width(n_features))
    if len(sizes) != 1 or 0 in sizes:
        raise DataError(
            f"low, high and n_features must agree on a size of at least 1, got {sorted(sizes) or 'plain numbers'}. "
            "Give vectors of one length, or two numbers and n_features as well."
        )
    low, high = (np.broadcast_to(corner, (as_width(max(sizes)),)) for corner in (low, high))
    if (low >= high).any():
        k = int((low >= high).argmax())
        raise DataError(
            f"low must be below high, got low[{k}] = {low[k]:.6g}, high[{k}] = {high[k]:.6g}. "
            "For a constant feature use Empirical, or Gaussian with variance 0."
        )
    return low, high
