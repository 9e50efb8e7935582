"""Recognising, exactly, a belief that is Gaussian or a finite mixture of Gaussians.

A belief is Gaussian when ``beta`` is an affine function of normal variables with constant scales (their means may be
affine in other such variables: a hierarchy with known scales is jointly Gaussian). It is a finite mixture when that
holds once every label (the hidden index of a ``pm.Mixture``, or a Bernoulli, categorical or discrete uniform variable)
is given a value; the labels of one independent block of arms are then enumerated.
"""

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.discrete import DiscreteUniformRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.tensor.random.basic import BernoulliRV, CategoricalRV, MvNormalRV, NormalRV

from rcb_bayes.belief.affine import AffineReader, Form, NotAffineError
from rcb_bayes.belief.graph import Graph, UnknownShapeError, drawn_behind, mixture_is_stacked, support_ndim
from rcb_bayes.belief.independence import Sources, union_all
from rcb_bayes.belief.law import Block, GaussianLaw, is_covariance, square_root
from rcb_bayes.errors import BeliefError

MAX_COMPONENTS = 256
_LABELS = (MixtureRV, BernoulliRV, CategoricalRV, DiscreteUniformRV)


@dataclass(frozen=True, slots=True, eq=False)
class _Label:
    """One hidden index: the variable and element it belongs to, and the probability of each of its states."""

    variable: Variable
    index: tuple[int, ...]
    probabilities: np.ndarray


def recognise_law(
    beta: Variable, *, graph: Graph, sources: Sources, groups: tuple[tuple[int, ...], ...]
) -> GaussianLaw | None:
    """The closed form of a belief, or None where it is not a finite mixture of Gaussians.

    Parameters
    ----------
    beta : the frozen model's variable, (n_arms, n_features)
    groups : independent groups of arms

    Raises
    ------
    BeliefError
        When a normal's scale or a label's probabilities are impossible (negative, NaN, ...).

    Applicability: at most ``MAX_COMPONENTS`` components in a block (one label per coefficient makes 2^d of them).
    """
    try:
        labels = _find_labels(beta, graph)
        reach = _labels_by_group(beta, labels, sources=sources, groups=groups)
        if any(prod(len(labels[k].probabilities) for k in members) > MAX_COMPONENTS for members in reach):
            return None
        return _enumerate(beta, labels, reach=reach, groups=groups, graph=graph)
    except (NotAffineError, UnknownShapeError):
        return None


def _enumerate(
    beta: Variable,
    labels: list[_Label],
    *,
    reach: list[list[int]],
    groups: tuple[tuple[int, ...], ...],
    graph: Graph,
) -> GaussianLaw:
    """Walk the label states of all blocks side by side: as many readings as the largest block has components."""
    combinations = [list(product(*(range(len(labels[k].probabilities)) for k in members))) for members in reach]
    n_arms, d = graph.shape(beta)
    found: list[list[tuple[float, np.ndarray, np.ndarray]]] = [[] for _ in groups]
    for step in range(max(len(states) for states in combinations)):
        choice = np.zeros(len(labels), dtype=int)
        for members, states in zip(reach, combinations, strict=True):
            choice[members] = states[min(step, len(states) - 1)]
        mean, root = _moments_given(beta, labels, choice, graph=graph)
        for g, (arms, members, states) in enumerate(zip(groups, reach, combinations, strict=True)):
            if step >= len(states):
                continue
            weight = float(np.prod([labels[k].probabilities[choice[k]] for k in members]))
            if weight > 0.0:
                rows = root[list(arms)].reshape(-1, root.shape[-1])
                found[g].append((weight, mean[list(arms)].reshape(-1), rows @ rows.T))
    blocks = tuple(_as_block(arms, parts) for arms, parts in zip(groups, found, strict=True))
    return GaussianLaw(n_arms=n_arms, n_features=d, blocks=blocks)


def _as_block(arms: tuple[int, ...], parts: list[tuple[float, np.ndarray, np.ndarray]]) -> Block:
    weights, means, covariances = (np.array(column) for column in zip(*parts, strict=True))
    return Block(arms=arms, weights=weights / weights.sum(), means=means, covariances=covariances)


def _moments_given(
    beta: Variable, labels: list[_Label], choice: np.ndarray, *, graph: Graph
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (K, d) and covariance root (K, d, n) of beta once every label has its chosen state."""
    if labels:
        (beta,) = clone_replace([beta], replace=_substitutes(labels, choice, graph=graph))
        graph = Graph()
    form = AffineReader(graph, read_gaussian).form(beta)
    slopes = list(form.slopes.values()) or [np.zeros((*form.constant.shape, 1))]
    return form.constant, np.concatenate(slopes, axis=-1)


def _substitutes(labels: list[_Label], choice: np.ndarray, *, graph: Graph) -> dict[Variable, Variable]:
    """What each labelled variable becomes: a constant, or the chosen component element by element."""
    chosen: dict[Any, np.ndarray] = {}
    for label, state in zip(labels, choice, strict=True):
        batch = _batch_shape(label.variable, graph)
        chosen.setdefault(label.variable, np.zeros(batch, dtype=int))[label.index] = state
    out: dict[Variable, Any] = {}
    for variable, states in chosen.items():
        if isinstance(variable.owner.op, MixtureRV):
            out[variable] = pt.specify_shape(_select_component(variable, states, graph=graph), graph.shape(variable))
        else:
            lowest = _lowest_state(variable, graph)
            out[variable] = pt.constant((states + lowest).astype(variable.type.dtype))
    return out


def _select_component(variable: Any, states: np.ndarray, *, graph: Graph) -> Any:
    node = variable.owner
    n_support = support_ndim(node)
    components: list[Any] = node.inputs[2:]
    if mixture_is_stacked(node):
        axis = components[0].type.ndim - n_support - 1
        n_states = graph.shape(components[0])[axis]
        components = [pt.take(components[0], k, axis=axis) for k in range(n_states)]
    padded = states.reshape(states.shape + (1,) * n_support)
    selected = components[0]
    for k, component in enumerate(components[1:], start=1):
        selected = pt.switch(pt.constant(padded == k), component, selected)
    return selected


def _find_labels(beta: Variable, graph: Graph) -> list[_Label]:
    labels = []
    for variable in drawn_behind([beta]):
        if variable.owner is None or not isinstance(variable.owner.op, _LABELS):
            continue
        batch = _batch_shape(variable, graph)
        probabilities = _state_probabilities(variable, graph)
        table = np.broadcast_to(probabilities, (*batch, probabilities.shape[-1]))
        labels.extend(_Label(variable, index, table[index]) for index in np.ndindex(batch))
    return labels


def _batch_shape(variable: Any, graph: Graph) -> tuple[int, ...]:
    shape = graph.shape(variable)
    return shape[: len(shape) - support_ndim(variable.owner)]


def _state_probabilities(variable: Any, graph: Graph) -> np.ndarray:
    node = variable.owner
    wanted = [node.inputs[1]] if isinstance(node.op, MixtureRV) else node.op.dist_params(node)
    if any(graph.is_random(part) for part in wanted):
        raise NotAffineError("label probabilities that are random")
    first = np.asarray(graph.value(wanted[0]), dtype=float)
    if isinstance(node.op, BernoulliRV):
        return _checked_probabilities(np.stack([1.0 - first, first], axis=-1), variable)
    if isinstance(node.op, DiscreteUniformRV):
        low, high = np.ravel(first), np.ravel(graph.value(wanted[1]))
        if len(set(low.tolist())) != 1 or len(set(high.tolist())) != 1:
            raise NotAffineError("discrete uniform labels of different ranges")
        n_states = int(high[0] - low[0]) + 1
        return np.full(n_states, 1.0 / n_states)
    return _checked_probabilities(first, variable)


def _checked_probabilities(probabilities: np.ndarray, variable: Variable) -> np.ndarray:
    total = probabilities.sum(axis=-1)
    if not ((probabilities >= 0).all() and np.allclose(total, 1.0)):
        raise BeliefError(
            f"The probabilities of '{name_of(variable)}' must be at least 0 and sum to 1, "
            f"got {np.array2string(probabilities, precision=4, threshold=8)}."
        )
    return probabilities


def _lowest_state(variable: Any, graph: Graph) -> int:
    node = variable.owner
    if isinstance(node.op, DiscreteUniformRV):
        return int(np.ravel(graph.value(node.op.dist_params(node)[0]))[0])
    return 0


def _labels_by_group(
    beta: Variable, labels: list[_Label], *, sources: Sources, groups: tuple[tuple[int, ...], ...]
) -> list[list[int]]:
    """For each independent group of arms, the labels that reach it."""
    own = [union_all(sources.of(label.variable)[label.index]) for label in labels]
    behind = [union_all(sources.of(beta)[list(arms)]) for arms in groups]
    return [[k for k, mask in enumerate(own) if mask & group] for group in behind]


def read_gaussian(reader: AffineReader, variable: Any) -> Form:
    """A normal variable as its mean's form plus its scale times fresh standard normals (the leaf)."""
    node = variable.owner
    shape = reader.graph.shape(variable)
    if isinstance(node.op, DiracDeltaRV):
        return reader.form(node.inputs[1]).broadcast(shape)
    if not isinstance(node.op, NormalRV | MvNormalRV):
        raise NotAffineError(f"{variable} is not normal")
    location, spread = node.op.dist_params(node)
    if reader.graph.is_random(spread):
        raise NotAffineError(f"the scale of {variable} is random")
    scale = np.asarray(reader.graph.value(spread), dtype=float)
    check_spread(scale, variable)
    size = int(np.prod(shape, dtype=int))
    if isinstance(node.op, NormalRV):
        slope = np.diag(np.broadcast_to(scale, shape).reshape(-1))
    else:
        d = shape[-1]
        covariances = np.broadcast_to(scale, (*shape[:-1], d, d)).reshape(-1, d, d)
        slope = np.zeros((size, size))
        for k, cov in enumerate(covariances):
            slope[k * d : (k + 1) * d, k * d : (k + 1) * d] = square_root(cov)
    return reader.form(location).broadcast(shape) + Form(np.zeros(shape), {variable: slope.reshape(*shape, size)})


def check_spread(spread: np.ndarray, variable: Any) -> None:
    """Check a normal variable's standard deviation, or a multivariate one's covariance.

    Raises
    ------
    BeliefError
        When it is NaN, infinite or negative, or no covariance.
    """
    if isinstance(variable.owner.op, MvNormalRV):
        if not (np.isfinite(spread).all() and is_covariance(spread)):
            raise BeliefError(
                f"The covariance of '{name_of(variable)}' must be finite, symmetric and positive semi-definite."
            )
        return
    bad = spread[~(np.isfinite(spread) & (spread >= 0))]
    if bad.size:
        raise BeliefError(
            f"The standard deviation of '{name_of(variable)}' must be finite and not negative, got {bad[0]:g}."
        )


def name_of(variable: Variable) -> str:
    """What to call a variable in a message."""
    return variable.name or "a component"
