"""Parts of the warfarin experiment put together: policies, cells of the grid, plans, audits."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.studies.warfarin.cohort import Cohort
from rcb_bayes.studies.warfarin.result import WarfarinResult
from rcb_bayes.studies.warfarin.variation import two_way_error

if TYPE_CHECKING:
    import xarray as xr

_ORDER = tuple(NOTIONS)  # of rows
ORACLES = ("posterior mean", "dose heeding")
Part = dict[str, Any]
Cells = dict[tuple[str, float, float], "xr.Dataset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the experiment is asked for; see ``run_warfarin``."""

    epsilons: tuple[float, ...]
    variances: tuple[float, ...]
    sigma: float
    n_permutations: int
    n_plans: int
    n_worlds: int
    audit: bool
    audit_worlds: int
    baselines: bool
    seed: int

    @property
    def plan_seeds(self) -> range:
        """The seed of each plan."""
        return range(self.seed, self.seed + self.n_plans)


def joined(cohort: Cohort, asked: Settings, parts: list[Part]) -> WarfarinResult:
    """The result, from parts in any order."""
    import xarray as xr

    policies: dict[str, tuple[Any, Any, Any]] = {}
    cells: Cells = {}
    plans: list[dict[str, Any]] = []
    audits: list[dict[str, Any]] = []
    for part in parts:
        policies |= part.get("policies", {})
        cells |= part.get("cells", {})
        plans += part.get("plans", [])
        audits += part.get("audits", [])
    audits.sort(key=lambda row: (_ORDER.index(row["plan_notion"]), row["epsilon"]))  # rows of one audit stay together
    ordered = sorted(policies, key=lambda name: ("given", "bandit", "rcb").index(policies[name][1]["kind"].item()))
    index = xr.DataArray(ordered, dims="policy", name="policy")
    runs, figures, groups = (
        xr.concat([policies[name][k] for name in ordered], dim=index, combine_attrs="drop") for k in range(3)
    )
    attrs = {
        "seed": asked.seed,
        "version": __version__,
        "cohort": cohort.source,
        "rule": cohort.rule,
        "synthetic": int(cohort.is_synthetic),
        "sigma": asked.sigma,
        "n_permutations": asked.n_permutations,
        "n_plans": asked.n_plans,
    }
    made = {
        "runs": runs,
        "figures": figures,
        "groups": groups,
        "grid": _grid(cells, asked, n=len(cohort)),
        "plans": _as_rows(sorted(plans, key=_plan_order), "plan"),
        "audits": _as_rows(audits, "audit"),
    }
    return WarfarinResult(cohort=cohort.describe(), **{name: data.assign_attrs(attrs) for name, data in made.items()})


def _plan_order(row: dict[str, Any]) -> tuple[Any, ...]:
    """The theorem's first; then by notion, the strongest last, epsilon and variance."""
    return (
        row["kind"] != "theorem",
        _ORDER.index(row["notion"]),
        row["epsilon"],
        row["variance"],
        row["n_per_arm"],
    )


def _grid(cells: Cells, asked: Settings, *, n: int) -> "xr.Dataset":
    """Curves and errors over oracle, epsilon and variance; NaN, and -1, where a plan is not feasible."""
    import xarray as xr

    shape = (len(ORACLES), len(asked.epsilons), len(asked.variances), asked.n_plans, asked.n_permutations, n)
    regret, gain = np.full(shape, -1, dtype=np.int8), np.full(shape, np.nan, dtype=np.float32)
    error, spread = np.full(shape[:3], np.nan), np.full(shape[:3], np.nan)
    for (oracle, epsilon, variance), runs in cells.items():
        place = ORACLES.index(oracle), asked.epsilons.index(epsilon), asked.variances.index(variance)
        feasible = slice(runs.sizes["plan"])
        regret[place][feasible], gain[place][feasible] = runs["regret"].values, runs["gain"].values
        share = runs["regret"].values.mean(axis=-1)  # (plan, permutation)
        error[place], spread[place] = share.mean(), two_way_error(share)
    cell = ("oracle", "epsilon", "variance")
    return xr.Dataset(
        {
            "regret": ((*cell, "plan", "permutation", "t"), regret),
            "gain": ((*cell, "plan", "permutation", "t"), gain),
            "error": (cell, error),
            "error_mcse": (cell, spread),
        },
        coords={
            "oracle": list(ORACLES),
            "epsilon": list(asked.epsilons),
            "variance": list(asked.variances),
            "t": np.arange(1, n + 1),
        },
    )


def _as_rows(rows: list[dict[str, Any]], dim: str) -> "xr.Dataset":
    import xarray as xr

    names = list(rows[0]) if rows else []
    return xr.Dataset(
        {name: (dim, np.array([row[name] for row in rows])) for name in names}, coords={dim: np.arange(len(rows))}
    )
