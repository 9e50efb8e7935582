r"""Variables of a model as affine functions of some of its leaves.

A form is :math:`v = c + \sum_l A_l z_l`: a constant and, for each leaf l, a slope with the leaf's elements as last
axis. What the leaves are is the caller's choice: standard normals behind Gaussian variables (to recognise a Gaussian
belief) or the random variables themselves (to change variables in a density). Forms are carried through the graph by
NumPy; nothing is compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum

from rcb_bayes.belief.graph import Graph, is_matrix_product, is_move, is_random_op, origins, reduced_axes


class NotAffineError(Exception):
    """The variable is not, or cannot be shown to be, an affine function of the leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """``constant`` (shape) and ``slopes``, one array (shape + (leaf size,)) per leaf."""

    constant: np.ndarray
    slopes: dict[Variable, np.ndarray]

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> "Form":
        """Apply a linear change of the leading axes to the constant and to every slope."""
        return Form(change(self.constant), {leaf: change(slope) for leaf, slope in self.slopes.items()})

    def broadcast(self, shape: tuple[int, ...]) -> "Form":
        """Repeat to a larger shape, as NumPy broadcasts the leading axes."""
        constant = np.broadcast_to(self.constant, shape)
        return Form(constant, {leaf: _broadcast_slope(slope, shape) for leaf, slope in self.slopes.items()})

    def scaled(self, factor: np.ndarray) -> "Form":
        """Multiply by a constant of the same shape."""
        return Form(self.constant * factor, {leaf: slope * factor[..., None] for leaf, slope in self.slopes.items()})

    def __add__(self, other: "Form") -> "Form":
        slopes = dict(self.slopes)
        for leaf, slope in other.slopes.items():
            slopes[leaf] = slopes[leaf] + slope if leaf in slopes else slope
        return Form(self.constant + other.constant, slopes)


LeafReader = Callable[["AffineReader", Variable], Form]


class AffineReader:
    """Reads variables as forms; ``read_random`` says what a random variable is in terms of the leaves."""

    def __init__(self, graph: Graph, read_random: LeafReader) -> None:
        self.graph = graph
        self._read_random = read_random
        self._forms: dict[Variable, Form] = {}

    def form(self, variable: Variable) -> Form:
        """The affine form of a variable.

        Raises
        ------
        NotAffineError
            When an operation on the way is not affine, or not known.
        """
        if variable not in self._forms:
            self._forms[variable] = self._read(variable)
        return self._forms[variable]

    def _read(self, variable: Variable) -> Form:
        if not self.graph.is_random(variable):
            return Form(np.asarray(self.graph.value(variable), dtype=float), {})
        node: Any = variable.owner
        if is_random_op(node):
            return self._read_random(self, variable)
        if is_move(node):
            return self._move(node)
        if isinstance(node.op, Elemwise):
            return self._elementwise(node, self.graph.shape(variable))
        if isinstance(node.op, Sum):
            axes = reduced_axes(node)
            return self.form(node.inputs[0]).map(lambda part: part.sum(axis=axes))
        if is_matrix_product(node):
            return self._product(node)
        raise NotAffineError(str(node.op))

    def _move(self, node: Apply) -> Form:
        found = origins(node, self.graph)
        if found is None:
            raise NotAffineError(f"{node.op} at a random index")
        positions, moved = found
        parts = [self.form(part) for part in moved]
        sizes = [part.constant.size for part in parts]
        constant = np.concatenate([part.constant.reshape(-1) for part in parts])[positions]
        slopes = {}
        for leaf in {leaf: None for part in parts for leaf in part.slopes}:
            width = next(part.slopes[leaf].shape[-1] for part in parts if leaf in part.slopes)
            rows = [
                part.slopes[leaf].reshape(-1, width) if leaf in part.slopes else np.zeros((size, width))
                for part, size in zip(parts, sizes, strict=True)
            ]
            slopes[leaf] = np.concatenate(rows)[positions]
        return Form(constant, slopes)

    def _elementwise(self, node: Any, shape: tuple[int, ...]) -> Form:
        op = node.op.scalar_op
        if isinstance(op, scalar.Second):
            return self.form(node.inputs[1]).broadcast(shape)
        if isinstance(op, scalar.Switch):
            return self._switch(node, shape)
        parts = [self.form(part).broadcast(shape) for part in node.inputs]
        if isinstance(op, scalar.Identity) or (isinstance(op, scalar.Cast) and "float" in op.o_type.dtype):
            return parts[0]
        if isinstance(op, scalar.Neg):
            return parts[0].scaled(-np.ones(shape))
        if isinstance(op, scalar.Sub):
            return parts[0] + parts[1].scaled(-np.ones(shape))
        if isinstance(op, scalar.Add):
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            return total
        if isinstance(op, scalar.Mul):
            return _multiply(parts)
        if isinstance(op, scalar.TrueDiv) and not parts[1].slopes:
            return parts[0].scaled(1.0 / parts[1].constant)
        raise NotAffineError(str(op))

    def _switch(self, node: Apply, shape: tuple[int, ...]) -> Form:
        condition, yes, no = node.inputs
        if self.graph.is_random(condition):
            raise NotAffineError("a switch on a random condition")
        chosen = np.broadcast_to(np.asarray(self.graph.value(condition), dtype=float), shape)
        return self.form(yes).broadcast(shape).scaled(chosen) + self.form(no).broadcast(shape).scaled(1.0 - chosen)

    def _product(self, node: Apply) -> Form:
        left, right = (self.form(part) for part in node.inputs)
        if left.slopes and right.slopes:
            raise NotAffineError("a product of two random matrices")
        if left.constant.ndim < 2 or right.constant.ndim < 2:
            raise NotAffineError("a product with a vector inside Dot")
        constant = left.constant @ right.constant
        if left.slopes:
            slopes = {leaf: np.einsum("...mnl,...np->...mpl", s, right.constant) for leaf, s in left.slopes.items()}
        else:
            slopes = {leaf: np.einsum("...mn,...npl->...mpl", left.constant, s) for leaf, s in right.slopes.items()}
        return Form(constant, slopes)


def _multiply(parts: list[Form]) -> Form:
    random = [part for part in parts if part.slopes]
    if len(random) > 1:
        raise NotAffineError("a product of random variables")
    factor = np.ones(parts[0].constant.shape)
    for part in parts:
        if not part.slopes:
            factor = factor * part.constant
    return random[0].scaled(factor) if random else Form(factor, {})


def _broadcast_slope(slope: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    missing = len(shape) - (slope.ndim - 1)
    return np.broadcast_to(slope.reshape((1,) * missing + slope.shape), (*shape, slope.shape[-1]))
