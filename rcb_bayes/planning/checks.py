"""Is this plan for this market?"""

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.fingerprint import PARTS, differ
from rcb_bayes.planning.plan import Plan


def check_feasible(plan: Plan) -> None:
    """Refuse to run a plan that was searched for and not found."""
    if plan.kind == "sampled" and not plan.feasible:
        raise RcbError(f"This plan cannot be run: {plan.reason}")


def check_plan(market: Market, plan: Plan) -> None:
    """Refuse to run a plan made for another market: other arms or features, another platform's belief, other noise.

    Users are not looked at: what a plan promises them is the audit's question.
    """
    check_arms(market, plan)
    check_past(market, plan)
    names = {"platform": "the platform's belief", "noise": "the noise"}
    other = [names[part] for part in plan_differs(market, plan, parts=tuple(names))]
    if other:
        verb = "are not those" if len(other) > 1 else "is not the one"
        raise RcbError(
            f"{' and '.join(other).capitalize()} {verb} that the plan was made for. Calibrate a plan for this market; "
            "where users or nature alone differ, give platform_prior=, prior= and nature= apart."
        )


def check_past(market: Market, plan: Plan) -> None:
    """Refuse a plan that counts on another private history than the market's."""
    here = "" if market.past is None else market.fingerprint(parts=("history",))["history"]
    if here == plan.made_of.get("history", ""):
        return
    counted = sum(plan.agenda.past)
    what = f"a private history of {counted:,} samples" if counted else "no private history"
    raise RcbError(
        f"The plan counts on {what}, and this market has another one, or none. Use the market that it was made for: "
        "market.with_history(table, public=False), or --warm-start with --private."
    )


def plan_differs(market: Market, plan: Plan, *, parts: tuple[str, ...] = PARTS) -> tuple[str, ...]:
    """Parts of the market (of ``Market.fingerprint``) that are known not to be what the plan was made for."""
    if not any(plan.made_of.get(part) for part in parts):
        return ()
    here = market.fingerprint(parts=parts)
    return tuple(part for part in parts if differ(plan.made_of.get(part, ""), here[part]))


def check_arms(market: Market, plan: Plan) -> None:
    """Refuse a plan that says nothing in this market: other arms, features, or a platform with other prior means."""
    if plan.arms != market.arms or plan.features != market.prior.features:
        raise RcbError(
            f"The plan is for arms {', '.join(plan.arms)} and {len(plan.features)} features, the market has "
            f"{', '.join(market.arms)} and {market.n_features}. Calibrate a plan for this market."
        )
    expected = plan.prior_mean if plan.platform_mean is None else plan.platform_mean
    if not np.allclose(expected, market.platform_prior.mean.values, rtol=1e-6, atol=1e-9):
        raise RcbError("The plan is for a platform with other prior means. Calibrate a plan for this market.")
