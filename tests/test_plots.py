"""Figures: what is drawn and labelled, on axes of one's own, without touching Matplotlib's global state."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from rcb_bayes.calibration import calibrate
from rcb_bayes.covariates import Empirical, Sphere
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.gaps import estimate_gaps
from rcb_bayes.market import Market
from rcb_bayes.noise import GaussianNoise
from rcb_bayes.plan import Plan
from rcb_bayes.plots import PALETTE, plot_frontier, plot_rates, plot_regret, plot_tradeoff
from rcb_bayes.prior import Prior

ROOT = Path(__file__).resolve().parents[1]
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
        assert to_hex(curves[k].get_color()).upper() == PALETTE[k]
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
    assert legend.get_title().get_text() == "arm"


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
    _save(axes, tmp_path)


def test_an_arm_that_never_wins_has_no_best_tau(tmp_path: Path) -> None:
    prior = Prior.gaussian([[9.0], [0.0]], 0.01)
    market = Market(prior=prior, covariates=Empirical([[1.0]]), noise=GaussianNoise(0.5))
    axes = plot_frontier(estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=40))
    assert len(axes.lines) == 1
    _save(axes, tmp_path)


def _save(axes: Axes, folder: Path) -> None:
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.savefig(folder / "figure.png")  # warnings are errors
    assert (folder / "figure.png").stat().st_size > 1000


def test_gaps_by_user_are_refused() -> None:
    gaps = gaps_of(users=np.eye(2))
    with pytest.raises(RcbError, match=r"These gaps are by user. Select one, as in gaps.isel\(user=0\)"):
        plot_frontier(gaps)
    assert len(plot_frontier(gaps.isel(user=0)).lines) == 4


# --- rates -----------------------------------------------------------------------------------------------------------


@cache
def plan_of(n_features: int, *, personalised: bool = True) -> Plan:
    """Users' features count alike for the old arm and not at all for the others."""
    prior = Prior.gaussian(
        np.vstack([np.ones(n_features), np.zeros((2, n_features))]),
        0.02,
        arms=["old", "new", "odd"],
        features=["age", "dose", "sex", "size"][:n_features],
    )
    market = Market(prior=prior, covariates=Sphere(n_features), noise=GaussianNoise(0.5))
    return calibrate(market, personalised=personalised, n_per_arm=20, n_worlds=200, audit_worlds=500, seed=1)


def users_of(spreads: tuple[float, ...], n: int = 300) -> np.ndarray:
    """Users with an exact covariance matrix, the squares of these spreads on its diagonal."""
    rows = np.random.default_rng(2).standard_normal((n, len(spreads)))
    rows = np.linalg.qr(rows - rows.mean(axis=0))[0] * np.sqrt(n)
    return rows * np.array(spreads) + 0.3


def points_of(axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Places and colours of the coloured points, which are drawn last."""
    drawn = axes.collections[-1]
    return np.asarray(drawn.get_offsets()), np.asarray(drawn.get_array())


def colour_label(axes: Axes) -> str:
    figure = axes.figure
    assert isinstance(figure, Figure)
    (bar,) = (other for other in figure.axes if other is not axes)
    return bar.get_ylabel()


def test_rates_are_drawn_over_the_features_that_vary_most(tmp_path: Path) -> None:
    plan, users = plan_of(3), users_of((1.0, 0.1, 3.0))
    axes = plot_rates(plan, users, saturated=["old"])
    places, colours = points_of(axes)
    rates = plan.rate(users, saturated=["old"])
    explored = rates > 0
    assert 0 < explored.sum() < len(users)
    np.testing.assert_allclose(places, users[explored][:, [2, 0]], atol=1e-8)
    np.testing.assert_array_equal(colours, rates[explored])
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "sex (89.9 % of the variance)",
        "age (9.99 % of the variance)",
    )
    np.testing.assert_allclose(np.asarray(axes.collections[0].get_offsets()), users[~explored][:, [2, 0]], atol=1e-8)
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text() == f"never explored ({100 * (~explored).mean():.3g} %)"
    assert colour_label(axes) == "exploration rate q(x)"
    assert axes.collections[-1].get_clim() == (0.0, 1.0)
    _save(axes, tmp_path)


def test_a_mixed_direction_has_no_feature_s_name() -> None:
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    axes = plot_rates(plan_of(2), users_of((3.0, 1.0)) @ turn)
    assert axes.get_title() == "Exploration rate of each user, averaged over stages"
    assert axes.get_xlabel() == "principal direction 1 of the users (90 % of the variance)"
    assert axes.get_ylabel() == "principal direction 2 of the users (10 % of the variance)"


def test_directions_that_cannot_be_told_apart_are_turned_to_the_rate() -> None:
    plan, users = plan_of(4), Sphere(4).sample(1000, seed=3)
    axes = plot_rates(plan, users)
    places, colours = points_of(axes)
    explored = users[plan.rate(users) > 0]
    assert axes.get_xlabel().startswith("direction in which the rate changes most (2")
    assert axes.get_ylabel().startswith("a direction across it (2")
    # By symmetry the rate depends on the sum of the features.
    assert abs(np.corrcoef(places[:, 0], explored.sum(axis=1))[0, 1]) > 0.95
    assert abs(np.corrcoef(places[:, 1], explored.sum(axis=1))[0, 1]) < 0.3
    assert len(colours) == len(explored)


@pytest.mark.parametrize(
    ("saturated", "title"),
    [
        (["old"], "once old is saturated"),
        ("old", "once old is saturated"),
        (["old", "odd"], "once old, odd are saturated"),
        ([], "before any arm is saturated"),
    ],
)
def test_a_stage_may_be_chosen(saturated: Any, title: str) -> None:
    plan, users = plan_of(2), users_of((3.0, 1.0))
    axes = plot_rates(plan, users, saturated=saturated)
    rates = plan.rate(users, saturated=saturated)
    np.testing.assert_array_equal(points_of(axes)[1], rates[rates > 0])
    assert axes.get_title() == f"Exploration rate of each user {title}"


def test_one_feature_is_drawn_against_the_rate(tmp_path: Path) -> None:
    plan, users = plan_of(1), np.linspace(-1, 1, 50)[:, None]
    axes = plot_rates(plan, users)
    np.testing.assert_allclose(points_of(axes)[0], np.column_stack([users[:, 0], plan.rate(users)]))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "exploration rate q(x)")
    _save(axes, tmp_path)


def test_users_that_vary_in_one_feature_are_drawn_against_it(tmp_path: Path) -> None:
    users = np.column_stack([np.full(50, 0.1), np.linspace(-1, 1, 50)])
    axes = plot_rates(plan_of(2), users)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dose (100 % of the variance)", "exploration rate q(x)")
    _save(axes, tmp_path)


@pytest.mark.parametrize("n_users", [1, 2, 3, 7])
def test_few_users_or_all_alike_can_be_drawn(n_users: int, tmp_path: Path) -> None:
    _save(plot_rates(plan_of(4), np.eye(4)[np.arange(n_users) % 4]), tmp_path)
    axes = plot_rates(plan_of(4), np.full((n_users, 4), 0.1))
    assert "variance" not in axes.get_xlabel()
    _save(axes, tmp_path)


def test_a_uniform_plan_has_one_colour(tmp_path: Path) -> None:
    plan = plan_of(2, personalised=False)
    axes = plot_rates(plan, users_of((3.0, 1.0)))
    assert axes.get_title() == f"One exploration rate for all users: {plan.exploration_rate:.3g}"
    assert len(set(points_of(axes)[1].tolist())) <= 1
    _save(axes, tmp_path)


def test_axes_of_the_map_may_be_given() -> None:
    given = Figure().subplots()
    assert plot_rates(plan_of(2), users_of((3.0, 1.0)), axes=given) is given


@pytest.mark.parametrize(
    ("users", "saturated", "error", "message"),
    [
        (np.zeros((3, 5)), None, DataError, "x must have 2 features, got 5"),
        (np.zeros(2), None, DataError, "users"),
        (np.zeros((0, 2)), None, DataError, "no users to draw"),
        ([[0.0, np.nan]], None, DataError, "users"),
        (np.zeros((3, 2)), ["odl"], RcbError, "There is no arm 'odl'. Did you mean 'old'?"),
    ],
)
def test_bad_users_and_arms_are_refused(users: Any, saturated: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        plot_rates(plan_of(2), users, saturated=saturated)
    assert message in str(caught.value)


# --- global state ----------------------------------------------------------------------------------------------------


def test_global_state_is_not_touched() -> None:
    before = dict(mpl.rcParams)
    plot_frontier(gaps_of())
    plot_rates(plan_of(2), users_of((3.0, 1.0)))
    assert dict(mpl.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        assert not pyplot.get_fignums()


def test_pyplot_is_not_even_imported() -> None:
    code = (
        "import sys, numpy as np, xarray as xr\n"
        "from rcb_bayes.plots import plot_frontier\n"
        "row = (('arm', 'tau'), np.array([[0.5, 0.2]]))\n"
        "one = (('arm',), np.array([0.1]))\n"
        "data = dict(rho=row, rho_mcse=row, best_tau=one, best_rho=one)\n"
        "plot_frontier(xr.Dataset(data, coords=dict(arm=['a'], tau=[0.1, 0.2])))\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"


# --- the price of incentives -----------------------------------------------------------------------------------------


def small_curve() -> xr.Dataset:
    values = np.array([[np.inf, 30.0], [20.0, 25.0], [5.0, 12.0]])
    names = ("price", "expected_regret", "expected_cold_start", "exploration_rate", "inverse_rate")
    variables = {name: (("epsilon", "n"), values) for name in names}
    variables |= {f"{name}_mcse": (("epsilon", "n"), np.full((3, 2), 0.5)) for name in names}
    return xr.Dataset(variables, coords={"epsilon": [0.0, 0.05, 0.1], "n": [10, 100]})


@pytest.mark.parametrize("figure", ["price", "expected_cold_start"])
def test_the_tradeoff_has_a_line_for_each_n_and_marks_what_is_not_feasible(figure: str) -> None:
    axes = plot_tradeoff(small_curve(), figure=figure)
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in lines] == ["10", "100"]
    assert list(np.asarray(lines[0].get_xdata())) == [0.05, 0.1]
    assert len(axes.get_lines()) == 3


def test_a_figure_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RcbError, match="Did you mean 'price'"):
        plot_tradeoff(small_curve(), figure="prize")


# --- regret ----------------------------------------------------------------------------------------------------------


def runs_of(n_worlds: int, *, n: int = 50, every: int = 1, lengths: tuple[int, ...] | None = None) -> xr.Dataset:
    regret = np.random.default_rng(1).random((n_worlds, n))
    ends = np.array(lengths or (10,) * n_worlds)
    return xr.Dataset(
        {"regret": (("world", "t"), regret), "cold_start_length": (("world",), ends)},
        coords={"t": every * np.arange(1, n + 1), "world": np.arange(n_worlds)},
    )


def labels_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


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
    _save(axes, tmp_path)


def test_few_of_many_worlds_and_points_are_drawn(tmp_path: Path) -> None:
    axes = plot_regret(runs_of(30, n=5000))
    assert len(axes.lines) == 8 + 2
    assert len(np.asarray(axes.lines[0].get_xdata())) == 2001
    assert np.asarray(axes.lines[0].get_xdata())[-1] == 5000
    _save(axes, tmp_path)


def test_thinned_runs_keep_their_rounds() -> None:
    axes = plot_regret(runs_of(3, every=100))
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == list(range(0, 5001, 100))


def test_one_world_has_no_band(tmp_path: Path) -> None:
    axes = plot_regret(runs_of(1, lengths=(-1,)))
    assert labels_of(axes) == ["one world"]
    assert not axes.collections
    _save(axes, tmp_path)


def test_axes_of_the_regret_may_be_given() -> None:
    given = Figure().subplots()
    assert plot_regret(runs_of(2), axes=given) is given


def test_a_world_without_its_dimension_is_refused() -> None:
    with pytest.raises(RcbError, match=r"Keep it, as in runs.isel\(world=\[0\]\)"):
        plot_regret(runs_of(2).isel(world=0))
