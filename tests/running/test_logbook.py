"""The recommender's log: what a row says, how much is kept, files, and resuming."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior, Recommender
from rcb_bayes.errors import RcbError


@cache
def market() -> Market:
    prior = Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"], features=["price", "speed"])
    return Market(prior=prior, covariates=rcb.Uniform([0, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


@cache
def plan() -> Plan:
    return rcb.calibrate(market(), epsilon=0.1, n_per_arm=5, n_worlds=300, guard=False, seed=1)


def serve(agent: Recommender, n: int, *, seed: int = 2) -> None:
    """Some rewards are given up, and the last ones are still out."""
    for k, x in enumerate(market().covariates.sample(n, seed=seed)):
        told = agent.recommend(x)
        if k % 5 == 4:
            agent.give_up(told.ticket)
        elif k < n - 4:
            agent.observe(0.4 * x.sum(), ticket=told.ticket)


def agent(keep: int | str | Path) -> Recommender:
    return Recommender(market(), plan(), keep_log=keep, seed=1)


def test_a_row_says_what_was_told_and_what_came_of_it():
    live = agent(100)
    told = live.recommend([0.9, 0.1])
    row = live.log.iloc[0]
    assert (row["ticket"], row["price"], row["speed"]) == (0, 0.9, 0.1)
    assert (row["arm"], row["stage"], row["propensity"]) == (told.arm, told.stage, told.propensity)
    assert {arm: row[f"p_{arm}"] for arm in market().arms} == told.probabilities
    assert (row["counted"], np.isnan(row["reward"]), np.isnan(row["known_from"])) == (0, True, True)
    live.recommend([0.5, 0.5])
    live.observe(0.7, ticket=0)
    row = live.log.iloc[0]
    assert (row["reward"], row["counted"], row["known_from"], row["taken"]) == (0.7, 1, 2, told.arm)


def test_counts_are_those_of_the_recommender():
    live = agent(1000)
    serve(live, 200)
    table = live.log
    counted, taken = table["counted"].to_numpy() == 1, table["taken"].to_numpy()
    assert {arm: int((taken[counted] == arm).sum()) for arm in market().arms} == live.n_samples
    assert np.isfinite(table["reward"].to_numpy()).sum() == live.unobserved["n_observed"].to_numpy().sum()
    assert not counted[table["stage"].to_numpy() == "organic"].any()


def test_many_at_a_time_are_logged_alike():
    users = market().covariates.sample(60, seed=3)
    one, many = agent(100), agent(100)
    for start in (0, 20, 40):
        told = many.recommend_many(users[start : start + 20])
        for x in users[start : start + 20]:
            one.recommend(x)
        tickets = range(start, start + 20)
        many.observe_many(np.full(20, 0.3), tickets=told.ticket)
        for ticket in tickets:
            one.observe(0.3, ticket=ticket)
    pd.testing.assert_frame_equal(one.log, many.log)


def test_another_arm_taken_is_told_apart():
    live = agent(1000)
    serve(live, 200)
    assert live.stage == "exploit"
    told = live.recommend([0.9, 0.1])
    other = next(arm for arm in market().arms if arm != told.arm)
    live.observe(0.5, ticket=told.ticket, taken=other)
    row = live.log.iloc[-1]
    assert (row["arm"], row["taken"], row["counted"]) == (told.arm, other, 1)


def test_the_last_rounds_are_kept():
    live = agent(20)
    serve(live, 50)
    assert live.log["ticket"].tolist() == list(range(30, 50))


def test_a_file_has_all_of_them(tmp_path: Path):
    path = tmp_path / "logs" / "log.csv"
    kept, written = agent(1000), agent(path)
    serve(kept, 120)
    serve(written, 120)
    pd.testing.assert_frame_equal(kept.log, written.log, check_dtype=False)
    with path.open(newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + 120 - written.n_pending
    assert rcb.audit_log(market(), path).verdict == "realised"
    assert rcb.check_log(market(), written.log, plan()).followed


@pytest.mark.parametrize("to_file", [False, True])
def test_a_saved_agent_goes_on_with_its_log(to_file: bool, tmp_path: Path):
    live = agent(tmp_path / "log.csv" if to_file else 1000)
    serve(live, 60)
    live.save(tmp_path / "agent.json")
    again = Recommender.load(tmp_path / "agent.json", market())
    pd.testing.assert_frame_equal(again.log, live.log, check_dtype=False)
    again.observe(0.1, ticket=57)
    serve(again, 20, seed=4)
    assert again.log["ticket"].tolist() == list(range(80))
    assert again.log["reward"].iloc[57] == 0.1


def test_what_cannot_be_kept_is_refused(tmp_path: Path):
    with pytest.raises(RcbError, match="keeps no log"):
        _ = Recommender(market(), plan()).log
    for wrong in (0, -3, True):
        with pytest.raises(RcbError, match="keep_log is a number"):
            agent(wrong)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(RcbError, match="log of another market"):
        agent(tmp_path / "other.csv")
    with pytest.raises(RcbError, match="Cannot write a log"):
        agent(tmp_path)
    serve(agent(tmp_path / "log.csv"), 20)
    with pytest.raises(RcbError, match="rounds already"):
        agent(tmp_path / "log.csv")


def test_what_a_process_wrote_after_its_last_save_is_put_aside(tmp_path: Path):
    """It dies, and is resumed: its tickets come again."""
    path = tmp_path / "log.csv"
    live = agent(path)
    serve(live, 60)
    live.save(tmp_path / "agent.json")
    saved = live.log
    serve(live, 30, seed=3)
    dead = live.log
    again = Recommender.load(tmp_path / "agent.json", market())
    pd.testing.assert_frame_equal(again.log, saved, check_dtype=False)
    with path.open(newline="", encoding="utf-8") as file:
        lines = len(list(csv.reader(file)))
    assert lines == 1 + 90 - live.n_pending  # to load is not to write
    again.save(tmp_path / "agent.json")
    again = Recommender.load(tmp_path / "agent.json", market())
    serve(again, 20, seed=4)
    assert again.log["ticket"].tolist() == list(range(80))
    assert rcb.check_log(market(), again.log, plan()).followed
    lost = pd.read_csv(tmp_path / "log.csv.lost")
    assert set(lost["ticket"]) <= set(dead["ticket"])
    assert max(lost["ticket"].tolist()) >= 80


def test_an_arm_that_came_after_the_last_save_is_no_other_market(tmp_path: Path):
    path = tmp_path / "log.csv"
    own = market()
    live = Recommender(own, rcb.fixed_plan(own, n_per_arm=3), keep_log=path, seed=1)
    serve(live, 20)
    live.save(tmp_path / "agent.json")
    live.add_arm("newest", ([0.1, 0.1], 0.25))
    serve(live, 20)
    again = Recommender.load(tmp_path / "agent.json", own)
    serve(again, 80)
    assert again.log["ticket"].tolist() == list(range(100))
    assert "p_newest" not in again.log
    with path.open(newline="", encoding="utf-8") as file:
        assert "p_newest" not in next(csv.reader(file))
    assert rcb.audit_log(own, path).verdict == "realised"
