r"""Does a belief have a finite mean, and a finite variance?

The tail index of a variable is the supremum of the orders of its finite absolute moments: :math:`\nu` for a Student-t,
1 for a Cauchy, infinite for anything with light tails. Sums and independent products of variables have the smallest
index of their parts, and so has a variable whose location or scale is itself random: a plain horseshoe,
:math:`N(0, \tau\lambda)` with half-Cauchy scales, has index 1 and therefore no mean, although it is symmetric about
zero. A product of dependent factors has at least the index :math:`1 / \sum_i 1/\alpha_i` (Hoelder); it may have a
larger one, so a bound that settles nothing counts as unknown.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Prod, Sum

from rcb_bayes.belief.affine import AffineReader, NotAffineError
from rcb_bayes.belief.bounds import Bounds
from rcb_bayes.belief.gaussian import read_gaussian
from rcb_bayes.belief.graph import (
    Graph,
    UnknownShapeError,
    drawn_behind,
    is_matrix_product,
    is_move,
    is_one_piece,
    is_random_op,
    parameters,
)
from rcb_bayes.belief.independence import Sources
from rcb_bayes.errors import BeliefError

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
    "MvNormalRV",
    "MixtureRV",
    "_LKJCholeskyCovRV",
}
_SQUARED_SCALE = {"MvNormalRV", "MvStudentTRV"}
# Light tails as long as the parameters are constant.
_LIGHT = {
    "AsymmetricLaplaceRV",
    "BernoulliRV",
    "BetaRV",
    "BinomialRV",
    "CategoricalRV",
    "DirichletRV",
    "DiracDeltaRV",
    "DiscreteUniformRV",
    "ExGaussianRV",
    "ExponentialRV",
    "GammaRV",
    "LogNormalRV",
    "MultinomialRV",
    "PoissonRV",
    "SkewNormalRV",
    "TriangularRV",
    "TruncatedNormalRV",
    "WaldRV",
    "WeibullRV",
    "WeibullBetaRV",
}
_LINEAR = (scalar.Add, scalar.Sub, scalar.Neg, scalar.Abs, scalar.Identity, scalar.Cast)


def improper_behind(variables: Sequence[Variable]) -> list[Variable]:
    """The flat (improper) variables that stand behind some variables."""
    return [drawn for drawn in drawn_behind(variables) if drawn.owner and type(drawn.owner.op).__name__ in _IMPROPER]


def refuse_improper(variable: Variable, *, name: str, example: str) -> None:
    """Refuse a flat variable behind a variable.

    Raises
    ------
    BeliefError
        There is one.
    """
    if improper_behind([variable]):
        raise BeliefError(
            f"The belief is improper (a Flat variable): give {name} a proper prior, such as pm.{example}."
        )


def tail_index(variable: Variable, *, graph: Graph, sources: Sources) -> float | None:
    """The tail index of a variable; None where the graph does not tell."""
    return _Tails(graph, sources).of(variable)


class _Tails:
    def __init__(self, graph: Graph, sources: Sources) -> None:
        self._graph = graph
        self._sources = sources
        self._bounds = Bounds(graph)
        self._known: dict[Variable, float | None] = {}

    def of(self, variable: Variable) -> float | None:
        if variable not in self._known:
            self._known[variable] = self._read(variable) if self._graph.is_random(variable) else np.inf
        return self._known[variable]

    def _read(self, variable: Variable) -> float | None:
        node: Any = variable.owner
        if is_random_op(node):
            return self._drawn(node)
        if np.isfinite(self._bounds.of(variable)).all():
            return np.inf
        if is_move(node) or isinstance(node.op, Sum):
            return self._smallest_of(node.inputs)
        if is_matrix_product(node):
            return self._product(node.inputs)
        if isinstance(node.op, Elemwise):
            return self._elementwise(node)
        if isinstance(node.op, Prod):
            return self._multiplied(node.inputs[0], variable)
        return None

    def _multiplied(self, factors: Variable, product: Variable) -> float | None:
        """The product of elements that may go together: Hoelder's bound, and their index where each stands alone."""
        index = self.of(factors)
        n = np.prod(self._graph.shape(factors)) / max(np.prod(self._graph.shape(product)), 1)
        return index if index is None or n <= 1 else _settled(index / float(n))

    def _elementwise(self, node: Any) -> float | None:
        op, parts = node.op.scalar_op, node.inputs
        if isinstance(op, scalar.Second):
            return self.of(parts[1])
        if isinstance(op, scalar.Switch):
            return self._switch(*parts)
        if isinstance(op, scalar.Mul):
            return self._product(parts)
        if isinstance(op, scalar.Sqr):
            return self._scaled(parts[0], 0.5)
        if isinstance(op, scalar.Sqrt):
            return self._scaled(parts[0], 2.0)
        if isinstance(op, scalar.Pow):
            return self._power(*parts)
        if isinstance(op, scalar.Exp):
            return np.inf if self._is_gaussian(parts[0]) else None
        if isinstance(op, _LINEAR) or (isinstance(op, scalar.TrueDiv) and not self._graph.is_random(parts[1])):
            return self._sum(parts)
        return None

    def _sum(self, parts: Sequence[Variable]) -> float | None:
        indices = [self.of(part) for part in parts]
        return None if None in indices and self._share(parts) else _smallest(indices)

    def _product(self, parts: Sequence[Variable]) -> float | None:
        """Independent factors keep the smallest index; a power divides it; else Hoelder's bound, where it settles."""
        random = [part for part in parts if self._graph.is_random(part)]
        indices = [self.of(part) for part in random]
        if not self._share(random):
            return _smallest(indices)
        known = [index for index in indices if index is not None]
        if len(known) < len(indices):
            return None
        bound = 1.0 / inverse if (inverse := sum(1.0 / index for index in known)) > 0 else np.inf
        return bound if len({_untransposed(part) for part in random}) == 1 else _settled(bound)

    def _switch(self, condition: Variable, yes: Variable, no: Variable) -> float | None:
        index = self._smallest_of([yes, no])
        chosen = self._graph.is_random(condition) and self._share([condition, yes, no])
        return _settled(index) if chosen else index  # a condition on the value itself may cut its tail

    def _power(self, base: Variable, exponent: Variable) -> float | None:
        if self._graph.is_random(exponent):
            return None
        largest, smallest = np.max(self._graph.value(exponent)), np.min(self._graph.value(exponent))
        return self._scaled(base, 1.0 / float(largest)) if smallest > 0 else None

    def _is_gaussian(self, variable: Variable) -> bool:
        try:
            AffineReader(self._graph, read_gaussian).form(variable)
        except (NotAffineError, UnknownShapeError):
            return False
        return True

    def _share(self, parts: Sequence[Variable]) -> bool:
        try:
            behind = [self._sources.behind(part) for part in parts if self._graph.is_random(part)]
        except UnknownShapeError:
            return True
        return any(first & second for k, first in enumerate(behind) for second in behind[:k])

    def _drawn(self, node: Any) -> float | None:
        if is_one_piece(node):
            return None
        family = type(node.op).__name__
        parts = [part for part, _ in parameters(node)]
        if family in _HEAVY:
            position = _HEAVY[family]
            if position is not None and self._graph.is_random(parts[position]):
                return None
            own = 1.0 if position is None else float(np.min(self._graph.value(parts[position])))
            return _smallest([own, self._location_scale(family, parts)])
        if family in _LOCATION_SCALE:
            return self._location_scale(family, parts)
        if family in _LIGHT and not any(self._graph.is_random(part) for part in parts):
            return np.inf
        return None

    def _location_scale(self, family: str, parts: Sequence[Variable]) -> float | None:
        if family in _SQUARED_SCALE:  # the last parameter is a variance: its square root sets the scale
            return _smallest([self._smallest_of(parts[:-1]), self._scaled(parts[-1], 2.0)])
        return self._smallest_of(parts)

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


def _untransposed(variable: Variable) -> Variable:
    node = variable.owner
    return node.inputs[0] if node is not None and isinstance(node.op, DimShuffle) else variable


def _settled(bound: float | None) -> float | None:
    """A lower bound as an index: good enough where it proves a finite variance, else unknown."""
    return bound if bound is not None and bound > 2.0 else None
