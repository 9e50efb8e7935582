"""Beliefs about more arms, or fewer: an arm that is new to a belief, or some of its arms by themselves.

A new arm is told by the mean and the covariance of its coefficients, independent of the others, or by a belief about
all arms and itself, in which it may be coupled with them: what that says about the arms there were must be what was
believed before.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief.closed_form import as_joint
from rcb_bayes.belief.constructors import made
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import FloatArray, as_finite_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rcb_bayes.belief.prior import Prior

_SAME = 1e-8  # of prior standard deviations, where moments are exact
_ERRORS = 5.0  # Monte Carlo errors, where they are not


def with_arm(prior: "Prior", label: str, belief: Any) -> "Prior":
    """The belief with one more arm, the last.

    Parameters
    ----------
    label : the new arm
    belief : ``(mean, cov)`` of its coefficients, or a ``Prior`` about all arms, the new one last

    Raises
    ------
    BeliefError
        An arm that is there already; a belief of another form, about other arms or features, or that says something
        else about the arms there are.
    """
    if not isinstance(label, str) or not label:
        raise BeliefError(f"An arm has a name, got {label!r}.")
    if label in prior.arms:
        raise BeliefError(f"The belief has an arm '{label}' already. Give the new one another name.")
    if hasattr(belief, "arms_independent"):  # a Prior
        _check_extends(prior, label, belief)
        return belief
    if not isinstance(belief, tuple | list) or len(belief) != 2:
        raise BeliefError(
            f"Expected what users believe about '{label}': (mean, cov) of its {prior.n_features} coefficients, or a "
            f"Prior about all arms whose last arm is '{label}'; got {type(belief).__name__}."
        )
    if prior.law is None:
        raise BeliefError(
            f"The belief '{prior.name}' has no closed form that an arm could be added to. Write the model with "
            f"'{label}' as its last arm, and give that Prior."
        )
    d = prior.n_features
    mean = as_finite_array(belief[0], name="mean", ndim=1)
    if len(mean) != d:
        raise BeliefError(f"The mean of '{label}' has {len(mean)} numbers, and there are {d} features.")
    cov = as_finite_array(belief[1], name="cov")
    joint = as_joint(np.diag(cov) if cov.shape == (d,) and d > 1 else cov, n_arms=1, d=d)
    own = Block(arms=(prior.n_arms,), weights=np.ones(1), means=mean[None], covariances=joint[None])
    return _of_blocks(prior, (*prior.arms, label), (*prior.law.blocks, own))


def among(prior: "Prior", arms: "Sequence[str]") -> "Prior":
    """The belief about some of its arms alone, in the order given.

    Raises
    ------
    BeliefError
        Arms that are not there, fewer than two, or a belief without a closed form.
    """
    if tuple(arms) == prior.arms:
        return prior
    if prior.law is None:
        raise BeliefError(
            f"The belief '{prior.name}' has no closed form, so that its arms cannot be taken apart. Write the model "
            "with fewer arms."
        )
    unknown = [arm for arm in arms if arm not in prior.arms]
    if unknown or len(set(arms)) < max(2, len(arms)):
        raise BeliefError(f"Name two arms or more of the belief's, each once; got {', '.join(map(str, arms))}.")
    place = {prior.arms.index(arm): k for k, arm in enumerate(arms)}
    blocks = []
    for block in prior.law.blocks:
        kept = sorted((place[arm], number) for number, arm in enumerate(block.arms) if arm in place)
        if kept:
            index = [number * prior.n_features + k for _, number in kept for k in range(prior.n_features)]
            blocks.append(
                Block(
                    arms=tuple(new for new, _ in kept),
                    weights=block.weights,
                    means=block.means[:, index],
                    covariances=block.covariances[:, index][:, :, index],
                )
            )
    return _of_blocks(prior, tuple(arms), tuple(sorted(blocks, key=lambda block: block.arms)))


def _of_blocks(prior: "Prior", arms: tuple[str, ...], blocks: tuple[Block, ...]) -> "Prior":
    law = GaussianLaw(n_arms=len(arms), n_features=prior.n_features, blocks=blocks)
    return made(
        arms=arms,
        features=prior.features,
        groups=tuple(block.arms for block in blocks),
        law=law,
        source=None,
        name=prior.name,
        feature_map=prior.feature_map,
    )


def _check_extends(prior: "Prior", label: str, other: "Prior") -> None:
    """Refuse a belief that is not the one there was, with one arm more."""
    wanted = (*prior.arms, label)
    if other.arms != wanted or other.features != prior.features:
        raise BeliefError(
            f"The new belief has arms {', '.join(other.arms[-3:])} (the last of {other.n_arms}) and {other.n_features} "
            f"features; expected those there are and then '{label}', {len(wanted)} arms, with the same features."
        )
    apart = _apart(prior, other)
    if apart > 1.0:
        raise BeliefError(
            f"The new belief changes what users believed about the other arms: means or covariances differ {apart:.2g} "
            "times as much as rounding, or sampling, explains. Leave those arms as they were."
        )


def _apart(prior: "Prior", other: "Prior") -> float:
    """How far moments of the arms there are lie apart, in what rounding or Monte Carlo errors explain."""
    k = prior.n_arms
    ours, theirs = prior.moments, other.moments
    covariance = ours["covariance"].values
    spread = np.sqrt(np.einsum("kdkd->kd", covariance))

    def ratio(name: str, cut: Any, scale: FloatArray) -> float:
        error = np.hypot(ours[f"{name}_mcse"].values, theirs[f"{name}_mcse"].values[cut])
        off = np.abs(ours[name].values - theirs[name].values[cut])
        return float((off / (_SAME * np.maximum(scale, 1e-12) + _ERRORS * error)).max())

    both = spread[:, :, None, None] * spread
    return max(ratio("mean", np.s_[:k], spread), ratio("covariance", np.s_[:k, :, :k, :], both))
