"""The figures draw what the result says."""

from dataclasses import replace

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.studies.warfarin.plots import (
    LASSO_BANDIT,
    plot_confusion,
    plot_fraction_incorrect,
    plot_warfarin_gain,
    plot_warfarin_regret,
)
from tests.studies.warfarin.results import made_up_result


def test_the_last_point_is_the_error() -> None:
    result = made_up_result()
    axes = plot_fraction_incorrect(result, epsilon=0.035, oracle="dose heeding")
    drawn = {line.get_label(): float(np.asarray(line.get_ydata())[-1]) for line in axes.get_lines()}
    for variance in (0.4, 0.8):
        own = result.grid["error"].sel(oracle="dose heeding", epsilon=0.035, variance=variance)
        assert drawn[f"{variance:g}"] == pytest.approx(float(own))
    assert drawn["Lasso bandit, as published"] == LASSO_BANDIT
    assert drawn["always medium"] == 0.4
    assert "synthetic" in axes.get_title()


def test_regret_counts_wrong_doses() -> None:
    result = made_up_result()
    line = plot_warfarin_regret(result).get_lines()[0]
    expected = 400 * float(result.grid["error"].isel(oracle=0, epsilon=0, variance=0))
    assert float(np.asarray(line.get_ydata())[-1]) == pytest.approx(expected)


def test_gain_is_averaged_over_windows() -> None:
    result = made_up_result()
    line = plot_warfarin_gain(result, window=100).get_lines()[0]
    gain = result.grid["gain"].isel(oracle=0, epsilon=0, variance=0).values
    np.testing.assert_allclose(np.asarray(line.get_ydata()), gain.reshape(2, 3, 4, 100).mean(axis=(0, 1, 3)))


def test_confusion_shows_per_cent() -> None:
    axes = plot_confusion(made_up_result(), "physician")
    assert [text.get_text() for text in axes.texts][:3] == ["0 %", "100 %", "0 %"]


def test_plans_that_are_not_feasible_are_left_out() -> None:
    result = made_up_result()
    grid = result.grid.copy(deep=True)
    grid["regret"][:, :, :, 1] = -1
    grid["gain"][:, :, :, 1] = np.nan
    changed = replace(result, grid=grid)
    regret = np.asarray(plot_warfarin_regret(changed).get_lines()[0].get_ydata())
    first = result.grid["regret"].isel(oracle=0, epsilon=0, variance=0, plan=0).values
    assert regret[-1] == pytest.approx(first.sum(axis=1).mean())
    assert np.isfinite(np.asarray(plot_warfarin_gain(changed, window=100).get_lines()[0].get_ydata())).all()


def test_bands_cover_plans_too() -> None:
    """Plans that differ, orders that do not: the band is as wide as the plans make it."""
    result = made_up_result()
    grid = result.grid.copy(deep=True)
    grid["regret"][:, :, :, 0], grid["regret"][:, :, :, 1] = 0, 1
    axes = plot_fraction_incorrect(replace(result, grid=grid))
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert heights.max() - heights.min() == pytest.approx(4 * 0.5)  # two errors of .5 either way


def test_bad_choices() -> None:
    result = made_up_result(feasible=False)
    for call, message in (
        (lambda: plot_confusion(result, "RBC"), "There is no policy 'RBC'"),
        (lambda: plot_fraction_incorrect(result, oracle="dose"), "There is no oracle 'dose'"),
        (lambda: plot_fraction_incorrect(result, epsilon=0.5), "There is no epsilon 0.5"),
        (lambda: plot_warfarin_regret(result, epsilon=0.025), "No plan is feasible"),
    ):
        with pytest.raises(RcbError, match=message):
            call()
