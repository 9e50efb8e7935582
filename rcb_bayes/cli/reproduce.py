"""``rcb reproduce``: the paper's experiments, and which of its claims hold."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from rcb_bayes.cli.actg import reproduce_actg
from rcb_bayes.cli.options import JsonOption, OutOption, SeedOption, WorkersOption, is_stdout, write_json
from rcb_bayes.cli.stopping import keep_parts
from rcb_bayes.cli.warfarin import reproduce_warfarin
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import DEFAULT_SEED

if TYPE_CHECKING:
    from rcb_bayes.studies.paper import Outcome

_WIDE = 170  # of a pipe or a file
_COLOURS = {"held": "green", "not held": "red", "undecided": "yellow"}


def command(
    setting: Annotated[
        str,
        typer.Argument(
            metavar="SETTING",
            help="setting-1, ..., setting-4, each also as setting-1-orthant (no negative features), variants, "
            "comparison, all of these (all), warfarin, or actg.",
        ),
    ],
    worlds: Annotated[
        int | None, typer.Option("--worlds", min=2, help="Worlds that plans are run in (20; 5 with --fast).")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="A small grid, shorter horizons, fewer worlds.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that --out holds.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="The patients' file: for warfarin the IWPC's, made-up ones unless given; for actg that of lifelines.",
        ),
    ] = None,
    workers: WorkersOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Run an experiment of the paper with the theorem's plan, a fixed one and sampled ones side by side.

    With --out every finished cell is kept (cells/*.nc), with figures, table.csv and claims.txt beside them. For
    warfarin and actg --worlds are orders in which the patients arrive (10 and 20; 2 and 10 with --fast).
    """
    if setting == "warfarin":
        how = {"permutations": worlds, "fast": fast, "resume": resume, "workers": workers, "seed": seed}
        reproduce_warfarin(data, **how, json_file=json_file, out=out)
        return
    if setting == "actg":
        how = {"orders": worlds, "fast": fast, "resume": resume, "workers": workers, "seed": seed}
        reproduce_actg(data, **how, json_file=json_file, out=out)
        return
    if data is not None:
        raise RcbError("--data is for warfarin and actg: the paper's settings make their own data.")
    from rcb_bayes.studies.paper import Request, reproduce

    if out is not None:
        keep_parts(f"Finished cells are kept in {out}: go on with --resume.")
    request = Request(folder=out, n_worlds=worlds, fast=fast, resume=resume, workers=workers, seed=seed)
    outcomes = reproduce(setting, request)
    write_json([outcome.to_dict() for outcome in outcomes], json_file)
    if is_stdout(json_file):
        return
    for outcome in outcomes:
        _print(outcome, out)


def _print(outcome: "Outcome", out: Path | None) -> None:
    from rcb_bayes.studies.paper.tables import as_lines

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    headings, rows = as_lines(outcome.table, keys=outcome.keys)
    table = Table(title=outcome.title, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=heading in ("regret", "margin"))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if outcome.claims:
        console.print()
    for claim in outcome.claims:
        colour = _COLOURS[claim.verdict]
        console.print(
            f"[{colour}]{claim.verdict:<9}[/]  {claim.claim}, {claim.kind} plans: {claim.figure}", soft_wrap=True
        )
    console.print()
    for note in outcome.notes:
        console.print(note, markup=False, soft_wrap=True)
    if out is not None:
        names = ", ".join(path.name for path in outcome.files)
        folder = outcome.files[0].parent if outcome.files else out
        console.print(f"Written to {folder}: {names}, cells", markup=False, soft_wrap=True)
