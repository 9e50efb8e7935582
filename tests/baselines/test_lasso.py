"""The lasso bandit: estimates from sums beside those from rows, the forced rounds, and what sparsity is worth."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import rcb_bayes as rcb
from rcb_bayes import Market, Prior
from rcb_bayes.baselines.lasso import lasso
from rcb_bayes.errors import RcbError
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import drive, market


@pytest.mark.parametrize(("n", "d"), [(1, 3), (4, 6), (50, 6), (200, 20)])
@pytest.mark.parametrize("penalty", [0.01, 0.3])
def test_sums_are_as_good_as_rows(n: int, d: int, penalty: float):
    rng = np.random.default_rng(n + d)
    x = rng.normal(size=(n, d))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * rng.normal(size=n)
    rows = Lasso(alpha=penalty / 2, fit_intercept=False, max_iter=100_000, tol=1e-10, random_state=0).fit(x, y).coef_

    def objective(b: np.ndarray) -> float:
        return float(((y - x @ b) ** 2).mean() + penalty * np.abs(b).sum())

    found = lasso(x.T @ x, y @ x, n, penalty=penalty)
    assert objective(found) <= objective(rows) * (1 + 1e-4)
    if n > d:
        np.testing.assert_allclose(found, rows, atol=2e-3)
        assert np.abs(lasso(x.T @ x, y @ x, n, penalty=penalty / 2) - rows).max() > 2e-3  # planted: scikit-learn's half


def test_without_samples_nothing_is_expected():
    np.testing.assert_array_equal(lasso(np.zeros((3, 3)), np.zeros(3), 0, penalty=0.1), 0.0)


@pytest.mark.parametrize("q", [1, 3])
def test_forced_rounds_are_those_of_the_paper(q: int):
    k, n = 3, 400
    wanted = np.full(n, -1)
    for m in range(12):
        for arm in range(k):
            rounds = [(2**m - 1) * k * q + j for j in range(q * arm + 1, q * (arm + 1) + 1)]  # from 1
            for t in rounds:
                if t <= n:
                    wanted[t - 1] = arm
    policy = rcb.baselines.LassoBandit(market(), n_forced=q)
    np.testing.assert_array_equal(policy.forced_arms(n), wanted)
    arms = drive(policy, n)
    np.testing.assert_array_equal(arms[wanted >= 0], wanted[wanted >= 0])
    assert policy.forced.n_samples == (wanted >= 0).sum()
    assert policy.history.n_samples == n


def test_candidates_are_near_the_best_by_forced_samples():
    policy = rcb.baselines.LassoBandit(market(), localization=0.2)
    policy.forced_means = np.array([[0.5, 0.0], [0.45, 0.0], [0.0, 0.0]])
    policy.all_means = np.array([[0.1, 0.0], [0.2, 0.0], [0.9, 0.0]])
    policy.rounds = 7  # not forced
    np.testing.assert_array_equal(policy.recommend_proba(np.array([[1.0, 0.0]])), [[0.0, 1.0, 0.0]])
    policy.localization = 2.0
    np.testing.assert_array_equal(policy.recommend_proba(np.array([[1.0, 0.0]])), [[0.0, 0.0, 1.0]])


@pytest.mark.slow
def test_sparse_coefficients_are_worth_a_penalty():
    """One feature of twenty matters: with hardly any penalty, and no prior, regret is larger."""
    variance = np.zeros(20)
    variance[0] = 1.0
    sparse = Prior.gaussian(np.zeros((2, 20)), np.stack([np.diag(variance)] * 2))
    where = Market(prior=sparse, covariates=rcb.Gaussian(np.eye(20)), noise=rcb.GaussianNoise(0.5))
    regret = [
        simulate(
            where,
            lambda m, seed, p=p: rcb.baselines.LassoBandit(m, n_forced=5, penalty_forced=p, penalty_all=p, batch=10),
            horizon=400,
            n_worlds=20,
            seed=2,
        )["regret"].sum("t")
        for p in (0.3, 1e-3)
    ]
    saved = (regret[1] - regret[0]).values
    assert saved.mean() > 4 * saved.std(ddof=1) / np.sqrt(len(saved))


def test_estimates_may_wait_until_an_arm_has_grown():
    """With growth an arm is renewed at 15 % more samples only: fewer fits, the same last estimates at those."""
    from rcb_bayes.baselines import lasso as module

    market = rcb.Market(
        prior=rcb.Prior.gaussian(np.zeros((2, 3)), 0.5), covariates=rcb.Sphere(3), noise=rcb.GaussianNoise(0.1)
    )
    counts = {}
    for growth in (0.0, 0.15):
        made: list[int] = []
        plain = module.lasso

        def counted(*given: Any, made: list[int] = made, plain: Any = plain, **named: Any) -> Any:
            made.append(1)
            return plain(*given, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "lasso", counted)
            runs = rcb.simulate(
                market,
                lambda own, seed, g=growth: rcb.baselines.LassoBandit(own, growth=g, seed=seed),
                horizon=300,
                n_worlds=1,
            )
        counts[growth] = len(made)
        assert runs["regret"].values[0, 150:].mean() < runs["regret"].values[0, :30].mean()
    assert counts[0.15] < 0.4 * counts[0.0]
    with pytest.raises(RcbError, match="growth must be a number of at least 0"):
        rcb.baselines.LassoBandit(market, growth=-1.0)
