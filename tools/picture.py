"""Draw the README's picture: ``python tools/picture.py [FILE] [--small]``."""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import rcb_bayes as rcb
from rcb_bayes.plots import PALETTE

SEED = 1


def explored(axes: Axes, plan: rcb.Plan, market: rcb.Market) -> None:
    """Whom a plan explores."""
    rcb.plots.plot_rates(plan, market.covariates.sample(1200, seed=SEED), axes=axes)
    axes.set_title("")
    axes.set_title("1. Who can be explored", loc="left", fontweight="bold")
    axes.set(xlabel="about the sum of her features, scaled", ylabel="a direction across it")


def followed(axes: Axes, market: rcb.Market, plans: dict[str, rcb.Plan], *, n_worlds: int) -> None:
    """What the worst user expects at every stage, with the guard and without."""
    audits = {
        label: rcb.audit(market, plan, horizon=3000, n_worlds=n_worlds, seed=SEED + 1) for label, plan in plans.items()
    }
    for (label, audit), colour, marker in zip(audits.items(), (PALETTE[2], PALETTE[5]), "os", strict=True):
        axes.plot(audit.worst()["estimate"], marker=marker, color=colour, label=f"{label}: {audit.verdict}")
    first = next(iter(audits.values()))
    stages = [str(stage).replace("1 of arm_1, arm_2", "another") for stage in first.worst()["stage"].values]
    axes.set_xticks(range(len(stages)), stages, rotation=35, ha="right")
    axes.axhline(-first.epsilon, color="black", linestyle="--", linewidth=1, label=f"-epsilon = {-first.epsilon}")
    axes.set_title("2. Would they follow?", loc="left", fontweight="bold")
    axes.set_ylabel("what the worst user expects to gain")
    axes.legend(frameon=False, loc="center right")


def bought(axes: Axes, *, horizon: int, n_runs: int) -> None:
    """Regret where users are alike and expect nothing of the new arm."""
    prior = rcb.Prior.gaussian([[0.3], [0.0]], 0.04, arms=["usual", "new"], features=["base"])
    noise = rcb.GaussianNoise(0.2243)
    alike = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]], features=["base"]), noise=noise)
    plan = rcb.calibrate(alike, n_per_arm=10, n_worlds=20_000, audit_worlds=20_000, seed=SEED)
    makers: dict[str, Any] = {
        "greedy: followed, learns by luck": lambda market, seed: rcb.baselines.Greedy(market, batch=20, seed=seed),
        "RCB: followed": plan,
        "Thompson sampling: not followed": lambda market, seed: rcb.baselines.LinThompson(market, batch=20, seed=seed),
    }
    for (label, maker), colour, dash in zip(
        makers.items(), PALETTE[1::-1] + PALETTE[3:4], ("--", "-", ":"), strict=True
    ):
        runs = rcb.simulate(alike, maker, horizon=horizon, n_worlds=n_runs, seed=SEED)
        regret = runs["regret"].cumsum("t").values
        mean, error = regret.mean(axis=0), regret.std(axis=0, ddof=1) / np.sqrt(n_runs)
        t = np.arange(1, horizon + 1)
        axes.plot(t, mean, color=colour, linestyle=dash, label=label)
        axes.fill_between(t, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.15, linewidth=0)
    axes.set(xscale="log", yscale="log", xlim=(10, horizon), ylim=(0.5, None), xlabel="round t", ylabel="regret")
    axes.set_title("3. What it buys", loc="left", fontweight="bold")
    axes.legend(frameon=False)


def draw(*, small: bool = False) -> Figure:
    """The picture."""
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1, 1))
    prior = rcb.load_prior("setting_4", n_arms=3)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05))
    n_worlds = 300 if small else 2000
    plans = {
        label: rcb.calibrate(market, n_per_arm=20, n_worlds=n_worlds, guard=guard, seed=SEED)
        for label, guard in (("with our guard", True), ("the paper's kernel", False))
    }
    explored(left, plans["with our guard"], market)
    followed(middle, market, plans, n_worlds=300 if small else 1000)
    bought(right, horizon=1000 if small else 20_000, n_runs=10 if small else 200)
    return figure


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description="Draw the README's picture.")
    parser.add_argument("file", nargs="?", type=Path, default=Path("docs/picture.png"))
    parser.add_argument("--small", action="store_true", help="few worlds, to see that it draws")
    asked = parser.parse_args()
    mpl.rcParams["font.size"] = 11
    asked.file.parent.mkdir(parents=True, exist_ok=True)
    draw(small=asked.small).savefig(asked.file, dpi=90)
    print(asked.file)


if __name__ == "__main__":
    main()
