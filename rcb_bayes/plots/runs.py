"""Runs: regret, realised gain, samples and propensities."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.mechanism.run_curves import (
    check_worlds,
    cold_start_end,
    mean_over_worlds,
    regret_curves,
    windowed_gain,
)
from rcb_bayes.plots.style import NOBODY, PALETTE, arm_styles, arms_of, check_holds, draw_band, own_axes

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_FEW_WORLDS = 8  # drawn one by one
_MOST_POINTS = 2000  # of a curve
_RARE = 1e-4  # the ends of the axis of propensities; what is beyond is drawn there


def plot_regret(runs: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """Cumulative regret: the mean over worlds with a band of two standard errors, and a few worlds as thin lines.

    The end of the cold start, averaged over the worlds in which it ended, is marked.

    Parameters
    ----------
    runs : xarray.Dataset
        The result of ``simulate``, thinned or not.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    RcbError
        One world alone, selected by a number: keep the dimension, as in ``runs.isel(world=[0])``.

    Examples
    --------
    With ``runs`` as in ``simulate``:

    >>> rcb.plots.plot_regret(runs).get_ylabel()
    'cumulative regret (in units of the reward)'
    """
    check_holds(runs, "regret world t", of="simulate")
    rounds, total = regret_curves(runs, most=_MOST_POINTS)
    axes = own_axes(axes)
    n_worlds = len(total)
    if n_worlds > 1:
        for k, row in enumerate(total[:_FEW_WORLDS]):
            axes.plot(rounds, row, color=NOBODY, linewidth=0.7, label=None if k else "single worlds")
    mean, error = mean_over_worlds(total)
    axes.plot(rounds, mean, color=PALETTE[0], label=f"mean of {n_worlds:,} worlds" if n_worlds > 1 else "one world")
    if n_worlds > 1:
        draw_band(axes, rounds, mean - 2 * error, mean + 2 * error, colour=PALETTE[0], label="± 2 standard errors")
    end = cold_start_end(runs)
    if end is not None:
        axes.axvline(end, color=PALETTE[5], linestyle="--", linewidth=1.0, label=f"end of the cold start ({end:,.0f})")
    axes.set_xlim(0, rounds[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("round t")
    axes.set_ylabel("cumulative regret (in units of the reward)")
    axes.set_title("Regret against the best arm for each user")
    axes.legend(frameon=False)
    return axes


def plot_gain(runs: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """Realised gain over rounds: what the platform expects of the recommended arm beyond its best rival.

    Averaged over windows of rounds that grow in proportion, then over worlds, with a band of two standard errors. It is
    no user's margin, and may dip below -epsilon where everybody follows: the platform knows more than she does.

    Parameters
    ----------
    runs : xarray.Dataset
        The result of ``simulate``, thinned or not.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    RcbError
        One world alone, selected by a number.

    Examples
    --------
    With ``runs`` as in ``simulate``:

    >>> rcb.plots.plot_gain(runs).get_ylabel()
    'gain over the best rival (in units of the reward)'
    """
    check_holds(runs, "gain world t", of="simulate")
    check_worlds(runs)
    axes = own_axes(axes)
    rounds, gains = windowed_gain(runs)
    mean, error = mean_over_worlds(gains)
    axes.plot(rounds, mean, color=PALETTE[0], marker="o", markersize=3, label="mean over worlds")
    draw_band(axes, rounds, mean - 2 * error, mean + 2 * error, colour=PALETTE[0], label="± 2 standard errors")
    axes.axhline(0.0, color="black", linewidth=1)
    end = cold_start_end(runs)
    if end is not None:
        axes.axvline(end, color=PALETTE[5], linestyle="--", linewidth=1.0, label=f"end of the cold start ({end:,.0f})")
    axes.set_xscale("log")
    axes.set_xlabel("round t")
    axes.set_ylabel("gain over the best rival (in units of the reward)")
    axes.set_title("What is recommended, against its best rival")
    axes.legend(frameon=False)
    return axes


def plot_samples(runs: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """Samples of each arm by the end: the mean over worlds with two standard errors, and every world as a dot.

    Parameters
    ----------
    runs : xarray.Dataset
        The result of ``simulate``.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``runs`` as in ``simulate``:

    >>> axes = rcb.plots.plot_samples(runs)
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['old', 'new']
    """
    check_holds(runs, "n_samples arm", of="simulate")
    check_worlds(runs)
    axes = own_axes(axes)
    counts = runs["n_samples"].transpose("world", "arm").values  # (worlds, K)
    mean, error = mean_over_worlds(counts)
    jitter = np.linspace(-0.25, 0.25, len(counts)) if len(counts) > 1 else np.zeros(1)
    for k, style in enumerate(arm_styles(arms_of(runs)).values()):
        axes.bar([k], [mean[k]], width=0.7, color=style.colour, alpha=0.35)
        axes.plot(k + jitter, counts[:, k], ".", color=style.colour, markersize=4)
        axes.errorbar([k], [mean[k]], yerr=[2 * error[k]], fmt=style.marker, color=style.colour, capsize=4)
    axes.set_xticks(range(counts.shape[1]), [str(arm) for arm in runs["arm"].values])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("arm (bars: ± 2 standard errors over worlds; dots: worlds)")
    axes.set_ylabel("samples by the end: N and exploitation")
    axes.set_title("Samples of each arm")
    return axes


def plot_propensities(runs: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """With which probability each arm was recommended when it was: the share of its rounds at or below each value.

    The axis is stretched at both ends (log odds), since most recommendations are nearly certain or rare.

    Small propensities make off-policy estimates of an arm noisy.

    Parameters
    ----------
    runs : xarray.Dataset
        The result of ``simulate``, thinned or not.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``runs`` as in ``simulate``:

    >>> rcb.plots.plot_propensities(runs).get_title()
    'How likely recommendations were'
    """
    check_holds(runs, "recommended propensity arm", of="simulate")
    from matplotlib.ticker import NullFormatter

    check_worlds(runs)
    axes = own_axes(axes)
    recommended, propensity = runs["recommended"].values.ravel(), runs["propensity"].values.ravel()
    for k, (arm, style) in enumerate(arm_styles(arms_of(runs)).items()):
        values = np.sort(propensity[recommended == k])
        if not len(values):
            axes.plot([], [], color=style.colour, label=f"{arm}: never")
            continue
        some = np.unique(np.linspace(0, len(values) - 1, _MOST_POINTS).round().astype(int))
        share = (some + 1) / len(values)
        axes.step(
            np.clip(values[some], _RARE, 1.0 - _RARE),
            share,
            where="post",
            color=style.colour,
            linestyle=style.dash,
            label=arm,
        )
    axes.set_xscale("logit", one_half="0.5")
    axes.set_xlim(_RARE, 1.0 - _RARE)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("propensity: the probability of what was recommended (right edge: certain)")
    axes.set_ylabel("share of the arm's rounds at or below it")
    axes.set_title("How likely recommendations were")
    axes.legend(title="arm", frameon=False)
    return axes
