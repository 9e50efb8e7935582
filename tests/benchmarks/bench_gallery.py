"""A plan and its audit under every belief of the gallery: CPU time beside the Gaussian belief's, verdict, engine.

K = d = 5, users on the unit sphere, noise .3 (or the belief's own), N = 20 samples per arm; the audit has another seed,
1,000 worlds and a horizon of 5,000, at the knowledge that the plan claims. What a first call compiles is left out.
Curves have five coefficients an arm and users whose one or two covariates are uniform on [-1, 1].
Beliefs whose posteriors take too long for a plan in minutes are named below the table, with the cost of a posterior.

``make bench`` runs it; ``--fast`` takes fewer worlds, ``--only NAME ...`` some of the beliefs, ``--planned`` plans and
audits the slow ones, too.
"""

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.posterior import engines

N_ARMS, N_FEATURES, N_PER_ARM, SIGMA = 5, 5, 20, 0.3
BELIEFS = (
    "gaussian", "mixture", "empirical_bayes", "setting_1", "setting_2", "setting_3", "setting_4", "unknown_noise",
    "student_t", "laplace", "per_arm", "skewed", "hierarchical", "arm_features",
    "splines", "grouped", "shared", "smooth",
)  # fmt: skip
CURVES: dict[str, dict[str, Any]] = {
    "splines": {"n_features": 1, "knots": (0.0,)},
    "grouped": {"n_features": 2},
    "shared": {"n_features": 1, "n_basis": 3},
    "smooth": {"n_features": 1, "n_basis": 4},
}
SLOW = ("horseshoe", "correlated")


def market_of(name: str) -> rcb.Market:
    """The market of a belief."""
    if name in CURVES:
        prior, n = rcb.load_prior(name, n_arms=N_ARMS, **CURVES[name]), CURVES[name]["n_features"]
        users = rcb.Uniform(-np.ones(n), np.ones(n))
        return rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(SIGMA))
    prior = rcb.load_prior(name, n_arms=N_ARMS, n_features=N_FEATURES)
    noise = rcb.GaussianNoise() if prior.has_sigma else rcb.GaussianNoise(SIGMA)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(N_FEATURES), noise=noise)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How many posteriors each engine answers."""
    found: Counter[str] = Counter()
    classes: tuple[Any, ...] = (engines.ExactEngine, engines.CheckedEngine)
    kept = [cls.fit for cls in classes]

    def watched(fit: Any) -> Any:
        def watching(self: Any, *given: Any, **options: Any) -> Any:
            batch = fit(self, *given, **options)
            found.update(batch.engine.tolist())
            return batch

        return watching

    for cls, fit in zip(classes, kept, strict=True):
        cls.fit = watched(fit)
    try:
        yield found
    finally:
        for cls, fit in zip(classes, kept, strict=True):
            cls.fit = fit


def planned_and_audited(market: rcb.Market, *, n_worlds: int, seed: int) -> tuple[float, float, rcb.Plan, rcb.Audit]:
    """Seconds of CPU of the plan and of its audit, and both."""
    start = time.process_time()
    plan = rcb.calibrate(market, n_per_arm=N_PER_ARM, seed=seed)
    between = time.process_time()
    found = rcb.audit(market, plan, horizon=5000, n_worlds=n_worlds, seed=seed + 1)
    return between - start, time.process_time() - between, plan, found


def row(name: str, *, n_worlds: int, gaussian: float | None) -> tuple[float, str]:
    """Seconds of CPU of a belief's plan and audit, and its line of the table."""
    market = market_of(name)
    planned_and_audited(market, n_worlds=50, seed=11)  # compiles
    with counted() as answered:
        plan_time, audit_time, plan, found = planned_and_audited(market, n_worlds=n_worlds, seed=1)
    total = plan_time + audit_time
    n = answered.total()
    shares = ", ".join(f"{engine} {count / n:.3f}" for engine, count in answered.most_common())
    ratio = total / (gaussian or total)
    cells = (name, f"{plan_time:.1f}", f"{audit_time:.1f}", f"{ratio:.1f}", str(plan.knows), found.verdict, f"{n:,}")
    return total, f"| {' | '.join(cells)} | {shares} |"


def slow_row(name: str, *, n_sets: int) -> str:
    """The cost of a posterior of a belief that is left out, after N samples of each arm."""
    market = market_of(name)
    rng = np.random.default_rng(3)
    beta = market.prior.draw_arrays(n_sets, rng=rng)[0]
    x = rng.standard_normal((n_sets, N_ARMS, N_PER_ARM, N_FEATURES))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    y = (x @ beta[..., None])[..., 0] + SIGMA * rng.standard_normal(x.shape[:-1])
    data = rcb.posterior.Statistics(
        xtx=x.swapaxes(-1, -2) @ x,
        xty=(x.swapaxes(-1, -2) @ y[..., None])[..., 0],
        yty=(y**2).sum(axis=-1),
        n=np.full(y.shape[:2], float(N_PER_ARM)),
    )
    engine = rcb.posterior.make_engine(market.prior, market.noise)
    engine.fit(data)  # compiles for as many: a cost that plans of thousands of data sets pay once
    start = time.process_time()
    batch = engine.fit(data)
    spent = 1e3 * (time.process_time() - start) / n_sets
    shares = ", ".join(f"{name} {count / n_sets:.2f}" for name, count in Counter(batch.engine.tolist()).most_common())
    return f"| {name} | {spent:.0f} | {batch.vouched.mean():.2f} | {shares} |"


def slowly_planned(name: str) -> str:
    """A plan and an audit of few worlds under a belief that is left out."""
    market = market_of(name)
    start = time.process_time()
    plan = rcb.calibrate(market, n_per_arm=N_PER_ARM, n_worlds=100, audit_worlds=100, seed=1)
    between = time.process_time()
    found = rcb.audit(market, plan, horizon=5000, n_worlds=100, seed=2)
    spent = (between - start, time.process_time() - between)
    return f"| {name} | {spent[0]:.0f} | {spent[1]:.0f} | {found.verdict} |"


def main() -> None:
    """Measure and print."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="A plan and its audit under every belief of the gallery.")
    parser.add_argument("--fast", action="store_true", help="fewer worlds")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=BELIEFS + SLOW, help="some of the beliefs")
    parser.add_argument("--planned", action="store_true", help="plans and audits of the slow beliefs, too: 100 worlds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n_worlds = 300 if options.fast else 1000
    print("| belief | plan, s of CPU | audit, s | both over Gaussian | knowledge | verdict | posteriors | by |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    gaussian = None
    slow = [name for name in SLOW if name in options.only]
    for name in dict.fromkeys(("gaussian", *(name for name in options.only if name not in slow))):
        total, line = row(name, n_worlds=n_worlds, gaussian=gaussian)
        gaussian = total if name == "gaussian" else gaussian
        print(line, flush=True)
    if slow:
        print("\nLeft out\n\n| belief | ms a posterior | vouched for | by |\n|---|---|---|---|")
    for name in slow:
        print(slow_row(name, n_sets=5 if options.fast else 20), flush=True)
    if options.planned:
        print("\n| belief, 100 worlds | plan, s of CPU | audit, s | verdict |\n|---|---|---|---|")
        for name in slow:
            print(slowly_planned(name), flush=True)


if __name__ == "__main__":
    main()
