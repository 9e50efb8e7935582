r"""Data sets for the posterior engines, many at a time.

With linear Gaussian rewards a data set enters only through :math:`X'X`, :math:`X'y`, :math:`y'y` and n of each arm, so
thousands of simulated histories are a few small arrays. Bernoulli rewards need the rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.schema import FloatArray, as_finite_array

_TOLERANCE = 1e-8
_RANK_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Statistics:
    """Sufficient statistics of M data sets.

    Parameters
    ----------
    xtx : ndarray
        (M, K, d, d), sums of x x' over the samples of each arm.
    xty : ndarray
        (M, K, d), sums of x y.
    yty : ndarray
        (M, K), sums of y^2.
    n : ndarray
        (M, K), numbers of samples; 0 is fine (the posterior of an unseen, independent arm is its prior).

    Raises
    ------
    DataError
        Non-finite values, shapes that disagree, X'X not symmetric positive semi-definite, statistics that no n
        samples can give (data without samples, X'X of a higher rank than n, X'y or y'y that break Cauchy's inequality).

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> data = rcb.posterior.Statistics.from_rows([[1.0, 0.0], [0.0, 1.0]], arm=[0, 1], reward=[1.0, 0.0], n_arms=2)
    >>> data.n_sets, data.n, data.xty.shape
    (1, array([[1., 1.]]), (1, 2, 2))
    """

    xtx: FloatArray
    xty: FloatArray
    yty: FloatArray
    n: FloatArray

    def __post_init__(self) -> None:
        for name, ndim in (("xtx", 4), ("xty", 3), ("yty", 2), ("n", 2)):
            object.__setattr__(self, name, as_finite_array(getattr(self, name), name=name, ndim=ndim))
        m, k, d = self.xty.shape
        expected = {"xtx": (m, k, d, d), "yty": (m, k), "n": (m, k)}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise DataError(f"{name} must have shape {shape} to fit xty, got {getattr(self, name).shape}.")
        _check_consistent(self)

    @classmethod
    def from_rows(cls, x: ArrayLike, *, arm: ArrayLike, reward: ArrayLike, n_arms: int) -> "Statistics":
        """The statistics of one data set given as rows: x (n, d), arm (n,) positions, reward (n,).

        Parameters
        ----------
        x : array_like
            Users, (n, d).
        arm : array_like
            Positions of their arms, (n,).
        reward : array_like
            Their rewards, (n,).
        n_arms : int
            K.

        Returns
        -------
        Statistics
            Of one data set.
        """
        rows = as_finite_array(x, name="x", ndim=2)
        positions = _as_positions(arm, n=len(rows), n_arms=n_arms)
        y = as_finite_array(reward, name="reward", ndim=1)
        if len(y) != len(rows):
            raise DataError(f"reward must have one entry per row of x ({len(rows)}), got {len(y)}.")
        of_arm = (positions[None] == np.arange(n_arms)[:, None]).astype(float)  # (K, n)
        weighted = of_arm[:, :, None] * rows[None]  # (K, n, d)
        return cls(
            xtx=(weighted.transpose(0, 2, 1) @ rows)[None],
            xty=(weighted.transpose(0, 2, 1) @ y)[None],
            yty=(of_arm @ y**2)[None],
            n=of_arm.sum(axis=1)[None],
        )

    @property
    def n_sets(self) -> int:
        """M, the number of data sets."""
        return len(self.n)

    def take(self, index: np.ndarray | slice) -> "Statistics":
        """Some of the data sets; already checked, so not checked again."""
        return unchecked_statistics(self.xtx[index], self.xty[index], self.yty[index], self.n[index])

    @classmethod
    def of_nothing(cls, n_arms: int, n_features: int, *, n_sets: int = 1) -> "Statistics":
        """Data sets without a sample.

        Parameters
        ----------
        n_arms : int
            K.
        n_features : int
            d.
        n_sets : int
            M.

        Returns
        -------
        Statistics
            With zeros for sums.
        """
        m, k, d = n_sets, n_arms, n_features
        return unchecked_statistics(np.zeros((m, k, d, d)), np.zeros((m, k, d)), np.zeros((m, k)), np.zeros((m, k)))

    @classmethod
    def joined(cls, parts: "Sequence[Statistics]") -> "Statistics":
        """The data sets of all parts, one after the other.

        Parameters
        ----------
        parts : sequence of Statistics
            Data sets of the same arms and features.

        Returns
        -------
        Statistics
            As many data sets as all have together.
        """
        return unchecked_statistics(*(np.concatenate(column) for column in zip(*map(_columns, parts), strict=True)))

    def plus(self, other: "Statistics") -> "Statistics":
        """The samples of both, data set by data set."""
        return unchecked_statistics(*(a + b for a, b in zip(_columns(self), _columns(other), strict=True)))

    def of_arms(self, arms: Iterable[int]) -> "Statistics":
        """The samples of some arms alone."""
        kept = np.zeros(self.n.shape[1])
        kept[list(arms)] = 1.0
        return unchecked_statistics(
            self.xtx * kept[:, None, None], self.xty * kept[:, None], self.yty * kept, self.n * kept
        )

    def fingerprints(self) -> np.ndarray:
        """A number for each data set, (M,), by which an engine picks its random numbers: see ``_fingerprints``."""
        return _fingerprints(self.yty.sum(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Rows of M data sets, padded to a common length.

    Parameters
    ----------
    x : ndarray
        Users, (M, n, d).
    arm : ndarray
        Positions of the arms, (M, n); -1 marks padding.
    reward : ndarray
        Rewards, 0 or 1, (M, n).
    n_arms : int
        K.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> x = np.array([[[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]])
    >>> data = rcb.posterior.Rows(x=x, arm=np.array([[0, 1, 1]]), reward=np.array([[1.0, 0.0, 1.0]]), n_arms=2)
    >>> data.n_sets, data.n
    (1, array([[1., 2.]]))
    """

    x: FloatArray
    arm: np.ndarray
    reward: FloatArray
    n_arms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", as_finite_array(self.x, name="x", ndim=3))
        object.__setattr__(self, "reward", as_finite_array(self.reward, name="reward", ndim=2))
        arm = np.asarray(self.arm)
        if arm.shape != self.x.shape[:2] or self.reward.shape != self.x.shape[:2]:
            raise DataError(
                f"arm and reward must have shape {self.x.shape[:2]} to fit x, got {arm.shape} and {self.reward.shape}."
            )
        if not np.issubdtype(arm.dtype, np.integer) or (arm.size and (arm.min() < -1 or arm.max() >= self.n_arms)):
            raise DataError(f"arm must hold positions 0 to {self.n_arms - 1} (or -1 for padding).")
        used = self.reward[arm >= 0]
        if not np.isin(used, (0.0, 1.0)).all():
            raise DataError("Bernoulli rewards must be 0 or 1; use GaussianNoise for others.")
        object.__setattr__(self, "arm", arm)

    @property
    def n_sets(self) -> int:
        """M, the number of data sets."""
        return len(self.x)

    @property
    def n(self) -> FloatArray:
        """Numbers of samples, (M, K)."""
        return (self.arm[:, :, None] == np.arange(self.n_arms)).sum(axis=1).astype(float)

    def take(self, index: np.ndarray | slice) -> "Rows":
        """Some of the data sets."""
        return Rows(x=self.x[index], arm=self.arm[index], reward=self.reward[index], n_arms=self.n_arms)

    def fingerprints(self) -> np.ndarray:
        """A number for each data set, (M,), by which an engine picks its random numbers: see ``_fingerprints``."""
        weight = np.where(self.arm >= 0, 1.0 + self.reward, 0.0)
        return _fingerprints((weight * np.abs(self.x).sum(axis=2)).sum(axis=1))


def _columns(data: Statistics) -> tuple[FloatArray, ...]:
    return data.xtx, data.xty, data.yty, data.n


def as_statistics(data: "Statistics | Rows") -> Statistics:
    """The data as statistics, which Gaussian rewards are given as."""
    if not isinstance(data, Statistics):
        raise DataError("Gaussian rewards are given as Statistics (X'X, X'y, y'y, n), not as Rows.")
    return data


def as_rows(data: "Statistics | Rows") -> Rows:
    """The data as rows, which Bernoulli rewards are given as."""
    if not isinstance(data, Rows):
        raise DataError("Bernoulli rewards are given as Rows, not as Statistics.")
    return data


def _fingerprints(sums: FloatArray) -> np.ndarray:
    """Whole numbers below 2^31 from sums of non-negative terms (M,), as good as random.

    They depend on the data alone, so that an answer is the same in any batch, at any place in it and on any worker; the
    sums are rounded first, so that neither the order of the terms matters.
    """
    bits = sums.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits ^ (bits >> np.uint64(16))) * np.uint64(0x9E3779B97F4A7C15)
    return (bits >> np.uint64(33)).astype(np.int64)


def _check_consistent(data: Statistics) -> None:
    if (data.n < 0).any() or (data.n != np.round(data.n)).any():
        raise DataError("n must hold whole numbers of samples, 0 or more.")
    if (data.yty < 0).any():
        raise DataError(f"y'y must hold sums of squares, 0 or more, got {data.yty.min():.3g}.")
    size = np.abs(data.xtx).max(axis=(2, 3), initial=0.0)
    gap = np.abs(data.xtx - data.xtx.swapaxes(2, 3)).max(axis=(2, 3), initial=0.0)
    if (gap > _TOLERANCE * size).any():
        raise DataError("X'X must be symmetric: pass sums of x x'.")
    empty = (data.n == 0) & (size + np.abs(data.xty).sum(axis=2) + data.yty > 0)
    if empty.any():
        m, k = (int(index) for index in np.argwhere(empty)[0])
        raise DataError(f"n says that data set {m} has no sample of arm {k}, but its sums are not zero.")
    if data.xty.size:
        _check_spectrum(data)


def _check_spectrum(data: Statistics) -> None:
    """The moments of (x, y) as correlations: positive semi-definite, and those of x of a rank no higher than n."""
    d = data.xty.shape[-1]
    joint = np.empty((*data.n.shape, d + 1, d + 1))
    joint[..., :d, :d], joint[..., d, d] = data.xtx, data.yty
    joint[..., :d, d] = joint[..., d, :d] = data.xty
    scale = np.sqrt(np.maximum(np.diagonal(joint, axis1=2, axis2=3), 0.0))
    scale = np.maximum(scale, 1e-7 * scale.max(axis=-1, keepdims=True))  # below is rounding
    scale = np.where(scale > 0, scale, 1.0)
    joint /= scale[..., :, None] * scale[..., None, :]
    if not _is_semi_definite(joint):
        if not _is_semi_definite(joint[..., :d, :d]):
            smallest = np.linalg.eigvalsh(data.xtx)[..., 0].min()
            raise DataError(f"X'X must be positive semi-definite, got an eigenvalue of {smallest:.3g}.")
        raise DataError("X'y is larger than X'X and y'y allow: the sums are not of the same samples.")
    few = data.n < d
    rank = (np.linalg.eigvalsh(joint[few][:, :d, :d]) > _RANK_TOLERANCE).sum(axis=-1)
    if (rank > data.n[few]).any():
        where = int(np.argmax(rank > data.n[few]))
        m, k = (int(index) for index in np.argwhere(few)[where])
        raise DataError(
            f"n says that data set {m} has {data.n[m, k]:.0f} sample(s) of arm {k}, "
            f"but its X'X has rank {rank[where]}. Count every sample in n."
        )


def _is_semi_definite(matrices: FloatArray) -> bool:
    """Whether no eigenvalue of any correlation matrix (..., p, p) lies below zero by more than rounding."""
    try:
        np.linalg.cholesky(matrices + _TOLERANCE * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError:
        return False
    return True


def unchecked_statistics(xtx: FloatArray, xty: FloatArray, yty: FloatArray, n: FloatArray) -> Statistics:
    """Statistics of what is known to be consistent, such as sums of samples."""
    out = object.__new__(Statistics)
    for name, value in (("xtx", xtx), ("xty", xty), ("yty", yty), ("n", n)):
        object.__setattr__(out, name, value)
    return out


def _as_positions(arm: ArrayLike, *, n: int, n_arms: int) -> np.ndarray:
    positions = np.asarray(arm)
    if positions.shape != (n,) or not np.issubdtype(positions.dtype, np.integer):
        raise DataError(f"arm must hold {n} integer positions, got shape {positions.shape}, type {positions.dtype}.")
    if n and (positions.min() < 0 or positions.max() >= n_arms):
        raise DataError(f"arm must lie in 0 to {n_arms - 1}, got {positions.min()} to {positions.max()}.")
    return positions
