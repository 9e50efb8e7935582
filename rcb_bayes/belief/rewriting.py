"""Graphs written anew: operations that are graphs as their steps, sums of normals as such, others in some places."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.multivariate import ZeroSumNormalRV
from pymc.distributions.timeseries import RandomWalkRV
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import Cast
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.einsum import Einsum
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.linalg.products import KroneckerProduct
from pytensor.tensor.random.basic import MvNormalRV, NormalRV
from pytensor.tensor.variable import TensorConstant

_PRODUCTS = (Einsum, KroneckerProduct, AllocDiag)
_LONGEST_SUM = 1000  # a cumulative sum of n terms as a matrix product takes n x n numbers
_WIDER = dict.fromkeys(("float16", "float32"), "float64") | dict.fromkeys(
    ("int8", "int16", "int32", "uint8", "uint16", "uint32"), "int64"
)


def written_out(outputs: list[Any], *, normals: bool = False) -> list[Any]:
    """The same graph with operations that are graphs themselves (``pt.einsum``, ``pt.diag``) as the steps they are.

    A cumulative sum becomes a matrix product; with ``normals``, a Gaussian random walk or a zero-sum normal becomes
    sums of normals, which are no longer the model's own variables.
    """
    new: dict[Any, Any] = {}
    for node in toposort(outputs):
        inputs = [new.get(part, part) for part in node.inputs]
        total = _cumulated(node.op, inputs[0]) if isinstance(node.op, CumOp) else None
        if total is not None:
            results = [total]
        elif isinstance(node.op, _PRODUCTS) or (normals and _is_sum_of_normals(node)):
            inner: Any = node.op.fgraph  # type: ignore[attr-defined]
            results = written_out(list(inner.bind(dict(zip(inner.inputs, inputs, strict=True)))), normals=normals)
        elif all(one is other for one, other in zip(inputs, node.inputs, strict=True)):
            continue
        else:
            results = node.clone_with_new_inputs(inputs, strict=False).outputs
        for old, out in zip(node.outputs, results, strict=True):
            out.name = old.name
            new[old] = out
    return [new.get(output, output) for output in outputs]


def _cumulated(op: Any, terms: Any) -> Any:
    """A cumulative sum as a matrix product; None where it is another one, or too long."""
    if op.mode != "add" or op.axis is None or terms.type.dtype not in ("float32", "float64"):
        return None
    axis = int(op.axis)
    length = terms.type.shape[axis]
    if length is None or length > _LONGEST_SUM:
        return None
    last: Any = pt.moveaxis(terms, axis, -1)
    total: Any = (last[..., None, :] @ np.triu(np.ones((length, length))))[..., 0, :]
    return pt.moveaxis(total, -1, axis)


def _is_sum_of_normals(node: Apply) -> bool:
    if isinstance(node.op, RandomWalkRV):
        parts = [part.owner.op for part in node.inputs[:2] if part.owner is not None]
        return len(parts) == 2 and all(isinstance(op, NormalRV | MvNormalRV) for op in parts)
    return isinstance(node.op, ZeroSumNormalRV)


def in_full_precision(outputs: list[Any]) -> list[Any]:
    """The same graph anew, from constants of 64 bits; an operation that asks for certain types is given these."""
    wider: dict[Variable, Any] = {
        part: pt.constant(part.data.astype(_WIDER[part.type.dtype]), name=part.name)
        for part in ancestors(outputs)
        if isinstance(part, TensorConstant) and part.type.dtype in _WIDER
    }
    for node in toposort(outputs):
        inputs = [wider.get(part, part) for part in node.inputs]
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            continue
        for old, new in zip(node.outputs, _rebuilt(node, inputs).outputs, strict=True):
            new.name = old.name
            wider[old] = new
    return [wider.get(output, output) for output in outputs]


def _rebuilt(node: Apply, inputs: list[Any]) -> Any:
    """A node with inputs of other types, in their old ones where it asks for these."""
    try:
        return node.clone_with_new_inputs(inputs, strict=False)
    except TypeError:
        kept = [
            new if new.type == old.type else pt.cast(new, old.type.dtype)
            for new, old in zip(inputs, node.inputs, strict=True)
        ]
        return node.clone_with_new_inputs(kept, strict=False)


def substitute(output: Any, replaced: Mapping[Any, Any], *, rounded: list[Any] | None = None) -> Any:
    """The graph of a variable with others in the place of some; what these do not stand behind stays the same nodes.

    Real numbers may take the place of whole ones. What is made whole again on the way (an index, say) is added to
    ``rounded``.
    """
    new: dict[Any, Any] = dict(replaced)
    for node in toposort([output], blockers=list(replaced)):
        inputs = [new.get(part, part) for part in node.inputs]
        if all(one is other for one, other in zip(inputs, node.inputs, strict=True)):
            continue
        rebuilt = _rebuilt(node, inputs)
        if rounded is not None:
            rounded.extend(_made_whole(node, inputs, rebuilt))
        for old, out in zip(node.outputs, rebuilt.outputs, strict=True):
            if old not in replaced:
                out.name = old.name
                new[old] = out
    return new.get(output, output)


def _made_whole(node: Apply, inputs: list[Any], rebuilt: Any) -> list[Any]:
    """Inputs that were whole numbers, are real ones, and go into whole ones."""
    is_cast = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast)
    used = rebuilt.outputs if is_cast else rebuilt.inputs
    return [
        new
        for new, old, goes in zip(inputs, node.inputs, used, strict=False)
        if _kind(new) == "f" and _kind(old) in "iub" and _kind(goes) in "iub"
    ]


def _kind(variable: Any) -> str:
    """The kind of a variable's numbers: f, i, u, b; nothing for what holds none."""
    dtype = getattr(variable.type, "dtype", None)
    return np.dtype(dtype).kind if dtype is not None else ""
