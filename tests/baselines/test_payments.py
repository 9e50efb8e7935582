"""Payments: the bill is the integral of what users lose beyond epsilon, in closed form where there is one."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes.baselines import Payments, bill
from rcb_bayes.behaviour import participation
from rcb_bayes.errors import RcbError

MU, VARIANCE, SIGMA, N, EPSILON = (0.5, 0.2), 0.25, 0.3, 8, 0.05


def alike() -> rcb.Market:
    prior = rcb.Prior.gaussian([[MU[0]], [MU[1]]], VARIANCE, arms=["old", "new"])
    return rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(SIGMA))


def first_then(rounds: int) -> Any:
    """The old arm so many times, then the new one."""

    def make(market: rcb.Market, seed: int) -> Any:
        told = [0]

        def recommend_proba(x: np.ndarray) -> np.ndarray:
            return np.tile([1.0, 0.0] if told[0] < rounds else [0.0, 1.0], (len(x), 1))

        def update(x: np.ndarray, arm: np.ndarray, reward: np.ndarray) -> None:
            told[0] += len(x)

        return rcb.as_policy(recommend_proba, update)

    return make


def excess(mean: float, sd: float) -> float:
    """E[max(Z, 0)] of a normal Z."""
    return float(sd * norm.pdf(mean / sd) + mean * norm.cdf(mean / sd))


def spread() -> float:
    """The standard deviation of the posterior mean after N samples."""
    return float(np.sqrt(VARIANCE * VARIANCE / (VARIANCE + SIGMA**2 / N)))


def expected_bill(epsilon: float) -> float:
    """Of the N first users, who are told their favourite as long as it is, and of the one who tries the new arm.

    After n samples m_0 is normal around mu_0; telling the old arm costs (mu_1 - m_0 - epsilon)+.
    """
    total = excess(MU[0] - MU[1] - epsilon, spread())
    for n in range(1, N):
        sd = np.sqrt(VARIANCE * VARIANCE / (VARIANCE + SIGMA**2 / n))
        total += excess(MU[1] - MU[0] - epsilon, sd)
    return float(total)


def test_the_bill_is_what_users_lose_beyond_epsilon() -> None:
    runs = rcb.simulate(
        alike(),
        lambda market, seed: Payments(market, first_then(N), epsilon=EPSILON, seed=seed),
        horizon=N + 1,
        n_worlds=1500,
        seed=1,
    )
    found = bill(runs, epsilon=EPSILON)
    error = found["total_mcse"].item()
    assert abs(found["total"].item() - expected_bill(EPSILON)) < 4 * error
    assert abs(found["total"].item() - expected_bill(0.0)) > 4 * error  # the planted error: epsilon forgotten
    paid = found["share_paid"].item() * (N + 1)
    assert found["per_payment"].item() == pytest.approx(found["total"].item() / paid)
    assert found["per_exploration"].item() <= found["per_payment"].item()


def test_payments_add_up_as_they_are_made() -> None:
    market = alike()
    policy = Payments(market, first_then(2), epsilon=EPSILON)
    x, features = np.ones((1, 1)), np.ones((1, 1))
    for _ in range(4):
        decisions = policy.decide(x, features, np.full((1, 2), 0.5))
        policy.update(x, decisions, np.array([1.0]))
    # The old arm's mean after 2 samples of 1: then the new one is told twice, the second time after a sample of it.
    after = {n: (MU[0] / VARIANCE + n / SIGMA**2) / (1 / VARIANCE + n / SIGMA**2) for n in range(3)}
    new = (MU[1] / VARIANCE + 1 / SIGMA**2) / (1 / VARIANCE + 1 / SIGMA**2)
    expected = (after[2] - MU[1] - EPSILON) + max(after[2] - new - EPSILON, 0.0)
    assert policy.paid == pytest.approx(expected)
    assert policy.n_paid == 1 + (after[2] - new > EPSILON)
    assert policy.n_by_arm.tolist() == [2, 2]


def test_hidden_exploration_costs_less_than_open_payments() -> None:
    """The audit's bill and what users gain, in closed form: one stage, everybody explored at a rate of .5."""
    q = 0.5
    plan = rcb.fixed_plan(alike(), n_per_arm=N, exploration_rate=q, epsilon=EPSILON)
    audit = rcb.audit(alike(), plan, horizon=60, n_worlds=4000, n_users=1, users=np.ones((1, 1)), seed=3)
    found = participation(alike(), audit).sel(stage="old")
    sd, gap = spread(), MU[0] - MU[1]
    best = excess(-gap, sd)  # E[(mu_1 - m_0)+]
    chance = q + (1 - q) * norm.cdf(-gap / sd)
    gain = q * -gap + (1 - q) * best
    cell = audit.margins.sel(stage="old", arm="new", rival="old", user=0)
    assert abs(found["gain"].item() - gain) < 4 * found["gain_mcse"].item() + 1e-9
    due = -gain - EPSILON * chance
    assert due > 0
    assert abs(found["bill"].item() - due) < 4 * chance * cell["mcse"].item() + 1e-9
    assert found["bill"].item() < q * (gap - EPSILON)  # what openly explored users lose


def test_greedy_is_free_and_ignoring_it_gains_nothing() -> None:
    runs = rcb.simulate(alike(), lambda market, seed: rcb.baselines.Greedy(market), horizon=50, n_worlds=5, seed=1)
    assert bill(runs, epsilon=0.0)["total"].item() == 0.0
    audit = rcb.audit(alike(), lambda market, seed: rcb.baselines.Greedy(market), horizon=9, n_worlds=200, seed=1)
    assert bool((participation(alike(), audit)["mean_gain"] > -1e-9).all())


def test_bad_input() -> None:
    runs = rcb.simulate(alike(), first_then(1), horizon=4, n_worlds=2)
    thin = rcb.simulate(alike(), lambda market, seed: Payments(market), horizon=4, n_worlds=2, every=2)
    with pytest.raises(RcbError, match="does not say what it expects"):
        bill(runs, epsilon=0.1)
    with pytest.raises(RcbError, match="needs every round"):
        bill(thin, epsilon=0.1)
    with pytest.raises(RcbError, match="epsilon must be a finite number"):
        Payments(alike(), epsilon=-1.0)
