r"""Formulas as beliefs: a Bambi model whose formula has the arms as a factor.

A formula's linear predictor is :math:`X(x, a)'b`, with a row of its design matrix for every user and arm. Columns that
are the same function of x for some arms are one feature, and an arm's coefficient of it is the sum of those b whose
columns it is: ``0 + arm + arm:bs(age, df=4) + (1 | segment)`` becomes coefficients of 1, of four splines and of the
segments. What was read is compared with the model's own linear predictor before it is handed on.
"""

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.transform.optimization import freeze_dims_and_data
from pymc.pytensorf import reseed_rngs, rvs_in_graph
from scipy.special import expit

from rcb_bayes.belief.basis import compiled
from rcb_bayes.belief.beside import refuse_potentials
from rcb_bayes.belief.formula_design import Design, Features, covariates_of, functions_of, levels_of, portable
from rcb_bayes.belief.from_draws import fitted_parts
from rcb_bayes.belief.graph import without_compiler
from rcb_bayes.belief.model import SIGMA
from rcb_bayes.belief.spelling import Spelt, with_beta
from rcb_bayes.errors import BeliefError, BeliefWarning
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.schema import ARM, FEATURE, FloatArray, as_labels, suggestion

_N_COMPARED = 3
_LINKS = {"gaussian": "identity", "bernoulli": "logit"}


def read_formula(model: Any, *, arm: str, sigma: bool) -> Spelt:
    """The formula's priors as a model with ``beta``, and the map from covariates to its features.

    Raises
    ------
    BeliefError
        No Bambi model, another family or link, no such factor, terms that are not linear in their coefficients.
    """
    found = _read(model, arm)
    _warn_about_rewards(found.component)
    return _spelt(model, found, sigma=sigma)


def read_fitted(model: Any, posterior: Any, *, arm: str) -> dict[str, Any]:
    """What a ``Prior`` is made of, from draws of the formula's posterior, as ``model.fit`` returns them.

    Raises
    ------
    BeliefError
        As ``read_formula``; draws of another model.
    """
    found = _read(model, arm)
    group = posterior.get("posterior", posterior)
    parts = []
    for name, _ in _terms(found.component):
        if name not in group:
            known = [str(key) for key in group.data_vars]
            raise BeliefError(f"The posterior has no variable '{name}' (variables: {', '.join(known)}).")
        values = np.asarray(group[name].values, dtype=float)
        parts.append(values.reshape(*values.shape[:2], -1))
    draws = np.einsum("kfp,csp->cskf", found.places, np.concatenate(parts, axis=2))
    return fitted_parts(draws, arms=found.arms, features=found.feature_map.features, feature_map=found.feature_map)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Formula:
    """A formula, read.

    Attributes
    ----------
    component : Bambi's, of the parameter ``parent`` that the formula is about
    places : which of the coefficients of the design matrix's columns make up each arm's of the features, (K, F, P)
    """

    parent: str
    component: Any
    design: Design
    places: FloatArray
    arms: tuple[str, ...]
    feature_map: FeatureMap


def _read(model: Any, arm: str) -> _Formula:
    parent = _checked(model, arm)
    if not model.built:
        model.build()
    component = model.parameters[parent]
    names = set(re.findall(r"\w+", str(model.formula.main)))
    design = Design(
        common=portable(component.design.common, names),
        group=portable(component.design.group, names),
        arm=arm,
        arms=tuple(levels_of(model.data[arm])),
        inputs=covariates_of(model, component, arm),
    )
    places, features, chosen = functions_of(design, model.data)
    if (places == places[:1]).all():
        raise BeliefError(
            f"The formula gives every arm the same: '{arm}' is in none of its terms. Write '0 + {arm} + {arm}:...'."
        )
    feature_map = FeatureMap(
        inputs=tuple(column.name for column in design.inputs),
        features=as_labels(features, dim=FEATURE, size=len(features)),
        evaluate=Features(design, chosen),
        named=True,
        source=f"the formula '{model.formula.main}'",
    )
    return _Formula(
        parent=parent,
        component=component,
        design=design,
        places=places,
        arms=as_labels(design.arms, dim=ARM, size=len(design.arms)),
        feature_map=feature_map,
    )


# --- what can be read -------------------------------------------------------------------------------------------------


def _checked(model: Any, arm: str) -> str:
    """The name of the parameter that the formula is about."""
    if not hasattr(model, "formula") or not hasattr(model, "parameters"):
        raise BeliefError(f"Expected a bambi.Model, got {type(model).__name__}. For a pm.Model use Prior.from_pymc.")
    family = str(model.family.name)
    parent = str(model.family.likelihood.parent)
    link = str(getattr(model.family.link[parent], "name", model.family.link[parent]))
    if _LINKS.get(family) != link:
        raise BeliefError(
            f"Rewards are Gaussian (identity link) or 0/1 (family='bernoulli', logit link), got the family '{family}' "
            f"with the link '{link}'."
        )
    if arm not in model.data.columns:
        known = [str(column) for column in model.data.columns]
        raise BeliefError(
            f"The formula's data have no column '{arm}' (columns: {', '.join(known)}).{suggestion(arm, known)} "
            "Name the factor of the arms with arm=."
        )
    if len(levels_of(model.data[arm])) < 2:
        raise BeliefError(f"A belief needs at least two arms; the column '{arm}' has one level.")
    others = [name for name, one in model.parameters.items() if hasattr(one, "terms") and name != parent]
    if others:
        raise BeliefError(f"Only the mean may have a formula; '{others[0]}' has one, too.")
    component = model.parameters[parent]
    for kind, terms in (("offset", component.offset_terms), ("hsgp", component.hsgp_terms)):
        if terms:
            raise BeliefError(
                f"The term '{next(iter(terms))}' ({kind}) is not read from a formula. Write the model in PyMC, with "
                "pm.gp.HSGP, and use Prior.from_pymc(model, mean=..., inputs=...)."
            )
    if not component.design.common and not component.design.group:
        raise BeliefError("The formula has no terms: nothing would be believed about any arm.")
    return parent


def _warn_about_rewards(component: Any) -> None:
    scaled = [
        name for name, term in component.terms.items() if getattr(getattr(term, "prior", None), "auto_scale", False)
    ]
    if scaled:
        warnings.warn(
            f"Bambi's default priors are scaled by the rewards in its data (terms {', '.join(scaled[:4])}): a belief "
            "from before the data needs priors of its own, priors={...} of bmb.Model.",
            BeliefWarning,
            stacklevel=5,
        )


# --- coefficients -----------------------------------------------------------------------------------------------------


def _terms(component: Any) -> list[tuple[str, Any]]:
    """Names of the variables of the terms in the order of the design matrix's columns, with the terms."""
    found = []
    for matrix in (component.design.common, component.design.group):
        for name in matrix.terms if matrix else ():
            term = component.terms[name]
            found.append((str(getattr(term, "alias", None) or term.name), term))
    return found


def _spelt(model: Any, found: _Formula, *, sigma: bool) -> Spelt:
    written: Any = freeze_dims_and_data(model.backend.model)
    refuse_potentials(written)
    coefficients = []
    for name, term in _terms(found.component):
        variable = written[name]
        if term is found.component.intercept_term:
            variable = variable - _centring(model, found.component, written)
        coefficients.append(pt.atleast_1d(variable).flatten())
    beta = _picked(pt.concatenate(coefficients), found.places)
    _compare(written[found.parent], beta, model, found)
    return Spelt(
        model=_unobserved(written, beta, found, sigma=sigma),
        arms=found.arms,
        features=found.feature_map.features,
        feature_map=found.feature_map,
    )


def _picked(joined: Any, places: FloatArray) -> Any:
    """Each arm's coefficients (K, F): sums of single elements, so that which arms share which is seen in the graph."""
    rows = []
    for of_arm in places:
        sums = [[joined[int(k)] for k in np.flatnonzero(columns)] for columns in of_arm]
        rows.append(pt.stack([sum(parts[1:], parts[0]) if parts else pt.constant(0.0) for parts in sums]))
    return pt.stack(rows)


def _centring(model: Any, component: Any, written: Any) -> Any:
    """What Bambi's intercept has beside the formula's: it belongs to centred columns."""
    if not model.center_predictors or not component.common_terms:
        return 0.0
    terms = component.common_terms.values()
    means = np.concatenate([np.atleast_1d(np.asarray(term.data, dtype=float).mean(axis=0)) for term in terms])
    names = [str(getattr(term, "alias", None) or term.name) for term in terms]
    slopes: Any = pt.concatenate([pt.atleast_1d(written[name]).flatten() for name in names])
    return pt.dot(pt.constant(means), slopes)


def _unobserved(written: Any, beta: Any, formula: "_Formula", *, sigma: bool) -> Any:
    """A model of the coefficients alone: the response, and whatever hangs on its rows, is left out."""
    wanted = [beta, *([written[SIGMA]] if sigma and SIGMA in written.named_vars else [])]
    kept = set(rvs_in_graph(wanted))
    found: Any = pm.Model(coords={name: values for name, values in written.coords.items() if name != "__obs__"})
    for variable in written.free_RVs:
        if variable in kept:
            found.register_rv(variable, str(variable.name), dims=written.named_vars_to_dims.get(variable.name))
    return with_beta(found, beta, arms=formula.arms, features=formula.feature_map.features)


def _compare(mu: Any, beta: Any, model: Any, found: _Formula) -> None:
    """Refuse coefficients that do not give the model's own mean for the people in its data."""
    design = found.design
    x = np.stack([column.positions(model.data[column.name]) for column in design.inputs], axis=1)
    arm = np.array([design.arms.index(value) for value in model.data[design.arm]])
    phi = found.feature_map(x)
    run, updates = compiled([], [mu, beta])
    for seed in range(_N_COMPARED):
        reseed_rngs(list(updates), seed)  # type: ignore[arg-type]
        with without_compiler():
            theirs, ours = (np.asarray(part, dtype=float) for part in run())
        eta = (phi * ours[arm]).sum(axis=1)
        mean = eta if model.family.name == "gaussian" else expit(eta)
        if not np.allclose(np.ravel(theirs), mean, rtol=1e-8, atol=1e-10):
            raise BeliefError(
                "The formula's linear predictor is not what its terms add up to, so it cannot be read. Write the model "
                "in PyMC and use Prior.from_pymc(model, mean=..., inputs=...)."
            )
