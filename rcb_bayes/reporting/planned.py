"""The plan, stage by stage."""

from typing import TYPE_CHECKING, Any

from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_wording import arm_table, stage_table
from rcb_bayes.planning.stages import PlannedStage
from rcb_bayes.reporting.markup import Markup, join, table, tag
from rcb_bayes.reporting.pieces import bar, dot, prose, section
from rcb_bayes.reporting.sized import by_size
from rcb_bayes.telling.wording import brief, figure

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report

_MOST_STAGES = 12
_LONG = 90  # letters


def stages(report: "Report") -> Markup:
    """The plan, stage by stage and arm by arm, and the theorem's beside it."""
    plan = report.plan
    return section(
        "plan",
        "The plan, stage by stage",
        prose(
            f"The most popular arm comes first. A stage ends when one more arm has its {_samples(plan)}; "
            "organic rounds in between hide who is being explored."
        ),
        _by_stage(plan) if plan.stages else None,
        _by_arm(plan) if plan.coverage else None,
        by_size(report.by_size),
        *(prose(note) for note in plan.notes),
        _theorem(report),
    )


def _by_stage(plan: Plan) -> Markup:
    words = (
        "Cold starts: the share that passes the stage. Explored: users who are explored at all. "
        "Free: those who lose at most epsilon by it."
    )
    head, found = stage_table(plan, most=_MOST_STAGES)
    rows: list[list[Any]] = [
        cells if stage is None else [_name(plan, stage), cells[1], bar(stage.rate, cells[2]), *cells[3:]]
        for stage, cells in found
    ]
    return join(table(head, rows, class_="stack labelled"), tag("p", words, class_="note"))


def _by_arm(plan: Plan) -> Markup:
    head, rows = arm_table(plan)
    return table(head, [[dot(k, row[0]), *row[1:]] for k, row in enumerate(rows)])


def _samples(plan: Plan) -> str:
    agenda = plan.agenda
    return f"samples (N is {agenda.words})" if isinstance(agenda.n_per_arm, tuple) else f"{agenda.words} samples"


def _theorem(report: "Report") -> Markup | None:
    beside = report.theorem
    if beside is None or report.plan.kind == "theorem":
        return None
    length = figure(beside.expected_cold_start, beside.expected_cold_start_mcse)
    return prose(
        f"For comparison, Theorem 1 with the tau and rho found here asks for N = {beside.n_per_arm:,} samples of "
        f"each arm and a cold start of {length} rounds, at one rate for all users. It promises epsilon in the sense "
        f"'{beside.notion}', and speaks with probability rho rho* = {brief(beside.guarantee_probability)}."
    )


def _name(plan: Plan, stage: PlannedStage) -> str:
    """The saturated arms, or how many they are where their names would fill the page."""
    name = plan.stage_name(stage)
    if len(name) <= _LONG:
        return name
    rest = [arm for arm in plan.arms if arm not in stage.saturated]
    brief = f"all but {', '.join(rest)}"
    # Arms that are alike stand for one another: which of them is left over is not said.
    apart = all(len(arms) == 1 for arms in plan.alike)
    return brief if apart and len(brief) <= _LONG else f"{len(stage.saturated)} of {len(plan.arms)} arms"
