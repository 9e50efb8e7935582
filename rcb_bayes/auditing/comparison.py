"""``compare_plans``: plans and policies side by side, what they cost and whether users would follow.

All run in the same worlds (the same seeds of users, coefficients and noise), so that differences of regret are sharper
than the regrets themselves.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.auditing import Audit, audit
from rcb_bayes.errors import RcbError
from rcb_bayes.files.store import open_store, part_file, part_format, read_part, write_part
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import deciding_cell
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.naming import name_of, name_of_market
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.running.simulation import simulate
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED, as_count
from rcb_bayes.workers import Workers, run_kept

if TYPE_CHECKING:
    import xarray as xr

_MOST_POINTS = 100
Contender = Plan | PolicyMaker


def compare_plans(
    market: Market,
    plans: Mapping[str, Contender] | Sequence[Contender],
    *,
    horizon: int = DEFAULT_HORIZON,
    n_worlds: int = 20,
    audit_worlds: int = 500,
    audit_horizon: int | None = None,
    epsilon: float | None = None,
    options: Exploiting | None = None,
    workers: Workers = None,
    folder: Path | None = None,
    seed: int = DEFAULT_SEED,
) -> "xr.Dataset":
    """Run and audit plans, or policies, in the same worlds.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    plans : mapping of str to Plan or callable or sequence of Plan or callable
        Plans or functions (market, seed) -> policy, by name; a plain sequence is numbered.
    horizon : int
        T, rounds of each run.
    n_worlds, audit_worlds : int
        Worlds of the runs, and of each audit; 0 leaves audits out.
    audit_horizon : int, optional
        Rounds that are audited; all of them for plans, 64 for policies, which are run world by world.
    epsilon : float, optional
        What users put up with; each plan's own, or .05, unless given.
    options : Exploiting, optional
        Of the exploitation stage of plans.
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
        Dim (plan): ``regret`` and ``extra_regret`` over the first plan, each with its ``_mcse`` over worlds;
        ``cold_start`` (rounds; NaN where it does not end), ``gain`` (realised, a round); ``seconds`` of the runs; with
        dim notion, ``verdict`` and ``worst_margin`` with bounds; ``compliance``, the share of users who would follow at
        every stage; ``n_per_arm`` and ``exploration_rate`` of plans; ``feasible``. A plan that is not feasible has NaN.

    Raises
    ------
    RcbError
        No plans, counts too small; a folder of another run.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> plans = {"sampled": plan, "new only": lambda market, seed: rcb.baselines.AlwaysArm(market, "new")}
    >>> table = rcb.compare_plans(market, plans, horizon=200, n_worlds=4, audit_worlds=300, audit_horizon=2)
    >>> table["verdict"].sel(notion="user").values.tolist()
    ['pass', 'fail']
    >>> table["regret"].values.round()
    array([ 7., 60.])
    """
    named = _named(plans)
    as_count(n_worlds, name="n_worlds", least=2)
    audit_worlds = as_count(audit_worlds, name="audit_worlds")
    how: dict[str, Any] = {"horizon": horizon, "n_worlds": n_worlds, "seed": seed, "audit_worlds": audit_worlds}
    how |= {"audit_horizon": audit_horizon, "epsilon": epsilon}
    manifest = {"experiment": "compare_plans", **how, **name_of_market(market), "options": repr(options)}
    manifest["plans"] = {name: name_of(plan) for name, plan in named.items()}
    cells = {str(number): item for number, item in enumerate(named.items())}
    parts = run_kept(
        open_store(None if folder is None else Path(folder), manifest, resume=None),
        {part_file(key): (key, *item) for key, item in cells.items()},
        function=partial(_row, options=options, **how),
        make=partial(_same, market),
        save=lambda task, data, path: write_part(part_format(task[0]), data, path),
        load=lambda task, path: read_part(part_format(task[0]), path),
        workers=workers,
        description="plans",
    )
    rows = [{"name": name, **_from_part(part)} for name, part in zip(named, parts, strict=True)]
    return _as_dataset(rows, market, horizon=horizon, n_worlds=n_worlds, audit_worlds=audit_worlds, seed=seed)


def _same(market: Market) -> Market:
    return market


def _row(
    market: Market,
    task: tuple[str, str, Contender],
    *,
    horizon: int,
    n_worlds: int,
    audit_worlds: int,
    audit_horizon: int | None,
    epsilon: float | None,
    options: Exploiting | None,
    seed: int,
) -> "xr.Dataset":
    """One plan, run and audited: regrets by world, everything else as attributes."""
    import xarray as xr

    plan = task[2]
    row = _described(plan)
    if row["feasible"]:
        row |= _run(market, plan, horizon=horizon, n_worlds=n_worlds, options=options, seed=seed)
    if row["feasible"] and audit_worlds:
        found = audit(
            market,
            plan,
            horizon=audit_horizon or (horizon if isinstance(plan, Plan) else min(horizon, 64)),
            n_worlds=audit_worlds,
            epsilon=epsilon,
            options=options if isinstance(plan, Plan) else None,
            seed=seed + 1,
        )
        row |= _judged(found)
    regrets = row.pop("regrets", np.full(0, np.nan))
    return xr.Dataset({"regrets": ("world", regrets)}, attrs=row | {"feasible": int(row["feasible"])})


def _from_part(part: "xr.Dataset") -> dict[str, Any]:
    row = {str(name): value for name, value in part.attrs.items()}
    row["feasible"] = bool(row["feasible"])
    return row | ({"regrets": part["regrets"].values} if part.sizes["world"] else {})


def _named(plans: Mapping[str, Contender] | Sequence[Contender]) -> dict[str, Contender]:
    if isinstance(plans, Mapping):
        named = {str(name): plan for name, plan in plans.items()}
    else:
        named = {f"plan {k}": plan for k, plan in enumerate(plans, 1)}
    if not named:
        raise RcbError("There are no plans to compare: pass them by name, as in {'sampled': plan, 'theorem': other}.")
    return named


def _described(plan: Contender) -> dict[str, Any]:
    if not isinstance(plan, Plan):
        return {"feasible": True}
    runs = plan.feasible or plan.kind != "sampled"  # the theorem's cold start may outlast the horizon, and is run
    return {"feasible": runs, "n_per_arm": plan.agenda.most, "exploration_rate": plan.exploration_rate}


def _run(
    market: Market, plan: Contender, *, horizon: int, n_worlds: int, options: Exploiting | None, seed: int
) -> dict[str, Any]:
    start = time.perf_counter()
    every = max(1, horizon // _MOST_POINTS)
    oracle = PosteriorOracle(market.platform_prior, market.noise, read="engine")  # many worlds: summaries take time
    runs = simulate(
        market, plan, horizon=horizon, n_worlds=n_worlds, oracle=oracle, options=options, every=every, seed=seed
    )
    lengths = runs["cold_start_length"].values.astype(float)
    return {
        "regrets": runs["regret"].sum("t").values,
        "cold_start": float(lengths.mean()) if (lengths >= 0).all() else np.nan,
        "gain": float(runs["gain"].mean()),
        "seconds": time.perf_counter() - start,
    }


def _judged(found: Audit) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for notion in NOTIONS:
        row[f"verdict {notion}"] = found.verdicts[notion]
        cell = deciding_cell(found.by_notion[notion])
        if cell is not None:
            row |= {f"worst_margin {notion}": cell.estimate}
            row |= {f"worst_margin_{bound} {notion}": getattr(cell, bound) for bound in ("lower", "upper")}
    share = found.compliance.sel(epsilon=found.epsilon, method="nearest")
    return row | {"compliance": float(share["share"]), "compliance_mcse": float(share["share_mcse"])}


def _as_dataset(rows: list[dict[str, Any]], market: Market, **attrs: Any) -> "xr.Dataset":
    import xarray as xr

    first = next((row["regrets"] for row in rows if "regrets" in row), None)
    for row in rows:
        if "regrets" in row and first is not None:
            own, n = row["regrets"], np.sqrt(len(first))
            row["regret"], row["regret_mcse"] = own.mean(), own.std(ddof=1) / n
            row["extra_regret"], row["extra_regret_mcse"] = (own - first).mean(), (own - first).std(ddof=1) / n
    variables: dict[str, Any] = {"feasible": ("plan", [row["feasible"] for row in rows])}
    for name in (
        "regret",
        "regret_mcse",
        "extra_regret",
        "extra_regret_mcse",
        "cold_start",
        "gain",
        "seconds",
        "n_per_arm",
        "exploration_rate",
        "compliance",
        "compliance_mcse",
    ):
        variables[name] = ("plan", [float(row.get(name, np.nan)) for row in rows])
    for name in ("worst_margin", "worst_margin_lower", "worst_margin_upper"):
        table = [[float(row.get(f"{name} {notion}", np.nan)) for notion in NOTIONS] for row in rows]
        variables[name] = (("plan", "notion"), table)
    table = [[row.get(f"verdict {notion}", "") for notion in NOTIONS] for row in rows]
    variables["verdict"] = (("plan", "notion"), table)
    coords = {"plan": [row["name"] for row in rows], "notion": list(NOTIONS)}
    return xr.Dataset(variables, coords=coords, attrs=attrs | {"belief": market.prior.name, "version": __version__})
