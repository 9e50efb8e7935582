"""Yesterday's posterior is today's belief: draws of the coefficients, or of the latents that make them.

A tree with the coefficients is enough. Where it has only latents (a regression's, a net's), the model that was sampled
says what they make of users: its graph is read as ``Prior.from_pymc`` reads it, and evaluated at every draw.
"""

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import rvs_in_graph
from pytensor.graph.replace import vectorize_graph

from rcb_bayes.belief.draws import light_mode
from rcb_bayes.belief.from_draws import fitted_parts
from rcb_bayes.belief.graph import without_compiler
from rcb_bayes.belief.reading import read_spelling
from rcb_bayes.belief.spelling import BETA
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import FloatArray, suggestion


def read_posterior(tree: Any, model: Any, words: dict[str, Any]) -> dict[str, Any]:
    """What a ``Prior`` is made of, from draws of a model's latents.

    Raises
    ------
    BeliefError
        A model that is no belief, or latents that the tree does not have.
    """
    spelt = read_spelling(model, **words)
    values = _evaluated(spelt.model[BETA], spelt.model, tree)
    if not np.isfinite(values).all():
        raise BeliefError("The posterior gives coefficients that are not finite: is it this model's?")
    return fitted_parts(
        values.reshape(*values.shape[:2], len(spelt.arms), len(spelt.features)),
        arms=spelt.arms,
        features=spelt.features,
        feature_map=spelt.feature_map,
        expansion=spelt.expansion,
    )


def posterior_of(tree: Any) -> Any:
    """The group of a tree that has the posterior, or draws as they are.

    Raises
    ------
    BeliefError
        A tree with other groups only: draws of the prior, say.
    """
    if "posterior" in getattr(tree, "children", ()):
        return tree["posterior"]
    others = [str(name) for name in getattr(tree, "children", ())]
    if others and not getattr(tree, "data_vars", ()):
        raise BeliefError(
            f"The tree has no posterior (groups: {', '.join(others)}): pass what pm.sample returned. "
            "Prior.from_draws reads draws of a prior."
        )
    return tree


def _in_order(array: Any, variable: Any, name: str) -> np.ndarray:
    """Draws of a latent, (chain, draw, ...)."""
    own = [dim for dim in array.dims if dim not in ("chain", "draw", "sample")]
    leading = [dim for dim in ("chain", "draw", "sample") if dim in array.dims]
    values = np.asarray(array.transpose(*leading, *own).values)
    values = values[None] if len(leading) == 1 else values
    wanted = tuple(variable.type.shape)
    fits = len(wanted) == values.ndim - 2 and all(w in (None, n) for w, n in zip(wanted, values.shape[2:], strict=True))
    if not leading or not fits:
        raise BeliefError(
            f"The posterior's '{name}' must have the dims chain and draw and the shape that it has in the model, "
            f"got {dict(array.sizes)}. Sample the same model that is passed."
        )
    return values


def _evaluated(beta: Any, model: Any, tree: Any) -> FloatArray:
    """The coefficients at every draw of the latents, (chain, draw, K, d)."""
    group = posterior_of(tree)
    latents = [variable for variable in model.free_RVs if variable in set(rvs_in_graph([beta]))]
    known = [str(name) for name in getattr(group, "data_vars", ())]
    draws = []
    for variable in latents:
        name = str(variable.name)
        if name not in known:
            raise BeliefError(
                f"The posterior has no draws of '{name}' (variables: {', '.join(known) or 'none'})."
                f"{suggestion(name, known)} Sample the same model that is passed."
            )
        draws.append(_in_order(group[name], variable, name))
    shape = draws[0].shape[:2]
    batched: list[Any] = [
        pt.tensor(f"{variable.name}_draws", shape=(None, *variable.type.shape), dtype=variable.type.dtype)
        for variable in latents
    ]
    found: Any = vectorize_graph([beta], replace=dict(zip(latents, batched, strict=True)))
    with without_compiler():
        run: Any = pytensor.function(batched, found[0], mode=light_mode())
        flat = run(*(part.reshape(-1, *part.shape[2:]).astype(one.type.dtype) for part, one in zip(draws, batched)))  # noqa: B905
    return np.asarray(flat, dtype=float).reshape(*shape, *np.shape(flat)[1:])
