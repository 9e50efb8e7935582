"""Plans: what a smaller epsilon costs, how well each arm's samples cover the users, and what bounds their regret."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.plots.drawable import DrawablePlan
from rcb_bayes.plots.style import PALETTE, arm_styles, check_holds, draw_band, own_axes
from rcb_bayes.schema import no_such

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


_PARTS = ("cold start", "learning", "deviation")
_TRADEOFF_LABELS = {
    "price": "regret beyond the unconstrained cold start",
    "expected_regret": "expected regret of the cold start",
    "expected_cold_start": "expected length of the cold start (rounds)",
    "exploration_rate": "exploration rate q",
    "inverse_rate": "L = 1/q",
}


def plot_tradeoff(curve: "xr.Dataset", *, figure: str = "price", axes: "Axes | None" = None) -> "Axes":
    """A figure of ``tradeoff`` over epsilon, a line for each N, with a band of two Monte Carlo errors.

    Parameters
    ----------
    curve : xarray.Dataset
        The result of ``tradeoff``.
    figure : str
        "price", "expected_regret", "expected_cold_start", "exploration_rate" or "inverse_rate".
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    RcbError
        Another figure.

    Examples
    --------
    With ``curve`` as in ``tradeoff``:

    >>> rcb.plots.plot_tradeoff(curve, figure="expected_cold_start").get_ylabel()
    'expected length of the cold start (rounds)'
    """
    check_holds(curve, "epsilon n", of="tradeoff")
    if figure not in _TRADEOFF_LABELS:
        known = tuple(_TRADEOFF_LABELS)
        raise no_such("figure", figure, known)
    axes = own_axes(axes)
    epsilon = curve["epsilon"].values
    for k, n in enumerate(curve["n"].values):
        row, colour = curve.sel(n=n), PALETTE[k % len(PALETTE)]
        value, error = (row[name].values for name in (figure, f"{figure}_mcse"))
        finite = np.isfinite(value)
        axes.plot(epsilon[finite], value[finite], marker="o", color=colour, label=f"{n:,}")
        draw_band(axes, epsilon[finite], (value - 2 * error)[finite], (value + 2 * error)[finite], colour=colour)
        if not finite.all():
            axes.plot(epsilon[~finite], np.zeros((~finite).sum()), "x", color=colour, clip_on=False)
    axes.set_xlabel("epsilon, what users put up with (x: not feasible)")
    axes.set_ylabel(_TRADEOFF_LABELS[figure])
    axes.set_title("What a smaller epsilon costs")
    axes.legend(title="samples per arm, ± 2 Monte Carlo errors", frameon=False)
    return axes


def plot_coverage(plan: DrawablePlan, *, axes: "Axes | None" = None) -> "Axes":
    """Each arm's smallest eigenvalue of X'X/N, averaged over cold starts, with two Monte Carlo errors.

    N samples of an arm do not cover the directions of users to whom it is never recommended.

    Parameters
    ----------
    plan : Plan
        A sampled plan.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    RcbError
        A plan without coverage, such as the theorem's.

    Examples
    --------
    With ``plan`` as in ``calibrate``:

    >>> rcb.plots.plot_coverage(plan).get_title()
    'Coverage of 10 samples of each arm'
    """
    if not plan.coverage:
        raise RcbError(f"This is a {plan.kind} plan, and has no coverage. Draw that of a plan by calibrate().")
    axes = own_axes(axes)
    for k, (arm, style) in enumerate(arm_styles(plan.arms).items()):
        value, error = plan.coverage[k], plan.coverage_mcse[k]
        if np.isfinite(value):
            axes.bar([k], [value], width=0.55, color=style.colour, alpha=0.3)
            axes.errorbar([k], [value], yerr=[2 * error], fmt=style.marker, color=style.colour, capsize=4, label=arm)
        else:
            axes.plot([k], [0.0], "x", color=style.colour, clip_on=False, label=f"{arm}: never saturated")
    axes.set_xticks(range(len(plan.arms)), plan.arms)
    axes.set_xlim(-0.6, len(plan.arms) - 0.4)
    ends = [v + 2 * e for v, e in zip(plan.coverage, plan.coverage_mcse, strict=True) if np.isfinite(v)]
    axes.set_ylim(0.0, 1.12 * max(ends, default=1.0))
    axes.set_xlabel("arm (whiskers: ± 2 Monte Carlo errors)")
    axes.set_ylabel("smallest eigenvalue of X'X/N")
    axes.set_title(f"Coverage of {plan.agenda.words} samples of each arm")
    return axes


def plot_regret_bound(parts: Mapping[str, Sequence[float]], *, axes: "Axes | None" = None) -> "Axes":
    """What Theorem 2's bound is made of: cold start, learning and deviation, a bar for each form of it.

    Parameters
    ----------
    parts : mapping of str to sequence of float
        Of each form the three parts; ``RegretBound.parts`` has them.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    With ``bound`` as in ``regret_bound``:

    >>> rcb.plots.plot_regret_bound(bound.parts).get_ylabel()
    'bound on regret'
    """
    if not parts or any(len(heights) != len(_PARTS) for heights in parts.values()):
        raise RcbError(f"parts must give {len(_PARTS)} numbers of each form, {', '.join(_PARTS)}, as bound.parts does.")
    axes = own_axes(axes)
    values = np.array(list(parts.values())).T  # (parts, forms)
    below = np.zeros(values.shape[1])
    for number, (label, heights) in enumerate(zip(_PARTS, values, strict=True)):
        axes.bar(list(parts), heights, bottom=below, color=PALETTE[number], label=label)
        below = below + heights
    axes.set_ylabel("bound on regret")
    axes.set_title("Theorem 2, form by form")
    axes.legend(frameon=False)
    return axes
