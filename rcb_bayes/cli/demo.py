"""``rcb demo``: a belief checked, the paper's plan for it and a sampled one, in a few seconds."""

from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from rcb_bayes.cli.calibrate import figure
from rcb_bayes.cli.check import print_checks
from rcb_bayes.cli.options import JsonOption, SeedOption, is_stdout, write_json
from rcb_bayes.cli.report import PageOption
from rcb_bayes.schema import DEFAULT_SEED

if TYPE_CHECKING:
    from rcb_bayes.market import Market
    from rcb_bayes.planning.plan import Plan
    from rcb_bayes.reporting import Report

_SHELVES, _EXPECTED, _VARIANCE = ("charts", "local", "archive"), (0.2, 0.1, 0.0), 0.25
_EPSILON, _TAU, _RHO, _SIGMA, _HORIZON = 0.05, 0.01, 0.95, 0.3, 50_000
_N_USERS = 20_000
_N_WORLDS = 1000
_N_PER_ARM, _PLAN_WORLDS = 30, 2000
_REPORT_HORIZON = 3000
_EPSILONS = (0.0, 0.02, 0.03, _EPSILON, 0.07, 0.1, 0.12, 0.15, 0.2)  # what the page can be turned to
_SIZES: dict[str, Any] = {
    "check_worlds": 1000,
    "audit_worlds": 1000,
    "audit_users": 60,
    "run_worlds": 100,
    "knowledge_worlds": 200,
} | {"radius_worlds": 200}


def command(
    seed: SeedOption = DEFAULT_SEED, json_file: JsonOption = None, out: PageOption = Path("rcb_out/demo")
) -> None:
    """Check a belief that favours one arm, see the paper's plan for it beside a sampled one, and get the report."""
    from rcb_bayes.gaps.assumptions import check_assumptions

    market = listening_service()
    checks = check_assumptions(market, n_worlds=_N_WORLDS, seed=seed)
    plan = _sampled_plan(market, seed=seed)
    page = _report(market, plan, seed=seed)
    page.save(out)
    result = {
        "willing": _willing(market, seed=seed),
        "checks": [check.to_dict() for check in checks],
        **_theorem_plan(market, seed=seed),
        "sampled": plan.to_dict(),
        "verdict": page.verdict,
        "page": str(out),
        "seed": seed,
    }
    write_json(result, json_file)
    if not is_stdout(json_file):
        _print_users(market, result)
        typer.echo("\nThe paper's assumptions, by sampling the belief (± one Monte Carlo error):\n")
        print_checks(checks)
        _print_plan(result)
        _print_sampled(plan, result["expected_cold_start"])
        _print_report(page, out)
        typer.echo("\nNext: `rcb models` lists the beliefs you can start from, `rcb check NAME` checks")
        typer.echo("one of them and `rcb report NAME` writes such a page for it. In Python,")
        typer.echo("`help(rcb_bayes)` shows how to begin.")


def listening_service() -> "Market":
    """The market of the demo: three shelves, and listeners who all expect most of the first."""
    import numpy as np

    from rcb_bayes.belief import Prior
    from rcb_bayes.market import Market
    from rcb_bayes.market.noise import GaussianNoise
    from rcb_bayes.users import Empirical

    about = ["base", "curiosity"]
    means = [[mean, 0.0] for mean in _EXPECTED]
    belief = Prior.gaussian(means, _VARIANCE, arms=_SHELVES, features=about, name="listeners")
    listeners = Empirical([[1.0, curiosity] for curiosity in np.linspace(-1, 1, 201)], features=about)
    return Market(prior=belief, covariates=listeners, noise=GaussianNoise(_SIGMA))


def _willing(market: "Market", *, seed: int) -> dict[str, dict[str, float]]:
    """For each arm the share of users who lose at most epsilon by it, by their own belief, and its error."""
    import numpy as np

    users = market.covariates.sample(_N_USERS, seed=seed)
    expected = users @ market.prior.mean.values.T  # (users, arms)
    loss = expected.max(axis=1, keepdims=True) - expected
    share = (loss <= _EPSILON).mean(axis=0)
    mcse = np.sqrt(share * (1 - share) / _N_USERS)
    return {arm: {"share": float(s), "mcse": float(e)} for arm, s, e in zip(market.arms, share, mcse, strict=True)}


def _theorem_plan(market: "Market", *, seed: int) -> dict[str, float]:
    """The paper's plan with the paper's constants."""
    from rcb_bayes.planning.theorem import theorem_plan

    plan = theorem_plan(
        market,
        epsilon=_EPSILON,
        tau=_TAU,
        rho=_RHO,
        tau_star=_TAU,
        prior_gap=1.0,
        horizon=_HORIZON,
        n_worlds=_N_WORLDS,
        seed=seed,
    )
    names = ("n_per_arm", "inverse_rate", "expected_cold_start", "expected_cold_start_mcse")
    return {"phi0": market.covariates.phi0} | {name: getattr(plan, name) for name in names}


def _sampled_plan(market: "Market", *, seed: int) -> "Plan":
    from rcb_bayes.auditing.calibration import calibrate

    return calibrate(market, epsilon=_EPSILON, n_per_arm=_N_PER_ARM, n_worlds=_PLAN_WORLDS, seed=seed)


def _report(market: "Market", plan: "Plan", *, seed: int) -> "Report":
    """The page's figures, at a size that takes a few seconds."""
    from rcb_bayes.reporting import ReportSizes, report

    sizes = ReportSizes(**_SIZES, epsilons=_EPSILONS)
    found = report(market, plan, horizon=_REPORT_HORIZON, sizes=sizes, seed=seed)
    return replace(found, command=f"rcb demo --seed {seed}")


def _print_users(market: "Market", result: dict[str, Any]) -> None:
    console = Console(soft_wrap=True)
    console.print("[bold]A listening service whose users all expect most of the charts[/bold]")
    console.print("(it would like to learn who enjoys its other two shelves)\n")
    typer.echo(market.describe())
    typer.echo("\nWho would follow a recommendation unasked? Those who, by their own belief, lose")
    typer.echo(f"at most epsilon = {_EPSILON} by it (± one Monte Carlo error):\n")
    table = Table(box=None, pad_edge=False)
    for title in ("arm", "expected at first", "share of users"):
        table.add_column(title, justify="left" if title == "arm" else "right")
    for arm, mean in zip(market.arms, market.prior.mean.values @ market.covariates.mean, strict=True):
        willing = result["willing"][arm]
        table.add_row(arm, f"{mean:.2f}", f"{willing['share']:.3f} ± {willing['mcse']:.3f}")
    console.print(table)


def _print_report(page: "Report", out: Path) -> None:
    typer.echo("\nWould they follow it, through the cold start and after? An audit in fresh worlds")
    typer.echo("of their belief:")
    words = f"{page.verdict}: {page.answer.headline} {page.answer.sentences[0]}"
    typer.echo(fill(words, width=80, initial_indent="  ", subsequent_indent="  "))
    typer.echo("\nAll of it on one page, with a slider over epsilon. Open it in a browser:")
    typer.echo(f"  {out.resolve()}")


def _print_plan(result: dict[str, Any]) -> None:
    length, mcse = result["expected_cold_start"], result["expected_cold_start_mcse"]
    typer.echo(f"\nThe paper's plan (Theorem 1), to the letter, with its tau = {_TAU} and rho = {_RHO}:")
    typer.echo(
        f"  N = {result['n_per_arm']:,} samples per arm, one exploration in L = {result['inverse_rate']:.1f} rounds"
    )
    typer.echo(
        f"  expected cold start {figure(length, mcse)} rounds (simulated),\n"
        f"  where the paper's horizon is {_HORIZON:,}: "
        + ("the run ends before it does." if length > _HORIZON else "it fits.")
    )


def _print_sampled(plan: "Plan", theorem_length: float) -> None:
    length = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    ratio = float(f"{theorem_length / plan.expected_cold_start:.2g}")
    typer.echo("\nA plan by sampling for the same market: each user explored at a rate of her")
    typer.echo("own, so that even knowing her features and her recommendation she expects to")
    typer.echo(f"lose at most epsilon = {plan.epsilon:g} by following:")
    typer.echo(
        f"  N = {plan.agenda.words} samples per arm,"
        f" mean rate {figure(plan.exploration_rate, plan.exploration_rate_mcse)}"
        f" (L = {figure(plan.inverse_rate, plan.inverse_rate_mcse)})"
    )
    typer.echo(
        f"  {100 * plan.share_explored:.1f} % of users are explored;\n"
        f"  {100 * plan.share_free:.1f} % lose at most epsilon anyway and need no subsidy"
    )
    typer.echo(
        f"  expected cold start {length} rounds,\n"
        f"  {100 * plan.expected_cold_start / _HORIZON:.1f} % of the horizon and "
        f"some {ratio:,.0f} times shorter than the theorem's"
    )
    typer.echo("The theorem prepares for the worst user, and for data that hardly ever speak for")
    typer.echo("an arm. Sampling tells how often they do, user by user.")
