"""Rates: who is explored how often, over the principal directions of the users."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.plots.drawable import DrawablePlan
from rcb_bayes.plots.style import NOBODY, PALETTE, own_axes
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import percent
from rcb_bayes.users.directions import principal_places
from rcb_bayes.users.labelled import Users, as_users

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_rates(
    plan: DrawablePlan, users: Users, *, saturated: Sequence[str] | None = None, axes: "Axes | None" = None
) -> "Axes":
    """The map of q(x), the exploration rate of each user, over the two principal directions of the users.

    Where users vary in one direction only, the rate is drawn against that. Principal directions whose variances cannot
    be told apart (users on a sphere) are not unique: they are turned to where the rate changes most.

    Parameters
    ----------
    plan : Plan
        Its rates are drawn.
    users : array_like
        (U, d).
    saturated : sequence of str, optional
        The stage at which these arms are; the average over stages unless given.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        No users, of the wrong width, or of whom a plan for a table knows nothing.
    RcbError
        Arms that do not exist.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> users = market.covariates.sample(200, seed=1)
    >>> rcb.plots.plot_rates(plan, users, saturated=["old"]).get_title()
    'Exploration rate of each user once old is saturated'
    """
    rows = as_users(users, features=plan.inputs, name="users", ndim=2)
    if not len(rows):
        raise DataError("There are no users to draw. Pass at least one row.")
    rates = plan.rate(rows, saturated=saturated)
    places, labels = principal_places(rows, rates, features=plan.inputs)
    axes = own_axes(axes, size=(6.4, 4.8 if len(labels) == 2 else 4.0))
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


def _draw_map(axes: "Axes", places: FloatArray, rates: FloatArray) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = {"norm": Normalize(0.0, 1.0), "cmap": "viridis"}
    explored = rates > 0
    if not explored.all():
        label = f"never explored ({percent(float((~explored).mean()))})"
        axes.scatter(*places[~explored].T, s=14, marker="x", color=NOBODY, linewidths=0.8, label=label)
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.12), frameon=False, borderaxespad=0.0)
    axes.scatter(*places[explored].T, s=14, c=rates[explored], linewidths=0, **scale)
    extent = np.ptp(places, axis=0)
    if extent.min() * 3 > extent.max():  # of one scale: a circle of users is to look like one
        axes.set_aspect("equal", adjustable="datalim")
    axes.figure.colorbar(ScalarMappable(**scale), ax=axes, label="exploration rate q(x)")


def _rates_title(plan: DrawablePlan, rates: FloatArray, saturated: Sequence[str] | None) -> str:
    if not plan.personalised:
        return f"One exploration rate for all users: {rates[0]:.3g}"
    if saturated is None:
        return "Exploration rate of each user, averaged over stages"
    names = [saturated] if isinstance(saturated, str) else list(saturated)
    if not names:
        return "Exploration rate of each user before any arm is saturated"
    verb = "is" if len(names) == 1 else "are"
    return f"Exploration rate of each user once {', '.join(names)} {verb} saturated"
