"""One function per figure: takes a result, returns Matplotlib axes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.schema import FloatArray, as_finite_array, suggestion

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from rcb_bayes.plan import Plan

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_TRADEOFF_LABELS = {
    "price": "regret of the cold start beyond the unconstrained one",
    "expected_regret": "expected regret of the cold start",
    "expected_cold_start": "expected length of the cold start (rounds)",
    "exploration_rate": "exploration rate q",
    "inverse_rate": "L = 1/q",
}
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_NOBODY = "#BBBBBB"
_FEW_WORLDS = 8  # drawn one by one
_MOST_POINTS = 2000  # of a curve
_ONE_FEATURE = 0.95  # a direction with this loading on a feature bears its name


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


def plot_rates(
    plan: "Plan", users: ArrayLike, *, saturated: Sequence[str] | None = None, axes: "Axes | None" = None
) -> "Axes":
    """The map of q(x), the exploration rate of each user, over the two principal directions of the users.

    Where users vary in one direction only, the rate is drawn against that. Principal directions whose variances cannot
    be told apart (users on a sphere) are not unique: they are turned to where the rate changes most.

    Parameters
    ----------
    plan : its rates are drawn
    users : (U, d)
    saturated : the stage at which these arms are; the average over stages unless given
    axes : where to draw; a figure of its own unless given

    Raises
    ------
    DataError
        No users, of the wrong width, or of whom a plan for a table knows nothing.
    RcbError
        Arms that do not exist.
    """
    from matplotlib.figure import Figure

    rows = as_finite_array(users, name="users", ndim=2)
    if not len(rows):
        raise DataError("There are no users to draw. Pass at least one row.")
    rates = plan.rate(rows, saturated=saturated)
    directions, names = _principal_directions(rows, rates)
    places = rows @ directions.T  # (U, 1 or 2)
    shares = _shares_of_variance(rows, directions)
    labels = [
        _direction_label(direction, name, share, plan.features)
        for direction, name, share in zip(directions, names, shares, strict=True)
    ]
    if axes is None:
        axes = Figure(figsize=(6.4, 4.8 if len(labels) == 2 else 4.0), layout="constrained").subplots()
    if len(labels) == 2:
        _draw_map(axes, places, rates)
        axes.set_ylabel(labels[1])
    else:
        axes.scatter(places[:, 0], rates, s=12, color=PALETTE[0], alpha=0.7, linewidths=0)
        axes.set_ylim(-0.03, 1.03)
        axes.set_ylabel("exploration rate q(x)")
    axes.set_xlabel(labels[0])
    axes.set_title(_rates_title(plan, rates, saturated))
    return axes


def plot_tradeoff(curve: "xr.Dataset", *, figure: str = "price", axes: "Axes | None" = None) -> "Axes":
    """A figure of ``tradeoff`` over epsilon, a line for each N, with a band of two Monte Carlo errors.

    Parameters
    ----------
    curve : the result of ``tradeoff``
    figure : "price", "expected_regret", "expected_cold_start", "exploration_rate" or "inverse_rate"
    axes : where to draw; a figure of its own unless given

    Raises
    ------
    RcbError
        Another figure.
    """
    from matplotlib.figure import Figure

    if figure not in _TRADEOFF_LABELS:
        known = tuple(_TRADEOFF_LABELS)
        raise RcbError(f"There is no figure '{figure}'.{suggestion(figure, known)} Use one of {', '.join(known)}.")
    if axes is None:
        axes = Figure(figsize=(6.4, 4.0), layout="constrained").subplots()
    epsilon = curve["epsilon"].values
    for k, n in enumerate(curve["n"].values):
        row, colour = curve.sel(n=n), PALETTE[k % len(PALETTE)]
        value, error = (row[name].values for name in (figure, f"{figure}_mcse"))
        finite = np.isfinite(value)
        axes.plot(epsilon[finite], value[finite], marker="o", color=colour, label=f"{n:,}")
        axes.fill_between(
            epsilon[finite], (value - 2 * error)[finite], (value + 2 * error)[finite], color=colour, alpha=0.2
        )
        if not finite.all():
            axes.plot(epsilon[~finite], np.zeros((~finite).sum()), "x", color=colour, clip_on=False)
    axes.set_xlabel("epsilon, what users put up with (x: not feasible)")
    axes.set_ylabel(_TRADEOFF_LABELS[figure])
    axes.set_title("What a smaller epsilon costs")
    axes.legend(title="samples per arm", frameon=False)
    return axes


def plot_regret(runs: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """Cumulative regret: the mean over worlds with a band of two standard errors, and a few worlds as thin lines.

    The end of the cold start, averaged over the worlds in which it ended, is marked.

    Parameters
    ----------
    runs : the result of ``simulate``, thinned or not
    axes : where to draw; a figure of its own unless given

    Raises
    ------
    RcbError
        One world alone, selected by a number: keep the dimension, as in ``runs.isel(world=[0])``.
    """
    from matplotlib.figure import Figure

    if "world" not in runs.dims:
        raise RcbError("These runs have no dimension 'world'. Keep it, as in runs.isel(world=[0]).")
    if axes is None:
        axes = Figure(figsize=(6.4, 4.0), layout="constrained").subplots()
    total = np.cumsum(runs["regret"].transpose("world", "t").values, axis=1)  # (worlds, rounds)
    shown = np.unique(np.linspace(0, total.shape[1] - 1, _MOST_POINTS).round().astype(int))
    rounds, total = np.append(0, runs["t"].values[shown]), np.pad(total[:, shown], ((0, 0), (1, 0)))
    n_worlds = len(total)
    if n_worlds > 1:
        for k, row in enumerate(total[:_FEW_WORLDS]):
            axes.plot(rounds, row, color=_NOBODY, linewidth=0.7, label=None if k else "single worlds")
    mean = total.mean(axis=0)
    axes.plot(rounds, mean, color=PALETTE[0], label=f"mean of {n_worlds:,} worlds" if n_worlds > 1 else "one world")
    if n_worlds > 1:
        error = total.std(axis=0, ddof=1) / np.sqrt(n_worlds)
        axes.fill_between(
            rounds,
            mean - 2 * error,
            mean + 2 * error,
            color=PALETTE[0],
            alpha=0.25,
            linewidth=0,
            label="± 2 standard errors",
        )
    lengths = runs["cold_start_length"].values
    if (lengths > 0).any():
        end = lengths[lengths > 0].mean()
        axes.axvline(end, color=PALETTE[5], linestyle="--", linewidth=1.0, label=f"end of the cold start ({end:,.0f})")
    axes.set_xlim(0, rounds[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("round t")
    axes.set_ylabel("cumulative regret (in units of the reward)")
    axes.set_title("Regret against the best arm for each user")
    axes.legend(frameon=False)
    return axes


def plot_margins(margins: "xr.Dataset", *, epsilon: float, axes: "Axes | None" = None) -> "Axes":
    """The lowest margin of each stage over users, arms and rivals, with the bounds of that cell, and -epsilon.

    Parameters
    ----------
    margins : of an ``Audit``
    axes : where to draw; a figure of its own unless given
    """
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=(6.4, 4.0), layout="constrained").subplots()
    colours = {0: PALETTE[2], 1: PALETTE[1], 2: PALETTE[5]}
    names = ("pass", "inconclusive", "fail")
    for k, stage in enumerate(margins["stage"].values):
        part = margins.sel(stage=stage)
        code = int(part["verdict"].max())
        lowest = part["estimate"].where(part["verdict"] == code)
        place = np.unravel_index(np.nanargmin(lowest.values), lowest.shape)
        cell = part.isel(dict(zip(lowest.dims, (int(n) for n in place), strict=True)))
        value = cell["estimate"].item()
        bounds = [[max(value - cell["lower"].item(), 0.0)], [max(cell["upper"].item() - value, 0.0)]]
        axes.errorbar([k], [value], yerr=bounds, fmt="o", color=colours[code], capsize=3)
    for code, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=names[code])
    axes.axhline(-epsilon, color="black", linewidth=1, linestyle="--", label="-epsilon")
    axes.set_xticks(
        range(margins.sizes["stage"]), [str(name) for name in margins["stage"].values], rotation=30, ha="right"
    )
    axes.set_ylabel("lowest margin (in units of the reward)")
    axes.set_title("What users would lose by following, at each stage")
    axes.legend(frameon=False)
    return axes


def _draw_map(axes: "Axes", places: FloatArray, rates: FloatArray) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = {"norm": Normalize(0.0, 1.0), "cmap": "viridis"}
    explored = rates > 0
    if not explored.all():
        label = f"never explored ({100 * (~explored).mean():.3g} %)"
        axes.scatter(*places[~explored].T, s=14, marker="x", color=_NOBODY, linewidths=0.8, label=label)
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.12), frameon=False, borderaxespad=0.0)
    axes.scatter(*places[explored].T, s=14, c=rates[explored], linewidths=0, **scale)
    extent = np.ptp(places, axis=0)
    if extent.min() * 3 > extent.max():  # of one scale: a circle of users is to look like one
        axes.set_aspect("equal", adjustable="datalim")
    axes.figure.colorbar(ScalarMappable(**scale), ax=axes, label="exploration rate q(x)")


def _principal_directions(users: FloatArray, rates: FloatArray) -> tuple[FloatArray, list[str]]:
    """One or two directions of unit length, (1 or 2, d), each with what it is called."""
    n, d = users.shape
    centred = users - users.mean(axis=0)
    _, spread, directions = np.linalg.svd(centred, full_matrices=False)
    moving = spread > 1e-10 * np.linalg.norm(users)
    names = ["principal direction 1 of the users", "principal direction 2 of the users"]
    # Sampled eigenvalues of equal ones spread by about this much.
    tied = moving & (spread**2 >= spread[0] ** 2 * (1.0 - min(0.5, 4.0 * np.sqrt(d / n))))
    if tied.sum() > 1 and np.ptp(rates) > 0:
        directions[tied] = _turned_to(rates, centred @ directions[tied].T) @ directions[tied]
        names = ["direction in which the rate changes most", "a direction across it"]
    chosen = directions[: max(1, min(2, int(moving.sum())))]
    largest = chosen[range(len(chosen)), np.abs(chosen).argmax(axis=1)]
    return chosen * np.sign(largest)[:, None], names[: len(chosen)]


def _shares_of_variance(users: FloatArray, directions: FloatArray) -> FloatArray:
    """The share of the users' variance along each direction; NaN where they do not vary."""
    total = users.var(axis=0).sum()
    if total <= (1e-10 * np.linalg.norm(users)) ** 2:
        return np.full(len(directions), np.nan)
    return (users @ directions.T).var(axis=0) / total


def _turned_to(rates: FloatArray, scores: FloatArray) -> FloatArray:
    """A rotation of the directions behind scores (U, m), (m, m): the first row is where the rate changes most."""
    slope = np.linalg.lstsq(scores, rates - rates.mean(), rcond=None)[0]
    basis = np.column_stack([slope, np.eye(len(slope))]) if np.abs(slope).max() > 0 else np.eye(len(slope))
    return np.linalg.qr(basis)[0].T


def _direction_label(direction: FloatArray, name: str, share: float, features: tuple[str, ...]) -> str:
    feature = int(np.abs(direction).argmax())
    if abs(direction[feature]) >= _ONE_FEATURE:
        name = features[feature]
    return name if np.isnan(share) or len(features) == 1 else f"{name} ({100 * share:.3g} % of the variance)"


def _rates_title(plan: "Plan", rates: FloatArray, saturated: Sequence[str] | None) -> str:
    if not plan.personalised:
        return f"One exploration rate for all users: {rates[0]:.3g}"
    if saturated is None:
        return "Exploration rate of each user, averaged over stages"
    names = [saturated] if isinstance(saturated, str) else list(saturated)
    if not names:
        return "Exploration rate of each user before any arm is saturated"
    verb = "is" if len(names) == 1 else "are"
    return f"Exploration rate of each user once {', '.join(names)} {verb} saturated"
