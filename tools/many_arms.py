"""Four ways to live with many arms, alone and together, against none: cold starts, regret and verdicts.

Of each of K arms a little less is expected than of the one before, and a little more is known about it (variances .5 to
.005); five features, users on the sphere. Each line is a plan by level and an audit of it in fresh worlds.
``python tools/many_arms.py 10 50 200 --keep rcb_out/many_arms > docs/measured/many_arms.md`` prints the table. A line
that is known is kept in the folder and not computed again; ``--only NAME`` computes one line alone, and ``--known``
prints the lines that are there. ``--table FILE`` takes lines from a table that was printed before.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import rcb_bayes as rcb

N, HORIZON, WORLDS, AUDIT_WORLDS, USERS = 20, 10_000, 200, 200, 20
EPSILON, SHARE, TOP = 0.1, 0.01, 5
COLUMNS = ("K", "way", "explored", "cold start, rounds", "shorter", "its regret", "given up", "user", "proof", "CPU, s")


def market_of(n_arms: int, d: int = 5) -> rcb.Market:
    """A little less is expected of each arm than of the one before, and a little more is known about it."""
    mean = np.zeros((n_arms, d))
    mean[:, 0] = np.linspace(0.3, 0.0, n_arms)
    prior = rcb.Prior.gaussian(mean, np.geomspace(0.5, 0.005, n_arms))
    return rcb.Market(prior=prior, covariates=rcb.Sphere(d), noise=rcb.GaussianNoise(0.3))


def past_of(market: rcb.Market, n: int) -> dict[str, Any]:
    """So many samples of each arm, of users at random."""
    rng = np.random.default_rng(7)
    x = market.covariates.sample(n * market.n_arms, seed=rng)
    arm = np.repeat(np.arange(market.n_arms), n)
    beta = market.prior.draw_arrays(1, rng=rng)[0][0]
    return {"x": x, "arm": arm, "reward": (x * beta[arm]).sum(axis=1) + 0.3 * rng.standard_normal(len(arm))}


def ways(n_arms: int) -> dict[str, tuple[dict[str, Any], int]]:
    """What is asked for, and how many samples of each arm there are from before."""
    few = max(2, n_arms // 5)
    return {
        "none": ({}, 0),
        f"elimination below {SHARE:g}": ({"eliminate": SHARE}, 0),
        f"elimination below {SHARE:g}, user by user": ({"eliminate": SHARE, "contextual": True}, 0),
        f"the first {TOP}, then one by one": ({"top": TOP}, 0),
        f"{few} clusters": ({"clusters": few}, 0),
        f"private history, {N // 2} an arm": ({}, N // 2),
        "elimination and order": ({"eliminate": SHARE, "top": TOP}, 0),
        "elimination and history": ({"eliminate": SHARE}, N // 2),
        "elimination, order and history": ({"eliminate": SHARE, "top": TOP}, N // 2),
        "clusters and history": ({"clusters": few}, N // 2),
        "elimination and clusters": ({"eliminate": SHARE, "clusters": few}, 0),
        "all four": ({"eliminate": SHARE, "top": TOP, "clusters": few}, N // 2),
    }


def cell(n_arms: int, asked: dict[str, Any], n_past: int) -> dict[str, Any]:
    """One way: the plan's figures and the audit's verdicts."""
    market = market_of(n_arms)
    if n_past:
        market = market.with_history(past_of(market, n_past), public=False)
    start = time.process_time()
    plan = rcb.calibrate(
        market,
        epsilon=EPSILON,
        n_per_arm=N,
        n_worlds=WORLDS,
        audit_worlds=AUDIT_WORLDS,
        horizon=HORIZON,
        knows="level",
        exploring=rcb.Exploring(**asked) if asked else None,
        seed=1,
    )
    found = {"user": "infeasible", "proof": "infeasible"}
    if plan.feasible:
        audit = rcb.audit(market, plan, horizon=HORIZON, n_worlds=AUDIT_WORLDS, n_users=USERS, seed=2)
        found = dict(audit.verdicts)
    gone = plan.unexplored
    return {
        "explored": int((plan.agenda.missing > 0).sum()),
        "cold_start": [plan.expected_cold_start, plan.expected_cold_start_mcse],
        "regret": [plan.expected_regret, plan.expected_regret_mcse],
        "given_up": [0.0, 0.0] if gone is None else [gone.regret, gone.regret_mcse],
        "user": found["user"],
        "proof": found["proof"],
        "seconds": time.process_time() - start,
    }


def kept_cell(
    folder: Path | None, n_arms: int, name: str, asked: dict[str, Any], n_past: int, *, known: bool
) -> dict[str, Any] | None:
    """The same, read from the folder where it is there, and written to it where it is not; or None."""
    made_of = {"n_arms": n_arms, "asked": asked, "n_past": n_past}
    made_of |= {"sizes": [N, HORIZON, WORLDS, AUDIT_WORLDS, USERS, EPSILON]}
    path = None if folder is None else folder / f"{n_arms}_{name.replace(' ', '_').replace(',', '')}.json"
    if path is not None and path.is_file():
        kept = json.loads(path.read_text())
        if kept["made_of"] == made_of:
            return kept["cell"]
    if known:
        return None
    found = cell(n_arms, asked, n_past)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"made_of": made_of, "cell": found}))
    return found


def printed(path: Path | None) -> dict[tuple[int, str], list[str]]:
    """Lines of a table that was printed before, by number of arms and way."""
    if path is None:
        return {}
    rows = [line.strip("| ").split(" | ") for line in path.read_text().splitlines() if line.startswith("| ")]
    return {(int(row[0]), row[1]): row for row in rows if row[0].isdigit()}


def cold_start_of(row: list[str]) -> float:
    """The length of the cold start in a line."""
    return float(row[COLUMNS.index("cold start, rounds")].split(" ")[0].replace(",", ""))


def best_at(n_arms: int, rows: list[list[str]]) -> str:
    """The shortest cold start among ways whose audit has the verdicts of none at all, in a sentence."""
    first = rows[0]
    same = [row for row in rows[1:] if row[-3:-1] == first[-3:-1]]
    own = [row for row in same if "history" not in row[1] and row[1] != "all four"]
    best, alone = (min(some, key=cold_start_of, default=first) for some in (same, own))
    return (
        f"At K = {n_arms} the shortest at unchanged verdicts is {best[1]}: {best[3]} rounds in the place of "
        f"{first[3]}, {best[4]} times shorter, and a round gives up {best[6]} at most. Without samples from before it "
        f"is {alone[1]}: {alone[3]}, {alone[4]} times, {alone[6]}."
    )


def cells(n_arms: int, name: str, found: dict[str, Any], before: float | None) -> list[str]:
    """One way, as cells of the table; ``before`` is the cold start of none."""
    lost = "0" if not found["given_up"][0] else "{:.2g} ± {:.1g}".format(*found["given_up"])
    return [
        str(n_arms),
        name,
        str(found["explored"]),
        "{:,.0f} ± {:,.0f}".format(*found["cold_start"]),
        f"{(before or found['cold_start'][0]) / found['cold_start'][0]:.1f}",
        "{:,.0f} ± {:,.0f}".format(*found["regret"]),
        lost,
        found["user"],
        found["proof"],
        f"{found['seconds']:,.0f}",
    ]


def main() -> None:
    """The table for the numbers of arms on the command line."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[10, 50, 200])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--table", type=Path)
    asked_for = parser.parse_args()
    earlier = printed(asked_for.table)
    print("# Many arms\n")
    print(
        "K arms, means .3 to 0 in the first of five features, variances .5 to .005, users on the sphere, sigma = .3; "
        f"N = {N}, epsilon {EPSILON:g}, user notion, users know the level; {WORLDS} worlds behind plans; audits of "
        f"{HORIZON:,} rounds in {AUDIT_WORLDS} worlds with {USERS} users at random and the worst of many. Shorter: how "
        "many times, against none. Given up: a round, at most, by arms that are not explored. User, proof: the "
        "audit's verdicts under these notions. CPU seconds of plan and audit, on a machine that had other work. Lines "
        "that are not there were not run.\n"
    )
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|", flush=True)
    told: list[str] = []
    for n_arms in asked_for.sizes:
        rows: list[list[str]] = []
        for name, way in ways(n_arms).items():
            if asked_for.only and asked_for.only != name:
                continue
            row = earlier.get((n_arms, name))
            if row is None:
                found = kept_cell(asked_for.keep, n_arms, name, *way, known=asked_for.known)
                row = None if found is None else cells(n_arms, name, found, cold_start_of(rows[0]) if rows else None)
            if row is not None:
                rows.append(row)
                print(f"| {' | '.join(row)} |", flush=True)
        told += [best_at(n_arms, rows)] if len(rows) > 1 else []
    if told:
        print("\n" + "\n".join(told))


if __name__ == "__main__":
    main()
