"""A result made up for tests of what is drawn from it."""

import numpy as np
import xarray as xr

from rcb_bayes.studies.warfarin.cohort import ARMS
from rcb_bayes.studies.warfarin.result import WarfarinResult


def made_up_result(*, n: int = 400, feasible: bool = True, told: bool = False) -> WarfarinResult:
    """A result to draw; ``told``: with the figures that its summary needs."""
    rng = np.random.default_rng(0)
    oracles, epsilons, variances = ["posterior mean", "dose heeding"], [0.025, 0.035], [0.4, 0.8]
    shape = (2, 2, 2, 2, 3, n)
    dims = ("oracle", "epsilon", "variance", "plan", "permutation", "t")
    regret = (rng.random(shape) < 0.35).astype(np.int8)
    error = regret.mean(axis=(3, 4, 5))
    if not feasible:
        error[:, 0], regret[:, 0] = np.nan, -1
    grid = xr.Dataset(
        {"regret": (dims, regret), "gain": (dims, rng.normal(0.1, 0.05, shape)), "error": (dims[:3], error)},
        coords={"oracle": oracles, "epsilon": epsilons, "variance": variances, "t": np.arange(1, n + 1)},
        attrs={"synthetic": 1},
    )
    policies = ["physician", "RCB"]
    confusion = np.stack([np.tile([0.0, 1.0, 0.0], (3, 1)), np.eye(3)])
    figures = xr.Dataset(
        {"error": ("policy", [0.4, 0.0]), "confusion": (("policy", "right", "assigned"), confusion)},
        coords={"policy": policies, "right": list(ARMS), "assigned": list(ARMS)},
    )
    empty = xr.Dataset()
    if told:
        return _told(figures, grid)
    return WarfarinResult(
        runs=empty, figures=figures, groups=empty, grid=grid, plans=empty, audits=empty, cohort="made up"
    )


def _told(figures: xr.Dataset, grid: xr.Dataset) -> WarfarinResult:
    numbers = dict.fromkeys(
        ("error_mcse", "error_least", "error_most", "score", "macro_recall", "extreme", "explored", "cold_start"), 0.25
    )
    numbers |= {"cold_start_mcse": 1.5, "ended": 0.5, "n_plans": 2}
    figures = figures.assign({name: ("policy", [value] * 2) for name, value in numbers.items()})
    figures = figures.assign(recall=(("policy", "arm"), np.eye(3)[:2]), kind=("policy", ["other", "rcb"]))
    plan = {"kind": "sampled", "notion": "proof", "epsilon": 0.025, "variance": 0.4, "n_per_arm": 20, "reason": ""}
    plan |= {"feasible": True, "n_plans": 2, "n_feasible": 2, "exploration_rate": 0.2, "exploration_rate_mcse": 0.01}
    lengths = ("expected_cold_start", "expected_cold_start_mcse", "cold_start_least", "cold_start_most")
    plan |= {"cold_start_own_mcse": 3.0} | dict.fromkeys(lengths, 100.0)
    return WarfarinResult(
        runs=xr.Dataset({"regret": ("t", [0.0, 1.0])}),
        figures=figures,
        groups=xr.Dataset({"n": ("group", [2.0])}),
        grid=grid.assign(error_mcse=grid["error"] * 0.1),
        plans=xr.Dataset({name: ("plan", [value]) for name, value in plan.items()}),
        audits=xr.Dataset({"verdict": ("audit", np.array([], dtype="U4"))}),
        cohort="made up",
    )
