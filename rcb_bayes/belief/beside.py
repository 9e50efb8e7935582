"""What a model says beside the laws of its variables, which forward draws and posteriors here do not hear.

A potential, a transform that keeps some values away (``ordered``), a reward whose noise is not ``Normal(mean, sigma)``.
"""

import warnings
from typing import Any

from pymc.distributions.transforms import ChainedTransform, LogExpM1, _default_transform
from pymc.logprob.transforms import LocTransform, LogTransform, ScaleTransform
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import NormalRV

from rcb_bayes.belief.graph import is_move
from rcb_bayes.errors import BeliefError, BeliefWarning

_POSITIVE = (LogTransform, LogExpM1)  # both of the positive numbers onto all of them
_OF_ALL_NUMBERS = (LocTransform, ScaleTransform)


def refuse_potentials(model: Any) -> None:
    """Forward draws ignore potentials: a model that has them is not the belief it seems.

    Raises
    ------
    BeliefError
        A model with potentials.
    """
    if getattr(model, "potentials", None):
        names = ", ".join(str(potential.name) for potential in model.potentials)
        raise BeliefError(
            f"The model has a Potential ({names}), which forward draws ignore. "
            "Write that knowledge as a distribution (pm.Truncated, a tighter prior) instead."
        )


def refuse_constraints(model: Any, outputs: list[Any]) -> None:
    """Forward draws ignore transforms, too, and some of these keep values away that the distribution allows.

    Raises
    ------
    BeliefError
        Such a transform of a variable behind the outputs.
    """
    behind = set(ancestors(outputs))
    for variable in model.free_RVs:
        transform = model.rvs_to_transforms.get(variable)
        if variable in behind and transform is not None and not _is_onto(transform, variable):
            raise BeliefError(
                f"The variable '{variable.name}' has a transform ({transform.name}) that keeps some of its values "
                "away, which forward draws ignore. Write that knowledge as a distribution (ordered values as "
                "pt.cumsum of positive steps), or pass draws: Prior.from_draws(pm.sample(model=model))."
            )


def warn_about_noise(model: Any, sigma: Any, *, beta: Any) -> None:
    """A reward in the model whose noise is not the one that is read, with the standard deviation ``sigma``."""
    behind = set(ancestors([beta, sigma]))
    for variable in model.free_RVs:
        node = variable.owner
        if variable in behind or sigma not in ancestors(node.inputs):
            continue
        spread = node.op.dist_params(node)[1] if isinstance(node.op, NormalRV) else None
        while spread is not None and spread is not sigma and spread.owner is not None and is_move(spread.owner):
            spread = spread.owner.inputs[0]
        if spread is not sigma:
            warnings.warn(
                f"The model's '{variable.name}' depends on 'sigma' otherwise than as Normal(mean, sigma): rewards are "
                "read as Normal with the standard deviation 'sigma' for every user and arm. Call it something else "
                "if it means something else, and pass the market its noise.",
                BeliefWarning,
                stacklevel=5,
            )


def _is_onto(transform: Any, variable: Any) -> bool:
    """Whether a transform leaves every value that the distribution allows."""
    default = _default_transform(variable.owner.op, variable)
    parts = list(transform.transform_list) if isinstance(transform, ChainedTransform) else [transform]
    if default is not None and (type(parts[0]) is type(default) or {type(parts[0]), type(default)} <= set(_POSITIVE)):
        parts = parts[1:]
    return all(isinstance(part, _OF_ALL_NUMBERS) for part in parts)
