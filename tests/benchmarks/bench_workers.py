"""What workers gain, and what they cost.

An audit of five different arms and ``reproduce setting-1 --fast``, by this process and by two workers in turns, several
times: wall and CPU seconds, medians, and how many times as fast two workers are; where the CPU seconds go, and how many
times as fast they let one expect two workers to be where nobody else uses the machine. Workers are started and have
compiled before the clock runs, as this process has. The limit of the machine: the audit in two processes that share
nothing, at the same time, beside one of them alone. A thousand tasks of nothing: the overhead. An audit of 100,000
worlds with two workers, in a process of its own: the most memory that the parent had.

``--only audit reproduce limit tasks memory`` measures some of these; ``--repeats`` and ``--worlds`` are for the audit.
On a machine that others use, wall seconds mean little; CPU seconds, tasks and memory do.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.workers import run_tasks, tallied

N_ARMS, N_FEATURES, N_PER_ARM, HORIZON = 5, 5, 20, 20_000
WORKERS = 2
PARTS = ("audit", "reproduce", "limit", "tasks", "memory")
_CHILD, _ALONE = "--parent-of", "--alone"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of a call: by the clock; of the processor, of this process and of workers; of their tasks."""

    wall: float
    own: float
    workers: float
    tasks: float
    ready: float

    @property
    def cpu(self) -> float:
        """Of all processes."""
        return self.own + self.workers


def seconds_of_workers() -> float:
    """Of the processor, of all that this process has started."""
    import psutil

    found = 0.0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = child.cpu_times()
            found += times.user + times.system
    return found


def timed(work: Callable[[], object]) -> Cost:
    """What a call takes."""
    wall, own, workers = time.perf_counter(), time.process_time(), seconds_of_workers()
    with tallied() as tally:
        work()
    return Cost(
        wall=time.perf_counter() - wall,
        own=time.process_time() - own,
        workers=seconds_of_workers() - workers,
        tasks=tally.worked,
        ready=tally.readied,
    )


def compared(work: Callable[[int | None], object], *, repeats: int) -> tuple[Cost, Cost, list[float]]:
    """By this process and by two workers, in turns: medians, and ratios of wall seconds."""
    found: dict[int | None, list[Cost]] = {None: [], WORKERS: []}
    for turn in range(repeats):
        for workers in (None, WORKERS) if turn % 2 == 0 else (WORKERS, None):
            found[workers].append(timed(partial(work, workers)))
    ratios = [first.wall / second.wall for first, second in zip(found[None], found[WORKERS], strict=True)]
    one, two = (
        Cost(**{item.name: statistics.median(getattr(cost, item.name) for cost in found[who]) for item in fields(Cost)})
        for who in (None, WORKERS)
    )
    return one, two, ratios


def accounts(one: Cost, two: Cost) -> str:
    """Where the processor's time goes, and what it lets one expect of a machine that nobody else uses.

    What the parent does counts as if workers waited for it; in truth they do for a part of it.
    """
    expected = one.cpu / (two.own + two.workers / WORKERS)
    around = two.workers - two.tasks - two.ready
    return (
        f"  CPU seconds: {one.cpu:.2f} by one process, {one.tasks:.2f} of them in tasks. With {WORKERS} workers "
        f"{two.cpu:.2f}: {two.tasks:.2f} in tasks, {two.ready:.2f} making ready, {around:.2f} around them (reading, "
        f"sending), {two.own:.2f} of the parent.\n"
        f"  Serial {two.own / one.cpu:.1%}, done twice or dearer {(two.cpu - one.cpu) / one.cpu:.1%}, "
        f"tasks dearer {two.tasks / one.tasks - 1.0:.1%}. Predicted: {expected:.2f} times as fast."
    )


def row(name: str, one: Cost, two: Cost, ratios: list[float]) -> str:
    """A line of the table."""
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    figures = f"{one.wall:.1f} | {two.wall:.1f} | {one.cpu:.1f} | {two.cpu:.1f}"
    return f"| {name} | {figures} | {one.wall / two.wall:.2f} | {spread} |"


def limit(n_worlds: int) -> str:
    """How many times as fast two processes are that share nothing, by the clock and by the processor."""
    words = [sys.executable, __file__, _ALONE, str(n_worlds)]
    pair = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(WORKERS)]
    for process in pair:
        _line_of(process)  # it has compiled
    alone = _asked(pair[:1])[0]
    both = _asked(pair)
    for process in pair:
        process.communicate()
    wall, cpu = (WORKERS * alone[k] / max(one[k] for one in both) for k in range(2))
    return f"{WORKERS} processes that share nothing: {wall:.2f} times as fast as one by the clock, {cpu:.2f} by CPU"


def _asked(processes: list[subprocess.Popen[str]]) -> list[tuple[float, float]]:
    """Wall and CPU seconds of an audit in each, begun at the same time."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [_line_of(process).split() for process in processes]
    return [(float(wall), float(cpu)) for wall, cpu in told]


def _line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def as_one_alone(n_worlds: int) -> None:
    """Compile, then audit whenever a line comes in, and say how long it took."""
    audited(None, n_worlds=2_000)
    print("ready", flush=True)
    for _ in sys.stdin:
        spent = timed(partial(audited, None, n_worlds=n_worlds))
        print(spent.wall, spent.own, flush=True)


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
    if len(sys.argv) > 1 and sys.argv[1] == _ALONE:
        as_one_alone(int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worlds", type=int, default=20_000, help="of the audit")
    parser.add_argument("--memory-worlds", type=int, default=100_000)
    asked = parser.parse_args()
    os.environ.setdefault("NO_COLOR", "1")
    works: dict[str, tuple[Callable[[int | None], object], Callable[[int | None], object]]] = {}
    if "audit" in asked.only:
        name = f"audit, {N_ARMS} arms, {asked.worlds:,} worlds"
        works[name] = (partial(audited, n_worlds=2_000), partial(audited, n_worlds=asked.worlds))
    if "reproduce" in asked.only:
        works["reproduce setting-1 --fast"] = (reproduced, reproduced)
    if works:
        print(f"| work | wall, one | wall, {WORKERS} | CPU, one | CPU, {WORKERS} | times as fast | in turns |")
        print("|---|---|---|---|---|---|---|", flush=True)
    told = []
    for name, (compile_, work) in works.items():
        for workers in (None, WORKERS):
            compile_(workers)
        one, two, ratios = compared(work, repeats=asked.repeats)
        print(row(name, one, two, ratios), flush=True)
        told += [name, accounts(one, two)]
    if told:
        print("\n" + "\n".join(told), flush=True)
    if "limit" in asked.only:
        print("\n" + limit(asked.worlds // 2), flush=True)
    if "tasks" in asked.only:
        cold, warm = overhead()
        print(f"\n1,000 tasks of nothing, {WORKERS} workers: {warm:.2f} s, {cold:.2f} s with starting them", flush=True)
    if "memory" in asked.only:
        print("\n| worlds | arms | by | views | verdict | wall, s | MiB before | MiB at most |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        print(most_memory(asked.memory_worlds, 3, str(WORKERS)), flush=True)


if __name__ == "__main__":
    main()
