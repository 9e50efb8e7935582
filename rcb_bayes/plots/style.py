"""What all figures share: a colour, a dash and a marker for each arm, axes of one's own, bands."""

import builtins
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
NOBODY = "#BBBBBB"
VERDICT_COLOURS = {"pass": PALETTE[2], "inconclusive": PALETTE[1], "fail": PALETTE[5]}
_DASHES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStyle:
    """How an arm looks in every figure: no two of the first 32 alike, and none by its colour alone."""

    colour: str
    dash: str
    marker: str


def plain_log_ticks(axis: "Axis") -> None:
    """Plain numbers on a logarithmic axis that spans less than two powers of ten, where these alone tell too little."""
    from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

    low, high = sorted(axis.get_view_interval())
    if not 0 < low < high < 100 * low:
        return
    axis.set_major_locator(MaxNLocator(5, min_n_ticks=3))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())


def arm_styles(arms: Sequence[Any]) -> dict[str, ArmStyle]:
    """The style of each arm, by its place among all arms of the market."""
    return {
        str(arm): ArmStyle(
            colour=PALETTE[k % len(PALETTE)],
            dash=_DASHES[(k + k // len(PALETTE)) % len(_DASHES)],
            marker=_MARKERS[k % len(_MARKERS)],
        )
        for k, arm in enumerate(arms)
    }


def arms_of(result: "xr.Dataset") -> list[str]:
    """All arms of the market that a result is about, of which it may show some."""
    return [str(arm) for arm in result.attrs.get("arms", result["arm"].values)]


def check_holds(table: Any, names: str, *, of: str) -> None:
    """Refuse a table of something else than the figure is about."""
    lacking = [name for name in names.split() if name not in table and name not in table.attrs]
    if lacking:
        raise RcbError(f"This figure is of what {of} gives; the table has no {', '.join(lacking)}.")


def own_axes(axes: "Axes | None", *, size: tuple[float, float] = (6.4, 4.0)) -> "Axes":
    """The axes given, or those of a figure of their own."""
    return new_figure(size).subplots() if axes is None else axes


def new_figure(size: tuple[float, float]) -> "Figure":
    """A figure that is shown where somebody looks.

    A notebook and ``pyplot.show`` show pyplot's figures only, so it is one of these where pyplot is in use or IPython
    runs. Elsewhere pyplot would be loaded in vain, and would keep every figure until told to close it.
    """
    if "matplotlib.pyplot" in sys.modules or hasattr(builtins, "__IPYTHON__"):
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout="constrained")
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def forget_figure(figure: Any) -> None:
    """Close a figure that has been written to a file, so that it is not shown as well."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def draw_band(axes: "Axes", x: FloatArray, low: FloatArray, high: FloatArray, *, colour: str, label: str = "") -> None:
    """A band between two curves."""
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0, label=label or None)
