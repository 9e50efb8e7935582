"""Figures of runs: regret, gain, samples, propensities."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rcb_bayes.errors import RcbError
from rcb_bayes.plots import plot_gain, plot_propensities, plot_regret, plot_samples
from tests.plots.drawing import labels_of, save


def runs_of(n_worlds: int, *, n: int = 50, every: int = 1, lengths: tuple[int, ...] | None = None) -> xr.Dataset:
    regret = np.random.default_rng(1).random((n_worlds, n))
    ends = np.array(lengths or (10,) * n_worlds)
    return xr.Dataset(
        {"regret": (("world", "t"), regret), "cold_start_length": (("world",), ends)},
        coords={"t": every * np.arange(1, n + 1), "world": np.arange(n_worlds)},
    )


def test_regret_is_cumulated_and_averaged_over_worlds(tmp_path: Path) -> None:
    runs = runs_of(5, lengths=(10, 20, -1, 30, 20))
    axes = plot_regret(runs)
    total = np.pad(np.cumsum(runs["regret"].values, axis=1), ((0, 0), (1, 0)))
    *single, mean, end = axes.lines
    for line, row in zip(single, total, strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), row)
    np.testing.assert_array_equal(np.asarray(mean.get_xdata()), np.arange(51))
    np.testing.assert_allclose(np.asarray(mean.get_ydata()), total.mean(axis=0))
    band = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    error = total[:, -1].std(ddof=1) / np.sqrt(5)
    assert band.max() == pytest.approx(total[:, -1].mean() + 2 * error)
    assert set(np.asarray(end.get_xdata()).tolist()) == {20.0}  # of the worlds in which it ended
    assert labels_of(axes) == ["single worlds", "mean of 5 worlds", "± 2 standard errors", "end of the cold start (20)"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round t", "cumulative regret (in units of the reward)")
    save(axes, tmp_path)


def test_few_of_many_worlds_and_points_are_drawn(tmp_path: Path) -> None:
    axes = plot_regret(runs_of(30, n=5000))
    assert len(axes.lines) == 8 + 2
    assert len(np.asarray(axes.lines[0].get_xdata())) == 2001
    assert np.asarray(axes.lines[0].get_xdata())[-1] == 5000
    save(axes, tmp_path)


def test_thinned_runs_keep_their_rounds() -> None:
    axes = plot_regret(runs_of(3, every=100))
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == list(range(0, 5001, 100))


def test_one_world_has_no_band(tmp_path: Path) -> None:
    axes = plot_regret(runs_of(1, lengths=(-1,)))
    assert labels_of(axes) == ["one world"]
    assert not axes.collections
    save(axes, tmp_path)


def test_axes_of_the_regret_may_be_given() -> None:
    given = Figure().subplots()
    assert plot_regret(runs_of(2), axes=given) is given


def test_a_world_without_its_dimension_is_refused() -> None:
    with pytest.raises(RcbError, match=r"Keep it, as in runs.isel\(world=\[0\]\)"):
        plot_regret(runs_of(2).isel(world=0))


# --- the others ------------------------------------------------------------------------------------------------------


def full_runs(n_worlds: int = 4, *, n: int = 300) -> xr.Dataset:
    rng = np.random.default_rng(2)
    runs = runs_of(n_worlds, n=n)
    runs["gain"] = (("world", "t"), rng.normal(0.3, 0.1, (n_worlds, n)))
    runs["recommended"] = (("world", "t"), rng.integers(0, 2, (n_worlds, n)).astype(np.int8))
    runs["propensity"] = (("world", "t"), rng.uniform(0.01, 1.0, (n_worlds, n)))
    runs["n_samples"] = (("world", "arm"), rng.integers(50, 90, (n_worlds, 3)).astype(float))
    return runs.assign_coords(arm=["old", "new", "odd"]).assign_attrs(epsilon=0.05)


def test_gain_is_averaged_over_windows_that_cover_every_round_once(tmp_path: Path) -> None:
    runs = full_runs()
    runs["gain"] = (("world", "t"), np.ones((4, 300)))
    axes = plot_gain(runs)
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata()), 1.0)
    assert labels_of(axes) == ["mean over worlds", "± 2 standard errors", "end of the cold start (10)"]
    save(axes, tmp_path)


def test_a_window_has_the_mean_of_its_rounds() -> None:
    runs = full_runs(2, n=3)
    runs["gain"] = (("world", "t"), np.array([[1.0, 2.0, 6.0], [3.0, 2.0, 0.0]]))
    line = plot_gain(runs).lines[0]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), [2.0, 2.0, 3.0])
    np.testing.assert_allclose(np.asarray(line.get_xdata()), [1.0, 2.0, 3.0])


def test_samples_have_a_bar_and_a_dot_for_each_world(tmp_path: Path) -> None:
    runs = full_runs()
    axes = plot_samples(runs)
    heights = [patch.get_height() for patch in axes.patches]  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(heights, runs["n_samples"].mean("world"))
    assert len(np.asarray(axes.lines[0].get_ydata())) == 4
    save(axes, tmp_path)


def test_propensities_are_shares_of_each_arm_s_rounds(tmp_path: Path) -> None:
    runs = full_runs()
    axes = plot_propensities(runs)
    own = np.sort(runs["propensity"].values[runs["recommended"].values == 1])
    np.testing.assert_array_equal(np.asarray(axes.lines[1].get_xdata()), own)
    np.testing.assert_allclose(np.asarray(axes.lines[1].get_ydata()), np.arange(1, len(own) + 1) / len(own))
    assert labels_of(axes) == ["old", "new", "odd: never"]
    save(axes, tmp_path)


@pytest.mark.parametrize("plot", [plot_gain, plot_samples, plot_propensities])
def test_one_world_can_be_drawn_with_its_dimension(plot: Callable[..., Axes], tmp_path: Path) -> None:
    save(plot(full_runs(1)), tmp_path)
    given = Figure().subplots()
    assert plot(full_runs(), axes=given) is given
    with pytest.raises(RcbError, match="no dimension 'world'"):
        plot(full_runs().isel(world=0))
