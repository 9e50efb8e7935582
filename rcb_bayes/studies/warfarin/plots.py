"""The paper's figures of the warfarin study: one function each, takes a result, returns Matplotlib axes."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.plots import PALETTE
from rcb_bayes.plots.style import own_axes
from rcb_bayes.schema import no_such, suggestion
from rcb_bayes.studies.warfarin.result import WarfarinResult
from rcb_bayes.studies.warfarin.variation import two_way_error

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

LASSO_BANDIT = 0.346
"""The Lasso bandit's error in its own paper, 0.345 to 0.347: the dotted line."""

_MOST_POINTS = 1000
_FIRST = 100  # patients: shares of fewer are noise


def plot_fraction_incorrect(
    result: WarfarinResult, *, epsilon: float | None = None, oracle: str = "posterior mean", axes: "Axes | None" = None
) -> "Axes":
    """Share of wrong buckets so far, over patients, a line for each prior variance; the Lasso bandit's error dotted.

    Parameters
    ----------
    epsilon : one of the grid's; the first unless given
    oracle : "posterior mean" or "dose heeding"
    """
    part, epsilon = _cell(result, epsilon, oracle)
    axes = own_axes(axes)
    t = part["t"].values
    shown = _thinned(t, first=_FIRST)
    for k, variance in enumerate(part["variance"].values):
        share = _of_plans(part, "regret", variance).cumsum(axis=2) / t
        _band(axes, t[shown], share[..., shown], colour=PALETTE[k], label=f"{float(variance):g}")
    axes.axhline(LASSO_BANDIT, color="black", linestyle=":", label="Lasso bandit, as published")
    medium = float(result.figures["error"].sel(policy="physician"))
    axes.axhline(medium, color="gray", linestyle="--", label="always medium")
    return _dressed(axes, result, "share of wrong doses so far", f"epsilon = {epsilon:g}, {oracle}")


def plot_warfarin_regret(
    result: WarfarinResult, *, epsilon: float | None = None, oracle: str = "posterior mean", axes: "Axes | None" = None
) -> "Axes":
    """Wrong doses so far, over patients, a line for each prior variance."""
    part, epsilon = _cell(result, epsilon, oracle)
    axes = own_axes(axes)
    t = part["t"].values
    shown = _thinned(t, first=1)
    for k, variance in enumerate(part["variance"].values):
        total = _of_plans(part, "regret", variance).cumsum(axis=2)
        _band(axes, t[shown], total[..., shown], colour=PALETTE[k], label=f"{float(variance):g}")
    return _dressed(axes, result, "regret (wrong doses)", f"epsilon = {epsilon:g}, {oracle}")


def plot_warfarin_gain(
    result: WarfarinResult,
    *,
    epsilon: float | None = None,
    oracle: str = "posterior mean",
    window: int = 200,
    axes: "Axes | None" = None,
) -> "Axes":
    """What the platform expects of the recommended dose beyond its best rival, averaged over a window of patients.

    The realised posterior gain, not the constraint: that is what an audit judges. -epsilon is drawn beside it.
    """
    part, epsilon = _cell(result, epsilon, oracle)
    axes = own_axes(axes)
    t = part["t"].values
    n = max(1, min(int(window), len(t)))
    ends = np.arange(n, len(t) + 1, n)
    for k, variance in enumerate(part["variance"].values):
        gain = _of_plans(part, "gain", variance)
        blocks = np.stack([gain[..., end - n : end].mean(axis=2) for end in ends], axis=2)
        _band(axes, t[ends - 1], blocks, colour=PALETTE[k], label=f"{float(variance):g}")
    axes.axhline(-epsilon, color="black", linestyle=":", label="-epsilon")
    return _dressed(axes, result, f"gain, average of {n} patients", f"epsilon = {epsilon:g}, {oracle}")


def plot_confusion(result: WarfarinResult, policy: str, *, axes: "Axes | None" = None) -> "Axes":
    """The paper's table as a picture: right buckets down, assigned ones across, per cent of each row."""
    names = [str(name) for name in result.figures["policy"].values]
    if policy not in names:
        raise no_such("policy", policy, names)
    axes = own_axes(axes)
    table = result.figures["confusion"].sel(policy=policy)
    values = table.values
    axes.imshow(values, vmin=0.0, vmax=1.0, cmap="Blues")
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 else "black"
        axes.text(column, row, f"{100 * value:.0f} %", ha="center", va="center", color=colour)
    for set_ticks, labels in ((axes.set_xticks, table["assigned"]), (axes.set_yticks, table["right"])):
        set_ticks(range(len(labels)), [str(label) for label in labels.values])
    axes.set_xlabel("assigned dose")
    axes.set_ylabel("right dose")
    axes.set_title(_titled(result, policy))
    return axes


def _cell(result: WarfarinResult, epsilon: float | None, oracle: str) -> tuple["xr.Dataset", float]:
    """The runs of one oracle and epsilon; cells without a feasible plan are refused."""
    grid = result.grid
    oracles = [str(name) for name in grid["oracle"].values]
    if oracle not in oracles:
        raise RcbError(f"There is no oracle '{oracle}'.{suggestion(oracle, oracles)} Use one of {'; '.join(oracles)}.")
    known = [float(value) for value in grid["epsilon"].values]
    value = known[0] if epsilon is None else float(epsilon)
    if not any(np.isclose(value, one) for one in known):
        raise RcbError(f"There is no epsilon {value:g} in the grid, only {', '.join(f'{one:g}' for one in known)}.")
    part = grid.sel(oracle=oracle).sel(epsilon=value, method="nearest")
    part = part.sel(variance=part["error"].notnull())
    if not part.sizes["variance"]:
        raise RcbError(f"No plan is feasible at epsilon {value:g}: there is nothing to draw.")
    return part, value


def _of_plans(part: "xr.Dataset", name: str, variance: float) -> np.ndarray:
    """Curves by the plans that are feasible, (plan, permutation, t)."""
    own = part.sel(variance=variance).transpose("plan", "permutation", "t", missing_dims="ignore")
    return own[name].values[own["regret"].values[:, 0, 0] >= 0].astype(float)


def _thinned(t: np.ndarray, *, first: int) -> np.ndarray:
    places = np.unique(np.linspace(min(first, len(t)) - 1, len(t) - 1, _MOST_POINTS).astype(int))
    return places


def _band(axes: "Axes", t: np.ndarray, values: np.ndarray, *, colour: str, label: str) -> None:
    """Mean over plans and permutations, (P, S, T) -> a line, with two standard errors over both."""
    mean = values.mean(axis=(0, 1))
    axes.plot(t, mean, color=colour, label=label)
    if values.shape[1] > 1:
        error = 2.0 * two_way_error(values)
        axes.fill_between(t, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)


def _dressed(axes: "Axes", result: WarfarinResult, label: str, title: str) -> "Axes":
    axes.set_xlabel("patients")
    axes.set_ylabel(label)
    axes.set_title(_titled(result, title))
    axes.legend(title="prior variance", frameon=False)
    return axes


def _titled(result: WarfarinResult, title: str) -> str:
    return f"{title} (synthetic patients)" if result.grid.attrs.get("synthetic") else title
