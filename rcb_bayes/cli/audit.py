"""``rcb audit``: would users who know the mechanism follow a plan, stage by stage? And what did a log come to?"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.cli.calibrate import (
    GuardOption,
    InflationOption,
    PastWords,
    PlanFileOption,
    PlanWords,
    check_knows,
    read_plan,
)
from rcb_bayes.cli.market import MarketWords, PriorArgument, with_words
from rcb_bayes.cli.options import (
    FolderOption,
    JsonOption,
    OutOption,
    SeedOption,
    WorkersOption,
    as_options,
    is_stdout,
    write_figure,
    write_json,
    write_result,
)
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED

if TYPE_CHECKING:
    from rcb_bayes.auditing import Audit
    from rcb_bayes.market import Market

_CODES = {"pass": 0, "fail": 1, "inconclusive": 3, "realised": 0}
_FIGURES = ("margins", "matrix", "compliance")


def check_time(text: str | None) -> str | None:
    """Refuse what is no time before PyMC is loaded."""
    if text is not None and re.fullmatch(r"\s*\d+(\.\d+)?\s*(s|min|h)\s*", text) is None:
        raise RcbError(f"--within takes a number with s, min or h, such as 5min, got '{text}'.")
    return text


@with_words
def command(
    context: typer.Context,
    prior: PriorArgument,
    words: MarketWords,
    *,
    past: PastWords,
    plan_file: PlanFileOption = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Audit this log of a run (CSV) instead of a plan.")
    ] = None,
    goal: PlanWords,
    guard: GuardOption = True,
    knows: Annotated[
        str | None,
        typer.Option(
            "--knows",
            callback=check_knows,
            help="What users know of the clock: stage, level, phase or mechanism; beside --plan it may be more or less "
            "than the plan is made for. The plan's own unless given; see `rcb calibrate`.",
        ),
    ] = None,
    inflation: InflationOption = "none",
    horizon: Annotated[int, typer.Option("--horizon", min=1, help="T, rounds that are looked at.")] = DEFAULT_HORIZON,
    worlds: Annotated[
        int, typer.Option("--audit-worlds", "--worlds", min=50, help="Fresh worlds of the users' belief.")
    ] = 1000,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="Add worlds, up to 16 times as many, until the verdict is decided.")
    ] = False,
    within: Annotated[
        str | None,
        typer.Option(
            "--within",
            metavar="TIME",
            callback=check_time,
            help="As many worlds as fit in such a time (90s, 5min, 1h), in the place of --audit-worlds.",
        ),
    ] = None,
    users: Annotated[int, typer.Option("--users", min=1, help="Users at random; the worst of many are added.")] = 100,
    workers: WorkersOption = None,
    folder: FolderOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Audit a plan in fresh worlds of the users' belief: exit 0 pass, 1 fail, 3 inconclusive.

    A saved plan is judged by its own notion and epsilon. A log (a column for each feature, arm, reward and, if known,
    p_<arm> or propensity) is told, not judged (exit 0): its realised margins, what users would have expected in the
    light of it, and with --plan how many faithful runs of that plan come to as little. With --out the audit (audit.nc)
    and its figures are written.
    """
    if within is not None and (log is not None or until_decided):
        raise RcbError("--within sizes the audit of a plan: leave it out beside --log and --until-decided.")
    from rcb_bayes.auditing import audit, audit_log
    from rcb_bayes.market.sizes import check_audit_size
    from rcb_bayes.mechanism.exploiting import Exploiting

    market = past.known_to(words.market(prior))
    if log is not None:
        if knows is not None:
            raise RcbError("--knows is for plans: a log is told, whatever users knew. Leave out --log, or --knows.")
        if folder is not None:
            raise RcbError("--folder is for plans: a log is told in one go. Leave out --log, or --folder.")
        given = context.get_parameter_source("notion")
        judged = goal.notion if given is not None and given.name == "COMMANDLINE" else "definition"
        followed = None if plan_file is None else read_plan(plan_file, context)
        found = audit_log(
            market,
            os.path.expanduser(log),
            plan=followed,
            notion=judged,
            epsilon=None if followed is not None else goal.epsilon,
            options=Exploiting(guard=guard, inflation=inflation),
            seed=seed,
        )
    else:
        plan = None if plan_file is None else read_plan(plan_file, context, allowed=("knows",))
        check_audit_size(market, n_worlds=worlds, n_users=users)
        if plan is None:
            made = goal.made() | {"horizon": horizon, "guard": guard, "knows": knows or "auto", "seed": seed}
            plan = planned_for(market, made, workers=workers, folder=folder)
        asked: dict[str, Any] = {"horizon": horizon, "n_users": users, "workers": workers}
        asked |= {"options": Exploiting(guard=guard, inflation=inflation)}
        asked |= {"knows": None if plan_file is None or knows == "auto" else knows}
        if within is not None:
            worlds = _fitting(market, plan, asked, within=within, seed=seed + 1)
        found = audit(
            market,
            plan,
            n_worlds=worlds,
            until="decided" if until_decided else None,
            folder=None if folder is None else folder / "audit",
            seed=seed,
            **asked,
        )
    _tell(market, found, json_file=json_file, out=out)
    raise typer.Exit(_CODES[found.verdict])


def _fitting(market: "Market", plan: Any, asked: dict[str, Any], *, within: str, seed: int) -> int:
    """The worlds that fit in a time, told on standard error."""
    from rcb_bayes.auditing import audit
    from rcb_bayes.auditing.budget import as_seconds, size_for

    sized = size_for(lambda n: audit(market, plan, n_worlds=n, seed=seed, **asked), seconds=as_seconds(within))
    typer.echo(sized.words(), err=True)
    return sized.n_worlds


def planned_for(market: "Market", made: dict[str, Any], *, workers: str | None, folder: Path | None) -> Any:
    """A plan made for a market, kept in the folder, if there is one.

    Raises
    ------
    RcbError
        Where there is none that could be run.
    """
    from rcb_bayes.auditing.calibration import calibrate

    plan = calibrate(market, **made, workers=workers, folder=None if folder is None else folder / "plan")
    if not plan.feasible:
        raise RcbError(f"There is no plan to audit: {as_options(plan.reason)}")
    return plan


def _tell(market: "Market", found: "Audit", *, json_file: Path | None, out: Path | None) -> None:
    write_json(found.to_dict(), json_file)
    quiet = is_stdout(json_file)
    if not quiet:
        typer.echo(market.describe() + "\n")
        typer.echo(found.summary())
    if out is not None:
        for name in _FIGURES:
            write_figure(found.plot(figure=name), out / f"{name}.png")
        write_result(out / "audit.nc", found.save)
        if not quiet:
            files = ", ".join(str(out / f"{name}.png") for name in _FIGURES)
            typer.echo(f"Audit: {out / 'audit.nc'}\nFigures: {files}")
