"""The study's figure."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.plots.style import PALETTE, own_axes
from rcb_bayes.studies.actg.telling import PRIMARY, policy_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def plot_policies(values: "pd.DataFrame", *, axes: "Axes | None" = None) -> "Axes":
    """Values of policies with their intervals, one under the other.

    Parameters
    ----------
    values : of ``ActgResult``
    """
    rows = [row for row in values.to_dict("records") if row["method"] in PRIMARY]
    axes = own_axes(axes, size=(7.0, 0.3 * len(rows) + 1.4))
    place = np.arange(len(rows))[::-1]
    value, lower, upper = (np.array([row[name] for row in rows]) for name in ("value", "lower", "upper"))
    learning = np.array([row["method"] == "replay" for row in rows])
    for own, label, colour in ((~learning, "learns nothing", PALETTE[0]), (learning, "learns, replayed", PALETTE[1])):
        reach = [(value - lower)[own], (upper - value)[own]]
        axes.errorbar(value[own], place[own], xerr=reach, fmt="o", color=colour, capsize=3, label=label)
    axes.set_yticks(place, [policy_name(row) for row in rows])
    axes.set_xlabel("mean reward of a patient")
    axes.set_title("Value of each policy, 95 % intervals")
    axes.legend()
    return axes
