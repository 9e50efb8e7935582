"""Off-policy values: equal to plain loops, unbiased, and covered in logs of adaptive policies."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import rcb_bayes as rcb
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.evaluation import ESTIMATORS
from rcb_bayes.evaluation.estimators import steadying_weights
from tests.evaluation.adaptive_logs import adaptive_log, market
from tests.evaluation.other_logs import bandit_log, mean_rewards

# --- twins -----------------------------------------------------------------------------------------------------------


def plain_values(table: pd.DataFrame, target: np.ndarray, arms: list[str]) -> dict[str, tuple[float, float, float]]:
    """Values, errors and degrees of freedom of every weighted estimator, round by round."""
    n, k = len(table), len(arms)
    x = np.column_stack([np.ones(n), table["feature_0"], table["feature_1"]])
    arm = [arms.index(label) for label in table["arm"]]
    y = table["reward"].tolist()
    e = [[float(table[f"p_{label}"].iloc[t]) for label in arms] for t in range(n)]
    edges = [0, 20]
    while edges[-1] < n:
        edges.append(int(1.5 * edges[-1]))
    mu = np.zeros((n, k))
    for t in range(n):
        start = max(edge for edge in edges if edge <= t)
        for a in range(k):
            gram, xy = np.eye(3), np.zeros(3)
            for s in range(start):
                if arm[s] == a:
                    gram += np.outer(x[s], x[s])
                    xy += x[s] * y[s]
            mu[t, a] = x[t] @ np.linalg.inv(gram) @ xy
    used = [t for t in range(n) if table["stage"].iloc[t] == "exploit"]
    w = {t: target[t, arm[t]] / e[t][arm[t]] for t in used}
    out = {}
    m = len(used)
    value = sum(w[t] * y[t] for t in used) / m
    told = sum(w.values()) ** 2 / sum(w[t] ** 2 for t in used) - 1
    out["ips"] = value, np.sqrt(sum((w[t] * y[t] - value) ** 2 for t in used) / (m - 1) / m), told
    total = sum(w.values())
    value = sum(w[t] * y[t] for t in used) / total
    out["snips"] = value, np.sqrt(sum(w[t] ** 2 * (y[t] - value) ** 2 for t in used) * m / (m - 1)) / total, told
    gamma = {t: sum(target[t, a] * mu[t, a] for a in range(k)) + w[t] * (y[t] - mu[t, arm[t]]) for t in used}
    value = sum(gamma.values()) / m
    out["dr"] = value, np.sqrt(sum((gamma[t] - value) ** 2 for t in used) / (m - 1) / m), told
    h: dict[int, float] = {}
    past, count, keep = float(k), 1.0, np.exp(-1 / 100)
    for t in used:
        h[t] = (past / count) ** -0.5
        u = sum(target[t, a] ** 2 / e[t][a] for a in range(k) if target[t, a] > 0)
        past, count = keep * past + u, keep * count + 1.0
    whole = sum(h.values())
    value = sum(h[t] * gamma[t] for t in used) / whole
    squares = sum(h[t] ** 2 for t in used)
    size = whole**2 / squares
    seen = np.sqrt(sum(h[t] ** 2 * (gamma[t] - value) ** 2 for t in used)) / whole * np.sqrt(size / (size - 1))
    residual = {t: (y[t] - mu[t, arm[t]]) ** 2 for t in used}
    pooled = sum(residual.values()) / m
    by_arm = []
    for a in range(k):
        own = [t for t in used if arm[t] == a]
        inverse = [1 / e[t][a] for t in own]
        mean = sum(inverse) / len(own) if own else 0.0
        plain = (sum(residual[t] for t in own) + pooled) / (len(own) + 1)
        weighted = sum(i * residual[t] for i, t in zip(inverse, own, strict=True)) + mean * pooled
        by_arm.append(max(plain, weighted / (sum(inverse) + mean)) if own else pooled)
    q = np.array([sum(target[t, a] * mu[t, a] for a in range(k)) for t in used])
    variance = 0.0
    for t in used:
        drawn = sum(target[t, a] ** 2 / e[t][a] * by_arm[a] for a in range(k) if target[t, a] > 0)
        variance += h[t] ** 2 * (drawn + q.var())
    out["adaptive"] = value, max(seen, np.sqrt(variance) / whole), size - 1
    return out


@pytest.mark.parametrize("kind", ["arm", "mixed"])
def test_estimators_are_plain_loops(kind: str):
    table, _ = adaptive_log(3, n_arms=3, horizon=150, multiple=0.3)
    here = market(3)
    n = len(table)
    chances = np.random.default_rng(1).dirichlet(np.ones(3), size=n)
    target = np.tile([0.0, 1.0, 0.0], (n, 1)) if kind == "arm" else chances
    found = rcb.evaluate(table, "arm_1" if kind == "arm" else chances, here, stages="exploit")
    for name, (value, error, degrees) in plain_values(table, target, list(here.arms)).items():
        own = found.sel(estimator=name)
        assert own["value"].item() == pytest.approx(value, abs=1e-10), name
        assert own["mcse"].item() == pytest.approx(error, abs=1e-10), name
        half = stats.t.isf(0.025, degrees) * error
        assert own["lower"].item() == pytest.approx(value - half, abs=1e-9)
        if name != "adaptive":
            assert own["n_effective"].item() == pytest.approx(degrees + 1)


def test_the_direct_method_is_its_regression():
    table, _ = adaptive_log(4, horizon=200)
    found = rcb.evaluate(table, "arm_1", market(), estimators=["direct"])
    x = np.column_stack([np.ones(len(table)), table["feature_0"], table["feature_1"]])
    own = np.asarray(table["arm"] == "arm_1")
    y = np.asarray(table["reward"])
    beta = np.linalg.solve(x[own].T @ x[own] + np.eye(3), x[own].T @ y[own])
    assert found["value"].item() == pytest.approx((x @ beta).mean(), abs=1e-10)


def test_weights_look_back_only():
    squares = np.random.default_rng(1).exponential(size=50)
    weights = steadying_weights(squares, first=2.0)
    later = squares.copy()
    later[30:] *= 100.0
    np.testing.assert_array_equal(weights[:31], steadying_weights(later, first=2.0)[:31])
    assert (steadying_weights(later, first=2.0)[31:] < weights[31:]).all()
    assert weights[0] == pytest.approx(2.0**-0.5)


# --- coverage --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("thompson", "deterministic"), [(True, False), (False, True)])
def test_coverage_in_logs_of_other_bandits(thompson: bool, deterministic: bool):
    """500 logs of Thompson sampling, an arm for everybody; of epsilon-greedy, the best arm of each user by lines.

    In the second the regression of lines is wrong. The usual interval of IPS is the planted one.
    """
    many = np.random.default_rng(99).normal(size=(1_000_000, 2))

    def wanted(x: np.ndarray) -> np.ndarray:
        best = mean_rewards(x, curved=False).argmax(axis=1) if deterministic else np.full(len(x), 2)
        return np.eye(3)[best]

    true = float((wanted(many) * mean_rewards(many, curved=not thompson)).sum(axis=1).mean())
    hits, errors = dict.fromkeys(("ips", "dr", "adaptive"), 0), []
    for seed in range(500):
        log = bandit_log(seed, thompson=thompson)
        found = rcb.evaluate(log, wanted(log["context"]), estimators=list(hits))
        errors.append(found["value"].sel(estimator="adaptive").item() - true)
        for name in hits:
            own = found.sel(estimator=name)
            hits[name] += bool(own["lower"] <= true <= own["upper"])
    print({name: count / 500 for name, count in hits.items()}, f"mean error {np.mean(errors):.4f}")
    assert hits["adaptive"] >= 0.94 * 500
    assert stats.binomtest(hits["ips"], 500, 0.95, alternative="less").pvalue < 1e-6  # the planted one
    assert abs(np.mean(errors)) < 4 * stats.sem(errors)


@pytest.mark.slow
@pytest.mark.parametrize(("n_arms", "horizon", "multiple"), [(2, 1000, 10.0), (3, 2000, 5.0)])
def test_coverage_in_adaptive_logs(n_arms: int, horizon: int, multiple: float):
    """500 logs of RCB: everybody told the arm that it told least. Adaptive intervals cover, plain ones do not."""
    hits = dict.fromkeys(ESTIMATORS, 0)
    errors = []
    for seed in range(500):
        table, truth = adaptive_log(seed, n_arms=n_arms, horizon=horizon, multiple=multiple)
        late = table[table["stage"] == "exploit"]
        rare = min(market(n_arms).arms, key=lambda label: late[f"p_{label}"].mean())
        true = truth[market(n_arms).arms.index(rare)]
        found = rcb.evaluate(table, rare, market(n_arms), stages="exploit")
        errors.append(found["value"].sel(estimator="adaptive").item() - true)
        for name in ESTIMATORS:
            own = found.sel(estimator=name)
            hits[name] += bool(own["lower"] <= true <= own["upper"])
    print({name: count / 500 for name, count in hits.items()}, f"mean error {np.mean(errors):.4f}")
    assert hits["adaptive"] >= 0.94 * 500
    assert stats.binomtest(hits["ips"], 500, 0.95, alternative="less").pvalue < 1e-6  # the planted one
    assert abs(np.mean(errors)) < 4 * stats.sem(errors)


def test_a_fixed_log_is_covered_by_all():
    """Propensities of one half each, told apart from rewards: the usual intervals hold."""
    hits = dict.fromkeys(("ips", "snips", "dr", "adaptive"), 0)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        x, arm = rng.random((150, 2)), rng.integers(0, 2, 150)
        beta = np.array([[0.5, 0.1], [0.2, 0.6]])
        log = {
            "action": arm,
            "reward": (x * beta[arm]).sum(axis=1) + 0.5 * rng.normal(size=150),
            "pscore": np.full(150, 0.5),
            "context": x,
            "n_actions": 2,
            "pi_b": np.full((150, 2, 1), 0.5),
        }
        found = rcb.evaluate(log, "arm_1", estimators=list(hits))
        for name in hits:
            own = found.sel(estimator=name)
            hits[name] += bool(own["lower"] <= 0.4 <= own["upper"])
    for name, count in hits.items():
        assert stats.binomtest(count, 150, 0.95, alternative="less").pvalue > 1e-4, name


# --- logs and policies -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return adaptive_log(1, horizon=300, multiple=1.0)[0]


def same(one: Any, other: Any) -> bool:
    return bool(np.allclose(one["value"], other["value"], atol=1e-12))


def test_logs_come_in_several_forms(table: pd.DataFrame, tmp_path: Path):
    here = market()
    whole = rcb.evaluate(table, "arm_1", here, stages="exploit")
    table.to_csv(tmp_path / "log.csv", index=False)
    assert same(rcb.evaluate(tmp_path / "log.csv", "arm_1", here, stages="exploit"), whole)
    late = table[table["stage"] == "exploit"].reset_index(drop=True)
    obp = {
        "n_rounds": len(late),
        "n_actions": 2,
        "context": np.asarray(late[list(here.features)]),
        "action": np.asarray(late["arm"] == "arm_1").astype(int),
        "reward": np.asarray(late["reward"]),
        "pscore": np.asarray(late["propensity"]),
        "position": None,
        "pi_b": np.asarray(late[["p_arm_0", "p_arm_1"]])[:, :, None],
    }
    by_table = rcb.evaluate(late, "arm_1", here)
    assert same(rcb.evaluate(obp, "arm_1"), by_table)
    assert same(rcb.evaluate(obp, "arm_1", here), by_table)
    dist = np.zeros((len(late), 2, 1))
    dist[:, 1] = 1.0
    assert same(rcb.evaluate(obp, dist), by_table)
    alone = rcb.evaluate({name: value for name, value in obp.items() if name != "pi_b"}, "arm_1")
    np.testing.assert_allclose(alone["value"][:3], by_table["value"][:3])
    assert "too small" in alone.attrs["note"]


def test_policies_come_in_several_forms(table: pd.DataFrame):
    here = market()
    late = table[table["stage"] == "exploit"].reset_index(drop=True)
    one = rcb.evaluate(late, "arm_1", here)
    assert same(rcb.evaluate(late, lambda x: np.tile([0.0, 1.0], (len(x), 1)), here), one)
    assert same(rcb.evaluate(late, np.tile([0.0, 1.0], (len(late), 1)), here), one)
    assert same(rcb.evaluate(late, rcb.baselines.AlwaysArm(here, "arm_1"), here), one)


def test_a_recommender_evaluates_its_own_log():
    here = market()
    plan = rcb.fixed_plan(here, n_per_arm=5, exploration_rate=0.5)
    agent = rcb.Recommender(here, plan, keep_log=1000, seed=1)
    for x in here.covariates.sample(200, seed=2):
        agent.observe(float(x.sum()), ticket=agent.recommend(x).ticket)
    waiting = agent.recommend(here.covariates.sample(1, seed=3)[0])
    found = rcb.evaluate(agent, "arm_0", stages="exploit")
    assert found.attrs["n_missing"] == 1
    assert waiting.ticket == 200
    assert same(rcb.evaluate(agent.log, "arm_0", here, stages="exploit"), found)
    own = rcb.evaluate(agent, agent, stages="exploit")
    assert np.isfinite(own["value"]).all()
    # Its own value is that of what it told, in rounds told as now.
    assert abs(own["value"].sel(estimator="ips").item() - own.attrs["logged_value"]) < 0.5


def test_results_are_saved_and_read_back(table: pd.DataFrame, tmp_path: Path):
    import xarray as xr

    found = rcb.evaluate(table, "arm_1", market(), stages="exploit")
    found.to_netcdf(tmp_path / "values.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "values.nc", engine="h5netcdf") as again:
        xr.testing.assert_equal(again.load(), found)
    assert list(found["estimator"].values) == list(ESTIMATORS)


def test_another_regression_is_used(table: pd.DataFrame):
    here = market()
    plain = rcb.evaluate(table, "arm_1", here, stages="exploit")
    oracle = rcb.PosteriorOracle(here.prior, here.noise, read="engine")
    found = rcb.evaluate(table, "arm_1", here, stages="exploit", oracle=oracle)
    assert not same(plain, found)
    np.testing.assert_allclose(plain["value"][:2], found["value"][:2])


# --- bad input -------------------------------------------------------------------------------------------------------


def without(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    return table.drop(columns=[name for name in table.columns if name.startswith(names)])


def test_a_log_without_propensities_says_what_remains(table: pd.DataFrame):
    bare = without(table, "p_", "propensity")
    with pytest.raises(DataError, match=r"no propensities.*a regression is left.*estimators=\['direct'\]"):
        rcb.evaluate(bare, "arm_1", market())
    found = rcb.evaluate(bare, "arm_1", market(), estimators="direct")
    assert np.isfinite(found["value"]).all()
    assert "nothing vouches" in found.attrs["note"]


def test_a_data_file_of_another_study_is_refused_in_a_line(tmp_path: Path):
    (tmp_path / "trial.csv").write_text("pidnum,age,arms,cd420\n" + "1,40,2,300\n" * 60, encoding="utf-8")
    with pytest.raises(DataError, match="arm") as caught:
        rcb.evaluate(tmp_path / "trial.csv", "arm_1", market())
    assert "\n" not in str(caught.value)


def test_zero_propensities_where_the_policy_has_mass_are_refused(table: pd.DataFrame):
    with pytest.raises(DataError, match=r"In [\d,]+ of 300 rounds .* row 1, 'arm_1'.*stages='exploit'"):
        rcb.evaluate(table, "arm_1", market())
    assert np.isfinite(rcb.evaluate(table, "arm_1", market(), estimators=["direct"])["value"]).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"policy": "arm_9"}, RcbError, "no arm 'arm_9'"),
        ({"policy": np.ones((3, 2)) / 2}, DataError, "row for each"),
        ({"policy": lambda x: np.ones((len(x), 3)) / 3}, DataError, "each of 2 arms"),
        ({"policy": lambda x: np.ones((len(x), 2))}, DataError, "sum to one"),
        ({"policy": 7}, RcbError, "policy is the label"),
        ({"estimators": ["drr"]}, RcbError, "no estimator 'drr'"),
        ({"estimators": []}, RcbError, "empty"),
        ({"level": 0.0}, RcbError, "level"),
        ({"stages": "exploits"}, DataError, "no stage 'exploits'"),
        ({"market": None}, RcbError, "needs its market"),
        ({"oracle": rcb.Heeding(rcb.RidgeOracle())}, RcbError, "not cut"),
    ],
)
def test_what_is_refused(table: pd.DataFrame, change: dict[str, Any], error: type[Exception], message: str):
    asked: dict[str, Any] = {"policy": "arm_1", "market": market(), "stages": "exploit"} | change
    with pytest.raises(error, match=message):
        rcb.evaluate(table, **asked)


OBP = {"action": np.arange(60) % 2, "reward": np.zeros(60), "pscore": np.full(60, 0.5), "n_actions": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": None}, "needs the key action"),
        ({"action": np.full(60, 5)}, "whole number from 0 to 1"),
        ({"reward": np.full(60, np.nan)}, "reward"),
        ({"pscore": np.zeros(60)}, "above 0"),
        ({"pscore": None}, "no propensities"),
        ({"position": np.arange(60) % 3}, "several positions"),
        ({"context": np.zeros((3, 2))}, "row for each"),
        ({"pi_b": np.ones((60, 2))}, "sum to one"),
        ({"reward": np.zeros(3)}, "the least"),
        ({"pi_b": np.full((60, 2), 0.5), "pscore": np.full(60, 0.9)}, "pscore and pi_b differ in round 1: 0.9 and 0.5"),
        ({"pi_b": np.full((60, 2, 1), 0.5), "position": np.ones(60, dtype=int)}, "1 positions, .* at position 1"),
    ],
)
def test_open_bandit_logs_that_cannot_be(change: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        rcb.evaluate(OBP | change, "arm_1")


def test_open_bandit_logs_of_a_later_position():
    """Every list position has propensities of its own: those of the log's are taken."""
    rng = np.random.default_rng(1)
    chances = rng.dirichlet(np.ones(2), size=(60, 3)).swapaxes(1, 2)  # (n, K, positions)
    own = OBP | {"reward": rng.normal(size=60), "pscore": chances[np.arange(60), OBP["action"], 2]}
    found = rcb.evaluate(own | {"pi_b": chances, "position": np.full(60, 2)}, "arm_1")
    assert same(found, rcb.evaluate(own | {"pi_b": chances[:, :, 2]}, "arm_1"))


def test_propensities_given_twice_must_agree(table: pd.DataFrame):
    late: Any = table[table["stage"] == "exploit"].reset_index(drop=True)
    wrong: Any = late.copy()
    wrong.loc[4, "propensity"] = 0.5 * wrong.loc[4, "propensity"]
    with pytest.raises(DataError, match="differ in row 5"):
        rcb.evaluate(wrong, "arm_1", market())
    assert same(rcb.evaluate(without(late, "propensity"), "arm_1", market()), rcb.evaluate(late, "arm_1", market()))


def test_an_arm_that_no_round_told_has_no_error_that_was_seen(table: pd.DataFrame):
    """All terms of IPS are 0 there: an interval of no width at 0 would be a lie."""
    late = table[(table["stage"] == "exploit") & (table["arm"] == "arm_0")].reset_index(drop=True)
    found = rcb.evaluate(late, "arm_1", market())
    plain = found.sel(estimator=["ips", "snips", "dr"])
    assert np.isnan(plain[["mcse", "lower", "upper"]].to_array()).all()
    sure = found.sel(estimator="adaptive")
    assert sure["lower"] < 0.0 < sure["upper"]  # as wide as the propensities have it
    assert rcb.evaluate(late, "arm_1", market(), estimators="direct").attrs["note"].startswith("the regression alone")
