"""What plans come to in the paper's settings, as Markdown tables: the theorem's, and sampled ones."""

from collections.abc import Iterator

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.wording import figure, percent

SEED = 1
N_WORLDS = 2000
EPSILON, TAU, RHO, SIGMA, D = 0.05, 0.01, 0.95, 0.05, 5


def market(belief: str, n_arms: int, **others: float) -> rcb.Market:
    """A setting of the paper: users on the unit sphere, five features."""
    prior = rcb.load_prior(belief, n_arms=n_arms, n_features=D, **others)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(D), noise=rcb.GaussianNoise(SIGMA))


def theorem_rows() -> Iterator[tuple[str, ...]]:
    """Theorem 1's plan, with phi0 = 1 and with that of the users."""
    for n_arms in (2, 5, 10):
        for phi0 in (1.0, None):
            plan = rcb.theorem_plan(market("setting_1", n_arms), epsilon=EPSILON, tau=TAU, rho=RHO, phi0=phi0)
            used = "1" if phi0 else "1/5, the users'"
            yield str(n_arms), used, f"{plan.n_per_arm:,}", f"{plan.expected_cold_start:,.0f}"


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
        table("Theorem 1 in Setting 1", ("K", "phi0", "N", "cold start, rounds"), theorem_rows()),
        table("Setting 1: Pr(G >= .01), K = 5", ("saturated arms", "rho(.01)"), chance_rows()),
        table(
            "Setting 4, K = 5, N = 5, epsilon .05",
            ("variance", "notion", "rate", "q", "need no subsidy", "cold start, rounds"),
            sampled_rows(),
        ),
        table("Two arms, prior gap .3, epsilon .05", ("notion", "L", "given the recommendation"), reading_rows()),
    )
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
