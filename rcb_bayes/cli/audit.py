"""``rcb audit``: would users who know the mechanism follow a plan, stage by stage?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.cli.calibrate import (
    EpsilonOption,
    GuardOption,
    NotionOption,
    PersonalisedOption,
    PlanFileOption,
    SamplesOption,
    as_choice,
    read_plan,
)
from rcb_bayes.cli.market import CovariatesOption, NoiseOption, PriorArgument, SetOption, build_market
from rcb_bayes.cli.options import JsonOption, OutOption, SeedOption, is_stdout, write_figure, write_json
from rcb_bayes.errors import RcbError

if TYPE_CHECKING:
    from rcb_bayes.auditing import Audit

_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}


def command(
    context: typer.Context,
    prior: PriorArgument,
    settings: SetOption = None,
    covariates: CovariatesOption = "sphere",
    noise: NoiseOption = None,
    plan_file: PlanFileOption = None,
    epsilon: EpsilonOption = 0.05,
    notion: NotionOption = "user",
    personalised: PersonalisedOption = None,
    n_per_arm: SamplesOption = 50,
    guard: GuardOption = True,
    horizon: Annotated[int, typer.Option("--horizon", min=1, help="T, rounds that are looked at.")] = 5000,
    worlds: Annotated[int, typer.Option("--worlds", min=50, help="Fresh worlds of the users' belief.")] = 1000,
    users: Annotated[int, typer.Option("--users", min=1, help="Users at random; the worst of many are added.")] = 100,
    seed: SeedOption = 1,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Audit a plan in fresh worlds of the users' belief: exit 0 pass, 1 fail, 3 inconclusive.

    A saved plan is judged by its own notion and epsilon. With --out the margins (audit.nc) and their figure
    (margins.png) are written.
    """
    from rcb_bayes.auditing import audit
    from rcb_bayes.calibration import calibrate
    from rcb_bayes.exploit import Exploiting

    plan = None if plan_file is None else read_plan(plan_file, context)
    personal = plan is None and as_choice(notion, personalised)
    market = build_market(prior, settings, covariates=covariates, noise=noise)
    if plan is None:
        made: dict[str, Any] = {"epsilon": epsilon, "notion": notion, "personalised": personal, "n_per_arm": n_per_arm}
        plan = calibrate(market, **made, guard=guard, seed=seed)
        if not plan.feasible:
            raise RcbError(f"There is no plan to audit: {plan.reason}")
    found = audit(
        market,
        plan,
        horizon=horizon,
        n_worlds=worlds,
        n_users=users,
        options=Exploiting(guard=guard),
        seed=seed + 1,  # not the worlds that the plan was made from
    )
    if json_file is not None:
        write_json(figures_of(found), json_file)
    quiet = is_stdout(json_file)
    if not quiet:
        typer.echo(market.describe() + "\n")
        typer.echo(found.summary())
    if out is not None:
        write_figure(found.plot(), out / "margins.png")
        found.to_netcdf(out / "audit.nc")
        if not quiet:
            typer.echo(f"Margins: {out / 'audit.nc'}\nFigure: {out / 'margins.png'}")
    raise typer.Exit(_CODES[found.verdict])


def figures_of(found: "Audit") -> dict[str, Any]:
    """The verdict, and of every stage the lowest margin and how many cells pass."""
    stages = []
    for stage in found.margins["stage"].values:
        part = found.margins.sel(stage=stage)
        counts = {name: int((part["verdict"] == k).sum()) for k, name in enumerate(("pass", "inconclusive", "fail"))}
        stages.append({"stage": str(stage), "lowest_margin": float(part["estimate"].min()), "cells": counts})
    share = found.compliance["share"].sel(epsilon=found.epsilon, method="nearest").item()
    return {
        "verdict": found.verdict,
        "notion": found.notion,
        "epsilon": found.epsilon,
        "n_worlds": found.n_worlds,
        "n_random_users": found.n_random,
        "compliance": share,
        "stages": stages,
        "seed": found.seed,
    }
