"""Draw every figure of the package, small, to a folder: ``python tools/gallery.py FOLDER``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

import rcb_bayes as rcb
from rcb_bayes.cli.options import write_figure


def figures(*, seed: int = 1) -> Iterator[tuple[str, Axes]]:
    """Each figure by the name of the function that draws it."""
    prior = rcb.load_prior("setting_4", n_arms=3)
    market = rcb.Market(prior=prior, covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05))
    rng = np.random.default_rng(seed)

    gaps = rcb.estimate_gaps(market, saturated=["arm_0"], n_per_arm=50, n_worlds=1000, seed=seed)
    yield "plot_frontier", rcb.plots.plot_frontier(gaps)
    grid = [1, 2, 5, 10, 30, 100]
    noisy = rcb.Market(prior=market.prior, covariates=market.covariates, noise=rcb.GaussianNoise(1.0))
    curve = rcb.gap_curve(noisy, n_grid=grid, tau=0.05, floor=0.45, saturated=["arm_0"], n_worlds=1000, seed=seed)
    yield "plot_gap_curve", rcb.plots.plot_gap_curve(curve)

    truth = prior.draw(1, seed=seed)["beta"].values[0]
    x, arm = market.covariates.sample(30, seed=seed), rng.integers(0, 3, 30)
    reward = (x * truth[arm]).sum(axis=1) + 0.3 * rng.standard_normal(30)
    data = rcb.posterior.Statistics.from_rows(x, arm=arm, reward=reward, n_arms=3)
    tree = rcb.posterior.fit_posterior(prior, rcb.GaussianNoise(0.3), data, seed=seed)
    yield "plot_prior_posterior", rcb.plots.plot_prior_posterior(tree, prior, x=[0.2, 0.5, -0.1, 0.6, -0.3])

    plan = rcb.calibrate(market, n_per_arm=50, n_worlds=500, seed=seed)
    yield "plot_rates", rcb.plots.plot_rates(plan, market.covariates.sample(1000, seed=seed))
    yield "plot_coverage", rcb.plots.plot_coverage(plan)
    prices = rcb.tradeoff(market, epsilons=[0.0, 0.05, 0.1, 0.2], n_grid=[10, 50], n_worlds=200, seed=seed)
    yield "plot_tradeoff", rcb.plots.plot_tradeoff(prices, figure="expected_cold_start")

    known = rcb.price_of_knowledge(market, n_per_arm=50, n_worlds=200, horizon=3000, seed=seed)
    yield "plot_knowledge", rcb.plots.plot_knowledge(known)[0]

    runs = rcb.simulate(market, plan, horizon=3000, n_worlds=12, seed=seed)
    yield "plot_regret", rcb.plots.plot_regret(runs)
    yield "plot_gain", rcb.plots.plot_gain(runs)
    yield "plot_samples", rcb.plots.plot_samples(runs)
    yield "plot_propensities", rcb.plots.plot_propensities(runs)

    open_plan = rcb.fixed_plan(market, n_per_arm=50, exploration_rate=0.5)  # without a guard: every arm has a chance
    agent = rcb.Recommender(market, open_plan, keep_log=3000, seed=seed)
    for user, z in zip(market.covariates.sample(3000, seed=seed), rng.standard_normal(3000), strict=True):
        told = agent.recommend(user)
        agent.observe(user @ truth[market.arms.index(told.arm)] + 0.05 * z, ticket=told.ticket)
    yield "plot_values", rcb.plots.plot_values(rcb.evaluate(agent, "arm_1", stages="exploit"))

    wrong = rcb.sensitivity(market, plan, along=["scale", "noise"], horizon=500, n_worlds=300, n_runs=0, seed=seed)
    yield "plot_tornado", rcb.plots.plot_tornado(wrong)
    yield "plot_sensitivity", rcb.plots.plot_sensitivity(wrong, direction="scale")

    audit = rcb.audit(market, plan, horizon=2000, n_worlds=500, seed=seed + 1)
    yield "plot_margins", rcb.plots.plot_margins(audit.margins, epsilon=audit.epsilon)
    yield "plot_margin_matrix", rcb.plots.plot_margin_matrix(audit.margins, epsilon=audit.epsilon)
    yield "plot_compliance", rcb.plots.plot_compliance(audit.compliance, epsilon=audit.epsilon)


def main(folder: Path) -> None:
    """Write them all."""
    for name, axes in figures():
        target = folder / f"{name}.png"
        write_figure(axes, target)
        print(target)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "rcb_out/gallery"))
