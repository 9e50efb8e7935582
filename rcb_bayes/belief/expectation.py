"""The exact prior mean, where the laws of total expectation and of independent products give it.

Means matter to the last digit: arms whose prior means tie share the promotion, and a Monte Carlo mean would break the
tie by chance. The mean is carried through the graph; an element that cannot be told exactly becomes NaN, and the caller
estimates the mean by sampling instead.
"""

from typing import Any

import numpy as np
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.moments.means import mean as pymc_mean
from pymc.exceptions import UndefinedMomentException
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum

from rcb_bayes.belief.graph import (
    Graph,
    UnknownShapeError,
    is_matrix_product,
    is_move,
    is_one_piece,
    is_random_op,
    origins,
    reduced_axes,
)
from rcb_bayes.belief.independence import Sources

# PyMC's means of other families are placeholders, need care at their edges, or are wrong (ExGaussian's is mu + sigma
# in PyMC 6.3, where mu + nu is right).
_TRUSTED = {
    "AsymmetricLaplaceRV",
    "BernoulliRV",
    "BetaRV",
    "ExponentialRV",
    "GammaRV",
    "GumbelRV",
    "HalfNormalRV",
    "LaplaceRV",
    "LogNormalRV",
    "LogisticRV",
    "MvNormalRV",
    "MvStudentTRV",
    "NormalRV",
    "SkewNormalRV",
    "StudentTRV",
    "TriangularRV",
    "UniformRV",
    "WeibullBetaRV",
}


def exact_mean(beta: Variable, *, graph: Graph, sources: Sources) -> np.ndarray | None:
    """The prior mean of ``beta``, or None where it has no exact expression that we can follow."""
    try:
        found = _Expectation(graph, sources).of(beta)
    except (UnknownShapeError, UndefinedMomentException, NotImplementedError):
        return None
    return found if np.isfinite(found).all() else None


class _Expectation:
    def __init__(self, graph: Graph, sources: Sources) -> None:
        self._graph = graph
        self._sources = sources
        self._means: dict[Variable, np.ndarray] = {}

    def of(self, variable: Variable) -> np.ndarray:
        """The mean of every element, NaN where unknown."""
        if variable not in self._means:
            if self._graph.is_random(variable):
                self._means[variable] = self._read(variable)
            else:
                self._means[variable] = np.asarray(self._graph.value(variable), dtype=float)
        return self._means[variable]

    def _read(self, variable: Variable) -> np.ndarray:
        node: Any = variable.owner
        shape = self._graph.shape(variable)
        unknown = np.full(shape, np.nan)
        if is_random_op(node):
            if not _is_trusted(node):
                return unknown
            mean: Any = pymc_mean(variable)  # type: ignore[arg-type]
            return np.broadcast_to(self.of(mean), shape)
        if is_move(node):
            found = origins(node, self._graph)
            if found is None:
                return unknown
            return np.concatenate([self.of(part).reshape(-1) for part in found[1]])[found[0]]
        if isinstance(node.op, Elemwise):
            return self._elementwise(node, shape)
        if isinstance(node.op, Sum):
            return self.of(node.inputs[0]).sum(axis=reduced_axes(node))
        if is_matrix_product(node):
            return self._product(node)
        return unknown

    def _elementwise(self, node: Any, shape: tuple[int, ...]) -> np.ndarray:
        op = node.op.scalar_op
        if isinstance(op, scalar.Second):
            return np.broadcast_to(self.of(node.inputs[1]), shape)
        if isinstance(op, scalar.Switch):
            if self._graph.is_random(node.inputs[0]):
                return np.full(shape, np.nan)
            chosen = np.asarray(self._graph.value(node.inputs[0]), dtype=bool)
            return np.broadcast_to(np.where(chosen, self.of(node.inputs[1]), self.of(node.inputs[2])), shape)
        parts = [np.broadcast_to(self.of(part), shape) for part in node.inputs]
        if isinstance(op, scalar.Identity) or (isinstance(op, scalar.Cast) and not _truncates(node)):
            return parts[0]
        if isinstance(op, scalar.Neg):
            return -parts[0]
        if isinstance(op, scalar.Sub):
            return parts[0] - parts[1]
        if isinstance(op, scalar.Add):
            return np.sum(parts, axis=0)
        if isinstance(op, scalar.TrueDiv) and not self._graph.is_random(node.inputs[1]):
            return parts[0] / parts[1]
        if isinstance(op, scalar.Mul):
            return self._multiply(node, parts, shape)
        return np.full(shape, np.nan)

    def _multiply(self, node: Apply, parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """E[XY] = E[X] E[Y] element by element where X and Y share no source; a zero mean wins over an unknown one."""
        known = np.ones(shape)
        seen = np.zeros(shape, dtype=object)
        for part, means in zip(node.inputs, parts, strict=True):
            masks = np.broadcast_to(self._sources.of(part), shape)
            overlap = np.asarray((seen & masks) != 0, dtype=bool)
            known = np.where((known == 0) | (means == 0), 0.0, known * means)
            known = np.where(overlap, np.nan, known)
            seen = seen | masks
        return known

    def _product(self, node: Apply) -> np.ndarray:
        left, right = node.inputs
        a, b = self.of(left), self.of(right)
        if self._sources.behind(left) & self._sources.behind(right):
            return np.full(np.matmul(a, b).shape, np.nan)
        if not a.any() or not b.any():  # one factor has mean zero, whatever the other's
            return np.zeros(np.matmul(a, b).shape)
        return np.matmul(a, b)


def _is_trusted(node: Any) -> bool:
    if isinstance(node.op, MixtureRV):
        return all(part.owner is not None and _is_trusted(part.owner) for part in node.inputs[2:])
    return type(node.op).__name__ in _TRUSTED and not is_one_piece(node)


def _truncates(node: Any) -> bool:
    """Whether a cast makes whole numbers of real ones."""
    before, after = (np.dtype(part.type.dtype).kind for part in (node.inputs[0], node.outputs[0]))
    return before == "f" and after != "f"
