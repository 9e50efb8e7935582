"""Cost of a run, in blocks and live, beside bare NumPy loops and beside one compilation, in one run.

Main setting: Gaussian belief (zero mean, variance .2), K = 5 arms, d = 5 features, users on the unit sphere,
sigma = .05, N = 10 samples per arm, T = 100,000 rounds, exact posterior means. The bare loops know the coefficients and
the spread and do nothing but serve: users, a matrix product, the IPGS kernel, inverse-CDF sampling. They are written in
two layouts, users by arms as one would, and arms by users, which is faster. Times are CPU times, medians of warm
repeats, taken in turns; read the ratios.

``make bench`` runs it; BLAS is kept to one thread. ``--fast`` takes fewer repeats, leaves out rules, NUTS and memory;
``--only PART`` runs one part, ``--write FILE`` keeps the tables.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.running.recommender import Recommender
from rcb_bayes.running.worlds import PAGE

N_ARMS, N_FEATURES, SIGMA, N_PER_ARM, HORIZON = 5, 5, 0.05, 10, 100_000
N_WORLDS, EVERY = 100, 1000
Table = list[tuple[str, ...]]


# --- markets ---------------------------------------------------------------------------------------------------------


@cache
def gaussian_market(n_arms: int = N_ARMS, n_features: int = N_FEATURES) -> rcb.Market:
    """The main setting, or one with other numbers of arms and features."""
    prior = rcb.Prior.gaussian(np.zeros((n_arms, n_features)), 0.2)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(n_features), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan_for(n_arms: int = N_ARMS, n_features: int = N_FEATURES) -> rcb.Plan:
    """A plan for it; arms are alike, so that nobody needs a subsidy."""
    return rcb.calibrate(gaussian_market(n_arms, n_features), n_per_arm=N_PER_ARM, n_worlds=100, guard=False, seed=1)


@cache
def favoured(*, guard: bool = False) -> tuple[rcb.Market, rcb.Plan]:
    """A market with one favoured arm, where a personalised plan has work to do for every user."""
    prior = rcb.load_prior("setting_4", n_arms=N_ARMS, n_features=N_FEATURES)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(N_FEATURES), noise=rcb.GaussianNoise(SIGMA))
    made = rcb.calibrate(market, n_per_arm=N_PER_ARM, guard=guard, seed=1)
    return market, made


# --- measuring -------------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def in_turns(*works: Callable[[], object], repeats: int) -> list[float]:
    """Median times of calls taken in turns, after one warm call each: a busy machine slows all of them alike."""
    for work in works:
        work()
    times = [[seconds(work) for work in works] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def as_markdown(table: Table) -> str:
    """A table as Markdown."""
    head, *body = (f"| {' | '.join(row)} |" for row in table)
    return "\n".join([head, "|" + "---|" * len(table[0]), *body])


# --- bare loops ------------------------------------------------------------------------------------------------------


def blocks(horizon: int) -> Iterator[int]:
    """Lengths of the blocks of a run: epochs that double, cut into pages."""
    done, ends, length = 0, N_ARMS * N_PER_ARM, N_ARMS * N_PER_ARM
    while done < horizon:
        stop = min(ends, horizon, (done // PAGE + 1) * PAGE)
        yield stop - done
        done = stop
        if done == ends:
            ends, length = ends + length, 2 * length


def draw_users(n: int, rng: np.random.Generator) -> np.ndarray:
    """Users on the unit sphere, (n, d)."""
    x = rng.standard_normal((n, N_FEATURES))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def bare_blocks(means: np.ndarray, gamma: float, *, horizon: int) -> None:
    """Serve all blocks, users by arms."""
    rng = np.random.default_rng(1)
    for n in blocks(horizon):
        scores = draw_users(n, rng) @ means.T  # (n, K)
        best = scores.argmax(axis=1)
        rows = np.arange(n)
        chances = 1.0 / (N_ARMS + gamma * (scores[rows, best][:, None] - scores))
        chances[rows, best] = 0.0
        chances[rows, best] = 1.0 - chances.sum(axis=1)
        (np.cumsum(chances, axis=1) <= rng.random(n)[:, None]).sum(axis=1)


def bare_blocks_by_arm(means: np.ndarray, gamma: float, *, horizon: int) -> None:
    """The same, arms by users."""
    rng = np.random.default_rng(1)
    for n in blocks(horizon):
        scores = means @ draw_users(n, rng).T  # (K, n)
        best = scores.argmax(axis=0)
        columns = np.arange(n)
        chances = 1.0 / (N_ARMS + gamma * (scores[best, columns] - scores))
        chances[best, columns] = 0.0
        chances[best, columns] = 1.0 - chances.sum(axis=0)
        (np.cumsum(chances, axis=0) <= rng.random(n)).sum(axis=0)


def bare_rounds(means: np.ndarray, gamma: float, users: np.ndarray, rewards: np.ndarray) -> None:
    """One round at a time: product, kernel, choice, and the sums that a posterior needs."""
    rng = np.random.default_rng(1)
    xtx = np.zeros((N_ARMS, N_FEATURES, N_FEATURES))
    xty = np.zeros((N_ARMS, N_FEATURES))
    for x, noise in zip(users, rewards, strict=True):
        scores = means @ x
        best = scores.argmax()
        chances = 1.0 / (N_ARMS + gamma * (scores[best] - scores))
        chances[best] = 0.0
        chances[best] = 1.0 - chances.sum()
        arm = np.searchsorted(np.cumsum(chances), rng.random())
        xtx[arm] += x[:, None] * x
        xty[arm] += x * noise


# --- blocks ----------------------------------------------------------------------------------------------------------


def direct(market: rcb.Market) -> rcb.PosteriorOracle:
    """The posterior mean, round the ArviZ summary."""
    return rcb.PosteriorOracle(market.platform_prior, market.noise, read="engine")


def block_table(*, repeats: int) -> Table:
    """One world beside the bare loops."""
    market, plan = gaussian_market(), plan_for()
    means = np.random.default_rng(2).normal(scale=0.2**0.5, size=(N_ARMS, N_FEATURES))
    ours, plain, by_arm = in_turns(
        lambda: rcb.simulate(market, plan, horizon=HORIZON, n_worlds=1, oracle=direct(market), seed=1),
        lambda: bare_blocks(means, 300.0, horizon=HORIZON),
        lambda: bare_blocks_by_arm(means, 300.0, horizon=HORIZON),
        repeats=repeats,
    )
    return [
        ("one world, T = 100,000", "ms", "times the bare loop", "times the bare loop, arms first", "wanted"),
        ("`simulate`", f"{1e3 * ours:.1f}", f"{ours / plain:.2f}", f"{ours / by_arm:.2f}", "at most 2"),
        ("bare loop, users by arms", f"{1e3 * plain:.1f}", "1", f"{plain / by_arm:.2f}", ""),
        ("bare loop, arms by users", f"{1e3 * by_arm:.1f}", f"{by_arm / plain:.2f}", "1", ""),
    ]


def growth_table(*, repeats: int) -> Table:
    """Cost over T, K d and worlds; 1 is in proportion."""
    table: Table = [("growing", "from", "to", "cost over size, ratio")]

    def run(horizon: int = HORIZON, n_worlds: int = 1, **sizes: int) -> Callable[[], object]:
        market, plan = gaussian_market(**sizes), plan_for(**sizes)
        oracle = direct(market)
        return lambda: rcb.simulate(
            market, plan, horizon=horizon, n_worlds=n_worlds, oracle=oracle, every=EVERY, seed=1
        )

    half, whole, double = in_turns(run(50_000), run(100_000), run(200_000), repeats=repeats)
    table += [
        ("T", "50,000", "100,000", f"{whole / half / 2:.2f}"),
        ("T", "100,000", "200,000", f"{double / whole / 2:.2f}"),
    ]
    small, arms, features, both = in_turns(
        run(), run(n_arms=10), run(n_features=10), run(n_arms=10, n_features=10), repeats=repeats
    )
    table += [
        ("K d", "5 x 5", "10 x 5", f"{arms / small / 2:.2f}"),
        ("K d", "5 x 5", "5 x 10", f"{features / small / 2:.2f}"),
        ("K d", "5 x 5", "10 x 10", f"{both / small / 4:.2f}"),
    ]
    one, ten = in_turns(run(20_000, 2), run(20_000, 20), repeats=repeats)
    return [*table, ("worlds", "2", "20", f"{ten / one / 10:.2f}")]


def run_many() -> None:
    """100 worlds of T = 100,000, aggregated; prints the seconds and the peak memory of this process in KiB."""
    import resource

    market = gaussian_market()
    oracle = direct(market)
    took = seconds(
        lambda: rcb.simulate(market, plan_for(), horizon=HORIZON, n_worlds=N_WORLDS, oracle=oracle, every=EVERY, seed=1)
    )
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def many_worlds() -> str:
    """What 100 worlds take, in a process of their own."""
    done = subprocess.run([sys.executable, __file__, "--run-many"], capture_output=True, text=True, check=True)
    took, peak = done.stdout.split()[-2:]
    return (
        f"{N_WORLDS} worlds of T = {HORIZON:,}, every {EVERY:,}: {float(took):.1f} s, "
        f"peak memory {int(peak) / 2**20:.2f} GiB (wanted: at most 2)"
    )


# --- NUTS ------------------------------------------------------------------------------------------------------------


def compile_model() -> None:
    """Compile a model equal to the one that the NUTS engine is made of: Student-t belief, data by their sums."""
    import nutpie
    import pymc as pm

    with pm.Model() as model:
        beta: Any = pm.StudentT("beta", nu=4.0, mu=0.0, sigma=0.5, shape=(N_ARMS, N_FEATURES))
        xtx: Any = pm.Data("xtx", np.tile(np.eye(N_FEATURES), (N_ARMS, 1, 1)))
        xty: Any = pm.Data("xty", np.zeros((N_ARMS, N_FEATURES)))
        square = (beta * (xtx * beta[:, None, :]).sum(axis=2)).sum()
        pm.Potential("rewards", ((beta * xty).sum() - square / 2) / SIGMA**2)
    nutpie.compile_pymc_model(model)


def nuts_table() -> Table:
    """One world with a NUTS oracle beside one compilation."""
    prior = rcb.load_prior("student_t", n_arms=N_ARMS, n_features=N_FEATURES)
    noise = rcb.GaussianNoise(SIGMA)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(N_FEATURES), noise=noise)
    plan = rcb.calibrate(market, n_per_arm=N_PER_ARM, n_worlds=100, guard=False, seed=1)
    seconds(compile_model)  # imports, and what a process compiles once
    compilation = statistics.median(seconds(compile_model) for _ in range(3))
    run = seconds(
        lambda: rcb.simulate(
            market,
            plan,
            horizon=HORIZON,
            n_worlds=1,
            every=EVERY,
            oracle=rcb.PosteriorOracle(prior, noise, engine="nuts"),
            seed=1,
        )
    )
    return [
        ("Student-t belief, one world, T = 100,000", "s", "times one compilation", "wanted"),
        ("NUTS oracle, compilation included", f"{run:.2f}", f"{run / compilation:.1f}", "under 40"),
        ("one compilation", f"{compilation:.2f}", "1", ""),
    ]


# --- live ------------------------------------------------------------------------------------------------------------


def exploiting(market: rcb.Market, plan: rcb.Plan, rule: rcb.Rule | None = None) -> Recommender:
    """A recommender past its cold start."""
    live = Recommender(market, plan, rule=rule, seed=1)
    users = market.covariates.sample(2000, seed=3)
    for x in users:
        live.recommend(x)
        live.observe(0.1)
    assert live.stage == "exploit"
    return live


def serve(live: Recommender, users: np.ndarray, rewards: list[float]) -> None:
    """A live loop: recommend, observe."""
    for x, reward in zip(users, rewards, strict=True):
        live.observe(reward, ticket=live.recommend(x).ticket)


def ask(live: Recommender, users: np.ndarray) -> None:
    """Recommendations whose rewards never come: the stage stays what it is."""
    for x in users:
        live.recommend(x)


def live_table(*, n_rounds: int, repeats: int) -> Table:
    """Rounds a second, one user at a time and many."""
    market, plan = gaussian_market(), plan_for()
    users = market.covariates.sample(n_rounds, seed=4)
    rewards = np.random.default_rng(5).normal(size=n_rounds)
    plain = rewards.tolist()
    means = np.random.default_rng(2).normal(scale=0.2**0.5, size=(N_ARMS, N_FEATURES))
    live = exploiting(market, plan)
    few = n_rounds // 20
    rule = favoured_rule()
    colds = [Recommender(*favoured(guard=True), rule=one, seed=1) for one in (None, rule)]
    guarded, ruled = (exploiting(*favoured(guard=True), rule=one) for one in (None, rule))
    for cold in colds:
        while cold.stage == "most popular":
            cold.recommend(users[0])
            cold.observe(0.0)
    with_rule, cold_rule, open_, bare = in_turns(
        lambda: serve(ruled, users, plain),
        lambda: ask(colds[1], users[:few]),
        lambda: serve(live, users, plain),
        lambda: bare_rounds(means, 300.0, users, rewards),
        repeats=repeats,
    )
    personalised, with_guard, bare_few = in_turns(
        lambda: ask(colds[0], users[:few]),
        lambda: serve(guarded, users[:few], plain[:few]),
        lambda: bare_rounds(means, 300.0, users[:few], rewards[:few]),
        repeats=repeats,
    )
    assert all(cold.stage == "rest of the arms" for cold in colds)
    part = f"1/4 of exploitation unguarded; it is {open_ / with_rule:.2f}"
    table: Table = [("live", "rounds a second", "times the bare loop's", "wanted")]
    for name, took, beside, n, wanted in (
        ("bare loop, one round at a time", bare, bare, n_rounds, ""),
        ("`recommend` + `observe`, exploitation", open_, bare, n_rounds, "15,000; 0.76 of the bare loop"),
        ("the same, guarded", with_guard, bare_few, few, "2,000; 0.10"),
        (f"the same, guarded by a rule of {rule.n_leaves} leaves", with_rule, bare, n_rounds, part),
        ("`recommend`, personalised plan in the cold start", personalised, bare_few, few, "2,000; 0.10"),
        ("the same by the rule", cold_rule, bare * few / n_rounds, few, ""),
    ):
        table.append((name, f"{n / took:,.0f}", f"{beside / took:.2f}", wanted))
    return table


@cache
def favoured_rule() -> rcb.Rule:
    """The plan with a guard, distilled."""
    return favoured(guard=True)[1].distil()


RULED = ("Setting 4, 5 arms", 16), ("Setting 4, 5 arms", 256), ("Setting 4, 10 arms", 256), ("5 different arms", 256)
AUDIT_SEEDS = (7, 8)


@cache
def ruled_market(name: str) -> tuple[rcb.Market, rcb.Plan]:
    """A market of five features, and a plan for it whose rule is made."""
    if name == "5 different arms":
        mean = np.zeros((N_ARMS, N_FEATURES))
        mean[:, 0] = np.linspace(0.3, 0.0, N_ARMS)
        prior, noise, asked = rcb.Prior.gaussian(mean, 0.25), rcb.GaussianNoise(0.3), (0.1, 20)
    else:
        prior = rcb.load_prior("setting_4", n_arms=int(name.split()[2]), n_features=N_FEATURES)
        noise, asked = rcb.GaussianNoise(SIGMA), (0.05, N_PER_ARM)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(N_FEATURES), noise=noise)
    return market, rcb.calibrate(market, epsilon=asked[0], n_per_arm=asked[1], seed=1)


def rule_table() -> Table:
    """What rules keep over the number of leaves, what making one takes, and verdicts of audits."""
    head = ("rule", "at most", "leaves", "rates kept", "guards kept", "above the plan", "s of CPU")
    table: Table = [(*head, f"audits, seeds {' and '.join(map(str, AUDIT_SEEDS))}")]
    for name, max_leaves in RULED:
        market, plan = ruled_market(name)
        start = time.process_time()
        rule = plan.distil(max_leaves)
        took = time.process_time() - start
        kept = rule.shares_kept
        ruled = plan.with_rule(rule)
        verdicts = [rcb.audit(market, ruled, horizon=5000, seed=seed).verdict for seed in AUDIT_SEEDS]
        table.append(
            (
                name,
                str(max_leaves),
                str(rule.n_leaves),
                f"{kept.rates:.4f} ± {kept.rates_mcse:.4f}",
                f"{kept.guards:.4f} ± {kept.guards_mcse:.4f}",
                f"{100 * kept.exceeded:.1f} % of users",
                f"{took:.1f}",
                ", ".join(verdicts),
            )
        )
    return table


def many_users_table(*, repeats: int) -> Table:
    """``recommend_many`` beside block simulation, per round."""
    market, plan = gaussian_market(), plan_for()
    users = market.covariates.sample(HORIZON, seed=4)
    rewards = np.zeros(PAGE)

    def served(batch: int, *, observed: bool) -> Callable[[], object]:
        def work() -> None:
            live = exploiting(market, plan)
            for start in range(0, HORIZON, batch):
                found = live.recommend_many(users[start : start + batch])
                if observed:
                    live.observe_many(rewards[: len(found)], tickets=found.ticket)

        return work

    begun, blocks_, alone, with_rewards = in_turns(
        lambda: exploiting(market, plan),
        lambda: rcb.simulate(market, plan, horizon=HORIZON, n_worlds=1, oracle=direct(market), seed=1),
        served(PAGE, observed=False),
        served(PAGE, observed=True),
        repeats=repeats,
    )
    return [
        ("100,000 users, 4,096 at a time", "ms", "times block simulation", "wanted"),
        ("`simulate`", f"{1e3 * blocks_:.1f}", "1", ""),
        ("`recommend_many`", f"{1e3 * (alone - begun):.1f}", f"{(alone - begun) / blocks_:.2f}", "at most 3"),
        (
            "`recommend_many` + `observe_many`",
            f"{1e3 * (with_rewards - begun):.1f}",
            f"{(with_rewards - begun) / blocks_:.2f}",
            "",
        ),
    ]


# --- report ----------------------------------------------------------------------------------------------------------


def report(*, fast: bool, only: str | None) -> Iterator[str]:
    """The tables, one after the other."""
    repeats = 5 if fast else 15
    parts: dict[str, Callable[[], str]] = {
        "blocks": lambda: as_markdown(block_table(repeats=repeats)),
        "growth": lambda: as_markdown(growth_table(repeats=repeats)),
        "live": lambda: as_markdown(live_table(n_rounds=20_000, repeats=repeats)),
        "many": lambda: as_markdown(many_users_table(repeats=repeats)),
        "rules": lambda: as_markdown(rule_table()),
        "memory": many_worlds,
        "nuts": lambda: as_markdown(nuts_table()),
    }
    for name, part in parts.items():
        if only == name or (only is None and not (fast and name in ("rules", "memory", "nuts"))):
            yield part()


def main() -> None:
    """Measure, print, and keep the tables if asked to."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # read when NumPy is imported, so too late to set here
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    parser = argparse.ArgumentParser(description="Cost of a run, in blocks and live.")
    parser.add_argument("--fast", action="store_true", help="fewer repeats, no NUTS, no memory check")
    parser.add_argument(
        "--only", choices=("blocks", "growth", "live", "many", "rules", "memory", "nuts"), help="one part"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--run-many", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.run_many:
        run_many()
        return
    parts = []
    for part in report(fast=options.fast, only=options.only):
        parts.append(part)
        print(part, end="\n\n", flush=True)
    if options.write is not None:
        options.write.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
