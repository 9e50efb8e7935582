"""Would users follow? Margins by stage and by pair of arms, and the share of users who would."""

import math
from typing import TYPE_CHECKING, Any

from rcb_bayes.auditing import Audit
from rcb_bayes.mechanism.deciding import FIGURES, deciding_cell
from rcb_bayes.reporting.data import short
from rcb_bayes.reporting.markup import Markup, join, table, tag
from rcb_bayes.reporting.pieces import SIGNS, chart, dot, plain, prose, section
from rcb_bayes.reporting.words import averages, knowing, panel
from rcb_bayes.telling.wording import percent

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report

MARGINS = ["stage", "verdict", "arm", "rival", "margin", "± one error", "lower", "upper"]
_MOST_ARMS = 12  # of a matrix
_BESIDE = 4  # arms of a matrix that stands beside the chart


def follow(report: "Report", data: dict[str, Any]) -> Markup:
    """The section on the audit."""
    audit = report.audit
    if audit is None:
        return section("follow", "Would users follow?", prose(f"Not audited. {report.not_audited}"))
    matrix = _matrix(audit, report.plan.arms, data["matrix"]) if len(report.plan.arms) <= _MOST_ARMS else None
    return section(
        "follow",
        "Would users follow?",
        prose(
            f"{audit.n_worlds:,} fresh worlds a stage, {panel(audit, report.market.covariates)}. A margin is what a "
            "user expects of the recommended arm beyond a rival, given that it was recommended; down to minus epsilon "
            "she follows."
        ),
        *(prose(f"{note[:1].upper()}{note[1:]}.") for note in audit.notes),
        _margins(audit, data["margins"]),
        tag("div", _compliance(audit, data["compliance"]), matrix, class_="pair")
        if len(report.plan.arms) <= _BESIDE
        else join(_compliance(audit, data["compliance"]), matrix),
    )


def margin_table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The deciding cell of each stage in words, under ``MARGINS``."""
    return [[*(row[name] for name in MARGINS[:4]), *(plain(row[name]) for name in FIGURES)] for row in rows]


def _margins(audit: Audit, rows: list[dict[str, Any]]) -> Markup:
    worst = deciding_cell(audit.margins)
    least = (
        "" if worst is None else f" The one that decides is {plain(short(worst.estimate))}, at the stage {worst.stage}."
    )
    return chart(
        "margins",
        "Lowest margin of each stage, with its simultaneous bounds",
        alt=f"The lowest margin of {len(rows)} stages against minus epsilon = {-audit.epsilon:g}.{least}",
        note=(
            "A cell passes if its lower bound clears minus epsilon, or if the constraint held in every world; rare "
            "recommendations have wide bounds. Shown is the lowest cell with the stage's worst verdict."
        ),
        head=MARGINS,
        rows=margin_table(rows),
    )


def _compliance(audit: Audit, found: dict[str, list[float]]) -> Markup:
    at = float(audit.compliance["share"].sel(epsilon=audit.epsilon, method="nearest"))
    points = list(zip(found["epsilon"], found["share"], found["error"], strict=True))
    return chart(
        "compliance",
        "Users who would follow this plan",
        alt=f"The share of users at random who would follow, over epsilon: {percent(at)} at {audit.epsilon:g}.",
        note=f"At every stage, by the point estimates{knowing(audit).rstrip(',')}. Band: ± 2 standard errors.",
        head=["epsilon", "share ± one error"],
        rows=[[plain(epsilon), percent(share, error)] for epsilon, share, error in points[::10]],
    )


def _matrix(audit: Audit, arms: tuple[str, ...], cells: list[list[Any]]) -> Markup:
    over = "all stages" if averages(audit) else "all stages and users of the panel"
    places = _places(cells)
    rows = [
        [dot(i, arm), *("" if cell is None else _cell(cell, places) for cell in row)]
        for i, (arm, row) in enumerate(zip(arms, cells, strict=True))
    ]
    return tag(
        "figure",
        tag("figcaption", "Lowest margin, recommended arm by rival"),
        table(
            ["arm, by rival", *map(str, audit.margins["rival"].values)],
            rows,
            class_="matrix",
            columns=len(arms),
        ),
        tag(
            "p",
            f"Over {over}; of the cells with the worst verdict (? inconclusive, ✕ fail).",
            class_="note",
        ),
        class_="figure",
    )


def _places(cells: list[list[Any]]) -> int:
    """Decimals that tell the largest margin to three digits: one number for all, so that they compare."""
    largest = max((abs(cell["estimate"]) for row in cells for cell in row if cell is not None), default=0.0)
    return 3 if largest == 0.0 or not math.isfinite(largest) else min(max(2 - math.floor(math.log10(largest)), 0), 6)


def _cell(cell: dict[str, Any], places: int) -> Markup:
    verdict, value = cell["verdict"], cell["estimate"]
    sign = "" if verdict == "pass" else f"{SIGNS[verdict]} "
    told = f"{value:z.{places}f}".replace("-", "\N{MINUS SIGN}") if math.isfinite(value) else plain(value)
    return tag("span", sign, told, class_=verdict, title=verdict)
