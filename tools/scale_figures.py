"""What sizes take, measured, and what follows from it on paper: prints docs/scale.md (``tools/measure.py scale``).

Costs are CPU seconds of one core. A world of an audit is what a further world adds: the difference of two audits, so
that what is paid once (paths, the search for the worst users) is left out. What is on paper is arithmetic with these
figures, and says so.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.mechanism.worlds import draw_worlds, simulate_data
from rcb_bayes.posterior import make_engine
from rcb_bayes.workers import run_tasks

SEED, N_PER_ARM, HORIZON = 1, 20, 10_000
FEW, MANY = 500, 2500  # worlds of the two audits
ARMS, FEATURES = (2, 5, 10), (2, 20)  # with five features; of three arms
GIB = 2.0**30


def market(n_arms: int, n_features: int, belief: str = "gaussian") -> rcb.Market:
    """Arms that differ a little, users on the unit sphere."""
    if belief == "gaussian":
        means = np.outer(np.linspace(0.3, 0.0, n_arms), np.ones(n_features))
        prior = rcb.Prior.gaussian(means, 1.0 / n_features)
    else:
        prior = rcb.load_prior(belief, n_arms=n_arms, n_features=n_features)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(n_features), noise=rcb.GaussianNoise(0.3))


@cache
def plan(n_arms: int, n_features: int) -> rcb.Plan:
    """A plan for it."""
    return rcb.calibrate(market(n_arms, n_features), epsilon=0.1, n_per_arm=N_PER_ARM, n_worlds=500, seed=SEED)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, and what it gives."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


# --- measured --------------------------------------------------------------------------------------------------------


@cache
def audit_cost(n_arms: int, n_features: int) -> tuple[float, int]:
    """Milliseconds that a further world of an audit takes, and the number of views."""
    own, made = market(n_arms, n_features), plan(n_arms, n_features)

    def audited(n_worlds: int) -> rcb.Audit:
        return rcb.audit(own, made, horizon=HORIZON, n_worlds=n_worlds, seed=SEED + 1)

    audited(100)  # compiled
    few, many = (min(cpu(lambda n=n: audited(n))[0] for _ in range(2)) for n in (FEW, MANY))
    return 1e3 * (many - few) / (MANY - FEW), audited(100).margins.sizes["stage"]


@cache
def run_cost(n_arms: int, n_features: int) -> float:
    """Microseconds of a round of a simulated run."""
    own, made = market(n_arms, n_features), plan(n_arms, n_features)
    oracle = rcb.PosteriorOracle(own.prior, own.noise, read="engine")
    horizon = 200_000

    def run(n_worlds: int) -> Any:
        return rcb.simulate(own, made, horizon=horizon, n_worlds=n_worlds, oracle=oracle, every=horizon, seed=SEED)

    run(1)
    return 1e6 * cpu(lambda: run(3))[0] / (3 * horizon)


@cache
def live_cost(n_arms: int, n_features: int) -> float:
    """Microseconds of a user served live: a recommendation, and her reward taken in."""
    own, made = market(n_arms, n_features), plan(n_arms, n_features)
    agent = rcb.Recommender(own, made, seed=SEED)
    users = own.covariates.sample(4000, seed=SEED)

    def serve(some: np.ndarray) -> None:
        for x in some:
            agent.recommend(x)
            agent.observe(0.1)

    serve(users[:2000])
    return 1e6 * cpu(lambda: serve(users[2000:]))[0] / 2000


def engine_rows(*, fast: bool) -> Iterator[tuple[str, ...]]:
    """Milliseconds of a posterior, by engine."""
    quick = (("gaussian", "auto", 2000), ("student_t", "auto", 500))
    slow = (("hierarchical", "auto", 500), ("student_t", "nuts", 20))
    for belief, engine, n_sets in quick if fast else quick + slow:
        for k, d in ((3, 3), (5, 5)) if engine == "auto" else ((3, 3),):
            own = market(k, d, belief)
            rng = np.random.default_rng(SEED)
            made = make_engine(own.prior, own.noise, engine=engine, seed=SEED)
            worlds = draw_worlds(own.prior, n_sets, rng=rng)
            data = simulate_data(worlds, own, n_per_arm=np.full(k, N_PER_ARM), rng=rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                first, _ = cpu(lambda made=made, data=data: made.fit(data.take(slice(0, 10))))
                each, _ = cpu(lambda made=made, data=data: made.fit(data))
            yield belief, made.name, str(k), str(d), f"{1e3 * each / n_sets:.3g}", f"{first:.1f}"


def task_costs(*, fast: bool) -> dict[str, float]:
    """Milliseconds of a task of nothing, by who runs it."""
    found = {"two processes of this machine": _task_cost(2)}
    if fast:
        return found
    try:
        from distributed import LocalCluster
    except ImportError:
        return found
    made: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster: Any = LocalCluster(**made, host="127.0.0.1", silence_logs=50)
        with cluster:
            found["a Dask scheduler with two"] = _task_cost(cluster.scheduler_address)
    return found


def _task_cost(workers: Any, n_tasks: int = 500) -> float:
    list(run_tasks(idle, range(20), make=nothing, workers=workers))
    start = time.perf_counter()
    list(run_tasks(idle, range(n_tasks), make=nothing, workers=workers))
    return 1e3 * (time.perf_counter() - start) / n_tasks


def nothing() -> None:
    """What tasks of nothing share."""


def idle(_: None, task: int) -> int:
    """A task of nothing."""
    return task


# --- on paper --------------------------------------------------------------------------------------------------------


def worlds_on_paper() -> Iterator[str]:
    """A million worlds of an audit."""
    k, d, n = 5, 5, 10**6
    each, views = audit_cost(k, d)
    hours = each * 1e-3 * n / 3600
    tasks = n // 2000 * views
    held = n * k * d * 8 * views / GIB
    yield (
        f"**A million worlds** of an audit of {k} arms and {d} features ({views} views): {each:.2f} ms each, "
        f"{hours:.1f} core hours, {60 * hours / 8:.1f} minutes on 8 cores. Worlds are drawn in about {tasks:,} tasks "
        f"of 2,000 worlds of a view. What comes back of a world and a view is a posterior mean, {k * d * 8} bytes: "
        f"{held:.1f} GiB in all, of which the parent holds one stage, or the epochs that go together, at a time. "
        "Memory of the parent becomes the limit before the scheduler does. Beyond it, take several audits with "
        "seeds of their own, each at its part of the level (`level=.05 / n`)."
    )


def products_a_second() -> float:
    """Multiplications and additions a second, in products of matrices as moments of cells have them."""
    one, other = np.ones((120, 64, 1000)), np.ones((120, 1000, 64))
    seconds = min(cpu(lambda: one @ other)[0] for _ in range(3))
    return 2.0 * 120 * 64 * 1000 * 64 / seconds


def arms_on_paper() -> Iterator[str]:
    """Ten thousand arms."""
    n, d, users, worlds = 10**4, 5, 120, 1000
    speed = products_a_second()
    days = 4 * 2.0 * users * n**2 * worlds * n / speed / 86_400
    means, cells = worlds * n * d * 8 / GIB, users * n**2 * 5 * 8 / GIB
    yield (
        f"**Ten thousand arms**: an audit by level has a view for each of as many levels, and {users} users with a "
        f"cell for each arm and rival. Four products of matrices over {worlds:,} worlds make their moments: at "
        f"{speed / 1e9:.0f} thousand million operations a second (measured), {days:,.0f} core days, were every arm "
        f"ever recommended to everybody. The moments of one view are {cells:,.0f} GiB, {cells / users:.1f} a user; the "
        f"posterior means of its worlds are {means:.1f}. So it is refused, with the estimate. Users are judged apart, "
        "which is how it would be spread over machines; what one would do first: plan for groups of arms that are "
        "alike, whose sets are counted and not told apart; give most arms no samples of their own (`n_per_arm` of 0), "
        "which leaves as many levels as arms that are explored; or let arms share coefficients, so that a sample of "
        "one tells of all. What a thousand arms of twenty features take is [measured](measured/catalogue.md)."
    )


def users_on_paper() -> Iterator[str]:
    """A thousand million live users."""
    k, d, n = 5, 5, 10**9
    each = live_cost(k, d)
    hours = each * 1e-6 * n / 3600
    day = n / 86_400
    epochs = int(np.ceil(np.log2(n / (k * N_PER_ARM))))
    yield (
        f"**A thousand million live users**, {k} arms and {d} features: {each:.0f} microseconds each, {hours:,.0f} "
        f"core hours. In a day that is {day:,.0f} users a second, {day * each * 1e-6:.1f} cores kept busy by a loop in "
        "Python. Between two epochs nothing is learnt, so that any number of servers may recommend from the same "
        "posterior means and guards (a distilled rule is a table that a web server looks up). What an epoch hands over "
        f"is sums, {k * (d * d + d + 2) * 8:,} bytes a server, which add up. Epochs double, and there are {epochs} of "
        f"them: as many moments at which servers must agree. The log, some 100 bytes a user, is {n * 100 / GIB:,.0f} "
        "GiB. What becomes the limit is neither scheduler nor memory but rewards that come late: an epoch ends when "
        "its rewards are in."
    )


def scheduler_on_paper(costs: dict[str, float]) -> Iterator[str]:
    """How many workers a scheduler feeds."""
    for who, each in costs.items():
        yield f"{who}: {each:.2f} ms a task, so that tasks of a second keep some {1e3 / each:,.0f} workers busy"


# --- the page --------------------------------------------------------------------------------------------------------


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cost_rows(arms: tuple[int, ...], features: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """Costs by arms, then by features."""
    for k, d in (*((k, 5) for k in arms), *((3, d) for d in features)):
        each, views = audit_cost(k, d)
        yield str(k), str(d), str(views), f"{each:.2f}", f"{run_cost(k, d):.2f}", f"{live_cost(k, d):.0f}"


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fast", action="store_true", help="fewer sizes and engines, and no cluster")
    fast = parser.parse_args().fast
    arms, features = (ARMS[:2], FEATURES[:1]) if fast else (ARMS, FEATURES)
    costs = task_costs(fast=fast)
    print("## Measured\n")
    print(
        "CPU time of one core. A further world of an audit (all of its views, all notions, horizon "
        f"{HORIZON:,}); a round of a run that is simulated in blocks; a user served live, with her reward. Gaussian "
        "beliefs.\n"
    )
    head = ("arms", "features", "views", "a world of an audit, ms", "a round of a run, us", "a live user, us")
    print(table(head, cost_rows(arms, features)))
    print("\nA posterior, by engine, after what is compiled the first time:\n")
    print(table(("belief", "engine", "arms", "features", "ms", "first time, s"), engine_rows(fast=fast)))
    print("\nA task of nothing, wall time:\n")
    for line in scheduler_on_paper(costs):
        print(f"- {line}")
    print("\n## On paper\n")
    print("Arithmetic with the figures above; none of it was run.\n")
    for part in (worlds_on_paper(), arms_on_paper(), users_on_paper()):
        print("\n".join(part) + "\n")


if __name__ == "__main__":
    main()
