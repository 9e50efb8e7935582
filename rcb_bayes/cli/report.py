"""``rcb report``: one page for a belief, its plan, runs and audit."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.cli.calibrate import (
    AuditWorldsOption,
    EpsilonOption,
    GuardOption,
    KnowsOption,
    ManyArmsWords,
    NotionOption,
    PastWords,
    PersonalisedOption,
    PlanFileOption,
    as_choice,
    check_rewards,
    read_plan,
)
from rcb_bayes.cli.market import MarketWords, PriorArgument, with_words
from rcb_bayes.cli.options import (
    JsonOption,
    SeedOption,
    WorkersOption,
    as_options,
    check_folder,
    check_target,
    is_stdout,
    write_file,
    write_json,
)
from rcb_bayes.errors import RcbError
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED

if TYPE_CHECKING:
    import xarray as xr

    from rcb_bayes.reporting import ReportSizes


_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
_PAGES = (".html", ".htm")
_NOT_REPEATED = ("out", "json_file", "workers")
_NAME = "report.html"
_FEW_MULTIPLES, _USUAL_EPSILON = (0.0, 0.5, 1.0, 2.0, 4.0), 0.05


def check_page(target: Path) -> Path:
    """Where the page goes, as a file; refused before any work is done if it cannot be written there."""
    if target.suffix.lower() in _PAGES:
        return check_target(target) or target
    return (check_folder(target) or target) / _NAME


PageOption = Annotated[
    Path,
    typer.Option("--out", metavar="PATH", callback=check_page, help="The page: a folder for report.html, or a file."),
]


@with_words
def command(
    context: typer.Context,
    prior: PriorArgument,
    words: MarketWords,
    *,
    plan_file: PlanFileOption = None,
    epsilon: EpsilonOption = 0.05,
    notion: NotionOption = "user",
    personalised: PersonalisedOption = None,
    n_per_arm: Annotated[
        int, typer.Option("--n-per-arm", min=1, help="N, samples of every arm; `rcb calibrate` chooses one.")
    ] = 50,
    plan_worlds: Annotated[
        int, typer.Option("--plan-worlds", min=50, help="Simulated worlds behind each stage of the plan.")
    ] = 2000,
    audit_worlds: AuditWorldsOption = 1000,
    guard: GuardOption = True,
    knows: KnowsOption = "auto",
    many: ManyArmsWords,
    past: PastWords,
    horizon: Annotated[
        int, typer.Option("--horizon", min=1, help="T, rounds that are run and audited.")
    ] = DEFAULT_HORIZON,
    worlds: Annotated[
        int | None,
        typer.Option("--run-worlds", "--worlds", min=1, help="Worlds to run the plan in; 400 at most unless given."),
    ] = None,
    users: Annotated[int, typer.Option("--users", min=1, help="Users at random that the audit looks at.")] = 100,
    runs_file: Annotated[
        Path | None,
        typer.Option("--runs", metavar="FILE", help="Runs that `rcb simulate --out` wrote; run here unless given."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Leave out what takes longest: how wrong the belief may be, users who know more or less, payments, "
            "other numbers of samples. Look at five values of epsilon.",
        ),
    ] = False,
    workers: WorkersOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: PageOption = Path("rcb_out"),
) -> None:
    """Write one page with the answer and all it rests on: exit 0 pass, 1 fail, 3 inconclusive.

    The page needs no network: assumptions, gaps, the plan stage by stage and at other values of epsilon, runs, audit,
    and the command that makes it again.
    """
    from rcb_bayes.reporting import ReportSizes, report

    plan = None if plan_file is None else read_plan(plan_file, context)
    personal = plan is None and as_choice(notion, personalised)
    sizes = ReportSizes(plan_worlds=plan_worlds, audit_worlds=audit_worlds, audit_users=users, run_worlds=worlds)
    if quick:
        sizes = quicker(sizes, epsilon=epsilon if plan is None else plan.epsilon)
    market = past.known_to(words.market(prior))
    runs = None if runs_file is None else _read_runs(runs_file)
    if plan is None:
        check_rewards(market, personalised=personal)
    made: dict[str, Any] = {"epsilon": epsilon, "notion": notion, "personalised": personal, "n_per_arm": n_per_arm}
    exploring = many.exploring()
    made |= {"knows": knows, "exploring": exploring, "workers": workers}
    found = report(market, plan, runs=runs, **made, guard=guard, horizon=horizon, sizes=sizes, seed=seed)
    found = replace(found, command=words_of(context))
    write_file(found.to_html(), out)
    write_json(found.to_dict() | {"page": str(out)}, json_file)
    if not is_stdout(json_file):
        typer.echo(market.describe() + "\n")
        typer.echo("\n".join([f"{found.verdict}: {found.answer.headline}", *map(as_options, found.answer.sentences)]))
        typer.echo(f"\nReport: {out}, to open in a browser")
    raise typer.Exit(_CODES[found.verdict])


def quicker(sizes: "ReportSizes", *, epsilon: float) -> "ReportSizes":
    """Without what takes longest; the verdict, and the worlds behind it, stay as they are."""
    around = epsilon or _USUAL_EPSILON
    return replace(
        sizes,
        knowledge_worlds=0,
        radius_worlds=0,
        payment_worlds=0,
        n_multiples=(),
        epsilons=tuple(sorted({epsilon, *(float(f"{m * around:.3g}") for m in _FEW_MULTIPLES)})),
    )


def words_of(context: typer.Context) -> str:
    """The command again, with every option that is not as it would be anyway."""
    words = ["rcb", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in _NOT_REPEATED or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [part for one in values for part in (parameter.opts[0], str(one))]
    return shlex.join(words)


def _read_runs(path: Path) -> "xr.Dataset":
    import xarray as xr

    try:
        return xr.load_dataset(os.path.expanduser(path), engine="h5netcdf")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RcbError(f"Cannot read runs from {path}: {reason}. Write them with `rcb simulate --out DIR`.") from None
