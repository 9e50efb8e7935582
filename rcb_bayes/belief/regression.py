r"""Regressions as beliefs: a model's mean ``mu`` (user, arm) of its inputs ``x``, read as coefficients of a basis.

Nodes of the graph that depend on x alone, with a user in each row, are the basis :math:`\phi(x)`. Where ``mu`` is
affine in them given the latents,

.. math:: \mu(x)_a = c_a(z) + \sum_b \phi_b(x)\, \beta_{ab}(z),

and the coefficients are read off by asking the same graph about users who do not exist: the zero row, and one with a
single feature equal to 1 for each of them. The answer is a graph of the latents z alone, so that a regression becomes a
belief over ``beta`` (arm, basis) like any other, and its features a map of x. A table that is indexed by x, a switch on
x, and products or sums of such terms are first written out with x alone on one side. A mean that is not affine is told
by its values at some of the users instead: see ``anchors``.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from rcb_bayes.belief.anchors import (
    SHARP_TOLERANCE,
    TOLERANCE,
    Expansion,
    MeanFunction,
    NoAnchorsError,
    expand,
    labels,
)
from rcb_bayes.belief.basis import (
    FAILURES,
    Basis,
    CrowdError,
    GraphOfX,
    NonlinearError,
    OfWholeNumbers,
    basis_nodes,
    compiled,
    one_line,
    read_coefficients,
)
from rcb_bayes.belief.graph import drawn_behind, without_compiler
from rcb_bayes.belief.rewriting import substitute, written_out
from rcb_bayes.belief.separation import Dependence, Separation
from rcb_bayes.belief.tails import refuse_improper
from rcb_bayes.errors import BeliefError, BeliefWarning
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.schema import ARM, FEATURE, FloatArray, as_labels, suggestion


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regression:
    """A regression as coefficients: a ``model`` with the graph ``beta`` (arm, basis) of its own latents.

    Attributes
    ----------
    beta : a variable of the model's graph, not yet registered with it
    arms : labels
    basis : the map from x to the basis
    expansion : of a nonlinear mean, told by its values at some users; None where the mean is affine
    """

    model: pm.Model
    beta: Any
    arms: tuple[str, ...]
    basis: FeatureMap
    expansion: Expansion | None = None


def read_regression(model: Any, *, mean: str, inputs: str, arm: str, feature: str) -> Regression:
    """Read the mean of a model as coefficients of a basis of its inputs.

    Raises
    ------
    BeliefError
        No such variables, or other dims; a mean that is random given the latents, that depends on other users, or that
        is neither affine in functions of x alone nor told by its values at a few users.
    """
    asked = _checked(model, mean=mean, inputs=inputs, arm=arm, feature=feature)
    frozen, written, x, rounded = _opened(model, asked)
    _refuse_random_mean(written, x, asked)
    if not drawn_behind([written]):
        raise BeliefError(
            f"The mean '{mean}' is the same in every draw: give it latents with priors, such as coefficients of "
            f"'{inputs}' (pm.Normal)."
        )
    if not model.observed_RVs:
        refuse_improper(written, name=f"the latents of '{mean}'", example="Normal")
    _refuse_failing(written, x, asked)
    mu = Separation(x).of(written)
    nodes = basis_nodes(mu, x)
    if not nodes:
        raise BeliefError(f"The mean '{mean}' does not depend on '{inputs}': every user would get the same.")
    try:
        basis = Basis(x, nodes, rows=asked.rows)
        beta = read_coefficients(mu, x, basis, rows=asked.rows, written=written)
    except NonlinearError:
        return _at_anchors(frozen, written, x, asked, rounded)
    except CrowdError:
        raise BeliefError(_crowded(asked)) from None
    return Regression(
        model=frozen,
        beta=beta,
        arms=asked.arms,
        basis=FeatureMap(
            inputs=asked.features,
            features=basis.labels(asked.features, asked.rows),
            evaluate=_of_whole_numbers(basis, x, rounded, asked),
            named=asked.named,
            source=f"the basis of '{mean}'",
        ),
    )


# --- what was asked for -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """The variables, checked: names, dims and labels, and the rows that the model came with."""

    mean: str
    inputs: str
    user: str
    user_first: bool
    arms: tuple[str, ...]
    features: tuple[str, ...]
    named: bool
    rows: FloatArray


def _names(dims: Any) -> list[str]:
    return [str(name) for name in dims or ()]


def _checked(model: Any, *, mean: str, inputs: str, arm: str, feature: str) -> _Asked:
    if not isinstance(model, pm.Model):
        raise BeliefError(f"Expected a pm.Model, got {type(model).__name__}.")
    for name, what in ((inputs, f'inputs="{inputs}"'), (mean, f'mean="{mean}"')):
        if name not in model.named_vars:
            known = ", ".join(model.named_vars) or "none"
            raise BeliefError(
                f"The model has no variable '{name}' ({what}; variables: {known})."
                f"{suggestion(name, list(model.named_vars))}"
            )
    if model[inputs] not in model.data_vars:
        raise BeliefError(
            f"The inputs '{inputs}' must be data, to be fed with other users: "
            f"pm.Data('{inputs}', values, dims=('user', '{feature}'))."
        )
    named: Any = model.named_vars_to_dims
    dims_x, dims_mu = (_names(named.get(one)) for one in (inputs, mean))
    n_dims = model[inputs].type.ndim
    if n_dims not in (1, 2) or len(dims_x) != n_dims or (n_dims == 2 and dims_x[1] != feature):
        raise BeliefError(
            f"The inputs '{inputs}' must have dims ('user', '{feature}'), got {tuple(dims_x) or 'none'}. "
            "Name the dimension of the features with feature=, and put users first."
        )
    user = dims_x[0]
    if model[mean].type.ndim != 2 or set(dims_mu) != {user, arm}:
        raise BeliefError(
            f"The mean '{mean}' must have dims ('{user}', '{arm}'), got {tuple(dims_mu) or 'none'}. "
            "Name the dimension of the arms with arm=."
        )
    lengths: dict[str, Any] = model.dim_lengths
    n_arms = int(lengths[arm].eval())
    if n_arms < 2:
        raise BeliefError(f"A belief needs at least two arms, got {n_arms}.")
    rows = np.asarray(model[inputs].get_value(), dtype=float)
    if not len(rows) or not np.isfinite(rows).all():
        raise BeliefError(f"The inputs '{inputs}' must hold some users, all finite, to read the basis by.")
    labels = model.coords.get(feature) if n_dims == 2 else [inputs]
    width = rows.shape[1] if n_dims == 2 else 1
    return _Asked(
        mean=mean,
        inputs=inputs,
        user=user,
        user_first=dims_mu[0] == user,
        arms=as_labels(model.coords.get(arm), dim=ARM, size=n_arms),
        features=as_labels(labels, dim=FEATURE, size=width),
        named=labels is not None,
        rows=rows.reshape(len(rows), width),
    )


def _opened(model: Any, asked: _Asked) -> tuple[pm.Model, Any, Any, list[Any]]:
    """A copy of the model with all data fixed but the inputs, its mean (user, arm), and x (n, p), which is free.

    Inputs that the model holds as whole numbers are real ones here; the list has the parts that go into an index still.
    """
    from pymc.model.transform.optimization import freeze_dims_and_data

    others = [str(data.name) for data in model.data_vars if data.name != asked.inputs]
    dims = [dim for dim in model.dim_lengths if dim != asked.user]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected variables likely created by GP objects")  # these are not used again
        frozen: Any = freeze_dims_and_data(model, dims=dims, data=others)
    by_user = [name for name in others if asked.user in (model.named_vars_to_dims.get(name) or ())]
    mu = frozen[asked.mean]  # of the copy's own variables, so that coefficients can be registered with it
    behind = {variable.name for variable in ancestors([frozen[asked.mean]])}
    used = [name for name in by_user if name in behind]
    if used:
        raise BeliefError(
            f"The mean '{asked.mean}' depends on '{used[0]}', which is told of each user beside '{asked.inputs}': "
            f"make it a column of '{asked.inputs}'."
        )
    x = pt.tensor("x", shape=(None, asked.rows.shape[1]), dtype="float64")
    data, length = frozen[asked.inputs], frozen.dim_lengths[asked.user]
    fed = x if data.type.ndim == 2 else x[:, 0]
    replaced: dict[Any, Any] = {data: fed}
    rounded: list[Any] = []
    if length.owner is None and not isinstance(length, Constant):
        replaced[length] = x.shape[0].astype(length.type.dtype)
    try:
        mu = substitute(written_out([mu])[0], replaced, rounded=rounded)
    except FAILURES as error:
        raise BeliefError(f"The mean '{asked.mean}' cannot be computed for other users: {one_line(error)}") from error
    return frozen, mu if asked.user_first else mu.T, x, rounded


def _refuse_random_mean(mu: Any, x: Any, asked: _Asked) -> None:
    depends = Dependence(x)
    for variable in drawn_behind([mu]):
        if depends.on_x(variable, shapes=True):
            name = variable.name or "a variable"
            raise BeliefError(
                f"The mean '{asked.mean}' is random given the latents: '{name}' is drawn for each user. Let it be a "
                "function of latents that users share (pm.Deterministic; pm.gp.HSGP in place of pm.gp.Latent)."
            )


def _refuse_failing(mu: Any, x: Any, asked: _Asked) -> None:
    """Refuse a mean that cannot be computed, or for as many users only as the model came with."""
    run, _ = compiled([x], [mu])
    n, n_arms = len(asked.rows), len(asked.arms)
    for rows in (asked.rows, np.concatenate([asked.rows, asked.rows[:1]])):
        try:
            with without_compiler(), np.errstate(all="ignore"):
                shape, told = np.shape(run(rows)[0]), ""
        except FAILURES as error:
            shape, told = None, one_line(error)
        if shape == (len(rows), n_arms):
            continue
        if len(rows) > n:
            raise BeliefError(
                f"The mean '{asked.mean}' can be computed for the {n} users in '{asked.inputs}' only: something in it "
                f"has a value for each of them. Make it a column of '{asked.inputs}'."
            )
        raise BeliefError(
            f"The mean '{asked.mean}' cannot be computed for the users in '{asked.inputs}': "
            f"{told or f'it has shape {shape} for {n} users and {n_arms} arms'}."
        )


def _of_whole_numbers(evaluate: Any, x: Any, rounded: list[Any], asked: _Asked) -> Any:
    depends = Dependence(x)
    nodes = [node for node in dict.fromkeys(rounded) if depends.on_x(node) and not depends.on_random(node)]
    return OfWholeNumbers(evaluate, GraphOfX(x, nodes), asked.inputs) if nodes else evaluate


def _crowded(asked: _Asked) -> str:
    return (
        f"The mean '{asked.mean}' of a user depends on other users' '{asked.inputs}' (a mean or a maximum over users, "
        "say): use fixed numbers in its place."
    )


# --- nonlinear means --------------------------------------------------------------------------------------------------


def _at_anchors(frozen: pm.Model, mu: Any, x: Any, asked: _Asked, rounded: list[Any]) -> Regression:
    """The regression told by what it gives some of its users."""
    refuse_improper(mu, name=f"the latents of '{asked.mean}', which is nonlinear,", example="Normal")
    _refuse_crowds(mu, x, asked)
    try:
        expansion, beta = expand(
            mu, x, rows=asked.rows, tolerance=SHARP_TOLERANCE if frozen.observed_RVs else TOLERANCE
        )
    except NoAnchorsError:
        _refuse_not_finite(mu, x, asked)
        raise BeliefError(
            f"The nonlinear mean '{asked.mean}' is not finite for the users in '{asked.inputs}', or the same in every "
            "draw. Check the latents' priors."
        ) from None
    if not expansion.error <= expansion.largest_error:
        raise BeliefError(
            f"The mean '{asked.mean}' is nonlinear. Its values at {len(expansion.anchors)} users do not tell what it "
            f"gives the others: the error is {expansion.error:.2g} of its spread, and {expansion.largest_error:g} is "
            f"allowed. Smooth what jumps at an unknown place, or put fewer different users into '{asked.inputs}'."
        )
    if expansion.error > expansion.told_error:
        warnings.warn(
            f"The nonlinear mean '{asked.mean}' is told by its values at {len(expansion.anchors)} users with an error "
            f"of {expansion.error:.2g} of its spread.",
            BeliefWarning,
            stacklevel=5,
        )
    return Regression(
        model=frozen,
        beta=beta,
        arms=asked.arms,
        basis=FeatureMap(
            inputs=asked.features,
            features=labels(expansion.anchors, asked.features),
            evaluate=_of_whole_numbers(expansion.weights, x, rounded, asked),
            named=asked.named,
            source=f"users that '{asked.mean}' is told by",
        ),
        expansion=expansion,
    )


def _refuse_not_finite(mu: Any, x: Any, asked: _Asked) -> None:
    """Refuse a mean that is not finite for some of its users, whatever the latents, and say for whom."""
    mean = MeanFunction(mu, x)
    wrong = ~np.isfinite(mean(asked.rows, mean.draw(4, seed=0))).all(axis=2)  # (draw, user)
    if wrong.all(axis=0).any():
        row = asked.rows[int(np.argmax(wrong.all(axis=0)))]
        raise BeliefError(
            f"The mean '{asked.mean}' is not finite for some of the users in '{asked.inputs}', first for x = "
            f"{np.array2string(row, precision=4, threshold=8)}: a logarithm or a root of a negative number, perhaps."
        )


def _refuse_crowds(mu: Any, x: Any, asked: _Asked) -> None:
    mean = MeanFunction(mu, x)
    latents, some = mean.draw(4, seed=0), asked.rows[:8]
    alone = np.concatenate([mean(row[None], latents) for row in some], axis=1)
    if not np.allclose(mean(asked.rows, latents)[:, : len(some)], alone, rtol=1e-8, atol=1e-12, equal_nan=True):
        raise BeliefError(_crowded(asked))
