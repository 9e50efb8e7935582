"""Many draws of a belief at once, from one compiled function.

``pm.draw`` loops in Python. Here the root variables of the model are given a leading batch axis and the rest is
vectorised over it, so that n draws are one call. The function is compiled without the heavy rewrites: the work is in
NumPy's generators, and models that take a minute to compile otherwise (LKJ) take a second.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.shape_utils import change_dist_size
from pymc.pytensorf import collect_default_updates, reseed_rngs
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from rcb_bayes.prior.graph import Graph, is_random_op, support_ndim

Drawer = Callable[[int, np.random.Generator], list[np.ndarray]]


def compile_draws(outputs: Sequence[Variable], *, random_variables: Sequence[Variable], graph: Graph) -> Drawer:
    """A function ``(n, rng) -> [array (n, ...), ...]`` of joint independent draws of the outputs.

    Parameters
    ----------
    outputs : variables of a frozen model
    random_variables : the model's own random variables, parents before children
    """
    count = pt.lscalar("count")
    batched: dict[Any, Any] = {}
    for variable in random_variables:
        _batch(variable, batched, count=count, members=set(random_variables), graph=graph)
    results = list(vectorize_graph(list(outputs), replace=batched))
    updates = collect_default_updates(results, inputs=[count])
    run = pytensor.function([count], results, updates=list(updates.items()), mode="FAST_COMPILE")

    def draw(n: int, rng: np.random.Generator) -> list[np.ndarray]:
        reseed_rngs(list(updates), int(rng.integers(2**63)))  # type: ignore[arg-type]
        return [np.array(part) for part in run(n)]

    return draw


def _batch(variable: Any, batched: dict[Any, Any], *, count: Any, members: set[Variable], graph: Graph) -> None:
    """Add the batched version of one random variable, and of the unnamed ones (mixture components) it needs."""
    if variable in batched:
        return
    behind = [v for v in ancestors([variable]) if v is not variable and _draws(v)]
    if not members & set(behind):
        batched[variable] = change_dist_size(variable, (count,), expand=True)
        return
    for parent in reversed(behind):
        _batch(parent, batched, count=count, members=members, graph=graph)
    if isinstance(variable.owner.op, RandomVariable):
        batched[variable] = _resized(variable, batched, count=count, graph=graph)
    elif isinstance(variable.owner.op, MixtureRV):
        batched[variable] = _remixed(variable, batched, graph=graph)
    else:
        (batched[variable],) = vectorize_graph([variable], replace=batched)


def _resized(variable: Any, batched: dict[Any, Any], *, count: Any, graph: Graph) -> Any:
    """A random variable with batched parameters, its size given in full so that every element is drawn anew."""
    node = variable.owner
    shape = graph.shape(variable)
    batch = shape[: len(shape) - support_ndim(node)]
    parameters = []
    for parameter, n_core in zip(node.op.dist_params(node), node.op.ndims_params, strict=True):
        missing = len(batch) + n_core - parameter.type.ndim
        parameters.append(pt.shape_padleft(parameter, missing) if missing > 0 else parameter)
    size = pt.stack([count, *batch])
    rng = pytensor.shared(np.random.default_rng(), name=f"{variable.name}_rng")
    return node.op.make_node(rng, size, *vectorize_graph(parameters, replace=batched)).outputs[1]


def _remixed(variable: Any, batched: dict[Any, Any], *, graph: Graph) -> Any:
    """PyMC's mixture over batched components, its weights padded so that they broadcast over the batch."""
    _, weights, *components = variable.owner.inputs
    n_batch = len(graph.shape(variable)) - support_ndim(variable.owner)
    padded = pt.shape_padleft(weights, max(n_batch + 1 - weights.type.ndim, 0))
    return pm.Mixture.rv_op(*vectorize_graph([padded, *components], replace=batched))


def _draws(variable: Variable) -> bool:
    return variable.owner is not None and is_random_op(variable.owner) and variable is variable.owner.outputs[-1]
