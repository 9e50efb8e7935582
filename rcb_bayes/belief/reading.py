"""A PyMC model of any kind as a belief: coefficients, a regression, or a posterior that is sampled first."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from rcb_bayes.belief.basis import one_line
from rcb_bayes.belief.beside import refuse_potentials
from rcb_bayes.belief.draws import light_mode
from rcb_bayes.belief.from_draws import fitted_parts
from rcb_bayes.belief.graph import without_compiler
from rcb_bayes.belief.model import ModelBelief
from rcb_bayes.belief.regression import read_regression
from rcb_bayes.belief.spelling import BETA, Spelt, Words, spell, with_beta
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import FloatArray

_CHAINS, _DRAWS, _TUNE = 4, 2000, 1000
_N_STARTS = 20


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
    for word, name in (
        *(("coefficients", coefficients), ("arm", arm), ("feature", feature)),
        *(
            (word, name)
            for word, name in (("intercept", intercept), ("mean", mean), ("inputs", inputs))
            if name is not None
        ),
    ):
        if not isinstance(name, str):
            raise BeliefError(f"{word}= must be a name in the model, a text, got {name!r}.")
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
    _refuse_impossible_observations(model)
    try:
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
    except RuntimeError as error:
        raise BeliefError(
            f"The model's posterior cannot be sampled: {one_line(error)}. Check the priors and the observed values."
        ) from error
    values = np.asarray(tree["posterior"][BETA].values, dtype=float)
    if not np.isfinite(values).all():
        raise BeliefError("The model's posterior has draws that are not finite: check its parameters.")
    return values.reshape(*values.shape[:2], n_arms, -1)


def _refuse_impossible_observations(model: pm.Model) -> None:
    """Refuse observed values that have probability zero wherever a chain may start; the sampler would not say so."""
    parts: Any = model.logp(sum=False)
    point = model.initial_point(random_seed=1)
    with without_compiler(), np.errstate(all="ignore"):
        run: Any = model.compile_fn(parts, inputs=model.value_vars, mode=light_mode(), on_unused_input="ignore")
        rng, bad = np.random.default_rng(1), []
        for start in (point, *(_moved(point, rng) for _ in range(_N_STARTS))):
            bad = [not np.isfinite(part).all() for part in run(start)]
            if not any(bad):
                return
    observed = {variable.name for variable in model.observed_RVs}
    named = [variable.name for variable in model.basic_RVs]
    name = next((one for one, wrong in zip(named, bad, strict=True) if wrong and one in observed), None)
    what = f"the observed values of '{name}' are impossible" if name else "no start has a positive density"
    raise BeliefError(
        f"The model's posterior cannot be sampled: {what} under it. Check these values, and the distribution they have."
    )


def _moved(point: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A start near another; whole numbers stay."""
    return {
        name: value + rng.uniform(-1.0, 1.0, size=np.shape(value)) if np.asarray(value).dtype.kind == "f" else value
        for name, value in point.items()
    }
