"""The price of what users know, drawn."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from rcb_bayes.errors import RcbError
from rcb_bayes.plots import plot_knowledge
from tests.plots.drawing import dots_of, save


def prices(*, feasible: tuple[bool, ...] = (True, True, True)) -> xr.Dataset:
    lengths = np.where(feasible, [900.0, 200.0, 60.0], np.inf)
    figures = {"expected_cold_start": lengths, "expected_regret": lengths / 10, "exploration_rate": [0.1, 0.4, 1.0]}
    variables = {name: ("knows", values) for name, values in figures.items()}
    variables |= {f"{name}_mcse": ("knows", np.full(3, 2.0)) for name in figures}
    variables |= {"share_explored": ("knows", [0.5, 0.8, 1.0]), "feasible": ("knows", list(feasible))}
    return xr.Dataset(variables, coords={"knows": ["stage", "phase", "mechanism"]})


def test_three_panels_over_what_users_know(tmp_path: Path) -> None:
    length, regret, explored = plot_knowledge(prices())
    drawn = {panel: np.asarray(dots_of(panel)[0].get_ydata()).tolist() for panel in (length, regret, explored)}
    assert drawn == {length: [900.0, 200.0, 60.0], regret: [90.0, 20.0, 6.0], explored: [0.5, 0.8, 1.0]}
    assert length.get_yscale() == "log"
    for panel in (length, regret, explored):
        assert [tick.get_text() for tick in panel.get_xticklabels()] == ["stage", "phase", "mechanism"]
    save(length, tmp_path)


@pytest.mark.parametrize("feasible", [(False, True, True), (False, False, False)])
def test_a_plan_that_is_not_feasible_is_a_cross(feasible: tuple[bool, ...], tmp_path: Path) -> None:
    length = plot_knowledge(prices(feasible=feasible))[0]
    crosses = [line for line in length.get_lines() if line.get_marker() == "x"]
    assert [len(np.asarray(line.get_xdata())) for line in crosses] == [feasible.count(False)]
    save(length, tmp_path)


def test_axes_are_three() -> None:
    first = plot_knowledge(prices())
    assert plot_knowledge(prices(), axes=first) == first
    with pytest.raises(RcbError, match="axes must be three"):
        plot_knowledge(prices(), axes=first[:2])
