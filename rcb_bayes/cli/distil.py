"""``rcb distil``: a plan's rates and guards as small tables, for whoever serves users."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rcb_bayes.cli.market import CovariatesOption, users_of
from rcb_bayes.cli.options import JsonOption, SeedOption, check_target, is_stdout, write_file, write_json
from rcb_bayes.schema import DEFAULT_SEED

if TYPE_CHECKING:
    from rcb_bayes.planning.plan import Plan
    from rcb_bayes.planning.rule import Rule


def command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A saved plan: `rcb calibrate --out DIR` has one.")],
    max_leaves: Annotated[
        int, typer.Option("--max-leaves", min=1, help="Leaves of the tables of rates and guards together.")
    ] = 256,
    covariates: CovariatesOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", callback=check_target, help="Where the rule goes, as JSON.")
    ] = None,
    plan_out: Annotated[
        Path | None,
        typer.Option(
            "--plan-out",
            metavar="FILE",
            callback=check_target,
            help="Where the plan with the rule in it goes, for `rcb audit --plan` and `rcb simulate --plan`.",
        ),
    ] = None,
) -> None:
    """Distil a plan into tables of leaves, each with the least rate and guard of the users in it.

    They are evaluated in microseconds, here or by the forty lines of JavaScript that come with the package
    (planning/rule.js). Told is the share of exploration that they keep. Audit the rule as it stands: --plan-out writes
    the plan with the rule in it. A plan from a file knows its users unless they are a table, or a class of your own:
    then --covariates names them.
    """
    from rcb_bayes.planning.plan import Plan

    plan = Plan.load(os.path.expanduser(plan_file))
    users = None if covariates is None else users_of(covariates, plan.inputs)
    rule = plan.distil(max_leaves, covariates=users, seed=seed)
    write_json(rule.to_dict(), json_file)
    quiet = is_stdout(json_file)
    if not quiet:
        typer.echo(rule.summary())
    _save(plan, rule, out=out, plan_out=plan_out, quiet=quiet)


def _save(plan: "Plan", rule: "Rule", *, out: Path | None, plan_out: Path | None, quiet: bool) -> None:
    written = []
    if out is not None:
        write_file(rule.to_json(), out)
        written.append(f"Rule: {out}")
    if plan_out is not None:
        write_file(plan.with_rule(rule).to_json(), plan_out)
        written.append(f"Plan: {plan_out}")
    if written and not quiet:
        typer.echo("\n".join(written))
