"""Arms described by a table: exact formulas, and a new arm that has learnt before it comes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rcb_bayes as rcb
from rcb_bayes.posterior import Statistics, make_engine

Z = np.array([[1.0, 0.2], [1.0, -0.5], [1.0, 0.9]])
SCALE, OWN, SIGMA = np.array([0.5, 0.3]), 0.2, 0.4
TABLE = pd.DataFrame(Z, columns=["one", "price"]).assign(arm=["a", "b", "c"])


def prior_of(table: Any, **more: Any) -> rcb.Prior:
    return rcb.load_prior("arm_features", table=table, n_features=2, mean=0.1, scale=SCALE, own=OWN, **more)


def covariance(z: np.ndarray, *, own: float = OWN) -> np.ndarray:
    """Of beta, arm-major, by the formula."""
    return np.kron(z @ np.diag(SCALE**2) @ z.T + own**2 * np.eye(len(z)), np.eye(2))


def posterior_mean(z: np.ndarray, x: np.ndarray, arm: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of beta (K, 2), by plain Gaussian algebra over all samples."""
    design = np.zeros((len(x), 2 * len(z)))
    for k, (row, own) in enumerate(zip(x, arm, strict=True)):
        design[k, 2 * own : 2 * own + 2] = row
    cov = covariance(z)
    gain = cov @ design.T @ np.linalg.inv(design @ cov @ design.T + SIGMA**2 * np.eye(len(x)))
    mean = np.full(2 * len(z), 0.1)
    return (mean + gain @ (y - design @ mean)).reshape(-1, 2)


def test_its_law_is_the_formula_and_it_is_exact(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "arms.csv", index=False)
    by_name = dict(zip("abc", Z.tolist(), strict=True))
    for table in (TABLE, tmp_path / "arms.csv", by_name):
        prior = prior_of(table)
        assert prior.arms == ("a", "b", "c")
        assert prior.is_gaussian
        np.testing.assert_allclose(prior.covariance.values.reshape(6, 6), covariance(Z), atol=1e-12)
    assert prior_of(Z).arms == ("arm_0", "arm_1", "arm_2")
    planted = covariance(Z, own=0.25)
    assert np.abs(prior_of(Z).covariance.values.reshape(6, 6) - planted).max() > 0.02


def test_its_posterior_is_that_of_plain_algebra() -> None:
    rng = np.random.default_rng(1)
    x, arm, y = rng.normal(size=(12, 2)), np.repeat([0, 1], 6), rng.normal(0.5, 0.5, 12)
    engine = make_engine(prior_of(TABLE), rcb.GaussianNoise(SIGMA))
    assert engine.name == "exact"
    found = engine.fit(Statistics.from_rows(x, arm=arm, reward=y, n_arms=3)).mean[0]
    np.testing.assert_allclose(found, posterior_mean(Z, x, arm, y), atol=1e-10)
    assert np.abs(found[2] - 0.1).max() > 0.01  # the arm without samples has learnt


def test_an_arm_that_comes_later_has_learnt_from_the_others_by_its_row() -> None:
    market = rcb.Market(prior=prior_of(TABLE), covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(SIGMA))
    agent = rcb.Recommender(market, rcb.fixed_plan(market, n_per_arm=3, exploration_rate=1.0), keep_log=200, seed=1)
    rng = np.random.default_rng(2)
    while agent.stage != "exploit":
        told = agent.recommend(market.covariates.sample(1, seed=rng)[0])
        agent.observe(float(rng.normal(0.5, SIGMA)), ticket=told.ticket)
        agent._rcb.move_on()
    longer = pd.concat([TABLE, pd.DataFrame([{"one": 1.0, "price": 0.8, "arm": "d"}])], ignore_index=True)
    log: Any = agent.log[agent.log["counted"] == 1]
    agent.add_arm("d", prior_of(longer))
    z = np.vstack([Z, [1.0, 0.8]])
    arm = np.array([market.arms.index(name) for name in log["arm"]])
    expected = posterior_mean(z, log[list(market.features)].to_numpy(), arm, log["reward"].to_numpy())
    scores = agent._rcb.exploitation.scores(np.eye(2))  # pyright: ignore[reportOptionalMemberAccess]
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    other = pd.concat([TABLE, pd.DataFrame([{"one": 1.0, "price": -0.9, "arm": "d"}])], ignore_index=True)
    z[3, 1] = -0.9  # the planted error: another row
    assert (
        np.abs(
            posterior_mean(z, log[list(market.features)].to_numpy(), arm, log["reward"].to_numpy())[3] - scores[3]
        ).max()
        > 1e-3
    )
    assert prior_of(other).arms[-1] == "d"


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"table": Z, "n_arms": 4}, "has 3 arms, and n_arms is 4"),
        ({"table": "nowhere.csv"}, "Cannot read a table"),
        ({"table": {"a": ["red"], "b": ["blue"]}}, "numbers only"),
        ({"table": [[1.0, np.nan], [1.0, 2.0]]}, "finite"),
        ({"table": Z, "scale": [0.1, 0.2, 0.3]}, "one for each of 2 columns"),
        ({"table": Z, "own": 0.0}, "own must be positive"),
    ],
)
def test_tables_that_describe_no_arms_are_refused(asked: dict[str, Any], part: str) -> None:
    with pytest.raises(rcb.RcbError, match=part):
        rcb.load_prior("arm_features", **asked)
