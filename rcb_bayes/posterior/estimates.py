"""Results of weighted draws being filled in, one row a data set."""

from dataclasses import dataclass, fields

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.posterior.vouching import Checked
from rcb_bayes.schema import BoolArray, FloatArray


@dataclass(slots=True, eq=False)
class Estimates:
    """Results being filled in, one row a data set; variances of rewards where covariances are wanted."""

    mean: FloatArray
    covariance: FloatArray | None
    reward: FloatArray
    reward_variance: FloatArray | None
    khat: FloatArray
    effective_size: FloatArray
    effective_share: FloatArray
    gap: FloatArray
    vouched: BoolArray

    @classmethod
    def empty(cls, n_sets: int, prior: Prior, *, n_users: int, covariance: bool) -> "Estimates":
        """Of so many data sets, none of them vouched for."""
        size = prior.n_arms * prior.n_features
        return cls(
            mean=np.empty((n_sets, size)),
            covariance=np.zeros((n_sets, size, size)) if covariance else None,
            reward=np.empty((n_sets, n_users, prior.n_arms)),
            reward_variance=np.empty((n_sets, n_users, prior.n_arms)) if covariance and n_users else None,
            khat=np.full(n_sets, np.nan),
            effective_size=np.zeros(n_sets),
            effective_share=np.zeros(n_sets),
            gap=np.full(n_sets, np.nan),
            vouched=np.zeros(n_sets, dtype=bool),
        )

    def put(self, checked: Checked, chunk: np.ndarray, *, n_draws: int) -> None:
        """Write what the draws of some data sets show to its place."""
        self.khat[chunk] = checked.khat
        self.effective_size[chunk] = checked.effective_size
        self.effective_share[chunk] = checked.effective_size / n_draws
        self.gap[chunk] = checked.gap
        self.vouched[chunk] = checked.vouched(n_draws=n_draws, n_coefficients=self.mean.shape[1])

    @classmethod
    def like(cls, other: "Estimates", n_sets: int) -> "Estimates":
        """As many results, of another number of data sets, none of them vouched for."""
        made = {}
        for each in fields(cls):
            there = getattr(other, each.name)
            made[each.name] = None if there is None else np.zeros((n_sets, *there.shape[1:]), dtype=there.dtype)
        return cls(**made)

    def fill(self, index: np.ndarray, part: "Estimates") -> None:
        """Put the results of some data sets to their places."""
        for each in fields(self):
            own = getattr(self, each.name)
            if own is not None:
                own[index] = getattr(part, each.name)
