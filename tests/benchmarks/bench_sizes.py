"""What a check, a plan and an audit cost as arms and features grow.

CPU seconds of ``check_assumptions`` (20 samples of each arm), ``calibrate`` (N = 20, 500 worlds) and ``audit`` (200
worlds, 5,000 rounds) with a Gaussian belief in which all arms differ: over the number of arms at five features, and
over the number of features at three arms. Below each table stand exponents, the slopes of log seconds over log size.
Then, in the same run, a plan for different arms by level against one for arms that are alike, by level and by stage;
50 different arms against 10; N chosen against N given; and the report's plans over epsilon against as many plans made
one by one. The largest memory that the process has had by then stands beside each line.

``make bench`` runs it, up to 200 arms; ``--fast`` stops at 20 arms and 50 features. ``--arms 50`` and ``--features 20``
measure these sizes alone. ``--many 1000 20`` is so many arms of so many features, a catalogue: what is refused, and
what is planned where one arm of each of twenty clusters is explored. What is refused is told as such.
"""

import argparse
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.reporting.result import ReportSizes
from rcb_bayes.reporting.swept import grid_of, plans_over_epsilon

STEPS = ("check", "calibrate", "audit")
N_FEATURES, N_ARMS, N_PER_ARM = 5, 3, 20
MANY_WORLDS, SHARE, CLUSTERS = 200, 0.01, 20
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
Row = dict[str, float | str]


def market_of(n_arms: int, n_features: int, *, alike: bool = False) -> rcb.Market:
    """A favoured arm, others of which a little less is expected each; or none favoured."""
    mean = np.zeros((n_arms, n_features))
    if not alike:
        mean[:, 0] = np.linspace(0.3, 0.0, n_arms)
    prior = rcb.Prior.gaussian(mean, 0.25)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(n_features), noise=rcb.GaussianNoise(0.3))


def plan_for(market: rcb.Market, *, knows: str = "auto", n_worlds: int = 500) -> rcb.Plan:
    """The plan that is measured."""
    return rcb.calibrate(market, epsilon=0.1, n_per_arm=N_PER_ARM, n_worlds=n_worlds, knows=knows, seed=1)


def spent(work: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds, and what came out."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def costs(n_arms: int, n_features: int) -> Row:
    """CPU seconds of each step; why not, of a step that is refused."""
    market = market_of(n_arms, n_features)
    row: Row = {}
    row["check"], _ = _told(lambda: rcb.check_assumptions(market, n_per_arm=N_PER_ARM, seed=1))
    row["calibrate"], plan = _told(lambda: plan_for(market))
    if isinstance(plan, rcb.Plan) and plan.feasible:
        row["knows"] = plan.knows
        row["audit"], found = _told(lambda: rcb.audit(market, plan, horizon=5000, n_worlds=200, seed=2))
        row["verdict"] = found.verdict if isinstance(found, rcb.Audit) else "-"
    row["memory"] = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT / 1e9:.2f}"
    return row


def _told(work: Callable[[], object]) -> tuple[float | str, object]:
    try:
        return spent(work)
    except RcbError as error:
        return f"refused: {error}", None


def exponent(sizes: Sequence[int], seconds: Sequence[float | str]) -> float:
    """The slope of log seconds over log size, by least squares; NaN of fewer than two measurements."""
    known = [(size, value) for size, value in zip(sizes, seconds, strict=True) if isinstance(value, float)]
    x, y = np.log(np.array(known).reshape(-1, 2)).T
    return float(np.polyfit(x, y, 1)[0]) if len(known) > 1 else np.nan


def print_table(name: str, sizes: Sequence[int], cost: Callable[[int], Row]) -> None:
    """A line for each size, and the exponents."""
    print(
        f"| {name} | users know | {' | '.join(f'{step}, s' for step in STEPS)} | verdict | GB |\n"
        "|---|---|---|---|---|---|---|"
    )
    rows = []
    for size in sizes:
        row = cost(size)
        rows.append(row)
        cells = [_shown(row.get(step, "-")) for step in STEPS]
        told = [str(row.get(name, "-")) for name in ("verdict", "memory")]
        print(f"| {size} | {row.get('knows', '-')} | {' | '.join(cells + told)} |", flush=True)
    slopes = [f"{exponent(sizes, [row.get(step, '-') for row in rows]):.2f}" for step in STEPS]
    print(f"| exponent | | {' | '.join(slopes)} | | |\n", flush=True)


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}"


def print_ratios() -> None:
    """What must stay in proportion."""
    print("| CPU seconds | first | second | ratio |\n|---|---|---|---|")
    different, alike, by_stage, fifty = (
        spent(lambda n=n, alike=alike, knows=knows: plan_for(market_of(n, 5, alike=alike), knows=knows))[0]
        for n, alike, knows in ((10, False, "level"), (10, True, "level"), (10, True, "stage"), (50, False, "level"))
    )
    _print_ratio("plan of 10 arms by level: different, alike", different, alike)
    _print_ratio("plan of 10 arms: different by level, alike by stage", different, by_stage)
    _print_ratio("plan of different arms by level: 50, 10", fifty, different)
    market = market_of(5, 5)
    given, _ = spent(lambda: rcb.calibrate(market, epsilon=0.05, n_per_arm=N_PER_ARM, seed=1))
    chosen, plan = spent(lambda: rcb.calibrate(market, epsilon=0.05, seed=1))
    looked = len(plan.choices) if isinstance(plan, rcb.Plan) else 0
    _print_ratio(f"plan of 5 arms: N chosen ({looked} tried), N given", chosen, given)
    small = plan_for(market, n_worlds=1000)
    swept, _ = spent(lambda: plans_over_epsilon(market, small, horizon=10_000, sizes=ReportSizes(), workers=None))
    alone, _ = spent(lambda: [_alone(market, small, epsilon) for epsilon in grid_of(small)[1:]])
    _print_ratio("plans at 11 other epsilons: one by one, in one simulation", alone, swept)


def _alone(market: rcb.Market, plan: rcb.Plan, epsilon: float) -> rcb.Plan:
    made: dict[str, Any] = {"n_per_arm": plan.n_per_arm, "n_worlds": plan.n_worlds, "audit_worlds": plan.audit_worlds}
    return rcb.calibrate(market, epsilon=epsilon, guard=False, seed=plan.seed, **made)


def _print_ratio(what: str, first: float, second: float) -> None:
    print(f"| {what} | {first:.2f} | {second:.2f} | {first / second:.2f} |", flush=True)


def catalogue(n_arms: int, n_features: int) -> rcb.Market:
    """Of each arm a little less is expected than of the one before, and a little more is known about it."""
    mean = np.zeros((n_arms, n_features))
    mean[:, 0] = np.linspace(0.3, 0.0, n_arms)
    prior = rcb.Prior.gaussian(mean, np.geomspace(0.5, 0.005, n_arms))
    return rcb.Market(prior=prior, covariates=rcb.Sphere(n_features), noise=rcb.GaussianNoise(0.3))


def print_many(n_arms: int, n_features: int) -> None:
    """A catalogue: all arms, those that elimination leaves, and one of each of some clusters, up to its cold start."""
    market = catalogue(n_arms, n_features)
    asked: dict[str, Any] = {"epsilon": 0.1, "n_per_arm": N_PER_ARM, "n_worlds": MANY_WORLDS, "knows": "level"}
    asked |= {"audit_worlds": MANY_WORLDS, "guard": False, "seed": 1}
    ways = {
        "none": None,
        f"elimination below {SHARE:g}, {CLUSTERS} clusters": rcb.Exploring(eliminate=SHARE, clusters=CLUSTERS),
    }
    print(f"{n_arms:,} arms, {n_features} features, {MANY_WORLDS} worlds, no guards.\n")
    print("| way | explored | cold start, rounds | given up a round | calibrate, s | GB |\n|---|---|---|---|---|---|")
    for name, exploring in ways.items():
        seconds, plan = _told(lambda exploring=exploring: rcb.calibrate(market, exploring=exploring, **asked))
        told = ["-", "-", "-"]
        if isinstance(plan, rcb.Plan):
            gone = plan.unexplored
            told[0] = str(int((plan.agenda.missing > 0).sum()))
            told[1] = f"{plan.expected_cold_start:,.0f} ± {plan.expected_cold_start_mcse:,.0f}"
            told[2] = "0" if gone is None else f"{gone.regret:.2g} ± {gone.regret_mcse:.1g}"
        memory = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT / 1e9:.2f}"
        print(f"| {name} | {' | '.join(told)} | {_shown(seconds)} | {memory} |", flush=True)


def main() -> None:
    """Measure and print."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="Cost of checks, plans and audits over arms and features.")
    parser.add_argument("--fast", action="store_true", help="up to 20 arms and 50 features")
    parser.add_argument("--arms", type=int, nargs="+", help="numbers of arms, and nothing else")
    parser.add_argument("--features", type=int, nargs="+", help="numbers of features, and nothing else")
    parser.add_argument("--many", type=int, nargs=2, metavar=("ARMS", "FEATURES"), help="a catalogue, and nothing else")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.many:
        print_many(*options.many)
        return
    only = options.arms or options.features
    arms = options.arms or [2, 5, 10, 20, *([] if options.fast else [50, 100, 200])]
    features = options.features or [2, 5, 20, 50, *([] if options.fast else [100])]
    costs(2, 2)  # imports
    if options.arms or not only:
        print_table("arms, 5 features", arms, lambda n: costs(n, N_FEATURES))
    if options.features or not only:
        print_table("features, 3 arms", features, lambda n: costs(N_ARMS, n))
    if not only:
        print_ratios()
        print("\nOthers were on the machine: read ratios and exponents rather than seconds.")


if __name__ == "__main__":
    main()
