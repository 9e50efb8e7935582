"""Did a log follow its plan? Faithful logs are not accused, planted deviations are found."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior, check_log
from rcb_bayes.auditing.following import tail_of_count
from rcb_bayes.errors import DataError, RcbError

RATE, N = 0.15, 40


@cache
def market() -> Market:
    prior = Prior.gaussian([[0.6, 0.0], [0.0, 0.1], [0.0, 0.0]], 0.2)
    return Market(prior=prior, covariates=rcb.Uniform([0.2, 0], [1, 1]), noise=rcb.GaussianNoise(0.3))


@cache
def plan(rate: float = RATE, n_per_arm: int = N) -> Plan:
    return rcb.fixed_plan(market(), n_per_arm=n_per_arm, exploration_rate=rate)


@cache
def direct() -> rcb.PosteriorOracle:
    return rcb.PosteriorOracle(market().prior, market().noise, read="engine")


@cache
def log(seed: int = 1, n: int = 800, rate: float = RATE, n_per_arm: int = N, delay: int = 0) -> pd.DataFrame:
    """A run of a plan; with a delay rewards come late, and every seventh never."""
    agent = rcb.Recommender(market(), plan(rate, n_per_arm), oracle=direct(), keep_log=n, seed=seed)
    rng = np.random.default_rng([seed, 5])
    beta = market().prior.draw_arrays(1, rng=rng)[0][0]
    due: dict[int, tuple[int, float]] = {}
    for t, x in enumerate(market().covariates.sample(n, seed=rng)):
        if t in due:
            agent.observe(due[t][1], ticket=due[t][0])
        told = agent.recommend(x)
        reward = float(x @ beta[market().arms.index(told.arm)] + 0.3 * rng.standard_normal())
        if not delay:
            agent.observe(reward, ticket=told.ticket)
        elif t % 7:
            due[t + delay] = (told.ticket, reward)
        else:
            agent.give_up(told.ticket)
    return agent.log


def checked(table: pd.DataFrame, by: Plan | None = None, **options: Any) -> rcb.LogCheck:
    return check_log(market(), table, by or plan(), oracle=direct(), **options)


def without_propensities(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=["propensity", *(f"p_{arm}" for arm in market().arms)])


def test_a_faithful_log_is_not_accused():
    found = checked(log())
    assert found.followed, found.summary()
    assert found.n_propensities == 800
    assert set(found.counts["what"].tolist()) == {*market().arms, "exploration"}
    assert found.counts["observed"].to_numpy().sum() > 800
    assert "nothing speaks against the plan" in found.summary()


@pytest.mark.parametrize("delay", [1, 9])
def test_late_and_missing_rewards_are_no_deviation(delay: int):
    table = log(delay=delay)
    assert (table["counted"].to_numpy() == 0).sum() > 100
    assert checked(table).followed, checked(table).summary()


def test_other_columns_will_do():
    """Stages without counts, counts without stages, arms alone without propensities."""
    for columns in (["counted"], ["stage"], ["known_from", "counted", "ticket"]):
        found = checked(without_propensities(log()).drop(columns=columns))
        assert found.followed, found.summary()


@pytest.mark.parametrize("n_seeds", [15, pytest.param(40, marks=pytest.mark.slow)])
def test_faithful_logs_are_accused_no_more_often_than_said(n_seeds: int):
    accused = sum(
        not checked(without_propensities(log(seed, 350, n_per_arm=12)), plan(n_per_arm=12)).followed
        for seed in range(n_seeds)
    )
    assert accused <= binom.ppf(0.999, n_seeds, 0.05)


# --- deviations ------------------------------------------------------------------------------------------------------


def test_a_higher_rate_is_found_in_the_propensities():
    found = checked(log(rate=1.5 * RATE))
    assert not found.followed
    assert any(text.startswith("propensities: ") and "the plan says" in text for text in found.deviations)


def test_a_higher_rate_is_found_in_the_counts():
    """Where the log keeps its propensities to itself, or lies about them."""
    table = without_propensities(log(rate=1.5 * RATE, n=1500, n_per_arm=100))
    found = checked(table, plan(n_per_arm=100))
    assert any("exploration came up" in text for text in found.deviations), found.summary()


def test_a_stage_that_was_skipped_is_found():
    table = log()
    left = np.flatnonzero(~np.isin(table["stage"].to_numpy(), ["promoted", "organic"]))
    tickets = np.arange(len(left))
    found = checked(table.iloc[left].assign(ticket=tickets, known_from=tickets + 1))
    assert any(text.startswith("stages: ") and "'exploit' where the plan is at" in text for text in found.deviations)


def test_fewer_samples_than_planned_are_found():
    found = checked(log(n_per_arm=N // 2))
    assert any(text.startswith("stages: ") for text in found.deviations)


def test_organic_rounds_that_are_counted_are_found():
    table = log()
    found = checked(table.assign(counted=1))
    assert any("rounds are counted that the plan does not count" in text for text in found.deviations)


def test_an_arm_that_is_favoured_in_exploitation_is_found():
    table = without_propensities(log())
    later = np.flatnonzero(table["stage"].to_numpy() == "exploit")[:300]
    arm = table["arm"].to_numpy(dtype=object).copy()
    arm[later] = "arm_2"
    table = table.assign(arm=arm, taken=arm)
    assert any("arm_2 came up" in text for text in checked(table).deviations)


# --- counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [30, 5000])
def test_tails_are_those_of_a_binomial(n: int):
    for chance in (0.02, 0.4):
        for count in (int(n * chance), int(n * chance + 2 * np.sqrt(n * chance)), int(n * chance * 0.8)):
            both = 2 * min(binom.cdf(count, n, chance), binom.sf(count - 1, n, chance))
            assert tail_of_count(count, np.full(n, chance)) == pytest.approx(min(both, 1.0), rel=0.03, abs=1e-3)
    assert tail_of_count(3, np.ones(3)) == 1.0
    assert tail_of_count(2, np.ones(3)) == 0.0
    assert tail_of_count(1, np.zeros(3)) == 0.0


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.iloc[100:], "from the first on"),
        (lambda table: table.drop(columns=["stage", "counted"]), "needs the column stage, or counted"),
        (lambda table: table.assign(stage="pause"), "the stage 'pause'"),
    ],
)
def test_logs_that_do_not_show_it_are_refused(change: Any, message: str):
    with pytest.raises(DataError, match=message):
        checked(change(log()))


def test_other_questions_are_refused(tmp_path: Path):
    with pytest.raises(RcbError, match="level"):
        checked(log(), level=2.0)
    other = replace(market(), noise=rcb.GaussianNoise(0.4))
    with pytest.raises(RcbError, match="The noise is not"):
        check_log(other, log(), plan())
    log().to_csv(tmp_path / "log.csv", index=False)
    assert check_log(market(), tmp_path / "log.csv", plan(), oracle=direct()).followed


@pytest.mark.parametrize("cell", ["soon", "", "1e400", "true"])
def test_a_ticket_that_is_no_number_is_named(cell: str, tmp_path: Path):
    table = log(n=60).astype({"ticket": object})
    table.loc[7, "ticket"] = cell
    for given in (table, tmp_path / "log.csv"):
        table.to_csv(tmp_path / "log.csv", index=False)
        with pytest.raises(DataError, match=r"'ticket' of the log has no finite number|its tickets are not 0, 1, 2"):
            check_log(market(), given, plan())
