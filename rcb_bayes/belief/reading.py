"""A PyMC model of any kind as a belief: coefficients, a regression, or a posterior that is sampled first."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from rcb_bayes.belief.beside import refuse_potentials
from rcb_bayes.belief.from_draws import fitted_parts
from rcb_bayes.belief.model import ModelBelief
from rcb_bayes.belief.regression import read_regression
from rcb_bayes.belief.spelling import BETA, Spelt, Words, spell, with_beta
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import FloatArray

_CHAINS, _DRAWS, _TUNE = 4, 2000, 1000


def read_model(model: Any, words: Mapping[str, Any]) -> dict[str, Any]:
    """What a ``Prior`` is made of: labels, groups, law, source, feature map, expansion and fit.

    Parameters
    ----------
    words : the arguments of ``Prior.from_pymc`` that say what is what

    Raises
    ------
    BeliefError
        A model that is no belief, for the reasons of ``Prior.from_pymc``.
    """
    spelt = read_spelling(model, **words)
    if spelt.model.observed_RVs:
        return fitted_parts(
            _sampled(spelt.model, n_arms=len(spelt.arms)),
            arms=spelt.arms,
            features=spelt.features,
            feature_map=spelt.feature_map,
            expansion=spelt.expansion,
        )
    return model_parts(spelt)


def model_parts(spelt: Spelt) -> dict[str, Any]:
    """The same of a model without observed variables."""
    source = ModelBelief(spelt)
    return {
        "arms": source.arms,
        "features": source.features,
        "groups": source.groups,
        "law": source.law,
        "source": source,
        "feature_map": spelt.feature_map,
        "expansion": spelt.expansion,
    }


def read_spelling(
    model: Any,
    *,
    coefficients: str,
    arm: str,
    feature: str,
    intercept: str | None,
    mean: str | None,
    inputs: str | None,
) -> Spelt:
    """The model with its coefficients as ``beta``, whatever it calls them, before any sampling.

    Raises
    ------
    BeliefError
        As ``read_model``.
    """
    if (mean is None) != (inputs is None):
        lacking = "inputs" if inputs is None else "mean"
        raise BeliefError(
            f"A regression needs both its mean and its inputs: pass {lacking}=, the variable's name, too."
        )
    refuse_potentials(model)
    if mean is None or inputs is None:
        words = Words(coefficients=coefficients, arm=arm, feature=feature, intercept=intercept)
        return spell(model, words)
    if intercept is not None:
        raise BeliefError("A regression's intercept is part of its mean: leave intercept= out.")
    return _of_regression(model, mean=mean, inputs=inputs, arm=arm, feature=feature)


def _of_regression(model: Any, *, mean: str, inputs: str, arm: str, feature: str) -> Spelt:
    found = read_regression(model, mean=mean, inputs=inputs, arm=arm, feature=feature)
    is_plain = found.basis.features == found.basis.inputs  # the functions of x are x itself
    return Spelt(
        model=with_beta(found.model, found.beta, arms=found.arms, features=found.basis.features),
        arms=found.arms,
        features=found.basis.features,
        feature_map=None if is_plain else found.basis,
        expansion=found.expansion,
    )


def _sampled(model: pm.Model, *, n_arms: int) -> FloatArray:
    """Posterior draws of beta, (chain, draw, K, d), always the same ones."""
    with model:
        tree: Any = pm.sample(
            draws=_DRAWS,
            tune=_TUNE,
            chains=_CHAINS,
            cores=1,
            random_seed=1,
            target_accept=0.9,
            var_names=[BETA],
            progressbar=False,
            quiet=True,
        )
    values = np.asarray(tree["posterior"][BETA].values, dtype=float)
    if not np.isfinite(values).all():
        raise BeliefError("The model's posterior has draws that are not finite: check its parameters.")
    return values.reshape(*values.shape[:2], n_arms, -1)
