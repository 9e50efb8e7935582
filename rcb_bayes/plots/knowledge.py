"""What users know of the clock: the length of the cold start, its regret and who is explored, side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.plots.style import PALETTE, check_holds, new_figure, plain_log_ticks
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_PANELS = (
    ("expected_cold_start", "Cold start (rounds)"),
    ("expected_regret", "Regret of the cold start"),
    ("share_explored", "Share of users explored"),
)


def plot_knowledge(prices: "xr.Dataset", *, axes: "Sequence[Axes] | None" = None) -> "tuple[Axes, Axes, Axes]":
    """The price of what users know: three panels, each from the most that they know to the least.

    Bars are two Monte Carlo errors; a plan that is not feasible is a cross.

    Parameters
    ----------
    prices : xarray.Dataset
        The result of ``price_of_knowledge``.
    axes : sequence of matplotlib.axes.Axes, optional
        Three, where to draw; a figure of their own unless given.

    Returns
    -------
    tuple of matplotlib.axes.Axes
        Three: the length of the cold start on a log axis, its regret, the share of users explored.

    Raises
    ------
    RcbError
        Axes that are not three.

    Examples
    --------
    With ``prices`` as in ``price_of_knowledge``:

    >>> length, regret, explored = rcb.plots.plot_knowledge(prices)
    >>> length.get_yscale(), [tick.get_text() for tick in length.get_xticklabels()]
    ('log', ['level', 'mechanism'])
    """
    check_holds(prices, "knows feasible", of="price_of_knowledge")
    panels = _three(axes)
    names = [str(name) for name in prices["knows"].values]
    at = np.arange(len(names), dtype=float)
    feasible = prices["feasible"].values.astype(bool)
    for k, (panel, (figure, title)) in enumerate(zip(panels, _PANELS, strict=True)):
        value = prices[figure].values.astype(float)
        error = prices[f"{figure}_mcse"].values if f"{figure}_mcse" in prices else np.zeros(len(names))
        shown = feasible & np.isfinite(value)
        _draw(panel, at, value, np.nan_to_num(error), shown, colour=PALETTE[k])
        panel.set_xticks(at, names)
        panel.set_xlim(-0.5, len(names) - 0.5)
        panel.set_title(title)
        panel.tick_params(axis="x", labelrotation=20)
    panels[0].set_yscale("log")
    plain_log_ticks(panels[0].yaxis)
    panels[1].set_xlabel("what users know of the clock (bars: ± 2 Monte Carlo errors; x: not feasible)")
    panels[2].set_ylim(-0.05, 1.05)
    return panels


def _three(axes: "Sequence[Axes] | None") -> "tuple[Axes, Axes, Axes]":
    if axes is None:
        axes = list(new_figure((9.6, 3.4)).subplots(1, 3))
    if len(axes) != 3:
        raise RcbError(f"axes must be three: for the cold start, its regret and the share explored; got {len(axes)}.")
    return axes[0], axes[1], axes[2]


def _draw(
    panel: "Axes", at: FloatArray, value: FloatArray, error: FloatArray, shown: np.ndarray, *, colour: str
) -> None:
    panel.errorbar(
        at[shown], value[shown], yerr=2 * error[shown], fmt="o", color=colour, capsize=4, linestyle="-", linewidth=1
    )
    if not shown.all():
        level = float(value[shown].max()) if shown.any() else 1.0
        panel.plot(at[~shown], np.full((~shown).sum(), level), "x", color=colour, clip_on=False)
