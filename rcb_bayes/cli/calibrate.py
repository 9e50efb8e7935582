"""``rcb calibrate``: the sampled plan for a belief, stage by stage, and what it takes."""

import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

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
    write_file,
    write_json,
)
from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.knowledge import MECHANISM, as_knowledge
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_amount, plain
from rcb_bayes.telling.wording import brief, figure, percent, times

if TYPE_CHECKING:
    from rcb_bayes.market import Market
    from rcb_bayes.planning.exploring import Exploring
    from rcb_bayes.planning.plan import Plan

_FEASIBLE, _INFEASIBLE = 0, 1
_MOST_ROWS = 8
_FIGURE_USERS = 1000

_OF_A_PLAN = {
    "epsilon": "--epsilon",
    "notion": "--notion",
    "personalised": "--personalised/--uniform",
    "n_per_arm": "--n-per-arm",
    "plan_worlds": "--plan-worlds",
    "audit_worlds": "--audit-worlds",
    "knows": "--knows",
    "top": "--top",
    "eliminate": "--eliminate",
    "clusters": "--clusters",
    "contextual": "--contextual/--for-everybody",
}


def check_knows(name: str | None) -> str | None:
    """What users know of the clock, refused before any work where nobody knows such a thing."""
    if name not in (None, "auto"):
        as_knowledge(name)
    return name


def check_epsilon(epsilon: float) -> float:
    """What users put up with, refused before any work where nobody could."""
    return as_amount(epsilon, name="epsilon")


def check_share(share: float | None) -> float | None:
    """A share, refused before any work where it is none."""
    if share is not None and not 0.0 <= share < 1.0:
        raise RcbError(f"eliminate is a share between 0 and 1, such as 0.01, got {share}.")
    return share


EpsilonOption = Annotated[
    float, typer.Option("--epsilon", callback=check_epsilon, help="What users put up with, in units of the reward.")
]
NotionOption = Annotated[
    str, typer.Option("--notion", help="In which sense: user (the strongest), proof or definition.")
]
PersonalisedOption = Annotated[
    bool | None,
    typer.Option(
        "--personalised/--uniform",
        help=r"A rate for each user, or one for all.  \[default: personalised; uniform for --notion definition]",
    ),
]
KnowsOption = Annotated[
    str,
    typer.Option(
        "--knows",
        callback=check_knows,
        help="What users know of the clock: stage (which arms are saturated), level (how many), phase (whether the "
        "cold start is over), mechanism (nothing), or auto: stage where arms are few, else level.",
    ),
]
SamplesOption = Annotated[
    int | None,
    typer.Option("--n-per-arm", min=1, help="N, samples of every arm; the one with the least regret unless given."),
]
AuditWorldsOption = Annotated[
    int, typer.Option("--audit-worlds", min=50, help="Worlds of the audit to be passed; more allow higher rates.")
]
PlanFileOption = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE", help="A saved plan; without it one is calibrated by the options below."),
]
GuardOption = Annotated[
    bool, typer.Option("--guard/--no-guard", help="Cut off-best recommendations where users would not follow them.")
]
InflationOption = Annotated[
    str, typer.Option("--inflation", help="How prior variances grow in exploitation: none, log, sqrt or linear.")
]


TopOption = Annotated[
    int | None,
    typer.Option("--top", min=1, help="Explore so many arms at first, and admit the next as one is saturated."),
]
EliminateOption = Annotated[
    float | None,
    typer.Option(
        "--eliminate",
        callback=check_share,
        help="Leave out arms that are best with a chance below this for every user.",
    ),
]
ContextualOption = Annotated[
    bool,
    typer.Option(
        "--contextual/--for-everybody", help="Leave an arm out, by --eliminate, user by user, or where that is for all."
    ),
]
ClustersOption = Annotated[
    int | None, typer.Option("--clusters", min=1, help="Put arms together in so many clusters; explore one of each.")
]
WarmStartOption = Annotated[
    Path | None,
    typer.Option(
        "--warm-start", metavar="FILE", help="A CSV of the past: users' columns, arm, reward; --private or --public."
    ),
]
PrivateOption = Annotated[
    bool | None,
    typer.Option(
        "--private/--public",
        help="Whether the past is the platform's own and counts towards N, or everybody's and becomes the belief.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class PlanWords:
    """What a plan is made for."""

    epsilon: EpsilonOption = 0.05
    notion: NotionOption = "user"
    personalised: PersonalisedOption = None
    n_per_arm: SamplesOption = None

    def made(self) -> dict[str, Any]:
        """As plans are asked for it."""
        return asdict(self) | {"personalised": as_choice(self.notion, self.personalised)}


@dataclass(frozen=True, kw_only=True)
class ManyArmsWords:
    """Which of many arms are explored."""

    top: TopOption = None
    eliminate: EliminateOption = None
    contextual: ContextualOption = False
    clusters: ClustersOption = None

    def exploring(self) -> "Exploring | None":
        """As plans are asked for it; None where nothing is said."""
        if self == ManyArmsWords():
            return None
        from rcb_bayes.planning.exploring import Exploring

        return Exploring(**asdict(self))


@dataclass(frozen=True, kw_only=True)
class PastWords:
    """A table of the past, and who knows it."""

    warm_start: WarmStartOption = None
    private: PrivateOption = None

    def known_to(self, market: "Market") -> "Market":
        """The market with the table, where there is one.

        Raises
        ------
        RcbError
            A table without a word on who knows it, or the word without a table.
        """
        if self.warm_start is None:
            if self.private is not None:
                raise RcbError("--private and --public are about a table of the past: add --warm-start history.csv.")
            return market
        if self.private is None:
            raise RcbError(
                f"Do users know what is in {self.warm_start}? Add --public if everybody does (it becomes the belief), "
                "or --private if it is the platform's own (it counts towards N)."
            )
        return market.with_history(Path(os.path.expanduser(self.warm_start)), public=not self.private)


@with_words
def command(
    prior: PriorArgument,
    words: MarketWords,
    *,
    epsilon: EpsilonOption = 0.05,
    notion: NotionOption = "user",
    personalised: PersonalisedOption = None,
    n_per_arm: SamplesOption = None,
    worlds: Annotated[
        int, typer.Option("--plan-worlds", "--worlds", min=50, help="Simulated worlds behind each stage.")
    ] = 2000,
    audit_worlds: AuditWorldsOption = 1000,
    guard: GuardOption = True,
    knows: KnowsOption = "auto",
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon", min=1, help=f"Rounds in all, that N is chosen for ({DEFAULT_HORIZON:,} unless given)."
        ),
    ] = None,
    many: ManyArmsWords,
    past: PastWords,
    workers: WorkersOption = None,
    folder: FolderOption = None,
    seed: SeedOption = DEFAULT_SEED,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Plan a cold start that users follow: exit 0 feasible, 1 infeasible.

    Rates are the largest that an independent audit of --audit-worlds worlds will pass, by simulation of the cold start.
    With --out the plan itself (plan.json) and a map of the rates (rates.png) are written.
    """
    personalised = as_choice(notion, personalised)
    if knows == MECHANISM.name and horizon is None:
        raise RcbError(
            "Users who know nothing of the clock are as likely in one round as in another: how many rounds are there "
            "in all? Add --horizon, such as --horizon 10000."
        )
    market = past.known_to(words.market(prior))
    check_rewards(market, personalised=personalised)
    from rcb_bayes.auditing.calibration import calibrate

    plan = calibrate(
        market,
        epsilon=epsilon,
        notion=notion,
        personalised=personalised,
        n_per_arm=n_per_arm,
        n_worlds=worlds,
        audit_worlds=audit_worlds,
        guard=guard,
        horizon=horizon or DEFAULT_HORIZON,
        knows=knows,
        exploring=many.exploring(),
        workers=workers,
        folder=folder,
        seed=seed,
    )
    quiet = is_stdout(json_file)
    write_json(plan.to_dict() | {"horizon": horizon, "share_of_horizon": _share(plan, horizon)}, json_file)
    if not quiet:
        typer.echo(market.describe() + "\n")
        _print_plan(plan, horizon=horizon)
    if out is not None:
        _save(plan, market, out, quiet=quiet)
    raise typer.Exit(_FEASIBLE if plan.feasible else _INFEASIBLE)


def read_plan(path: Path, context: typer.Context, *, allowed: tuple[str, ...] = ()) -> "Plan":
    """The saved plan; options that would make another one are refused beside it, but for those ``allowed``."""
    from rcb_bayes.planning.plan import Plan

    for name, option in _OF_A_PLAN.items():
        is_asked = name in context.params and name not in allowed
        source = context.get_parameter_source(name) if is_asked else None
        if source is not None and source.name == "COMMANDLINE":
            raise RcbError(f"{option} is settled by the plan of {path}. Leave out --plan, or the option.")
    return Plan.load(os.path.expanduser(path))


def as_choice(notion: str, personalised: bool | None) -> bool:
    """Whether the plan is personalised, in the words of the command line where it cannot be."""
    judged = as_notion(notion)
    if judged.is_per_user:
        return personalised is not False
    if personalised:
        raise RcbError(
            f"The notion '{judged.name}' averages over users, so a rate of each user's own is not judged by it. "
            "Use --uniform, or --notion user or proof."
        )
    return False


def check_rewards(market: "Market", *, personalised: bool) -> None:
    """Refuse rates of each user's own where they cannot be known."""
    from rcb_bayes.users import Empirical

    if personalised and not market.noise.is_gaussian and not isinstance(market.covariates, Empirical):
        raise RcbError(
            "With 0/1 rewards a rate of each user's own is known for the rows of a table only. "
            "Use --covariates users.csv, or --uniform."
        )


def _share(plan: "Plan", horizon: int | None) -> float | None:
    return None if horizon is None else plain(plan.expected_cold_start / horizon)


# --- the terminal ----------------------------------------------------------------------------------------------------


def _print_plan(plan: "Plan", *, horizon: int | None) -> None:
    from rcb_bayes.planning.plan_wording import arm_table, promise, stage_table, users_know

    console = Console(highlight=False)
    console.print(Text(f"Sampled plan: {promise(plan)}, {users_know(plan)}\n"))
    head, stages = stage_table(plan, most=_MOST_ROWS)
    console.print(_table(head, [cells for _, cells in stages], words=("saturated arms",)))
    console.print(Text(_legend(plan)), style="dim")
    typer.echo("")
    for name, text in _main_figures(plan, horizon=horizon):
        console.print(f"{name:<23}", Text(text), sep="")
    typer.echo("")
    console.print(_table(*arm_table(plan), words=("arm", "explored")))
    if plan.notes:
        typer.echo("")
    for note in plan.notes:
        console.print(Text(note))
    if plan.feasible:
        console.print("\nVerdict: [green]feasible[/]")
        return
    console.print(f"\nVerdict: [red]not feasible[/]. {escape(as_options(plan.reason))}")
    if not plan.personalised and as_notion(plan.notion).is_per_user:
        console.print(
            "With --personalised users who would lose too much are left out, rather than set everyone's rate."
        )


def _table(head: list[str], rows: list[list[str]], *, words: tuple[str, ...]) -> Table:
    """Cells as they stand; columns of words are set to the left."""
    table = Table(box=None, pad_edge=False)
    for title in head:
        table.add_column(title, justify="left" if title in words else "right")
    for name, *row in rows:
        table.add_row(Text(name), *row)
    return table


def _legend(plan: "Plan") -> str:
    explored = (
        "explored: users who are explored at all"
        if plan.personalised
        else "explorable: users whom some rate above 0 would suit"
    )
    return (
        f"cold starts: the share that passes the stage; {explored}; free: those who lose at most epsilon by it; "
        "±: one Monte Carlo error"
    )


def _main_figures(plan: "Plan", *, horizon: int | None) -> list[tuple[str, str]]:
    rate = f"q = {figure(plan.exploration_rate, plan.exploration_rate_mcse)}"
    if plan.exploration_rate > 0:
        rate += f", L = 1/q = {figure(plan.inverse_rate, plan.inverse_rate_mcse)}"
    tau, rho = figure(plan.tau, plan.tau_mcse), figure(plan.rho, plan.rho_mcse)
    length = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    ends = math.isfinite(plan.expected_cold_start)
    share = _share(plan, horizon)
    of_horizon = "" if share is None else f", {times(share)} of the horizon of {horizon:,}"
    if share is not None and share > 1:
        of_horizon += ": it ends before the cold start does"
    regret = figure(plan.expected_regret, plan.expected_regret_mcse)
    a_round = f", {brief(plan.expected_regret / plan.expected_cold_start)} a round" if ends else ""
    guard = []
    if plan.guards:
        first, last = plan.guards[0], plan.guards[-1]
        guard = [("guard keeps", f"{percent(first.kept)} of off-best recommendations, later {percent(last.kept)}")]
    return [
        ("samples per arm", f"N = {plan.agenda.words}"),
        *_choice_figures(plan),
        ("exploration rate", rate),
        ("expected cold start", f"{length} rounds{of_horizon}" if ends else "no end"),
        ("regret of cold start", f"{regret}{a_round}"),
        ("users", f"{percent(plan.share_explored)} explored; {percent(plan.share_free)} need no subsidy"),
        ("least favoured arm", f"tau = {tau}, rho = {rho}"),
        *guard,
    ]


def _choice_figures(plan: "Plan") -> list[tuple[str, str]]:
    """What N was chosen by."""
    if not plan.choices:
        return []
    found = [f"{one.n_per_arm}: {figure(one.regret, one.regret_mcse)}" for one in plan.choices if one.feasible]
    unguarded = "none" if plan.unguarded_n is None else f"N = {plan.unguarded_n}"
    verdict = next(
        (one.verdict for one in plan.choices if one.n_per_arm == plan.agenda.most and one.verdict), "none made"
    )
    return [
        ("regret of a run, by N", "; ".join(found) or "no N is feasible"),
        ("without a guard", unguarded),
        ("audit in fresh worlds", verdict or "none made"),
    ]


# --- files -----------------------------------------------------------------------------------------------------------


def _save(plan: "Plan", market: "Market", out: Path, *, quiet: bool) -> None:
    from rcb_bayes.plots import plot_rates
    from rcb_bayes.users.directions import users_to_draw

    write_file(plan.to_json(), out / "plan.json")
    write_figure(plot_rates(plan, users_to_draw(market.covariates, _FIGURE_USERS, seed=plan.seed)), out / "rates.png")
    if not quiet:
        typer.echo(f"Plan: {out / 'plan.json'}")
        typer.echo(f"Figure: {out / 'rates.png'}")
        if plan.feasible:
            same = "belief, users and rewards" if market.past is None else "belief, users, rewards and history"
            typer.echo(f"Next: rcb audit, with the same {same}, and --plan {out / 'plan.json'}")
