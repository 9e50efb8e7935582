r"""Users as a belief sees them: features :math:`\phi(x)` of a population that is told by x.

Coverage (phi0, weak directions) is that of the features. A table of users is a table of features; any other population
is sampled, and its moments are averages over 65,536 users, always the same ones.
"""

from dataclasses import dataclass, field

import numpy as np

from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.users.base import Population
from rcb_bayes.users.empirical import Empirical
from rcb_bayes.users.protocol import Covariates

_MOMENT_USERS = 65_536


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Mapped(Population):
    """The features of users drawn from a population."""

    raw: Covariates = field(init=False)
    feature_map: FeatureMap = field(init=False)

    def __init__(self, raw: Covariates, feature_map: FeatureMap) -> None:
        features = feature_map(raw.sample(_MOMENT_USERS, seed=0))
        self._settle(
            f"{feature_map.source} of users {raw.describe().partition(',')[0]}",
            features=feature_map.features,
            second_moment=features.T @ features / len(features),
            mean=features.mean(axis=0),
            max_norm=float(np.linalg.norm(features, axis=1).max()) if np.isfinite(raw.max_norm) else np.inf,
            raw=raw,
            feature_map=feature_map,
        )

    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self.feature_map(self.raw.sample(n, seed=rng))

    def _in_support(self, points: FloatArray, tolerance: float) -> BoolArray:
        """Features are not looked up: whether a user can come is asked of x."""
        return np.ones(points.shape[:-1], dtype=bool)


def mapped(raw: Covariates, feature_map: FeatureMap | None) -> Covariates:
    """The population as the belief sees it; itself where there is no map."""
    if feature_map is None:
        return raw
    if isinstance(raw, Empirical):
        return Empirical(feature_map(raw.rows), weights=raw.weights, features=feature_map.features)
    return Mapped(raw, feature_map)
