"""Reading a PyMC model as a graph: what is random, what is constant, and where elements go.

A belief is analysed without compiling anything. ``Graph`` walks back from ``beta`` and answers the questions that
the analyses share: is this variable random, what is the value of a constant one, and how does an operation that only
rearranges elements (a reshape, a stack, an index) move them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.mixture import MixtureRV
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.type_other import NoneTypeT

_MOVES = (
    DimShuffle,
    Reshape,
    SpecifyShape,
    ViewOp,
    Join,
    MakeVector,
    Alloc,
    TensorFromScalar,
    ScalarFromTensor,
    Subtensor,
    AdvancedSubtensor,
)
_ASSIGNMENTS = (IncSubtensor, AdvancedIncSubtensor)


class UnknownShapeError(Exception):
    """A variable whose shape cannot be told without running the model."""


class Graph:
    """A memo of what is random and what constants are worth, over the graphs of one frozen model."""

    def __init__(self) -> None:
        self._random: dict[Variable, bool] = {}
        self._values: dict[Variable, np.ndarray] = {}

    def is_random(self, variable: Variable) -> bool:
        """Whether any random variable stands among the ancestors of (or is) ``variable``."""
        known = self._random.get(variable)
        if known is None:
            node = variable.owner
            known = (
                node is not None
                and not isinstance(node.op, Shape | Shape_i)  # a shape is fixed, whatever it is the shape of
                and (is_random_op(node) or any(self.is_random(part) for part in node.inputs))
            )
            self._random[variable] = known
        return known

    def value(self, variable: Variable) -> np.ndarray:
        """The value of a variable that is not random, computed by the operations' own Python code."""
        if variable in self._values:
            return self._values[variable]
        if isinstance(variable, Constant):
            found = variable.data
        elif variable.owner is None:
            found = variable.get_value()  # type: ignore[attr-defined]  # a shared variable
        elif isinstance(variable.owner.op, Shape | Shape_i):
            shape = np.array(self.shape(variable.owner.inputs[0]), dtype=np.int64)
            found = shape if isinstance(variable.owner.op, Shape) else shape[variable.owner.op.i]
        else:
            node = variable.owner
            outputs = perform(node, [self.value(part) for part in node.inputs])
            for output, result in zip(node.outputs, outputs, strict=True):
                self._values[output] = result
            found = self._values[variable]
        self._values[variable] = found
        return found

    def shape(self, variable: Variable) -> tuple[int, ...]:
        """The static shape of a variable of the frozen model."""
        shape = tuple(variable.type.shape)  # type: ignore[attr-defined]
        if None not in shape:
            return shape
        if not self.is_random(variable):
            return np.shape(self.value(variable))
        node = variable.owner
        if node is not None and isinstance(node.op, MixtureRV):
            return self._mixture_shape(node)
        if node is not None and is_random_op(node):
            return self._drawn_shape(node)
        if node is not None and isinstance(node.op, Elemwise):
            return np.broadcast_shapes(*(self.shape(part) for part in node.inputs))
        raise UnknownShapeError(str(variable))

    def _drawn_shape(self, node: Apply) -> tuple[int, ...]:
        """The shape of a random variable that the type leaves open: its size, or its parameters' broadcast shape."""
        op: Any = node.op
        size = op.size_param(node)
        parts = [(self.shape(part), n_core) for part, n_core in parameters(node)]
        if op.signature is None or support_ndim(node) > 1:
            raise UnknownShapeError(str(node))
        support = next((shape[-1:] for shape, n_core in parts if n_core > 0), ()) if support_ndim(node) else ()
        if size is not None and not isinstance(size.type, NoneTypeT):
            return (*(int(length) for length in self.value(size)), *support)
        return (*np.broadcast_shapes(*(shape[: len(shape) - n_core] for shape, n_core in parts)), *support)

    def _mixture_shape(self, node: Apply) -> tuple[int, ...]:
        """The shape that PyMC's mixture leaves open: its components', without the mixture axis."""
        n_support = support_ndim(node)
        shapes = [self.shape(component) for component in node.inputs[2:]]
        if mixture_is_stacked(node):
            axis = len(shapes[0]) - n_support - 1
            shapes = [shapes[0][:axis] + shapes[0][axis + 1 :]]
        support = shapes[0][len(shapes[0]) - n_support :]
        batches = [shape[: len(shape) - n_support] for shape in shapes]
        return (*np.broadcast_shapes(self.shape(node.inputs[1])[:-1], *batches), *support)


def freeze(model: Any) -> Any:
    """The model with its data and dimension lengths as constants, so that shapes are static."""
    from pymc.model.transform.optimization import freeze_dims_and_data

    return freeze_dims_and_data(model)


def is_random_op(node: Apply) -> bool:
    """Whether a node draws random numbers: a ``RandomVariable`` or one of PyMC's symbolic ones."""
    return isinstance(node.op, RandomVariable | SymbolicRandomVariable)


def parameters(node: Apply) -> list[tuple[Variable, int]]:
    """A random node's parameters, each with its number of core (non-batch) dimensions.

    For PyMC's mixture the components count as parameters; other symbolic variables without a signature return
    their inputs with all dimensions as core, so that callers treat them as one piece.
    """
    op: Any = node.op
    if isinstance(op, MixtureRV):
        _, weights, *components = node.inputs
        n_core = int(op.ndim_supp) + int(mixture_is_stacked(node))
        return [(weights, 1), *((part, n_core) for part in components)]
    if isinstance(op, RandomVariable) or op.signature is not None:
        return list(zip(op.dist_params(node), op.ndims_params, strict=True))
    tensors = [part for part in node.inputs if not isinstance(part.type, RandomType)]
    return [(part, getattr(part.type, "ndim", 0)) for part in tensors]


def mixture_is_stacked(node: Apply) -> bool:
    """Whether a mixture's components are one variable with a mixture axis, rather than a list of variables."""
    return len(node.inputs) == 3


def support_ndim(node: Apply) -> int:
    """Number of support dimensions of a random node's output; all of them where the op does not tell."""
    found = getattr(node.op, "ndim_supp", None)
    return node.outputs[-1].type.ndim if found is None else int(found)  # type: ignore[attr-defined]


def perform(node: Apply, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run one operation's Python implementation on arrays."""
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    node.op.perform(node, list(inputs), storage)
    return [cell[0] for cell in storage]


def is_move(node: Apply) -> bool:
    """Whether an operation only rearranges, repeats or drops elements of its inputs."""
    if isinstance(node.op, _ASSIGNMENTS):
        return bool(node.op.set_instead_of_inc)
    return isinstance(node.op, _MOVES)


def is_matrix_product(node: Apply) -> bool:
    """Whether a node is a matrix product, batched or not."""
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    return isinstance(op, Dot)


def is_leading_index(node: Apply) -> bool:
    """Whether a node picks rows of a table by one array of indices: ``table[index]``."""
    return isinstance(node.op, AdvancedSubtensor) and len(node.inputs) == 2 and tuple(node.op.idx_list) == (0,)


def reduced_axes(node: Apply) -> tuple[int, ...]:
    """The axes that a reduction (a sum, a product) removes."""
    axis = node.op.axis  # type: ignore[attr-defined]
    return tuple(range(node.inputs[0].type.ndim)) if axis is None else tuple(axis)  # type: ignore[attr-defined]


def origins(node: Apply, graph: Graph) -> tuple[np.ndarray, list[Variable]] | None:
    """Where each element of a move's output comes from.

    Returns, in the output's shape, positions in the concatenation of the moved inputs' flattened elements, and those
    inputs; None when an index is itself random, so that the origin is not fixed.
    """
    moved = _moved_inputs(node)
    narrow = np.dtype(node.outputs[0].type.dtype).itemsize < 4  # type: ignore[attr-defined]  # cannot carry positions
    if narrow or any(graph.is_random(part) for part in node.inputs if part not in moved):
        return None
    codes, start = {}, 0
    for part in moved:
        shape = graph.shape(part)
        size = int(np.prod(shape, dtype=int))
        codes[part] = np.arange(start, start + size, dtype=np.float64).reshape(shape)
        start += size
    (result,) = perform(node, [codes[part] if part in codes else graph.value(part) for part in node.inputs])
    return np.asarray(result).astype(int), moved


def _moved_inputs(node: Apply) -> list[Variable]:
    op = node.op
    if isinstance(op, _ASSIGNMENTS):
        return list(dict.fromkeys(node.inputs[:2]))
    if isinstance(op, MakeVector | Join):
        return list(dict.fromkeys(node.inputs))
    return [node.inputs[0]]
