"""What it costs: regret, gain and samples of the runs."""

from typing import TYPE_CHECKING, Any

from rcb_bayes.reporting.data import run_regret
from rcb_bayes.reporting.markup import Markup, table, tag
from rcb_bayes.reporting.paying import bill_rows, bill_words
from rcb_bayes.reporting.pieces import chart, plain, prose, section
from rcb_bayes.reporting.yardsticks import YARDSTICKS, compared_words, yardstick_rows
from rcb_bayes.running.need import mean_of
from rcb_bayes.telling.wording import figure

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.reporting.result import Report


def cost(report: "Report", data: dict[str, Any]) -> Markup:
    """The section on the runs."""
    if report.runs is None:
        return section("cost", "What it costs", prose("Not run: the plan is not feasible."), *_bill(report))
    regret = data["regret"]
    end = cold_start_words(report.runs)
    last = figure(*run_regret(report.runs))
    many = "one world" if regret["n"] == 1 else f"{regret['n']:,} worlds"
    return section(
        "cost",
        "What it costs",
        prose(
            f"The plan run in {many} of {report.horizon:,} rounds. The cold start {end}; the regret of a whole "
            f"run is {last}, against the best arm for each user, in units of the reward."
        ),
        None if report.yardsticks is None else _yardsticks(report.yardsticks),
        *_bill(report),
        _regret(regret, alt=f"Cumulative regret over {report.horizon:,} rounds reaches {last}; the cold start {end}."),
        tag("div", _gain(data["gain"]), _samples(data["arms"], data["samples"]), class_="pair"),
    )


def cold_start_words(runs: "xr.Dataset") -> str:
    """When the cold start ended, over the worlds in which it did, and in how many it did not."""
    lengths = runs["cold_start_length"].values.astype(float)
    ended = lengths[lengths >= 0]
    if not len(ended):
        return "did not end"
    told = f"ended after {figure(*mean_of(ended))} rounds on average"
    late = len(lengths) - len(ended)
    return f"{told}, and in {late:,} of {len(lengths):,} worlds not at all" if late else told


def _yardsticks(found: "xr.Dataset") -> Markup:
    rows = yardstick_rows(found)
    return chart(
        "yardsticks",
        "Regret of a whole run, beside what needs no plan",
        alt=f"Regret over {found.attrs['horizon']:,} rounds: {'; '.join(f'{row[0]} {row[1]}' for row in rows)}.",
        note=f"{compared_words(found)} Whiskers: ± 2 standard errors; in the table ± is one.",
        head=YARDSTICKS,
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
        note=(
            "Mean over windows of rounds and over worlds, ± 2 standard errors. These are gains by the data that the "
            "platform has, and no user's margin: what is held against epsilon stands under 'Would users follow?'."
        ),
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
