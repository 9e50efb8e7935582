"""Which arms of a belief share randomness.

Every element of every random variable gets a source of its own; sources are carried through the model element by
element, as bit sets, by what each operation does. Two arms are coupled when some source reaches both. Operations that
are not known are taken to mix everything they see, so an arm is called independent only when the graph proves it.
"""

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar.basic import Mul, Second, Switch
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.sort import SortOp
from pytensor.tensor.special import Softmax

from rcb_bayes.belief.graph import (
    Graph,
    UnknownShapeError,
    is_leading_index,
    is_matrix_product,
    is_move,
    is_one_piece,
    is_random_op,
    origins,
    parameters,
    reduced_axes,
    support_ndim,
)
from rcb_bayes.belief.law import connected_groups

_ALONG_AN_AXIS = (CumOp, SortOp, Softmax)


class Sources:
    """The sources of randomness behind each element of each variable, as Python integers used as bit sets."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._masks: dict[Variable, np.ndarray] = {}
        self._count = 0

    def of(self, variable: Variable) -> np.ndarray:
        """Bit sets of the sources behind each element, an object array in the variable's shape."""
        if variable not in self._masks:
            node = variable.owner
            if node is None or not self._graph.is_random(variable):
                self._masks[variable] = self._empty(self._graph.shape(variable))
            else:
                found = self._read(node, variable)
                self._masks[variable] = found if isinstance(found, np.ndarray) else _single(found)
        return self._masks[variable]

    def behind(self, variable: Variable) -> int:
        """All sources behind any element of a variable."""
        return union_all(self.of(variable))

    def _read(self, node: Apply, variable: Variable) -> np.ndarray:
        shape = self._graph.shape(variable)
        if is_random_op(node):
            return self._draw(node, shape)
        if is_move(node):
            found = origins(node, self._graph)
            if found is not None:
                positions, moved = found
                return np.concatenate([self.of(part).reshape(-1) for part in moved])[positions]
            if is_leading_index(node):
                return self._index(node, shape)
        elif isinstance(node.op, Elemwise):
            return self._elementwise(node, shape)
        elif isinstance(node.op, _ALONG_AN_AXIS):
            return self._along_axis(node, shape)
        elif isinstance(node.op, CAReduce):
            return _reduce(self.of(node.inputs[0]), reduced_axes(node))
        elif is_matrix_product(node):
            return self._product(node, shape)
        elif isinstance(node.op, Blockwise):
            return self._blockwise(node, variable, shape)
        return self._mix(node, shape)

    def _draw(self, node: Apply, shape: tuple[int, ...]) -> np.ndarray:
        """A random variable: own sources, one a batch element, and those of its parameters at that element."""
        n_support = support_ndim(node)
        batch = shape[: len(shape) - n_support]
        whole = is_one_piece(node)
        own = self._new_sources(() if whole else batch)
        parts = [np.broadcast_to(own, batch)]
        for parameter, n_core in parameters(node):
            parts.append(_at_batch(self.of(parameter), n_core, batch))
        union = _union(parts)
        return np.broadcast_to(union.reshape(batch + (1,) * n_support), shape)

    def _new_sources(self, shape: tuple[int, ...]) -> np.ndarray:
        own = np.empty(shape, dtype=object)
        for index in np.ndindex(shape):
            own[index] = 1 << self._count
            self._count += 1
        return own

    def _elementwise(self, node: Any, shape: tuple[int, ...]) -> np.ndarray:
        """An operation element by element, less what a constant leaves out: a factor of zero, the branch not taken."""
        op, parts = node.op.scalar_op, node.inputs
        if isinstance(op, Switch) and not self._graph.is_random(parts[0]):
            chosen = np.asarray(self._graph.value(parts[0]), dtype=bool)
            yes, no = (self.of(part) for part in parts[1:])
            return np.broadcast_to(np.where(chosen, yes, no), shape)
        masks = [np.broadcast_to(self.of(part), shape) for part in (parts[1:] if isinstance(op, Second) else parts)]
        if isinstance(op, Mul):
            kept = np.all([np.broadcast_to(self._nonzero(part), shape) for part in parts], axis=0)
            return np.where(kept, _union(masks), self._empty(()))
        return _union(masks)

    def _along_axis(self, node: Any, shape: tuple[int, ...]) -> np.ndarray:
        """A cumulative sum, a sort or a softmax: elements mix along its axes only."""
        axis = node.op.axis
        masks = self.of(node.inputs[0])
        if axis is None or masks.shape != shape:
            return self._mix(node, shape)
        axes = tuple(int(k) % masks.ndim for k in np.atleast_1d(axis))
        return np.broadcast_to(np.expand_dims(_reduce(masks, axes), axes), shape)

    def _product(self, node: Apply, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix product: row sources of the left, column sources of the right, where the other is not zero."""
        left, right = node.inputs
        a, b = self.of(left), self.of(right)
        if a.ndim == 2 and b.ndim == 2:
            used_a = self._nonzero(left)  # (m, n)
            used_b = self._nonzero(right)  # (n, p)
            out = self._empty(shape)
            for m, p in np.ndindex(shape):
                joint = used_a[m] & used_b[:, p]
                out[m, p] = union_all(a[m][joint]) | union_all(b[:, p][joint])
            return out
        return self._mix(node, shape) if a.ndim < 2 or b.ndim < 2 else self._blockwise(node, node.outputs[0], shape)

    def _index(self, node: Apply, shape: tuple[int, ...]) -> np.ndarray:
        """Rows picked by a random index: the index's own sources, and those of any row it may pick."""
        table, index = node.inputs
        rows = _reduce(self.of(table), (0,))
        picked = self.of(index)
        return _union([np.broadcast_to(picked.reshape(picked.shape + (1,) * rows.ndim), shape), rows])

    def _nonzero(self, variable: Variable) -> np.ndarray:
        if self._graph.is_random(variable):
            return np.ones(self._graph.shape(variable), dtype=bool)
        return np.asarray(self._graph.value(variable)) != 0

    def _blockwise(self, node: Any, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
        """A batched operation: all that its core mixes, batch element by batch element."""
        n_out = len(node.op.outputs_sig[node.outputs.index(variable)])
        batch = shape[: len(shape) - n_out]
        parts = [
            _at_batch(self.of(part), len(signature), batch)
            for part, signature in zip(node.inputs, node.op.inputs_sig, strict=True)
        ]
        return np.broadcast_to(_union(parts).reshape(batch + (1,) * n_out), shape)

    def _mix(self, node: Apply, shape: tuple[int, ...]) -> np.ndarray:
        out = self._empty(shape)
        out[...] = self._feeding(node)
        return out

    def _feeding(self, node: Apply) -> int:
        """All sources behind any input of a node; an input that is no array (a slice) is seen through."""
        union = 0
        for part in node.inputs:
            if hasattr(part.type, "shape"):
                union |= self.behind(part)
            elif part.owner is not None:
                union |= self._feeding(part.owner)
        return union

    @staticmethod
    def _empty(shape: tuple[int, ...]) -> np.ndarray:
        out = np.empty(shape, dtype=object)
        out[...] = 0
        return out


def independent_groups(beta: Variable, *, n_arms: int, sources: Sources) -> tuple[tuple[int, ...], ...]:
    """Groups of arms (rows of beta) that share no randomness with each other.

    One group of all arms where the graph does not prove independence.
    """
    try:
        masks = sources.of(beta)
    except UnknownShapeError:
        return (tuple(range(n_arms)),)
    arms = [union_all(row) for row in masks]
    coupled = np.array([[(first & second) != 0 for second in arms] for first in arms])
    return connected_groups(coupled)


def _at_batch(masks: np.ndarray, n_core: int, batch: tuple[int, ...]) -> np.ndarray:
    """A parameter's sources at each batch element; all of them where its dimensions do not line up with the batch's."""
    n_batch = masks.ndim - n_core
    if 0 <= n_batch <= len(batch):
        reduced = _reduce(masks, tuple(range(n_batch, masks.ndim)))
        # Lengths must agree to the right: a random walk, for one, keeps its time axis before the batch.
        if all(own in (1, length) for own, length in zip(reduced.shape[::-1], batch[::-1], strict=False)):
            return np.broadcast_to(reduced, batch)
    whole = np.empty((), dtype=object)
    whole[()] = union_all(masks)
    return np.broadcast_to(whole, batch)


def _union(parts: list[np.ndarray]) -> np.ndarray:
    out = parts[0]
    for part in parts[1:]:
        out = np.asarray(np.bitwise_or(out, part), dtype=object)
    return np.asarray(out, dtype=object)


def _reduce(masks: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    if not axes:
        return masks
    kept = [axis for axis in range(masks.ndim) if axis not in axes]
    moved = masks.transpose(*kept, *axes).reshape(*(masks.shape[axis] for axis in kept), -1)
    out = np.empty(moved.shape[:-1], dtype=object)
    for index in np.ndindex(out.shape):
        out[index] = union_all(moved[index])
    return out


def _single(mask: int) -> np.ndarray:
    """A scalar's bit set as an array: indexing an array of objects by a scalar unwraps it."""
    out = np.empty((), dtype=object)
    out[()] = mask
    return out


def union_all(masks: np.ndarray) -> int:
    """The union of all bit sets in an object array."""
    union = 0
    for mask in np.ravel(np.asarray(masks, dtype=object)):
        union |= mask
    return union
