"""A trial with 0/1 outcomes over the same trial with normal ones: check, calibrate, audit, report, in CPU time.

Made-up patients in a table of 300 rows: a constant, age in years, sex, earlier episodes, weight, a laboratory value and
a score, on scales from 1 to 100. Four treatments around a shared level, how far apart is not known (a PyMC model),
rewards 0 or 1. Its twin has the same patients, a Gaussian belief with a quarter of the means and sds around one half,
and normal rewards of sd .5, as 0/1 ones have. ``raw`` columns are as the table has them, ``standard`` ones are centred
and divided by their standard deviation; the belief is the same one in both units. ``make bench`` runs it;
``--only check audit`` times some verbs, ``--fast`` takes 200 worlds.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import rcb_bayes as rcb

ARMS = ("usual", "low", "high", "combined")
FEATURES = ("one", "age", "sex", "episodes", "weight", "creatinine", "score")
N_PATIENTS, N_PER_ARM, EPSILON, HORIZON = 300, 20, 0.05, 10_000
LEVEL_SD, TAU_SCALE = 0.4, 0.3
# On the logit scale, of standardised columns: what an average patient expects, and how age and score matter.
EXPECTED = {"one": (0.3, 0.1, 0.0, 0.0), "age": (0.1, 0.0, -0.2, 0.1), "score": (0.0, 0.1, 0.2, -0.2)}
VERBS = ("check", "calibrate", "audit", "report")


def patients() -> np.ndarray:
    """A table of patients on their own scales, (300, 7)."""
    rng = np.random.default_rng(16)
    n = N_PATIENTS
    age = np.clip(rng.normal(62, 14, n), 18, 95).round()
    sex = (rng.random(n) < 0.45).astype(float)
    episodes = rng.poisson(1.2, n).astype(float)
    weight = rng.normal(70 + 12 * sex, 12, n).round(1)
    creatinine = rng.lognormal(4.4, 0.3, n).round()
    score = rng.integers(0, 11, n).astype(float)
    return np.column_stack([np.ones(n), age, sex, episodes, weight, creatinine, score])


def standardising(rows: np.ndarray) -> np.ndarray:
    """The matrix A with which rows @ A are centred and of unit variance, but for the constant."""
    a = np.eye(rows.shape[1])
    mean, sd = rows.mean(axis=0), rows.std(axis=0)
    for j in range(1, len(a)):
        a[j, j], a[0, j] = 1.0 / sd[j], -mean[j] / sd[j]
    return a


def expected() -> np.ndarray:
    """Prior means of coefficients of standardised columns, (K, d)."""
    mean = np.zeros((len(ARMS), len(FEATURES)))
    for name, values in EXPECTED.items():
        mean[:, FEATURES.index(name)] = values
    return mean


def hierarchical(a: np.ndarray | None) -> Any:
    """Treatments around a shared level: coefficients of standardised columns or, with A, of the table's own."""
    import pymc as pm

    mean = expected()
    with pm.Model(coords={"arm": list(ARMS), "feature": list(FEATURES)}) as model:
        level = pm.Normal("level", 0.0, LEVEL_SD, shape=len(FEATURES))
        tau = pm.HalfNormal("tau", TAU_SCALE)
        if a is None:
            pm.Normal("beta", mean + level, tau, dims=("arm", "feature"))
        else:
            own = pm.Normal("own", 0.0, 1.0, shape=mean.shape)
            pm.Deterministic("beta", (mean + level + tau * own) @ a.T, dims=("arm", "feature"))
    return model


def markets(columns: str) -> dict[str, rcb.Market]:
    """The trial, and its twin with normal rewards."""
    rows = patients()
    a = standardising(rows)
    raw = columns == "raw"
    users = rcb.Empirical(rows if raw else rows @ a, features=FEATURES)
    prior = rcb.Prior.from_pymc(hierarchical(a if raw else None))
    map_back = a if raw else np.eye(len(a))
    mean = 0.25 * expected()
    mean[:, 0] += 0.5
    twin = rcb.Prior.gaussian(mean @ map_back.T, joint(map_back) / 16.0, arms=ARMS, features=FEATURES)
    return {
        "0/1": rcb.Market(prior=prior, covariates=users, noise=rcb.BernoulliLogit()),
        "normal": rcb.Market(prior=twin, covariates=users, noise=rcb.GaussianNoise(0.5)),
    }


def joint(a: np.ndarray) -> np.ndarray:
    """The covariance of all coefficients, (K d, K d)."""
    k, d = len(ARMS), len(FEATURES)
    between = LEVEL_SD**2 * np.ones((k, k)) + TAU_SCALE**2 * np.eye(k)
    return np.kron(between, a @ a.T).reshape(k * d, k * d)


def verbs(market: rcb.Market, *, n_worlds: int) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """What is timed; each may use what those before it gave."""
    sizes = rcb.ReportSizes(plan_worlds=n_worlds, audit_worlds=n_worlds)
    made: dict[str, Any] = {"epsilon": EPSILON, "n_per_arm": N_PER_ARM, "seed": 1}
    return {
        "check": lambda _: rcb.check_assumptions(market, n_per_arm=N_PER_ARM, n_worlds=n_worlds, seed=1),
        "calibrate": lambda _: rcb.calibrate(market, n_worlds=n_worlds, audit_worlds=n_worlds, **made),
        "audit": lambda found: rcb.audit(market, found["calibrate"], horizon=HORIZON, n_worlds=n_worlds, seed=2),
        "report": lambda _: rcb.report(market, horizon=HORIZON, sizes=sizes, **made),
    }


def timed(market: rcb.Market, wanted: tuple[str, ...], *, n_worlds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """CPU seconds of each verb, and what it gave."""
    seconds: dict[str, float] = {}
    found: dict[str, Any] = {}
    for name, work in verbs(market, n_worlds=n_worlds).items():
        if name not in wanted:
            continue
        start = time.process_time()
        found[name] = work(found)
        seconds[name] = time.process_time() - start
        print(f"  {name} {seconds[name]:.1f} s", file=sys.stderr, flush=True)
    return seconds, found


def main() -> None:
    """Print CPU seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--columns", nargs="+", choices=("raw", "standard"), default=["raw", "standard"])
    parser.add_argument("--noise", nargs="+", choices=("0/1", "normal"), default=["normal", "0/1"])
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--fast", action="store_true", help="200 worlds")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = tuple(asked.only)
    if "audit" in wanted and "calibrate" not in wanted:
        wanted = ("calibrate", *wanted)
    n_worlds = 200 if asked.fast else asked.worlds
    print(f"CPU seconds, {n_worlds:,} worlds, N = {N_PER_ARM}, horizon {HORIZON:,}, epsilon {EPSILON:g}\n")
    names = [name for name in VERBS if name in wanted]
    print(f"| columns | rewards | {' | '.join(names)} | all | rate | cold start | verdict |")
    print("|---|---|" + "---|" * (len(names) + 4))
    for columns in asked.columns:
        here, totals = markets(columns), []
        for noise in asked.noise:
            print(f"{columns}, {noise}", file=sys.stderr, flush=True)
            seconds, found = timed(here[noise], wanted, n_worlds=n_worlds)
            times = [seconds[name] for name in names]
            totals.append([*times, sum(times)])
            plan, judged = found.get("calibrate"), found.get("audit")
            said = [f"{plan.exploration_rate:.3f}", f"{plan.expected_cold_start:.0f}"] if plan else ["", ""]
            cells = [f"{value:.1f}" for value in totals[-1]] + said + [judged.verdict if judged else ""]
            print(f"| {columns} | {noise} | {' | '.join(cells)} |", flush=True)
        if len(totals) == 2:
            ratios = [f"{b / a:.0f}" for a, b in zip(*totals, strict=True)]
            print(f"| {columns} | {asked.noise[1]} over {asked.noise[0]} | {' | '.join(ratios)} | | | |", flush=True)


if __name__ == "__main__":
    main()
