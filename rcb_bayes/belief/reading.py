"""A PyMC model of any kind as a belief: coefficients, a regression, or a posterior that is sampled first."""

from typing import Any

import numpy as np
import pymc as pm

from rcb_bayes.belief.from_draws import fit_law
from rcb_bayes.belief.model import ModelBelief, refuse_potentials
from rcb_bayes.belief.regression import read_regression
from rcb_bayes.belief.spelling import BETA, Spelt, Words, spell, with_beta
from rcb_bayes.errors import BeliefError
from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.schema import FloatArray

_CHAINS, _DRAWS, _TUNE = 4, 2000, 1000


def read_model(
    model: Any,
    *,
    coefficients: str,
    arm: str,
    feature: str,
    intercept: str | None,
    mean: str | None,
    inputs: str | None,
) -> dict[str, Any]:
    """What a ``Prior`` is made of: labels, groups, law, source, feature map and fit.

    Raises
    ------
    BeliefError
        A model that is no belief, for the reasons of ``Prior.from_pymc``.
    """
    if (mean is None) != (inputs is None):
        lacking = "inputs" if inputs is None else "mean"
        raise BeliefError(
            f"A regression needs both its mean and its inputs: pass {lacking}=, the variable's name, too."
        )
    refuse_potentials(model)
    if mean is None or inputs is None:
        words = Words(coefficients=coefficients, arm=arm, feature=feature, intercept=intercept)
        spelt = spell(model, words)
    elif intercept is not None:
        raise BeliefError("A regression's intercept is part of its mean: leave intercept= out.")
    else:
        spelt = _of_regression(model, mean=mean, inputs=inputs, arm=arm, feature=feature)
    if spelt.model.observed_RVs:
        return _of_posterior(spelt)
    source = ModelBelief(spelt)
    return {
        "arms": source.arms,
        "features": source.features,
        "groups": source.groups,
        "law": source.law,
        "source": source,
        "feature_map": spelt.feature_map,
    }


def _of_regression(model: Any, *, mean: str, inputs: str, arm: str, feature: str) -> Spelt:
    found = read_regression(model, mean=mean, inputs=inputs, arm=arm, feature=feature)
    is_plain = found.basis.features == found.basis.inputs  # the functions of x are x itself
    return Spelt(
        model=with_beta(found.model, found.beta),
        arms=found.arms,
        features=found.basis.features,
        feature_map=None if is_plain else found.basis,
    )


def _of_posterior(spelt: Spelt) -> dict[str, Any]:
    """The belief that a model with observed variables amounts to: its posterior, sampled and fitted."""
    law, fit = fit_law(_sampled(spelt.model, n_arms=len(spelt.arms)))
    feature_map: FeatureMap | None = spelt.feature_map
    return {
        "arms": spelt.arms,
        "features": spelt.features,
        "groups": tuple(block.arms for block in law.blocks),
        "law": law,
        "source": None,
        "feature_map": feature_map,
        "fit": fit,
    }


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
