"""x alone on one side: a graph written anew so that what depends on the inputs alone stands together.

A table that is indexed by x becomes a product with indicators, a switch on x a sum of two products, and products are
multiplied out where a factor is a sum with x in it. What cannot be separated so is left as it is.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedSubtensor

from rcb_bayes.belief.graph import Graph, UnknownShapeError, is_matrix_product, is_random_op, reduced_axes

_MOST_VALUES = 20_000_000  # of a table that is looked up by users, each of whom may have a function of her own


class Dependence:
    """What depends on the values of x, what on random variables; shapes depend on neither."""

    def __init__(self, x: Any) -> None:
        self._x = x
        self._known: dict[tuple[str, Variable], bool] = {}

    def on_x(self, variable: Any, *, shapes: bool = False) -> bool:
        """Whether a value depends on x; with ``shapes``, or on how many users there are."""
        return self._find("shape" if shapes else "x", variable)

    def on_random(self, variable: Any) -> bool:
        """Whether a value is random."""
        return self._find("random", variable)

    def _find(self, what: str, variable: Any) -> bool:
        if (what, variable) not in self._known:
            self._known[what, variable] = self._look(what, variable)
        return self._known[what, variable]

    def _look(self, what: str, variable: Any) -> bool:
        node = variable.owner
        if node is None:
            return what != "random" and variable is self._x
        if what != "shape" and isinstance(node.op, Shape | Shape_i):
            return False
        if what == "random" and is_random_op(node):
            return True
        return any(self._find(what, part) for part in node.inputs if not isinstance(part.type, RandomType))


class Separation:
    """Writes a graph anew so that what depends on x alone stands together, apart from the latents."""

    def __init__(self, x: Any) -> None:
        self._depends = Dependence(x)
        self._done: dict[Variable, Any] = {}
        self._where: dict[Variable, Any] = {}  # products with an indicator, and what it indicates: 0 elsewhere, not NaN

    def of(self, variable: Any) -> Any:
        """The same values from a graph in which x and the latents meet in sums and products only, where that can be."""
        if variable not in self._done:
            mixed = self._depends.on_x(variable) and self._depends.on_random(variable)
            self._done[variable] = self._rewritten(variable) if mixed else variable
        return self._done[variable]

    def _of_x(self, variable: Any) -> bool:
        return self._depends.on_x(variable) and not self._depends.on_random(variable)

    def _rewritten(self, variable: Any) -> Any:
        node = variable.owner
        inputs = [self.of(part) for part in node.inputs]
        op: Any = node.op
        if isinstance(op, AdvancedSubtensor):
            found = self._table(node, inputs)
            if found is not None:
                return found
        if isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Switch) and self._of_x(inputs[0]):
            chosen: Any = pt.neq(inputs[0], 0)
            return self.of(self._only(chosen, inputs[1]) + self._only(pt.invert(chosen), inputs[2]))
        if isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Mul):
            return self._product(inputs)
        if isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.TrueDiv) and self._of_x(inputs[1]):
            return self._product([inputs[0], 1.0 / inputs[1]])
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            return variable
        return node.clone_with_new_inputs(inputs, strict=False).outputs[node.outputs.index(variable)]

    def _only(self, chosen: Any, variable: Any) -> Any:
        """A variable where something of x holds, 0 elsewhere."""
        if not self._depends.on_random(variable):
            return pt.switch(chosen, variable, 0.0)
        indicator = chosen.astype("float64")
        self._where[indicator] = chosen
        return indicator * variable

    def _multiplied(self, factors: list[Any]) -> Any:
        out: Any = factors[0]
        for factor in factors[1:]:
            out = out * factor
        places = [self._where[factor] for factor in factors if factor in self._where]
        if not places:
            return out
        chosen = places[0]
        for place in places[1:]:
            chosen = chosen & place
        out = pt.switch(chosen, out, 0.0) if len(factors) > 1 else out
        self._where[out] = chosen
        return out

    def _shuffled(self, own: Any, order: list[Any]) -> Any:
        out = own.dimshuffle(*order)
        if own in self._where:
            self._where[out] = self._where[own].dimshuffle(*order)
        return out

    def _product(self, factors: list[Any]) -> Any:
        """A product with all factors of x in one, which is taken into sums and matrix products with x in them."""
        flat = [inner for factor in factors for inner in self._factors(factor)]
        own = [factor for factor in flat if self._of_x(factor)]
        rest = [factor for factor in flat if not self._of_x(factor)]
        for k, factor in enumerate(rest):
            if not self._depends.on_x(factor) or not (own or len(rest) > 1):
                continue
            others = own + rest[:k] + rest[k + 1 :]
            terms = self._terms(factor)
            if terms is not None:
                total = self._product([*others, terms[0]])
                for term in terms[1:]:
                    total = total + self._product([*others, term])
                return total
            taken = self._taken_in(self._multiplied(own), factor) if own else None
            if taken is not None:
                return self._product([taken, *rest[:k], *rest[k + 1 :]])
        out = None
        for factor in ([self._multiplied(own)] if own else []) + rest:
            out = factor if out is None else out * factor
        return out

    def _taken_in(self, own: Any, factor: Any) -> Any:
        """``own * factor`` with ``own``, of x alone, on the side of x inside of the factor; None where it cannot be."""
        op: Any = factor.owner.op
        narrow = own.type.broadcastable
        if isinstance(op, DimShuffle):
            if not all(narrow[k] for k, axis in enumerate(op.new_order) if axis == "x"):
                return None
            order = [op.new_order.index(k) if k in op.new_order else "x" for k in range(op.input_ndim)]
            inside = self._shuffled(own, order)
            return op(self._product([inside, factor.owner.inputs[0]]))
        if isinstance(op, Sum):
            axes = reduced_axes(factor.owner)
            places = iter(range(own.type.ndim))
            order = ["x" if k in axes else next(places) for k in range(factor.owner.inputs[0].type.ndim)]
            inside = self._shuffled(own, order)
            return self._product([inside, factor.owner.inputs[0]]).sum(axis=axes)
        if is_matrix_product(factor.owner) and factor.type.ndim == 2:
            left, right = factor.owner.inputs
            if self._depends.on_x(left) and not self._depends.on_x(right) and narrow[1]:
                return self._product([own, left]) @ right
            if self._depends.on_x(right) and not self._depends.on_x(left) and narrow[0]:
                return left @ self._product([own, right])
        if isinstance(op, Join):
            axis = op.axis % factor.type.ndim
            return (
                pt.join(axis, *(self._product([own, part]) for part in factor.owner.inputs)) if narrow[axis] else None
            )
        return None

    def _factors(self, factor: Any) -> list[Any]:
        node: Any = factor.owner
        op: Any = getattr(node, "op", None)
        mixed = self._depends.on_x(factor) and self._depends.on_random(factor)
        if mixed and isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Mul):
            return [inner for part in node.inputs for inner in self._factors(part)]
        if mixed and isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Neg):
            return [pt.constant(-1.0), *self._factors(node.inputs[0])]
        return [factor]

    def _terms(self, factor: Any) -> list[Any] | None:
        node: Any = factor.owner
        op: Any = getattr(node, "op", None)
        if not isinstance(op, Elemwise):
            return None
        if isinstance(op.scalar_op, scalar.Add):
            return list(node.inputs)
        if isinstance(op.scalar_op, scalar.Sub):
            return [node.inputs[0], -node.inputs[1]]
        return None

    def _table(self, node: Any, inputs: list[Any]) -> Any:
        """``table[index of x]`` as a product of indicators and the table, where axes are indexed by user.

        Axes may be several, side by side; among them may be some that are indexed by one number.
        """
        places, indices = list(node.op.idx_list), inputs[1:]
        axes = [k for k, place in enumerate(places) if isinstance(place, int)]
        one, own = [], []
        for axis in axes:
            index: Any = indices[places[axis]]
            of_x, whole = self._depends.on_x(index), np.dtype(index.type.dtype).kind in "iu"
            if self._depends.on_random(index) or not whole or index.type.ndim != int(of_x):
                return None
            (own if of_x else one).append(axis)
        if not own or axes != list(range(axes[0], axes[-1] + 1)) or self._depends.on_x(inputs[0]):
            return None
        if any(place != slice(None) for place in places if not isinstance(place, int)):
            return None
        table: Any = _sized(inputs[0])
        for axis in reversed(one):
            table = table.take(indices[places[axis]], axis=axis)
        first = axes[0]
        sizes, rest = table.type.shape[first : first + len(own)], list(table.type.shape)
        del rest[first : first + len(own)]
        if None in sizes or None in rest:
            return None
        indicators = self._indicators([indices[places[axis]] for axis in own], sizes)
        turned = table.dimshuffle(*range(first, first + len(own)), *range(first), *range(first + len(own), table.ndim))
        found = _looked_up(indicators, turned.reshape((int(np.prod(sizes)), *rest)))
        return found.dimshuffle(*range(1, first + 1), 0, *range(first + 1, found.type.ndim))

    def _indicators(self, indices: list[Any], sizes: Any) -> Any:
        """Which cell of a table each user is in, (n, cells); NaN where the table has none for her."""
        flat: Any = 0
        in_table: Any = np.array(True)
        for index, size in zip(indices, sizes, strict=True):
            wrapped: Any = pt.switch(index < 0, index + size, index)
            in_table = (wrapped >= 0) & (wrapped < size) & in_table
            flat = flat * size + wrapped
        equal: Any = pt.eq(flat[:, None], np.arange(int(np.prod(sizes))))
        return pt.switch(in_table[:, None], equal.astype("float64"), np.nan)


def _sized(table: Any) -> Any:
    """A table with its lengths, where PyMC leaves these open though they are known (``pm.ZeroSumNormal``)."""
    with suppress(UnknownShapeError):
        return pt.specify_shape(table, Graph().shape(table))
    return table


def _looked_up(indicators: Any, table: Any) -> Any:
    """Rows of a table (cells, ...) by indicators (n, cells), users first.

    A sum of products can take in factors that differ along any axis; a matrix product of a large table needs less.
    """
    n_cells, *rest = table.type.shape
    width = int(np.prod(rest[-1:]))  # functions that each cell may have
    if (1 + n_cells * width) * (n_cells * np.prod(rest)) ** 2 <= _MOST_VALUES:
        return (indicators.dimshuffle(0, 1, *["x"] * len(rest)) * table[None]).sum(axis=1)
    product = indicators @ table.reshape((n_cells, -1))
    return product.reshape((product.shape[0], *rest))
