"""Beliefs as files that people can read and edit: the answers they gave, and ``build_model`` to fit them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rcb_bayes.belief.answers import ARM, EXPERT, LEVEL, RIVAL, VALUE, Answers
from rcb_bayes.schema import seen

_TEMPLATE = '''"""{title}

Written by `rcb elicit`, to be read and edited: ANSWERS are what people said, quantiles of what an arm gives to users of
one kind (against its rival, where there is one: how much more it gives). Use it wherever a belief is asked for,
`rcb check {name}` or `rcb.load_prior("{name}")`.
"""

import rcb_bayes as rcb

ANSWERS = [
{answers}
]
INTERCEPT = {intercept}  # a coefficient of 1 for everybody, beside those of the covariates
LINK = {link}  # "logit" where quantiles are chances and rewards 0/1
WEIGHTS = {weights}  # of the experts, by name; None for equal ones


def build_model() -> rcb.Prior:
    """The Gaussian belief whose quantiles are nearest to the answers; several experts are a mixture."""
    return rcb.Prior.from_quantiles(ANSWERS, intercept=INTERCEPT, link=LINK, weights=WEIGHTS)
'''


def as_records(answers: Answers) -> list[dict[str, Any]]:
    """Answers as rows of a table: quantiles as ``q10``, ``q50`` and so on, or rows with ``level`` and ``value`` where
    levels are not as round as that.
    """
    rows = []
    is_round = all(_is_round(level) for one in answers.answers for level in one.levels)
    for one in answers.answers:
        head: dict[str, Any] = {EXPERT: one.expert, ARM: one.arm} | ({RIVAL: one.rival} if one.rival else {})
        head |= dict(zip(answers.covariates, one.x, strict=True))
        short = [float(f"{value:.12g}") for value in one.values]  # without the rounding error that arithmetic leaves
        rise = (np.diff(short) > 0).all()
        told = list(zip(one.levels.tolist(), short if rise else one.values.tolist(), strict=True))
        if is_round:
            rows.append(head | {f"q{100.0 * level:g}": value for level, value in told})
        else:
            rows += [head | {LEVEL: level, VALUE: value} for level, value in told]
    return rows


def _is_round(level: float) -> bool:
    """Whether a level is one of q1 to q99, or .5 between them and the like."""
    return abs(100.0 * level - float(f"{100.0 * level:.4g}")) < 1e-12 and level > 1e-5


def belief_text(answers: Answers, *, name: str, intercept: bool, link: str, weights: Mapping[str, float] | None) -> str:
    """The text of a belief file."""
    who = _listed(answers.experts)
    return _TEMPLATE.format(
        title=f"What {who} said of {_listed(answers.arms)}, by {_listed(answers.covariates)}.",
        name=_listed([name]),
        answers="\n".join(f"    {_literal(row)}," for row in as_records(answers)),
        intercept=intercept,
        link=json.dumps(link),
        weights=_literal(dict(weights)) if weights else None,
    )


def _literal(row: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{_value(str(k))}: {_value(v)}" for k, v in row.items()) + "}"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _listed(names: Sequence[str]) -> str:
    """Names as a docstring may have them: nothing in them ends it."""
    shown = [" ".join(seen(name).replace('"', "'").replace("\\", "/").split()) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
