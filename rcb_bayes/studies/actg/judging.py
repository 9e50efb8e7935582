"""Parts of the study: a belief from its checks to its audits, and policies that learn nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rcb_bayes.auditing import audit
from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.baselines import Greedy, LinThompson
from rcb_bayes.evaluation import evaluate
from rcb_bayes.gaps.assumptions import check_assumptions
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import deciding_cell, verdict_of
from rcb_bayes.mechanism.decisions import EXPLOIT, ROUND_KINDS
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.oracle import PosteriorOracle
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.protocol import BarePolicy, PolicyMaker
from rcb_bayes.schema import FloatArray
from rcb_bayes.studies.actg.beliefs import designer_market
from rcb_bayes.studies.actg.constants import constants_of
from rcb_bayes.studies.actg.replay import Run, replay_runs, replay_value
from rcb_bayes.studies.actg.trial import ARMS, Trial
from rcb_bayes.studies.actg.values import trial_values

Row = dict[str, Any]
Part = dict[str, list[Row]]
_LEVEL = 0.05
_BATCH = 10  # kept patients after which bandits learn
_DRAWS = 100  # of Thompson sampling's shares
_AUDIT_USERS = 60
_LEAST_LOG = 60  # rounds of exploitation that a run's own log is evaluated from
_AUDIT_SEED = 10_000  # worlds of an audit are others than those of its plan


# --- makers of policies: functions of the module, so that they travel ------------------------------------------------


def rcb_maker(market: Market, plan: Plan) -> PolicyMaker:
    """RCB by a plan, with the designer's posterior mean."""
    return partial(_rcb, plan=plan, oracle=PosteriorOracle(market.platform_prior, market.noise, read="engine"))


def _rcb(market: Market, seed: int, *, plan: Plan, oracle: PosteriorOracle) -> BarePolicy:
    return Rcb(market, plan, oracle=oracle)


def greedy_maker(market: Market, seed: int) -> BarePolicy:
    """What patients would choose themselves, told of all results."""
    return Greedy(market, batch=_BATCH, seed=seed)


def thompson_maker(market: Market, seed: int) -> BarePolicy:
    """Each arm as often as it is the best."""
    return LinThompson(market, n_draws=_DRAWS, batch=_BATCH, seed=seed)


# --- fixed policies --------------------------------------------------------------------------------------------------


def fixed_policies(trial: Trial) -> dict[str, FloatArray]:
    """Policies that do not look at data: always each arm, and all of them alike; probabilities (n, K)."""
    n, k = len(trial), len(ARMS)
    found = {f"always {arm}": np.tile(row, (n, 1)) for arm, row in zip(ARMS, np.eye(k), strict=True)}
    return found | {"uniform": np.full((n, k), 1.0 / k)}


def prior_best(market: Market, trial: Trial) -> FloatArray:
    """The best arm of each patient by what is expected before any data, ties shared, (n, K)."""
    expected = trial.features @ market.prior.mean.values.T
    best = expected >= expected.max(axis=1, keepdims=True) - 1e-12
    return best / best.sum(axis=1, keepdims=True)


def fixed_part(trial: Trial, *, seed: int) -> Part:
    """Values of always each arm and of all alike."""
    market = designer_market(trial, "sceptical")  # names of arms and features; what it believes does not enter
    rows = [
        row
        for name, told in fixed_policies(trial).items()
        for row in _fixed_rows(trial, market, name, told, belief="", seed=seed)
    ]
    return {"values": rows}


def _fixed_rows(trial: Trial, market: Market, name: str, told: FloatArray, *, belief: str, seed: int) -> list[Row]:
    found = trial_values(trial, told, market, level=_LEVEL, seed=seed)
    return [
        {
            "policy": name,
            "belief": belief,
            "epsilon": None,
            "method": str(method),
            "n_rounds": len(trial),
            "reached": 1.0,
            **{key: float(found[key].sel(estimator=method)) for key in ("value", "mcse", "lower", "upper")},
        }
        for method in found["estimator"].values
    ]


# --- a belief --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    n_orders: int
    n_rounds: int
    seed: int


def belief_part(
    trial: Trial,
    belief: str,
    *,
    epsilons: Sequence[float],
    n_per_arm: int,
    n_worlds: int,
    audit_worlds: int,
    n_orders: int,
    n_rounds: int,
    seed: int,
) -> Part:
    """A belief: its checks, its plans, what they and the usual bandits come to on the trial, and audits."""
    market = designer_market(trial, belief)
    asked = _Asked(n_orders=n_orders, n_rounds=n_rounds, seed=seed)
    checks = check_assumptions(market, n_per_arm=n_per_arm, n_worlds=n_worlds, seed=seed)
    part: Part = {
        "checks": [
            {
                "belief": belief,
                "check": one.name,
                "verdict": one.verdict,
                "estimate": one.estimate,
                "mcse": one.mcse,
                "threshold": one.threshold,
            }
            for one in checks
        ],
        "values": _fixed_rows(trial, market, "belief alone", prior_best(market, trial), belief=belief, seed=seed),
        "constants": [
            {"belief": belief, "epsilon": e, **constants_of(market, epsilon=e, n_worlds=n_worlds, seed=seed)}
            for e in epsilons
        ],
        "plans": [],
        "audits": [],
        "logs": [],
    }
    for name, maker in (("greedy", greedy_maker), ("Thompson", thompson_maker)):
        runs = replay_runs(trial, maker, market, n_orders=n_orders, seed=seed)
        part["values"].append(_replayed(trial, runs, name, belief, None, asked))
    for epsilon in epsilons:
        plan = calibrate(
            market,
            epsilon=epsilon,
            n_per_arm=n_per_arm,
            n_worlds=n_worlds,
            audit_worlds=audit_worlds,
            horizon=n_rounds,
            seed=seed,
        )
        part["plans"].append(_plan_row(plan, belief))
        if not plan.feasible:
            continue
        runs = replay_runs(trial, rcb_maker(market, plan), market, n_orders=n_orders, seed=seed)
        part["values"].append(_replayed(trial, runs, "RCB", belief, epsilon, asked))
        part["plans"][-1] |= _replayed_cold_start(runs)
        part["audits"] += _audit_rows(market, plan, belief, n_worlds=audit_worlds, horizon=n_rounds, seed=seed)
        part["logs"] += _log_rows(trial, market, runs, belief, epsilon, seed=seed)
    return part


def _replayed(trial: Trial, runs: list[Run], name: str, belief: str, epsilon: float | None, asked: _Asked) -> Row:
    found = replay_value(trial, runs, n_rounds=asked.n_rounds)
    lower, upper = found.bounds(_LEVEL)
    shares = np.mean(
        [np.bincount(run.arm[: asked.n_rounds], minlength=len(ARMS)) / asked.n_rounds for run in runs], axis=0
    )
    return {
        "policy": name,
        "belief": belief,
        "epsilon": epsilon,
        "method": "replay",
        "n_rounds": found.n_rounds,
        "reached": found.reached,
        "value": found.value,
        "mcse": found.mcse,
        "lower": lower,
        "upper": upper,
        **{f"share_{arm}": float(share) for arm, share in zip(ARMS, shares, strict=True)},
    }


def _plan_row(plan: Plan, belief: str) -> Row:
    return {
        "belief": belief,
        "epsilon": plan.epsilon,
        "n_per_arm": int(max(plan.agenda.totals)),
        "feasible": plan.feasible,
        "rate": plan.exploration_rate,
        "rate_mcse": plan.exploration_rate_mcse,
        "cold_start": plan.expected_cold_start,
        "cold_start_mcse": plan.expected_cold_start_mcse,
        "reason": "" if plan.feasible else str(plan.reason),
        "replayed_cold_start": None,
        "ended": None,
    }


def _replayed_cold_start(runs: list[Run]) -> Row:
    lengths = np.array([run.cold_start_length for run in runs])
    over = lengths[lengths >= 0]
    return {"replayed_cold_start": float(over.mean()) if len(over) else None, "ended": len(over) / len(runs)}


def _audit_rows(market: Market, plan: Plan, belief: str, *, n_worlds: int, horizon: int, seed: int) -> list[Row]:
    found = audit(market, plan, horizon=horizon, n_worlds=n_worlds, n_users=_AUDIT_USERS, seed=seed + _AUDIT_SEED)
    rows = []
    for notion in NOTIONS:
        margins = found.by_notion[notion]
        cell = deciding_cell(margins)
        rows.append(
            {
                "belief": belief,
                "epsilon": plan.epsilon,
                "notion": notion,
                "verdict": str(verdict_of(margins)),
                "margin": None if cell is None else cell.estimate,
                "margin_mcse": None if cell is None else cell.mcse,
            }
        )
    return rows


def _log_rows(trial: Trial, market: Market, runs: list[Run], belief: str, epsilon: float, *, seed: int) -> list[Row]:
    """What logs of RCB say of each arm, beside what the trial says: intervals for adaptive logs, and plain ones."""
    rows = []
    for k, arm in enumerate(ARMS):
        truth = float(trial.reward[trial.arm == k].mean())
        found: dict[str, list[tuple[float, bool, float]]] = {"adaptive": [], "ips": []}
        for run in runs:
            late = run.stage == EXPLOIT
            if late.sum() < _LEAST_LOG or (run.probabilities[late, k] <= 0).any():
                continue
            own = evaluate(run.log(trial), arm, market, estimators=tuple(found), stages=ROUND_KINDS[EXPLOIT], seed=seed)
            for name, seen in found.items():
                one = own.sel(estimator=name)
                lower, upper = float(one["lower"]), float(one["upper"])
                seen.append((float(one["value"]), lower <= truth <= upper, upper - lower))
        for name, seen in found.items():
            values, held, width = (
                (np.array(column, dtype=float) for column in zip(*seen, strict=True)) if seen else ([],) * 3
            )
            rows.append(
                {
                    "belief": belief,
                    "epsilon": epsilon,
                    "arm": arm,
                    "estimator": name,
                    "trial": truth,
                    "n_logs": len(seen),
                    "value": float(np.mean(values)) if seen else None,
                    "covered": float(np.mean(held)) if seen else None,
                    "width": float(np.mean(width)) if seen else None,
                }
            )
    return rows
