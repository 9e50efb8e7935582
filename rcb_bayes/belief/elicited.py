"""Answers of experts as one belief: each expert's fitted to their own quantiles, then pooled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rcb_bayes.belief.answers import Answers, read_answers
from rcb_bayes.belief.from_quantiles import LINKS, fit_answers, warn_of_miss
from rcb_bayes.belief.pooling import mixture_law
from rcb_bayes.errors import BeliefError
from rcb_bayes.feature_maps import with_intercept
from rcb_bayes.schema import ARM, FEATURE, FloatArray, as_labels, suggestion

_INTERCEPT = "intercept"


def elicited_parts(
    table: Any, *, intercept: bool, link: str, expert: str | None, weights: Mapping[str, float] | None
) -> dict[str, Any]:
    """What a ``Prior`` is made of, from a table of answers.

    Raises
    ------
    BeliefError
        Answers that cannot be read or tell no belief, weights of other experts, an unknown link.
    """
    if link not in LINKS:
        raise BeliefError(f"link must be one of {', '.join(LINKS)}, got {link!r}.{suggestion(str(link), LINKS)}")
    answers = read_answers(table)
    if len(answers.arms) < 2:
        raise BeliefError(f"A belief needs at least two arms; the answers are about {', '.join(answers.arms)} alone.")
    answers = answers if expert is None else answers.of(expert)
    if intercept and _INTERCEPT in answers.covariates:
        raise BeliefError("The answers have a covariate called 'intercept': pass intercept=False, or rename it.")
    share = _shares(answers, weights)
    found = [fit_answers(answers.of(one), intercept=intercept, link=link) for one in answers.experts]
    fits = [fit for _, fit in found]
    worst = max(fits, key=lambda fit: fit.miss)
    fit = replace(
        worst,
        n_quantiles=sum(one.n_quantiles for one in fits),
        n_experts=len(fits),
        typical=float(np.sqrt(np.average([one.typical**2 for one in fits], weights=[one.n_quantiles for one in fits]))),
    )
    warn_of_miss(fit)
    law = found[0][0] if len(found) == 1 else mixture_law([law for law, _ in found], share)
    own = with_intercept(answers.covariates, name=_INTERCEPT) if intercept else None
    return {
        "arms": as_labels(answers.arms, dim=ARM, size=len(answers.arms)),
        "features": answers.covariates if own is None else as_labels(own.features, dim=FEATURE, size=law.n_features),
        "groups": tuple(block.arms for block in law.blocks),
        "law": law,
        "source": None,
        "feature_map": own,
        "fit": fit,
    }


def _shares(answers: Answers, weights: Mapping[str, float] | None) -> FloatArray:
    if weights is None:
        return np.full(len(answers.experts), 1.0 / len(answers.experts))
    unknown = [name for name in weights if name not in answers.experts]
    missing = [name for name in answers.experts if name not in weights]
    if unknown or missing:
        raise BeliefError(
            f"weights must name the experts ({', '.join(answers.experts)}), each once; "
            + (f"'{unknown[0]}' is none of them." if unknown else f"'{missing[0]}' has none.")
        )
    share = np.array([float(weights[name]) for name in answers.experts])
    if not (np.isfinite(share).all() and (share >= 0).all() and share.sum() > 0):
        raise BeliefError(f"weights must be numbers of at least 0, and not all 0; got {dict(weights)!r}.")
    return share / share.sum()
