"""``rcb check``: does exploration need incentives, the four assumptions, and the chance of the least liked arms."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from rcb_bayes.cli.market import MarketWords, PriorArgument, with_words
from rcb_bayes.cli.options import (
    JsonOption,
    OutOption,
    SeedOption,
    WorkersOption,
    as_options,
    is_stdout,
    write_figure,
    write_json,
)
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, no_such
from rcb_bayes.telling.wording import figure, percent

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.gaps.assumptions import Check, Checks

_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
_STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow"}

_MOST_ALIKE = 4  # arms with the same figures, beyond which they share a line
_SCHEDULES = ("none", "log", "sqrt", "linear")  # as the checks have them, which are not loaded for --help


def _check_rho(rho: float) -> float:
    if not 0.0 < rho <= 1.0:
        raise RcbError(f"rho is a probability above 0 and at most 1, got {rho}.")
    return rho


def _check_inflation(name: str | None) -> str | None:
    if name is not None and name not in _SCHEDULES:
        raise no_such("schedule", name, _SCHEDULES)
    return name


@with_words
def command(
    context: typer.Context,
    prior: PriorArgument,
    words: MarketWords,
    n_per_arm: Annotated[int | None, typer.Option("--n-per-arm", min=1, help="Samples an arm; or by rewards.")] = None,
    tau: Annotated[float | None, typer.Option("--tau", help="Gap of Assumptions 1 and 2; else by rewards.")] = None,
    rho: Annotated[float, typer.Option("--rho", callback=_check_rho, help="The probability that they ask for.")] = 0.01,
    inflation: Annotated[
        str | None,
        typer.Option(
            "--inflation",
            callback=_check_inflation,
            help="How users' priors are declared to loosen: none, log, sqrt or linear.",
        ),
    ] = None,
    worlds: Annotated[
        int, typer.Option("--check-worlds", "--worlds", min=2, help="Simulated worlds behind each figure.")
    ] = 2000,
    need: Annotated[
        bool,
        typer.Option("--need/--no-need", help="Whether greedy, which needs no incentives, suffices."),
    ] = True,
    horizon: Annotated[int, typer.Option("--horizon", min=1, help="Rounds of greedy.")] = DEFAULT_HORIZON,
    workers: WorkersOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Check the paper's assumptions on a belief: exit 0 pass, 1 fail, 3 inconclusive.

    The first line tells whether exploration has to be incentivised at all. The verdict is that of Assumptions 1 to 3;
    the fourth is about users' behaviour over time, and declared.
    """
    from rcb_bayes.gaps.assumptions import check_stages
    from rcb_bayes.gaps.estimation import gaps_at
    from rcb_bayes.gaps.stages import Stages
    from rcb_bayes.mechanism.length import saturated_sets
    from rcb_bayes.running.need import check_need

    market = words.market(prior)
    stages = Stages(market, n_per_arm=n_per_arm, n_worlds=worlds, workers=workers, seed=seed)
    checks = check_stages(stages, tau=tau, rho=rho, inflation=inflation)
    sets = saturated_sets(market, n_per_arm=stages.n_per_arm, seed=seed)
    first, share = next((arms[0], share) for arms, share in sets.items() if len(arms) == 1)  # the usual first one
    gaps = gaps_at(stages, [market.arms[first]])
    verdict = checks.verdict
    source = context.get_parameter_source("worlds")
    asked = (
        worlds if source is not None and source.name == "COMMANDLINE" else None
    )  # else as many as take sensible time
    first_check = check_need(market, horizon=horizon, n_worlds=asked, seed=seed) if need else None
    write_json(_as_json(checks, gaps, first_check, seed=seed), json_file)
    if not is_stdout(json_file):
        typer.echo(market.describe() + "\n")
        print_checks([*([] if first_check is None else [first_check]), *checks])
        _print_gaps(gaps, market.arms[first], share=share, samples=stages.told_samples)
        Console().print(f"\nVerdict of assumptions 1 to 3: [{_STYLES[verdict]}]{verdict}[/]")
    if out is not None:
        _save_figure(gaps, out, quiet=is_stdout(json_file))
    raise typer.Exit(_CODES[verdict])


def print_checks(checks: "Iterable[Check]") -> None:
    """Every check with its verdict and figure, and below it what that means and what to do."""
    console = Console(highlight=False)
    for check in checks:
        value = figure(check.estimate, check.mcse)
        asked = f", {check.asked}" if check.asked else ""
        console.print(f"[bold]{check.name}[/]: [{_STYLES[check.verdict]}]{check.verdict}[/]  {value}{asked}")
        console.print(Padding(escape(as_options(f"{check.meaning} {check.remedy}".strip())), (0, 0, 0, 3)))


def _print_gaps(gaps: "xr.Dataset", first: str, *, share: float, samples: str) -> None:
    typer.echo(f"\nGaps over {first} with {samples} (± one Monte Carlo error), the arm that is most")
    typer.echo(f"often saturated first, in {percent(share)} of simulated cold starts:")
    table = Table(box=None, pad_edge=False)
    for title in ("arm", "rho+ = Pr(G > 0)", "A = E[max(G, 0)]", "best tau", "rho(best tau)"):
        table.add_column(escape(title), justify="left" if title == "arm" else "right", no_wrap=title == "arm")
    rows: dict[tuple[str, ...], list[str]] = {}
    for arm in gaps["arm"].values:
        row = gaps.sel(arm=arm)
        told = (
            f"{row['prob_positive'].item():.3f} ± {row['prob_positive_mcse'].item():.3f}",
            f"{row['expected_gain'].item():.4f} ± {row['expected_gain_mcse'].item():.4f}",
            f"{row['best_tau'].item():.3f} ± {row['best_tau_mcse'].item():.3f}",
            f"{row['best_rho'].item():.3f} ± {row['best_rho_mcse'].item():.3f}",
        )
        rows.setdefault(told, []).append(str(arm))
    for told, arms in rows.items():
        for name in [f"{arms[0]}, {len(arms) - 1} alike"] if len(arms) > _MOST_ALIKE else arms:
            table.add_row(name, *told)
    Console().print(table)
    if gaps.attrs["n_not_vouched"]:
        typer.echo(f"{gaps.attrs['n_not_vouched']:,} posteriors are not vouched for: take these figures with care.")


def _as_json(checks: "Checks", gaps: "xr.Dataset", need: "Check | None", *, seed: int) -> dict[str, Any]:
    names = ("prob_positive", "expected_gain", "best_tau", "best_rho")
    return {
        **({} if need is None else {"need": need.to_dict()}),
        **checks.to_dict(),
        "gaps": {
            str(arm): {
                name + suffix: float(gaps[name + suffix].sel(arm=arm).item())
                for name in names
                for suffix in ("", "_mcse")
            }
            for arm in gaps["arm"].values
        },
        "attrs": dict(gaps.attrs),
        "seed": seed,
    }


def _save_figure(gaps: "xr.Dataset", out: Path, *, quiet: bool) -> None:
    from rcb_bayes.plots import plot_frontier

    target = out / "frontier.png"
    write_figure(plot_frontier(gaps), target)
    if not quiet:
        typer.echo(f"Figure: {target}")
