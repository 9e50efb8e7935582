"""Logged runs: realised margins, what a log can and cannot tell, and logs that are refused."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Prior, audit_log
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.running.worlds import SimulatedWorld


@cache
def market(bernoulli: bool = False) -> Market:
    prior = Prior.gaussian([[0.5, 0.0], [0.0, 0.0]], 0.2)
    noise = rcb.BernoulliLogit() if bernoulli else rcb.GaussianNoise(0.3)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=noise)


@cache
def log(kind: str = "greedy", n: int = 400, bernoulli: bool = False) -> pd.DataFrame:
    """A run of a policy in one world: by the true best arm, by its opposite, or by a coin."""
    world = SimulatedWorld(market(bernoulli), np.random.SeedSequence(3))
    page = world.page(0)
    x = page.x[:n]
    truth = x @ world.beta.T
    rng = np.random.default_rng(4)
    chances = np.full((n, 2), 0.5)
    if kind != "coin":
        best = truth.argmax(axis=1) if kind == "greedy" else truth.argmin(axis=1)
        chances = np.where(np.arange(2) == best[:, None], 0.95, 0.05)
    arm = (rng.random(n) > chances[:, 0]).astype(int)
    reward = world.rewards(0, arm)
    table = pd.DataFrame(x, columns=list(market().features))
    return table.assign(
        arm=np.array(market().arms)[arm],
        reward=reward,
        p_arm_0=chances[:, 0],
        p_arm_1=chances[:, 1],
        propensity=chances[np.arange(n), arm],
    )


def test_a_run_by_the_truth_stands_high_and_one_against_it_low():
    good = audit_log(market(), log("greedy", n=2000)).margins.isel(stage=-1)
    assert (good["lower"].where(good["verdict"] >= 0) > -0.05).sum() == 2
    broken = audit_log(market(), log("worst", n=2000))
    assert broken.realised["upper"] < -0.05
    last = broken.margins.isel(stage=-1)
    assert (last["upper"].where(last["verdict"] >= 0) < -0.05).any()


@pytest.mark.parametrize("kind", ["greedy", "worst"])
def test_one_run_has_no_verdict(kind: str, tmp_path: Path):
    found = audit_log(market(), log(kind, n=2000))
    assert found.verdict == "realised"
    assert found.verdicts == {}
    for word in ("pass", "fail", "inconclusive"):
        assert word not in found.summary()
    assert f"lowest margin {found.realised['lowest']:.2g}"[:17] in found.summary()
    assert "one run cannot tell whether a mechanism is fair" in found.summary()
    found.to_netcdf(tmp_path / "audit.nc")
    again = rcb.Audit.load(tmp_path / "audit.nc")
    assert again.summary() == found.summary()
    assert again.realised == found.realised


# --- beside faithful runs --------------------------------------------------------------------------------------------


@cache
def plan() -> rcb.Plan:
    return rcb.calibrate(market(), epsilon=0.1, n_per_arm=8, n_worlds=300, guard=False, seed=1)


@cache
def faithful(seed: int, n: int = 200) -> pd.DataFrame:
    """A run of the plan in a world of the belief, as its recommender logs it."""
    oracle = rcb.PosteriorOracle(market().prior, market().noise, read="engine")
    agent = rcb.Recommender(market(), plan(), oracle=oracle, keep_log=n, seed=seed)
    world = SimulatedWorld(market(), np.random.SeedSequence(seed))
    page = world.page(0)
    for x, noise in zip(page.x[:n], page.noise[:n], strict=True):
        told = agent.recommend(x)
        reward = float(x @ world.beta[market().arms.index(told.arm)] + 0.3 * noise)
        agent.observe(reward, ticket=told.ticket)
    return agent.log


def test_the_share_of_faithful_runs_that_look_as_bad():
    found = audit_log(market(), faithful(1), plan=plan(), n_runs=100)
    told = found.realised
    assert found.epsilon == 0.1
    assert told["n_runs"] == 100
    assert 1 / 101 <= told["share_as_low"] <= 1.0
    assert "of 100 faithful runs, same users, come to as little" in found.summary()
    assert told["lowest"] == pytest.approx(float(found.margins["estimate"].min()))


@pytest.mark.slow
def test_faithful_logs_look_like_faithful_runs():
    """Shares of faithful logs are uniform; those of a log that goes by the worst arm are small."""
    from scipy.stats import kstest

    shares = [
        audit_log(market(), faithful(seed), plan=plan(), n_runs=40).realised["share_as_low"] for seed in range(25)
    ]
    jittered = np.array(shares) - np.random.default_rng(1).random(25) / 41
    assert kstest(jittered, "uniform").pvalue > 0.001
    assert kstest(jittered**3, "uniform").pvalue < 0.01  # a law that is off is told apart
    broken = log("worst", n=200)
    assert audit_log(market(), broken, plan=plan(), n_runs=40).realised["share_as_low"] < 0.06


def test_it_is_labelled_as_what_it_is():
    found = audit_log(market(), log())
    assert found.kind == "realised"
    assert "realised margins of one log" in found.summary()
    assert "not what users expected" in found.summary()
    assert set(found.by_notion) == {"proof", "definition"}
    assert [str(name) for name in found.margins["stage"].values] == [
        "rounds 1 to 64",
        "rounds 65 to 128",
        "rounds 129 to 256",
        "rounds 257 to 400",
    ]


def test_margins_are_weighted_means_of_what_was_expected():
    """The last window by hand: the posterior of the rounds before it, then averages over its users."""
    table, found = log("coin"), audit_log(market(), log("coin"))
    before, after = table.iloc[:256], table.iloc[256:]
    means = []
    for k, arm in enumerate(market().arms):
        own = before[before["arm"] == arm]
        x, y = own[list(market().features)].to_numpy(), own["reward"].to_numpy()
        precision = np.eye(2) / 0.2 + x.T @ x / 0.09
        means.append(np.linalg.solve(precision, market().prior.mean.values[k] / 0.2 + x.T @ y / 0.09))
    x = after[list(market().features)].to_numpy()
    lead = x @ (means[1] - means[0])
    cell = found.margins.isel(stage=-1).sel(arm="arm_1", rival="arm_0")
    assert cell["estimate"].item() == pytest.approx(lead.mean(), abs=1e-10)
    assert cell["mcse"].item() == pytest.approx(0.5 * lead.std(ddof=1) / np.sqrt(len(x)) / 0.5, rel=0.1)
    joint = found.by_notion["proof"].isel(stage=-1).sel(arm="arm_1", rival="arm_0")
    assert joint["estimate"].item() == pytest.approx(0.5 * lead.mean(), abs=1e-10)


def test_without_propensities_what_was_recommended_counts():
    bare = log("coin").drop(columns=["p_arm_0", "p_arm_1", "propensity"])
    one, two = audit_log(market(), log("coin")), audit_log(market(), bare)
    cell = {"arm": "arm_1", "rival": "arm_0"}
    first, second = (found.margins.isel(stage=-1).sel(cell) for found in (one, two))
    assert first["mcse"].item() < second["mcse"].item()
    assert abs(first["estimate"].item() - second["estimate"].item()) < 4 * second["mcse"].item()


def test_samples_that_were_not_counted_do_not_enter():
    table = log("coin")
    none = audit_log(market(), table.assign(counted=0))
    prior = market().prior.mean.values
    lead = table.iloc[256:][list(market().features)].to_numpy() @ (prior[1] - prior[0])
    cell = none.margins.isel(stage=-1).sel(arm="arm_1", rival="arm_0")
    assert cell["estimate"].item() == pytest.approx(lead.mean(), abs=1e-10)


def test_files_and_bernoulli_rewards(tmp_path: Path):
    path = tmp_path / "log.csv"
    log("coin", n=200).to_csv(path, index=False)
    assert (
        audit_log(market(), path)
        .margins["estimate"]
        .equals(audit_log(market(), log("coin", n=200)).margins["estimate"])
    )
    found = audit_log(market(bernoulli=True), log("greedy", n=200, bernoulli=True))
    assert found.margins["estimate"].max() < 1  # in probabilities


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns=["reward", "feature_1"]), "lacks the columns feature_1, reward"),
        (lambda table: table.head(10), "has 10 rounds"),
        (lambda table: table.assign(arm="arm_7"), "the arm 'arm_7'"),
        (lambda table: table.assign(reward=np.nan), "no finite number in row 1"),
        (lambda table: table.assign(feature_0="red"), "'red'"),
        (lambda table: table.assign(propensity=0.0), "row 1 has the propensity 0"),
        (lambda table: table.assign(p_arm_0=0.9), "must sum to one; in row 1"),
        (lambda table: table.drop(columns="p_arm_0"), "lacks p_arm_0"),
    ],
)
def test_logs_that_cannot_be_read_are_refused(change: Any, message: str):
    with pytest.raises(DataError, match=message):
        audit_log(market(), change(log()))


def test_questions_that_a_log_cannot_answer_are_refused(tmp_path: Path):
    with pytest.raises(RcbError, match="each user once"):
        audit_log(market(), log(), notion="user")
    with pytest.raises(RcbError, match="epsilon"):
        audit_log(market(), log(), epsilon=-1)
    with pytest.raises(RcbError, match="first_window"):
        audit_log(market(), log(), first_window=3)
    with pytest.raises(DataError, match="Cannot read a log"):
        audit_log(market(), tmp_path / "nothing.csv")
