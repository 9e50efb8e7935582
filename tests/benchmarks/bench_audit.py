"""What an audit costs, and what it gains by drawing neither recommendations nor rewards.

Gain: Monte Carlo error of a plain estimate (a recommendation and the rewards of two arms are drawn in every world) over
that of the audit, at equal worlds, of the second arm against the first, for users of the panel at
the stage with the first arm saturated. Cost: seconds over worlds
and users; 1 is in proportion.

Limit: CPU time of a whole audit (worlds, search for the worst users, all notions, bands) over that of a bare pass in
NumPy over the users that are judged, at the same views, users and worlds: scores, the kernel, the linear form of every
arm against every rival and its variance, one set of moments. Arms are alike. ``make bench`` runs it; ``--fast`` takes
fewer worlds; ``--arms 3 50`` measures the limit alone, at these numbers of arms: fifty take many minutes.
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


def bare_pass(users: np.ndarray, means: np.ndarray, gamma: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """The linear form of every cell of a view and its variance, (U, K, K), from posterior means (W, K, d)."""
    k, w = means.shape[1], len(means)
    rewards = np.matmul(users, means.transpose(1, 2, 0))  # (K, U, W)
    top = rewards.max(axis=0)
    best = rewards >= top
    chances = 1.0 / (k + gamma * (top - rewards))
    chances[best] = 0.0
    chances += best * ((1.0 - chances.sum(axis=0)) / best.sum(axis=0))
    p, m = chances.transpose(1, 0, 2), rewards.transpose(1, 0, 2)
    own = p * (m + epsilon)
    form = own.sum(axis=2)[:, :, None] - p @ m.swapaxes(1, 2)
    square = (own * own).sum(axis=2)[:, :, None] - 2.0 * (p * own) @ m.swapaxes(1, 2)
    square += (p * p) @ (m * m).swapaxes(1, 2)
    return form / w, (square / w - (form / w) ** 2) / w


def bare_seconds(found: rcb.Audit, n_arms: int) -> float:
    """CPU time of the bare pass over an audit's views, each with worlds and users as many as were judged."""
    rng = np.random.default_rng(1)
    sizes = found.margins.sizes
    users = rng.standard_normal((sizes["user"], N_FEATURES)) / np.sqrt(N_FEATURES)
    n_worlds = found.n_worlds
    means, gamma = 0.4 * rng.standard_normal((n_worlds, n_arms, N_FEATURES)), np.full(n_worlds, 30.0)
    views = int((found.margins["n_worlds"] > 2).sum())  # the first phase is the same in all worlds
    start = time.process_time()
    for _ in range(views):
        bare_pass(users, means, gamma, found.epsilon)
    return time.process_time() - start


def limit(n_arms: int, *, n_worlds: int) -> tuple[float, float, int]:
    """CPU time of an audit of arms that are alike, of the bare pass before and after it, and the number of views."""
    prior = rcb.Prior.gaussian(np.zeros((n_arms, N_FEATURES)), 0.2)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(N_FEATURES), noise=rcb.GaussianNoise(0.3))
    plan = rcb.calibrate(market, n_per_arm=N_PER_ARM, seed=1)

    def audited(horizon: int, size: int) -> rcb.Audit:
        return rcb.audit(market, plan, horizon=horizon, n_worlds=size, seed=2)

    audited(2 * n_arms * N_PER_ARM, 50)  # imports, and machine code of what is compiled
    start = time.process_time()
    found = audited(20_000, n_worlds)
    spent = time.process_time() - start
    bare = statistics.median(bare_seconds(found, n_arms) for _ in range(3 if n_arms > 10 else 9))
    return spent, bare, found.margins.sizes["stage"]


def print_limits(arms: list[int], *, n_worlds: int) -> None:
    """A line for each number of arms."""
    print("\n| arms | views | audit, s of CPU | bare pass, s | audit over bare pass |\n|---|---|---|---|---|")
    for n_arms in arms:
        spent, bare, views = limit(n_arms, n_worlds=n_worlds)
        print(f"| {n_arms} | {views} | {spent:.2f} | {bare:.3f} | {spent / bare:.1f} |", flush=True)


def main() -> None:
    """Measure and print."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="Cost of an audit, and its gain over a plain one.")
    parser.add_argument("--fast", action="store_true", help="fewer worlds")
    parser.add_argument("--arms", type=int, nargs="+", help="numbers of arms of the limit, and nothing else")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.arms:
        print_limits(options.arms, n_worlds=1000)
        return
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
    print_limits([3, 5, 10], n_worlds=1000)


if __name__ == "__main__":
    main()
