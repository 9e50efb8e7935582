"""Posteriors given each draw of a belief's scales or correlations: arms factored one by one, compiled.

Where the draws leave arms independent, or around a shared level, K small factors take the place of one of K d rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rcb_bayes.belief.law import Block
from rcb_bayes.posterior.data import Statistics
from rcb_bayes.posterior.scales import WORST_CONDITION, Arrow, arrow_of, ready, split_level
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class DrawnScales:
    """A block of ``arms`` given each of J draws, as an arrow."""

    arms: np.ndarray
    arrow: Arrow

    @classmethod
    def of(cls, block: Block, precision: FloatArray | float) -> "DrawnScales | None":
        """The block under precisions of the noise, one or (1, J); None where its arms are one dense matrix, or where a
        covariance cannot be inverted."""
        own, level = split_level(block.covariances, n_arms=len(block.arms))
        if own.shape[1] < len(block.arms):
            return None
        values = np.linalg.eigvalsh(own)
        if not (values[..., 0] * WORST_CONDITION > values[..., -1]).all():
            return None
        n_draws = len(block.means)
        noise = np.broadcast_to(np.asarray(precision, dtype=float).reshape(-1), (n_draws,))
        with np.errstate(divide="ignore"):
            log_weight = np.log(block.weights)
        at_no_edge = np.zeros(n_draws, dtype=bool)
        return cls(np.array(block.arms), arrow_of(own, level, block.means, log_weight, noise, at_no_edge))

    def fit(self, data: Statistics, *, covariance: bool) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        """Means (M, p), covariances (M, p, p) where wanted, and normalised log weights of the draws (M, J)."""
        from rcb_bayes.posterior import arrow as compiled  # brings Numba

        gram, moment = data.xtx[:, self.arms], data.xty[:, self.arms]
        square, n = (part[:, self.arms].sum(axis=1) for part in (data.yty, data.n))
        n_sets, p = data.n_sets, moment.shape[1] * moment.shape[2]
        mean = np.zeros((n_sets, p))
        joint = np.zeros((n_sets if covariance else 1, p, p))
        log_weight = np.empty((n_sets, len(self.arrow.noise)))
        own = ready(gram, moment, square, n)
        spaces = compiled.spaces(*self.arrow.head.shape)
        run: Any = compiled.average_draws
        run(self.arrow.table, *own, covariance, mean, joint, log_weight, spaces)
        return mean, joint if covariance else None, log_weight
