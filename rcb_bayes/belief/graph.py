"""Reading a PyMC model as a graph: what is random, what is constant, and where elements go.

A belief is analysed without compiling anything. ``Graph`` walks back from ``beta`` and answers the questions that
the analyses share: is this variable random, what is the value of a constant one, and how does an operation that only
rearranges elements (a reshape, a stack, an index) move them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.simulator import SimulatorRV
from pymc.distributions.truncated import TruncatedRV
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold
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

from rcb_bayes.belief.rewriting import in_full_precision, written_out

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
    """A memo of what is random and what constants are worth, over the graphs of one frozen model.

    Variables whose values are ``known`` are constants, so that a model can be read given some of its variables.
    """

    def __init__(self, known: Mapping[Variable, np.ndarray] | None = None) -> None:
        self._values: dict[Variable, np.ndarray] = dict(known or {})
        self._random: dict[Variable, bool] = dict.fromkeys(self._values, False)
        self._shapes: dict[Variable, tuple[int, ...]] = {}

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

    def value(self, variable: Any) -> np.ndarray:
        """The value of a variable that is not random, computed by the operations' own Python code."""
        if variable not in self._values:
            self._values[variable] = self._compute(variable)
        return self._values[variable]

    def _compute(self, variable: Any) -> np.ndarray:
        node = variable.owner
        if isinstance(variable, Constant):
            return variable.data
        if node is None:
            return variable.get_value()  # a shared variable
        if isinstance(node.op, Shape | Shape_i):
            shape = np.array(self.shape(node.inputs[0]), dtype=np.int64)
            return shape if isinstance(node.op, Shape) else shape[node.op.i]
        results = perform(node, [self.value(part) for part in node.inputs])
        return results[node.outputs.index(variable)]

    def shape(self, variable: Any) -> tuple[int, ...]:
        """The static shape of a variable of the frozen model."""
        shape = tuple(variable.type.shape)
        if None not in shape:
            return shape
        if variable not in self._shapes:
            self._shapes[variable] = self._find_shape(variable)
        return self._shapes[variable]

    def _find_shape(self, variable: Any) -> tuple[int, ...]:
        node = variable.owner
        if not self.is_random(variable):
            return np.shape(self.value(variable))
        if isinstance(node.op, MixtureRV):
            return self._mixture_shape(node)
        if isinstance(node.op, RandomVariable) and support_ndim(node) == 0:
            return self._scalar_shape(node)
        if isinstance(node.op, Elemwise):
            return np.broadcast_shapes(*(self.shape(part) for part in node.inputs))
        try:
            return tuple(int(length) for length in constant_fold(tuple(variable.shape)))  # type: ignore[arg-type]
        except NotConstantValueError:
            raise UnknownShapeError(str(variable)) from None

    def _scalar_shape(self, node: Any) -> tuple[int, ...]:
        """The shape of a random variable with scalar elements: its size, or its parameters' broadcast shape."""
        size = node.op.size_param(node)
        if not isinstance(size.type, NoneTypeT):
            return tuple(int(length) for length in self.value(size))
        shapes = [self.shape(part) for part in node.op.dist_params(node)]
        batches = [s[: len(s) - n_core] for s, n_core in zip(shapes, node.op.ndims_params, strict=True)]
        return np.broadcast_shapes(*batches)

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


def freeze(model: Any) -> dict[str, Any]:
    """The variables of a model by name, its data and dimension lengths as constants so that shapes are static.

    Constants are held in full precision. PyTensor keeps a number in the smallest type that holds it (3 as int8, 3.0 as
    float32) and computes in that type: the mean of a Gamma(2.0, 3.0) would be wrong in the eighth digit.
    """
    from pymc.model.transform.optimization import freeze_dims_and_data

    named = freeze_dims_and_data(model).named_vars
    return dict(zip(named, in_full_precision(written_out(list(named.values()), normals=True)), strict=True))


def is_random_op(node: Apply) -> bool:
    """Whether a node draws random numbers: a distribution, or an operation (a loop, say) that is given a generator."""
    return _is_distribution(node) or any(isinstance(part.type, RandomType) for part in node.inputs)


def is_drawn(variable: Variable) -> bool:
    """Whether a variable is what a random node draws (rather than the generator it leaves behind)."""
    return variable.owner is not None and is_random_op(variable.owner) and not isinstance(variable.type, RandomType)


def drawn_behind(variables: Sequence[Variable]) -> list[Variable]:
    """The random variables whose values, not only their shapes, stand behind (or among) some variables."""
    seen: dict[Variable, None] = {}
    waiting = list(variables)
    while waiting:
        variable = waiting.pop()
        node = variable.owner
        if variable not in seen and not isinstance(variable.type, RandomType):
            seen[variable] = None
            if node is not None and not isinstance(node.op, Shape | Shape_i):
                waiting.extend(node.inputs)
    return [variable for variable in seen if is_drawn(variable)]


def is_one_piece(node: Apply) -> bool:
    """Whether a random node may tie all elements of its output together, whatever support it declares.

    PyMC's and PyTensor's distributions keep to their declared support. A user's own code (``pm.CustomDist``,
    ``pm.Simulator``, another package's distribution, a loop that draws) need not.
    """
    op: Any = node.op.base_rv_op if isinstance(node.op, TruncatedRV) else node.op
    if not _is_distribution(node) or isinstance(op, CustomDistRV | CustomSymbolicDistRV | SimulatorRV):
        return True
    return type(op).__module__.partition(".")[0] not in ("pymc", "pytensor")


def _is_distribution(node: Apply) -> bool:
    return isinstance(node.op, RandomVariable | SymbolicRandomVariable)


def parameters(node: Apply) -> list[tuple[Variable, int]]:
    """A random node's parameters, each with its number of core (non-batch) dimensions.

    For PyMC's mixture the components count as parameters; random nodes that do not tell return their inputs with all
    dimensions as core, so that callers treat them as one piece.
    """
    op: Any = node.op
    if isinstance(op, MixtureRV):
        _, weights, *components = node.inputs
        n_core = support_ndim(node) + int(mixture_is_stacked(node))
        return [(weights, 1), *((part, n_core) for part in components)]
    if not is_one_piece(node) and op.signature is not None:
        return list(zip(op.dist_params(node), op.ndims_params, strict=True))
    tensors = [part for part in node.inputs if not isinstance(part.type, RandomType | NoneTypeT)]
    return [(part, getattr(part.type, "ndim", 0)) for part in tensors]


def mixture_is_stacked(node: Apply) -> bool:
    """Whether a mixture's components are one variable with a mixture axis, rather than a list of variables."""
    return len(node.inputs) == 3


def support_ndim(node: Apply) -> int:
    """Number of support dimensions of a random node's output; all of them where the op does not tell."""
    found: Any = getattr(node.op, "ndim_supp", None)
    if found is not None and not is_one_piece(node):
        return int(found)
    return max(getattr(output.type, "ndim", 0) for output in node.outputs)


def without_compiler() -> Any:
    """A context in which PyTensor runs Python code only: a C compiler takes (cold, half a minute) more than it saves.

    Operations that are graphs themselves (a Kronecker product, a loop) compile what is in them when they first run.
    """
    return pytensor.config.change_flags(cxx="", mode="FAST_COMPILE")


def perform(node: Apply, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run one operation's Python implementation on arrays.

    The node is prepared first, as PyTensor does when it compiles: only then does an operation on whole numbers (a
    reciprocal, say) know that its result is a real one. Left alone, an Elemwise prepares the first node of its kind
    in the process, and no other.
    """
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    with without_compiler():
        node.op.prepare_node(node, None, None, "py")
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


def reduced_axes(node: Any) -> tuple[int, ...]:
    """The axes that a reduction (a sum, a product) removes."""
    axis = node.op.axis
    return tuple(range(node.inputs[0].type.ndim)) if axis is None else tuple(axis)


def origins(node: Apply, graph: Graph) -> tuple[np.ndarray, list[Variable]] | None:
    """Where each element of a move's output comes from.

    Returns, in the output's shape, positions in the concatenation of the moved inputs' flattened elements, and those
    inputs; None when an index is itself random, so that the origin is not fixed.
    """
    moved = _moved_inputs(node)
    if any(graph.is_random(part) for part in node.inputs if part not in moved):
        return None
    codes: dict[Variable, np.ndarray] = {}
    start = 0
    for part in moved:
        shape = graph.shape(part)
        size = int(np.prod(shape, dtype=int))
        whole = np.dtype(part.type.dtype).kind in "iu"
        codes[part] = np.arange(start, start + size, dtype=np.int64 if whole else np.float64).reshape(shape)
        start += size
    (result,) = perform(node, [codes[part] if part in codes else graph.value(part) for part in node.inputs])
    positions = np.asarray(result)
    if positions.dtype.itemsize < 4:  # the operation casts to a type (bool, say) that cannot carry positions
        return None
    return positions.astype(int), moved


def _moved_inputs(node: Apply) -> list[Any]:
    op = node.op
    if isinstance(op, _ASSIGNMENTS):
        return list(dict.fromkeys(node.inputs[:2]))
    if isinstance(op, MakeVector | Join):
        return list(dict.fromkeys(node.inputs))
    return [node.inputs[0]]
