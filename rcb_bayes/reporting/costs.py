"""What it costs: regret, gain and samples of the runs."""

from typing import TYPE_CHECKING, Any

from rcb_bayes.reporting.data import run_regret
from rcb_bayes.reporting.markup import Markup, table, tag
from rcb_bayes.reporting.paying import bill_rows, bill_words
from rcb_bayes.reporting.pieces import chart, plain, prose, section
from rcb_bayes.reporting.yardsticks import told
from rcb_bayes.telling.wording import figure

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report


def cost(report: "Report", data: dict[str, Any]) -> Markup:
    """The section on the runs."""
    if report.runs is None:
        return section("cost", "What it costs", prose("Not run: the plan is not feasible."), *_bill(report))
    regret = data["regret"]
    end = "did not end" if regret["end"] is None else f"ended after {regret['end']:,.0f} rounds on average"
    last = figure(*run_regret(report.runs))
    many = "one world" if regret["n"] == 1 else f"{regret['n']:,} worlds"
    return section(
        "cost",
        "What it costs",
        prose(
            f"The plan run in {many} of {report.horizon:,} rounds. The cold start {end}; the regret of a whole "
            f"run is {last}, against the best arm for each user."
        ),
        None if report.yardsticks is None else _yardsticks(report),
        *_bill(report),
        _regret(regret, alt=f"Cumulative regret over {report.horizon:,} rounds reaches {last}; the cold start {end}."),
        tag("div", _gain(data["gain"]), _samples(data["arms"], data["samples"]), class_="pair"),
    )


def _yardsticks(report: "Report") -> Markup:
    assert report.runs is not None  # asked for where it is
    assert report.yardsticks is not None
    rows = [[name, figure(*more)] for name, *more in told(report.yardsticks, own=run_regret(report.runs))]
    return chart(
        "yardsticks",
        "Regret of a whole run, beside what needs no plan",
        alt=f"Regret over {report.horizon:,} rounds: {'; '.join(f'{name} {value}' for name, value in rows)}.",
        note=(
            "Greedy recommends what looks best so far, and learns by luck. A favourite is the arm that a user expects "
            "most of before any data. Everybody follows either of the two. Whiskers: ± 2 standard errors."
        ),
        head=["", "regret"],
        rows=rows,
    )


def _bill(report: "Report") -> list[Markup]:
    """What paying users would cost instead."""
    if report.payments is None:
        return []
    rows: list[list[Any]] = [list(row) for row in bill_rows(report.payments)]
    return [prose(bill_words(report.payments)), table(["users are paid, and see all data", ""], rows)]


def _regret(regret: dict[str, Any], *, alt: str) -> Markup:
    n = len(regret["t"])
    some = sorted({*range(0, n, max(1, n // 10)), n - 1})
    return chart(
        "regret",
        "Cumulative regret",
        alt=alt,
        note="The mean over worlds, ± 2 standard errors; thin lines are single worlds."
        if regret["n"] > 1
        else "One world.",
        head=["round", "regret", "± one error"],
        rows=[[f"{regret['t'][k]:,}", plain(regret["mean"][k]), plain(regret["error"][k])] for k in some],
    )


def _gain(gain: dict[str, Any]) -> Markup:
    points = zip(gain["t"], gain["mean"], gain["error"], strict=True)
    return chart(
        "gain",
        "Realised gain over the best rival",
        alt=(
            "What the platform expects of the recommended arm beyond its best rival, over rounds: "
            f"{plain(gain['mean'][0])} at first, {plain(gain['mean'][-1])} at the end."
        ),
        note="Mean over windows of rounds and over worlds, ± 2 standard errors.",
        head=["about round", "gain", "± one error"],
        rows=[[plain(t), plain(mean), plain(error)] for t, mean, error in points],
    )


def _samples(arms: list[str], samples: dict[str, Any]) -> Markup:
    points = list(zip(arms, samples["mean"], samples["error"], strict=True))
    return chart(
        "samples",
        "Samples of each arm by the end",
        alt="Samples of each arm: " + ", ".join(f"{arm} {value:,.0f}" for arm, value, _ in points) + ".",
        note="Mean over worlds, ± 2 standard errors. N of each come from the cold start, whose organic rounds do not "
        "count; the rest are rounds of exploitation.",
        head=["arm", "samples", "± one error"],
        rows=[[arm, f"{value:,.0f}", plain(error)] for arm, value, error in points],
    )
