"""One loop for every run: rounds in order, each once, however they are cut; worlds of several kinds."""

from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.running.driving import Block, World, drive
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.worlds import PAGE, GivenUsers, Nature, SimulatedWorld

SEED = np.random.SeedSequence(4)


@cache
def market(bernoulli: bool = False) -> Market:
    prior = Prior.gaussian([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]], 0.3, arms=["usual", "new", "odd"])
    noise = rcb.BernoulliLogit() if bernoulli else rcb.GaussianNoise(0.3)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=noise)


@cache
def plan() -> Plan:
    return rcb.fixed_plan(market(), n_per_arm=6, exploration_rate=0.3)


def policy() -> Rcb:
    return Rcb(market(), plan(), oracle=rcb.PosteriorOracle(market().prior, market().noise, read="engine"))


def arms(blocks: list[Block]) -> list[int]:
    return np.concatenate([block.decisions.arm for block in blocks]).tolist()


def given_users(n: int, *, bernoulli: bool = False) -> GivenUsers:
    """The first users of the simulated world, given as they are."""
    page = SimulatedWorld(market(bernoulli), SEED).page(0)
    nature = Nature(market(bernoulli), SEED)
    return GivenUsers(nature, x=page.x[:n], uniforms=page.uniforms[:n], noise=page.noise[:n])


def test_every_round_comes_once_and_in_order():
    horizon = PAGE + 300
    blocks = list(drive(policy(), SimulatedWorld(market(), SEED), horizon=horizon))
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == horizon
    assert all(len(block.x) == len(block.reward) == len(block.decisions) > 0 for block in blocks)
    assert PAGE in [block.start for block in blocks]  # none crosses pages
    users = np.concatenate([block.x for block in blocks])
    world = SimulatedWorld(market(), SEED)
    np.testing.assert_array_equal(users, np.concatenate([world.page(0).x, world.page(1).x])[:horizon])


@pytest.mark.parametrize("cuts", [[1, 2, 3, 150], [7, 64, 500]])
def test_a_run_in_parts_is_the_whole_run(cuts: list[int]):
    whole = list(drive(policy(), SimulatedWorld(market(), SEED), horizon=700))
    parted, world, parts = policy(), SimulatedWorld(market(), SEED), []
    for start, stop in zip([0, *cuts], [*cuts, 700], strict=True):
        parts += drive(parted, world, start=start, horizon=stop)
    assert arms(parts) == arms(whole)
    one, two = (np.concatenate([block.reward for block in blocks]) for blocks in (parts, whole))
    np.testing.assert_array_equal(one, two)


def test_the_policy_has_learnt_from_a_block_when_it_comes():
    one = policy()
    for block in drive(one, SimulatedWorld(market(), SEED), horizon=300):
        assert one.rounds == block.stop


@pytest.mark.parametrize("bernoulli", [False, True])
def test_given_users_meet_what_they_would_in_the_simulated_world(bernoulli: bool):
    simulated, given = SimulatedWorld(market(bernoulli), SEED), given_users(400, bernoulli=bernoulli)
    chosen = np.arange(100) % 3
    np.testing.assert_array_equal(simulated.rewards(20, chosen), given.rewards(20, chosen))
    np.testing.assert_allclose(simulated.mean_rewards(20, 120), given.mean_rewards(20, 120), atol=1e-15)
    if not bernoulli:
        assert arms(list(drive(policy(), simulated, horizon=400))) == arms(list(drive(policy(), given, horizon=400)))


@pytest.mark.parametrize("bernoulli", [False, True])
def test_rewards_are_means_and_noise(bernoulli: bool):
    world = SimulatedWorld(market(bernoulli), SEED)
    page = world.page(0)
    eta = page.x @ world.beta.T
    means = 1 / (1 + np.exp(-eta)) if bernoulli else eta
    np.testing.assert_allclose(world.mean_rewards(0, PAGE), means.T, atol=1e-12)
    reward = world.rewards(0, np.full(PAGE, 1))
    if bernoulli:
        assert set(reward) == {0.0, 1.0}
        error = np.sqrt((means[:, 1] * (1 - means[:, 1])).sum()) / PAGE
        assert abs((reward - means[:, 1]).mean()) < 4 * error
    else:
        np.testing.assert_allclose(reward, eta[:, 1] + 0.3 * page.noise, atol=1e-12)


@pytest.mark.parametrize("n", [0, 9])
def test_a_policy_that_decides_for_nobody_or_too_many_is_refused(n: int):
    class Wrong:
        def recommend_proba(self, x: np.ndarray) -> np.ndarray:
            return np.full((len(x), 3), 1 / 3)

        def decide(self, x: np.ndarray, features: np.ndarray, uniforms: np.ndarray) -> Decisions:
            none = np.zeros((3, n))
            return Decisions(
                arm=np.zeros(n, dtype=int), stage=np.zeros(n), counted=np.ones(n), probabilities=none, scores=none
            )

        def update(self, x: np.ndarray, decisions: Decisions, reward: np.ndarray) -> None:
            pass

    world: World = given_users(8)
    with pytest.raises(DataError, match=f"must decide for 1 to 8 users, the first ones, it did for {n}"):
        list(drive(Wrong(), world, horizon=8))
