"""One arm for everybody: its regret is known."""

import numpy as np

import rcb_bayes as rcb
from rcb_bayes.running.simulation import simulate
from rcb_bayes.running.worlds import SimulatedWorld
from tests.baselines.runs import market


def test_regret_is_what_the_arm_is_short_of_the_best():
    found = simulate(market(), lambda m, seed: rcb.baselines.AlwaysArm(m, "new"), horizon=500, n_worlds=1, seed=3).isel(
        world=0
    )
    world = SimulatedWorld(market(), np.random.SeedSequence(3).spawn(1)[0])
    means = world.page(0).x[:500] @ world.beta.T
    np.testing.assert_allclose(found["regret"], means.max(axis=1) - means[:, 1], atol=1e-12)
    assert found["n_samples"].values.tolist() == [0, 500, 0]
    assert (found["propensity"] == 1).all()
