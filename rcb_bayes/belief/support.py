"""Impossible parameters, told when a belief is read and before anything is drawn.

PyMC writes what a distribution asks of its parameters (``sigma > 0``) into its log density, and asks when that runs.
Here the same conditions are looked at on the graph: those on constants are computed, and those on a random parameter
are known to fail where its support reaches too low (a normal variable as a scale). What the graph does not tell is left
to the draws.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pymc.distributions.censored import CensoredRV
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.transforms import Interval, _default_transform
from pymc.distributions.truncated import TruncatedRV
from pymc.logprob.abstract import _logprob_helper
from pymc.logprob.utils import CheckParameterValue
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import MakeVector, ScalarFromTensor
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All
from pytensor.tensor.random.basic import MvNormalRV, NormalRV

from rcb_bayes.belief.affine import AffineReader, NotAffineError
from rcb_bayes.belief.gaussian import check_spread, name_of, read_gaussian
from rcb_bayes.belief.graph import Graph, UnknownShapeError, drawn_behind, is_drawn, is_one_piece, parameters
from rcb_bayes.errors import BeliefError

# Families on the whole real line, by the name of their operation.
_REAL_LINE = {
    "AsymmetricLaplaceRV",
    "CauchyRV",
    "ExGaussianRV",
    "GumbelRV",
    "LaplaceRV",
    "LogisticRV",
    "MoyalRV",
    "NormalRV",
    "SkewNormalRV",
    "SkewStudentTRV",
    "StudentTRV",
}
# Where PyMC's conditions name other parameters than those that its users pass.
_ASKED = {
    "ExponentialRV": "lam > 0",
    "MvStudentTRV": "nu > 0 and a positive definite scale",
    "StudentTRV": "nu > 0, sigma > 0",
}
_MAY_BE_INFINITE = (TruncatedNormalRV, TruncatedRV, CensoredRV)  # a bound that is none


def refuse_impossible(outputs: Sequence[Variable], *, graph: Graph) -> None:
    """Check the parameters of all distributions behind some variables of a frozen model.

    Raises
    ------
    BeliefError
        When a parameter is NaN, infinite or not what its distribution asks for.
    """
    for variable in drawn_behind(outputs):
        node: Any = variable.owner
        if is_one_piece(node):  # a user's own code
            continue
        _check_finite(variable, graph)
        if isinstance(node.op, NormalRV | MvNormalRV):  # PyMC asks for sigma > 0; zero is a known coefficient here
            _check_normal(variable, graph)
        else:
            _check_conditions(variable, graph)


def reach(variable: Variable, graph: Graph) -> float:
    """The lowest point that a variable is known to come near to; infinity where the graph does not tell."""
    node: Any = variable.owner
    if not graph.is_random(variable):
        return float(np.min(graph.value(variable)))
    if isinstance(node.op, DimShuffle | ViewOp):
        return reach(node.inputs[0], graph)
    if _is_gaussian(variable, graph):
        return -np.inf
    if not is_drawn(variable) or is_one_piece(node):
        return np.inf
    if isinstance(node.op, MixtureRV):
        return min(reach(component, graph) for component in node.inputs[2:])
    if type(node.op).__name__ in _REAL_LINE:
        return -np.inf
    transform = _default_transform(node.op, variable)
    if isinstance(transform, Interval):
        lower: Any = transform.args_fn(*node.inputs)[0]
        return -np.inf if lower is None else np.inf if graph.is_random(lower) else float(np.min(graph.value(lower)))
    return np.inf


def _check_finite(variable: Variable, graph: Graph) -> None:
    node: Any = variable.owner
    for parameter, _ in parameters(node):
        if graph.is_random(parameter):
            continue
        value = np.asarray(graph.value(parameter), dtype=float)
        bad = value[np.isnan(value) if isinstance(node.op, _MAY_BE_INFINITE) else ~np.isfinite(value)]
        if bad.size:
            raise BeliefError(f"The parameters of '{name_of(variable)}' must be finite, got {bad[0]:g}.")


def _check_normal(variable: Any, graph: Graph) -> None:
    spread = variable.owner.op.dist_params(variable.owner)[1]
    if not graph.is_random(spread):
        check_spread(np.asarray(graph.value(spread), dtype=float), variable)
    elif isinstance(variable.owner.op, NormalRV) and reach(spread, graph) < 0:
        raise _reaching_too_low(variable, spread, "sigma > 0")


def _check_conditions(variable: Any, graph: Graph) -> None:
    value = variable.type()
    try:
        with warnings.catch_warnings():  # of parameters that are random themselves: only conditions are looked at
            warnings.filterwarnings("ignore", "RandomVariables .* were found in the derived graph", UserWarning)
            density = _logprob_helper(variable, value)
    except NotImplementedError:
        return
    for node in toposort([density], blockers=variable.owner.inputs):
        if isinstance(node.op, CheckParameterValue):
            asked = _ASKED.get(type(variable.owner.op).__name__, node.op.msg)
            for condition in _single_conditions(node.inputs[1:]):
                if value not in ancestors([condition]):
                    _check_condition(condition, variable, asked=asked, graph=graph)


def _single_conditions(parts: Sequence[Variable]) -> Iterator[Variable]:
    """The conditions that all(...) joins."""
    for part in parts:
        if part.owner is not None and isinstance(part.owner.op, All | MakeVector | ScalarFromTensor):
            yield from _single_conditions(part.owner.inputs)
        else:
            yield part


def _check_condition(condition: Any, variable: Variable, *, asked: str, graph: Graph) -> None:
    node = condition.owner
    compared = _is_comparison(condition)
    if not graph.is_random(condition):
        if not np.all(graph.value(condition)):
            lowest = np.min(graph.value(node.inputs[0])) if compared else np.nan
            got = f", got {lowest:g}" if np.isfinite(lowest) else ""
            raise BeliefError(f"The parameters of '{name_of(variable)}' are impossible: it needs {asked}{got}.")
    elif compared and not graph.is_random(node.inputs[1]):
        parameter, bound = node.inputs
        if reach(parameter, graph) < np.max(graph.value(bound)):
            raise _reaching_too_low(variable, parameter, asked)


def _is_comparison(condition: Variable) -> bool:
    op: Any = condition.owner.op if condition.owner is not None else None
    return isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.GT | scalar.GE)


def _reaching_too_low(variable: Variable, parameter: Variable, asked: str) -> BeliefError:
    named = next((f"'{part.name}'" for part in drawn_behind([parameter]) if part.name), "a random parameter")
    return BeliefError(
        f"The parameters of '{name_of(variable)}' are impossible: it needs {asked}, and {named} may fall below that. "
        "Give it a positive distribution, such as pm.HalfNormal."
    )


def _is_gaussian(variable: Variable, graph: Graph) -> bool:
    """Whether a variable is an affine function of normals, and not a constant one."""
    try:
        form = AffineReader(graph, read_gaussian).form(variable)
    except (NotAffineError, UnknownShapeError):
        return False
    return any(slope.any() for slope in form.slopes.values())
