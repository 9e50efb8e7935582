"""Beliefs as files that people can read and edit: the answers they gave, and ``build_model`` to fit them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rcb_bayes.belief.answers import Answers

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
    """Answers as rows of a table, with their quantiles as ``q10``, ``q50`` and so on."""
    rows = []
    for one in answers.answers:
        head: dict[str, Any] = {"expert": one.expert, "arm": one.arm} | ({"rival": one.rival} if one.rival else {})
        users = dict(zip(answers.covariates, one.x, strict=True))
        told = {f"q{100.0 * p:.10g}": _short(q) for p, q in zip(one.levels, one.values, strict=True)}
        rows.append(head | users | told)
    return rows


def belief_text(answers: Answers, *, name: str, intercept: bool, link: str, weights: Mapping[str, float] | None) -> str:
    """The text of a belief file."""
    who = _listed(answers.experts)
    return _TEMPLATE.format(
        title=f"What {who} said of {_listed(answers.arms)}, by {_listed(answers.covariates)}.",
        name=name,
        answers="\n".join(f"    {_literal(row)}," for row in as_records(answers)),
        intercept=intercept,
        link=json.dumps(link),
        weights=_literal(dict(weights)) if weights else None,
    )


def _short(value: float) -> float:
    """Without the rounding error that arithmetic leaves."""
    return float(f"{value:.12g}")


def _literal(row: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{json.dumps(str(k))}: {_value(v)}" for k, v in row.items()) + "}"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _listed(names: Sequence[str]) -> str:
    shown = [" ".join(str(name).replace('"', "'").replace("\\", "/").split()) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
