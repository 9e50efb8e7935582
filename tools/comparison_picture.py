"""Draw regret against what the worst user loses: ``python tools/comparison_picture.py [--run] [FILE]``.

With ``--run`` Setting 4 (five arms, one of them everybody's favourite, variance .02, users on the sphere) is run anew
over 10,000 rounds and its table kept in docs/measured/paper/comparison.csv; the picture is drawn from that table.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from rcb_bayes.plots import PALETTE
from rcb_bayes.studies.paper.cells import side_by_side
from rcb_bayes.studies.paper.plan_kinds import fixed_run, sampled_run, theorem_run, timed
from rcb_bayes.studies.paper.settings import FAST, SETTINGS
from rcb_bayes.studies.paper.side_by_side import bandit_runs
from rcb_bayes.studies.paper.tables import as_table

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "measured" / "paper" / "comparison.csv"
_EFFORT = replace(FAST, n_worlds=20, audit_worlds=500, audit_users=40)
_COLUMNS = ("run", "kind", "regret", "regret_mcse", "n_ended", "n_per_arm", "verdict_user", "margin_user")
_COLUMNS += (
    "margin_mcse_user",
    "margin_lower_user",
    "margin_upper_user",
    "verdict_proof",
    "compliance",
    "bill",
    "note",
)
_EPSILON = 0.05
_BANDITS = ("greedy", "Thompson", "payments")
NAMES = {
    "theorem": "Theorem 1 (cold start does not end)",
    "fixed, N = 100": "the paper's kernel, N = 100",
    "sampled, personalised": "ours: a rate each, guarded",
    "greedy": "greedy",
    "Thompson": "Thompson sampling",
    "payments": "payments",
}


def main() -> None:
    """Run if asked to; draw."""
    parser = argparse.ArgumentParser(description="Draw regret against what the worst user loses.")
    parser.add_argument("file", nargs="?", type=Path, default=ROOT / "docs" / "comparison.png")
    parser.add_argument("--run", action="store_true", help="run Setting 4 anew")
    asked = parser.parse_args()
    if asked.run:
        found = run()
        found[[name for name in _COLUMNS if name in found]].to_csv(TABLE, index=False, float_format="%.5g")
    draw(pd.read_csv(TABLE)).savefig(asked.file, dpi=90)
    print(asked.file)


def run() -> pd.DataFrame:
    """The policies in the same worlds, a row each."""
    cell = next(cell for cell in SETTINGS["setting-4"].cells if cell.variance == 0.02)
    market, horizon = cell.market(), _EFFORT.most_rounds
    theorem = timed(theorem_run, market, cell, horizon=horizon)
    sampled = partial(timed, sampled_run, market, cell.epsilon, effort=_EFFORT, seed=1)
    runs = [
        theorem,
        fixed_run(market, 100, theorem.plan.exploration_rate, epsilon=cell.epsilon),
        sampled(personalised=True),
        *(one for one in bandit_runs(market) if one.name in _BANDITS),
    ]
    found = side_by_side(market, runs, horizon=horizon, epsilon=cell.epsilon, effort=_EFFORT, seed=1)
    return as_table([found.assign_attrs({"setting": "setting-4"})], keys=("setting",))


def draw(table: pd.DataFrame) -> Figure:
    """A point for each policy: regret across, what the worst user audited expects to lose upwards; two errors."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(table.to_dict(orient="records")):
        loss, verdict = max(0.0, -row["margin_user"]), row["verdict_user"]
        if row["run"] == "payments":  # users are paid for what they lose beyond epsilon
            loss, verdict = min(loss, _EPSILON), f"a bill of {row['bill']:.3g}"
        colour = PALETTE[place % len(PALETTE)]
        errors = {"xerr": 2.0 * row["regret_mcse"], "yerr": 2.0 * row["margin_mcse_user"]}
        axes.errorbar([row["regret"]], [loss], fmt="o", color=colour, markersize=7, **errors)
        name = f"{NAMES.get(row['run'], row['run'])}: {verdict}"
        axes.annotate(name, (row["regret"], loss), xytext=(8, 6), textcoords="offset points", fontsize=9)
    axes.axhline(_EPSILON, color="black", linestyle="--", linewidth=1)
    axes.annotate("epsilon = .05", (1.0, 0.05), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=9)
    axes.set(xscale="log", xlabel="regret after 10,000 rounds", ylabel="what the worst user expects to lose")
    axes.set_yscale("symlog", linthresh=0.05)
    axes.set_ylim(bottom=-0.01)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * 4.0)
    axes.set_title("Setting 4: does anybody have a reason not to follow?", loc="left", fontsize=11)
    return figure


if __name__ == "__main__":
    main()
