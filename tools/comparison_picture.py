"""Draw regret against what the worst user loses: ``python tools/comparison_picture.py [--run [MARKET ...]] [FILE]``.

Two markets, 10,000 rounds each. Setting 4: five arms, one of them everybody's favourite, variance .02, users on the
sphere, who differ so much that greedy tries every arm. The README's listeners: three shelves, where it does not. Points
are those of docs/measured/paper/comparison.csv; with ``--run`` some markets, or all, are run anew.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import rcb_bayes as rcb
from rcb_bayes.plots import PALETTE
from rcb_bayes.studies.paper.cells import side_by_side
from rcb_bayes.studies.paper.measures import Run
from rcb_bayes.studies.paper.plan_kinds import fixed_run, theorem_run, timed
from rcb_bayes.studies.paper.settings import FAST, SETTINGS, Cell, Effort
from rcb_bayes.studies.paper.side_by_side import bandit_runs
from rcb_bayes.studies.paper.tables import as_table

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "measured" / "paper" / "comparison.csv"
_EFFORT = replace(FAST, n_worlds=20, audit_worlds=500, audit_users=40)
_COLUMNS = ("market", "run", "kind", "regret", "regret_mcse", "n_ended", "n_per_arm", "verdict_user", "margin_user")
_COLUMNS += ("margin_mcse_user", "margin_lower_user", "margin_upper_user", "verdict_proof", "compliance", "bill")
_COLUMNS += ("note",)
_EPSILON, _MOST = 0.05, 6.0
_VERDICTS = {"pass": "audit passes", "fail": "audit fails", "inconclusive": "audit undecided"}
_PLACES = {  # of labels: which end of the text is at the point, and whether it stands above; left and above unless told
    ("setting-4", "theorem"): ("right", True),
    ("setting-4", "fixed, N = 100"): ("right", True),
    ("setting-4", "payments"): ("left", False),
    ("listeners", "fixed, N = 100"): ("right", False),
    ("listeners", "greedy"): ("right", True),
    ("listeners", "payments"): ("left", False),
}
_ROOM = {"setting-4": 2.5, "listeners": 25.0}  # to the right of the last point, for its label
_MORE_WORLDS = 100  # among listeners, of policies that are quick: some regrets there are those of a few worlds
_COLOURS = {"theorem": 0, "fixed": 1, "sampled": 2, "Thompson": 4, "greedy": 3, "payments": 5}
_SLOW = ("Thompson", "payments")
_BANDITS = ("greedy", "Thompson", "payments")
NAMES = {
    "theorem": "Theorem 1",
    "fixed, N = 100": "the paper's kernel, N = 100",
    "sampled, personalised": "ours: a rate each, guarded",
    "greedy": "greedy",
    "Thompson": "Thompson sampling",
    "payments": "payments",
}
TITLES = {
    "setting-4": "The paper's Setting 4: users differ so much\nthat greedy tries all five arms by itself",
    "listeners": "The README's listeners: greedy leaves\na good shelf untried in many a world",
}
NOTE = (
    "10,000 rounds, means over 20 worlds, on the right over 100 but of Thompson sampling and payments; bars of two "
    "standard errors.\nWhat the worst user expects to lose is audited in 500 worlds: of plans over the cold start and "
    "1,000 rounds after it, of others over their first 256 rounds.\nUpwards: linear to .05, logarithmic beyond. Grey: "
    "somebody has a reason not to follow."
)


def main() -> None:
    """Run if asked to; draw."""
    parser = argparse.ArgumentParser(description="Draw regret against what the worst user loses.")
    parser.add_argument("file", nargs="?", type=Path, default=ROOT / "docs" / "comparison.png")
    parser.add_argument("--run", nargs="*", choices=[*TITLES], help="markets to run anew, all if none is named")
    asked = parser.parse_args()
    table = pd.read_csv(TABLE)
    if asked.run is not None:
        names = asked.run or [*TITLES]
        found: Any = pd.concat([table[~table["market"].isin(names)], *(run(name) for name in names)])
        found[[name for name in _COLUMNS if name in found]].to_csv(TABLE, index=False, float_format="%.5g")
        table = pd.read_csv(TABLE)
    draw(table).savefig(asked.file, dpi=90)
    print(asked.file)


def run(name: str) -> pd.DataFrame:
    """The policies of one market in the same worlds, a row each."""
    cell = next(cell for cell in SETTINGS["setting-4"].cells if cell.variance == 0.02)
    market = listeners() if name == "listeners" else cell.market()
    horizon = _EFFORT.most_rounds
    theorem = timed(theorem_run, market, cell, horizon=horizon)
    the_plan: Any = theorem.plan
    runs = [
        theorem,
        fixed_run(market, 100, the_plan.exploration_rate, epsilon=cell.epsilon),
        ours(market, cell, n_per_arm=30 if name == "listeners" else market.n_features),
        *(one for one in bandit_runs(market) if one.name in _BANDITS),
    ]
    table = _measured(name, market, runs, cell, effort=_EFFORT)
    if name == "listeners":
        quick = [one for one in runs if one.name not in _SLOW]
        effort = replace(_EFFORT, n_worlds=_MORE_WORLDS, audit_worlds=0)
        again = _measured(name, market, quick, cell, effort=effort).set_index("run")
        for column in ("regret", "regret_mcse", "n_ended", "bill"):
            table[column] = table["run"].map(again[column]).fillna(table[column])
    return table


def _measured(name: str, market: rcb.Market, runs: list[Run], cell: Cell, *, effort: Effort) -> Any:
    horizon = effort.most_rounds
    found = side_by_side(market, runs, horizon=horizon, epsilon=cell.epsilon, effort=effort, seed=1)
    return as_table([found.assign_attrs({"setting": name})], keys=("setting",)).assign(market=name)


def listeners() -> rcb.Market:
    """The market of the README's ten lines."""
    shelves, about = ["charts", "local", "archive"], ["base", "curiosity"]
    belief = rcb.Prior.gaussian(np.array([[0.2, 0.0], [0.1, 0.0], [0.0, 0.0]]), 0.25, arms=shelves, features=about)
    users = rcb.Empirical([[1.0, curiosity] for curiosity in np.linspace(-1, 1, 201)], features=about)
    return rcb.Market(prior=belief, covariates=users, noise=rcb.GaussianNoise(0.3))


def ours(market: rcb.Market, cell: Cell, *, n_per_arm: int) -> Run:
    """A rate for each user, under ``user``."""
    plan = rcb.calibrate(
        market,
        epsilon=cell.epsilon,
        n_per_arm=n_per_arm,
        n_worlds=_EFFORT.plan_worlds,
        audit_worlds=_EFFORT.planned_worlds,
        seed=1,
    )
    return Run(name="sampled, personalised", kind="personalised", plan=plan, note=plan.reason)


def draw(table: pd.DataFrame) -> Figure:
    """A panel for each market, a point for each policy: regret across, what the worst user expects to lose upwards."""
    figure = Figure(figsize=(11.6, 5.0), layout="constrained")
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for axes, (name, title) in zip(panels, TITLES.items(), strict=True):
        _panel(axes, table[table["market"] == name], room=_ROOM[name])
        axes.set_title(title, loc="left", fontsize=10.5)
    panels[0].set_ylabel("what the worst user expects to lose")
    figure.supxlabel(NOTE, fontsize=8, x=0.01, ha="left")
    return figure


def _panel(axes: Any, table: Any, *, room: float) -> None:
    axes.axhspan(_EPSILON, _MOST, color="0.93", zorder=0)
    axes.axhline(_EPSILON, color="black", linestyle="--", linewidth=1)
    for row in table.to_dict(orient="records"):
        loss, verdict = max(0.0, -row["margin_user"]), _VERDICTS[row["verdict_user"]]
        if row["run"] == "payments":  # users are paid for what they lose beyond epsilon
            loss, verdict = min(loss, _EPSILON), f"{row['bill']:.2g} paid in all"
        if row["run"] == "theorem" and not row["n_ended"]:
            verdict = f"cold start does not end\n{verdict}"
        colour = PALETTE[_COLOURS[row["run"].split(",")[0]]]
        down = min(loss, 2.0 * row["margin_mcse_user"]) if row["margin_mcse_user"] > 0 else 0.0
        errors = {"xerr": 2.0 * row["regret_mcse"], "yerr": [[down], [2.0 * row["margin_mcse_user"]]]}
        axes.errorbar([row["regret"]], [loss], fmt="o", color=colour, markersize=7, **errors)
        side, above = _PLACES.get((row["market"], row["run"]), ("left", True))
        axes.annotate(
            f"{NAMES[row['run']]}\n{verdict}",
            (row["regret"], loss),
            xytext=(-9 if side == "right" else 9, 4 if above else -4),
            textcoords="offset points",
            ha=side,
            va="bottom" if above else "top",
            fontsize=8.5,
            color=colour,
        )
    axes.set(xscale="log", xlabel="regret after 10,000 rounds, in rewards (less is better)")
    axes.set_yscale("symlog", linthresh=_EPSILON)
    axes.set_yticks([0.0, _EPSILON, 0.1, 1.0], ["0", "epsilon = .05", ".1", "1"])
    axes.set_ylim(-0.035, _MOST)
    axes.set_xlim(table["regret"].min() / 2.5, table["regret"].max() * room)


if __name__ == "__main__":
    main()
