"""Gaps: the chance that an arm beats the saturated ones, over tau and over the number of samples; the assumptions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.plots.style import (
    NOBODY,
    PALETTE,
    VERDICT_COLOURS,
    arm_styles,
    arms_of,
    check_holds,
    draw_band,
    own_axes,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def plot_frontier(gaps: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """rho(tau) = Pr(G >= tau) of every arm, with a band of two Monte Carlo errors and the best tau marked.

    Parameters
    ----------
    gaps : xarray.Dataset
        The result of ``estimate_gaps``, averaged over users.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    RcbError
        Gaps by user: select one, or estimate them averaged.

    Examples
    --------
    With ``gaps`` as in ``estimate_gaps``:

    >>> rcb.plots.plot_frontier(gaps).get_ylabel()
    'rho(tau) = Pr(G >= tau)'
    """
    check_holds(gaps, "arm tau rho rho_mcse best_tau best_rho", of="estimate_gaps")
    if "user" in gaps.dims:
        raise RcbError("These gaps are by user. Select one, as in gaps.isel(user=0), or estimate with users=None.")
    axes = own_axes(axes)
    tau = gaps["tau"].values
    styles = arm_styles(arms_of(gaps))
    for arm in gaps["arm"].values:
        row, style = gaps.sel(arm=arm), styles[str(arm)]
        rho, error = row["rho"].values, row["rho_mcse"].values
        axes.plot(tau, rho, color=style.colour, linestyle=style.dash, label=str(arm))
        draw_band(axes, tau, np.clip(rho - 2 * error, 0, 1), np.clip(rho + 2 * error, 0, 1), colour=style.colour)
        if row["best_tau"].item() > 0:
            axes.plot(row["best_tau"].item(), row["best_rho"].item(), style.marker, color=style.colour)
    if tau.min() > 0:
        axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tau, the gap (in units of the reward)")
    axes.set_ylabel("rho(tau) = Pr(G >= tau)")
    axes.set_title("Chance that an arm beats the saturated ones by tau")
    axes.legend(title="arm, ± 2 Monte Carlo errors", frameon=False)
    return axes


def plot_gap_curve(curve: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """rho over the number of samples with a band of two Monte Carlo errors, the floor, and from which n on it holds.

    Parameters
    ----------
    curve : xarray.Dataset
        The result of ``gap_curve``.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``curve`` as in ``gap_curve``:

    >>> rcb.plots.plot_gap_curve(curve).get_xlabel()
    'n, samples of each saturated arm'
    """
    check_holds(curve, "n arm rho rho_mcse floor n_from", of="gap_curve")
    axes = own_axes(axes)
    n, floor, n_from = curve["n"].values, float(curve.attrs["floor"]), int(curve.attrs["n_from"])
    styles = arm_styles(arms_of(curve))
    for arm in curve["arm"].values:  # or "best", the only one of a curve of separations
        row, style = curve.sel(arm=arm), styles.get(str(arm), arm_styles(["best"])["best"])
        rho, error = row["rho"].values, row["rho_mcse"].values
        axes.plot(n, rho, color=style.colour, linestyle=style.dash, marker=style.marker, markersize=4, label=str(arm))
        draw_band(axes, n, np.clip(rho - 2 * error, 0, 1), np.clip(rho + 2 * error, 0, 1), colour=style.colour)
    axes.axhline(floor, color="black", linestyle="--", linewidth=1, label=f"floor {floor:g}")
    if n_from > 0:
        axes.axvline(n_from, color=PALETTE[5], linestyle=":", label=f"above it from n = {n_from:,} on")
    else:
        axes.plot([], [], color=NOBODY, label="not above it for any n of the grid")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("n, samples of each saturated arm")
    axes.set_ylabel(f"rho({float(curve.attrs['tau']):g})")
    axes.set_title("What more samples do for the gap")
    axes.legend(title="arm, ± 2 Monte Carlo errors", frameon=False)
    return axes


def plot_checks(checks: Sequence[Any], *, axes: "Axes | None" = None) -> "Axes":
    """The figure of every assumption, with three Monte Carlo errors, and what it stands against.

    Parameters
    ----------
    checks : sequence of Check
        The result of ``check_assumptions``.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``checks`` as in ``check_assumptions``:

    >>> [label.get_text() for label in rcb.plots.plot_checks(checks).get_yticklabels()][0]
    '1 fighting chance'
    """
    if not all(hasattr(check, "verdict") for check in checks):
        raise RcbError("checks must be what check_assumptions gives, a list of Check.")
    axes = own_axes(axes)
    for place, check in enumerate(checks):
        colour = VERDICT_COLOURS[check.verdict]
        axes.errorbar([check.estimate], [place], xerr=[3.0 * check.mcse], fmt="o", color=colour, capsize=3)
        if check.threshold > 0:
            axes.plot([check.threshold], [place], "|", color="black", markersize=18)
    for verdict, colour in VERDICT_COLOURS.items():
        axes.plot([], [], "o", color=colour, label=verdict)
    axes.plot([], [], "|", color="black", label="needed")
    axes.set_yticks(range(len(checks)), [check.name for check in checks])
    axes.invert_yaxis()
    axes.set_xlabel("estimate, ± 3 Monte Carlo errors")
    axes.set_title("The paper's assumptions")
    axes.legend(frameon=False)
    return axes
