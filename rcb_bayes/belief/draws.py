"""Many draws of a belief at once, from one compiled function.

``pm.draw`` loops in Python. Here every random variable of the model is given a leading batch axis and the rest is
vectorised over it, so that n draws are one call. The function is compiled without the heavy rewrites: the work is in
NumPy's generators, and models that take a minute to compile otherwise (LKJ) take a second. A model with a variable
that cannot be batched for certain is drawn one by one, which is slow but right.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.mixture import _BaseMixtureRV
from pymc.distributions.multivariate import _LKJCholeskyCovRV
from pymc.distributions.shape_utils import change_dist_size
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pymc.distributions.truncated import TruncatedRV
from pymc.pytensorf import collect_default_updates, reseed_rngs
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.random.op import RandomVariable

from rcb_bayes.belief.graph import (
    Graph,
    UnknownShapeError,
    drawn_behind,
    is_drawn,
    is_one_piece,
    parameters,
    support_ndim,
    without_compiler,
)

Drawer = Callable[[int, np.random.Generator], list[np.ndarray]]

# Variables made of other, unnamed ones, and where these stand among the inputs: resizing the whole resizes its parts.
_PARTS = {
    _BaseMixtureRV: slice(2, None),
    CensoredRV: slice(0, 1),
    RandomWalkRV: slice(0, 2),
    AutoRegressiveRV: slice(2, 3),
    _LKJCholeskyCovRV: slice(3, 4),
}
# Those that can be made anew of batched parts.
_RECOMPOSED = (_BaseMixtureRV, CensoredRV, _LKJCholeskyCovRV)


class _NotBatchedError(Exception):
    """A variable that cannot be given a batch axis for certain."""


_FAILURES = (_NotBatchedError, UnknownShapeError, NotImplementedError, TypeError, ValueError)


def compile_draws(outputs: Sequence[Variable], *, graph: Graph) -> Drawer:
    """A function ``(n, rng) -> [array (n, ...), ...]`` of joint independent draws of a frozen model's variables."""
    with without_compiler():
        try:
            draw = _compile_batch(outputs, graph=graph)
        except _FAILURES:
            draw = _compile_loop(outputs)

    def run(n: int, rng: np.random.Generator) -> list[np.ndarray]:
        with without_compiler():
            return draw(n, rng)

    return run


def _compile_batch(outputs: Sequence[Variable], *, graph: Graph) -> Drawer:
    count = pt.lscalar("count")
    drawn = drawn_behind(outputs)
    batched: dict[Any, Any] = {}
    for variable in drawn:
        _batch(variable, batched, count=count, graph=graph)
    results = [
        result if graph.is_random(output) else pt.broadcast_to(result, (count, *graph.shape(output)))
        for output, result in zip(outputs, vectorize_graph(list(outputs), replace=batched), strict=True)
    ]
    if set(drawn) & set(drawn_behind(results)):  # drawn once, and shared by all n draws
        raise _NotBatchedError
    updates = collect_default_updates(results, inputs=[count])
    run: Any = pytensor.function([count], results, updates=list(updates.items()), mode=light_mode())

    def draw(n: int, rng: np.random.Generator) -> list[np.ndarray]:
        _reseed(updates, rng)
        return [np.array(part) for part in run(n)]

    return draw


def _compile_loop(outputs: Sequence[Variable]) -> Drawer:
    updates = collect_default_updates(list(outputs))
    run: Any = pytensor.function([], list(outputs), updates=list(updates.items()), mode=light_mode())

    def draw(n: int, rng: np.random.Generator) -> list[np.ndarray]:
        _reseed(updates, rng)
        return [np.array(part) for part in zip(*(run() for _ in range(n)), strict=True)]

    return draw


def light_mode() -> Any:
    """Few rewrites, and none that merges more terms into one sum or product than Python's ufuncs take (32)."""
    return get_mode("FAST_COMPILE").excluding("local_add_canonizer", "local_mul_canonizer")


def _reseed(updates: dict[Any, Any], rng: np.random.Generator) -> None:
    reseed_rngs(list(updates), int(rng.integers(2**63)))  # type: ignore[arg-type]


def _batch(variable: Any, batched: dict[Any, Any], *, count: Any, graph: Graph) -> None:
    """Add the batched version of one random variable, after those of the random variables behind it."""
    if variable in batched:
        return
    node = variable.owner
    if is_one_piece(node):
        raise _NotBatchedError
    if _is_root(variable):
        batched[variable] = change_dist_size(variable, (count,), expand=True)
        return
    for parent in drawn_behind(node.inputs):
        _batch(parent, batched, count=count, graph=graph)
    batch = graph.shape(variable)[: variable.type.ndim - support_ndim(node)]
    # The size is given in full, so that every element is drawn anew, also where the parameters are shared.
    size = pt.stack([count, *batch])
    batched[variable] = _rebuilt(node, _aligned(node, batched, n_batch=len(batch), graph=graph), size=size)


def _rebuilt(node: Any, arguments: list[Any], *, size: Any) -> Any:
    """A random node's output anew, from batched parameters."""
    op = node.op
    if isinstance(op, RandomVariable):
        return _drawn_by(op, arguments, size=size)
    if isinstance(op, _RECOMPOSED):
        return op.rv_op(*arguments)
    if isinstance(op, TruncatedRV) and isinstance(op.base_rv_op, RandomVariable):
        *base, lower, upper = arguments
        return op.rv_op(_drawn_by(op.base_rv_op, base, size=size), lower, upper, op.max_n_steps)
    if op.signature is not None and op.size_param(node) is not None:
        return op.rebuild_rv(*arguments, size=size)
    raise _NotBatchedError


def _drawn_by(op: Any, arguments: list[Any], *, size: Any) -> Any:
    return op.make_node(pytensor.shared(np.random.default_rng()), size, *arguments).outputs[1]


def _is_root(variable: Any) -> bool:
    """Whether a variable depends on no other random variable than the parts that it is made of."""
    inputs = variable.owner.inputs
    where = next((where for kind, where in _PARTS.items() if isinstance(variable.owner.op, kind)), slice(0))
    parts = [part for part in inputs[where] if is_drawn(part) and not is_one_piece(part.owner) and _is_root(part)]
    return not drawn_behind([part for part in inputs if part not in parts])


def _aligned(node: Any, batched: dict[Any, Any], *, n_batch: int, graph: Graph) -> list[Any]:
    """A random node's batched parameters, the random ones with as many batch dimensions as the node's output."""
    parts = parameters(node)
    if isinstance(node.op, TruncatedRV):  # its inputs are the generator, the size, the base's parameters, the bounds
        parts = [(part, 0) for part in node.inputs[2:]]
    aligned: list[Any] = []
    for parameter, n_core in parts:
        missing = n_batch + n_core - parameter.type.ndim if graph.is_random(parameter) else 0  # type: ignore[attr-defined]
        aligned.append(pt.shape_padleft(parameter, missing) if missing > 0 else parameter)
    return vectorize_graph(aligned, replace=batched)
