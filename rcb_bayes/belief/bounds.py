"""Between which numbers a variable lies, by interval arithmetic over its graph.

What is found may be too wide, never too narrow: a variable that meets itself in an operation is taken for two.
"""

from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarType
from pytensor.scalar.math import Erf, Sigmoid
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Prod, Sum
from pytensor.tensor.type import TensorType

from rcb_bayes.belief.graph import Graph, UnknownShapeError, is_matrix_product, is_move, is_one_piece, is_random_op

Interval = tuple[float, float]

_ANY: Interval = (-np.inf, np.inf)
# Families by the name of their operation.
_POSITIVE = {
    *("HalfNormalRV", "HalfCauchyRV", "HalfStudentTRV", "ExponentialRV", "GammaRV", "InvGammaRV", "LogNormalRV"),
    *("ParetoRV", "PoissonRV", "WaldRV", "WeibullRV", "WeibullBetaRV"),
}
_UNIT = {"BernoulliRV", "BetaRV", "DirichletRV"}
_INTO_ONE = (scalar.Tanh, scalar.Sin, scalar.Cos, Erf)  # between -1 and 1
_INTO_UNIT = (Sigmoid, scalar.LogicalComparison)
_RISING = {scalar.Exp: np.exp, scalar.Expm1: np.expm1, scalar.ArcTan: np.arctan}
_SAME = (scalar.Identity, scalar.Cast)


class Bounds:
    """A memo of intervals over the graph of one frozen model."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Variable, Interval] = {}

    def of(self, variable: Any) -> Interval:
        """The least and the largest value that any element can have, as far as the graph tells."""
        if variable not in self._known:
            with np.errstate(all="ignore"):
                low, high = self._read(variable)
            self._known[variable] = _ANY if np.isnan(low) or np.isnan(high) else (float(low), float(high))
        return self._known[variable]

    def _read(self, variable: Any) -> Interval:
        if not self._graph.is_random(variable):
            value = np.asarray(self._graph.value(variable), dtype=float)
            return (value.min(), value.max()) if value.size else _ANY
        node: Any = variable.owner
        if is_random_op(node):
            return self._drawn(node)
        parts = [self.of(part) for part in node.inputs if isinstance(part.type, TensorType | ScalarType)]
        if is_move(node):  # indices and lengths among the inputs only widen it
            return min(low for low, _ in parts), max(high for _, high in parts)
        if isinstance(node.op, Elemwise):
            return self._elementwise(node.op.scalar_op, parts)
        if isinstance(node.op, Sum):
            return _times(parts[0], (1.0, self._summed(node.inputs[0], variable)))
        if isinstance(node.op, Prod):
            low, high = parts[0]
            return _ANY if low < 0 else (0.0, 1.0 if high <= 1 else np.inf)
        if is_matrix_product(node):
            return _times(_times(*parts), (1.0, self._summed(node.inputs[0], None)))
        return _ANY

    def _drawn(self, node: Any) -> Interval:
        family = "" if is_one_piece(node) else type(node.op).__name__
        if family == "UniformRV":
            low, high = (self.of(part) for part in node.op.dist_params(node))
            return low[0], high[1]
        return (0.0, np.inf) if family in _POSITIVE else (0.0, 1.0) if family in _UNIT else _ANY

    def _summed(self, whole: Any, rest: Any) -> float:
        """The most terms that an element of a sum has; of a matrix product, where there is no rest."""
        try:
            shape = self._graph.shape(whole)
            kept = 1.0 if rest is None else np.prod(self._graph.shape(rest), dtype=float)
        except UnknownShapeError:
            return np.inf
        return max(float(shape[-1] if rest is None else np.prod(shape, dtype=float) / max(kept, 1.0)), 1.0)

    def _elementwise(self, op: Any, parts: list[Interval]) -> Interval:
        low, high = parts[0]
        if isinstance(op, scalar.Second):
            return parts[1]
        if isinstance(op, _SAME):
            return low, high
        if isinstance(op, scalar.Add):
            return sum(part[0] for part in parts), sum(part[1] for part in parts)
        if isinstance(op, scalar.Sub):
            return low - parts[1][1], high - parts[1][0]
        if isinstance(op, scalar.Neg):
            return -high, -low
        if isinstance(op, scalar.Mul):
            for other in parts[1:]:
                low, high = _times((low, high), other)
            return low, high
        if isinstance(op, scalar.TrueDiv | scalar.Reciprocal):
            of, by = ((1.0, 1.0), parts[0]) if isinstance(op, scalar.Reciprocal) else parts
            return _times(of, (1.0 / by[1], 1.0 / by[0])) if by[0] > 0 else _ANY
        if isinstance(op, scalar.Sqr | scalar.Abs):
            ends = max(abs(low), abs(high)), 0.0 if low <= 0 <= high else min(abs(low), abs(high))
            return (ends[1] ** 2, ends[0] ** 2) if isinstance(op, scalar.Sqr) else (ends[1], ends[0])
        if isinstance(op, scalar.Sqrt):
            return np.sqrt(max(low, 0.0)), np.sqrt(high)
        if isinstance(op, scalar.Pow):
            return _power(parts[0], parts[1])
        if type(op) in _RISING:
            return _RISING[type(op)](low), _RISING[type(op)](high)
        return (-1.0, 1.0) if isinstance(op, _INTO_ONE) else (0.0, 1.0) if isinstance(op, _INTO_UNIT) else _ANY


def _times(one: Interval, other: Interval) -> Interval:
    ends = [0.0 if a == 0 or b == 0 else a * b for a in one for b in other]
    return min(ends), max(ends)


def _power(base: Interval, exponent: Interval) -> Interval:
    """Of bases that are not negative: monotone in either, so that ends tell; even powers of any."""
    if base[0] >= 0:
        if base[0] == 0 and exponent[0] < 0:
            return 0.0, np.inf
        ends = [np.float64(a) ** b for a in base for b in exponent]
        return min(ends), max(ends)
    if exponent[0] != exponent[1] or exponent[0] <= 0 or exponent[0] % 2:
        return _ANY
    ends = [abs(end) ** exponent[0] for end in base]
    return 0.0 if base[1] >= 0 else min(ends), max(ends)
