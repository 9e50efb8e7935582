r"""How often greedy never tries the second of two arms though it is the better one, by quadrature; users are alike.

With x = 1 arm 0 is sampled as long as its posterior mean stays above the prior mean of arm 1. Given its true value b,
the sum of s samples is a normal random walk. The posterior mean rises with that sum, so that the walk is killed below a
boundary c_s: the sum at which E[b | sum] is the prior mean of arm 1. The walk's density is kept on a grid.
"""

from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from rcb_bayes.schema import FloatArray


def starvation(
    old: FloatArray, weights: FloatArray, new_mean: float, beats: FloatArray, *, sigma: float, n: int
) -> float:
    """Pr(arm 1 is never tried in n rounds, and is the better one).

    Parameters
    ----------
    old, weights : nodes of arm 0's prior, and their probabilities
    new_mean : the prior mean of arm 1
    beats : Pr(arm 1 is better than each node)
    """
    reach = 8.0 * np.sqrt(n)
    grid = np.linspace(-reach, reach, 801)  # of the sum of noise, in sigmas
    step = grid[1] - grid[0]
    kernel = stats.norm.pdf(grid[:, None] - grid) * step
    alive = np.zeros((len(old), len(grid)))
    for s in range(1, n + 1):
        if s == 1:
            alive[:] = stats.norm.pdf(grid) * step
        else:
            alive = alive @ kernel
        if s == n:
            break  # round n recommends arm 0 by the n - 1 samples before it
        below = (_boundary(old, weights, new_mean, sigma=sigma, s=s) - s * old) / sigma
        # A cell of the grid that the boundary cuts counts in part.
        alive *= np.clip((grid - below[:, None]) / step + 0.5, 0.0, 1.0)
    return float(weights @ (alive.sum(axis=1) * beats))


def _boundary(old: FloatArray, weights: FloatArray, new_mean: float, *, sigma: float, s: int) -> float:
    """The sum of s samples at which arm 0 is expected to give as much as arm 1."""

    def expected(total: float) -> float:
        log_like = (total * old - 0.5 * s * old**2) / sigma**2
        posterior = weights * np.exp(log_like - log_like.max())
        return float(posterior @ old / posterior.sum()) - new_mean

    width = 60.0 * (sigma * np.sqrt(s) + s)
    found: Any = brentq(expected, -width, width, xtol=1e-10)
    return float(found)
