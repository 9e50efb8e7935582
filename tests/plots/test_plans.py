"""Figures of plans: the price of incentives, coverage."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from rcb_bayes.errors import RcbError
from rcb_bayes.plots import plot_coverage, plot_tradeoff
from tests.planning.revising import revised
from tests.plots.drawing import dots_of, save
from tests.plots.test_rates import plan_of


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


def test_every_arm_has_its_coverage(tmp_path: Path) -> None:
    plan = plan_of(2)
    axes = plot_coverage(revised(plan, coverage=(*plan.coverage[:2], float("nan"))))
    assert [np.ravel(dot.get_ydata())[0] for dot in dots_of(axes)] == list(plan.coverage[:2])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["old", "new", "odd"]
    assert axes.lines[-1].get_label() == "odd: never saturated"
    save(axes, tmp_path)


def test_a_plan_without_coverage_is_refused() -> None:
    with pytest.raises(RcbError, match="has no coverage"):
        plot_coverage(revised(plan_of(2), coverage=(), coverage_mcse=()))
