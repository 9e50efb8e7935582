"""Cost of a posterior mean, engine by engine, beside naive ``pm.sample`` and beside the exact batch, in one run.

Main setting: Student-t belief (nu = 4, scale .5), K = 3 arms, d = 5 features, n = 100 users on the unit sphere per arm,
M = 1,000 data sets. Naive is what one would write without this package: a new model of the rows for each data set, and
``pm.sample`` with 500 + 500 draws in 2 chains, on data it has not seen, so that it compiles; the first is left out.
``nuts`` draws 200 + 1,000 in 2 chains. Times are CPU time, medians of warm repeats; errors are root mean squares in
posterior standard deviations against many more draws of other base points.

``make bench`` runs it; BLAS is kept to one thread. ``--fast`` takes fewer repeats, ``--write FILE`` keeps the tables.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.posterior import conditional, laplace
from rcb_bayes.posterior.conditional import ConditionalEngine
from rcb_bayes.posterior.importance import Attempt, ImportanceSampler, Weighted
from rcb_bayes.posterior.laplace import LaplaceEngine
from rcb_bayes.posterior.nuts import NutsEngine

N_SETS, N_SAMPLES, N_ARMS, N_FEATURES = 1000, 100, 3, 5
SIGMAS = (0.05, 0.3)
MANY = 100_000
Table = list[tuple[str, ...]]


# --- data ------------------------------------------------------------------------------------------------------------


def simulate_rows(
    prior: rcb.Prior, *, n_sets: int, n_samples: int, sigma: float, on_sphere: bool = True, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Users (M, K, n, d), on the unit sphere or standard normal, and Gaussian rewards (M, K, n)."""
    rng = np.random.default_rng(seed)
    beta = prior.draw_arrays(n_sets, rng=rng)[0]
    x = rng.standard_normal((n_sets, prior.n_arms, n_samples, prior.n_features))
    if on_sphere:
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return x, (x @ beta[..., None])[..., 0] + sigma * rng.standard_normal(x.shape[:-1])


def as_statistics(x: np.ndarray, y: np.ndarray) -> rcb.posterior.Statistics:
    """The same as sufficient statistics."""
    return rcb.posterior.Statistics(
        xtx=x.swapaxes(-1, -2) @ x,
        xty=(x.swapaxes(-1, -2) @ y[..., None])[..., 0],
        yty=(y**2).sum(axis=-1),
        n=np.full(y.shape[:2], float(y.shape[2])),
    )


def simulate(prior: rcb.Prior, **options: Any) -> rcb.posterior.Statistics:
    """Statistics of simulated data sets."""
    return as_statistics(*simulate_rows(prior, **options))


def simulate_clicks(prior: rcb.Prior, *, n_sets: int, n_samples: int, seed: int = 0) -> rcb.posterior.Rows:
    """Bernoulli rewards of n users per arm."""
    rng = np.random.default_rng(seed)
    beta = prior.draw_arrays(n_sets, rng=rng)[0]
    arm = np.tile(np.repeat(np.arange(prior.n_arms), n_samples), (n_sets, 1))
    x = rng.standard_normal((*arm.shape, prior.n_features))
    eta = (x * beta[np.arange(n_sets)[:, None], arm]).sum(axis=2)
    return rcb.posterior.Rows(
        x=x, arm=arm, reward=np.where(rng.random(eta.shape) < 1 / (1 + np.exp(-eta)), 1.0, 0.0), n_arms=prior.n_arms
    )


# --- measuring -------------------------------------------------------------------------------------------------------


def milliseconds(work: Callable[[], object], *, per: int, repeats: int) -> float:
    """Median time of warm calls, over the number of data sets."""
    work()
    return 1e3 * statistics.median(seconds(work) for _ in range(repeats)) / per


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call, chains in processes of their own included."""
    start = _used()
    work()
    return _used() - start


def _used() -> float:
    """CPU seconds so far, of this process and of its children; ``os.times`` counts hundredths."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def root_mean_square(found: np.ndarray, mean: np.ndarray, covariance: np.ndarray | None) -> float:
    """Error of the first data sets' means, in posterior standard deviations."""
    assert covariance is not None
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)).reshape(mean.shape)
    n = min(len(found), len(mean))
    return float(np.sqrt((((found[:n] - mean[:n]) / sd[:n]) ** 2).mean()))


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """A module's constant, for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


# --- tables ----------------------------------------------------------------------------------------------------------


def naive_mean(x: np.ndarray, y: np.ndarray, *, sigma: float, seed: int) -> np.ndarray:
    """A new model for the rows x (K, n, d), y (K, n), and ``pm.sample``: posterior mean (K, d)."""
    import pymc as pm

    with pm.Model():
        beta: Any = pm.StudentT("beta", nu=4.0, mu=0.0, sigma=0.5, shape=(x.shape[0], x.shape[2]))
        pm.Normal("y", mu=(x * beta[:, None, :]).sum(axis=2), sigma=sigma, observed=y)
        tree: Any = pm.sample(draws=500, tune=500, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True)
    return tree["posterior"]["beta"].values.mean(axis=(0, 1))


def long_run(prior: rcb.Prior, data: rcb.posterior.Statistics, *, sigma: float) -> Weighted:
    """Posterior moments by many draws of base points that no engine here uses."""
    return ImportanceSampler(prior, sigma=sigma, seed=99)._attempt(data, Attempt("defensive", 16384), covariance=True)


def time_naive(prior: rcb.Prior, *, sigma: float, repeats: int) -> tuple[float, float, float]:
    """Median cost of ``pm.sample`` on unseen data and on the same again, in ms, and its error.

    The data come from a seed of their own in every run: a compiler's cache on disk knows those of earlier runs.
    """
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    x, y = simulate_rows(prior, n_sets=repeats + 1, n_samples=N_SAMPLES, sigma=sigma, seed=seed)
    means = []
    naive_mean(x[0], y[0], sigma=sigma, seed=0)
    unseen = [seconds(lambda m=m: means.append(naive_mean(x[m], y[m], sigma=sigma, seed=m))) for m in range(1, len(x))]
    again = [seconds(lambda m=m: naive_mean(x[m], y[m], sigma=sigma, seed=m)) for m in range(1, len(x))]
    long = long_run(prior, as_statistics(x[1:], y[1:]), sigma=sigma)
    error = root_mean_square(np.array(means), long.mean, long.covariance)
    return 1e3 * statistics.median(unseen), 1e3 * statistics.median(again), error


def engine_table(*, sigma: float, repeats: int, naive_repeats: int) -> Table:
    """Costs and errors in the main setting, as ratios."""
    noise = rcb.GaussianNoise(sigma)
    prior = rcb.load_prior("student_t", n_arms=N_ARMS, n_features=N_FEATURES)
    data = simulate(prior, n_sets=N_SETS, n_samples=N_SAMPLES, sigma=sigma)
    long = long_run(prior, data.take(slice(0, 200)), sigma=sigma)
    gaussian = rcb.Prior.gaussian(np.zeros((N_ARMS, N_FEATURES)), 0.5)
    exact = rcb.posterior.make_engine(gaussian, noise, engine="exact")
    sampler = rcb.posterior.make_engine(prior, noise, engine="importance")
    nuts, few = NutsEngine(prior, noise), data.take(slice(0, 20))
    naive, naive_again, naive_error = time_naive(prior, sigma=sigma, repeats=naive_repeats)
    nuts_error = root_mean_square(nuts.fit(few).mean, long.mean, long.covariance)
    error = root_mean_square(sampler.fit(data).mean, long.mean, long.covariance)
    rows = {
        "naive `pm.sample`": (naive, naive_error),
        "the same on data seen before": (naive_again, naive_error),
        "`nuts`, re-fed": (milliseconds(lambda: nuts.fit(few), per=20, repeats=3), nuts_error),
        "`importance`": (milliseconds(lambda: sampler.fit(data), per=N_SETS, repeats=repeats), error),
        "`exact` (Gaussian belief)": (milliseconds(lambda: exact.fit(data), per=N_SETS, repeats=repeats), 0.0),
    }
    slowest, fastest = rows["naive `pm.sample`"][0], rows["`exact` (Gaussian belief)"][0]
    return [
        ("engine", "ms a data set", "times cheaper than naive", "times the exact batch", "error, posterior sd"),
        *(
            (
                name,
                f"{cost:.4g}",
                f"{slowest / cost:,.0f}",
                f"{cost / fastest:,.1f}",
                f"{error:.4f}",
            )
            for name, (cost, error) in rows.items()
        ),
    ]


def other_beliefs(*, n_sets: int, repeats: int) -> Table:
    """The engines that the main setting does not call on, beside NUTS on the same data."""
    table: Table = [
        ("belief and rewards", "engine", "ms a data set", "error, posterior sd", "vouched for", "`nuts`, ms")
    ]
    for name, parameters in (("hierarchical", {"centred": False}), ("unknown_noise", {"noise_scale": 0.5})):
        prior = rcb.load_prior(name, n_arms=N_ARMS, n_features=N_FEATURES, **parameters)
        noise = rcb.GaussianNoise(None if prior.has_sigma else 0.3)
        engine, nuts = ConditionalEngine(prior, noise), NutsEngine(prior, noise)
        longer = ("NOISE_LADDER", 2**18) if prior.has_sigma else ("LADDER", 2**14)
        for n_samples in (10, 100):
            data = simulate(prior, n_sets=n_sets, n_samples=n_samples, sigma=0.3)
            with (
                replaced(conditional, longer[0], (conditional.Attempt(longer[1], 1),)),
                replaced(ConditionalEngine, "_grids", ()),  # draws of the scale, not the rule that is measured
                replaced(ConditionalEngine, "_noise_line", None),
            ):
                long = ConditionalEngine(prior, noise).fit(data.take(slice(0, 20)), covariance=True)
            table.append(_row(f"{name}, n = {n_samples}", engine, nuts, data, long, repeats=repeats))
    for name in ("gaussian", "student_t"):
        prior = rcb.load_prior(name, n_arms=N_ARMS, n_features=N_FEATURES)
        clicks = simulate_clicks(prior, n_sets=n_sets, n_samples=N_SAMPLES)
        with replaced(laplace, "_LADDER", (2**16,)):
            long = LaplaceEngine(prior, seed=99).fit(clicks.take(slice(0, 20)), covariance=True)
        title, nuts = f"{name}, Bernoulli, n = {N_SAMPLES}", NutsEngine(prior, rcb.BernoulliLogit())
        table.append(_row(title, LaplaceEngine(prior), nuts, clicks, long, repeats=repeats))
    return table


def _row(title: str, engine: Any, nuts: NutsEngine, data: Any, long: Any, *, repeats: int) -> tuple[str, ...]:
    batch, few = engine.fit(data), data.take(slice(0, 5))
    return (
        title,
        f"`{engine.name}`",
        f"{milliseconds(lambda: engine.fit(data), per=data.n_sets, repeats=repeats):.3g}",
        f"{root_mean_square(batch.mean, long.mean, long.covariance):.4f}",
        f"{batch.vouched.mean():.2f}",
        f"{milliseconds(lambda: nuts.fit(few), per=5, repeats=1):.0f}",
    )


def many_features(*, n_sets: int) -> Table:
    """Shares of data sets that importance sampling vouches for at d = 50, n = 200, prior sd .45."""
    table: Table = [("nu", "sigma", "users on the unit sphere", "standard normal users")]
    for nu in (5.0, 3.0):
        for sigma in (0.3, 1.0):
            prior = rcb.load_prior("student_t", n_arms=2, n_features=50, nu=nu, scale=0.45 * ((nu - 2.0) / nu) ** 0.5)
            shares = []
            for on_sphere in (True, False):
                data = simulate(prior, n_sets=n_sets, n_samples=200, sigma=sigma, on_sphere=on_sphere)
                shares.append(f"{ImportanceSampler(prior, sigma=sigma).fit(data).vouched.mean():.2f}")
            table.append((f"{nu:g}", f"{sigma:g}", *shares))
    return table


def growth(*, repeats: int) -> float:
    """Cost a data set at M = 4,000 over that at M = 1,000."""
    prior = rcb.load_prior("student_t", n_arms=N_ARMS, n_features=N_FEATURES)
    engine = rcb.posterior.make_engine(prior, rcb.GaussianNoise(SIGMAS[0]))
    small = simulate(prior, n_sets=1000, n_samples=N_SAMPLES, sigma=SIGMAS[0])
    large = small.take(np.tile(np.arange(1000), 4))
    costs = [milliseconds(lambda d=d: engine.fit(d), per=d.n_sets, repeats=repeats) for d in (large, small)]
    return costs[0] / costs[1]


def fit_many() -> None:
    """Fit 100,000 data sets at d = 10, and print the peak memory of this process in KiB."""
    import resource

    prior = rcb.load_prior("student_t", n_arms=N_ARMS, n_features=10)
    data = simulate(prior, n_sets=1000, n_samples=N_SAMPLES, sigma=SIGMAS[0])
    rcb.posterior.make_engine(prior, rcb.GaussianNoise(SIGMAS[0])).fit(
        data.take(np.tile(np.arange(1000), MANY // 1000))
    )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def peak_memory() -> float:
    """Peak memory, data included, of a process of its own that fits 100,000 data sets at d = 10, in GiB."""
    done = subprocess.run([sys.executable, __file__, "--fit-many"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / 2**20


def as_markdown(table: Table) -> str:
    """A table as Markdown."""
    head, *body = (f"| {' | '.join(row)} |" for row in table)
    return "\n".join([head, "|" + "---|" * len(table[0]), *body])


def report(*, fast: bool) -> Iterator[str]:
    """The tables, one after the other."""
    repeats = 3 if fast else 9
    for sigma in SIGMAS[:1] if fast else SIGMAS:
        yield f"Student-t belief, K = {N_ARMS}, d = {N_FEATURES}, n = {N_SAMPLES}, M = {N_SETS:,}, sigma = {sigma:g}"
        yield as_markdown(engine_table(sigma=sigma, repeats=repeats, naive_repeats=2 if fast else 5))
    yield f"Cost a data set, M = 4,000 over M = 1,000: {growth(repeats=repeats):.2f}"
    yield "Other beliefs and rewards"
    yield as_markdown(other_beliefs(n_sets=40 if fast else 200, repeats=1 if fast else 3))
    yield "Student-t beliefs, d = 50, n = 200: share of data sets that importance sampling vouches for"
    yield as_markdown(many_features(n_sets=20 if fast else 60))
    if not fast:
        yield f"Peak memory, M = {MANY:,} at d = 10: {peak_memory():.2f} GiB"


def main() -> None:
    """Measure, print, and keep the tables if asked to."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="Cost of a posterior mean, engine by engine.")
    parser.add_argument("--fast", action="store_true", help="fewer repeats, no memory check")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--fit-many", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.fit_many:
        fit_many()
        return
    parts = []
    for part in report(fast=options.fast):
        parts.append(part)
        print(part, end="\n\n", flush=True)
    if options.write is not None:
        options.write.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
