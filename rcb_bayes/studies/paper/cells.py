"""A cell of a setting: its plans, run and audited side by side."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from rcb_bayes.market import Market
from rcb_bayes.planning.plan import Plan
from rcb_bayes.studies.paper.measures import Run, measure
from rcb_bayes.studies.paper.plan_kinds import plans_for
from rcb_bayes.studies.paper.settings import Cell, Effort

if TYPE_CHECKING:
    import xarray as xr


def run_cell(cell: Cell, *, effort: Effort, seed: int) -> "xr.Dataset":
    """Every plan of a cell, dims (run, world, t), with the cell's parameters as attributes."""
    market = cell.market()
    runs = plans_for(market, cell, effort=effort, seed=seed)
    horizon = effort.horizon(cell)
    found = side_by_side(market, runs, horizon=horizon, epsilon=cell.epsilon, effort=effort, seed=seed)
    values = asdict(cell) | {"horizon": horizon}
    return found.assign_attrs({name: list(v) if isinstance(v, tuple) else v for name, v in values.items()})


def side_by_side(
    market: Market, runs: list[Run], *, horizon: int, epsilon: float, effort: Effort, seed: int
) -> "xr.Dataset":
    """Each run measured in the same worlds; a plan that repeats another one's mechanism is not run again."""
    import xarray as xr

    parts: list[xr.Dataset] = []
    for place, run in enumerate(runs):
        twin = next((k for k in range(place) if _same_mechanism(runs[k], run)), None)
        if twin is None:
            parts.append(measure(market, run, horizon=horizon, epsilon=epsilon, effort=effort, seed=seed))
        else:
            part = parts[twin].assign_coords(run=[run.name])
            part["kind"] = ("run", [run.kind])
            part["note"] = ("run", [f"Everybody is explored freely: the same as {runs[twin].name}."])
            parts.append(part)
    return xr.concat(parts, dim="run")


def _same_mechanism(one: Run, other: Run) -> bool:
    """Whether two sampled plans explore everybody all the time, with the same N, spread and no guard."""
    plans = [run.plan for run in (one, other)]
    if not all(isinstance(plan, Plan) and plan.kind == "sampled" and plan.feasible for plan in plans):
        return False
    first, second = (plan for plan in plans if isinstance(plan, Plan))
    return (
        first.exploration_rate == second.exploration_rate == 1.0
        and not (first.has_guard or second.has_guard)
        and (first.n_per_arm, first.spread_multiple) == (second.n_per_arm, second.spread_multiple)
        and one.options == other.options
        and one.audited is other.audited
    )
