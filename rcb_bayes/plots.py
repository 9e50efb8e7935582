"""One function per figure: takes a result, returns Matplotlib axes."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def plot_frontier(gaps: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """rho(tau) = Pr(G >= tau) of every arm, with a band of two Monte Carlo errors and the best tau marked.

    Parameters
    ----------
    gaps : the result of ``estimate_gaps``, averaged over users
    axes : where to draw; a figure of its own unless given

    Raises
    ------
    RcbError
        Gaps by user: select one, or estimate them averaged.
    """
    from matplotlib.figure import Figure

    if "user" in gaps.dims:
        raise RcbError("These gaps are by user. Select one, as in gaps.isel(user=0), or estimate with users=None.")
    if axes is None:
        axes = Figure(figsize=(6.4, 4.0), layout="constrained").subplots()
    tau = gaps["tau"].values
    for k, arm in enumerate(gaps["arm"].values):
        row, colour = gaps.sel(arm=arm), PALETTE[k % len(PALETTE)]
        rho, error = row["rho"].values, row["rho_mcse"].values
        axes.plot(tau, rho, color=colour, label=str(arm))
        axes.fill_between(tau, np.clip(rho - 2 * error, 0, 1), np.clip(rho + 2 * error, 0, 1), color=colour, alpha=0.2)
        if row["best_tau"].item() > 0:
            axes.plot(row["best_tau"].item(), row["best_rho"].item(), "o", color=colour)
    if tau.min() > 0:
        axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tau, the gap (in units of the reward)")
    axes.set_ylabel("rho(tau) = Pr(G >= tau)")
    axes.set_title("Chance that an arm beats the saturated ones by tau")
    axes.legend(title="arm", frameon=False)
    return axes
