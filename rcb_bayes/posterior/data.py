r"""Data sets for the posterior engines, many at a time.

With linear Gaussian rewards a data set enters only through :math:`X'X`, :math:`X'y`, :math:`y'y` and n of each arm, so
thousands of simulated histories are a few small arrays. Bernoulli rewards need the rows or, of users from a table, how
often each came and with what.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError
from rcb_bayes.posterior.consistency import check_consistent
from rcb_bayes.schema import FloatArray, as_finite_array

_LONG = 200  # samples, from which on it pays to look for users who come again


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
        check_consistent(self)

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

    def renamed(self, names: np.ndarray) -> "Statistics":
        """The same samples with the arms of each data set in another order, (M, K)."""
        return unchecked_statistics(*(_in_order(part, names) for part in _columns(self)))

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

    def of_each(self, arms: Sequence[int]) -> "ArmRows":
        """The rows of each of some arms, padded to a common length."""
        counts = (self.arm[:, :, None] == np.array(arms)).sum(axis=1)  # (M, K)
        m, size, d = self.n_sets, int(counts.max(initial=0)), self.x.shape[2]
        x, s = np.zeros((m, len(arms), size, d)), np.zeros((m, len(arms), size))
        n = (np.arange(size) < counts[..., None]).astype(float)
        for k, arm in enumerate(arms):
            first = np.argsort(self.arm != arm, axis=1, kind="stable")[:, :size]
            x[:, k] = np.take_along_axis(self.x, first[..., None], axis=1) * n[:, k, :, None]
            s[:, k] = np.take_along_axis(self.reward, first, axis=1) * n[:, k]
        return ArmRows(x, n, s)

    def fingerprints(self) -> np.ndarray:
        """A number for each data set, (M,), by which an engine picks its random numbers: see ``_fingerprints``."""
        weight = np.where(self.arm >= 0, 1.0 + self.reward, 0.0)
        return _fingerprints((weight * np.abs(self.x).sum(axis=2)).sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class ArmRows:
    """Rows ``x`` (M, K, C, d) of each arm, padded, with trials ``n`` and successes ``s`` (M, K, C)."""

    x: FloatArray
    n: FloatArray
    s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tallies:
    """0/1 rewards of M data sets, counted for each user of one table and each arm.

    Parameters
    ----------
    users : ndarray
        The table, (C, d).
    trials : ndarray
        How often each user was given each arm, (M, K, C).
    successes : ndarray
        How many of these rewards were 1, (M, K, C).
    """

    users: FloatArray
    trials: FloatArray
    successes: FloatArray

    @property
    def n_sets(self) -> int:
        """M, the number of data sets."""
        return len(self.trials)

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        return self.trials.shape[1]

    @property
    def n(self) -> FloatArray:
        """Numbers of samples, (M, K)."""
        return self.trials.sum(axis=2)

    @classmethod
    def joined(cls, parts: "Sequence[Tallies]") -> "Tallies":
        """The data sets of all parts, which have one table, one after the other."""
        trials, successes = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("trials", "successes")
        )
        return cls(users=parts[0].users, trials=trials, successes=successes)

    def plus(self, other: "Tallies") -> "Tallies":
        """The samples of both, data set by data set."""
        return Tallies(users=self.users, trials=self.trials + other.trials, successes=self.successes + other.successes)

    def take(self, index: np.ndarray | slice) -> "Tallies":
        """Some of the data sets."""
        return Tallies(users=self.users, trials=self.trials[index], successes=self.successes[index])

    def renamed(self, names: np.ndarray) -> "Tallies":
        """The same samples with the arms of each data set in another order, (M, K)."""
        return Tallies(
            users=self.users, trials=_in_order(self.trials, names), successes=_in_order(self.successes, names)
        )

    def fingerprints(self) -> np.ndarray:
        """A number for each data set, (M,), the same as that of its rows."""
        weight = (self.trials + self.successes).sum(axis=1)
        return _fingerprints((weight * np.abs(self.users).sum(axis=1)).sum(axis=1))

    def as_rows(self) -> Rows:
        """The same samples one by one, padded to a common length."""
        m, k, c = self.trials.shape
        size = int(self.n.sum(axis=1).max(initial=0))
        x, arm, reward = np.zeros((m, size, self.users.shape[1])), np.full((m, size), -1), np.zeros((m, size))
        arms, users = (part.reshape(-1) for part in np.indices((k, c)))
        for own in range(m):
            start = 0
            ones = self.successes[own].reshape(-1).astype(int)
            for value, times in ((1.0, ones), (0.0, self.trials[own].reshape(-1).astype(int) - ones)):
                places = np.repeat(np.arange(k * c), times)
                there = slice(start, start + len(places))
                x[own, there], arm[own, there], reward[own, there] = self.users[users[places]], arms[places], value
                start += len(places)
        return Rows(x=x, arm=arm, reward=reward, n_arms=k)


Data = Statistics | Rows | Tallies
"""Data sets as an engine takes them."""


def tallied(users: FloatArray, who: np.ndarray, arm: np.ndarray, reward: FloatArray, *, n_arms: int) -> Tallies:
    """Samples counted: positions of users and arms (M, n), -1 for padding, and rewards 0 or 1 (M, n)."""
    m, c = len(who), len(users)
    there = arm >= 0
    key = ((np.arange(m)[:, None] * n_arms + np.maximum(arm, 0)) * c + who)[there]
    trials, successes = (
        np.bincount(key, weights=weights, minlength=m * n_arms * c).reshape(m, n_arms, c).astype(float)
        for weights in (None, reward[there])
    )
    return Tallies(users=users, trials=trials, successes=successes)


def _columns(data: Statistics) -> tuple[FloatArray, ...]:
    return data.xtx, data.xty, data.yty, data.n


def as_statistics(data: Data) -> Statistics:
    """The data as statistics, which Gaussian rewards are given as."""
    if not isinstance(data, Statistics):
        raise DataError("Gaussian rewards are given as Statistics (X'X, X'y, y'y, n), not as Rows.")
    return data


def as_counted(data: Data) -> Rows | Tallies:
    """Bernoulli rewards as they are, but for a long history of few users, whose samples are counted."""
    if isinstance(data, Statistics):
        raise DataError("Bernoulli rewards are given as Rows, not as Statistics.")
    if isinstance(data, Rows) and data.n_sets == 1 and data.x.shape[1] > _LONG:
        users, who = np.unique(data.x[0] + 0.0, axis=0, return_inverse=True)
        if 2 * len(users) <= data.x.shape[1]:
            return tallied(users, who.reshape(1, -1), data.arm, data.reward, n_arms=data.n_arms)
    return data


def as_rows(data: Data) -> Rows:
    """The data as rows, which Bernoulli rewards are given as."""
    if isinstance(data, Tallies):
        return data.as_rows()
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


def unchecked_statistics(xtx: FloatArray, xty: FloatArray, yty: FloatArray, n: FloatArray) -> Statistics:
    """Statistics of what is known to be consistent, such as sums of samples."""
    out = object.__new__(Statistics)
    for name, value in (("xtx", xtx), ("xty", xty), ("yty", yty), ("n", n)):
        object.__setattr__(out, name, value)
    return out


def _as_positions(arm: ArrayLike, *, n: int, n_arms: int) -> np.ndarray:
    try:
        positions = np.asarray(arm)
    except ValueError:
        raise DataError(f"arm must hold {n} integer positions, got rows of several lengths.") from None
    if positions.shape != (n,) or not np.issubdtype(positions.dtype, np.integer):
        raise DataError(f"arm must hold {n} integer positions, got shape {positions.shape}, type {positions.dtype}.")
    if n and (positions.min() < 0 or positions.max() >= n_arms):
        raise DataError(f"arm must lie in 0 to {n_arms - 1}, got {positions.min()} to {positions.max()}.")
    return positions


def _in_order(values: FloatArray, names: np.ndarray) -> FloatArray:
    """Values of arms (M, K, ...) in an order of each data set's own, (M, K)."""
    return np.take_along_axis(values, names.reshape(*names.shape, *[1] * (values.ndim - 2)), axis=1)
