"""``rcb evaluate``: what telling everybody an arm would have come to, from a log."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rcb_bayes.cli.market import MarketWords, PriorArgument, with_words
from rcb_bayes.cli.options import JsonOption, SeedOption, is_stdout, write_json
from rcb_bayes.schema import DEFAULT_SEED, plain

if TYPE_CHECKING:
    import xarray as xr


@with_words
def command(
    prior: PriorArgument,
    log: Annotated[Path, typer.Option("--log", metavar="FILE", help="The log of a run (CSV), with propensities.")],
    words: MarketWords,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", metavar="ARM", help="The arm that everybody is told; may be repeated. All unless given."
        ),
    ] = None,
    stages: Annotated[
        list[str] | None,
        typer.Option("--stage", help="Rounds of this stage count, such as exploit; may be repeated. All unless given."),
    ] = None,
    estimators: Annotated[
        list[str] | None,
        typer.Option("--estimator", help="ips, snips, dr, adaptive or direct; may be repeated. All unless given."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="One minus the nominal coverage of the intervals.")] = 0.05,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
) -> None:
    """Tell the mean reward that a log's users would have had, had everybody been told the same arm.

    The log is as for `rcb audit --log`: a column for each feature, arm, reward, and p_<arm> (or propensity). Intervals
    of `adaptive` are for logs of adaptive policies; those of ips, snips and dr are the usual ones, for fixed
    propensities. Rewards of 0 and 1 have intervals that hold with a few events, too. Policies of your own:
    rcb.evaluate in Python.
    """
    from rcb_bayes.evaluation import evaluate

    market = words.market(prior)
    found = {
        arm: evaluate(
            os.path.expanduser(log), arm, market, estimators=estimators, stages=stages, level=level, seed=seed
        )
        for arm in (policy or market.arms)
    }
    write_json({arm: as_record(one) for arm, one in found.items()}, json_file)
    if not is_stdout(json_file):
        typer.echo("\n\n".join(as_text(arm, one) for arm, one in found.items()))


def as_record(values: "xr.Dataset") -> dict[str, object]:
    """The figures of one policy, as JSON has them; null for what is no number."""
    by_name = {
        str(name): {figure: float(values[figure].sel(estimator=name)) for figure in values.data_vars}
        for name in values["estimator"].values
    }
    return plain({"values": by_name, **values.attrs})


def as_text(arm: str, values: "xr.Dataset") -> str:
    """The figures of one policy, as people read them."""
    attrs = values.attrs
    lines = [
        f"everybody told {arm}: {attrs['n_used']:,} of {attrs['n_rounds']:,} rounds, "
        f"as logged {attrs['logged_value']:.4f} ± {attrs['logged_value_mcse']:.4f}"
    ]
    events = " and {:,.0f} events".format if attrs["bounded"] else "".format
    for name in values["estimator"].values:
        own = {figure: float(values[figure].sel(estimator=name)) for figure in values.data_vars}
        if math.isnan(own["mcse"]):
            lines.append(f"  {name:10}says nothing: no round was told that")
        else:
            told = f"{own['value']:9.4f} ± {own['mcse']:.4f}  ({own['lower']:.4f} to {own['upper']:.4f})"
            lines.append(f"  {name:10}{told}, {own['n_effective']:,.0f} rounds{events(own['n_events'])} carry weight")
    notes = [attrs["note"], *([f"estimates disagree: {attrs['disagreement']}"] if attrs["disagreement"] else [])]
    return "\n".join([*lines, *(f"  {note}" for note in notes)])
