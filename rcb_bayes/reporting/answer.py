"""The top of a page: the question, the verdict, and the question's parts with their figures."""

import re
from typing import TYPE_CHECKING, Any

from rcb_bayes.mechanism.decisions import ORGANIC, PROMOTED
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.reporting.data import run_regret
from rcb_bayes.reporting.markup import Markup, tag
from rcb_bayes.reporting.pieces import badge, facts, parameters, prose
from rcb_bayes.reporting.words import followers
from rcb_bayes.telling.wording import brief, figure, how_often, percent, times

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
    if not plan.feasible:
        at = f"at epsilon = {plan.epsilon:g}"
        if report.verdict == "inconclusive":
            return [*_need(report), ("With whom?", "not known", f"{plan.n_worlds:,} worlds do not tell {at}")]
        return [*_need(report), ("With whom?", "nobody", f"the plan is not feasible {at}")]
    whom = percent(plan.share_explored) if plan.personalised else "all users"
    length = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    share = times(plan.expected_cold_start / report.horizon)
    rows: list[tuple[str, Any, Any]] = [
        *_need(report),
        ("With whom?", whom, f"{percent(plan.share_free)} need no subsidy" if plan.kind == "sampled" else ""),
        ("How often?", *_how_often(report)),
        ("How many samples?", f"N = {plan.agenda.words}", f"of each of {len(plan.arms)} arms"),
        ("For how long?", length, f"rounds, {share} of {report.horizon:,}"),
    ]
    if runs is not None:
        total = figure(*run_regret(runs))
        words = f"regret of a whole run, {report.horizon:,} rounds, in units of the reward"
        rows.append(("At what cost?", total, words))
    if audit is not None:
        rows.append(("Would they follow?", *followers(audit)))
    return rows


def _how_often(report: "Report") -> tuple[str, str]:
    """The runs' explored rounds over rounds, and the mean rate; one rate for all by itself.

    The mean of rates is no share of rounds: slow stages have more of them.
    """
    plan = report.plan
    rate, error = plan.exploration_rate, plan.exploration_rate_mcse
    if not plan.personalised:
        return how_often(rate, error), f"q = {figure(rate, error)}, once an arm has its samples"
    found = explored_rounds(report)
    told = f"mean rate q = {figure(rate, error)}, over users and stages alike"
    if found is None:
        return f"q = {figure(rate, error)}", "the mean over users and stages"
    share, share_mcse, explored, rounds = found
    words = f"explored rounds are {brief(explored)} of {brief(rounds)} once an arm has its samples; {told}"
    return how_often(share, share_mcse), words


def explored_rounds(report: "Report") -> tuple[float, float, float, float] | None:
    """The share of rounds that explore, once an arm is saturated, with its error, and both counts of a run.

    The share of all runs together; None without runs or where none gets there.
    """
    if report.runs is None:
        return None
    kinds = report.runs["stage"].transpose("world", "t").values
    every = report.horizon / report.runs.sizes["t"]
    explored = every * (kinds == PROMOTED).sum(axis=1)
    rounds = explored + every * (kinds == ORGANIC).sum(axis=1)
    if not rounds.any():
        return None
    share = float(explored.sum() / rounds.sum())
    n = len(rounds)
    error = (explored - share * rounds).std(ddof=1) / (n**0.5 * rounds.mean()) if n > 1 else 0.0
    return share, float(error), float(explored.mean()), float(rounds.mean())
