"""Four ways to live with many arms, alone and together, against none: cold starts, regret and verdicts.

Of each of K arms a little less is expected than of the one before, and a little more is known about it (variances .5 to
.005); five features, users on the sphere. Each line is a plan by level and an audit of it in fresh worlds.
``python tools/many_arms.py 10 50 200 > docs/measured/many_arms.md`` prints the table; a line appears as soon as it is
known.
"""

import sys
import time
import warnings
from typing import Any

import numpy as np

import rcb_bayes as rcb

N, HORIZON, WORLDS, AUDIT_WORLDS = 20, 20_000, 500, 500
EPSILON, SHARE, TOP = 0.1, 0.01, 5


def market_of(n_arms: int, d: int = 5) -> rcb.Market:
    """A little less is expected of each arm than of the one before, and a little more is known about it."""
    mean = np.zeros((n_arms, d))
    mean[:, 0] = np.linspace(0.3, 0.0, n_arms)
    prior = rcb.Prior.gaussian(mean, np.geomspace(0.5, 0.005, n_arms))
    return rcb.Market(prior=prior, covariates=rcb.Sphere(d), noise=rcb.GaussianNoise(0.3))


def past_of(market: rcb.Market, n: int) -> dict[str, Any]:
    """So many samples of each arm, of users at random."""
    rng = np.random.default_rng(7)
    x = market.covariates.sample(n * market.n_arms, seed=rng)
    arm = np.repeat(np.arange(market.n_arms), n)
    beta = market.prior.draw_arrays(1, rng=rng)[0][0]
    return {"x": x, "arm": arm, "reward": (x * beta[arm]).sum(axis=1) + 0.3 * rng.standard_normal(len(arm))}


def ways(n_arms: int) -> dict[str, tuple[dict[str, Any], int]]:
    """What is asked for, and how many samples of each arm there are from before."""
    few = max(2, n_arms // 5)
    return {
        "none": ({}, 0),
        f"elimination below {SHARE:g}": ({"eliminate": SHARE}, 0),
        f"the first {TOP}, then one by one": ({"top": TOP}, 0),
        f"{few} clusters": ({"clusters": few}, 0),
        f"private history, {N // 2} an arm": ({}, N // 2),
        "elimination and history": ({"eliminate": SHARE}, N // 2),
        "elimination, order and history": ({"eliminate": SHARE, "top": TOP}, N // 2),
    }


def line(n_arms: int, name: str, asked: dict[str, Any], n_past: int) -> str:
    """One way, as a line of the table."""
    market = market_of(n_arms)
    if n_past:
        market = market.with_history(past_of(market, n_past), public=False)
    exploring = rcb.Exploring(**asked) if asked else None
    start = time.process_time()
    plan = rcb.calibrate(
        market,
        epsilon=EPSILON,
        n_per_arm=N,
        n_worlds=WORLDS,
        audit_worlds=AUDIT_WORLDS,
        horizon=HORIZON,
        knows="level",
        exploring=exploring,
        seed=1,
    )
    planned = time.process_time() - start
    found = "infeasible"
    if plan.feasible:
        found = rcb.audit(market, plan, horizon=HORIZON, n_worlds=AUDIT_WORLDS, n_users=50, seed=2).verdict
    n_explored = int((plan.agenda.missing > 0).sum())
    gone = plan.unexplored
    lost = "0" if gone is None else f"{gone.regret:.2g} ± {gone.regret_mcse:.1g}"
    cold = f"{plan.expected_cold_start:,.0f} ± {plan.expected_cold_start_mcse:,.0f}"
    regret = f"{plan.expected_regret:,.0f} ± {plan.expected_regret_mcse:,.0f}"
    spent = f"{planned:,.0f} | {time.process_time() - start:,.0f}"
    return f"| {n_arms} | {name} | {n_explored} | {cold} | {regret} | {lost} | {found} | {spent} |"


def main() -> None:
    """The table for the numbers of arms on the command line."""
    warnings.simplefilter("ignore")
    sizes = [int(part) for part in sys.argv[1:]] or [10, 50, 200]
    print("# Many arms\n")
    print(
        "K arms, means .3 to 0 in the first of five features, variances .5 to .005, users on the sphere, sigma = .3; "
        f"N = {N}, epsilon {EPSILON:g}, user notion, users know the level; {WORLDS} worlds behind plans, "
        f"{AUDIT_WORLDS} in audits of {HORIZON:,} rounds. CPU seconds of the plan, and with the audit. "
        "Given up: a round, at most, by arms that are not explored.\n"
    )
    print("| K | way | explored | cold start, rounds | its regret | given up | audit | plan, s | all, s |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for n_arms in sizes:
        for name, (asked, n_past) in ways(n_arms).items():
            print(line(n_arms, name, asked, n_past), flush=True)


if __name__ == "__main__":
    main()
