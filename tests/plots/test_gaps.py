"""Figures of gaps: every arm in its own colour, with bands and marks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.estimation import estimate_gaps, gap_curve
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.plots import PALETTE, plot_frontier, plot_gap_curve
from rcb_bayes.users import Empirical, Sphere
from tests.plots.drawing import labels_of, save

MEAN = np.array([[0.3, 0.1], [0.0, 0.3], [0.1, -0.2]])


def gaps_of(**more: Any) -> xr.Dataset:
    prior = Prior.gaussian(MEAN, 0.2, arms=["old", "new", "odd"])
    market = Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.5))
    settings: dict[str, Any] = {"saturated": ["old"], "n_per_arm": 5, "n_worlds": 300, "seed": 1}
    return estimate_gaps(market, **settings | more)


def test_every_arm_has_its_curve_band_and_best_tau() -> None:
    gaps = gaps_of()
    axes = plot_frontier(gaps)
    assert isinstance(axes, Axes)
    curves, marks = axes.lines[::2], axes.lines[1::2]
    for k, arm in enumerate(("new", "odd")):
        row = gaps.sel(arm=arm)
        np.testing.assert_array_equal(np.asarray(curves[k].get_xdata()), gaps["tau"])
        np.testing.assert_array_equal(np.asarray(curves[k].get_ydata()), row["rho"])
        np.testing.assert_array_equal(np.ravel(marks[k].get_xdata()), row["best_tau"])
        np.testing.assert_array_equal(np.ravel(marks[k].get_ydata()), row["best_rho"])
        assert to_hex(curves[k].get_color()).upper() == PALETTE[k + 1]  # of its place among all arms
        band = axes.collections[k].get_paths()[0].vertices
        assert np.asarray(band)[:, 1].max() == pytest.approx((row["rho"] + 2 * row["rho_mcse"]).max().item())
    assert len(axes.collections) == 2


def test_axes_say_what_they_show() -> None:
    axes = plot_frontier(gaps_of())
    assert axes.get_xlabel() == "tau, the gap (in units of the reward)"
    assert axes.get_ylabel() == "rho(tau) = Pr(G >= tau)"
    assert axes.get_title()
    assert axes.get_xscale() == "log"
    assert axes.get_ylim()[0] == 0
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["new", "odd"]
    assert legend.get_title().get_text() == "arm, ± 2 Monte Carlo errors"


def test_axes_may_be_given() -> None:
    given = Figure().subplots()
    assert plot_frontier(gaps_of(), axes=given) is given
    assert len(given.lines) == 4


def test_bands_are_probabilities() -> None:
    prior = Prior.gaussian([[0.0], [9.0]], 0.01)
    market = Market(prior=prior, covariates=Empirical([[1.0]]), noise=GaussianNoise(0.5))
    axes = plot_frontier(estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=40, taus=[0.1, 1.0]))
    assert np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1].max() == 1.0


@pytest.mark.parametrize(("taus", "scale"), [([0.0, 0.1], "linear"), ([0.1, 0.2], "log"), ([0.0], "linear")])
def test_a_tau_of_zero_has_a_place(taus: list[float], scale: str, tmp_path: Path) -> None:
    axes = plot_frontier(gaps_of(taus=taus))
    assert axes.get_xscale() == scale
    save(axes, tmp_path)


def test_an_arm_that_never_wins_has_no_best_tau(tmp_path: Path) -> None:
    prior = Prior.gaussian([[9.0], [0.0]], 0.01)
    market = Market(prior=prior, covariates=Empirical([[1.0]]), noise=GaussianNoise(0.5))
    axes = plot_frontier(estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=40))
    assert len(axes.lines) == 1
    save(axes, tmp_path)


def test_gaps_by_user_are_refused() -> None:
    gaps = gaps_of(users=np.eye(2))
    with pytest.raises(RcbError, match=r"These gaps are by user. Select one, as in gaps.isel\(user=0\)"):
        plot_frontier(gaps)
    assert len(plot_frontier(gaps.isel(user=0)).lines) == 4


def test_the_curve_over_n_has_its_floor_and_from_where_it_holds(tmp_path: Path) -> None:
    prior = Prior.gaussian(MEAN, 0.2, arms=["old", "new", "odd"])
    market = Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.5))
    shared: dict[str, Any] = {"n_grid": [1, 4, 16], "tau": 0.01, "n_worlds": 200, "seed": 1}
    curve = gap_curve(market, saturated=["old"], floor=0.1, **shared)
    axes = plot_gap_curve(curve)
    new = axes.lines[0]
    np.testing.assert_array_equal(np.asarray(new.get_xdata()), [1, 4, 16])
    np.testing.assert_array_equal(np.asarray(new.get_ydata()), curve["rho"].sel(arm="new"))
    assert to_hex(new.get_color()).upper() == PALETTE[1]
    assert labels_of(axes) == ["new", "odd", "floor 0.1", "above it from n = 1 on"]
    save(axes, tmp_path)
    out_of_reach = plot_gap_curve(gap_curve(market, floor=1.0, **shared))
    assert labels_of(out_of_reach) == ["best", "floor 1", "not above it for any n of the grid"]
    save(out_of_reach, tmp_path)
