"""A service that is killed: it goes on from its last save, until it has served all its users.

``python -m tests.running.live_service FOLDER ROUNDS COMES LEAVES EVERY`` serves users from the plan in the folder. Who
comes and what noise rewards have depends on the round alone, so that a service which was never killed serves the same.
"""

import sys
from pathlib import Path

import numpy as np

import rcb_bayes as rcb

BELIEF = ([0.3, 0.2], 0.4)
ROWS = np.array([[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]])
BETA = np.array([[0.3, 0.1], [0.2, 0.3], [0.1, 0.2], [0.35, 0.3]])


def market() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.30, 0.0], [0.15, 0.25], [0.10, 0.30]], [0.3, 0.5, 0.4], arms=["a", "b", "c"])
    return rcb.Market(prior=prior, covariates=rcb.Empirical(ROWS), noise=rcb.GaussianNoise(0.5))


def found(folder: Path) -> rcb.Recommender:
    """As it was saved last, before or after the new arm came; else a new one."""
    path, own = folder / "agent.json", market()
    if not path.exists():
        plan = rcb.Plan.load(folder / "plan.json").for_market(own)
        agent = rcb.Recommender(own, plan, keep_log=folder / "log.csv", seed=2)
        agent.save(path)  # before the first user: what comes after the last save can be told from what came before
        return agent
    try:
        return rcb.Recommender.load(path, own.with_arm("d", BELIEF))
    except rcb.RcbError:
        return rcb.Recommender.load(path, own)


def serve(folder: Path, *, rounds: int, comes: int, leaves: int, every: int) -> rcb.Recommender:
    agent = found(folder)
    while (t := agent.rounds) < rounds:
        if t == comes and "d" not in agent.market.arms:
            agent.add_arm("d", BELIEF)
        if t == leaves and "b" not in agent.absent:
            agent.retire("b")
        rng = np.random.default_rng((7, t))
        x = ROWS[rng.integers(3)]
        told = agent.recommend(x)
        mean = float(x @ BETA[agent.market.arms.index(told.arm)])
        agent.observe(mean + 0.5 * float(rng.standard_normal()), ticket=told.ticket)
        if agent.rounds % every == 0:
            agent.save(folder / "agent.json")
    agent.save(folder / "agent.json")
    return agent


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    rounds, comes, leaves, every = map(int, numbers)
    serve(Path(place), rounds=rounds, comes=comes, leaves=leaves, every=every)
