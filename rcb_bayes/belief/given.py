"""A belief given many values of a few of its variables at once: means and covariance roots from one compiled function.

``affine.AffineReader`` reads a graph for one value after another. Here every normal variable is written as its location
plus its scale times fresh standard normals z, so that beta is a function of the known variables and of z, affine in
z: at z = 0 it is the mean, and at each unit vector it exceeds that by a column of the root.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import LaplaceRV, MvNormalRV, NormalRV, StudentTRV

from rcb_bayes.belief.graph import Graph, UnknownShapeError, drawn_behind, without_compiler

Given = Callable[[Sequence[np.ndarray]], tuple[np.ndarray, np.ndarray]]
_CHUNK_VALUES = 4_000_000
FAILURES = (NotImplementedError, TypeError, ValueError, UnknownShapeError, np.linalg.LinAlgError, AssertionError)


def compile_given(beta: Any, known: Sequence[Variable], *, leaves: Sequence[Variable], graph: Graph) -> Given | None:
    """A function of values (J, ...) of the known variables: means (J, P) and roots (J, P, n), leaves in their order.

    None where the graph cannot be written so for many values at once.
    """
    try:
        return _compiled(beta, known, leaves=leaves, graph=graph)
    except FAILURES:
        return None


def _compiled(beta: Any, known: Sequence[Any], *, leaves: Sequence[Any], graph: Graph) -> Given:
    values = [variable.type() for variable in known]
    normals = [pt.tensor(shape=graph.shape(leaf), dtype="float64") for leaf in leaves]
    replaced: dict[Any, Any] = dict(zip(known, values, strict=True))
    for leaf in sorted(leaves, key=lambda one: _depth(one, leaves)):
        written = _written(leaf, normals[list(leaves).index(leaf)], graph=graph)
        (replaced[leaf],) = clone_replace([written], replace=replaced, rebuild_strict=False)
    (flat,) = clone_replace([beta.reshape((-1,))], replace=replaced, rebuild_strict=False)
    if drawn_behind([flat]):
        raise NotImplementedError("a variable that is neither known nor normal")
    many = [pt.tensor(shape=(None, 1, *graph.shape(v)), dtype=v.type.dtype) for v in known]  # type: ignore[attr-defined]
    rows = [pt.tensor(shape=(1, None, *graph.shape(leaf)), dtype="float64") for leaf in leaves]
    batched: dict[Any, Any] = dict(zip(values, many, strict=True)) | dict(zip(normals, rows, strict=True))
    (result,) = vectorize_graph([flat], replace=batched)
    mode: Any = get_mode("FAST_COMPILE").excluding("local_add_canonizer", "local_mul_canonizer")
    with without_compiler():
        run = pytensor.function([*many, *rows], result, mode=mode, on_unused_input="ignore")
    sizes = [int(np.prod(graph.shape(leaf), dtype=int)) for leaf in leaves]
    units = _units([graph.shape(leaf) for leaf in leaves], sizes)
    size = int(np.prod(graph.shape(beta), dtype=int))

    def given(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        n = len(parts[0])
        step = max(1, _CHUNK_VALUES // (size * (1 + sum(sizes))))
        means, roots = np.empty((n, size)), np.empty((n, size, sum(sizes)))
        for start in range(0, n, step):
            some = slice(start, min(start + step, n))
            fed = [np.asarray(part[some], dtype=v.type.dtype)[:, None] for part, v in zip(parts, known, strict=True)]
            with without_compiler(), np.errstate(all="ignore"):
                found = np.asarray(run(*fed, *units), dtype=float)  # (J, 1 + n, P)
            means[some] = found[:, 0]
            roots[some] = (found[:, 1:] - found[:, :1]).swapaxes(1, 2)
        return means, roots

    return given


def _units(shapes: list[tuple[int, ...]], sizes: list[int]) -> list[np.ndarray]:
    """Rows of z for each leaf, (1, 1 + n, ...): nothing, then each unit vector of all leaves together."""
    rows = np.concatenate([np.zeros((1, sum(sizes))), np.eye(sum(sizes))])
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    return [part.reshape(1, len(rows), *shape) for part, shape in zip(parts, shapes, strict=True)]


def _depth(leaf: Any, leaves: Sequence[Any]) -> int:
    """How many of the leaves stand behind one of them."""
    behind = set(ancestors(leaf.owner.inputs))
    return sum(other in behind for other in leaves)


def _written(leaf: Any, normal: Any, *, graph: Graph) -> Any:
    """Location plus scale times standard normals; of a scale mixture, before its mixing scale."""
    parameters = leaf.owner.op.dist_params(leaf.owner)
    if isinstance(leaf.owner.op, MvNormalRV):
        location, covariance = parameters
        return location + (pt.linalg.cholesky(covariance) @ normal[..., None])[..., 0]
    if isinstance(leaf.owner.op, NormalRV | LaplaceRV):
        location, scale = parameters
    elif isinstance(leaf.owner.op, StudentTRV):
        _, location, scale = parameters
    else:
        raise NotImplementedError(str(leaf.owner.op))
    return pt.specify_shape(location + scale * normal, graph.shape(leaf))
