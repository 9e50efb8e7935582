"""Audits of the experiment's plans and policies under the physician's belief, all by one yardstick, under every notion.

The cold start does not depend on the oracle: it is audited plan by plan, in the same number of worlds a stage, with the
worst patients looked for. Exploitation does: each policy is run in the same worlds over the same horizon, and judged by
the same patients as each epoch begins.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, nan
from typing import Any

from rcb_bayes.auditing import Audit, audit
from rcb_bayes.market import Market
from rcb_bayes.mechanism.deciding import VERDICTS, DecidingCell, deciding_cell, deciding_of
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.heeding import kept_by_construction
from rcb_bayes.running.protocol import PolicyMaker
from rcb_bayes.studies.warfarin.contenders import SPREAD_MULTIPLE
from rcb_bayes.studies.warfarin.pointwise import RcbMaker, pointwise_margin

COLD_START, EXPLOITATION = "cold start", "exploitation"
_POINTWISE_WORLDS = 5
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What every audit is made with: worlds, patients drawn at random, rounds of exploitation, a seed."""

    cold_worlds: int
    n_worlds: int
    n_users: int
    horizon: int
    seed: int


def audit_cold_starts(market: Market, plans: Sequence[Plan], name: str, *, yardstick: Yardstick) -> list[Row]:
    """Verdicts on the cold start of plans of one kind, each audited by itself: a row for each notion.

    Returns
    -------
    Rows with ``subject``, ``part``, ``plan_notion`` (what the plans are for), ``epsilon``, ``notion``; ``verdict``, the
    worst over plans, and ``n_pass``, ``n_inconclusive``, ``n_fail`` of ``n_plans``; ``worst``, the lowest margin that
    decides, with ``worst_mcse``; ``n_worlds`` a stage, ``n_users`` at random, ``n_views``, ``by_construction``,
    ``smallest``: see ``audit_heeding``.
    """
    found = [_cold_audit(market, plan, yardstick) for plan in plans]
    return _rows(found, plans[0], name, COLD_START, n_worlds=yardstick.cold_worlds, n_users=yardstick.n_users)


def audit_exploitation(market: Market, maker: PolicyMaker, plan: Plan, name: str, *, yardstick: Yardstick) -> list[Row]:
    """Verdicts on the exploitation of a policy by a plan: a row for each notion, as of ``audit_cold_starts``."""
    found = audit(
        market,
        maker,
        horizon=yardstick.horizon,
        n_worlds=yardstick.n_worlds,
        users=market.covariates.sample(yardstick.n_users, seed=yardstick.seed),
        notion=plan.notion,
        epsilon=plan.epsilon,
        seed=yardstick.seed,
    )
    return _rows([found], plan, name, EXPLOITATION, n_worlds=yardstick.n_worlds, n_users=yardstick.n_users)


def audit_heeding(market: Market, maker: RcbMaker, plan: Plan, name: str, *, yardstick: Yardstick) -> list[Row]:
    """The same of a policy that keeps its notion by construction.

    Rows of notions that are kept say so in ``by_construction``, and ``smallest`` is the smallest margin of any single
    world, by which that could be refuted (NaN elsewhere).
    """
    rows = audit_exploitation(market, maker, plan, name, yardstick=yardstick)
    horizon, seed = yardstick.horizon, yardstick.seed
    least = pointwise_margin(market, maker, horizon=horizon, n_worlds=_POINTWISE_WORLDS, seed=seed).smallest
    kept = kept_by_construction(plan.notion)
    told = {"by_construction": True, "smallest": least}
    return [row | told if row["notion"] in kept else row for row in rows]


def _cold_audit(market: Market, plan: Plan, yardstick: Yardstick) -> Audit:
    """Of all the stages that come before the plan's expected end of the cold start."""
    return audit(
        market,
        plan,
        horizon=min(max(1, ceil(plan.expected_cold_start)), yardstick.horizon),
        n_worlds=yardstick.cold_worlds,
        n_users=yardstick.n_users,
        options=Exploiting(spread_multiple=SPREAD_MULTIPLE),
        seed=yardstick.seed,
    )


def _rows(found: Sequence[Audit], plan: Plan, name: str, part: str, *, n_worlds: int, n_users: int) -> list[Row]:
    rows = []
    for notion in NOTIONS:
        cells, n_views = zip(*(_judged(one, notion, part) for one in found), strict=True)
        counts = Counter("inconclusive" if cell is None else cell.verdict for cell in cells)
        worst = deciding_of(cells)
        rows.append(
            {
                "subject": name,
                "part": part,
                "plan_notion": plan.notion,
                "epsilon": plan.epsilon,
                "notion": notion,
                "verdict": max(counts, key=VERDICTS.index),
                "n_plans": len(found),
                **{f"n_{word}": counts[word] for word in VERDICTS},
                "worst": nan if worst is None else worst.estimate,
                "worst_mcse": nan if worst is None else worst.mcse,
                "n_worlds": n_worlds,
                "n_users": n_users,
                "n_views": n_views[cells.index(worst)],
                "by_construction": False,
                "smallest": nan,
            }
        )
    return rows


def _judged(found: Audit, notion: str, part: str) -> tuple[DecidingCell | None, int]:
    """The cell that decides on one part, and the number of stages it has; None of a part without any."""
    margins = found.by_notion[notion]
    names = [str(name) for name in margins["stage"].values]
    own = [name for name in names if name.startswith("epoch") == (part == EXPLOITATION)]
    return (deciding_cell(margins.sel(stage=own)) if own else None), len(own)
