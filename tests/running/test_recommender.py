"""The live recommender: the same as a block run, resumed exactly, and unmoved by bad input."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.running.recommender import Recommender
from rcb_bayes.running.simulation import simulate
from rcb_bayes.running.worlds import PAGE, SimulatedWorld

MEAN = np.array([[0.4, 0.1], [0.1, 0.0], [0.0, 0.2]])
SIGMA = 0.3


@cache
def market() -> Market:
    prior = Prior.gaussian(MEAN, [0.3, 0.2, 0.2], arms=["usual", "new", "odd"])
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan(personalised: bool = True) -> Plan:
    notion = "user" if personalised else "proof"
    return rcb.calibrate(market(), notion=notion, personalised=personalised, n_per_arm=8, n_worlds=200, seed=3)


def world_seed(seed: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed).spawn(1)[0]


def agent(seed: int = 1, **options: Any) -> Recommender:
    return Recommender(market(), plan(), seed=world_seed(seed), **options)


def loop(live: Recommender, world: SimulatedWorld, start: int, stop: int) -> list[str]:
    """Serve rounds one by one, rewards at once."""
    arms = []
    for t in range(start, stop):
        number, place = divmod(t, PAGE)
        page = world.page(number)
        x = page.x[place]
        found = live.recommend(x)
        eta = float(rcb_scores(world, x)[market().arms.index(found.arm)])
        live.observe(eta + SIGMA * page.noise[place], ticket=found.ticket)
        arms.append(found.arm)
    return arms


def rcb_scores(world: SimulatedWorld, x: np.ndarray) -> np.ndarray:
    from rcb_bayes.mechanism.kernel import linear_scores

    return linear_scores(world.beta, x[:, None])[:, 0]


# --- live and block --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("personalised", [True, False])
def test_a_live_loop_is_a_block_run(personalised: bool):
    horizon = PAGE + 500
    block = simulate(market(), plan(personalised), horizon=horizon, n_worlds=1, seed=2).isel(world=0)
    assert 0 < block["cold_start_length"].item() < horizon - 1000  # both stages
    live = Recommender(market(), plan(personalised), seed=world_seed(2))
    arms = loop(live, SimulatedWorld(market(), world_seed(2)), 0, horizon)
    assert arms == [market().arms[k] for k in block["recommended"].values]
    assert list(live.n_samples.values()) == block["n_samples"].values.tolist()
    assert live.stage == "exploit"


def test_under_the_global_clock_a_live_loop_is_a_block_run_too():
    horizon, options = 700, rcb.Exploiting(clock="global")
    block = simulate(market(), plan(), horizon=horizon, n_worlds=1, options=options, seed=2).isel(world=0)
    length = block["cold_start_length"].item()
    assert length & (length - 1)  # the cold start ends inside an epoch
    live = Recommender(market(), plan(), seed=world_seed(2), options=options)
    arms = loop(live, SimulatedWorld(market(), world_seed(2)), 0, horizon)
    assert arms == [market().arms[k] for k in block["recommended"].values]
    # Whole epochs only: the first one ends two powers of two beyond the cold start, and each doubles from there.
    found = live._rcb.exploitation
    assert found is not None
    assert found.ends == 1024
    assert found.epoch == 10 - (length.bit_length() + 1)


def test_many_at_a_time_are_the_same_users_one_by_one():
    users = rcb.Sphere(2).sample(40, seed=1)
    together = agent().recommend_many(users)
    one_by_one = agent()
    for k, x in enumerate(users):
        found = one_by_one.recommend(x)
        assert (found.arm, found.ticket, found.stage) == (together.arm[k], together.ticket[k], together.stage[k])
        assert found.propensity == together.propensity[k]
    np.testing.assert_allclose(together.probabilities.sum(axis=1), 1.0)


def test_many_users_cross_pages():
    live = agent()
    found = live.recommend_many(rcb.Sphere(2).sample(PAGE + 10, seed=1))
    assert len(found) == PAGE + 10
    assert live.n_pending == PAGE + 10
    assert len(agent().recommend_many(np.zeros((0, 2)))) == 0


# --- records ---------------------------------------------------------------------------------------------------------


def test_a_recommendation_says_what_and_why():
    found = agent().recommend([1.0, 0.0])
    assert found.arm == "usual"
    assert found.stage == "most popular"
    assert found.propensity == found.probabilities["usual"] == 1.0
    assert found.ticket == 0
    assert "usual is what users like her expect most of" in found.reason


def test_stages_are_told():
    live, world = agent(3), SimulatedWorld(market(), world_seed(3))
    assert live.stage == "most popular"
    loop(live, world, 0, 60)
    assert live.stage in ("rest of the arms", "exploit")
    assert live.saturated[0] in market().arms
    np.testing.assert_allclose(live.recommend_proba(rcb.Sphere(2).sample(9, seed=1)).sum(axis=1), 1.0)


# --- rewards late, never, of another arm -----------------------------------------------------------------------------


def test_rewards_may_come_late_and_out_of_order():
    live = agent()
    tickets = [live.recommend([1.0, 0.0]).ticket for _ in range(8)]
    assert live.n_pending == 8
    live.observe_many(np.ones(7), tickets=tickets[:0:-1])
    assert live.n_samples["usual"] == 7
    assert live.saturated == ()
    live.observe(1.0, ticket=tickets[0])
    assert live.saturated == ("usual",)


def test_a_reward_that_never_comes_is_given_up():
    live = agent()
    for k in range(12):
        ticket = live.recommend([1.0, 0.0]).ticket
        if k % 3:
            live.observe(0.5, ticket=ticket)
        else:
            live.give_up(ticket)
    assert live.n_samples["usual"] == 8
    assert live.n_pending == 0


def test_another_arm_than_recommended_is_not_counted_in_the_cold_start():
    live = agent()
    live.recommend([1.0, 0.0])
    live.observe(1.0, taken="odd")
    assert sum(live.n_samples.values()) == 0


def test_later_the_reward_is_that_of_the_arm_taken():
    live, world = agent(4), SimulatedWorld(market(), world_seed(4))
    start = 0
    while live.stage != "exploit":
        loop(live, world, start, start + 1)
        start += 1
    live.recommend([1.0, 0.0])
    before = live.n_samples
    found = live.recommend([1.0, 0.0])
    other = next(arm for arm in market().arms if arm != found.arm)
    live.observe(7.5, ticket=found.ticket, taken=other)
    assert live.n_samples == {arm: n + (arm == other) for arm, n in before.items()}
    assert live._rcb.exploitation is not None
    fresh = live._rcb.exploitation.now.sums()
    np.testing.assert_allclose(fresh.xty[0, market().arms.index(other)], [7.5, 0.0])  # hers: the only one so far


# --- saving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [3, 30, 700])
def test_a_saved_recommender_goes_on_exactly(stop: int, tmp_path: Path):
    world, horizon = SimulatedWorld(market(), world_seed(5)), 1500
    whole = agent(5)
    arms = loop(whole, world, 0, horizon)
    live = agent(5)
    before = loop(live, world, 0, stop)
    told = live.recommend(world.page(0).x[stop])
    live.save(tmp_path / "state.json")  # while a reward is out
    again = Recommender.load(tmp_path / "state.json", market())
    assert again.n_pending == 1
    assert again.n_samples == live.n_samples
    reward = world.rewards(stop, np.array([market().arms.index(told.arm)]))
    again.observe(float(reward[0]), ticket=told.ticket)
    after = loop(again, world, stop + 1, horizon)
    assert [*before, told.arm, *after] == arms
    assert again.n_samples == whole.n_samples
    users = rcb.Sphere(2).sample(20, seed=9)
    assert [again.recommend(x) for x in users] == [whole.recommend(x) for x in users]


def test_a_process_that_was_killed_is_resumed(tmp_path: Path):
    """Another process loads the state, goes on, and gives what the uninterrupted run gave."""
    world, horizon, stop = SimulatedWorld(market(), world_seed(6)), 900, 400
    whole = loop(agent(6), world, 0, horizon)
    live = agent(6)
    loop(live, world, 0, stop)
    live.save(tmp_path / "state.json")
    script = f"""
import json
from tests.running.test_recommender import *
live = Recommender.load({str(tmp_path / "state.json")!r}, market())
print(json.dumps(loop(live, SimulatedWorld(market(), world_seed(6)), {stop}, {horizon})))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert json.loads(done.stdout) == whole[stop:]


def test_a_state_of_another_oracle_is_refused(tmp_path: Path):
    agent(oracle=rcb.RidgeOracle()).save(tmp_path / "state.json")
    with pytest.raises(RcbError, match="another oracle"):
        Recommender.load(tmp_path / "state.json", market())
    assert Recommender.load(tmp_path / "state.json", market(), oracle=rcb.RidgeOracle()).rounds == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON, or cut off"),
        ('{"format": 1}', "its format is .*1"),
        ("[]", "no format"),
        ('{"format": "rcb_bayes plan", "format_version": 2}', "its format is 'rcb_bayes plan'"),
        ('{"format": "rcb_bayes agent", "format_version": 5, "plan": 3}', "no digest"),
    ],
)
def test_broken_states_are_refused(text: str, message: str, tmp_path: Path):
    (tmp_path / "state.json").write_text(text, encoding="utf-8")
    with pytest.raises(RcbError, match=message):
        Recommender.load(tmp_path / "state.json", market())


def test_a_state_that_was_cut_off_is_refused(tmp_path: Path):
    live = agent()
    live.save(tmp_path / "state.json")
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    del state["cold"]["history"]["xtx"]
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(RcbError, match="digest does not match"):
        Recommender.load(tmp_path / "state.json", market())
    with pytest.raises(RcbError, match="Cannot read"):
        Recommender.load(tmp_path / "none.json", market())


def test_a_state_of_another_market_is_refused(tmp_path: Path):
    agent().save(tmp_path / "state.json")
    other = Market(prior=Prior.gaussian(np.zeros((2, 2)), 1.0), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(1.0))
    with pytest.raises(RcbError, match="Calibrate a plan"):
        Recommender.load(tmp_path / "state.json", other)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "message"), [([1.0], "2 features, got 1"), ([np.nan, 0.0], "finite"), ([[1.0, 0.0]], "dimension")]
)
def test_bad_users_change_nothing(x: list, message: str):
    live = agent()
    with pytest.raises(DataError, match=message):
        live.recommend(x)
    assert (live.rounds, live.n_pending) == (0, 0)


@pytest.mark.parametrize(
    ("reward", "options", "message"),
    [
        (float("nan"), {}, "finite number, got nan"),
        ("a", {}, "finite number"),
        (1.0, {"ticket": 7}, "no ticket 7"),
        (1.0, {"taken": "nwe"}, "Did you mean 'new'"),
    ],
)
def test_bad_rewards_change_nothing(reward: Any, options: dict[str, Any], message: str):
    live = agent()
    live.recommend([1.0, 0.0])
    with pytest.raises(DataError, match=message):
        live.observe(reward, **options)
    assert live.n_pending == 1
    assert sum(live.n_samples.values()) == 0


def test_a_reward_given_twice_is_refused():
    live = agent()
    ticket = live.recommend([1.0, 0.0]).ticket
    live.observe(1.0, ticket=ticket)
    with pytest.raises(DataError, match="has come already"):
        live.observe(1.0, ticket=ticket)
    assert live.n_samples["usual"] == 1


def test_many_rewards_are_taken_in_together_or_not_at_all():
    live = agent()
    tickets = live.recommend_many(np.tile([1.0, 0.0], (3, 1))).ticket
    for rewards, given, message in [
        ([1.0, 1.0], [0, 0], "twice"),
        ([1.0, 1.0], [0, 9], "no ticket 9"),
        ([1.0, np.nan], [0, 1], "finite"),
        ([1.0], [0, 1], "ticket for each"),
    ]:
        with pytest.raises(DataError, match=message):
            live.observe_many(rewards, tickets=given)
    assert sum(live.n_samples.values()) == 0
    live.observe_many([1.0, 2.0, 3.0], tickets=tickets)
    assert live.n_samples["usual"] == 3


def test_bernoulli_rewards_are_zero_or_one():
    users = rcb.Empirical(np.eye(2))
    clicks = Market(prior=Prior.gaussian([[0.8, 0.3], [0.2, 0.2]], 1.0), covariates=users, noise=rcb.BernoulliLogit())
    live = Recommender(clicks, rcb.calibrate(clicks, n_per_arm=4, n_worlds=100))
    live.recommend([1.0, 0.0])
    with pytest.raises(DataError, match="0 or 1"):
        live.observe(0.5)
    live.observe(1)


def test_rewards_many_at_a_time_are_rewards_one_by_one():
    """In both stages; and a caller's array may be used again before the rewards come."""
    one, two = agent(4), agent(4)
    rng = np.random.default_rng(8)
    buffer = np.empty((60, 2))
    for _ in range(12):
        buffer[:] = rcb.Sphere(2).sample(60, seed=rng)
        users, rewards = buffer.copy(), rng.normal(size=60)
        found, again = one.recommend_many(buffer), two.recommend_many(users)
        buffer[:] = np.nan
        order = rng.permutation(60)
        one.observe_many(rewards[order], tickets=found.ticket[order])
        for k in order:
            two.observe(float(rewards[k]), ticket=int(again.ticket[k]))
        assert one.n_samples == two.n_samples
        np.testing.assert_array_equal(found.arm, again.arm)
        np.testing.assert_array_equal(found.propensity, again.propensity)
    assert one.stage == "exploit"
    with pytest.raises(DataError, match="has come already"):
        one.observe_many([0.0], tickets=[3])
