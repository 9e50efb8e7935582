"""Runs of many worlds as curves over rounds: cumulative regret, gains by window, means with their errors."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    import xarray as xr

_N_WINDOWS = 24


def regret_curves(runs: "xr.Dataset", *, most: int) -> tuple[FloatArray, FloatArray]:
    """Rounds (n,) from 0 on, and cumulative regret of each world, (worlds, n), at no more than ``most`` of them."""
    check_worlds(runs)
    total = np.cumsum(runs["regret"].transpose("world", "t").values, axis=1)
    shown = np.unique(np.linspace(0, total.shape[1] - 1, most).round().astype(int))
    return np.append(0, runs["t"].values[shown]), np.pad(total[:, shown], ((0, 0), (1, 0)))


def windowed_gain(runs: "xr.Dataset") -> tuple[FloatArray, FloatArray]:
    """The middles of windows of rounds (n,), and the mean gain of each world in them, (worlds, n)."""
    gain, t = runs["gain"].transpose("world", "t").values, runs["t"].values
    edges = np.unique(np.geomspace(1, len(t) + 1, _N_WINDOWS + 1).astype(int)) - 1
    sums = np.add.reduceat(gain, edges[:-1], axis=1)
    sizes = np.diff(edges)
    last = edges[1:] - 1
    return np.sqrt(t[edges[:-1]] * t[last].astype(float)), sums / sizes


def cold_start_end(runs: "xr.Dataset") -> float | None:
    """The mean length of the cold start over the worlds in which it ended; None if it did in none."""
    lengths = runs["cold_start_length"].values
    return float(lengths[lengths > 0].mean()) if (lengths > 0).any() else None


def check_worlds(runs: "xr.Dataset") -> None:
    """Refuse one world alone, selected by a number."""
    if "world" not in runs.dims:
        raise RcbError("These runs have no dimension 'world'. Keep it, as in runs.isel(world=[0]).")


def mean_over_worlds(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean over the first axis and its standard error; 0 for one world."""
    n = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), error
