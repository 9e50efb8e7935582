"""The recommendation as an instrument: the truth where the posterior is off, and calibrated where it is not."""

import warnings
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import behaviour as b
from rcb_bayes.errors import ConfoundingWarning, DataError, RcbError
from rcb_bayes.running.worlds import SimulatedWorld
from tests.behaviour.markets import SIGMA, market, oracle, plan, truths

W, SEED = 150, 1


def runs_of(users: Any, **asked: Any) -> Any:
    sizes: dict[str, Any] = {"horizon": 4000, "n_worlds": W, "every": 4000} | asked
    return rcb.simulate(market(), plan(), behaviour=users, oracle=oracle(market()), seed=SEED, **sizes)


@pytest.fixture(scope="module")
def confounded() -> Any:
    return runs_of(b.Refusal(arm="new", share=0.4, known=0.9))


def test_confounded_refusal_iv_is_right_where_the_posterior_is_far_off(confounded: Any) -> None:
    with pytest.warns(ConfoundingWarning, match="Go by the instrument"):
        found = b.instrument(confounded, market())
    average = market().population.sample(65_536, seed=0).mean(axis=0)
    truth = truths(market(), W, seed=SEED) @ average  # (W, K)
    apart = {name: found[f"{name}_reward"].values - truth for name in ("iv", "naive")}
    errors = {name: part.mean(axis=0) / (part.std(axis=0, ddof=1) / np.sqrt(W)) for name, part in apart.items()}
    assert (np.abs(errors["iv"]) < 3).all()
    assert errors["naive"][0] < -10  # who refuses the new arm would have got less of any
    assert errors["naive"][1] > 10
    within = (np.abs(apart["iv"]) < 2 * found["iv_reward_mcse"].values).mean(axis=0)
    assert (np.abs(within - 0.9545) < 4 * np.sqrt(0.9545 * 0.0455 / W)).all()
    assert (np.median(np.abs(apart["naive"]) / found["naive_reward_mcse"].values, axis=0) > 10).all()


def test_one_log_is_enough() -> None:
    """A live loop of 12,000 users who refuse by taste: the average user's reward of the new arm."""
    from rcb_bayes.users import Empirical

    alike = rcb.Market(
        prior=rcb.Prior.gaussian([[0.5], [0.45]], 0.25, arms=["old", "new"]),
        covariates=Empirical([[1.0]]),
        noise=rcb.GaussianNoise(SIGMA),
    )
    log, beta = rounds_of(alike, 12_000)
    with pytest.warns(ConfoundingWarning):
        found = b.instrument(log, alike).isel(world=0)
    truth = beta[1, 0]
    assert abs(found["iv"].sel(arm="new").item() - truth) < 2 * found["iv_mcse"].sel(arm="new").item()
    assert abs(found["naive"].sel(arm="new").item() - truth) > 10 * found["naive_mcse"].sel(arm="new").item()
    assert found["p_value"].item() < 1e-10


def rounds_of(here: rcb.Market, n: int) -> tuple[Any, np.ndarray]:
    """A log of a platform that recommends each arm half of the time; refusers have the worst noise."""
    import pandas as pd

    rng = np.random.default_rng(3)
    beta = SimulatedWorld(here, np.random.SeedSequence(3)).beta
    x = here.population.sample(n, seed=4)
    told, noise = rng.integers(2, size=n), rng.standard_normal(n)
    taken = np.where((told == 1) & (0.9 * noise + np.sqrt(0.19) * rng.standard_normal(n) < -0.3), 0, told)
    reward = (x * beta[taken]).sum(axis=1) + SIGMA * noise
    names = np.array(here.arms)
    table = {"arm": names[told], "taken": names[taken], "reward": reward}
    return pd.DataFrame({**dict(zip(here.features, x.T, strict=True)), **table}), beta


@pytest.mark.parametrize("words", ["obedient 1", "obedient .6, random .4"])
def test_refusal_by_chance_is_no_warning(words: str) -> None:
    """The test holds its level, and both are calibrated."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = b.instrument(runs_of(b.as_behaviour(words)), market())
    truth = truths(market(), W, seed=SEED)
    for name in ("iv", "naive"):
        scores = (found[name].values - truth) / found[f"{name}_mcse"].values
        assert (np.abs(scores.mean(axis=0)) < 4 / np.sqrt(W)).all()
        assert (np.abs(scores.std(axis=0) - 1.0) < 4.5 / np.sqrt(2 * W)).all()
    share = float((found["p_value"] < 0.1).mean())
    assert share < 0.1 + 4 * np.sqrt(0.09 / W)


def test_sums_of_runs_and_rows_of_a_log_are_one() -> None:
    agent = rcb.Recommender(market(), plan(), keep_log=600, seed=np.random.SeedSequence(SEED).spawn(1)[0])
    users = b.Mix(b.Obedient(), b.Random(), shares=[0.5, 0.5])
    crowd = b.LiveUsers(agent, users)
    world = SimulatedWorld(market(), np.random.SeedSequence(SEED).spawn(1)[0])
    for t in range(500):
        x = world.page(0).x[t]
        told = agent.recommend(x)
        taken = crowd.takes(x, told)
        reward = float(world.rewards(t, np.array([market().arms.index(taken)]))[0])
        agent.observe(reward, ticket=told.ticket, taken=taken)
    of_log = b.instrument(agent.log, market())
    of_runs = b.instrument(runs_of(users, horizon=500, n_worlds=1, every=500), market())
    for name in ("iv", "iv_mcse", "naive", "p_value"):
        assert np.allclose(of_log[name], of_runs[name]), name


def test_an_arm_that_is_never_offered_is_not_told() -> None:
    found = b.instrument(runs_of(b.Obedient(), horizon=8, n_worlds=2), market())
    assert bool(found["iv"].sel(arm="new").isnull().all())


def test_bad_input() -> None:
    binary = rcb.Market(prior=market().prior, covariates=market().covariates, noise=rcb.BernoulliLogit())
    plain = rcb.simulate(market(), plan(), horizon=10, n_worlds=1)
    log, _ = rounds_of(market(), 100)
    with pytest.raises(RcbError, match="0/1 rewards"):
        b.instrument(plain, binary)
    with pytest.raises(RcbError, match="Simulate with behaviour="):
        b.instrument(plain, market())
    with pytest.raises(RcbError, match="level is a probability"):
        b.instrument(log, market(), level=2.0)
    with pytest.raises(DataError, match="lacks the column"):
        b.instrument(log.drop(columns="reward"), market())
    with pytest.raises(DataError, match="The log has the arm 'newer'"):
        b.instrument(log.replace("new", "newer"), market())
