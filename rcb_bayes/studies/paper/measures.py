"""What one plan or policy comes to in a market: runs, an audit under every notion, time.

The result is a Dataset with one entry of the dim ``run``, so that what stands side by side is concatenated along it.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.auditing import Audit, audit
from rcb_bayes.baselines.payments import payment
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import FIGURES, deciding_cell
from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.running.simulation import simulate
from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.paper.settings import Effort

if TYPE_CHECKING:
    import xarray as xr

_N_BINS = 60
_FIGURES = ("margin", "margin_mcse", "margin_lower", "margin_upper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Something to be run and audited.

    Attributes
    ----------
    name : what it is called in tables
    kind : "theorem", "measured", "fixed", "uniform", "personalised", "tuned", or "baseline"
    plan : a plan, a function (market, seed) -> policy, or None where there is nothing to run
    note : what is to be said about it
    options : of the exploitation stage, in its runs and in its audit
    audited : the market whose users judge it; the one it is run in unless given
    audit_rounds : how many rounds of a policy are audited, which takes longer than a plan
    seconds : of processor time that making the plan took
    """

    name: str
    kind: str
    plan: Plan | PolicyMaker | None
    note: str = ""
    options: Exploiting | None = None
    audited: Market | None = None
    audit_rounds: int | None = None
    seconds: float = 0.0


def measure(market: Market, run: Run, *, horizon: int, epsilon: float, effort: Effort, seed: int) -> "xr.Dataset":
    """Run it in worlds of nature, then audit it under every notion; what does not apply is said in ``note``."""
    begun = time.process_time()
    found = _nothing(effort.n_worlds, horizon)
    notes = [run.note] if run.note else []
    only_first = False
    if run.plan is not None and not _is_infeasible(run.plan):
        try:
            runs = simulate(
                market,
                run.plan,
                horizon=horizon,
                n_worlds=effort.n_worlds,
                options=run.options,
                oracle=_oracle(market) if isinstance(run.plan, Plan) else None,
                seed=seed,
            )
        except RcbError as error:  # a policy that does not apply says why
            notes.append(str(error))
        else:
            found |= binned(runs, horizon=horizon) | paid_for(runs, epsilon=epsilon)
            only_first = isinstance(run.plan, Plan) and bool((runs["stage"] == MOST_POPULAR).all())
            found["seconds"] = run.seconds + time.process_time() - begun
            if effort.audit_worlds:
                begun = time.process_time()
                found |= _audited(market, run, horizon, epsilon, effort, seed, only_first=only_first, notes=notes)
                found["audit_seconds"] = time.process_time() - begun
    return _as_dataset(run, found | _planned(run.plan), notes)


def edges(horizon: int) -> np.ndarray:
    """Rounds at which bins end, about evenly spaced in log t, the last one T."""
    found = np.unique(np.geomspace(1, horizon, _N_BINS).round().astype(int))
    return found


def binned(runs: "xr.Dataset", *, horizon: int) -> dict[str, Any]:
    """Cumulative regret, mean gain and its slope in each world, from runs that keep every round."""
    ends = edges(horizon)
    regret = np.cumsum(runs["regret"].values, axis=1)[:, ends - 1]
    starts = np.append(0, ends[:-1])
    sums = np.add.reduceat(runs["gain"].values, starts, axis=1)
    return {
        "regret": regret,
        "gain": sums / np.diff(np.append(0, ends)),
        "trend": _trends(runs),
        "cold_start": runs["cold_start_length"].values.astype(float),
        "cold_share": (runs["stage"].values != EXPLOIT).mean(axis=1),
    }


def paid_for(runs: "xr.Dataset", *, epsilon: float) -> dict[str, Any]:
    """What paying users for what they lose beyond epsilon would come to, were all data public, in each world.

    ``explored`` are recommendations of another arm than the best known; NaN of policies that expect nothing.
    """
    gain = runs["gain"].values
    return {"bill": payment(gain, epsilon).sum(axis=1), "explored": np.where(gain < 0.0, 1.0, gain * 0.0).sum(axis=1)}


def _trends(runs: "xr.Dataset") -> FloatArray:
    """Slope of the gain on log t within exploitation, world by world; NaN where there is too little of it."""
    out = np.full(runs.sizes["world"], np.nan)
    t = runs["t"].values.astype(float)
    for world in range(len(out)):
        here = runs["stage"].values[world] == EXPLOIT
        if here.sum() >= 100:
            x = np.log(t[here] - t[here][0] + 1.0)
            out[world] = np.polyfit(x, runs["gain"].values[world][here], 1)[0]
    return out


def _is_infeasible(plan: Plan | PolicyMaker) -> bool:
    return isinstance(plan, Plan) and plan.kind == "sampled" and not plan.feasible


def _oracle(market: Market) -> PosteriorOracle:
    """One engine, compiled once, for all worlds; the same means as the summary has."""
    return PosteriorOracle(market.platform_prior, market.noise, read="engine")


def _audited(
    market: Market,
    run: Run,
    horizon: int,
    epsilon: float,
    effort: Effort,
    seed: int,
    *,
    only_first: bool,
    notes: list[str],
) -> dict[str, Any]:
    if only_first and run.audited is None:
        notes.append("no arm is saturated before the horizon: everybody gets what she expects most of")
        held = {f"{name}_{notion}": 0.0 for notion in NOTIONS for name in _FIGURES}
        return held | {f"verdict_{notion}": "pass" for notion in NOTIONS} | {"compliance": 1.0, "compliance_mcse": 0.0}
    assert run.plan is not None  # it was run
    if isinstance(run.plan, Plan):
        rounds = min(horizon, round(run.plan.expected_cold_start) + effort.audit_rounds)
    else:
        rounds = min(horizon, run.audit_rounds or effort.audit_rounds)
    try:
        found = audit(
            run.audited or market,
            run.plan,
            horizon=rounds,
            n_worlds=effort.audit_worlds,
            n_users=effort.audit_users,
            epsilon=epsilon,
            notion="user",
            options=run.options,
            seed=seed + 1,
        )
    except RcbError as error:
        notes.append(f"not audited: {error}")
        return {}
    return worst_margins(found) | {"audit_rounds": float(rounds)}


def worst_margins(found: Audit) -> dict[str, Any]:
    """Verdict and deciding margin under each notion, and the share of users who would follow."""
    out: dict[str, Any] = {}
    for notion, margins in found.by_notion.items():
        cell = deciding_cell(margins)
        out[f"verdict_{notion}"] = found.verdicts[notion]
        for name, source in zip(_FIGURES, FIGURES, strict=True):
            out[f"{name}_{notion}"] = np.nan if cell is None else getattr(cell, source)
    share = found.compliance.sel(epsilon=found.epsilon, method="nearest")
    out["compliance"] = share["share"].item()
    out["compliance_mcse"] = share["share_mcse"].item() if "share_mcse" in share else np.nan
    return out


def _nothing(n_worlds: int, horizon: int) -> dict[str, Any]:
    """Figures of what was not run."""
    n = len(edges(horizon))
    found: dict[str, Any] = {name: np.full((n_worlds, n), np.nan) for name in ("regret", "gain")}
    found |= {name: np.full(n_worlds, np.nan) for name in ("trend", "cold_start", "cold_share", "bill", "explored")}
    found |= {f"{name}_{notion}": np.nan for notion in NOTIONS for name in _FIGURES}
    found |= {f"verdict_{notion}": "" for notion in NOTIONS}
    found |= dict.fromkeys(("compliance", "compliance_mcse", "audit_rounds", "seconds", "audit_seconds"), np.nan)
    return found | {"t": edges(horizon)}


def _planned(plan: Plan | PolicyMaker | None) -> dict[str, Any]:
    names = ("n_per_arm", "exploration_rate", "expected_cold_start", "expected_cold_start_mcse", "share_free")
    names = (*names, "share_explored", "spread_multiple", "tau", "rho", "guarantee_probability")
    if not isinstance(plan, Plan):
        return dict.fromkeys((*names, "guard_keeps"), np.nan) | {"notion": ""}
    keeps = float(np.mean([rule.kept for rule in plan.guards])) if plan.guards else 1.0
    return {name: float(getattr(plan, name)) for name in names} | {"notion": plan.notion, "guard_keeps": keeps}


def _as_dataset(run: Run, found: dict[str, Any], notes: list[str]) -> "xr.Dataset":
    import xarray as xr

    bins = found.pop("t")
    found |= {"kind": run.kind, "note": " ".join(notes)}
    found |= {"inflation": run.options.inflation if run.options else "none"}
    dims = {0: ("run",), 1: ("run", "world"), 2: ("run", "world", "t")}
    variables = {name: (dims[np.ndim(value)], np.asarray(value)[None]) for name, value in found.items()}
    return xr.Dataset(variables, coords={"run": [run.name], "t": bins, "world": np.arange(len(found["cold_start"]))})
