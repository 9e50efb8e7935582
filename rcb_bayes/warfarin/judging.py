"""Audits of the experiment's plans under the physician's belief."""

from typing import Any

import numpy as np

from rcb_bayes.auditing import Audit, audit
from rcb_bayes.deciding import deciding_cell
from rcb_bayes.exploit import Exploiting
from rcb_bayes.market import Market
from rcb_bayes.plan import Plan
from rcb_bayes.warfarin.contenders import SPREAD_MULTIPLE, heeding_rcb
from rcb_bayes.warfarin.pointwise import pointwise_margin

_COLD_WORLDS = 500
_EPOCH_WORLDS = 250
_POINTWISE_WORLDS = 10


def audit_rows(
    market: Market, plan: Plan, name: str, *, horizon: int, heeding: bool, seed: int
) -> list[dict[str, Any]]:
    """Verdicts on a plan, one row each.

    The plan itself is audited at every stage and epoch. A heeding policy shares the plan's cold start, which is audited
    alone; its exploitation has to keep the margin in every single world, which is looked up.
    """
    options = Exploiting(spread_multiple=SPREAD_MULTIPLE)
    if not heeding:
        found = audit(market, plan, horizon=horizon, n_worlds=_EPOCH_WORLDS, options=options, seed=seed + 1)
        return [_row(found, name)]
    cold = audit(market, plan, horizon=1, n_worlds=_COLD_WORLDS, options=options, seed=seed + 1)
    later = pointwise_margin(
        market, heeding_rcb(market, plan), horizon=horizon, n_worlds=_POINTWISE_WORLDS, seed=seed + 2
    )
    return [
        _row(cold, f"{name}: cold start"),
        {
            "subject": f"{name}: exploitation, every world by itself",
            "notion": later.notion,
            "epsilon": later.epsilon,
            "verdict": later.verdict,
            "worst": later.smallest,
            "worst_mcse": 0.0,
            "n_worlds": later.n_worlds,
        },
    ]


def _row(found: Audit, subject: str) -> dict[str, Any]:
    cell = deciding_cell(found.margins)
    return {
        "subject": subject,
        "notion": found.notion,
        "epsilon": found.epsilon,
        "verdict": found.verdict,
        "worst": np.nan if cell is None else cell.estimate,
        "worst_mcse": np.nan if cell is None else cell.mcse,
        "n_worlds": found.n_worlds,
    }
