"""What workers gain, and what they cost.

An audit of five different arms and ``reproduce setting-1 --fast``, by this process and by two workers in turns, several
times: wall and CPU seconds, medians, and how many times as fast two workers are. Workers are started and have compiled
before the clock runs, as this process has. A thousand tasks of nothing: the overhead. An audit of 100,000 worlds with
two workers, in a process of its own: the most memory that the parent had.

``--only audit reproduce tasks memory`` measures some of these; ``--repeats`` and ``--worlds`` are for the audit. On a
machine that others use, nothing here means much but the tasks and the memory.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.workers import run_tasks

N_ARMS, N_FEATURES, N_PER_ARM, HORIZON = 5, 5, 20, 20_000
WORKERS = 2
PARTS = ("audit", "reproduce", "tasks", "memory")
_CHILD = "--parent-of"


@cache
def setting(n_arms: int = N_ARMS) -> tuple[rcb.Market, rcb.Plan]:
    """Arms that users expect a little of, more or less, and a plan for them."""
    prior = rcb.Prior.gaussian(np.outer(np.linspace(0.3, 0.0, n_arms), np.ones(N_FEATURES)), 0.2)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(N_FEATURES), noise=rcb.GaussianNoise(0.3))
    return market, rcb.calibrate(market, n_per_arm=N_PER_ARM, n_worlds=1000, seed=1)


def audited(workers: int | None, *, n_worlds: int) -> rcb.Audit:
    """The audit of the benchmark."""
    market, plan = setting()
    return rcb.audit(market, plan, horizon=HORIZON, n_worlds=n_worlds, workers=workers, seed=2)


def reproduced(workers: int | None) -> Any:
    """The paper's first setting, small."""
    return rcb.studies.reproduce("setting-1", rcb.studies.Request(fast=True, workers=workers))


def cpu_seconds() -> float:
    """Of this process and all that it has started; of this process alone where psutil is not installed."""
    own = time.process_time()
    try:
        import psutil
    except ImportError:
        return own
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        own += times.user + times.system
    return own


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - wall, cpu_seconds() - cpu


def compared(work: Callable[[int | None], object], *, repeats: int) -> tuple[list[float], list[float], list[float]]:
    """Wall and CPU seconds by this process and by two workers, medians of turns; and ratios of wall seconds."""
    found: dict[int | None, list[tuple[float, float]]] = {None: [], WORKERS: []}
    for turn in range(repeats):
        for workers in (None, WORKERS) if turn % 2 == 0 else (WORKERS, None):
            found[workers].append(timed(partial(work, workers)))
    one, two = ([statistics.median(values) for values in zip(*found[who], strict=True)] for who in (None, WORKERS))
    ratios = [first[0] / second[0] for first, second in zip(found[None], found[WORKERS], strict=True)]
    return one, two, ratios


def row(name: str, one: list[float], two: list[float], ratios: list[float]) -> str:
    """A line of the table."""
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    figures = f"{one[0]:.1f} | {two[0]:.1f} | {one[1]:.1f} | {two[1]:.1f}"
    return f"| {name} | {figures} | {one[0] / two[0]:.2f} | {spread} |"


def nothing() -> None:
    """What tasks of nothing share."""


def idle(_: None, task: int) -> int:
    """A task of nothing."""
    return task


def overhead() -> tuple[float, float]:
    """Seconds of a thousand tasks of nothing: with starting the workers, and once they are there."""
    from rcb_bayes.workers.crews import dismiss

    dismiss()
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        done = sum(1 for _ in run_tasks(idle, range(1000), make=nothing, workers=WORKERS))
        assert done == 1000
        seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1]


def most_memory(n_worlds: int, n_arms: int, workers: str) -> str:
    """What a process of its own says of its memory."""
    words = [sys.executable, __file__, _CHILD, str(n_worlds), str(n_arms), workers]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def as_parent(n_worlds: int, n_arms: int, workers: int | None) -> None:
    """Audit, and say how much memory that took at most, here and beforehand."""
    market, plan = setting(n_arms)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    found = rcb.audit(market, plan, horizon=HORIZON, n_worlds=n_worlds, workers=workers, seed=2)
    wall = time.perf_counter() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    views = found.margins.sizes["stage"]
    who = "this process" if workers is None else f"{workers} workers"
    print(f"| {n_worlds:,} | {n_arms} | {who} | {views} | {found.verdict} | {wall:.0f} | {before:.0f} | {most:.0f} |")


def main() -> None:
    """Print the tables that are asked for."""
    if len(sys.argv) > 1 and sys.argv[1] == _CHILD:
        as_parent(int(sys.argv[2]), int(sys.argv[3]), None if sys.argv[4] == "None" else int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worlds", type=int, default=20_000, help="of the audit")
    parser.add_argument("--memory-worlds", type=int, default=100_000)
    asked = parser.parse_args()
    os.environ.setdefault("NO_COLOR", "1")
    if "audit" in asked.only or "reproduce" in asked.only:
        print(f"| work | wall, one | wall, {WORKERS} | CPU, one | CPU, {WORKERS} | times as fast | in turns |")
        print("|---|---|---|---|---|---|---|", flush=True)
    if "audit" in asked.only:
        for workers in (None, WORKERS):
            audited(workers, n_worlds=2_000)  # compiled, here and there
        found = compared(partial(audited, n_worlds=asked.worlds), repeats=asked.repeats)
        print(row(f"audit, {N_ARMS} arms, {asked.worlds:,} worlds", *found), flush=True)
    if "reproduce" in asked.only:
        for workers in (None, WORKERS):
            reproduced(workers)
        print(row("reproduce setting-1 --fast", *compared(reproduced, repeats=asked.repeats)), flush=True)
    if "tasks" in asked.only:
        cold, warm = overhead()
        print(f"\n1,000 tasks of nothing, {WORKERS} workers: {warm:.2f} s, {cold:.2f} s with starting them", flush=True)
    if "memory" in asked.only:
        print("\n| worlds | arms | by | views | verdict | wall, s | MiB before | MiB at most |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        print(most_memory(asked.memory_worlds, 3, str(WORKERS)), flush=True)


if __name__ == "__main__":
    main()
