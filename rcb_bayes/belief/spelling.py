"""Coefficients by whatever name: other variables, dims under other names or in another order, an intercept apart.

Engines, files and posteriors know one variable, ``beta`` (arm, feature). A model that is written otherwise is copied,
and the copy gets that variable as a function of its own; the user's model stays as it is.
"""

from dataclasses import dataclass
from typing import Any

import pymc as pm
import pytensor.tensor as pt

from rcb_bayes.belief.anchors import Expansion
from rcb_bayes.errors import BeliefError
from rcb_bayes.feature_maps import FeatureMap, with_intercept
from rcb_bayes.schema import ARM, FEATURE, as_labels, suggestion

BETA = "beta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a model calls things: its coefficients and their dims, and an intercept that is kept apart."""

    coefficients: str = BETA
    arm: str = ARM
    feature: str = FEATURE
    intercept: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spelt:
    """A model with ``beta`` (arm, feature), the labels of both, and the map from x where features are not x.

    ``expansion`` says how far a nonlinear mean is told by such coefficients.
    """

    model: pm.Model
    arms: tuple[str, ...]
    features: tuple[str, ...]
    feature_map: FeatureMap | None = None
    expansion: Expansion | None = None


def spell(model: Any, words: Words) -> Spelt:
    """The model with its coefficients as ``beta`` (arm, feature).

    Raises
    ------
    BeliefError
        No such variable, or other dims than those named; fewer than two arms.
    """
    dims = _checked_dims(model, words)
    arms, features = _labels(model, words)
    if words == Words() and dims == (ARM, FEATURE):
        return Spelt(model=model, arms=arms, features=features)
    from pymc.model.fgraph import clone_model

    copy: Any = clone_model(model)
    beta = copy[words.coefficients] if dims == (words.arm, words.feature) else copy[words.coefficients].T
    if words.intercept is None:
        return Spelt(model=with_beta(copy, beta, arms=arms, features=features), arms=arms, features=features)
    beta = pt.concatenate([_intercept(copy, words, n_arms=len(arms)), beta], axis=1)
    found = with_intercept(features, name=_free_label(words.intercept, features))
    made = with_beta(copy, beta, arms=arms, features=found.features)
    return Spelt(model=made, arms=arms, features=found.features, feature_map=found)


def with_beta(model: Any, beta: Any, *, arms: tuple[str, ...], features: tuple[str, ...]) -> pm.Model:
    """The model with a graph of its own variables as ``beta``; a variable that is called so gets another name.

    Its dims are ``arm`` and ``feature``, so that draws of it are labelled; where the model means something else by
    these, ``beta_arm`` and ``beta_feature``.
    """
    if BETA in model.named_vars:
        _rename(model, BETA, next(name for name in _others(BETA) if name not in model.named_vars))
    dims = tuple(_dim(model, *one) for one in ((ARM, arms), (FEATURE, features)))
    with model:
        pm.Deterministic(BETA, beta, dims=dims)
    return model


def _dim(model: Any, dim: str, labels: tuple[str, ...]) -> str | None:
    """The dim of these labels, added where the model does not have it; None where both of its names are taken."""
    for name in (dim, own_dim(dim)):
        known = model.coords.get(name)
        if name in model.dim_lengths and known is not None and tuple(map(str, known)) == labels:
            return name
        if name not in model.dim_lengths and name not in model.named_vars:
            model.add_coord(name, labels)
            return name
    return None


def own_dim(dim: str) -> str:
    """What beta's dim is called in a model that means something else by its name."""
    return f"{BETA}_{dim}"


def _others(name: str) -> list[str]:
    return [f"{name}_{word}" for word in ("written", "of_the_model", "by_its_author")]


def _rename(model: Any, name: str, new: str) -> None:
    variable = model.named_vars.pop(name)
    variable.name = new
    model.named_vars[new] = variable
    if name in model.named_vars_to_dims:
        model.named_vars_to_dims[new] = model.named_vars_to_dims.pop(name)
    value = model.rvs_to_values.get(variable)
    if value is not None and value.name is not None:
        value.name = value.name.replace(name, new, 1)


def _checked_dims(model: Any, words: Words) -> tuple[str, ...]:
    if not isinstance(model, pm.Model):
        raise BeliefError(
            f"Expected a pm.Model, got {type(model).__name__}. Build one with `with pm.Model(coords=...)`."
        )
    name = words.coefficients
    if name not in model.named_vars:
        names = ", ".join(model.named_vars) or "none"
        raise BeliefError(
            f"The model has no variable '{name}' (variables: {names}).{suggestion(name, list(model.named_vars))} "
            + _way_out(model, words)
        )
    dims = tuple(str(dim) for dim in model.named_vars_to_dims.get(name) or ())
    if set(dims) != {words.arm, words.feature} or len(dims) != 2:
        got = f"dims {dims}" if dims else "no dims"
        which = (
            f" Say which is which: arm='{dims[0]}', feature='{dims[1]}' (or the other way round)."
            if len(dims) == 2
            else ""
        )
        raise BeliefError(
            f"The variable '{name}' must have dims ('{words.arm}', '{words.feature}'), got {got}."
            + (which or f" Pass dims=('{words.arm}', '{words.feature}') and coords for both.")
        )
    return dims


def _way_out(model: Any, words: Words) -> str:
    """What the model's author may have meant."""
    wanted = {words.arm, words.feature}
    matrices = [name for name, dims in model.named_vars_to_dims.items() if {str(dim) for dim in dims or ()} == wanted]
    if matrices:
        return f"Name the coefficients: Prior.from_pymc(model, coefficients='{matrices[0]}')."
    inputs = [str(data.name) for data in model.data_vars if data.type.ndim in (1, 2)]
    means = [str(one.name) for one in model.deterministics if one.type.ndim == 2]
    if inputs and means:
        return f"For a regression name its mean: Prior.from_pymc(model, mean='{means[0]}', inputs='{inputs[0]}')."
    return (
        f"Name the coefficients (coefficients=...), with dims=('{words.arm}', '{words.feature}'), or the mean of a "
        "regression (mean=..., inputs=...)."
    )


def _labels(model: Any, words: Words) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lengths: dict[str, Any] = model.dim_lengths
    sizes = {dim: int(lengths[dim].eval()) for dim in (words.arm, words.feature)}
    if sizes[words.arm] < 2 or sizes[words.feature] < 1:
        raise BeliefError(
            f"A belief needs at least two arms and one feature, got {sizes[words.arm]} arm(s) "
            f"and {sizes[words.feature]} feature(s)."
        )
    return (
        as_labels(model.coords.get(words.arm), dim=ARM, size=sizes[words.arm]),
        as_labels(model.coords.get(words.feature), dim=FEATURE, size=sizes[words.feature]),
    )


def _intercept(model: Any, words: Words, *, n_arms: int) -> Any:
    """The intercept as a column (arm, 1)."""
    name = str(words.intercept)
    if name not in model.named_vars:
        raise BeliefError(
            f"The model has no variable '{name}' (intercept='{name}').{suggestion(name, list(model.named_vars))}"
        )
    variable = model[name]
    dims = tuple(str(dim) for dim in model.named_vars_to_dims.get(name) or ())
    if variable.type.ndim == 0:
        return pt.full((n_arms, 1), variable)
    if variable.type.ndim != 1 or dims not in ((), (words.arm,)):
        raise BeliefError(
            f"The intercept '{name}' must be a number or have dims ('{words.arm}',), got {dims or 'no dims'}."
        )
    length = variable.type.shape[0]
    if length not in (None, n_arms):
        raise BeliefError(
            f"The intercept '{name}' must be a number or have one value for each of the {n_arms} arms, got {length}."
        )
    column: Any = pt.specify_shape(variable, (n_arms,))
    return column[:, None]


def _free_label(name: str, features: tuple[str, ...]) -> str:
    if name not in features:
        return name
    raise BeliefError(f"The intercept '{name}' has the name of a feature. Rename one of them.")
