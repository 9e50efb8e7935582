"""Cost of a posterior mean, engine by engine, beside naive ``pm.sample`` and beside the exact batch, in one run.

Setting: Student-t belief (nu = 4), K = 3 arms, d = 5 features, n = 100 users on the unit sphere per arm, sigma = .05.
Errors are in posterior standard deviations, against importance sampling with 16,384 draws. Run by ``make bench``, which
pins BLAS to one thread; ``--write FILE`` keeps the table, ``--fast`` does with fewer repeats.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.posterior import importance
from rcb_bayes.posterior.importance import Attempt, ImportanceSampler
from rcb_bayes.posterior.nuts import NutsEngine

SIGMA, N_SETS, N_SAMPLES = 0.05, 1000, 100
MEMORY_CHECK = """
import resource, sys
sys.path.insert(0, {folder!r})
from bench_engines import rcb, simulate
prior = rcb.load_prior("student_t", n_arms=3, n_features=10)
data = simulate(prior, n_sets=2000, n_samples=100)
import numpy as np
many = data.take(np.tile(np.arange(2000), 50))
rcb.make_engine(prior, rcb.GaussianNoise(0.05)).fit(many)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def simulate(prior: rcb.Prior, *, n_sets: int, n_samples: int, sigma: float = SIGMA, seed: int = 0) -> rcb.Statistics:
    """Data sets of a belief, users on the unit sphere, ``n_samples`` of each arm."""
    x, y = simulate_rows(prior, n_sets=n_sets, n_samples=n_samples, sigma=sigma, seed=seed)
    return rcb.Statistics(
        xtx=x.swapaxes(-1, -2) @ x,
        xty=np.einsum("mknd,mkn->mkd", x, y),
        yty=(y**2).sum(axis=-1),
        n=np.full(y.shape[:2], float(n_samples)),
    )


def simulate_rows(
    prior: rcb.Prior, *, n_sets: int, n_samples: int, sigma: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Users (M, K, n, d) and rewards (M, K, n)."""
    rng = np.random.default_rng(seed)
    beta, _ = prior.draw_arrays(n_sets, rng=rng)
    x = rng.standard_normal((n_sets, prior.n_arms, n_samples, prior.n_features))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    noise = sigma * rng.standard_normal(x.shape[:-1])
    return x, np.einsum("mknd,mkd->mkn", x, beta) + noise


def seconds(work: Callable[[], object], *, repeats: int) -> float:
    """Median time of a warm call."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def naive_posterior_mean(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """What one would write without this package: a new model for the rows of the data set, and ``pm.sample``.

    ``x`` (K, n, d) and ``y`` (K, n).
    """
    import pymc as pm

    with pm.Model() as model:
        beta = pm.StudentT("beta", nu=4.0, mu=0.0, sigma=0.5, shape=(x.shape[0], x.shape[2]))
        pm.Normal("y", mu=(x * beta[:, None, :]).sum(axis=2), sigma=SIGMA, observed=y)
        tree = pm.sample(
            draws=500, tune=500, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True, model=model
        )
    return np.asarray(tree["posterior"]["beta"]).mean(axis=(0, 1))


def engine_table(*, repeats: int, naive_repeats: int) -> list[tuple[str, float, float]]:
    """Rows (engine, milliseconds a data set, error in posterior sd)."""
    prior = rcb.load_prior("student_t", n_arms=3, n_features=5)
    data = simulate(prior, n_sets=N_SETS, n_samples=N_SAMPLES)
    x, y = simulate_rows(prior, n_sets=N_SETS, n_samples=N_SAMPLES, sigma=SIGMA, seed=0)  # the same, as rows
    reference = ImportanceSampler(prior, sigma=SIGMA, seed=99)._attempt(
        data.take(slice(0, 200)), Attempt("moments", 16384), position=np.arange(200), covariance=True
    )
    assert reference.covariance is not None
    sd = np.sqrt(np.diagonal(reference.covariance, axis1=1, axis2=2)).reshape(reference.mean.shape)

    def error(mean: np.ndarray) -> float:
        n = len(mean)
        return float(np.sqrt((((mean - reference.mean[:n]) / sd[:n]) ** 2).mean()))

    gaussian = rcb.Prior.gaussian(np.zeros((3, 5)), 0.5)
    exact = rcb.make_engine(gaussian, rcb.GaussianNoise(SIGMA), engine="exact")
    sampler = rcb.make_engine(prior, rcb.GaussianNoise(SIGMA), engine="importance")
    nuts = NutsEngine(prior, rcb.GaussianNoise(SIGMA))
    nuts.fit(data.take(slice(0, 1)))  # compile
    naive_times, naive_means = [], []
    for m in range(naive_repeats + 1):
        start = time.perf_counter()
        naive_means.append(naive_posterior_mean(x[m], y[m], seed=m))
        naive_times.append(time.perf_counter() - start)
    few = data.take(slice(0, 10))
    return [
        ("naive pm.sample", 1e3 * statistics.median(naive_times[1:]), error(np.array(naive_means))),
        ("nuts, re-fed", 1e2 * seconds(lambda: nuts.fit(few), repeats=2), error(nuts.fit(few).mean)),
        ("importance", seconds(lambda: sampler.fit(data), repeats=repeats), error(sampler.fit(data).mean[:200])),
        ("exact (Gaussian belief)", seconds(lambda: exact.fit(data), repeats=repeats), 0.0),
    ]


def many_features() -> list[tuple[str, float]]:
    """Shares of data sets vouched for by importance sampling at d = 50, n = 200."""
    rows = []
    for nu, sigma in ((5.0, 0.3), (3.0, 0.3), (5.0, 1.0), (3.0, 1.0)):
        prior = rcb.load_prior("student_t", n_arms=2, n_features=50, nu=nu, scale=0.45 * ((nu - 2) / nu) ** 0.5)
        data = simulate(prior, n_sets=40, n_samples=200, sigma=sigma)
        # Longer users tell more: radius r and noise sigma are radius 1 and noise sigma / r, up to units.
        near = simulate(prior, n_sets=40, n_samples=200, sigma=sigma / 50**0.5)
        long = rcb.Statistics(xtx=near.xtx * 50, xty=near.xty * 50, yty=near.yty * 50, n=near.n)
        for users, given in (("unit sphere", data), ("sphere of radius sqrt(50)", long)):
            share = float(ImportanceSampler(prior, sigma=sigma).fit(given).vouched.mean())
            rows.append((f"nu = {nu:g}, sigma = {sigma:g}, {users}", share))
    return rows


def growth(*, repeats: int) -> float:
    """Cost a data set at M = 4,000 over that at M = 1,000."""
    prior = rcb.load_prior("student_t", n_arms=3, n_features=5)
    engine = rcb.make_engine(prior, rcb.GaussianNoise(SIGMA))
    small = simulate(prior, n_sets=1000, n_samples=20)
    large = small.take(np.tile(np.arange(1000), 4))
    return seconds(lambda: engine.fit(large), repeats=repeats) / seconds(lambda: engine.fit(small), repeats=repeats) / 4


def peak_memory() -> float:
    """Peak memory of a process that fits 100,000 data sets at d = 10, in GiB."""
    script = MEMORY_CHECK.format(folder=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / 2**20


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="fewer repeats, no memory check")
    parser.add_argument("--write", type=Path, help="also write the engine table to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    repeats = 3 if options.fast else 7
    rows = engine_table(repeats=repeats, naive_repeats=2 if options.fast else 5)
    naive, exact = rows[0][1], rows[-1][1]
    lines = [
        "| engine | ms a data set | times cheaper than naive | times the exact batch | error, posterior sd |",
        "|---|---|---|---|---|",
        *(f"| {name} | {ms:.4g} | {naive / ms:,.0f} | {ms / exact:,.1f} | {error:.4f} |" for name, ms, error in rows),
    ]
    print("\n".join(lines))
    print(f"\ncost a data set, M = 4,000 over M = 1,000: {growth(repeats=3):.2f}")
    print("\nd = 50, n = 200, importance sampling vouched for:")
    for name, share in many_features():
        print(f"  {name}: {share:.2f}")
    if not options.fast:
        print(f"\npeak memory, M = 100,000 at d = 10: {peak_memory():.2f} GiB")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB; {importance.LADDER[0]}")
    if options.write is not None:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
