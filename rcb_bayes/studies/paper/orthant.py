"""Users without negative features: uniform on the part of the unit sphere where no feature is below zero.

The paper does not say who its users are. On the whole sphere half of them like an arm because its coefficients are
small; here nobody does, and an arm with a higher prior mean in every feature is everybody's favourite.
"""

import math
from dataclasses import dataclass

import numpy as np

from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.users import Sphere
from rcb_bayes.users.base import Population, as_width


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Orthant(Population):
    r"""Users uniform on the unit sphere's positive orthant: :math:`E[x_k^2] = 1/d, E[x_k x_l] = 2/(\pi d)`.

    Parameters
    ----------
    n_features : int
        D >= 1.

    Applicability
    -------------
    ``|x| = 1`` as the theorems ask; phi0 = (1 - 2/pi)/d, about a third of the whole sphere's.
    """

    n_features: int

    def __init__(self, n_features: int) -> None:
        d = as_width(n_features)
        moment = (np.full((d, d), 2.0 / math.pi) + (1.0 - 2.0 / math.pi) * np.eye(d)) / d
        mean = math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)  # of |x_k| on the sphere
        moments = {"mean": np.full(d, mean), "second_moment": moment, "max_norm": 1.0}
        self._settle("uniform on the positive orthant of the unit sphere", features=None, **moments)

    def _draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        return np.abs(Sphere(self.n_features).sample(n, rng))

    def _in_support(self, points: FloatArray, tolerance: float) -> BoolArray:
        on_sphere = np.abs(np.linalg.norm(points, axis=-1) - 1.0) <= tolerance
        return on_sphere & (points >= -tolerance).all(axis=-1)

    def project(self, points: FloatArray) -> FloatArray:
        """The nearest users, (n, d) -> (n, d); where no feature is positive, the largest one's unit vector."""
        kept = np.maximum(points, 0.0)
        lost = ~kept.any(axis=1)
        kept[lost, points[lost].argmax(axis=1)] = 1.0
        return kept / np.linalg.norm(kept, axis=1, keepdims=True)
