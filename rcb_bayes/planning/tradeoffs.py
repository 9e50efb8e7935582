r"""The price of incentives as a curve: what a smaller epsilon costs in rounds and in regret.

The price of a plan is the expected regret of its cold start beyond that of one without any constraint (everybody
explored, q = 1) with as many samples; a personalised plan can beat that, as it spares users who would lose much, and
then its price is negative. Theorem 1's N, L and cold start stand beside it where the theorem applies.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import open_store, part_file, part_format, read_part, write_part
from rcb_bayes.market import Market
from rcb_bayes.mechanism.simulator import Simulator
from rcb_bayes.planning.calibration import planned
from rcb_bayes.planning.goal import PlanRequest, as_request, check_request_size
from rcb_bayes.planning.theorem import theorem_plan
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_count, is_number
from rcb_bayes.workers import Workers, run_kept

if TYPE_CHECKING:
    import xarray as xr

_FIGURES = ("exploration_rate", "inverse_rate", "expected_cold_start", "expected_regret")


def tradeoff(
    market: Market,
    *,
    epsilons: Sequence[float] = (0.0, 0.02, 0.05, 0.1, 0.2),
    n_grid: Sequence[int] = (10, 30, 100),
    notion: str = "user",
    personalised: bool = True,
    n_worlds: int = 1000,
    audit_worlds: int = 1000,
    engine: str = "auto",
    knows: str = "auto",
    workers: Workers = None,
    folder: Path | None = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """Plans over a grid of epsilon and N.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    epsilons : sequence of float
        What users put up with, 0 or more.
    n_grid : sequence of int
        Samples per arm.
    notion : str
        "user", "proof" or "definition".
    personalised : bool
        A rate for each user instead of one for all.
    n_worlds : int
        Worlds behind each stage of each plan.
    audit_worlds : int
        Worlds of the audit that each plan is to pass.
    engine : str
        What computes posterior means; see ``posterior.make_engine``.
    knows : str
        What users know of the clock; see ``calibrate``.
    workers : None, int, str, Client or Executor
        Who works on the plans: this process, so many processes, a Dask cluster by its scheduler's address or its
        client, an executor. The answer is the same.
    folder : path-like, optional
        Where finished plans are kept: asked for the same in the same folder, they are not computed again.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    xarray.Dataset
        Dims (epsilon, n): ``exploration_rate``, ``inverse_rate`` (L), ``expected_cold_start``, ``expected_regret`` of
        the cold start and ``price``, each with its ``_mcse``; ``share_explored`` and ``feasible``; over epsilon,
        ``best_n``, the N of the grid with the least regret (-1 if none is feasible) and, where it applies, the
        theorem's ``theorem_n``, ``theorem_inverse_rate`` and ``theorem_cold_start``.

    Raises
    ------
    RcbError
        An empty grid, a negative or non-finite epsilon, n below 1, and whatever ``calibrate`` refuses; a folder of
        another run.

    Examples
    --------
    With ``market`` as in ``calibrate``:

    >>> curve = rcb.tradeoff(market, epsilons=[0.05, 0.2], n_grid=[5, 20], n_worlds=200, seed=1)
    >>> curve["expected_cold_start"].sel(n=20).values.round()
    array([55., 42.])
    >>> curve["best_n"].values
    array([5, 5])
    """
    import xarray as xr

    allowed, sizes = _as_epsilons(epsilons), _as_sizes(n_grid)
    asked = {"notion": notion, "n_worlds": n_worlds, "engine": engine, "knows": knows, "seed": seed}
    asked["audit_worlds"] = audit_worlds
    for request in (_request(market, epsilon, sizes[0], personalised, **asked) for epsilon in allowed):
        check_request_size(market, request)
    free_cells = [(_unconstrained(market), n, False) for n in sizes]
    cells = free_cells + [(epsilon, n, personalised) for epsilon in allowed for n in sizes]
    manifest = {"experiment": "tradeoff", **asked, "personalised": personalised, "cells": cells, **market.fingerprint()}
    found = run_kept(
        open_store(None if folder is None else Path(folder), manifest, resume=None),
        {part_file(_key(*cell)): cell for cell in cells},
        function=_planned_cell,
        make=partial(_Planner, market, asked),
        save=lambda cell, data, path: write_part(part_format(_key(*cell)), data, path),
        load=lambda cell, path: read_part(part_format(_key(*cell)), path),
        workers=workers,
        description="plans",
    )
    free, plans = found[: len(sizes)], found[len(sizes) :]
    shape = (len(allowed), len(sizes))
    dims = ("epsilon", "n")

    def grid(values: Sequence[Any]) -> np.ndarray:
        return np.array(values).reshape(shape)

    variables: dict[str, Any] = {}
    for name in _FIGURES:
        for suffix in ("", "_mcse"):
            variables[name + suffix] = (dims, grid([plan[name + suffix].item() for plan in plans]))
    regret, error = variables["expected_regret"][1], variables["expected_regret_mcse"][1]
    variables["price"] = (dims, regret - [plan["expected_regret"].item() for plan in free])
    variables["price_mcse"] = (dims, np.hypot(error, [plan["expected_regret_mcse"].item() for plan in free]))
    variables["share_explored"] = (dims, grid([plan["share_explored"].item() for plan in plans]))
    feasible = grid([bool(plan["feasible"]) for plan in plans])
    variables["feasible"] = (dims, feasible)
    least = np.where(feasible, regret, np.inf).argmin(axis=1)
    variables["best_n"] = ("epsilon", np.where(feasible.any(axis=1), np.array(sizes)[least], -1))
    variables |= _theorem(market, allowed, plans)
    attrs = {"notion": notion, "personalised": int(personalised), "n_worlds": n_worlds, "seed": seed}
    return xr.Dataset(
        variables,
        coords={"epsilon": allowed, "n": sizes},
        attrs={**attrs, "belief": market.prior.name, "engine": plans[0].attrs["engine"], "version": __version__},
    )


class _Planner:
    """What plans of the grid share: posterior means are computed once wherever the law of the data is the same."""

    def __init__(self, market: Market, asked: dict[str, Any]) -> None:
        self.market, self.asked = market, asked
        self.simulator = Simulator(market, engine=asked["engine"], seed=asked["seed"], remember=True)


def _planned_cell(planner: _Planner, cell: tuple[float, int, bool]) -> "xr.Dataset":
    """The figures of one plan."""
    import xarray as xr

    request = _request(planner.market, *cell, **planner.asked)
    made: dict[str, Any] = {"guard": False, "spread": "posterior", "horizon": DEFAULT_HORIZON}
    plan = planned(planner.market, request, simulator=planner.simulator.again(), **made)
    names = [name + suffix for name in _FIGURES for suffix in ("", "_mcse")]
    values = {name: float(getattr(plan, name)) for name in (*names, "share_explored", "tau", "rho")}
    return xr.Dataset(values | {"feasible": bool(plan.feasible)}, attrs={"engine": plan.engine, "seed": plan.seed})


def _request(market: Market, epsilon: float, n: int, personalised: bool, **asked: Any) -> PlanRequest:
    own = {"epsilon": epsilon, "n_per_arm": n, "personalised": personalised}
    return as_request(market, **asked, **own)


def _key(epsilon: float, n: int, personalised: bool) -> str:
    return f"epsilon{epsilon!r}-n{n}-{'each' if personalised else 'all'}"


def _theorem(market: Market, epsilons: list[float], plans: "list[xr.Dataset]") -> dict[str, Any]:
    """Theorem 1's figures with each plan's own tau and rho; nothing where the theorem does not apply."""
    try:
        found = [
            theorem_plan(
                market, epsilon=epsilon, tau=plan["tau"].item(), rho=plan["rho"].item(), seed=plan.attrs["seed"]
            )
            for epsilon, plan in zip(epsilons, plans[:: len(plans) // len(epsilons)], strict=True)
        ]
    except RcbError:
        return {}
    return {
        "theorem_n": ("epsilon", [plan.n_per_arm for plan in found]),
        "theorem_inverse_rate": ("epsilon", [plan.inverse_rate for plan in found]),
        "theorem_cold_start": ("epsilon", [plan.expected_cold_start for plan in found]),
    }


def _unconstrained(market: Market) -> float:
    """An epsilon at which nothing binds."""
    reach = market.population.max_norm if np.isfinite(market.population.max_norm) else 1e6
    return 10.0 * (1.0 + reach * float(np.abs(market.prior.mean.values).sum()))


def _as_epsilons(epsilons: Sequence[float]) -> list[float]:
    found = [float(value) for value in epsilons if is_number(value) and value >= 0]
    if not len(epsilons) or len(found) != len(epsilons):
        raise RcbError(f"epsilons must be finite numbers of at least 0, got {list(epsilons)}.")
    return sorted(set(found))


def _as_sizes(n_grid: Sequence[int]) -> list[int]:
    if not len(n_grid):
        raise RcbError("n_grid is empty: give the numbers of samples to look at, such as [10, 30, 100].")
    return sorted({as_count(n, name="n_grid", least=1) for n in n_grid})
