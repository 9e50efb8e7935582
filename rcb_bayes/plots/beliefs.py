"""Beliefs: what a user expects of each arm before any data, and after."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.plots.style import arm_styles, own_axes
from rcb_bayes.schema import DEFAULT_SEED, FloatArray
from rcb_bayes.users.labelled import Users, as_users

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_N_DRAWS = 4000


def plot_prior_posterior(
    tree: "xr.DataTree", prior: Prior, *, x: Users, seed: int = DEFAULT_SEED, axes: "Axes | None" = None
) -> "Axes":
    """Densities of mu(x, arm) = x'beta for a user x, dashed before the data and filled after them.

    Parameters
    ----------
    tree : xarray.DataTree
        The result of ``fit_posterior``.
    prior : Prior
        The belief it started from.
    x : array_like
        (d,), the user; a unit vector shows a feature's own coefficients.
    seed : int
        Of the draws of the belief.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own unless given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        A user of the wrong width.

    Examples
    --------
    With ``tree`` and ``market`` as in ``fit_posterior``:

    >>> rcb.plots.plot_prior_posterior(tree, market.prior, x=[1.0, 0.0]).get_title()
    'What a user expects, before and after the data'
    """
    user = as_users(x, features=prior.inputs, name="x", ndim=1)
    user = user if prior.feature_map is None else prior.feature_map(user)
    axes = own_axes(axes)
    before = prior.draw_arrays(_N_DRAWS, rng=np.random.default_rng(seed))[0] @ user  # (draws, K)
    beta = tree["posterior"]["beta"].transpose("chain", "draw", "arm", "feature").values
    after = beta.reshape(-1, prior.n_arms, prior.n_features) @ user
    for k, (arm, style) in enumerate(arm_styles(prior.arms).items()):
        axes.plot(*_density(before[:, k]), color=style.colour, linestyle="--", linewidth=1)
        grid, density = _density(after[:, k])
        axes.plot(grid, density, color=style.colour, label=arm)
        axes.fill_between(grid, density, color=style.colour, alpha=0.2, linewidth=0)
    axes.plot([], [], color="black", linestyle="--", linewidth=1, label="before the data")
    axes.set_xlim(*_bulk(before, after))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("mean reward of the arm for this user (in units of the reward)")
    axes.set_ylabel("density")
    axes.set_title("What a user expects, before and after the data")
    axes.legend(frameon=False)
    return axes


def _density(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    from arviz_stats.base import array_stats

    grid, density, _ = array_stats.kde(draws)
    return np.asarray(grid), np.asarray(density)


def _bulk(before: FloatArray, after: FloatArray) -> tuple[float, float]:
    """Where nearly all draws are: heavy tails would leave nothing to see."""
    ends = np.quantile(before, [0.005, 0.995]), np.quantile(after, [0.0005, 0.9995])
    return min(float(low) for low, _ in ends), max(float(high) for _, high in ends)
