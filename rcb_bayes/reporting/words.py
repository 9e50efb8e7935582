"""The answer in words."""

import math
from dataclasses import dataclass

from rcb_bayes.auditing import Audit
from rcb_bayes.plan import Plan
from rcb_bayes.plots.audits import WorstCell, worst_cell
from rcb_bayes.wording import figure, percent

NOTIONS = {
    "user": "each user, knowing her own features and her recommendation, expects to lose at most epsilon by following",
    "proof": (
        "each user's expected loss by following, times the probability of the recommendation, is at most epsilon "
        "(the paper's proof, weaker than its definition)"
    ),
    "definition": "a user who knows her recommendation, but not her features, expects to lose at most epsilon",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The verdict, in a word, a headline and a few sentences."""

    verdict: str
    headline: str
    sentences: tuple[str, ...]


def answer_of(plan: Plan, audit: Audit | None, *, not_audited: str) -> Answer:
    """May I explore here?"""
    at = f"epsilon = {plan.epsilon:g}"
    if not plan.feasible:
        return Answer(verdict="fail", headline=f"No, not at {at}.", sentences=(plan.reason,))
    if audit is None:
        return Answer(
            verdict="inconclusive",
            headline="There is a plan; whether users follow it was not audited.",
            sentences=(not_audited, _takes(plan)),
        )
    worst = _worst(audit)
    if audit.verdict == "pass":
        whom = f"with {percent(plan.share_explored)} of users" if plan.personalised else "with all users, at one rate"
        return Answer(
            verdict="pass",
            headline=f"Yes, {whom}.",
            sentences=(
                f"In {audit.n_worlds:,} fresh worlds of their own belief none of the {audit.margins.sizes['user']} "
                f"users of the panel would lose more than {at} by following, at any stage.",
                _takes(plan),
            ),
        )
    if audit.verdict == "fail":
        return Answer(
            verdict="fail",
            headline="Not as planned: some users would not follow.",
            sentences=(
                _loss(worst),
                f"{_followers(audit)} of users at random would follow at every stage, by the point estimates. "
                "A guard, a larger epsilon or a plan for more worlds of audit can mend it.",
            ),
        )
    return Answer(
        verdict="inconclusive",
        headline="Perhaps: the simulations cannot tell.",
        sentences=(
            _loss(worst),
            f"{_followers(audit)} of users at random would follow at every stage, by the point estimates. "
            "More worlds would tell: the bounds are too wide, or too few worlds have the arm as the best one.",
        ),
    )


def _takes(plan: Plan) -> str:
    length = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    ends = math.isfinite(plan.expected_cold_start)
    how_long = f"about {length} rounds" if ends else "a cold start without end"
    return f"It takes {plan.n_per_arm:,} samples of each of {len(plan.arms)} arms and {how_long}."


def _worst(audit: Audit) -> tuple[str, WorstCell] | None:
    """The stage with the worst cell, and that cell."""
    order = ("pass", "inconclusive", "fail")
    cells = [
        (str(stage), cell)
        for stage in audit.margins["stage"].values
        if (cell := worst_cell(audit.margins.sel(stage=stage), epsilon=audit.epsilon)) is not None
    ]
    return max(cells, key=lambda item: (order.index(item[1].verdict), -item[1].estimate), default=None)


def _loss(worst: tuple[str, WorstCell] | None) -> str:
    if worst is None:
        return "No stage could be judged."
    stage, cell = worst
    return (
        f"Worst at the stage '{stage}': {cell.arm} in the place of {cell.rival} leaves a user at {cell.estimate:.3g} "
        f"(bounds {cell.lower:.3g} to {cell.upper:.3g})."
    )


def _followers(audit: Audit) -> str:
    return percent(float(audit.compliance["share"].sel(epsilon=audit.epsilon, method="nearest")))
