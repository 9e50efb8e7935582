"""A result made up for tests of what is drawn from it."""

import numpy as np
import xarray as xr

from rcb_bayes.studies.warfarin.cohort import ARMS
from rcb_bayes.studies.warfarin.result import WarfarinResult


def made_up_result(*, n: int = 400, feasible: bool = True) -> WarfarinResult:
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
    return WarfarinResult(
        runs=empty, figures=figures, groups=empty, grid=grid, plans=empty, audits=empty, cohort="made up"
    )
