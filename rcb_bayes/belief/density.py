r"""The log density of a belief, vectorised over many values of ``beta`` and kept apart by block of arms.

Two roads, in this order:

- ``beta`` is an invertible affine image :math:`\beta = c + A z` of the model's free variables z (one family per arm,
  stacked; shifts, scales, a fixed correlation): :math:`\log p(\beta) = \log p(z) - \log|\det A|`;
- PyMC derives the density of ``beta`` itself (for instance of an exponential), leaving no random variable behind.

A hierarchical belief has more free variables than coefficients, so its marginal density is an integral: it has none
here. Nor has a belief with atoms (a spike at zero, a censored or clipped variable): what PyMC returns for those mixes
probabilities with densities.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.logprob.basic import conditional_logp
from pymc.pytensorf import rvs_in_graph
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise

from rcb_bayes.belief.affine import AffineReader, Form, NotAffineError
from rcb_bayes.belief.graph import Graph, UnknownShapeError, drawn_behind
from rcb_bayes.belief.independence import Sources, union_all

Groups = tuple[tuple[int, ...], ...]
LogDensity = Callable[[np.ndarray], np.ndarray]

# Operations that make atoms of a continuous variable, or cut it in pieces.
_CUTS = (
    scalar.Clip,
    scalar.Switch,
    scalar.Maximum,
    scalar.Minimum,
    scalar.LogicalComparison,
    scalar.Ceil,
    scalar.Floor,
    scalar.Trunc,
    scalar.RoundHalfToEven,
    scalar.RoundHalfAwayFromZero,
    scalar.Sign,
)


class _NoDensityError(Exception):
    """Why a belief has no density."""


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
        _refuse_atoms(beta)
        return Density(_affine_density(beta, free=free, graph=graph, sources=sources, groups=groups), "affine image")
    except _NoDensityError as error:
        return Density(None, str(error))
    except (NotAffineError, UnknownShapeError, NotImplementedError) as error:
        reason = f"beta is no affine image of the model's free variables ({error})"
    try:
        return Density(_derived_density(beta, graph=graph, sources=sources, groups=groups), "derived by PyMC")
    except (_NoDensityError, UnknownShapeError, NotImplementedError, ValueError, TypeError, RuntimeError):
        return Density(None, reason)


def _refuse_atoms(beta: Variable) -> None:
    for variable in drawn_behind([beta]):
        op: Any = variable.owner.op if variable.owner is not None else None
        name = variable.name or "a component"
        if isinstance(op, DiracDeltaRV | CensoredRV):
            raise _NoDensityError(f"{name} takes single values with positive probability")
        if np.dtype(variable.type.dtype).kind != "f":  # type: ignore[attr-defined]
            raise _NoDensityError(f"{name} is discrete")


def _affine_density(
    beta: Variable, *, free: Sequence[Variable], graph: Graph, sources: Sources, groups: Groups
) -> LogDensity:
    form = AffineReader(graph, _read_free).form(beta)
    leaves = [variable for variable in free if variable in form.slopes]
    if len(leaves) < len(form.slopes):
        raise NotAffineError("one random variable has no name")
    slope = _slope_matrix(form, leaves, hidden=[str(v.name) for v in free if v not in form.slopes])
    size = len(slope)
    log_det = float(np.linalg.slogdet(slope)[1])
    solve = _inverse_map(form.constant.reshape(-1), slope)
    splits = np.cumsum([form.slopes[leaf].shape[-1] for leaf in leaves])[:-1]
    owners = [_owners(leaf, beta, sources=sources, groups=groups) for leaf in leaves]
    by_row = [_is_by_row(owner) for owner in owners]
    terms = _compile_terms(leaves, summed=by_row)
    owners = [owner[:, 0] if summed else owner.reshape(-1) for owner, summed in zip(owners, by_row, strict=True)]
    shapes = [(-1, *graph.shape(leaf)) for leaf in leaves]
    adders = [_adder(owner, n_blocks=len(groups)) for owner in owners]
    shares = _log_det_shares(slope, log_det, beta_shape=form.constant.shape, groups=groups)

    def evaluate(values: np.ndarray) -> np.ndarray:
        flat = solve(values.reshape(len(values), size))
        parts = np.split(flat, splits, axis=1) if len(splits) else [flat]
        shaped = [
            part.reshape(shape).astype(leaf.type.dtype, copy=False)  # type: ignore[attr-defined]
            for part, shape, leaf in zip(parts, shapes, leaves, strict=True)
        ]
        out = np.zeros((len(values), len(groups))) - shares
        for logp, owner, add in zip(terms(*shaped), owners, adders, strict=True):
            add(out, logp.reshape(len(values), len(owner)))
        return out

    return evaluate


def _adder(owner: np.ndarray, *, n_blocks: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """What adds each block's terms (n, T) to its column (n, n_blocks), told once which block each term belongs to.

    Runs of one block are summed without copying them.
    """
    if np.array_equal(owner, np.arange(n_blocks)):
        return _add_all
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    lengths = np.diff(starts, append=len(owner))
    columns, length = owner[starts].tolist(), int(lengths[0])
    is_even, ones = bool((lengths == length).all()), np.ones(length)

    def add(out: np.ndarray, terms: np.ndarray) -> None:
        if is_even:  # a product with ones, which is quicker
            sums = terms.reshape(-1, length) @ ones
            sums = sums.reshape(len(terms), len(columns))
        else:
            sums = np.add.reduceat(terms, starts, axis=1)
        for place, column in enumerate(columns):
            out[:, column] += sums[:, place]

    return add


def _add_all(out: np.ndarray, terms: np.ndarray) -> None:
    out += terms


def _is_by_row(owner: np.ndarray) -> bool:
    """Whether terms (n, m) differ in their block along the first axis alone: then compiled code can sum the others."""
    return bool((owner == owner[:, :1]).all()) and owner.shape[1] > 1


def _inverse_map(constant: np.ndarray, slope: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """beta (n, P) -> z = A^-1 (beta - c); nothing is computed where beta is the free variable itself."""
    if not constant.any() and np.array_equal(slope, np.eye(len(slope))):
        return lambda beta: beta
    inverse = np.linalg.inv(slope)
    return lambda beta: (beta - constant) @ inverse.T


def _slope_matrix(form: Form, leaves: Sequence[Variable], *, hidden: Sequence[str]) -> np.ndarray:
    """The matrix A of beta = c + A z, after checking that it can be inverted."""
    size = form.constant.size
    n_free = sum(form.slopes[leaf].shape[-1] for leaf in leaves)
    if hidden or n_free > size:
        more = ", ".join(hidden) or f"{n_free} elements"
        raise _NoDensityError(f"beta has {size} coefficients but the model has more free variables ({more})")
    if n_free == size:
        slope = np.concatenate([form.slopes[leaf].reshape(size, -1) for leaf in leaves], axis=1)
        if np.linalg.matrix_rank(slope) == size:
            return slope
    raise _NoDensityError("beta is a singular image of the free variables")


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
    """The block of each log density term (one a batch element) of a free variable, (n, m): by row of the batch."""
    masks = sources.of(leaf)
    n_support = int(leaf.owner.op.ndim_supp)  # type: ignore[union-attr]
    batch = masks.shape[: masks.ndim - n_support]
    own = [union_all(masks[index]) for index in np.ndindex(batch)]
    behind = [union_all(sources.of(beta)[list(arms)]) for arms in groups]
    found = np.array([next(k for k, group in enumerate(behind) if mask & group) for mask in own])
    return found.reshape(batch[0] if batch else 1, -1)


def _compile_terms(leaves: Sequence[Variable], *, summed: Sequence[bool]) -> Callable[..., list[np.ndarray]]:
    """Log density terms of values with a leading axis; some are ``summed`` over all but their first own axis."""
    values: dict[Any, Any] = {leaf: leaf.type(f"{leaf.name}_value") for leaf in leaves}
    found = conditional_logp(values)
    terms = [found[values[leaf]] for leaf in leaves]
    batched: dict[Any, Any] = {
        v: pt.tensor(f"{v.name}_batch", shape=(None, *v.type.shape), dtype=v.type.dtype) for v in values.values()
    }
    outputs: Any = vectorize_graph(terms, replace=batched)
    _refuse_random(outputs)
    outputs = [
        output.sum(axis=tuple(range(2, output.type.ndim))) if is_summed else output
        for output, is_summed in zip(outputs, summed, strict=True)
    ]
    run: Any = pytensor.function(list(batched.values()), outputs)
    return run


def _derived_density(beta: Any, *, graph: Graph, sources: Sources, groups: Groups) -> LogDensity:
    _refuse_cuts(beta, graph)
    value = beta.type("value")
    logp = pm.logp(beta, value, warn_rvs=False)
    _refuse_shared(sources.of(beta), n_terms=logp.type.ndim)
    batch = pt.tensor("batch", shape=(None, *beta.type.shape), dtype=beta.type.dtype)
    (output,) = vectorize_graph([logp], replace={value: batch})
    _refuse_random([output])
    run: Any = pytensor.function([batch], output)

    def evaluate(values: np.ndarray) -> np.ndarray:
        terms = run(values.astype(beta.type.dtype))
        if len(groups) == 1:
            return terms.reshape(len(values), -1).sum(axis=1)[:, None]
        by_arm = terms.reshape(len(values), values.shape[1], -1).sum(axis=2)
        return np.stack([by_arm[:, list(arms)].sum(axis=1) for arms in groups], axis=1)

    if len(groups) > 1 and (output.type.ndim < 2 or logp.type.shape[0] != beta.type.shape[0]):
        raise NotImplementedError("PyMC's density of beta does not keep the arms apart")
    return evaluate


def _refuse_cuts(beta: Variable, graph: Graph) -> None:
    for variable in ancestors([beta]):
        op: Any = variable.owner.op if variable.owner is not None else None
        if isinstance(op, Elemwise) and isinstance(op.scalar_op, _CUTS) and graph.is_random(variable):
            raise _NoDensityError(f"{op} of a random variable")


def _refuse_shared(masks: np.ndarray, *, n_terms: int) -> None:
    """PyMC adds the terms of a density up as if they were independent: elements of different terms must be."""
    terms = [union_all(masks[index]) for index in np.ndindex(masks.shape[:n_terms])]
    seen = 0
    for mask in terms:
        if mask & seen or not mask:
            raise _NoDensityError("coefficients that share randomness")
        seen |= mask


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
