"""The report as Markdown: the answer, its figures and what it rests on, for a notebook, an issue or a wiki."""

import re
from typing import TYPE_CHECKING

from rcb_bayes.planning.plan_wording import summary
from rcb_bayes.reporting.answer import parts
from rcb_bayes.reporting.data import margin_rows, run_regret
from rcb_bayes.reporting.followed import MARGINS, margin_table
from rcb_bayes.reporting.groups import GROUPS, groups, weights_of
from rcb_bayes.reporting.paying import bill_rows, bill_words
from rcb_bayes.reporting.protocol import paragraph
from rcb_bayes.reporting.sized import size_rows
from rcb_bayes.reporting.yardsticks import PLAN, YARDSTICKS, compared_words, yardstick_rows
from rcb_bayes.telling.wording import figure, percent

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report


def markdown(report: "Report") -> str:
    """The text."""
    blocks = [
        f"# May I explore here? {_escaped(report.market.prior.name)}",
        f"**{report.verdict}: {_escaped(report.answer.headline)}**",
        *(_escaped(sentence) for sentence in report.answer.sentences),
        _table(["question", "answer", ""], [list(row) for row in parts(report)]),
        _table(["", ""], [list(_halves(line)) for line in report.market.describe().splitlines()]),
        *_plan(report),
        *_margins(report),
        *_costs(report),
        "## The belief",
        _table(
            ["assumption", "verdict", "figure", "what it means"],
            [
                [check.name, check.verdict, figure(check.estimate, check.mcse), check.meaning]
                for check in (*([] if report.need is None else [report.need]), *report.checks)
            ],
        ),
        "## For a protocol or an ethics board",
        _escaped(paragraph(report)),
        *([] if not report.command else ["## To repeat it", f"```sh\n{report.command}\n```"]),
    ]
    return "\n\n".join(blocks) + "\n"


def _plan(report: "Report") -> list[str]:
    plan, verdict = report.plan, "" if report.audit is None else report.audit.verdict
    blocks = ["## The plan", "\n".join(f"- {_escaped(line)}" for line in summary(plan, audited=verdict).splitlines())]
    if plan.personalised:
        rows = [
            [one.feature, one.values, percent(one.share), f"{one.rate:.3f}", percent(one.explored)]
            for one in groups(plan, report.users, weights=weights_of(report))
        ]
        blocks += [_table(GROUPS, rows)] if rows else []
    if report.by_size is not None:
        blocks += ["Expected rounds of cold start, by samples of each arm (N):", _table(*size_rows(report.by_size))]
    return blocks


def _margins(report: "Report") -> list[str]:
    if report.audit is None:
        return []
    return ["## Would users follow?", _table(MARGINS, margin_table(margin_rows(report.audit)))]


def _costs(report: "Report") -> list[str]:
    if report.runs is None:
        return ["## What it costs", *_bill(report)] if report.payments is not None else []
    if report.yardsticks is None:
        table = _table([f"over {report.horizon:,} rounds", "regret"], [[PLAN, figure(*run_regret(report.runs))]])
        return ["## What it costs", table, *_bill(report)]
    table = _table([f"over {report.horizon:,} rounds", *YARDSTICKS[1:]], yardstick_rows(report.yardsticks))
    return ["## What it costs", table, compared_words(report.yardsticks), *_bill(report)]


def _bill(report: "Report") -> list[str]:
    if report.payments is None:
        return []
    rows = [list(row) for row in bill_rows(report.payments)]
    return [_escaped(bill_words(report.payments)), _table(["users are paid, and see all data", ""], rows)]


def _halves(line: str) -> tuple[str, str]:
    name, _, value = re.sub(r"\s{2,}", "\t", line, count=1).partition("\t")
    return name, value


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: object) -> str:
    return " ".join(_escaped(str(value)).replace("|", "\\|").split())


def _escaped(text: str) -> str:
    """Labels as text: nothing in them is markup."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)
