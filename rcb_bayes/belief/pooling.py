"""Several beliefs as one: a mixture in which each is the right one with its weight.

Closed forms stay closed: the mixture has a component for every combination of theirs. Other beliefs are drawn from, and
a mixture is fitted to the draws. Arms of a pooled belief are coupled, be they independent for every expert: what one of
them turns out to give tells who was right.
"""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief.from_draws import fitted_parts
from rcb_bayes.belief.law import Block, GaussianLaw
from rcb_bayes.errors import BeliefError
from rcb_bayes.schema import FloatArray, as_finite_array

if TYPE_CHECKING:
    from rcb_bayes.belief.prior import Prior

MOST_COMPONENTS = 256
_N_DRAWS = 20_000


def pooled_parts(priors: Sequence["Prior"], weights: Any) -> dict[str, Any]:
    """What a ``Prior`` is made of, from several.

    Raises
    ------
    BeliefError
        Fewer than two beliefs, other labels or features, an unknown noise, weights that are no weights.
    """
    share = _checked(priors, weights)
    first = priors[0]
    parts: dict[str, Any] = {"arms": first.arms, "features": first.features, "source": None}
    parts |= {"feature_map": first.feature_map, "expansion": first.expansion}
    laws = [prior.law for prior in priors]
    components = [None if law is None else int(np.prod([block.n_components for block in law.blocks])) for law in laws]
    if all(number is not None for number in components) and sum(filter(None, components)) <= MOST_COMPONENTS:
        law = mixture_law([law for law in laws if law is not None], share)
        return parts | {"law": law, "groups": tuple(block.arms for block in law.blocks), "fit": None}
    rng = np.random.default_rng(0)
    counts = rng.multinomial(_N_DRAWS, share)
    draws = [prior.draw_arrays(int(n), rng=rng)[0] for prior, n in zip(priors, counts, strict=True) if n]
    return parts | fitted_parts(
        rng.permutation(np.concatenate(draws))[None],
        arms=first.arms,
        features=first.features,
        feature_map=first.feature_map,
        expansion=first.expansion,
    )


def _checked(priors: Sequence["Prior"], weights: Any) -> FloatArray:
    if len(priors) < 2:
        raise BeliefError(f"Pooling takes at least two beliefs, got {len(priors)}.")
    first = priors[0]
    for prior in priors:
        if not hasattr(prior, "draw_arrays"):
            raise BeliefError(f"Pooling takes beliefs (Prior), got {type(prior).__name__}.")
        if (prior.arms, prior.features) != (first.arms, first.features):
            raise BeliefError(
                f"The beliefs '{first.name}' and '{prior.name}' are about other arms or features: pool beliefs with "
                "the same labels in the same order."
            )
        if not _same_features(first, prior):
            raise BeliefError(
                f"The beliefs '{first.name}' and '{prior.name}' have bases of their own, so their coefficients cannot "
                "be pooled. Write them with the same one."
            )
        if prior.has_sigma:
            raise BeliefError(
                f"The belief '{prior.name}' has an unknown sigma, which is not pooled: drop it and pass "
                "GaussianNoise(sigma) to the market."
            )
    share = np.ones(len(priors)) if weights is None else as_finite_array(weights, name="weights", ndim=1)
    if len(share) != len(priors) or (share < 0).any() or not share.sum() > 0:
        raise BeliefError(f"weights must be {len(priors)} numbers of at least 0, and not all 0; got {weights!r}.")
    return share / share.sum()


def _same_features(first: "Prior", other: "Prior") -> bool:
    """Whether two beliefs speak of the same functions of x, told at random users where they bring their own."""
    ours, theirs = first.feature_map, other.feature_map
    if ours is theirs or ours is None or theirs is None:
        return ours is theirs
    if ours.inputs != theirs.inputs or first.expansion is not None or other.expansion is not None:
        return False
    x = np.random.default_rng(0).random((64, ours.n_inputs))
    return np.allclose(ours(x), theirs(x), rtol=1e-10, atol=1e-12)


def mixture_law(laws: Sequence[GaussianLaw], share: FloatArray) -> GaussianLaw:
    """The mixture of closed forms in which each has its share."""
    k, d = laws[0].n_arms, laws[0].n_features
    weights, means, covariances = [], [], []
    for law, part in zip(laws, share, strict=True):
        if not part > 0:
            continue
        for chosen in product(*(range(block.n_components) for block in law.blocks)):
            mean, covariance, weight = np.zeros(k * d), np.zeros((k * d, k * d)), part
            for block, c in zip(law.blocks, chosen, strict=True):
                index = law.flat_index(block)
                mean[index], covariance[np.ix_(index, index)] = block.means[c], block.covariances[c]
                weight = weight * block.weights[c]
            weights.append(weight)
            means.append(mean)
            covariances.append(covariance)
    block = Block(
        arms=tuple(range(k)),
        weights=np.array(weights) / np.sum(weights),
        means=np.array(means),
        covariances=np.array(covariances),
    )
    return GaussianLaw(n_arms=k, n_features=d, blocks=(block,))
