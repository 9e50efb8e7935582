"""Many heavy-tailed effects around shared levels: how many data sets the Gibbs sampler vouches for, and at what cost.

Beliefs: Student-t (nu = 4), Laplace and regularised horseshoe effects of every arm around a level of each feature, with
one unknown scale for all. Data come from the belief, users from the unit sphere: 5 samples an arm, fewer than most of
these beliefs have features, or 50, with noise .05, .3 and 1. Times are CPU times of a fit of all data sets of a cell,
machine code compiled before. What is not vouched for goes to NUTS. ``--nuts`` says what NUTS takes for one data set of
each belief with 50 samples and noise .3.

``--shapes 5x5 10x5`` (arms and features) and ``--kinds horseshoe`` take some of it; ``--sets 20 5`` has 20 data sets a
cell and, from 200 effects on, 5.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, the folder of ``tests`` is not there

from rcb_bayes.belief import Prior
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.posterior.gibbs import GibbsEngine
from rcb_bayes.posterior.nuts import NutsEngine
from tests.benchmarks.bench_engines import Table, as_markdown, simulate
from tests.posterior.heavy_effects import KINDS, around_a_level

SHAPES = {f"{arms}x{features}": (arms, features) for arms, features in ((5, 5), (10, 5), (10, 10), (20, 10), (4, 50))}
CELLS = tuple((n, sigma) for n in (5, 50) for sigma in (0.05, 0.3, 1.0))


def measured(prior: Prior, *, n: int, sigma: float, n_sets: int) -> tuple[float, float, float]:
    """The share vouched for, milliseconds a data set, and the median number of sweeps of the last round."""
    data = simulate(prior, n_sets=n_sets, n_samples=n, sigma=sigma, seed=n)
    engine = GibbsEngine(prior, GaussianNoise(sigma))
    start = time.process_time()
    batch = engine.fit(data)
    cost = 1e3 * (time.process_time() - start) / n_sets
    return float(batch.vouched.mean()), cost, float(np.median(batch.diagnostics["sweeps"]))


def rows(prior: Prior, *, n_sets: int, label: str) -> Iterator[tuple[str, ...]]:
    """One line for each cell."""
    GibbsEngine(prior, GaussianNoise(1.0)).fit(simulate(prior, n_sets=1, n_samples=50, sigma=1.0))  # compiled
    for n, sigma in CELLS:
        share, cost, sweeps = measured(prior, n=n, sigma=sigma, n_sets=n_sets)
        yield (label, str(n), f"{sigma:g}", str(n_sets), f"{share:.2f}", f"{cost:,.0f}", f"{sweeps:g}")


def nuts_cost(prior: Prior) -> float:
    """CPU seconds that NUTS takes for one data set, compiled before."""
    data = simulate(prior, n_sets=2, n_samples=50, sigma=0.3, seed=50)
    engine = NutsEngine(prior, GaussianNoise(0.3))
    engine.fit(data.take(slice(0, 1)))
    start = time.process_time()
    engine.fit(data.take(slice(1, 2)))
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="Many heavy-tailed effects around shared levels.")
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sets", type=int, nargs=2, default=(20, 10), help="data sets a cell, and from 200 effects on")
    parser.add_argument("--nuts", action="store_true", help="also what NUTS takes")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    head = ("effects", "samples an arm", "noise", "data sets", "vouched for", "ms a data set", "sweeps, median")
    for kind in asked.kinds:
        table: Table = [head]
        told: list[str] = []
        for shape in asked.shapes:
            n_arms, d = SHAPES[shape]
            prior = around_a_level(kind, n_arms, d)
            n_sets = asked.sets[n_arms * d >= 200]
            for row in rows(prior, n_sets=n_sets, label=f"{n_arms} arms x {d} = {n_arms * d}"):
                table.append(row)
                print(kind, *row, file=sys.stderr, flush=True)
            if asked.nuts:
                told.append(f"{n_arms} arms x {d}: {nuts_cost(prior):.1f} s")
        print(f"Effects: {kind}\n\n{as_markdown(table)}\n", flush=True)
        if told:
            print(f"NUTS, one data set: {', '.join(told)}\n", flush=True)


if __name__ == "__main__":
    main()
