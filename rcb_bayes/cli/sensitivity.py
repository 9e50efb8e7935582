"""``rcb sensitivity``: how far what a plan rests on may be off before users stop following it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rcb_bayes.cli.audit import planned_for
from rcb_bayes.cli.calibrate import (
    GuardOption,
    KnowsOption,
    PastWords,
    PlanFileOption,
    PlanWords,
    read_plan,
)
from rcb_bayes.cli.market import MarketWords, PriorArgument, with_words
from rcb_bayes.cli.options import (
    FolderOption,
    JsonOption,
    OutOption,
    SeedOption,
    WorkersOption,
    is_stdout,
    write_figure,
    write_json,
    write_result,
)
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED

if TYPE_CHECKING:
    from rcb_bayes.auditing.varied import Sensitivity

_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}


@with_words
def command(
    context: typer.Context,
    prior: PriorArgument,
    words: MarketWords,
    *,
    past: PastWords,
    plan_file: PlanFileOption = None,
    along: Annotated[
        list[str] | None,
        typer.Option(
            "--along",
            metavar="DIRECTION",
            help="shift:ARM, shift:ARM:FEATURE, scale, correlation, tails, family, noise, N, users, users:FEATURE, "
            "epsilon or knows, with amounts or without: noise=0.5,1,2. Repeat it for several; the usual ones unless "
            "given.",
        ),
    ] = None,
    goal: PlanWords,
    guard: GuardOption = True,
    knows: KnowsOption = "auto",
    horizon: Annotated[int, typer.Option("--horizon", min=1, help="T, rounds that are looked at.")] = DEFAULT_HORIZON,
    worlds: Annotated[int, typer.Option("--audit-worlds", "--worlds", min=50, help="Worlds of each audit.")] = 1000,
    users: Annotated[int, typer.Option("--users", min=1, help="Users at random; the worst of many are added.")] = 100,
    runs: Annotated[
        int, typer.Option("--runs", min=0, help="Runs behind cold start and regret; 0 leaves these out.")
    ] = 20,
    least_share: Annotated[
        float, typer.Option("--least-share", help="From where on fewer of the users would follow is looked for, too.")
    ] = 0.9,
    workers: WorkersOption = None,
    folder: FolderOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """How wrong may what a plan rests on be? The radius of each direction: exit 0 pass, 1 fail, 3 inconclusive.

    The plan stays as it is; the exit code is its verdict as written down. Users' belief varies along shift, scale,
    correlation, tails and family, and the platform goes on with its own. With --out the result (sensitivity.nc) and its
    figures are written.
    """
    from rcb_bayes.auditing.varying import sensitivity
    from rcb_bayes.mechanism.exploiting import Exploiting

    names, amounts = _as_along(along)
    plan = None if plan_file is None else read_plan(plan_file, context)
    market = past.known_to(words.market(prior))
    if plan is None:
        made = goal.made() | {"horizon": horizon, "guard": guard, "knows": knows, "seed": seed}
        plan = planned_for(market, made, workers=workers, folder=folder)
    found = sensitivity(
        market,
        plan,
        along=names,
        amounts=amounts,
        horizon=horizon,
        n_worlds=worlds,
        n_users=users,
        n_runs=runs,
        least_share=least_share,
        options=Exploiting(guard=guard),
        workers=workers,
        folder=None if folder is None else folder / "sensitivity",
        seed=seed,
    )
    write_json(found.figures(), json_file)
    if not is_stdout(json_file):
        typer.echo(market.describe() + "\n")
        typer.echo(found.summary())
    if out is not None:
        _write(found, out, quiet=is_stdout(json_file))
    raise typer.Exit(_CODES[found.as_written])


def _as_along(along: list[str] | None) -> tuple[list[str] | None, dict[str, list[float]]]:
    """Directions, and the amounts of those that were given some."""
    if not along:
        return None, {}
    names, amounts = [], {}
    for word in along:
        name, equals, values = word.partition("=")
        names.append(name)
        if not equals:
            continue
        try:
            amounts[name] = [float(value) for value in values.split(",")]
        except ValueError:
            raise RcbError(f"Amounts are numbers with commas between, such as noise=0.5,2; got '{word}'.") from None
    return names, amounts


def _write(found: "Sensitivity", out: Path, *, quiet: bool) -> None:
    write_result(out / "sensitivity.nc", found.save)
    files = [out / "sensitivity.nc"]
    if any(str(status) in ("crosses", "holds") for status in found["status"].values):
        files.append(out / "tornado.png")
        write_figure(found.draw(), files[-1])
    for name in found["direction"].values:
        files.append(out / f"{str(name).replace(':', '_').replace('/', '_')}.png")
        write_figure(found.draw(figure="curves", direction=str(name)), files[-1])
    if not quiet:
        typer.echo(f"Written: {', '.join(str(file) for file in files)}")
