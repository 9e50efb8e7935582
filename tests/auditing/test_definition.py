"""``definition``: users averaged with their weights, errors that cover the users, plans that pass."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.auditing import view
from rcb_bayes.auditing.view import Asked, make_crowd
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.mechanism.panel import make_panel

N, SIGMA = 10, 0.5
MEAN, VARIANCE = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1e-4, 0.25])


@cache
def rare_type(share: float) -> Market:
    """One type is sure of the first arm; the other, a rare one, expects nothing of either."""
    users = rcb.Empirical(np.eye(2), weights=[1 - share, share])
    return Market(prior=Prior.gaussian(MEAN, VARIANCE), covariates=users, noise=rcb.GaussianNoise(SIGMA))


def plain(share: float, *, n_worlds: int = 100_000) -> tuple[float, float]:
    """E[mu_1 - mu_0 | arm 1] as the first epoch begins, averaged over users, by true rewards."""
    rng = np.random.default_rng(5)
    weights = np.array([1 - share, share])
    counts = np.zeros((n_worlds, 2, 2), dtype=int)  # world, arm, type
    running = np.arange(n_worlds)
    while len(running):  # the rare type has no favourite, so that a coin decides
        kind = (rng.random(len(running)) < share).astype(int)
        arm = np.where(kind == 0, 0, rng.integers(2, size=len(running)))
        counts[running, arm, kind] += 1
        running = running[counts[running].sum(axis=2).max(axis=1) < N]
    for arm in range(2):
        missing = N - counts[:, arm].sum(axis=1)
        rare = rng.binomial(missing, share)
        counts[:, arm, 1] += rare
        counts[:, arm, 0] += missing - rare
    truth = MEAN + np.sqrt(VARIANCE)[:, None] * rng.standard_normal(counts.shape)
    sums = counts * truth + SIGMA * np.sqrt(counts) * rng.standard_normal(counts.shape)
    variance = 1 / (1 / VARIANCE[:, None] + counts / SIGMA**2)
    scores = variance * (MEAN / VARIANCE[:, None] + sums / SIGMA**2)
    gamma = 4 * np.sqrt(2 / (variance.mean(axis=1) @ weights))
    lead = scores[:, 1] - scores[:, 0]  # (worlds, types)
    off = 1 / (2 + gamma[:, None] * np.abs(lead))
    chance = np.where(lead > 0, 1 - off, off)
    gain, mass = (chance * (truth[:, 1] - truth[:, 0])) @ weights, chance @ weights
    ratio = gain.mean() / mass.mean()
    return float(ratio), float((gain - ratio * mass).std() / mass.mean() / np.sqrt(n_worlds))


@cache
def fixed(share: float) -> Plan:
    return rcb.fixed_plan(rare_type(share), n_per_arm=N, exploration_rate=0.2, notion="definition")


@pytest.mark.parametrize("share", [0.05, pytest.param(0.01, marks=pytest.mark.slow)])
def test_audits_scatter_by_their_own_error_around_a_plain_run(share: float):
    mean, error = plain(share)
    z, errors = [], []
    for seed in range(12 if share > 0.01 else 24):
        found = rcb.audit(rare_type(share), fixed(share), horizon=500, n_worlds=300, seed=seed)
        cell = found.margins.sel(stage="epoch 0", arm="arm_1", rival="arm_0")
        errors.append(np.hypot(cell["mcse"].item(), error))
        z.append((cell["estimate"].item() - mean) / errors[-1])
    assert np.sum(np.square(z)) < chi2.ppf(0.9999, len(z))
    # A rare type that counted twice would be told.
    twice, _ = plain(2 * share)
    off = [one + (mean - twice) / error for one, error in zip(z, errors, strict=True)]
    assert np.sum(np.square(off)) > chi2.ppf(0.9999, len(z))


def test_a_guard_weighs_users_as_the_population_does():
    """The exact margin of the open kernel is far below -epsilon: the guard has to close, and its audit to pass."""
    market = rare_type(0.05)
    plan = rcb.calibrate(market, notion="definition", personalised=False, n_per_arm=N, seed=1)
    mean, error = plain(0.05)
    assert mean + 4 * error < -plan.epsilon
    assert plan.guard([1.0, 0.0], 0)[1] < 1.0
    shared: dict[str, Any] = {"horizon": 20_000, "n_worlds": 500, "seed": 3}
    assert rcb.audit(market, plan, **shared).verdict == "pass"
    opened = rcb.audit(market, plan, options=Exploiting(guard=False), **shared)
    assert opened.verdict == "fail"


def asked(notion: str) -> Asked:
    return Asked(notion=as_notion(notion), epsilon=0.05, n_worlds=100, n_users=20, level=0.05, seed=1)


def test_a_table_is_averaged_over_all_its_rows_where_definition_is_asked_for():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    weights = np.linspace(1, 5, 300)
    market = Market(
        prior=Prior.gaussian(MEAN, 0.2), covariates=rcb.Empirical(rows, weights=weights), noise=rcb.GaussianNoise(0.3)
    )
    panel = make_panel(market, n_users=64, rng=np.random.default_rng(1))
    everybody = make_crowd(market, panel, asked("definition"), rng=np.random.default_rng(2)).population
    assert everybody.is_exact
    assert len(everybody.users) == 300
    assert everybody.weights @ everybody.users == pytest.approx(market.covariates.mean, abs=1e-12)
    some = make_crowd(market, panel, asked("user"), rng=np.random.default_rng(2)).population
    assert not some.is_exact


@pytest.mark.slow
def test_errors_cover_the_users_of_a_continuous_population():
    """Audits of the same plan differ by what they say: worlds and users together."""
    prior = Prior.gaussian([[0.4, 0.2], [0.0, 0.0]], 0.1)
    market = Market(prior=prior, covariates=rcb.Ball(2), noise=rcb.GaussianNoise(0.3))
    plan = rcb.fixed_plan(market, n_per_arm=5, exploration_rate=0.3, notion="definition")
    cells = [
        rcb.audit(market, plan, horizon=12, n_worlds=100, seed=seed).margins.sel(
            stage="arm_0", arm="arm_1", rival="arm_0"
        )
        for seed in range(16)
    ]
    estimates = np.array([cell["estimate"].item() for cell in cells])
    errors = np.array([cell["mcse"].item() for cell in cells])
    squares = np.sum((estimates - estimates.mean()) ** 2 / np.mean(errors**2))
    assert chi2.ppf(0.0005, 15) < squares < chi2.ppf(0.9995, 15)


@pytest.mark.slow
def test_averages_beside_a_few_judged_users_have_errors_that_hold(monkeypatch):
    """The first phase on the circle: those who are given arm_1 gain 2/pi of the difference of the means."""
    prior = Prior.gaussian([[0.4, 0.2], [0.1, 0.1]], [0.05, 0.2])
    market = Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.4))
    plan = rcb.fixed_plan(market, n_per_arm=6, exploration_rate=0.2)
    exact = np.hypot(0.3, 0.1) * 2 / np.pi

    def squares() -> float:
        total = 0.0
        for seed in range(24):
            found = rcb.audit(market, plan, horizon=12, n_worlds=50, n_users=8, seed=seed).by_notion["definition"]
            cell = found.sel(stage="most popular", arm="arm_1", rival="arm_0")
            total += ((cell["estimate"].item() - exact) / max(cell["mcse"].item(), 1e-9)) ** 2
        return total

    assert squares() < chi2.ppf(0.9999, 24)
    monkeypatch.setattr(view, "_LEAST_POPULATION", 8)  # those who are judged, and nobody else
    assert squares() > chi2.ppf(0.9999, 24)
