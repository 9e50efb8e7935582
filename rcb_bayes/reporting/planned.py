"""The plan, stage by stage."""

from typing import TYPE_CHECKING, Any

from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_wording import explored_words
from rcb_bayes.planning.stages import PlannedStage
from rcb_bayes.reporting.markup import Markup, join, table, tag
from rcb_bayes.reporting.pieces import bar, dot, prose, section
from rcb_bayes.reporting.sized import by_size
from rcb_bayes.telling.wording import brief, figure, percent

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
    return join(table(_stage_head(plan), _stage_rows(plan), class_="stack labelled"), tag("p", words, class_="note"))


def _by_arm(plan: Plan) -> Markup:
    rows = [
        [dot(k, arm), figure(plan.expected_pulls[k], plan.expected_pulls_mcse[k]), _coverage(plan, k)]
        for k, arm in enumerate(plan.arms)
    ]
    head = ["arm", "expected pulls", "coverage (least eigenvalue of X'X/N)"]
    explored = explored_words(plan)
    if explored is None:
        return table(head, rows)
    return table([*head, "explored"], [[*row, words] for row, words in zip(rows, explored, strict=True)])


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


def _stage_head(plan: Plan) -> list[str]:
    rate, explored = ("mean rate", "explored") if plan.personalised else ("largest rate", "explorable")
    return ["saturated arms", "cold starts", rate, explored, "free"]


def _stage_rows(plan: Plan) -> list[list[Any]]:
    found = sorted(plan.stages, key=lambda stage: -stage.share)
    shown = sorted(found[:_MOST_STAGES], key=lambda stage: (len(stage.saturated), -stage.share))
    rows: list[list[Any]] = [
        [
            _name(plan, stage),
            percent(stage.share),
            bar(stage.rate, figure(stage.rate, stage.rate_mcse)),
            percent(stage.share_explored),
            percent(stage.share_free),
        ]
        for stage in shown
    ]
    rest = found[_MOST_STAGES:]
    if rest:
        low, high = min(stage.rate for stage in rest), max(stage.rate for stage in rest)
        most = percent(rest[0].share)
        rows.append([f"and {len(rest)} more stages", f"{most} at most", f"{low:.3f} to {high:.3f}", "\u2013", "\u2013"])
    return rows


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


def _coverage(plan: Plan, k: int) -> str:
    value = plan.coverage[k]
    return figure(value, plan.coverage_mcse[k]) if value == value else "never saturated"
