"""LinUCB beside its upper bounds, and beside another implementation, arm by arm."""

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Prior
from rcb_bayes.running.simulation import simulate
from rcb_bayes.running.worlds import SimulatedWorld
from tests.baselines import plain_bandits
from tests.baselines.runs import USERS, conjugate, drive, market

MEAN, VARIANCE, SIGMA = np.array([[0.2, 0.1], [0.0, 0.0], [0.1, -0.1]]), 0.4, 0.3


def one_variance() -> Market:
    prior = Prior.gaussian(MEAN, VARIANCE)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(SIGMA))


@pytest.mark.parametrize("width", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("batch", [1, 7])
def test_it_takes_the_best_upper_bound(width: float, batch: int):
    policy = rcb.baselines.LinUcb(market(), width=width, batch=batch)
    drive(policy, 63)
    mean, cov = conjugate(policy)
    bound = USERS @ mean.T + width * np.sqrt(np.einsum("nd,kde,ne->nk", USERS, cov, USERS))
    np.testing.assert_array_equal(policy.recommend_proba(USERS).argmax(axis=1), bound.argmax(axis=1))


@pytest.mark.parametrize("world", range(4))
def test_it_is_the_plain_algorithm_arm_by_arm(world: int):
    where, horizon = one_variance(), 400
    child = np.random.SeedSequence(6).spawn(4)[world]
    page = (found := SimulatedWorld(where, child)).page(0)
    plain = {
        scale: plain_bandits.run(
            "ucb",
            prior_mean=MEAN,
            prior_variance=VARIANCE,
            sigma=SIGMA,
            beta=found.beta,
            users=page.x[:horizon],
            noise=page.noise[:horizon],
            scale=scale,
            rng=np.random.default_rng(0),
        )
        for scale in (1.5, 1.5 * SIGMA)
    }
    runs = simulate(where, lambda m, seed: rcb.baselines.LinUcb(m, width=1.5), horizon=horizon, n_worlds=4, seed=6)
    run = runs.isel(world=world)
    np.testing.assert_array_equal(run["recommended"], plain[1.5][0])
    np.testing.assert_allclose(run["regret"], plain[1.5][1], atol=1e-12)
    assert (run["recommended"].values != plain[1.5 * SIGMA][0]).any()  # planted: sigma forgotten in the width
