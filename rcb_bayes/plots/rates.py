"""Rates: who is explored how often, over the principal directions of the users."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import DataError
from rcb_bayes.plots.style import NOBODY, PALETTE, own_axes
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import percent
from rcb_bayes.users.labelled import Users, as_users

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rcb_bayes.plots.drawable import DrawablePlan

_ONE_FEATURE = 0.95  # a direction with this loading on a feature bears its name


def plot_rates(
    plan: "DrawablePlan", users: Users, *, saturated: Sequence[str] | None = None, axes: "Axes | None" = None
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
    rows = as_users(users, features=plan.features, name="users", ndim=2)
    if not len(rows):
        raise DataError("There are no users to draw. Pass at least one row.")
    rates = plan.rate(rows, saturated=saturated)
    places, labels = principal_places(rows, rates, features=plan.features)
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


def principal_places(
    users: FloatArray, rates: FloatArray, *, features: tuple[str, ...]
) -> tuple[FloatArray, list[str]]:
    """Where users stand along their one or two principal directions, (U, 1 or 2), and what those are called."""
    directions, names = _principal_directions(users, rates)
    shares = _shares_of_variance(users, directions)
    labels = [
        _direction_label(direction, name, share, features)
        for direction, name, share in zip(directions, names, shares, strict=True)
    ]
    return users @ directions.T, labels


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
    return name if np.isnan(share) or len(features) == 1 else f"{name} ({percent(share)} of the variance)"


def _rates_title(plan: "DrawablePlan", rates: FloatArray, saturated: Sequence[str] | None) -> str:
    if not plan.personalised:
        return f"One exploration rate for all users: {rates[0]:.3g}"
    if saturated is None:
        return "Exploration rate of each user, averaged over stages"
    names = [saturated] if isinstance(saturated, str) else list(saturated)
    if not names:
        return "Exploration rate of each user before any arm is saturated"
    verb = "is" if len(names) == 1 else "are"
    return f"Exploration rate of each user once {', '.join(names)} {verb} saturated"
