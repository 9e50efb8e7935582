r"""Does a belief have a finite mean, and a finite variance?

The tail index of a variable is the supremum of the orders of its finite absolute moments: :math:`\nu` for a Student-t,
1 for a Cauchy, infinite for anything with light tails. Sums and independent products of variables have the smallest index of
their parts, and so has a variable whose location or scale is itself random: a plain horseshoe, :math:`N(0, \tau\lambda)` with
half-Cauchy scales, has index 1 and therefore no mean, although it is symmetric about zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum

from rcb_bayes.prior.graph import Graph, is_matrix_product, is_move, is_random_op, parameters
from rcb_bayes.prior.independence import Sources

# Families by the name of their operation: PyTensor and PyMC each have some of their own.
_IMPROPER = {"FlatRV", "HalfFlatRV"}
# Power-law tails, and the position of the parameter that is the index (None: the index is 1).
_HEAVY = {
    "StudentTRV": 0,
    "HalfStudentTRV": 0,
    "MvStudentTRV": 0,
    "ParetoRV": 0,
    "InvGammaRV": 0,
    "CauchyRV": None,
    "HalfCauchyRV": None,
}
# Light tails of their own; a random location or scale passes its tails on.
_LOCATION_SCALE = {
    "NormalRV",
    "LaplaceRV",
    "LogisticRV",
    "HalfNormalRV",
    "UniformRV",
    "GumbelRV",
    "MixtureRV",
    "_LKJCholeskyCovRV",
}
# Light tails as long as the parameters are constant.
_LIGHT = {
    "AsymmetricLaplaceRV",
    "BernoulliRV",
    "BetaRV",
    "CategoricalRV",
    "DirichletRV",
    "DiracDeltaRV",
    "DiscreteUniformRV",
    "ExGaussianRV",
    "ExponentialRV",
    "GammaRV",
    "LogNormalRV",
    "SkewNormalRV",
    "TriangularRV",
    "TruncatedNormalRV",
    "WaldRV",
    "WeibullRV",
    "WeibullBetaRV",
}
_LINEAR = (scalar.Add, scalar.Sub, scalar.Neg, scalar.Abs, scalar.Identity, scalar.Cast)


def is_improper(beta: Variable, graph: Graph) -> bool:
    """Whether a flat (improper) variable stands behind ``beta``."""
    node = beta.owner
    if node is None or not graph.is_random(beta):
        return False
    return type(node.op).__name__ in _IMPROPER or any(is_improper(part, graph) for part in node.inputs)


def tail_index(variable: Variable, *, graph: Graph, sources: Sources) -> float | None:
    """The tail index of a variable; None where the graph does not tell."""
    return _Tails(graph, sources).of(variable)


class _Tails:
    def __init__(self, graph: Graph, sources: Sources) -> None:
        self._graph = graph
        self._sources = sources

    def of(self, variable: Variable) -> float | None:
        if not self._graph.is_random(variable):
            return np.inf
        node: Any = variable.owner
        if is_random_op(node):
            return self._drawn(node)
        if is_move(node) or isinstance(node.op, Sum):
            return self._smallest_of(node.inputs)
        if is_matrix_product(node):
            return self._product(node.inputs)
        if isinstance(node.op, Elemwise):
            return self._elementwise(node)
        return None

    def _elementwise(self, node: Any) -> float | None:
        op = node.op.scalar_op
        if isinstance(op, scalar.Second):
            return self.of(node.inputs[1])
        if isinstance(op, scalar.Switch):
            return self._smallest_of(node.inputs[1:])
        if isinstance(op, scalar.Mul):
            return self._product(node.inputs)
        if isinstance(op, scalar.Sqr):
            return self._scaled(node.inputs[0], 0.5)
        if isinstance(op, scalar.Sqrt):
            return self._scaled(node.inputs[0], 2.0)
        if isinstance(op, _LINEAR) or (isinstance(op, scalar.TrueDiv) and not self._graph.is_random(node.inputs[1])):
            return self._smallest_of(node.inputs)
        return None

    def _product(self, parts: Sequence[Variable]) -> float | None:
        """Independent factors keep the smallest index; m dependent ones divide it by m (Hoelder)."""
        random = [part for part in parts if self._graph.is_random(part)]
        behind = [self._sources.behind(part) for part in random]
        shared = any(first & second for k, first in enumerate(behind) for second in behind[:k])
        index = self._smallest_of(random)
        return None if index is None else index / (len(random) if shared else 1)

    def _drawn(self, node: Any) -> float | None:
        family = type(node.op).__name__
        parts = [part for part, _ in parameters(node)]
        if family in _HEAVY:
            position = _HEAVY[family]
            if position is not None and self._graph.is_random(parts[position]):
                return None
            own = 1.0 if position is None else float(np.min(self._graph.value(parts[position])))
            return _smallest([own, self._smallest_of(parts)])
        if family == "MvNormalRV":  # the second parameter is a variance: its square root sets the scale
            return _smallest([self.of(parts[0]), self._scaled(parts[1], 2.0)])
        if family in _LOCATION_SCALE:
            return self._smallest_of(parts)
        if family in _LIGHT and not any(self._graph.is_random(part) for part in parts):
            return np.inf
        return None

    def _scaled(self, part: Variable, factor: float) -> float | None:
        index = self.of(part)
        return None if index is None else index * factor

    def _smallest_of(self, parts: Sequence[Variable]) -> float | None:
        return _smallest([self.of(part) for part in parts])


def _smallest(indices: list[float | None]) -> float | None:
    known = [index for index in indices if index is not None]
    # An index of one or less settles the matter (no mean) whatever the unknown parts are.
    if len(known) < len(indices):
        return min(known) if known and min(known) <= 1.0 else None
    return min(known, default=np.inf)
