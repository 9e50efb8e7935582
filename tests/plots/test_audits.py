"""Figures of audits: the worst cell of each stage and pair of arms, and compliance."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from rcb_bayes.plots import PALETTE, plot_compliance, plot_margin_matrix, plot_margins
from tests.plots.drawing import dots_of, labels_of, save

ARMS = ["old", "new"]


def margins_of(*, with_verdict: bool = True) -> xr.Dataset:
    """Two stages, three users; the diagonal and one more cell are empty, one cell fails and one is thin."""
    estimate = np.full((2, 3, 2, 2), np.nan)
    estimate[:, :, 0, 1], estimate[:, :, 1, 0] = 0.5, 0.1
    estimate[1, 2, 1, 0], estimate[1, 1, 1, 0], estimate[0, 0, 1, 0] = -0.3, -0.9, np.nan
    width = np.full(estimate.shape, 0.02)
    width[1, 1, 1, 0] = 2.0
    dims = ("stage", "user", "arm", "rival")
    data = {"estimate": estimate, "mcse": width / 4, "lower": estimate - width, "upper": estimate + width}
    if with_verdict:
        codes = np.where(np.isnan(estimate), -1, 0)
        codes[1, 2, 1, 0], codes[1, 1, 1, 0] = 2, 1
        data["verdict"] = codes
    coords = {"stage": ["first", "second"], "user": [0, 1, 2], "arm": ARMS, "rival": ARMS}
    return xr.Dataset({name: (dims, values) for name, values in data.items()}, coords=coords)


def test_margins_have_the_colour_of_their_verdict_and_the_line_of_epsilon(tmp_path: Path) -> None:
    axes = plot_margins(margins_of(), epsilon=0.05)
    assert [np.ravel(dot.get_ydata())[0] for dot in dots_of(axes)] == [0.1, -0.3]
    assert [to_hex(dot.get_color()).upper() for dot in dots_of(axes)] == [PALETTE[2], PALETTE[5]]
    assert labels_of(axes) == ["pass", "inconclusive", "fail", "-epsilon = -0.05"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["first", "second"]
    save(axes, tmp_path)


def test_the_matrix_has_a_number_for_each_pair(tmp_path: Path) -> None:
    axes = plot_margin_matrix(margins_of(), epsilon=0.05)
    assert [text.get_text() for text in axes.texts] == ["0.5", "-0.3\nfail"]
    assert axes.images[0].norm.vcenter == -0.05  # pyright: ignore[reportAttributeAccessIssue]
    save(axes, tmp_path)


def compliance_of() -> xr.Dataset:
    share = np.array([0.2, 0.6, 1.0])
    return xr.Dataset(
        {"share": ("epsilon", share), "share_mcse": ("epsilon", np.full(3, 0.05))}, coords={"epsilon": [0.0, 0.1, 0.2]}
    )


def test_compliance_is_marked_at_epsilon(tmp_path: Path) -> None:
    axes = plot_compliance(compliance_of(), epsilon=0.1)
    assert np.ravel(axes.lines[-1].get_ydata())[0] == pytest.approx(0.6)
    band = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (band.min(), band.max()) == (pytest.approx(0.1), 1.0)
    assert labels_of(axes) == ["users who would follow", "± 2 standard errors", "epsilon = 0.1"]
    save(axes, tmp_path)
    assert labels_of(plot_compliance(compliance_of())) == ["users who would follow", "± 2 standard errors"]


def test_axes_may_be_given() -> None:
    for plot in (plot_margins, plot_margin_matrix):
        given = Figure().subplots()
        assert plot(margins_of(), epsilon=0.05, axes=given) is given
    given = Figure().subplots()
    assert plot_compliance(compliance_of(), axes=given) is given
