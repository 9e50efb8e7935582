"""Off-policy values: an estimate and its interval for each estimator."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.plots.style import NOBODY, PALETTE, check_holds, own_axes

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def plot_values(values: "xr.Dataset", *, axes: "Axes | None" = None) -> "Axes":
    """What a policy would have come to, by each estimator, beside what the log itself came to.

    Parameters
    ----------
    values : xarray.Dataset
        The result of ``evaluate``.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> rng = np.random.default_rng(1)
    >>> log = {"action": rng.integers(0, 2, 200), "reward": rng.random(200), "pscore": np.full(200, 0.5)}
    >>> from matplotlib.figure import Figure
    >>> rcb.plots.plot_values(rcb.evaluate(log, "arm_1"), axes=Figure().subplots()).get_xlabel()
    'value'
    """
    check_holds(values, "estimator logged_value", of="evaluate")
    axes = own_axes(axes, size=(6.4, 0.6 * values.sizes["estimator"] + 1.4))
    names = [str(name) for name in values["estimator"].values]
    place = np.arange(len(names))[::-1]
    value, lower, upper = (values[name].values for name in ("value", "lower", "upper"))
    axes.errorbar(value, place, xerr=np.fmax([value - lower, upper - value], 0.0), fmt="o", color=PALETTE[0], capsize=3)
    axes.axvline(values.attrs["logged_value"], color=NOBODY, linestyle="--", label="the log itself")
    axes.set_yticks(place, names)
    axes.set_xlabel("value")
    axes.set_title(f"policy: {values.attrs['policy']}, {1 - values.attrs['level']:.0%} intervals")
    axes.legend()
    return axes
