r"""Coordinates in which a belief is about normal, for proposals that know nothing but normal shapes.

Heavy tails, skewness and bounds make a belief's density a star, a wedge or a wall, which no ellipse covers: in eight
dimensions a handful of draws then carries all of the weight. So each coefficient is written as :math:`b_i = T_i(u_i)`
with a rising map that makes u standard normal under the belief (its normal scores), and proposals are made for u. The
density of u is :math:`p(T(u)) \prod_i T_i'(u_i)`, whatever the maps are: how well they fit decides how evenly the draws
are weighted, never what the answer is.
"""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.law import Block
from rcb_bayes.schema import FloatArray

_N_DRAWS = 32_768
_HALF_KNOTS = np.array([0.25, 0.5, 0.75, 1.0, 1.3, 1.6, 2.0, 2.4, 2.8, 3.3])
_KNOTS = np.concatenate([-_HALF_KNOTS[::-1], [0.0], _HALF_KNOTS])
_REACH, _STEP = 5.0, 0.02
_LARGEST = 300.0  # of the hyperbolic angle, whose sine must stay a number
_LEAST_SLOPE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class NormalScores:
    """Maps of p coefficients: b = centre + scale sinh(angle(u)), the angle linear between the points of a grid of u.

    ``centre`` and ``scale`` are (p,), ``angle`` (p, J) on an even grid from -5 to 5; ``correlation`` (p, p) is that of
    u under the belief.
    """

    centre: FloatArray
    scale: FloatArray
    angle: FloatArray
    correlation: FloatArray

    @classmethod
    def of(cls, draws: FloatArray) -> "NormalScores":
        """The maps that fit draws (n, p) of a belief."""
        from scipy.interpolate import PchipInterpolator
        from scipy.special import ndtr, ndtri

        n = len(draws)
        quantiles = np.quantile(draws, ndtr(_KNOTS), axis=0).T  # (p, knots)
        low, centre, high = (quantiles[:, len(_KNOTS) // 2 + k] for k in (-3, 0, 3))
        scale = np.maximum(high - low, np.finfo(float).tiny)
        at_knots = np.arcsinh((quantiles - centre[:, None]) / scale[:, None])
        at_knots = np.maximum.accumulate(at_knots, axis=1) + _LEAST_SLOPE * _KNOTS
        grid = np.arange(-_REACH, _REACH + 0.5 * _STEP, _STEP)
        angle = PchipInterpolator(_KNOTS, at_knots, axis=1)(np.clip(grid, _KNOTS[0], _KNOTS[-1]))
        # Beyond the knots the angle goes on at the pace of the outermost two of them: an exponential tail of u.
        left = (at_knots[:, 2] - at_knots[:, 0]) / (_KNOTS[2] - _KNOTS[0])
        right = (at_knots[:, -1] - at_knots[:, -3]) / (_KNOTS[-1] - _KNOTS[-3])
        angle += left[:, None] * np.minimum(grid - _KNOTS[0], 0.0) + right[:, None] * np.maximum(grid - _KNOTS[-1], 0.0)
        ranks = draws.argsort(axis=0).argsort(axis=0)
        correlation = np.atleast_2d(np.corrcoef(ndtri((ranks + 0.5) / n), rowvar=False))
        return cls(centre, scale, angle, correlation)

    def values(self, u: FloatArray) -> FloatArray:
        """b at u (..., p)."""
        return self.centre + self.scale * np.sinh(self._angle(u)[0])

    def values_and_slopes(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """b at u (..., p), and db/du there."""
        angle, pace = self._angle(u)
        return self.centre + self.scale * np.sinh(angle), self.scale * np.cosh(angle) * pace

    def _angle(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        position = (u + _REACH) * (1.0 / _STEP)
        last = self.angle.shape[1] - 2
        left = np.clip(position, 0, last).astype(np.int64)
        flat = left + np.arange(len(self.centre)) * self.angle.shape[1]
        low = self.angle.reshape(-1)[flat]
        rise = self.angle.reshape(-1)[flat + 1] - low
        return np.clip(low + rise * (position - left), -_LARGEST, _LARGEST), rise * (1.0 / _STEP)


def normal_scores(prior: Prior, blocks: tuple[Block, ...]) -> list[NormalScores]:
    """The maps of every independent group of arms."""
    draws = prior.draw_arrays(_N_DRAWS, rng=np.random.default_rng(5))[0]
    return [NormalScores.of(draws[:, list(block.arms)].reshape(len(draws), -1)) for block in blocks]
