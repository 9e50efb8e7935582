"""Samples from before: users, arms and rewards of a table, such as a log or the history of an old system."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.errors import DataError
from rcb_bayes.schema import ARM, FEATURE, FloatArray, as_finite_array, no_such
from rcb_bayes.users.labelled import as_users
from rcb_bayes.users.tables import read_log


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Users as a belief has them, x (n, d), positions of arms (n,) and rewards (n,)."""

    x: FloatArray
    arm: np.ndarray
    reward: FloatArray

    def counts(self, n_arms: int) -> tuple[int, ...]:
        """Samples of each arm."""
        return tuple(np.bincount(self.arm, minlength=n_arms).tolist())

    def users_of(self, arm: int) -> FloatArray:
        """Users behind the samples of an arm, (n, d)."""
        return self.x[self.arm == arm]

    def among(self, arms: list[int]) -> "Samples":
        """The samples of some arms, at their places among these."""
        place = {arm: k for k, arm in enumerate(arms)}
        kept = np.isin(self.arm, arms)
        moved = np.array([place[arm] for arm in self.arm[kept].tolist()], dtype=np.int64)
        return Samples(x=self.x[kept], arm=moved, reward=self.reward[kept])

    def rewarded(self, reward: FloatArray) -> "Samples":
        """The same users and arms with other rewards, (n,)."""
        return replace(self, reward=reward)


def read_samples(prior: Prior, data: Any) -> Samples:
    """Samples from a table with a column for each of users' covariates, ``arm`` (labels or positions) and ``reward``.

    A comma-separated file by its path, a DataFrame, or a dict, which may have ``x`` (n, p) in the place of the columns.

    Raises
    ------
    DataError
        Missing columns, unknown arms, values that are not finite.
    """
    if isinstance(data, Samples):
        return data
    if isinstance(data, str | Path):
        data = read_log(Path(data), words=(ARM,))
    columns = list(data.columns) if hasattr(data, "columns") else list(data) if isinstance(data, Mapping) else []
    missing = [name for name in ("arm", "reward") if name not in columns]
    if missing:
        got = ", ".join(map(str, columns[:8])) or type(data).__name__
        raise DataError(f"The data need x or a column for each {FEATURE}, arm and reward; got {got}.")
    values = data["x"] if "x" in columns and "x" not in prior.inputs else _features_of(prior, data)
    x = as_users(values, features=prior.inputs, name="x", ndim=2)
    x = x if prior.feature_map is None else prior.feature_map(x)
    reward = as_finite_array(np.asarray(data["reward"]), name="reward", ndim=1)
    arm = _positions(prior, np.asarray(data["arm"]))
    if not len(x) == len(arm) == len(reward):
        raise DataError(f"x, arm and reward must be of one length, got {len(x)}, {len(arm)} and {len(reward)}.")
    return Samples(x=x, arm=arm, reward=reward)


def _features_of(prior: Prior, data: Any) -> dict[str, Any]:
    """The columns of the features, whatever else there is; those that lack are named where they are missed."""
    columns = list(data.columns) if hasattr(data, "columns") else list(data)
    return {name: np.asarray(data[name]) for name in prior.inputs if name in columns}


def _positions(prior: Prior, arm: np.ndarray) -> np.ndarray:
    """Positions of arms given by label, or by position."""
    places = {name: k for k, name in enumerate(prior.arms)}
    if np.issubdtype(arm.dtype, np.integer) and not set(arm.astype(str).tolist()) <= set(places):
        found = arm.astype(np.int64)
        if found.size and not (found.min() >= 0 and found.max() < len(places)):
            raise DataError(f"Arms by position are 0 to {len(places) - 1}, got {found.min()} to {found.max()}.")
        return found
    unknown = sorted({name for name in arm.astype(str).tolist() if name not in places})
    if unknown:
        raise no_such("arm", unknown[0], prior.arms, told="The arms are", error=DataError)
    return np.array([places[name] for name in arm.astype(str).tolist()], dtype=np.int64)
