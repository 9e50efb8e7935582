"""A belief of smooth curves, ``pm.gp.HSGP`` with 20 sines an arm and two unknown scales: its first call and the others.

The first call is a process of its own that reads the belief and fits one data set, imports included: cold, with nothing
compiled before by Numba or PyTensor, and warm. Then the cost of a data set (two arms, 30 users each), warm, beside
``pm.sample`` of the same curves with 500 + 500 draws in 2 chains on data it has not seen. All are CPU times.

``make bench`` runs it; BLAS is kept to one thread.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np

import rcb_bayes as rcb

N_BASIS, N_USERS, SIGMA = 20, 30, 0.3
Rows = tuple[np.ndarray, np.ndarray]


def belief() -> rcb.Prior:
    """Two arms, one covariate."""
    return rcb.load_prior("smooth", n_arms=2, n_features=1, n_basis=N_BASIS)


def simulate(prior: rcb.Prior, *, n_sets: int, seed: int) -> tuple[rcb.posterior.Statistics, Rows]:
    """Data sets as statistics, and users (M, K, n) with their rewards (M, K, n)."""
    rng = np.random.default_rng(seed)
    beta = prior.draw_arrays(n_sets, rng=rng)[0]
    x = rng.uniform(-1.0, 1.0, size=(n_sets, prior.n_arms, N_USERS))
    features_of: Any = prior.feature_map
    features = np.asarray(features_of(x.reshape(-1, 1))).reshape(*x.shape, -1)
    y = (features @ beta[..., None])[..., 0] + SIGMA * rng.standard_normal(x.shape)
    turned = features.swapaxes(-1, -2)
    data = rcb.posterior.Statistics(
        xtx=turned @ features,
        xty=(turned @ y[..., None])[..., 0],
        yty=(y**2).sum(axis=-1),
        n=np.full(x.shape[:2], float(N_USERS)),
    )
    return data, (x, y)


def first_call() -> None:
    """Read the belief, fit one data set, and print the CPU seconds of this process until then."""
    prior = belief()
    engine = rcb.posterior.make_engine(prior, rcb.GaussianNoise(SIGMA))
    engine.fit(simulate(prior, n_sets=1, seed=1)[0])
    print(time.process_time())


def first_calls() -> tuple[float, float]:
    """CPU seconds of a first call with nothing compiled by Numba or PyTensor, and of one after it."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ",".join(filter(None, [os.environ.get("PYTENSOR_FLAGS"), f"base_compiledir={folder}/pytensor"]))
        environment = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/numba", "PYTENSOR_FLAGS": flags}
        command = [sys.executable, __file__, "--first-call"]
        found = []
        for _ in range(2):
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            found.append(float(done.stdout.split()[-1]))
    return found[0], found[1]


def naive(x: np.ndarray, y: np.ndarray, *, seed: int) -> None:
    """A new model of the rows (K, n), and ``pm.sample``."""
    import pymc

    pm: Any = pymc
    with pm.Model():
        amplitude, length = pm.HalfNormal("amplitude", 0.4), pm.LogNormal("length", np.log(0.7), 0.4)
        levels = pm.Normal("a", 0.0, 0.3, shape=len(x))
        z = pm.Normal("z", 0.0, 1.0, shape=(N_BASIS, len(x)))
        process = pm.gp.HSGP(m=[N_BASIS], L=[1.6], cov_func=amplitude**2 * pm.gp.cov.Matern52(1, ls=length))
        phi, root = process.prior_linearized(x.reshape(-1, 1))
        curves = phi @ (z * root[:, None]) + levels
        arm = np.repeat(np.arange(len(x)), x.shape[1])
        pm.Normal("y", curves[np.arange(x.size), arm], SIGMA, observed=y.reshape(-1))
        pm.sample(draws=500, tune=500, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True)


def main() -> None:
    """Measure and print."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="A belief of smooth curves: first call, others, naive.")
    parser.add_argument("--sets", type=int, default=200, help="data sets; 200 unless given")
    parser.add_argument("--first-call", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.first_call:
        first_call()
        return
    print(f"Curves of {N_BASIS} sines with two unknown scales, two arms, {N_USERS} users an arm, CPU time\n")
    print("| | |\n|---|---|")
    cold, warm = first_calls()
    print(f"| first call, imports and reading included, nothing compiled before | {cold:.1f} s |")
    print(f"| the same again | {warm:.1f} s |", flush=True)
    prior = belief()
    engine = rcb.posterior.make_engine(prior, rcb.GaussianNoise(SIGMA))
    engine.fit(simulate(prior, n_sets=1, seed=1)[0])
    data, _ = simulate(prior, n_sets=asked.sets, seed=2)
    start = time.process_time()
    batch = engine.fit(data)
    each = (time.process_time() - start) / asked.sets
    print(f"| a data set after that, {asked.sets} of them | {1e3 * each:.1f} ms |")
    share = (batch.vouched & (batch.engine == engine.name)).mean()
    print(f"| vouched for by `{engine.name}` | {share:.3f} |", flush=True)
    _, (x, y) = simulate(prior, n_sets=1, seed=3)
    start = time.process_time()
    naive(x[0], y[0], seed=0)
    by_sampling = time.process_time() - start
    print(f"| naive `pm.sample`, a data set | {by_sampling:.1f} s |")
    print(f"| times cheaper than naive | {by_sampling / each:,.0f} |")


if __name__ == "__main__":
    main()
