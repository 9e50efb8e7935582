"""The top of a page: the question, the verdict, and the question's parts with their figures."""

import re
from typing import TYPE_CHECKING, Any

from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.reporting.data import run_regret
from rcb_bayes.reporting.markup import Markup, tag
from rcb_bayes.reporting.pieces import badge, facts, parameters, prose
from rcb_bayes.reporting.words import knowing
from rcb_bayes.telling.wording import figure, percent, times

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report


def top(report: "Report") -> Markup:
    """The question, the verdict, and the question's parts with their figures."""
    answer, plan = report.answer, report.plan
    meaning = as_notion(plan.notion).meaning
    market = [tuple(re.split(r"\s{2,}", line, maxsplit=1)) for line in report.market.describe().splitlines()]
    return tag(
        "header",
        tag("p", f"{report.market.prior.name} · {len(plan.arms)} arms", class_="eyebrow"),
        tag("h1", "May I explore here?"),
        tag(
            "p",
            "With whom, how often, with how many samples, for how long, at what cost in regret, and would users who "
            "know the mechanism follow?",
            class_="lead",
        ),
        tag(
            "div",
            badge(answer.verdict),
            tag("p", answer.headline, class_="headline"),
            *(prose(sentence) for sentence in answer.sentences),
            class_=f"verdict {answer.verdict}",
        ),
        facts(parts(report)),
        parameters([(name, value) for name, value in market]),
        prose(f"Users put up with epsilon = {plan.epsilon:g} in the sense '{plan.notion}': {meaning}. "),
        prose("Every figure is a Monte Carlo estimate; ± is one error unless said otherwise."),
    )


def _need(report: "Report") -> list[tuple[str, Any, Any]]:
    """The first question: would greedy do?"""
    need = report.need
    if need is None:
        return []
    told = {"pass": "no", "fail": "yes", "inconclusive": "too close to tell"}[need.verdict]
    share = percent(need.estimate, need.mcse)
    return [("Need I explore at all?", told, f"greedy leaves an arm that matters untried in {share} of worlds")]


def parts(report: "Report") -> list[tuple[str, Any, Any]]:
    """The question's parts: each with its figure and a word on it."""
    plan, runs, audit = report.plan, report.runs, report.audit
    whom = percent(plan.share_explored) if plan.personalised else "all users" if plan.feasible else "nobody"
    rate = figure(plan.exploration_rate, plan.exploration_rate_mcse)
    often = f"once in {figure(plan.inverse_rate, plan.inverse_rate_mcse)} rounds" if plan.exploration_rate > 0 else ""
    length = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    share = times(plan.expected_cold_start / report.horizon)
    if not plan.feasible:
        return [*_need(report), ("With whom?", "nobody", f"the plan is not feasible at epsilon = {plan.epsilon:g}")]
    rows: list[tuple[str, Any, Any]] = [
        *_need(report),
        ("With whom?", whom, f"{percent(plan.share_free)} need no subsidy" if plan.kind == "sampled" else ""),
        ("How often?", f"q = {rate}", often),
        ("How many samples?", f"N = {plan.agenda.words}", f"of each of {len(plan.arms)} arms"),
        ("For how long?", length, f"rounds, {share} of {report.horizon:,}"),
    ]
    if runs is not None:
        total = figure(*run_regret(runs))
        rows.append(("At what cost?", total, f"regret of a whole run, {report.horizon:,} rounds"))
    if audit is not None:
        at = audit.compliance.sel(epsilon=audit.epsilon, method="nearest")
        share = percent(float(at["share"]), float(at["share_mcse"]))
        rows.append(("Would they follow?", share, f"of users{' at random' if audit.n_random else ''}{knowing(audit)}"))
    return rows
