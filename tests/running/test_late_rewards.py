"""Rewards that come late or never: what counts, and whether users would still follow."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.running.recommender import Recommender

GAP, SPREAD, SIGMA, N, EPSILON = 0.4, 0.5, 1.5, 40, 0.05
X = np.ones(1)


@cache
def market() -> Market:
    """One kind of user; the old arm is ahead by ``GAP``, and not well known."""
    prior = Prior.gaussian([[GAP], [0.0]], [SPREAD**2, 0.04], arms=["old", "new"])
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(SIGMA))


@cache
def plan(n_per_arm: int = N) -> Plan:
    return rcb.calibrate(market(), epsilon=EPSILON, n_per_arm=n_per_arm, n_worlds=1000, guard=False, seed=1)


@cache
def direct() -> rcb.PosteriorOracle:
    """Round the ArviZ summary: there are many worlds."""
    return rcb.PosteriorOracle(market().prior, market().noise, read="engine")


def margin_of(chances: list[float], worth: list[float]) -> tuple[float, float]:
    """E[mu_new - mu_old | new is recommended] and its error; of the new arm nothing is known but its mean, 0."""
    p, lead = np.array(chances), -np.array(worth)
    estimate = (p * lead).sum() / p.sum()
    return float(estimate), float(np.sqrt(((p * (lead - estimate)) ** 2).sum()) / p.sum())


def once_old_is_known(agent: Recommender) -> float:
    assert agent.saturated == ("old",)
    return float(agent.recommend_proba(X[None])[0, 1])


def served_in_one_go(seed: int, *, give_up_bad: bool) -> tuple[float, float]:
    """A world in which good rewards come first: the chance of the new arm afterwards, and what the old one is worth."""
    rng = np.random.default_rng([seed, 1])
    agent = Recommender(market(), plan(), oracle=direct(), seed=seed)
    worth = GAP + SPREAD * rng.standard_normal()
    while not agent.saturated:
        told = agent.recommend_many(np.ones((3 * N, 1)))
        rewards = worth + SIGMA * rng.standard_normal(3 * N)
        order = np.argsort(rewards < GAP, kind="stable")
        for k in order:
            if rewards[k] < GAP and give_up_bad:
                agent.give_up(int(told.ticket[k]))
            else:
                agent.observe(float(rewards[k]), ticket=int(told.ticket[k]))
    return once_old_is_known(agent), worth


def test_users_follow_when_bad_rewards_are_late():
    runs = [served_in_one_go(seed, give_up_bad=False) for seed in range(500)]
    estimate, error = margin_of(*map(list, zip(*runs, strict=True)))
    assert estimate > -EPSILON - 3 * error
    assert error < 0.04


def test_the_check_notices_when_bad_rewards_are_left_out():
    """The planted error: saturating on what comes in, so on good rewards."""
    runs = [served_in_one_go(seed, give_up_bad=True) for seed in range(200)]
    estimate, error = margin_of(*map(list, zip(*runs, strict=True)))
    assert estimate < -EPSILON - 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("patience", [None, 60])
def test_a_plain_loop_with_bad_rewards_sixty_rounds_later(patience: int | None):
    chances, worths, rounds = [], [], []
    for seed in range(800):
        rng = np.random.default_rng([seed, 2])
        agent = Recommender(market(), plan(), oracle=direct(), patience=patience, seed=seed)
        worth, t = GAP + SPREAD * rng.standard_normal(), 0
        due: dict[int, tuple[float, int]] = {}
        while not agent.saturated:
            if t in due:
                agent.observe(due[t][0], ticket=due[t][1])
            told = agent.recommend(X)
            reward = worth + SIGMA * rng.standard_normal()
            if reward < GAP:
                due[t + 60] = (reward, told.ticket)
            else:
                agent.observe(reward, ticket=told.ticket)
            t += 1
        chances.append(once_old_is_known(agent))
        worths.append(worth)
        rounds.append(t)
    estimate, error = margin_of(chances, worths)
    assert estimate > -EPSILON - 3 * error
    assert error < 0.03
    if patience is not None:  # however the rewards were
        assert set(rounds) == {N + 60 + 1}


# --- what counts -----------------------------------------------------------------------------------------------------


def small(patience: int | None = None) -> Recommender:
    return Recommender(market(), plan(4), patience=patience, seed=1)


def test_an_arm_has_the_rewards_of_its_first_recommendations():
    agent = small()
    tickets = agent.recommend_many(np.ones((10, 1))).ticket
    for ticket in tickets[9:1:-1]:  # the latest first; only the first four count
        agent.observe(100.0 if ticket >= 4 else 1.0, ticket=int(ticket))
    assert agent.n_samples["old"] == 2
    assert agent.is_waiting
    assert agent.saturated == ()
    assert agent.stage == agent.recommend(X).stage == "most popular"
    agent.observe_many([1.0, 1.0], tickets=[0, 1])
    assert agent.saturated == ("old",)
    assert not agent.is_waiting
    assert agent.n_samples == {"old": 4, "new": 0}
    rows = agent._rcb.cold.history.sums()
    assert rows.xty[0, 0, 0] == 4.0


def test_no_arm_counts_while_one_waits():
    """Else the users behind an arm's samples, and which arm is full first, would depend on delays."""
    prior = Prior.gaussian([[0.5, 0.0], [0.0, 0.5]], 0.3)
    two = Market(prior=prior, covariates=rcb.Empirical(np.eye(2)), noise=rcb.GaussianNoise(0.5))
    agent = Recommender(two, rcb.calibrate(two, n_per_arm=3, n_worlds=200), seed=1)
    first = [agent.recommend([1.0, 0.0]).ticket for _ in range(3)]
    for _ in range(5):  # these users like the other arm
        agent.observe(0.4, ticket=agent.recommend([0.0, 1.0]).ticket)
    assert agent.n_samples == {"arm_0": 0, "arm_1": 0}
    agent.observe_many([0.1, 0.2, 0.3], tickets=first)
    assert agent.saturated == ("arm_0",)


def test_what_is_given_up_is_replaced():
    agent = small()
    tickets = agent.recommend_many(np.ones((6, 1))).ticket.tolist()
    agent.observe_many(np.ones(5), tickets=[0, 1, 3, 4, 5])
    assert agent.is_waiting
    agent.give_up(2)
    assert not agent.is_waiting
    with pytest.raises(DataError, match="given up"):
        agent.give_up(2)
    agent.observe(7.0, ticket=2)  # after all: noted, and not used
    assert agent.n_samples["old"] == 3
    agent.observe(1.0, ticket=agent.recommend(X).ticket)
    assert agent.saturated == ("old",)
    assert len(tickets) == 6
    row = agent.unobserved.iloc[0]
    assert (row["stage"], row["arm"], row["n_recommended"]) == ("most popular", "old", 7)
    assert (row["n_observed"], row["n_given_up"], row["n_too_late"]) == (6, 1, 1)
    assert row["share_unobserved"] == pytest.approx(1 / 7)


def test_another_arm_taken_is_replaced():
    agent = small()
    for _ in range(4):
        agent.recommend(X)
        agent.observe(1.0, taken="new")
    assert agent.n_samples == {"old": 0, "new": 0}
    assert not agent.is_waiting


@pytest.mark.parametrize("delay", [0, 3, 5])
def test_patience_ends_a_stage_at_a_round_of_its_own(delay: int):
    """Sooner or later within it is the same; the rewards of what is later are not used."""
    agent, due = small(patience=5), {}
    for t in range(9):
        assert agent.saturated == ()
        due[t + delay] = agent.recommend(X).ticket
        if t in due:
            agent.observe(1.0, ticket=due[t])
    agent.recommend(X)
    assert agent.saturated == ("old",)


def test_patience_gives_up():
    agent = small(patience=5)
    for t in range(9):
        ticket = agent.recommend(X).ticket
        if t != 1:
            agent.observe(1.0, ticket=ticket)
    agent.recommend(X)
    assert agent.saturated == ()
    assert agent.unobserved["n_given_up"].tolist() == [1]
    assert agent.n_pending == 1


def test_an_epoch_feeds_what_has_had_its_time():
    agent = small(patience=2)
    while agent.stage != "exploit":
        agent.observe(0.1, ticket=agent.recommend(X).ticket)
    before = sum(agent.n_samples.values())
    agent.observe(0.1, ticket=agent.recommend(X).ticket)
    counts = []
    for _ in range(5):
        ticket = agent.recommend(X).ticket
        counts.append(sum(agent.n_samples.values()) - before)
        agent.observe(0.1, ticket=ticket)
    assert counts == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("patience", [None, 7])
def test_a_saved_agent_waits_for_the_same_rewards(patience: int | None, tmp_path: Path):
    agent = small(patience=patience)
    tickets = agent.recommend_many(np.ones((6, 1))).ticket.tolist()
    agent.observe_many([0.2, 0.3], tickets=[1, 5])
    agent.give_up(3)
    agent.save(tmp_path / "agent.json")
    again = Recommender.load(tmp_path / "agent.json", market())
    for one in (agent, again):
        one.observe_many([0.4, 0.1, 9.0], tickets=[0, 2, 3])
        for _ in range(12):
            one.observe(0.5, ticket=one.recommend(X).ticket)
    assert agent.n_samples == again.n_samples
    assert agent.saturated == again.saturated == ("old",)
    assert agent.unobserved.equals(again.unobserved)
    assert len(tickets) == 6


@pytest.mark.parametrize("patience", [-1, 1.5, True])
def test_patience_is_a_number_of_rounds(patience: int):
    with pytest.raises(RcbError, match="patience must be an integer"):
        small(patience=patience)
