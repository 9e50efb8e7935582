"""Markets and plans that the tests of behaviour share."""

from functools import cache

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.running.worlds import SimulatedWorld

SIGMA = 0.3


@cache
def market() -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan() -> rcb.Plan:
    return rcb.calibrate(market(), epsilon=0.1, n_per_arm=10, n_worlds=500, seed=1)


@cache
def three() -> rcb.Market:
    """Users who differ in what they like: who follows depends on who she is."""
    prior = rcb.Prior.gaussian([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]], [0.3, 0.2, 0.2], arms=["usual", "new", "odd"])
    return rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan_of_three() -> rcb.Plan:
    return rcb.calibrate(three(), n_per_arm=8, n_worlds=200, seed=3)


def oracle(here: rcb.Market) -> rcb.PosteriorOracle:
    return rcb.PosteriorOracle(here.platform_prior, here.noise, read="engine")


def truths(here: rcb.Market, n_worlds: int, *, seed: int) -> np.ndarray:
    """True coefficients of simulated worlds, (W, K, d)."""
    seeds = [np.random.SeedSequence(seed, spawn_key=(number,)) for number in range(n_worlds)]
    return np.stack([SimulatedWorld(here, each).beta for each in seeds])
