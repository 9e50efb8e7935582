"""``rcb simulate``: a plan run in many worlds, and the regret it meets."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rcb_bayes.cli.calibrate import (
    AuditWorldsOption,
    GuardOption,
    InflationOption,
    KnowsOption,
    PastWords,
    PlanFileOption,
    PlanWords,
    check_rewards,
    figure,
    read_plan,
)
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
    write_result,
)
from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, write_netcdf
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED
from rcb_bayes.telling.wording import brief, percent

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from rcb_bayes.market import Market
    from rcb_bayes.mechanism.exploiting import Exploiting
    from rcb_bayes.planning.plan import Plan
    from rcb_bayes.running.conduct import Behaviour

_RUN, _INFEASIBLE = 0, 1
_RUNS = Format(name="runs", version=1, remedy="`rcb simulate --out DIR` writes them.")
_MOST_ROUNDS = 5_000_000  # kept one by one; 36 bytes each
_POINTS = 1000  # of the file, a world
_ROWS = 6


@with_words
def command(
    context: typer.Context,
    prior: PriorArgument,
    words: MarketWords,
    *,
    past: PastWords,
    plan_file: PlanFileOption = None,
    goal: PlanWords,
    plan_worlds: Annotated[
        int, typer.Option("--plan-worlds", min=50, help="Simulated worlds behind each stage of the plan.")
    ] = 2000,
    audit_worlds: AuditWorldsOption = 1000,
    guard: GuardOption = True,
    knows: KnowsOption = "auto",
    horizon: Annotated[int, typer.Option("--horizon", min=1, help="T, rounds of each world.")] = DEFAULT_HORIZON,
    worlds: Annotated[int, typer.Option("--run-worlds", "--worlds", min=1, help="Worlds to run the plan in.")] = 20,
    clock: Annotated[
        str,
        typer.Option("--clock", help="Epochs from the cold start's end (relative), or to powers of two (global)."),
    ] = "relative",
    feed: Annotated[str, typer.Option("--feed", help="What the oracle sees: all data, or the last epoch.")] = "all",
    spread: Annotated[
        str, typer.Option("--spread", help="What the spread gamma follows: the posterior's error, or the paper's.")
    ] = "posterior",
    spread_multiple: Annotated[
        float | None,
        typer.Option("--spread-multiple", help="gamma is multiplied by this; the plan's own multiple unless given."),
    ] = None,
    inflation: InflationOption = "none",
    behaviour: Annotated[
        str | None,
        typer.Option(
            "--behaviour",
            help="What users do: obedient, rational, stubborn, contrary, random or trust, or several with shares, "
            "such as 'obedient .8, stubborn .2'. The plan is made for users who follow.",
        ),
    ] = None,
    workers: WorkersOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Run a plan in worlds drawn from the belief: exit 0, or 1 where the plan is infeasible.

    With --out the runs (runs.nc, at most 1,000 points a world) and their regret (regret.png) are written.
    """
    from rcb_bayes.market.sizes import check_run_size

    options = _as_options(
        clock=clock,
        feed=feed,
        spread=spread,
        spread_multiple=spread_multiple,
        inflation=inflation,
        guard=guard,
    )
    users = None if behaviour is None else _as_behaviour(behaviour)
    plan = None if plan_file is None else read_plan(plan_file, context)
    made = goal.made() if plan is None else {}
    market = past.known_to(words.market(prior))
    every = max(1, -(-horizon * worlds // _MOST_ROUNDS))
    check_run_size(horizon=horizon, n_worlds=worlds, every=every)
    if plan is None:
        check_rewards(market, personalised=made["personalised"])
        from rcb_bayes.auditing.calibration import calibrate

        plan = calibrate(
            market,
            **made,
            n_worlds=plan_worlds,
            audit_worlds=audit_worlds,
            guard=guard,
            horizon=horizon,
            knows=knows,
            workers=workers,
            seed=seed,
        )
    sizes = {"horizon": horizon, "n_worlds": worlds, "seed": seed}
    _carry_out(market, plan, options, **sizes, behaviour=users, workers=workers, json_file=json_file, out=out)


def _carry_out(
    market: "Market",
    plan: "Plan",
    options: "Exploiting",
    *,
    horizon: int,
    n_worlds: int,
    seed: int,
    behaviour: "Behaviour | None",
    workers: str | None,
    json_file: Path | None,
    out: Path | None,
) -> None:
    """Run the plan, print and write what came of it, and exit."""
    from rcb_bayes.planning.checks import check_plan
    from rcb_bayes.running.simulation import simulate

    check_plan(market, plan)
    quiet = is_stdout(json_file)
    console = Console(highlight=False, quiet=quiet)
    settings: dict[str, Any] = {"belief": market.prior.name, "horizon": horizon, "n_worlds": n_worlds, "seed": seed}
    settings |= {"options": asdict(options), "plan": plan.to_dict()}
    settings |= {} if behaviour is None else {"behaviour": repr(behaviour)}
    if not quiet:
        typer.echo(market.describe())
        _print_plan(console, plan)
    if plan.kind == "sampled" and not plan.feasible:
        write_json(settings | {"runs": None}, json_file)
        console.print(Text.assemble("\nNot run: the plan is ", ("not feasible", "red"), f". {as_options(plan.reason)}"))
        raise typer.Exit(_INFEASIBLE)
    runs = simulate(
        market,
        plan,
        horizon=horizon,
        n_worlds=n_worlds,
        options=options,
        every=max(1, -(-horizon * n_worlds // _MOST_ROUNDS)),
        behaviour=behaviour,
        workers=workers,
        seed=seed,
    )
    found = figures_of(runs, market, plan)
    write_json(settings | {"runs": found}, json_file)
    _print_runs(console, found, plan, options, horizon=horizon, n_worlds=n_worlds)
    if out is not None:
        _save(runs, out, quiet=quiet)
    raise typer.Exit(_RUN)


def _as_options(**words: Any) -> "Exploiting":
    from rcb_bayes.mechanism.exploiting import Exploiting

    return Exploiting(**words)


def _as_behaviour(words: str) -> "Behaviour":
    from rcb_bayes.behaviour import as_behaviour

    return as_behaviour(words)


# --- figures ---------------------------------------------------------------------------------------------------------


def figures_of(runs: "xr.Dataset", market: "Market", plan: "Plan") -> dict[str, Any]:
    """What the runs come to, each figure as its mean over worlds with its error; as JSON has it."""
    from rcb_bayes.mechanism.decisions import ROUND_KINDS

    lengths = runs["cold_start_length"].values
    ended = lengths > 0
    stage, gain = runs["stage"].values, runs["gain"].values
    stages = []
    for k, name in enumerate(ROUND_KINDS):
        here = stage == k
        seen = here.any(axis=1)
        gains = (gain * here).sum(axis=1)[seen] / here.sum(axis=1)[seen]
        stages.append({"stage": name} | _estimate("share", here.mean(axis=1)) | _estimate("gain", gains))
    samples = runs["n_samples"].values
    return {
        "cold_start": {"n_ended": int(ended.sum())} | _estimate("length", lengths[ended].astype(float)),
        "samples": [{"arm": arm} | _estimate("n", samples[:, k].astype(float)) for k, arm in enumerate(market.arms)],
        "regret": _regret_rows(runs, market, plan),
        "stages": stages,
        "every": int(runs.attrs["every"]),
        **_estimate("gain", gain.mean(axis=1)),
        **_following(runs),
    }


def _following(runs: "xr.Dataset") -> dict[str, Any]:
    """The share of recommendations that were followed, where not all need be; as JSON has it."""
    if "followed" not in runs:
        return {}
    share = runs["followed"].values.sum(axis=1) / int(runs.attrs["horizon"])
    return {"behaviour": runs.attrs["behaviour"]} | _estimate("followed", share)


def _estimate(name: str, values: "np.ndarray") -> dict[str, float | None]:
    """A mean over worlds and its error; null where there is none."""
    n = len(values)
    return {
        name: float(values.mean()) if n else None,
        f"{name}_mcse": float(values.std(ddof=1) / n**0.5) if n > 1 else None,
    }


def _regret_rows(runs: "xr.Dataset", market: "Market", plan: "Plan") -> list[dict[str, Any]]:
    """Cumulative regret at a few rounds, and Theorem 2's bound where it says less than the rounds there are."""
    import numpy as np

    total, t = np.cumsum(runs["regret"].values, axis=1), runs["t"].values
    places = np.unique(np.searchsorted(t, _some_rounds(int(t[-1]))))
    rows = []
    for place in places[-_ROWS:]:
        row: dict[str, Any] = {"round": int(t[place])} | _estimate("regret", total[:, place])
        rows.append(row | _bounds(market, plan, horizon=int(t[place])))
    return rows


def _some_rounds(horizon: int) -> list[int]:
    """1, 3, 10, 30, ... and the horizon."""
    rounds = [m * 10**k for k in range(len(str(horizon))) for m in (1, 3)]
    return [*(r for r in rounds if r < horizon), horizon]


def _bounds(market: "Market", plan: "Plan", *, horizon: int) -> dict[str, float | None]:
    from rcb_bayes.planning.regret import regret_bound

    try:
        bound = regret_bound(market, plan, horizon=horizon)
    except RcbError:  # a noise that is unknown
        return {"bound": None, "bound_corrected": None}
    return {
        "bound": bound.total if bound.total < horizon else None,
        "bound_corrected": bound.total_corrected if bound.total_corrected < horizon else None,
    }


# --- the terminal ----------------------------------------------------------------------------------------------------


def _print_plan(console: Console, plan: "Plan") -> None:
    from rcb_bayes.planning.plan_wording import promise, users_know

    rate = figure(plan.exploration_rate, plan.exploration_rate_mcse)
    console.print(Text(f"plan            {plan.kind}: {promise(plan)}"))
    console.print(Text(f"                {users_know(plan)}"))
    console.print(Text(f"                N = {plan.agenda.words}, q = {rate}{_guard_words(plan)}"))


def _guard_words(plan: "Plan") -> str:
    if not plan.guards:
        return ", no guard"
    return (
        f", guard keeps {percent(plan.guards[0].kept)} of exploration at first, {percent(plan.guards[-1].kept)} later"
    )


def _print_runs(
    console: Console, found: dict[str, Any], plan: "Plan", options: "Exploiting", *, horizon: int, n_worlds: int
) -> None:
    multiple = plan.spread_multiple if options.spread_multiple is None else options.spread_multiple
    more = "" if multiple == 1 else f" times {multiple:g}"
    how = f"{options.clock} clock, feed {options.feed}, {options.spread} spread{more}, inflation {options.inflation}"
    guarded = "guarded" if options.guard and plan.guards else "not guarded"
    many = "1 world" if n_worlds == 1 else f"{n_worlds:,} worlds"
    console.print(Text(f"runs            {many} of {horizon:,} rounds, {guarded}"))
    console.print(Text(f"                {how}\n"))
    cold = found["cold_start"]
    text = "did not end in any world"
    if cold["n_ended"]:
        text = f"{_figure(cold, 'length')} rounds"
        text += "" if cold["n_ended"] == n_worlds else f" in the {cold['n_ended']:,} worlds in which it ended"
    planned = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    console.print(Text(f"cold start      {text} (planned: {planned})"))
    if "behaviour" in found:
        share = percent(found["followed"], found["followed_mcse"])
        console.print(Text(f"users           {found['behaviour']}: {share} of recommendations followed"))
    samples = ", ".join(f"{row['arm']} {_figure(row, 'n')}" for row in found["samples"])
    console.print(Text(f"samples         {samples}, rounds of exploitation included"))
    console.print(Text(f"realised gain   {_figure(found, 'gain')} a round, over the best rival\n"))
    console.print(_regret_table(found["regret"]))
    console.print("")
    console.print(_stage_table(found["stages"]))
    console.print(Text("±: one standard error over worlds"), style="dim")


def _figure(row: dict[str, Any], name: str) -> str:
    if row[name] is None:
        return "-"
    error = row[f"{name}_mcse"]
    return figure(row[name], float("nan") if error is None else error)


def _regret_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    has_bound = any(row["bound"] is not None for row in rows)
    for title in ("round", "regret", "a round", *(["Theorem 2's bound"] if has_bound else [])):
        table.add_column(title, justify="right")
    for row in rows:
        bound = "-" if row["bound"] is None else f"{row['bound']:,.0f}"
        cells = (f"{row['round']:,}", _figure(row, "regret"), brief(row["regret"] / row["round"]))
        table.add_row(*cells, *([bound] if has_bound else []))
    return table


def _stage_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("stage", "share of rounds", "realised gain"):
        table.add_column(title, justify="left" if title == "stage" else "right")
    for row in rows:
        table.add_row(row["stage"], percent(row["share"], row["share_mcse"]), _figure(row, "gain"))
    return table


# --- files -----------------------------------------------------------------------------------------------------------


def _save(runs: "xr.Dataset", out: Path, *, quiet: bool) -> None:
    from rcb_bayes.plots import plot_regret

    target = out / "runs.nc"
    write_result(target, partial(write_netcdf, _RUNS, _thinned(runs)))
    write_figure(plot_regret(runs), out / "regret.png")
    if not quiet:
        typer.echo(f"Runs: {target}")
        typer.echo(f"Figure: {out / 'regret.png'}")


def _thinned(runs: "xr.Dataset") -> "xr.Dataset":
    """At most ``_POINTS`` points a world: sums of regret over the rounds between, the last of everything else."""
    import numpy as np

    n, every = runs.sizes["t"], int(runs.attrs["every"])
    step = -(-n // _POINTS)
    kept = np.append(np.arange(step - 1, n - 1, step), n - 1)
    thin = runs.isel(t=kept)
    starts = np.append(0, kept[:-1] + 1)
    for name in ("regret", "posterior_regret", *(("followed",) if "followed" in runs else ())):
        thin[name] = (("world", "t"), np.add.reduceat(runs[name].values, starts, axis=1))
    thin.attrs = runs.attrs | {"every": every * step}
    return thin
