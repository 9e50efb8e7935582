"""What users know: the cold start for those who know more or less of the clock."""

from typing import TYPE_CHECKING, Any

from rcb_bayes.mechanism.knowledge import as_knowledge
from rcb_bayes.reporting.markup import Markup
from rcb_bayes.reporting.pieces import chart, prose, section
from rcb_bayes.telling.wording import figure, percent

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.reporting.result import Report

_FIGURES = ("expected_cold_start", "expected_regret", "exploration_rate")


def known(report: "Report") -> Markup:
    """The section on what users know."""
    prices = report.knowledge
    words = as_knowledge(report.plan.knows).words
    return section(
        "known",
        "What users know",
        prose(
            f"The plan is for users who know {words}. It satisfies those who know less, too. A plan of their own may "
            "be shorter: the slack of one moment pays for another that they cannot tell from it. What is published of "
            "the clock is the platform's choice."
        ),
        prose("Not compared with plans for users who know more or less.")
        if prices is None
        else _prices(prices, n_own=report.plan.n_worlds),
    )


def figures_of(found: "xr.Dataset") -> list[dict[str, Any]]:
    """Every figure at each of the coordinates, as plain values."""
    return found.reset_coords(drop=True).to_dataframe().reset_index().to_dict("records")


def _prices(prices: "xr.Dataset", *, n_own: int) -> Markup:
    found = figures_of(prices)
    n_worlds = prices.attrs["n_worlds"]
    if not any(one["feasible"] for one in found):
        whom = ", ".join(str(one["knows"]) for one in found)
        return prose(f"With {n_worlds:,} worlds no plan is found, whatever users know of the clock ({whom}).")
    rows = [_row(one) for one in found]
    lengths = "; ".join(f"{row[0]}: {row[1]}" for row in rows)
    n = prices.attrs["n_per_arm"]
    fewer = " Fewer worlds than the plan's make for more cautious rates: compare these with one another."
    told = f"N = {n if isinstance(n, str) else f'{n:,}'}, {n_worlds:,} worlds.{fewer if n_worlds < n_own else ''}"
    return chart(
        "knowledge",
        "Rounds of cold start, by what users know",
        alt=f"Expected rounds of cold start by what users know: {lengths}.",
        note=(
            f"{told} Whiskers: ± 2 Monte Carlo errors; in the table ± is one. A user who knows nothing of the clock "
            f"may be in any of {prices.attrs['horizon']:,} rounds."
        ),
        head=["users know", "cold start", "regret of the cold start", "mean rate", "explored"],
        rows=rows,
    )


def _row(one: dict[str, Any]) -> list[str]:
    name = f"{as_knowledge(one['knows']).words} ({one['knows']})"
    if not one["feasible"]:
        return [name, "not feasible", "\u2013", "\u2013", "\u2013"]
    return [name, *(figure(one[key], one[f"{key}_mcse"]) for key in _FIGURES), percent(one["share_explored"])]
