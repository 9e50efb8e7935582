"""What an audit costs, and what it gains by drawing neither recommendations nor rewards.

Gain: Monte Carlo error of a plain estimate (a recommendation and the rewards of two arms are drawn in every world) over
that of the audit, at equal worlds, of the second arm against the first, for users of the panel at
the stage with the first arm saturated. Cost: seconds over worlds
and users; 1 is in proportion. ``make bench`` runs it; ``--fast`` takes fewer worlds.
"""

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.auditing.judging import margins_under
from rcb_bayes.auditing.plan_views import plan_views
from rcb_bayes.auditing.view import Asked
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import USER

N_ARMS, N_FEATURES, N_PER_ARM = 3, 5, 20


@cache
def setting(sigma: float) -> tuple[rcb.Market, rcb.Plan]:
    """Arms that users expect a little of, more or less, and a plan for them."""
    mean = np.outer([0.3, 0.1, 0.0], np.ones(N_FEATURES))
    prior = rcb.Prior.gaussian(mean, 0.2)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(N_FEATURES), noise=rcb.GaussianNoise(sigma))
    return market, rcb.calibrate(market, n_per_arm=N_PER_ARM, n_worlds=1000, guard=False, seed=1)


def gains(sigma: float, *, n_worlds: int) -> list[float]:
    """Plain error over the audit's, of users who are explored and not free."""
    market, plan = setting(sigma)
    asked = Asked(notion=USER, epsilon=plan.epsilon, n_worlds=n_worlds, n_users=200, level=0.05, seed=2)
    looked = plan_views(market, plan, asked, horizon=10 * N_PER_ARM, options=Exploiting())
    crowd, view = looked.crowd, next(view for view in looked.views if view.name == "arm_0")
    margins = margins_under(market, [view], asked, notions=(USER,))["user"].isel(stage=0)
    rng = np.random.default_rng(3)
    found = []
    for user in range(len(crowd.judged.users)):
        ours = margins["mcse"].isel(user=user, arm=1, rival=0).item()
        mass = view.chances[1, user].mean()
        if not ours > 1e-9 or mass < 0.05:
            continue
        # Given the posterior means a reward is normal around them: posterior variance and noise.
        spread = np.sqrt(2 * sigma**2 + 2 * sigma**2 / (N_PER_ARM / N_FEATURES))
        drawn = rng.random(view.n_worlds) < view.chances[1, user]
        gain = view.rewards[1, user] - view.rewards[0, user] + spread * rng.standard_normal(view.n_worlds)
        found.append(gain[drawn].std(ddof=1) / np.sqrt(drawn.sum()) / ours)
    return found


def seconds(work: Callable[[], object]) -> float:
    """The median of three calls."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="Cost of an audit, and its gain over a plain one.")
    parser.add_argument("--fast", action="store_true", help="fewer worlds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n_worlds = 1000 if options.fast else 4000
    print("| sigma | users | plain error over the audit's: median | lowest | highest |\n|---|---|---|---|---|")
    for sigma in (0.05, 0.3, 1.0):
        found = gains(sigma, n_worlds=n_worlds)
        print(f"| {sigma} | {len(found)} | {np.median(found):.1f} | {min(found):.1f} | {max(found):.1f} |")
    market, plan = setting(0.3)

    def run(worlds: int, users: int) -> Callable[[], object]:
        return lambda: rcb.audit(market, plan, horizon=500, n_worlds=worlds, n_users=users, seed=2)

    base, more, wide = (seconds(run(*size)) for size in ((n_worlds // 2, 200), (n_worlds, 200), (n_worlds // 2, 400)))
    print(f"\naudit of {n_worlds // 2:,} worlds, 200 users: {base:.2f} s; cost over size, ratio:")
    print(f"worlds x 2: {more / base / 2:.2f}; users x 2: {wide / base / 2:.2f}")


if __name__ == "__main__":
    main()
