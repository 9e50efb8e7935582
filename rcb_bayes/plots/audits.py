"""Audits: the lowest margin of each stage and pair of arms, who would follow, and whether a log followed its plan."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.deciding import pair_cells, stage_cells
from rcb_bayes.plots.style import PALETTE, VERDICT_COLOURS, check_holds, draw_band, own_axes
from rcb_bayes.schema import is_number

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

_ZERO = 1e-12  # what rounding leaves of a margin that is zero
NOWHERE = "#D9D9D9"  # of a pair without a margin


def plot_margins(margins: "xr.Dataset", *, epsilon: float, axes: "Axes | None" = None) -> "Axes":
    """The lowest margin of each stage over users, arms and rivals, with the bounds of that cell, and -epsilon.

    Parameters
    ----------
    margins : xarray.Dataset
        Of an ``Audit``.
    epsilon : float
        What users put up with.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``found`` as in ``audit``:

    >>> rcb.plots.plot_margins(found.margins, epsilon=found.epsilon).get_title()
    'Lowest margin of each stage, with simultaneous bounds'
    """
    check_holds(margins, "stage arm rival estimate lower upper", of="an audit")
    axes = own_axes(axes)
    for k, cell in enumerate(stage_cells(margins, epsilon=epsilon).values()):
        if cell is None:
            continue
        bounds = [[max(cell.estimate - cell.lower, 0.0)], [max(cell.upper - cell.estimate, 0.0)]]
        axes.errorbar([k], [cell.estimate], yerr=bounds, fmt="o", color=VERDICT_COLOURS[cell.verdict], capsize=3)
    for verdict, colour in VERDICT_COLOURS.items():
        axes.plot([], [], "o", color=colour, label=verdict)
    axes.axhline(-epsilon, color="black", linewidth=1, linestyle="--", label=f"-epsilon = {-epsilon:g}")
    axes.set_xticks(
        range(margins.sizes["stage"]), [str(name) for name in margins["stage"].values], rotation=30, ha="right"
    )
    axes.set_ylabel("lowest margin (in units of the reward)")
    axes.set_title("Lowest margin of each stage, with simultaneous bounds")
    axes.legend(frameon=False)
    return axes


def plot_margin_matrix(margins: "xr.Dataset", *, epsilon: float, axes: "Axes | None" = None) -> "Axes":
    """A heat map, recommended arm by rival: the lowest margin over stages and users, against -epsilon.

    Colours turn at -epsilon; a hatched pair has no margin. The number is that of the cell with the worst verdict; one
    that is thin may lie below -epsilon and still pass, or be inconclusive: its verdict is written under it unless it
    passes.

    Parameters
    ----------
    margins : xarray.Dataset
        Of an ``Audit``.
    epsilon : float
        What users put up with.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``found`` as in ``audit``:

    >>> axes = rcb.plots.plot_margin_matrix(found.margins, epsilon=found.epsilon)
    >>> [label.get_text() for label in axes.get_yticklabels()], axes.get_xlabel()
    (['old', 'new'], 'rival')
    """
    check_holds(margins, "stage arm rival estimate lower upper", of="an audit")
    if not is_number(epsilon):
        raise RcbError(f"epsilon must be a finite number, got {epsilon!r}.")
    epsilon = float(epsilon)
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patches import Rectangle

    arms = [str(arm) for arm in margins["arm"].values]
    axes = own_axes(axes, size=(1.6 + 0.9 * max(len(arms), 3), 1.2 + 0.75 * max(len(arms), 3)))
    cells = pair_cells(margins, epsilon=epsilon)
    values = np.array([[np.nan if cell is None else cell.estimate for cell in row] for row in cells])
    known = values[np.isfinite(values)]
    reach = max(float(np.max(np.abs(known + epsilon), initial=0.0)), epsilon, 1e-6)
    norm = TwoSlopeNorm(vcenter=-epsilon, vmin=-epsilon - reach, vmax=-epsilon + reach)
    image = axes.imshow(values, cmap="PuOr", norm=norm, aspect="auto")
    for i, j in np.argwhere(~np.isfinite(values)):  # hatched: white is the colour of -epsilon
        axes.add_patch(
            Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=NOWHERE, edgecolor="white", hatch="///", linewidth=0)
        )
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if cell is not None:
                text = f"{cell.estimate if abs(cell.estimate) > _ZERO else 0.0:.2g}" + (
                    "" if cell.verdict == "pass" else f"\n{cell.verdict}"
                )
                dark = abs(cell.estimate + epsilon) > 0.6 * reach
                axes.text(j, i, text, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    rivals = [str(rival) for rival in margins["rival"].values]
    axes.set_xticks(range(len(rivals)), rivals, rotation=30, ha="right")
    axes.set_yticks(range(len(arms)), arms)
    axes.set_xlabel("rival")
    axes.set_ylabel("recommended arm")
    axes.set_title("Lowest margin, arm by rival")
    axes.figure.colorbar(image, ax=axes, label=f"margin (in units of the reward; white at {-epsilon:g})")
    return axes


def plot_compliance(compliance: "xr.Dataset", *, epsilon: float | None = None, axes: "Axes | None" = None) -> "Axes":
    """The share of users all of whose margins are at or above -epsilon, over epsilon, with two standard errors.

    Parameters
    ----------
    compliance : xarray.Dataset
        Of an ``Audit``.
    epsilon : float, optional
        Marked, if given.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``found`` as in ``audit``:

    >>> rcb.plots.plot_compliance(found.compliance, epsilon=found.epsilon).get_ylabel()
    'share of users'
    """
    check_holds(compliance, "epsilon share share_mcse", of="an audit")
    axes = own_axes(axes)
    grid, share = compliance["epsilon"].values, compliance["share"].values
    error = compliance["share_mcse"].values
    axes.plot(grid, share, color=PALETTE[0], label="users who would follow")
    low, high = np.clip(share - 2 * error, 0, 1), np.clip(share + 2 * error, 0, 1)
    draw_band(axes, grid, low, high, colour=PALETTE[0], label="± 2 standard errors")
    if epsilon is not None:
        at = float(np.interp(epsilon, grid, share))
        axes.axvline(epsilon, color="black", linestyle="--", linewidth=1, label=f"epsilon = {epsilon:g}")
        axes.plot([epsilon], [at], "o", color=PALETTE[0])
    axes.set_xlim(grid[0], grid[-1])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("epsilon, what users put up with (in units of the reward)")
    axes.set_ylabel("share of users")
    axes.set_title("Who would follow, by what users put up with")
    axes.legend(frameon=False)
    return axes


def plot_shares(shares: "xr.Dataset", *, least_share: float | None = None, axes: "Axes | None" = None) -> "Axes":
    """The share of each type of users who would follow, with its bounds.

    Parameters
    ----------
    shares : xarray.Dataset
        Those of a ``MixedAudit``, dim (type).
    least_share : float, optional
        The share that the verdict asks for; marked, if given.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``mixed`` as in ``audit_types``:

    >>> axes = rcb.plots.plot_shares(mixed.shares, least_share=0.9)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['as planned', 'doubters', 'all']
    """
    check_holds(shares, "type share", of="audit_types")
    axes = own_axes(axes)
    names = [str(name) for name in shares["type"].values]
    share, lower, upper = (shares[name].values for name in ("share", "share_lower", "share_upper"))
    reach = [np.maximum(share - lower, 0.0), np.maximum(upper - share, 0.0)]
    axes.errorbar(share, range(len(names)), xerr=reach, fmt="o", color=PALETTE[0], capsize=3, label="with bounds")
    if least_share is not None:
        axes.axvline(least_share, color="black", linestyle="--", linewidth=1, label=f"asked for: {least_share:g}")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("share of users who would follow")
    axes.set_title("Who would follow, by type")
    axes.legend(frameon=False)
    return axes


def plot_counts(counts: "pd.DataFrame", *, axes: "Axes | None" = None) -> "Axes":
    """How often each arm came up at every stage of a log, over how often the plan expects it.

    Parameters
    ----------
    counts : pandas.DataFrame
        Those of a ``LogCheck``.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``checked`` as in ``check_log``:

    >>> rcb.plots.plot_counts(checked.counts).get_xlabel()
    'rounds that the plan expects'
    """
    check_holds(counts, "deviates expected observed", of="check_log")
    axes = own_axes(axes)
    for deviates, colour, label in ((False, PALETTE[0], "as planned"), (True, VERDICT_COLOURS["fail"], "deviates")):
        rows = counts[counts["deviates"] == deviates]
        axes.plot(rows["expected"], rows["observed"], "o", color=colour, label=label)
    most = float(np.max(counts[["expected", "observed"]].to_numpy(), initial=1.0))
    axes.plot([0.0, most], [0.0, most], color="black", linestyle="--", linewidth=1)
    axes.set_xlabel("rounds that the plan expects")
    axes.set_ylabel("rounds in the log")
    axes.set_title("How often each arm came up")
    axes.legend(frameon=False)
    return axes
