"""Who can be explored, at the plan's epsilon and at others."""

from typing import TYPE_CHECKING, Any

from rcb_bayes.planning.plan import Plan
from rcb_bayes.reporting.groups import by_group
from rcb_bayes.reporting.markup import Markup, tag
from rcb_bayes.reporting.pieces import chart, prose, section
from rcb_bayes.telling.wording import figure, percent

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report


def slider(report: "Report") -> Markup | None:
    """The control that turns the figures below it to another epsilon; none where there is one."""
    values = [plan.epsilon for plan in report.sweep]
    if len(values) < 2:
        return None
    at = values.index(report.plan.epsilon)
    return tag(
        "div",
        tag("label", "Users put up with ", tag("b", "epsilon = ", tag("output", f"{values[at]:g}", id="epsilon-value")),
            for_="epsilon"),
        tag("input", type="range", id="epsilon", min="0", max=len(values) - 1, step="1", value=at,
            aria_valuetext=f"epsilon {values[at]:g}"),
        tag("button", f"back to {values[at]:g}", type="button", id="epsilon-reset", hidden=True),
        class_="slider no-print",
    )  # fmt: skip


def who(report: "Report", data: dict[str, Any]) -> Markup:
    """Who can be explored, at the plan's epsilon and at others."""
    plan = report.plan
    return section(
        "who",
        "Who can be explored",
        prose(_who(plan)),
        _map(report, data) if plan.personalised else None,
        tag("div", id="readout", class_="readout", aria_live="polite"),
        _curves(report) if len(report.sweep) > 1 else None,  # of one epsilon the line above tells all
        by_group(report),
    )


def _curves(report: "Report") -> Markup:
    """Rates and the length of the cold start over epsilon."""
    rows = [_sweep_row(one) for one in report.sweep]
    head = ["epsilon", "explored", "need no subsidy", "mean rate", "cold start (rounds)", "regret of the cold start"]
    return tag(
        "div",
        chart(
            "rates",
            "Users explored, and how often",
            alt=_over_epsilon(report, "exploration_rate", "The mean exploration rate"),
            note="Bands: ± 2 Monte Carlo errors. Plans of their own at each epsilon, with as many samples.",
            head=head,
            rows=rows,
        ),
        chart(
            "cold",
            "Expected cold start (rounds)",
            alt=_over_epsilon(report, "expected_cold_start", "The expected cold start in rounds"),
            note="Bands: ± 2 Monte Carlo errors. No line where no plan is feasible.",
            head=head[:1] + head[4:],
            rows=[row[:1] + row[4:] for row in rows],
        )
        if any(one.feasible for one in report.sweep)
        else None,
        class_="pair",
    )


def _who(plan: Plan) -> str:
    if plan.kind == "theorem":
        return f"Theorem 1 explores all users at one rate, {plan.exploration_rate:.3g}."
    if not plan.personalised:
        rate = figure(plan.exploration_rate, plan.exploration_rate_mcse)
        if plan.kind == "fixed":
            return f"One rate was given for all users: {rate}."
        return f"One rate serves all users, so the most reluctant of them sets it: {rate}."
    if not plan.feasible:
        return (
            f"At epsilon = {plan.epsilon:g} cold starts end before every arm has its samples, so nobody should be "
            "explored by this plan. Averaged over the stages they get to, "
            f"{percent(plan.share_explored)} of users have a rate."
        )
    # No differences of shares: rounded, they would not add up to what stands elsewhere on the page.
    everybody = plan.share_explored > 1 - 1e-9
    left = "Nobody is left out." if everybody else "The rest would lose too much by it, and are left alone."
    return (
        f"At epsilon = {plan.epsilon:g}, {percent(plan.share_explored)} of users are explored. Of all users "
        f"{percent(plan.share_free)} lose at most that by the promoted arm and are explored freely; the others "
        f"are explored at rates of their own, hidden among organic recommendations. {left}"
    )


def _map(report: "Report", data: dict[str, Any]) -> Markup:
    epsilons = [plan.epsilon for plan in report.sweep]
    rows = [[f"{epsilon:g}", *_shares(rates)] for epsilon, rates in zip(epsilons, data["map"]["rates"], strict=True)]
    own = rows[data["sweep"]["at"]]
    return chart(
        "map",
        "Exploration rate q of each user, averaged over stages",
        alt=(
            f"A map of {len(report.users)} users by two directions of their features. At epsilon {own[0]} {own[3]} "
            f"have the rate 1, {own[2]} a lower one and {own[1]} none."
        ),
        note=(
            "A dot is a user; hollow ones are explored less than once in 200 rounds."
            + (" Move the slider to see who joins at a larger epsilon." if len(rows) > 1 else "")
        ),
        head=["epsilon", "hardly or never", "at lower rates", "at the rate 1"],
        rows=rows,
    )


def _shares(rates: list[int]) -> list[str]:
    """Of rates in thousandths: the shares of none, of lower ones and of 1."""
    n = len(rates)
    never, always = sum(rate == 0 for rate in rates), sum(rate >= 1000 for rate in rates)
    return [percent(never / n), percent((n - never - always) / n), percent(always / n)]


def _sweep_row(plan: Plan) -> list[str]:
    if not plan.feasible:
        rate = figure(plan.exploration_rate, plan.exploration_rate_mcse)
        return [f"{plan.epsilon:g}", percent(plan.share_explored), percent(plan.share_free), rate, "not feasible", "-"]
    return [
        f"{plan.epsilon:g}",
        percent(plan.share_explored),
        percent(plan.share_free),
        figure(plan.exploration_rate, plan.exploration_rate_mcse),
        figure(plan.expected_cold_start, plan.expected_cold_start_mcse),
        figure(plan.expected_regret, plan.expected_regret_mcse),
    ]


def _over_epsilon(report: "Report", name: str, what: str) -> str:
    ends = [plan for plan in report.sweep if plan.feasible]
    if not ends:
        return f"{what}: no plan is feasible at any epsilon looked at."
    first, last = ends[0], ends[-1]
    return (
        f"{what} over epsilon: {figure(getattr(first, name), getattr(first, f'{name}_mcse'))} at {first.epsilon:g}, "
        f"{figure(getattr(last, name), getattr(last, f'{name}_mcse'))} at {last.epsilon:g}."
    )
