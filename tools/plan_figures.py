"""What plans come to in the paper's settings, as Markdown tables: the theorem's, sampled ones, and greedy beside."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.telling.wording import figure, percent

SEED = 1
N_WORLDS = 2000
EPSILON, TAU, RHO, SIGMA, D = 0.05, 0.01, 0.95, 0.05, 5
HORIZON = 100_000  # the paper's
GREEDY_WORLDS, GREEDY_ROUNDS = 40, 2000


def market(belief: str, n_arms: int, *, d: int = D, **others: float) -> rcb.Market:
    """A setting of the paper: users on the unit sphere, five features."""
    prior = rcb.load_prior(belief, n_arms=n_arms, n_features=d, **others)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(d), noise=rcb.GaussianNoise(SIGMA))


def theorem_rows() -> Iterator[tuple[str, ...]]:
    """Theorem 1's plan in Setting 1: the paper's constants, with phi0 = 1 and with that of the users; tau* measured."""
    cases = [(k, D, phi0, TAU) for k in (2, 5, 10) for phi0 in (1.0, None)]
    cases += [(2, 3, None, TAU), (3, 3, None, TAU), *((k, D, 1.0, None) for k in (2, 5, 10))]
    for n_arms, d, phi0, tau_star in cases:
        setting = market("setting_1", n_arms, d=d)
        paper: dict[str, Any] = {"epsilon": EPSILON, "tau": TAU, "rho": RHO, "tau_star": tau_star, "prior_gap": 1.0}
        plan = rcb.theorem_plan(setting, **paper, phi0=phi0, horizon=HORIZON)
        yield (
            f"{n_arms}, d = {d}" if d != D else str(n_arms),
            "1" if phi0 and tau_star else "1, tau* measured" if phi0 else f"1/{d}, the users'",
            f"{plan.n_per_arm:,}",
            figure(plan.expected_cold_start, plan.expected_cold_start_mcse),
            "yes" if plan.feasible else "no",
            f"{plan.agenda.most * (1 + (n_arms - 1) * plan.inverse_rate):,.0f}",
            f"{plan.guarantee_probability:.2f}",
        )


def chance_rows() -> Iterator[tuple[str, ...]]:
    """rho(.01) of Setting 1 once some arms are known."""
    setting = market("setting_1", 5)
    for known in range(1, 5):
        arms = list(setting.prior.arms[:known])
        gaps = rcb.estimate_gaps(setting, saturated=arms, n_per_arm=100, taus=[TAU], n_worlds=4000, seed=SEED)
        yield str(known), figure(float(gaps["rho"][0, 0]), float(gaps["rho_mcse"][0, 0]))


def sampled_rows() -> Iterator[tuple[str, ...]]:
    """Sampled plans of Setting 4, K = 5, N = 5."""
    kinds = (("user", False), ("proof", False), ("user", True))
    for variance in (0.02, 0.1):
        setting = market("setting_4", 5, variance=variance)
        for notion, own in kinds:
            plan = rcb.calibrate(
                setting, epsilon=EPSILON, notion=notion, personalised=own, n_per_arm=D, n_worlds=N_WORLDS, seed=SEED
            )
            yield (
                str(variance),
                notion,
                "for each user" if own else "one for all",
                figure(plan.exploration_rate, plan.exploration_rate_mcse),
                percent(plan.share_free),
                figure(plan.expected_cold_start, plan.expected_cold_start_mcse),
            )


def users_rows() -> Iterator[tuple[str, ...]]:
    """Setting 4 under ``user`` by who the users are: features of either sign, or none below zero."""
    draws = np.abs(np.random.default_rng(SEED).standard_normal((2000, D)))
    kinds = {
        "on the sphere": rcb.Sphere(D),
        "on the sphere, no feature negative": rcb.Empirical(draws / np.linalg.norm(draws, axis=1, keepdims=True)),
        "uniform on [0, 1]^5 / sqrt 5": rcb.Uniform([0.0] * D, [1 / np.sqrt(D)] * D),
    }
    sphere = market("setting_4", 5, variance=0.02)
    for name, users in kinds.items():
        setting = rcb.Market(prior=sphere.prior, covariates=users, noise=sphere.noise)
        plan = rcb.calibrate(setting, epsilon=EPSILON, n_per_arm=D, n_worlds=N_WORLDS, guard=False, seed=SEED)
        yield (
            name,
            figure(plan.exploration_rate, plan.exploration_rate_mcse),
            percent(plan.share_free),
            figure(plan.expected_cold_start, plan.expected_cold_start_mcse),
            "this one" if plan.nearest_epsilon is None else f"{plan.nearest_epsilon:.2f}",
        )


def greedy_rows() -> Iterator[tuple[str, ...]]:
    """Greedy in the paper's settings: does it leave an arm untried, and what does it cost?"""
    for belief in ("setting_1", "setting_4"):
        setting = market(belief, 5)
        shared: dict[str, Any] = {"horizon": GREEDY_ROUNDS, "n_worlds": GREEDY_WORLDS, "seed": SEED}
        greedy = rcb.simulate(setting, lambda own, seed: rcb.baselines.Greedy(own, seed=seed), **shared)
        plan = rcb.calibrate(setting, epsilon=EPSILON, n_per_arm=D, n_worlds=N_WORLDS, seed=SEED)
        ours = rcb.simulate(setting, plan, **shared)
        tried = greedy["n_samples"].values
        best = np.stack([(greedy["context_arm_best"].values == arm).sum(axis=1) for arm in range(5)], axis=1)
        totals = [found["regret"].sum("t").values for found in (greedy, ours)]
        yield (
            belief.replace("_", " ").capitalize(),
            percent((tried == 0).any(axis=1).mean()),
            percent((10 * tried < best).any(axis=1).mean()),
            *(figure(one.mean(), one.std(ddof=1) / np.sqrt(GREEDY_WORLDS)) for one in totals),
        )


def reading_rows() -> Iterator[tuple[str, ...]]:
    """Two arms, one kind of user, prior gap .3: L under each notion, and what she expects by it."""
    prior = rcb.Prior.gaussian([[0.3], [0.0]], 0.04, arms=["usual", "new"], features=["base"])
    noise = rcb.GaussianNoise(0.2243)
    one = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]], features=["base"]), noise=noise)
    gaps = rcb.estimate_gaps(one, saturated=["usual"], n_per_arm=10, n_worlds=400_000, seed=SEED).sel(arm="new")
    gain, positive, loss = float(gaps["expected_gain"]), float(gaps["prob_positive"]), 0.3
    for notion, chance in (("proof", 1.0), ("definition, user", positive)):
        inverse = 1 + (loss - EPSILON) / (gain + EPSILON * chance)
        rate = 1 / inverse
        margin = (-rate * loss + (1 - rate) * gain) / (rate + (1 - rate) * positive)
        yield notion, f"{inverse:.1f}", f"{margin:.3f}"


def table(title: str, head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table under its title."""
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join([f"## {title}", "", *lines])


def main() -> None:
    """Print them all."""
    np.seterr(all="raise", under="ignore")
    parts = (
        table(
            "Theorem 1 in Setting 1, d = 5 unless said, T = 100,000",
            ("K", "phi0", "N", "cold start, rounds", "fits T", "if arms filled one by one", "rho rho*"),
            theorem_rows(),
        ),
        table("Setting 1: Pr(G >= .01), K = 5", ("saturated arms", "rho(.01)"), chance_rows()),
        table(
            "Setting 4, K = 5, N = 5, epsilon .05",
            ("variance", "notion", "rate", "q", "need no subsidy", "cold start, rounds"),
            sampled_rows(),
        ),
        table(
            "Setting 4, K = 5, N = 5, variance .02, epsilon .05, user: who the users are",
            ("users", "mean q", "need no subsidy", "cold start, rounds", "feasible from epsilon"),
            users_rows(),
        ),
        table(
            f"Greedy, K = 5, {GREEDY_ROUNDS:,} rounds, {GREEDY_WORLDS} worlds",
            (
                "setting",
                "worlds in which an arm is never tried",
                "tried by less than a tenth of those it is best for",
                "regret",
                "regret of the sampled plan, N = 5",
            ),
            greedy_rows(),
        ),
        table("Two arms, prior gap .3, epsilon .05", ("notion", "L", "given the recommendation"), reading_rows()),
    )
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
