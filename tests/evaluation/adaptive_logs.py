"""Logs of our own adaptive policies, with the truth beside them."""

from functools import cache

import numpy as np
import pandas as pd

import rcb_bayes as rcb
from rcb_bayes.running.driving import drive
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.worlds import SimulatedWorld

ROUND_KINDS = ("most popular", "promoted", "organic", "exploit")


@cache
def market(n_arms: int = 2) -> rcb.Market:
    mean = np.array([[0.5, 0.2], [0.2, 0.2], [0.1, 0.3]])[:n_arms]
    prior = rcb.Prior.gaussian(mean, 0.25)
    return rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.5))


def adaptive_log(seed: int, *, n_arms: int = 2, horizon: int = 1000, multiple: float = 10.0):
    """A log of RCB in a world of its own, and the true value of telling everybody each arm, (K,)."""
    here = market(n_arms)
    plan = rcb.fixed_plan(here, n_per_arm=10, exploration_rate=0.5)
    world = SimulatedWorld(here, np.random.SeedSequence(seed))
    oracle = rcb.PosteriorOracle(here.prior, here.noise, read="engine")
    policy = Rcb(here, plan, oracle=oracle, options=rcb.Exploiting(guard=False, spread_multiple=multiple))
    blocks = list(drive(policy, world, horizon=horizon))
    table = pd.DataFrame(np.concatenate([block.x for block in blocks]), columns=list(here.features))
    arm = np.concatenate([block.decisions.arm for block in blocks])
    chances = np.concatenate([block.decisions.probabilities.T for block in blocks])
    table["arm"] = np.array(here.arms)[arm]
    table["reward"] = np.concatenate([block.reward for block in blocks])
    table["stage"] = np.array(ROUND_KINDS)[np.concatenate([block.decisions.stage for block in blocks])]
    table["propensity"] = chances[np.arange(len(arm)), arm]
    for k, label in enumerate(here.arms):
        table[f"p_{label}"] = chances[:, k]
    return table, world.beta.sum(axis=1) / 2.0
