"""Draw regret against what the worst user loses: ``python tools/comparison_picture.py [--run] [FILE]``.

Setting 4: five arms, one of them everybody's favourite, variance .02, users on the sphere, 10,000 rounds. Points are
those of docs/measured/comparison.md; with ``--run`` they are of a run of their own, payments among them, whose table is
kept in docs/measured/paper/comparison.csv and goes before the other from then on.
"""

import argparse
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

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
_EPSILON, _MOST = 0.05, 6.0
_VERDICTS = {"pass": "audit passes", "fail": "audit fails", "inconclusive": "audit open"}
_BELOW = ("LinUCB", "sampled, tuned", "payments")  # labels that would lie on others above their points
_COLOURS = {"theorem": 0, "fixed": 1, "sampled": 2, "Thompson": 4, "LinUCB": 5, "greedy": 3, "payments": 5}
_BANDITS = ("greedy", "Thompson", "payments")
NAMES = {
    "theorem": "Theorem 1 (cold start does not end)",
    "fixed, N = 100": "the paper's kernel, N = 100",
    "sampled, personalised": "ours: a rate each, guarded",
    "sampled, tuned": "ours, spread tuned",
    "LinUCB": "LinUCB",
    "greedy": "greedy (users differ enough here)",
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
    table = pd.read_csv(TABLE) if TABLE.exists() else stored()
    draw(table).savefig(asked.file, dpi=90)
    print(asked.file)


def run() -> pd.DataFrame:
    """The policies in the same worlds, a row each."""
    cell = next(cell for cell in SETTINGS["setting-4"].cells if cell.variance == 0.02)
    market, horizon = cell.market(), _EFFORT.most_rounds
    theorem = timed(theorem_run, market, cell, horizon=horizon)
    the_plan: Any = theorem.plan
    sampled = partial(timed, sampled_run, market, cell.epsilon, effort=_EFFORT, seed=1)
    runs = [
        theorem,
        fixed_run(market, 100, the_plan.exploration_rate, epsilon=cell.epsilon),
        sampled(personalised=True),
        *(one for one in bandit_runs(market) if one.name in _BANDITS),
    ]
    found = side_by_side(market, runs, horizon=horizon, epsilon=cell.epsilon, effort=_EFFORT, seed=1)
    return as_table([found.assign_attrs({"setting": "setting-4"})], keys=("setting",))


def stored() -> pd.DataFrame:
    """Rows of the comparison's file."""
    found = []
    for line in (ROOT / "docs" / "measured" / "comparison.md").read_text(encoding="utf-8").splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if cells[0] == "setting-4" and len(cells) > 5 and cells[1] in NAMES:
            verdict = next(k for k, cell in enumerate(cells) if cell in ("pass", "fail", "inconclusive"))
            regret, margin = (_estimate(cells[k]) for k in (2, verdict + 1))
            row = {"run": cells[1], "verdict_user": cells[verdict], "regret": regret[0], "regret_mcse": regret[1]}
            found.append(row | {"margin_user": margin[0], "margin_mcse_user": margin[1]})
    return pd.DataFrame(found)


def _estimate(text: str) -> tuple[float, float]:
    value, _, error = text.replace(",", "").partition(" ± ")
    return float(value), float(error or 0.0)


def draw(table: pd.DataFrame) -> Figure:
    """A point for each policy: regret across, what the worst user audited expects to lose upwards; two errors."""
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.axhspan(_EPSILON, _MOST, color="0.93", zorder=0)
    axes.axhline(_EPSILON, color="black", linestyle="--", linewidth=1)
    for row in table.to_dict(orient="records"):
        loss, verdict = max(0.0, -row["margin_user"]), _VERDICTS[row["verdict_user"]]
        if row["run"] == "payments":  # users are paid for what they lose beyond epsilon
            loss, verdict = min(loss, _EPSILON), f"costs {row['bill']:.3g}"
        colour = PALETTE[_COLOURS.get(row["run"].split(",")[0], 5)]
        down = min(loss, 2.0 * row["margin_mcse_user"]) if row["margin_mcse_user"] > 0 else 0.0
        errors = {"xerr": 2.0 * row["regret_mcse"], "yerr": [[down], [2.0 * row["margin_mcse_user"]]]}
        axes.errorbar([row["regret"]], [loss], fmt="o", color=colour, markersize=7, **errors)
        left, below = row["regret"] > 100, row["run"] in _BELOW
        axes.annotate(
            f"{NAMES.get(row['run'], row['run'])}\n{verdict}",
            (row["regret"], loss),
            xytext=(-9 if left else 9, -3 if below else 4),
            textcoords="offset points",
            ha="right" if left else "left",
            va="top" if below else "bottom",
            fontsize=8.5,
            color=colour,
        )
    axes.annotate(
        "above the line somebody has a reason not to follow",
        (0.99, _EPSILON),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
    )
    axes.set(xscale="log", xlabel="regret after 10,000 rounds (less is better)")
    axes.set_ylabel("what the worst user expects to lose")
    axes.set_yscale("symlog", linthresh=_EPSILON)
    axes.set_yticks([0.0, _EPSILON, 0.1, 1.0], ["0", "epsilon = .05", "0.1", "1"])
    axes.set_ylim(-0.015, _MOST)
    axes.set_xlim(2.0, 2000.0)
    axes.set_title("Setting 4, five arms, one of them a favourite: regret and incentives", loc="left", fontsize=11)
    return figure


if __name__ == "__main__":
    main()
