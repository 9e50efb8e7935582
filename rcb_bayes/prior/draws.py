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
from pymc.pytensorf import collect_default_updates, reseed_rngs
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.random.op import RandomVariable

from rcb_bayes.prior.graph import (
    Graph,
    UnknownShapeError,
    drawn_behind,
    is_drawn,
    is_one_piece,
    parameters,
    support_ndim,
)

Drawer = Callable[[int, np.random.Generator], list[np.ndarray]]

# Variables made of other, unnamed ones: resizing the whole resizes its parts.
_COMPOSITES = (_BaseMixtureRV, CensoredRV, RandomWalkRV, AutoRegressiveRV, _LKJCholeskyCovRV)
# Those that can be made anew of batched parts.
_RECOMPOSED = (_BaseMixtureRV, CensoredRV, _LKJCholeskyCovRV)


class _NotBatchedError(Exception):
    """A variable that cannot be given a batch axis for certain."""


_FAILURES = (_NotBatchedError, UnknownShapeError, NotImplementedError, TypeError, ValueError)


def compile_draws(outputs: Sequence[Variable], *, graph: Graph) -> Drawer:
    """A function ``(n, rng) -> [array (n, ...), ...]`` of joint independent draws of a frozen model's variables."""
    try:
        return _compile_batch(outputs, graph=graph)
    except _FAILURES:
        return _compile_loop(outputs)


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
    run: Any = pytensor.function([count], results, updates=list(updates.items()), mode="FAST_COMPILE")

    def draw(n: int, rng: np.random.Generator) -> list[np.ndarray]:
        _reseed(updates, rng)
        return [np.array(part) for part in run(n)]

    return draw


def _compile_loop(outputs: Sequence[Variable]) -> Drawer:
    updates = collect_default_updates(list(outputs))
    run: Any = pytensor.function([], list(outputs), updates=list(updates.items()), mode="FAST_COMPILE")

    def draw(n: int, rng: np.random.Generator) -> list[np.ndarray]:
        _reseed(updates, rng)
        return [np.array(part) for part in zip(*(run() for _ in range(n)), strict=True)]

    return draw


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
    arguments = vectorize_graph(_aligned(node, n_batch=len(batch), graph=graph), replace=batched)
    if isinstance(node.op, _RECOMPOSED):
        batched[variable] = node.op.rv_op(*arguments)
        return
    # The size is given in full, so that every element is drawn anew, also where the parameters are shared.
    size = pt.stack([count, *batch])
    if isinstance(node.op, RandomVariable):
        rng = pytensor.shared(np.random.default_rng(), name=f"{variable.name}_rng")
        batched[variable] = node.op.make_node(rng, size, *arguments).outputs[1]
    elif node.op.signature is not None and node.op.size_param(node) is not None:
        batched[variable] = node.op.rebuild_rv(*arguments, size=size)
    else:
        raise _NotBatchedError


def _is_root(variable: Any) -> bool:
    """Whether a variable depends on no other random variable than the parts that it is made of."""
    composite = isinstance(variable.owner.op, _COMPOSITES)
    random = [part for part in variable.owner.inputs if drawn_behind([part])]
    return not random or (
        composite and all(is_drawn(part) and not is_one_piece(part.owner) and _is_root(part) for part in random)
    )


def _aligned(node: Any, *, n_batch: int, graph: Graph) -> list[Any]:
    """A random node's parameters, the random ones with as many batch dimensions as the node's output."""
    out = []
    for parameter, n_core in parameters(node):
        missing = n_batch + n_core - parameter.type.ndim if graph.is_random(parameter) else 0
        out.append(pt.shape_padleft(parameter, missing) if missing > 0 else parameter)
    return out
