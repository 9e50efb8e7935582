"""Sampled plans of the experiment: several of each, from worlds of their own, and what they come to together."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.market import Market
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.planning.plan import Plan
from rcb_bayes.studies.warfarin.joining import Settings
from rcb_bayes.studies.warfarin.variation import one_way_error

_N_PER_ARM = {"proof": 20, "definition": 10, "user": 10}  # less where the notion makes a long cold start
_AUDIT_WORLDS = 500


def sampled_plans(market: Market, asked: Settings, *, epsilon: float, notion: str) -> list[Plan]:
    """A plan for each of the experiment's plan seeds, feasible or not."""
    return [
        calibrate(
            market,
            epsilon=epsilon,
            notion=notion,
            personalised=as_notion(notion).is_per_user,
            n_per_arm=_N_PER_ARM[notion],
            n_worlds=asked.n_worlds,
            audit_worlds=_AUDIT_WORLDS,
            guard=False,  # proof leaves nothing to cut, and heeding cuts more
            seed=seed,
        )
        for seed in asked.plan_seeds
    ]


def plan_row(plans: Sequence[Plan], *, variance: float) -> dict[str, Any]:
    """What plans of one kind, notion and epsilon come to: means over those that are feasible, or over all if none is.

    ``exploration_rate_mcse`` and ``expected_cold_start_mcse`` are standard errors over plans, of a single plan its own.
    ``cold_start_least`` and ``cold_start_most`` are of the shortest and the longest plan, ``cold_start_own_mcse`` is
    the largest error that a plan states for its own length.
    """
    feasible = [plan for plan in plans if plan.feasible]
    shown = feasible or list(plans)
    first = shown[0]
    row: dict[str, Any] = {name: getattr(first, name) for name in ("kind", "notion", "epsilon", "n_per_arm")}
    row |= {"variance": variance, "n_plans": len(plans), "n_feasible": len(feasible)}
    for name in ("exploration_rate", "expected_cold_start"):
        values = np.array([float(getattr(plan, name)) for plan in shown])
        own = float(getattr(first, f"{name}_mcse"))
        row |= {name: values.mean(), f"{name}_mcse": own if len(shown) == 1 else float(one_way_error(values))}
    lengths = [float(plan.expected_cold_start) for plan in shown]
    return row | {
        "cold_start_least": min(lengths),
        "cold_start_most": max(lengths),
        "cold_start_own_mcse": max(float(plan.expected_cold_start_mcse) for plan in shown),
        "feasible": bool(feasible),
        "reason": first.reason,
    }
