"""A history of the past: public, it is the belief; private, it counts towards N and users know no reward of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rcb_bayes as rcb
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.simulator import Simulator
from rcb_bayes.posterior import Statistics, make_engine
from tests.twins import plain_mechanism as plain
from tests.twins.pooled_truth import rows_of
from tests.twins.truth import Case, compared, scenario_of

MANY = 4.6  # errors, for hundreds of cells
ROWS = [[1.0, 0.0], [0.6, 0.8], [0.2, 1.0]]
CASE = Case(
    name="three arms",
    mean=[[0.30, 0.0], [0.15, 0.25], [0.10, 0.05]],
    variance=[0.3, 0.5, 0.4],
    sigma=0.5,
    rows=ROWS,
    shares=[0.5, 0.3, 0.2],
)
ASKED: dict[str, Any] = {"epsilon": 0.05, "horizon": 300, "n_worlds": 1000, "seed": 1}


def table_of(counts: tuple[int, ...], *, seed: int = 0) -> pd.DataFrame:
    """So many samples of each arm, of users in turn."""
    arm = np.repeat(np.arange(len(counts)), counts)
    x = np.array(ROWS)[np.arange(len(arm)) % len(ROWS)]
    reward = np.random.default_rng(seed).normal(0.2, 0.5, size=len(arm))
    frame = pd.DataFrame(x, columns=["feature_0", "feature_1"])
    return frame.assign(arm=[f"arm_{k}" for k in arm], reward=reward)


def past_of(table: pd.DataFrame) -> tuple[np.ndarray, ...]:
    return tuple(table.loc[table["arm"] == f"arm_{k}", ["feature_0", "feature_1"]].to_numpy() for k in range(3))


# --- public ----------------------------------------------------------------------------------------------------------


def test_a_gaussian_belief_is_updated_exactly() -> None:
    market, table = CASE.market(), table_of((4, 2, 0))
    after = market.prior.given(table, noise=market.noise)
    arm = np.repeat([0, 1], [4, 2])
    x, y = table[["feature_0", "feature_1"]].to_numpy(), table["reward"].to_numpy()
    for k, variance in enumerate((0.3, 0.5, 0.4)):
        own, rewards = x[arm == k], y[arm == k]
        precision = np.eye(2) / variance + own.T @ own / 0.25
        pull = np.array(CASE.mean[k]) / variance + own.T @ rewards / 0.25
        np.testing.assert_allclose(after.mean.values[k], np.linalg.solve(precision, pull), rtol=1e-12)
        cov = after.covariance.sel(arm=f"arm_{k}", arm_2=f"arm_{k}").values
        np.testing.assert_allclose(cov, np.linalg.inv(precision), rtol=1e-10)


def test_a_mixture_given_data_is_the_engine_s_posterior_and_twice_is_once() -> None:
    draws = np.random.default_rng(3).normal([[0.4], [0.1]], 0.05, size=(2000, 2, 1))
    draws[::2, 0] -= 0.8
    prior, noise = rcb.Prior.from_draws(draws), rcb.GaussianNoise(0.5)
    assert prior.law is not None
    assert not prior.law.is_gaussian
    first = {"x": [[1.0], [1.0]], "arm": [0, 1], "reward": [0.3, 0.2]}
    second = {"x": [[1.0]], "arm": [0], "reward": [-0.2]}
    both = {"x": [[1.0]] * 3, "arm": [0, 1, 0], "reward": [0.3, 0.2, -0.2]}
    after = prior.given(both, noise=noise)
    data = Statistics.from_rows(both["x"], arm=both["arm"], reward=both["reward"], n_arms=2)
    np.testing.assert_allclose(after.mean.values, make_engine(prior, noise).fit(data).mean[0], rtol=1e-10)
    one_by_one = prior.given(first, noise=noise).given(second, noise=noise)
    np.testing.assert_allclose(after.mean.values, one_by_one.mean.values, rtol=1e-10)
    np.testing.assert_allclose(after.covariance.values, one_by_one.covariance.values, rtol=1e-8, atol=1e-12)


def test_a_plan_for_a_public_history_is_the_plan_for_the_belief_given_it() -> None:
    market, table = CASE.market(), table_of((5, 0, 3))
    told = rcb.calibrate(market, history=table, public=True, n_per_arm=4, **ASKED)
    given = market.prior.given(table, noise=market.noise)
    by_hand = rcb.Market(prior=given, covariates=market.covariates, noise=market.noise)
    assert told.to_json() == rcb.calibrate(by_hand, n_per_arm=4, **ASKED).to_json()
    assert told.to_json() != rcb.calibrate(market, n_per_arm=4, **ASKED).to_json()  # it does matter


def test_platform_and_nature_that_differ_are_told_too() -> None:
    other = rcb.Prior.gaussian(np.zeros((3, 2)), 1.0)
    market = replace(CASE.market(), platform_prior=other, nature=other)
    after = market.with_history(table_of((3, 3, 3)), public=True)
    assert after.platform_prior is after.nature
    expected = other.given(table_of((3, 3, 3)), noise=market.noise)
    np.testing.assert_array_equal(after.platform_prior.mean.values, expected.mean.values)


@pytest.mark.slow
def test_a_belief_without_a_closed_form_is_sampled_with_the_data_observed() -> None:
    prior = rcb.load_prior("student_t", n_arms=2, n_features=1)
    rng = np.random.default_rng(1)
    data = {"x": np.ones((20, 1)), "arm": [0] * 20, "reward": 0.4 + 0.5 * rng.standard_normal(20)}
    after = prior.given(data, noise=rcb.GaussianNoise(0.5))
    exact = make_engine(prior, rcb.GaussianNoise(0.5)).fit(
        Statistics.from_rows(data["x"], arm=data["arm"], reward=data["reward"], n_arms=2)
    )
    assert after.fit is not None
    error = after.fit.mean_mcse
    assert (np.abs(after.mean.values - exact.mean[0]) < 5 * error + 1e-3).all()
    assert abs(after.mean.values[0] - prior.mean.values[0]) > 5 * error[0]  # the data do say something


# --- private ---------------------------------------------------------------------------------------------------------


def test_samples_of_before_are_samples_of_one_s_own_posterior_for_posterior() -> None:
    """An agent that is handed what another one sampled stands where that one stands, and goes on alike."""
    market = CASE.market()
    plan = rcb.calibrate(market, n_per_arm=4, **ASKED)
    first = rcb.Recommender(market, plan, keep_log=10_000, seed=3)
    rng = np.random.default_rng(5)
    while first.stage != "rest of the arms":
        told = first.recommend(ROWS[rng.integers(3)])
        first.observe(float(rng.normal(0.2, 0.5)), ticket=told.ticket)
    log = first.log[first.log["counted"] == 1]
    known = market.with_history(log[["feature_0", "feature_1", "arm", "reward"]], public=False)
    short = rcb.calibrate(known, n_per_arm=4, **ASKED)
    second = rcb.Recommender(known, short, seed=3)
    assert second.saturated == first.saturated
    assert second.n_samples == first.n_samples
    one, other = (agent.posterior()["posterior/beta"].mean(("chain", "draw")) for agent in (first, second))
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-12)
    assert short.expected_cold_start < plan.expected_cold_start - 3


def test_a_plan_with_samples_of_before_is_the_rest_of_the_plan_without() -> None:
    """One kind of users, so that designs are known: samples of before are samples of the most popular arm's phase."""
    case = replace(CASE, mean=[[0.3], [0.2], [0.1]], rows=[[1.0]], shares=[1.0])
    market = case.market()
    asked: dict[str, Any] = ASKED | {"n_worlds": 4000}
    whole = rcb.calibrate(market, n_per_arm=6, **asked)
    past = {"x": [[1.0]] * 6, "arm": [0] * 6, "reward": [0.1] * 6}
    rest = rcb.calibrate(market, history=past, public=False, n_per_arm=6, **asked)
    assert rest.agenda == Agenda(needed=(6, 6, 6), past=(6, 0, 0))
    assert [stage.saturated for stage in rest.stages] == [stage.saturated for stage in whole.stages]
    for one, other in zip(rest.stages, whole.stages, strict=True):
        assert abs(one.rate - other.rate) <= 4 * np.hypot(one.rate_mcse, other.rate_mcse)
    error = np.hypot(rest.expected_cold_start_mcse, whole.expected_cold_start_mcse)
    assert abs(rest.expected_cold_start + 6 - whole.expected_cold_start) < 4 * error
    few = {"x": [[1.0]], "arm": [0], "reward": [0.1]}  # the planted error: one sample in the place of six
    other = rcb.calibrate(market, history=few, public=False, n_per_arm=[1, 6, 6], **asked)
    assert abs(other.stages[0].rate - whole.stages[0].rate) > 4 * whole.stages[0].rate_mcse


def test_rewards_of_before_do_not_move_a_plan() -> None:
    market = CASE.market()
    one, two = (
        rcb.calibrate(market, history=table_of((4, 1, 0), seed=k), public=False, n_per_arm=4, **ASKED) for k in (1, 2)
    )
    assert one.to_json() == two.to_json()


@pytest.mark.parametrize(("counts", "knows"), [((5, 2, 0), "stage"), ((0, 2, 3), "level"), ((2, 6, 6), "mechanism")])
def test_margins_are_those_of_plain_rounds(counts: tuple[int, ...], knows: str) -> None:
    table = table_of(counts)
    market = CASE.market().with_history(table, public=False)
    plan = rcb.calibrate(market, n_per_arm=5, knows=knows, **ASKED)
    assert plan.feasible
    found = rcb.audit(market, plan, horizon=300, users=np.array(ROWS), n_worlds=1000, knows=knows, seed=7)
    scenario = scenario_of(CASE, plan, horizon=300, past=past_of(table))
    out = plain.run_worlds(scenario, 8000, seed=3)

    def apart(worlds: plain.Outcome) -> float:
        rows = compared(CASE, plan, found, worlds)[0] if knows == "stage" else rows_of(found, worlds, knows)
        return max(abs(row.z) for row in rows)

    assert apart(out) < MANY
    if knows == "stage":  # the planted error: samples of other users than there were
        wrong = replace(scenario, past=tuple(0.1 * rows for rows in past_of(table)))
        assert apart(plain.run_worlds(wrong, 8000, seed=3)) > MANY


@pytest.mark.parametrize("knows", ["stage", "level", "phase", "mechanism"])
def test_a_history_that_fills_every_arm_leaves_no_cold_start(knows: str) -> None:
    market = CASE.market().with_history(table_of((5, 5, 6)), public=False)
    asked: dict[str, Any] = ASKED | {"n_worlds": 200, "audit_worlds": 200}
    whole = rcb.calibrate(market, n_per_arm=5, knows=knows, **asked)
    assert whole.feasible
    assert whole.expected_cold_start == 0.0
    assert rcb.Recommender(market, whole, seed=1).recommend(ROWS[0]).stage == "exploit"
    for exploring in (rcb.Exploring(eliminate=0.01, contextual=True), rcb.Exploring(clusters=1, top=1)):
        plan = rcb.calibrate(market, n_per_arm=5, knows=knows, exploring=exploring, **asked)
        assert plan.to_json() == whole.to_json()  # nothing is left to be explored


def test_a_run_in_simulated_worlds_draws_the_rewards_of_before_in_each() -> None:
    market = CASE.market().with_history(table_of((5, 5, 5)), public=False)
    plan = rcb.fixed_plan(market, n_per_arm=5, exploration_rate=0.5)
    assert plan.expected_cold_start == 0.0
    runs = rcb.simulate(market, plan, horizon=10, n_worlds=30, seed=1)
    assert (runs["cold_start_length"] == 0).all()
    first = runs["recommended"].isel(t=0)
    assert len(np.unique(first)) == 3  # what was remembered differs from world to world


def test_audits_of_agents_and_logs_know_the_history(tmp_path: Path) -> None:
    table = table_of((5, 2, 0))
    market = CASE.market().with_history(table, public=False)
    plan = rcb.calibrate(market, n_per_arm=5, **ASKED)
    agent = rcb.Recommender(market, plan, keep_log=10_000, seed=2)
    rng = np.random.default_rng(5)
    for _ in range(150):
        x = np.array(ROWS[rng.integers(3)])
        agent.observe(float(rng.normal(x.sum() * 0.2, 0.5)), ticket=agent.recommend(x).ticket)
    assert rcb.check_log(market, agent.log, plan).followed
    with pytest.raises(rcb.RcbError, match="counts on a private history of 7 samples"):
        rcb.check_log(CASE.market(), agent.log, plan)
    with pytest.raises(rcb.RcbError, match="counts on a private history of 7 samples"):
        rcb.audit(CASE.market(), plan, n_worlds=50)  # it would take arms for saturated that have no samples
    found = rcb.audit_log(market, agent.log, plan=plan, n_runs=10, seed=1)
    assert found.verdict == "realised"
    agent.save(tmp_path / "agent.json")
    again = rcb.Recommender.load(tmp_path / "agent.json", market)
    assert again.recommend(ROWS[0]).probabilities == agent.recommend(ROWS[0]).probabilities
    with pytest.raises(rcb.RcbError, match="private history"):
        rcb.Recommender.load(tmp_path / "agent.json", CASE.market())


def test_the_rewards_that_the_agent_was_given_are_those_it_acts_on() -> None:
    good, bad = table_of((5, 5, 5)), table_of((5, 5, 5))
    good.loc[good["arm"] == "arm_2", "reward"] = 3.0
    told = []
    for table in (good, bad):
        market = CASE.market().with_history(table, public=False)
        told.append(
            rcb.Recommender(market, rcb.fixed_plan(market, n_per_arm=5), seed=1).recommend(ROWS[1]).probabilities
        )
    assert told[0]["arm_2"] > 0.9 > told[1]["arm_2"]


def test_zero_one_rewards_are_counted_for_users_of_the_table() -> None:
    prior = rcb.Prior.gaussian([[0.6], [0.0]], 1.0)
    users = rcb.Empirical([[1.0], [0.5]])
    market = rcb.Market(prior=prior, covariates=users, noise=rcb.BernoulliLogit())
    past = {"x": [[1.0], [0.5], [1.0]], "arm": [0, 0, 0], "reward": [1.0, 0.0, 1.0]}
    plan = rcb.calibrate(market, history=past, public=False, n_per_arm=3, epsilon=0.1, n_worlds=200, seed=1)
    assert plan.stages[0].saturated == ("arm_0",)
    assert plan.expected_cold_start < 40
    strange = {"x": [[0.7]], "arm": [0], "reward": [1.0]}
    with pytest.raises(rcb.RcbError, match="rows of the covariates' table"):
        Simulator(market.with_history(strange, public=False), seed=1)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "public", "part"),
    [
        ({}, None, "public or private"),
        ({"arm": "arm_7"}, False, "no arm 'arm_7'"),
        ({"reward": np.nan}, True, "reward"),
        ({"feature_0": np.inf}, False, "finite"),
    ],
)
def test_impossible_histories_are_refused(change: dict, public: bool | None, part: str) -> None:
    with pytest.raises(rcb.RcbError, match=part):
        rcb.calibrate(CASE.market(), history=table_of((2, 2, 2)).assign(**change), public=public)


def test_a_history_of_other_features_or_twice_or_of_nothing_is_refused() -> None:
    market, table = CASE.market(), table_of((2, 2, 2))
    with pytest.raises(rcb.RcbError, match="feature_1"):
        market.with_history(table.rename(columns={"feature_1": "age"}), public=False)
    with pytest.raises(rcb.RcbError, match="already"):
        market.with_history(table, public=False).with_history(table, public=False)
    with pytest.raises(rcb.RcbError, match="there is none"):
        rcb.calibrate(market, public=True)
    with pytest.raises(rcb.RcbError, match="How did these rewards"):
        market.prior.given(table)
    unknown = rcb.load_prior("unknown_noise", n_arms=2, n_features=2)
    with pytest.raises(rcb.RcbError, match="about the noise"):
        unknown.given(table, noise=market.noise)
