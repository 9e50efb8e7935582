"""Elimination user by user: who is explored for an arm, what that gives up, and that audits see it as it is."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.planning.exploring import Exploring, explored_by
from tests.twins import plain_mechanism as plain
from tests.twins.pooled_truth import rows_of
from tests.twins.truth import Case, compared, scenario_of

MANY = 4.6  # errors, for hundreds of cells
SHARE = 0.1
HORIZON = 300
ROWS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
CASE = Case(
    name="four arms",
    mean=[[0.30, 0.0], [0.2, 0.1], [-0.2, 0.2], [0.1, 0.0]],
    variance=[0.3, 0.3, 0.1, 0.3],
    sigma=0.5,
    rows=ROWS,
    shares=[0.4, 0.3, 0.3],
)
KNOWS = ["stage", "level", "phase", "mechanism"]
ASKED: dict[str, Any] = {"n_per_arm": 4, "epsilon": 0.05, "horizon": HORIZON, "n_worlds": 1000, "seed": 1}


@cache
def chances(n: int = 200_000) -> np.ndarray:
    """How often each arm is the best for each row, (3, K), by draws of the plain side."""
    rewards = np.einsum("nkd,ud->unk", CASE.belief().draw(n, np.random.default_rng(11)), ROWS)
    return np.stack([np.bincount(best, minlength=rewards.shape[2]) for best in rewards.argmax(axis=2)]) / n


def admits(rows: np.ndarray) -> np.ndarray:
    """For whom each arm is explored, worked out without the package: no chance is near the share."""
    found = chances()
    assert (np.abs(found - SHARE) > 0.02).all()
    at = [int(np.abs(ROWS - row).sum(axis=1).argmin()) for row in rows]
    return (found >= SHARE)[at]


@cache
def planned(knows: str) -> tuple[rcb.Market, rcb.Plan, rcb.Audit]:
    market = CASE.market()
    plan = rcb.calibrate(market, exploring=Exploring(eliminate=SHARE, contextual=True), knows=knows, **ASKED)
    assert plan.feasible
    found = rcb.audit(market, plan, horizon=HORIZON, knows=knows, users=ROWS, n_worlds=1000, seed=7)
    return market, plan, found


def apart(knows: str, given: plain.Admits | None) -> float:
    """How many errors the audit and plain rounds are apart."""
    _, plan, found = planned(knows)
    out = plain.run_worlds(scenario_of(CASE, plan, horizon=HORIZON, admits=given), 8000, seed=3)
    rows = compared(CASE, plan, found, out)[0] if knows == "stage" else rows_of(found, out, knows)
    assert len(rows) >= 9
    return max(abs(row.z) for row in rows)


# --- the mechanism ---------------------------------------------------------------------------------------------------


def test_arms_are_explored_with_users_for_whom_they_may_be_best() -> None:
    _, plan, _ = planned("stage")
    wanted = admits(ROWS)
    np.testing.assert_array_equal(plan.before.admitted(ROWS), wanted)
    assert not wanted.all()
    left_over = wanted[:, 2]
    rates = plan.rate(ROWS, saturated=["arm_0", "arm_1", "arm_3"])
    assert (rates[~left_over] == 0.0).all()
    assert rates[left_over].max() > 0.0
    assert plan.unexplored is not None
    expected = np.array(CASE.shares) @ wanted
    assert plan.unexplored.explored_with == pytest.approx(expected.mean())


@pytest.mark.parametrize("knows", ["stage", "level"])
def test_margins_are_those_of_plain_rounds(knows: str) -> None:
    assert apart(knows, admits) < MANY


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["phase", "mechanism"])
def test_margins_are_those_of_plain_rounds_where_users_know_less(knows: str) -> None:
    assert apart(knows, admits) < MANY


def test_everybody_explored_on_the_plain_side_is_found_out() -> None:
    """The planted error: rates are the plan's, but where an arm is not for a user the next one is promoted to her."""

    def other(rows: np.ndarray) -> np.ndarray:
        return admits(rows)[:, [1, 0, 2, 3]] & np.array([True, False, True, True])

    assert apart("stage", other) > MANY


def test_passes_its_audit_and_nobody_is_told_by_exploration_what_is_not_for_her() -> None:
    market, plan, found = planned("stage")
    assert found.by_notion["user"] is not None
    assert found.verdict == "pass"
    agent = rcb.Recommender(market, plan, keep_log=10_000, seed=2)
    rng, wanted = np.random.default_rng(5), admits(ROWS)
    told = 0
    for _ in range(300):
        who = int(rng.integers(3))
        given = agent.recommend(ROWS[who])
        if given.stage == "promoted":
            told += 1
            assert wanted[who, market.arms.index(given.arm)]
        assert sum(given.probabilities.values()) == pytest.approx(1.0)
        agent.observe(float(rng.normal(0.2, 0.5)), ticket=given.ticket)
    assert told > 0


@pytest.mark.parametrize("knows", KNOWS)
def test_its_file_keeps_who_is_explored(knows: str, tmp_path: Path) -> None:
    market = CASE.market()
    asked: dict[str, Any] = ASKED | {"n_worlds": 200, "audit_worlds": 200}
    plan = rcb.calibrate(market, exploring=Exploring(eliminate=SHARE, contextual=True), knows=knows, **asked)
    plan.save(tmp_path / "plan.json")
    again = rcb.Plan.load(tmp_path / "plan.json")
    assert again.agenda == plan.agenda
    assert again.agenda.regions is not None
    for level in range(1, 4):
        names = market.arms[:level]
        np.testing.assert_array_equal(plan.rate(ROWS, saturated=names), again.rate(ROWS, saturated=names))
    with pytest.raises(rcb.RcbError, match="is not distilled"):
        plan.distil(max_leaves=8)


# --- what it gives up ------------------------------------------------------------------------------------------------


def test_what_it_gives_up_is_what_plain_worlds_give_up() -> None:
    mean = np.stack([np.linspace(0.6, -0.6, 8), np.linspace(-0.4, 0.4, 8)], axis=1)
    market = rcb.Market(
        prior=rcb.Prior.gaussian(mean, 0.1),
        covariates=rcb.Uniform([0.0, 0.0], [1.0, 1.0]),
        noise=rcb.GaussianNoise(0.3),
    )
    agenda, told, notes = explored_by(market, Agenda.same(5, 8), Exploring(eliminate=0.04, contextual=True), seed=1)
    assert told is not None
    assert agenda.regions is not None
    rng, n = np.random.default_rng(9), 50_000
    beta = mean + np.sqrt(0.1) * rng.standard_normal((n, 8, 2))
    x = rng.uniform(0.0, 1.0, size=(n, 2))
    rewards = np.einsum("nd,nkd->nk", x, beta)
    explored = agenda.regions.admitted(x, x @ mean.T) & (np.array(agenda.needed) > 0)
    assert not explored.all()

    def given_up(open_to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lost = rewards.max(axis=1) - np.where(open_to, rewards, -np.inf).max(axis=1)
        return lost > 0.0, lost

    for name, values in zip(("best_for", "regret"), given_up(explored), strict=True):
        error = np.hypot(getattr(told, f"{name}_mcse"), values.std() / np.sqrt(n))
        assert abs(getattr(told, name) - values.mean()) < 4 * error
    everybody = explored | explored.any(axis=0)  # the planted error: arms that some are explored for, for everybody
    for name, values in zip(("best_for", "regret"), given_up(everybody), strict=True):
        assert getattr(told, name) - values.mean() > 4 * getattr(told, f"{name}_mcse")
    assert "Each is explored with" in notes[-1]


def test_it_gives_up_more_than_elimination_for_everybody_and_explores_fewer() -> None:
    market = CASE.market()
    each, own = (
        explored_by(market, Agenda.same(5, 4), Exploring(eliminate=0.2, contextual=flag), seed=1)[1]
        for flag in (False, True)
    )
    assert own is not None
    assert own.explored_with is not None
    assert own.explored_with < 1.0
    assert own.best_for > (0.0 if each is None else each.best_for)


def test_it_is_decided_before_any_reward() -> None:
    """Neither what nature gives nor rewards of a private history move it."""
    market = CASE.market()
    nature = rcb.Prior.gaussian(-np.array(CASE.mean), 0.01)
    asked = Exploring(eliminate=SHARE, contextual=True)
    found = [explored_by(one, Agenda.same(5, 4), asked, seed=1) for one in (market, replace(market, nature=nature))]
    pasts = [{"x": ROWS, "arm": [0, 1, 3], "reward": rewards} for rewards in ([1.0, 2.0, 3.0], [-9.0, 0.0, 5.0])]
    found += [explored_by(market.with_history(past, public=False), Agenda.same(5, 4), asked, seed=1) for past in pasts]
    assert all(one[:2] == found[0][:2] for one in found)


def test_with_clusters_an_arm_is_explored_where_one_of_its_cluster_may_be_best() -> None:
    mean = np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5], [0.0, 0.5]])
    pairs = np.kron(np.eye(2), 0.1 * np.ones((2, 2))) + 0.001 * np.eye(4)
    users = rcb.Empirical([[1.0, 0.0], [0.0, 1.0]])
    prior = rcb.Prior.gaussian(mean, np.kron(pairs, np.eye(2)))
    market = rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(0.3))
    asked = Exploring(eliminate=0.3, clusters=2, contextual=True)
    agenda, told, _ = explored_by(market, Agenda.same(5, 4), asked, seed=1)
    assert agenda.regions is not None
    assert told is not None
    assert len(told.siblings) == 2
    admitted = agenda.regions.admitted(users.rows, users.rows @ mean.T)
    centres = [int(np.flatnonzero(agenda.needed[pair : pair + 2])[0]) + pair for pair in (0, 2)]
    assert admitted[0, centres[0]]
    assert admitted[1, centres[1]]
    assert not admitted[0, centres[1]]


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "part"),
    [({"contextual": True}, "Pass eliminate="), ({"eliminate": 0.1, "contextual": "yes"}, "True or False")],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], part: str) -> None:
    with pytest.raises(rcb.RcbError, match=part):
        Exploring(**asked)


def test_one_rate_for_all_is_refused() -> None:
    asked = Exploring(eliminate=SHARE, contextual=True)
    with pytest.raises(rcb.RcbError, match="personalised=True"):
        rcb.calibrate(CASE.market(), exploring=asked, personalised=False, **ASKED)
