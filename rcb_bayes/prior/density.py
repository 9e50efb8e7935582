r"""The log density of a belief, vectorised over many values of ``beta`` and kept apart by block of arms.

Two roads, in this order:

- ``beta`` is an invertible affine image :math:`\beta = c + A z` of the model's free variables z (one family per arm,
  stacked; shifts, scales, a fixed correlation): :math:`\log p(\beta) = \log p(z) - \log|\det A|`;
- PyMC derives the density of ``beta`` itself (for instance of an exponential), leaving no random variable behind.

A hierarchical belief has more free variables than coefficients, so its marginal density is an integral: it has none
here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.basic import conditional_logp
from pymc.pytensorf import rvs_in_graph
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph

from rcb_bayes.prior.affine import AffineReader, Form, NotAffineError
from rcb_bayes.prior.graph import Graph, UnknownShapeError
from rcb_bayes.prior.independence import Sources, union_all

Groups = tuple[tuple[int, ...], ...]
LogDensity = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Either ``evaluate``, taking (n, K, d) to (n, n_blocks), or the ``reason`` why there is none."""

    evaluate: LogDensity | None
    reason: str


def find_density(
    beta: Variable, *, free: Sequence[Variable], graph: Graph, sources: Sources, groups: Groups
) -> Density:
    """The compiled log density of ``beta`` where one exists.

    Parameters
    ----------
    beta : (n_arms, n_features)
    free : the model's free random variables behind beta
    groups : independent groups of arms
    """
    try:
        return Density(_affine_density(beta, free=free, graph=graph, sources=sources, groups=groups), "affine image")
    except (NotAffineError, UnknownShapeError, NotImplementedError) as error:
        reason = str(error)
    try:
        return Density(_derived_density(beta, groups=groups), "derived by PyMC")
    except (NotImplementedError, ValueError, TypeError, RuntimeError):
        return Density(None, reason)


def _affine_density(
    beta: Variable, *, free: Sequence[Variable], graph: Graph, sources: Sources, groups: Groups
) -> LogDensity:
    form = AffineReader(graph, _read_free).form(beta)
    leaves = [variable for variable in free if variable in form.slopes]
    size = form.constant.size
    slope = np.concatenate([form.slopes[leaf].reshape(size, -1) for leaf in leaves], axis=1)
    hidden = [v.name for v in free if v not in form.slopes]
    if hidden or slope.shape[1] != size:
        more = ", ".join(str(name) for name in hidden) or f"{slope.shape[1]} elements"
        raise NotAffineError(f"beta has {size} coefficients but the model has more free variables ({more})")
    sign, log_det = np.linalg.slogdet(slope)
    if sign == 0:
        raise NotAffineError("beta is a singular image of the free variables")
    inverse = np.linalg.inv(slope)
    splits = np.cumsum([form.slopes[leaf].shape[-1] for leaf in leaves])[:-1]
    terms = _compile_terms(leaves)
    owners = [_owners(leaf, beta, sources=sources, groups=groups) for leaf in leaves]
    shares = _log_det_shares(slope, log_det, beta_shape=form.constant.shape, groups=groups)

    def evaluate(values: np.ndarray) -> np.ndarray:
        centred = values.reshape(len(values), size) - form.constant.reshape(-1)
        parts = np.split(centred @ inverse.T, splits, axis=1)
        shaped = [part.reshape(-1, *graph.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
        out = np.zeros((len(values), len(groups))) - shares
        for logp, owner in zip(terms(*shaped), owners, strict=True):
            flat = logp.reshape(len(values), -1)
            for block in range(len(groups)):
                out[:, block] += flat[:, owner == block].sum(axis=1)
        return out

    return evaluate


def _log_det_shares(slope: np.ndarray, log_det: float, *, beta_shape: tuple[int, ...], groups: Groups) -> np.ndarray:
    """Each block's part of log |det A|: A is block diagonal up to the order of its columns."""
    if len(groups) == 1:
        return np.array([log_det])
    d = beta_shape[1]
    shares = []
    for arms in groups:
        rows = slope[[arm * d + k for arm in arms for k in range(d)]]
        used = rows[:, (rows != 0).any(axis=0)]
        shares.append(np.linalg.slogdet(used)[1])
    return np.array(shares)


def _owners(leaf: Variable, beta: Variable, *, sources: Sources, groups: Groups) -> np.ndarray:
    """The block that each log density term (one a batch element) of a free variable belongs to."""
    masks = sources.of(leaf)
    n_support = int(leaf.owner.op.ndim_supp)  # type: ignore[union-attr]
    batch = masks.shape[: masks.ndim - n_support]
    own = [union_all(masks[index]) for index in np.ndindex(batch)]
    behind = [union_all(sources.of(beta)[list(arms)]) for arms in groups]
    return np.array([next(k for k, group in enumerate(behind) if mask & group) for mask in own])


def _compile_terms(leaves: Sequence[Variable]) -> Callable[..., list[np.ndarray]]:
    values: dict[Any, Any] = {leaf: leaf.type(f"{leaf.name}_value") for leaf in leaves}
    found = conditional_logp(values)
    terms = [found[values[leaf]] for leaf in leaves]
    batched = {v: pt.tensor(f"{v.name}_batch", shape=(None, *v.type.shape), dtype=v.type.dtype) for v in values.values()}
    outputs = vectorize_graph(terms, replace=batched)
    _refuse_random(outputs)
    return pytensor.function(list(batched.values()), list(outputs))


def _derived_density(beta: Any, *, groups: Groups) -> LogDensity:
    value = beta.type("value")
    logp = pm.logp(beta, value)
    batch = pt.tensor("batch", shape=(None, *beta.type.shape), dtype=beta.type.dtype)
    (output,) = vectorize_graph([logp], replace={value: batch})
    _refuse_random([output])
    run = pytensor.function([batch], output)

    def evaluate(values: np.ndarray) -> np.ndarray:
        terms = run(values)
        if len(groups) == 1:
            return terms.reshape(len(values), -1).sum(axis=1)[:, None]
        by_arm = terms.reshape(len(values), values.shape[1], -1).sum(axis=2)
        return np.stack([by_arm[:, list(arms)].sum(axis=1) for arms in groups], axis=1)

    if len(groups) > 1 and (output.type.ndim < 2 or logp.type.shape[0] != beta.type.shape[0]):
        raise NotImplementedError("PyMC's density of beta does not keep the arms apart")
    return evaluate


def _refuse_random(outputs: Sequence[Any]) -> None:
    if rvs_in_graph(list(outputs)):
        raise NotImplementedError("the density would still depend on other random variables")


def _read_free(reader: AffineReader, variable: Variable) -> Form:
    """A free variable is a leaf: the identity in its own elements."""
    shape = reader.graph.shape(variable)
    if np.dtype(variable.type.dtype).kind != "f":  # type: ignore[attr-defined]
        raise NotAffineError(f"{variable.name} is discrete")
    size = int(np.prod(shape, dtype=int))
    return Form(np.zeros(shape), {variable: np.eye(size).reshape(*shape, size)})
