"""Figures in the paper's arrangement: gains left, regrets right, a panel for each column of the setting."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.plots import PALETTE
from rcb_bayes.plots.style import new_figure, own_axes

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {"n_arms": "K", "n_features": "d", "variance": "variance", "epsilon": "epsilon", "inflation": "inflation"}


def plot_setting(parts: "list[xr.Dataset]", *, kind: str, columns: str, lines: str, title: str) -> "Figure":
    """Realised gain (left half) and cumulative regret (right half) of one kind of plan, means and two standard errors.

    Parameters
    ----------
    parts : cells of a setting
    kind : "theorem", "measured", "fixed", "uniform" or "personalised"
    columns, lines : what panels and colours stand for, as ``Setting`` has it
    """
    values = sorted({part.attrs[columns] for part in parts})
    figure = new_figure((3.1 * 2 * len(values), 3.4))
    axes = figure.subplots(1, 2 * len(values), squeeze=False)[0]
    for place, value in enumerate(values):
        own = [part for part in parts if part.attrs[columns] == value]
        curves = [curve for part in own for curve in _curves(part, kind, lines)]
        for name, panel in (("gain", axes[place]), ("regret", axes[len(values) + place])):
            for number, (label, one) in enumerate(curves):
                _draw(panel, one, name, PALETTE[number % len(PALETTE)], label)
            panel.set_xscale("log")
            panel.set_xlabel("round t")
            panel.set_title(f"{_NAMES[columns]} = {value:.3g}")
        axes[place].axhline(-own[0].attrs["epsilon"], color="black", linestyle="--", linewidth=1, label="-epsilon")
        axes[len(values) + place].set_yscale("symlog", linthresh=1.0)
        axes[len(values) + place].set_ylim(bottom=0.0)
    axes[0].set_ylabel("realised gain over the best rival")
    axes[len(values)].set_ylabel("cumulative regret")
    axes[0].legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    return figure


def plot_regrets(table: "pd.DataFrame", *, keys: Sequence[str], title: str = "", axes: "Axes | None" = None) -> "Axes":
    """The regret of every run at its end, with two standard errors; ``keys`` tell rows of the table apart."""
    axes = own_axes(axes, size=(7.0, 1.5 + 0.22 * len(table)))
    kinds = list(dict.fromkeys(table["kind"]))
    rows = table.to_dict(orient="records")
    for place, row in enumerate(rows):
        error = 0.0 if np.isnan(row["regret_mcse"]) else 2.0 * row["regret_mcse"]
        colour = PALETTE[kinds.index(row["kind"]) % len(PALETTE)]
        axes.errorbar([row["regret"]], [place], xerr=[error], fmt="o", color=colour, markersize=4)
    names = [", ".join([*(f"{_NAMES.get(key, key)} = {row[key]}" for key in keys), row["run"]]) for row in rows]
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("regret at the end, ± 2 standard errors")
    axes.set_title(title)
    return axes


def _curves(part: "xr.Dataset", kind: str, lines: str) -> "list[tuple[str, xr.Dataset]]":
    found = []
    for name in part["run"].values:
        one = part.sel(run=name)
        if one["kind"].item() != kind or not np.isfinite(one["regret"].values).any():
            continue
        value = one["inflation"].item() if lines == "inflation" else part.attrs[lines]
        label = f"{_NAMES[lines]} = {value:.3g}" if isinstance(value, float) else f"{_NAMES[lines]} = {value}"
        several = sum(part["kind"].values == kind) > 1 and lines != "inflation"
        found.append((f"{label}, {name.split(', ')[-1]}" if several else label, one))
    return found


def _draw(panel: "Axes", one: "xr.Dataset", name: str, colour: str, label: str) -> None:
    values = one[name].values  # (worlds, bins)
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros_like(mean)
    t = one["t"].values
    panel.plot(t, mean, color=colour, label=label, linewidth=1.2)
    panel.fill_between(t, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.2, linewidth=0)
