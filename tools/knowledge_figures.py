"""What users know, in figures, as Markdown tables: the price of it, and who would follow a plan made for others.

Everything is done with two seeds, of plans; their audits have the next one each.
"""

from collections.abc import Iterator

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.telling.wording import figure, percent

SEEDS = (1, 11)
N_PER_ARM, EPSILON, HORIZON = 15, 0.05, 10_000
N_WORLDS, AUDIT_WORLDS, N_USERS = 2000, 1000, 50
KNOWS = ("stage", "level", "phase", "mechanism")
FIGURES = ("expected_cold_start", "expected_regret", "exploration_rate")
MEANS = [0.3, 0.2, 0.1, 0.0]  # of every coefficient, arm by arm


def market() -> rcb.Market:
    """Four different arms, three features, users on the unit sphere."""
    prior = rcb.load_prior("gaussian", n_arms=4, n_features=3, mean=MEANS, scale=0.3)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(3), noise=rcb.GaussianNoise(0.3))


def price_rows(seed: int) -> Iterator[tuple[str, ...]]:
    """Cold start, its regret and who is explored, by what users know."""
    found = rcb.price_of_knowledge(
        market(), epsilon=EPSILON, n_per_arm=N_PER_ARM, n_worlds=N_WORLDS, horizon=HORIZON, seed=seed
    )
    for knows in found["knows"].values:
        row = found.sel(knows=knows)
        pairs = [(row[name].item(), row[f"{name}_mcse"].item()) for name in FIGURES]
        yield str(knows), *(figure(*pair) for pair in pairs), percent(row["share_explored"].item())


def verdict_rows(seed: int) -> Iterator[tuple[str, ...]]:
    """The verdict on each plan, by what users know in the audit; in worlds of another seed."""
    setting = market()
    for made in KNOWS:
        plan = rcb.calibrate(
            setting, epsilon=EPSILON, n_per_arm=N_PER_ARM, n_worlds=N_WORLDS, horizon=HORIZON, knows=made, seed=seed
        )
        audits = [
            rcb.audit(
                setting, plan, horizon=HORIZON, n_worlds=AUDIT_WORLDS, n_users=N_USERS, knows=knows, seed=seed + 1
            )
            for knows in KNOWS
        ]
        lowest = [float(np.nanmin(one.worst()["estimate"].values)) for one in audits]
        yield made, *(f"{one.verdict}, {low:.3f}" for one, low in zip(audits, lowest, strict=True))


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print both tables, seed by seed."""
    print(f"Gaussian belief, 4 arms with means {MEANS} in each of 3 coefficients, scale .3, sigma = .3, users on")
    print(f"the sphere, N = {N_PER_ARM}, epsilon {EPSILON}, `user`, {N_WORLDS:,} worlds, T = {HORIZON:,}.\n")
    head = ("users know", "rounds of cold start", "regret of cold start", "mean rate", "explored")
    for seed in SEEDS:
        print(f"## Seed {seed}\n")
        print(table(head, price_rows(seed)) + "\n")
        print("The verdict of an audit and the lowest margin that decides, by what users know then.\n")
        print(table(("plan for", *(f"audited: {knows}" for knows in KNOWS)), verdict_rows(seed)) + "\n", flush=True)


if __name__ == "__main__":
    main()
