"""Cells that worlds leave open, in closed form: decided, right, and with errors that allow for the panel of users."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import rcb_bayes as rcb
from rcb_bayes import Market, Plan, Prior
from rcb_bayes.auditing.plan_views import plan_views
from rcb_bayes.auditing.sharpening import SharpCells, sharpened
from rcb_bayes.auditing.view import Asked, View
from rcb_bayes.mechanism import simulator
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.notions import USER
from tests.twins.gap_twins import normal_truth

SIGMA, N, EPSILON, GAP = 0.3, 8, 0.05, 0.3


# --- two arms, one user ----------------------------------------------------------------------------------------------


@cache
def two_arms(variance: float, correlation: float = 0.0) -> Market:
    prior = Prior.gaussian(np.array([[GAP], [0.0]]), variance * np.array([[1.0, correlation], [correlation, 1.0]]))
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(SIGMA))


def exact_margin(variance: float, rate: float, correlation: float = 0.0) -> float:
    """Of the second arm against the first, once that is saturated; it moves by the correlation times as much."""
    truth = normal_truth(-GAP, (1.0 - correlation) * variance / np.sqrt(variance + SIGMA**2 / N), [])
    return (-rate * GAP + (1 - rate) * truth.gain) / (rate + (1 - rate) * truth.positive)


def plan_with_margin(variance: float, margin: float, correlation: float = 0.0) -> Plan:
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_margin(variance, middle, correlation) > margin else (low, middle)
    market = two_arms(variance, correlation)
    return rcb.fixed_plan(market, n_per_arm=N, exploration_rate=low, epsilon=EPSILON, notion="user")


@pytest.mark.parametrize("n_seeds", [2, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("variance", "correlation"), [(0.3, 0.0), (0.05, 0.0), (0.01, 0.0), (0.1, 0.5)])
def test_a_margin_off_by_02_is_decided_by_a_thousand_worlds(variance: float, correlation: float, n_seeds: int):
    """However rarely the arm is the best: at .01 in six worlds of a million. And so it is much closer to the line."""
    market = two_arms(variance, correlation)
    for off in (0.02, -0.02, 1e-4, -1e-4):
        plan = plan_with_margin(variance, -EPSILON + off, correlation)
        for seed in range(n_seeds):
            found = rcb.audit(market, plan, horizon=N + 1, n_worlds=1000, seed=seed)
            assert found.verdict == ("pass" if off > 0 else "fail")
            cell = found.margins.sel(stage="arm_0", arm="arm_1", rival="arm_0").isel(user=0)
            assert cell["estimate"].item() == pytest.approx(-EPSILON + off, abs=1e-9)


# --- three arms, users on the circle ---------------------------------------------------------------------------------

MEANS = {"different": [[0.5, 0.2], [0.2, 0.2], [0.1, 0.0]], "tied": [[0.5, 0.2], [0.2, 0.1], [0.2, 0.1]]}
MEANS["coupled"] = [[0.4, 0.2], [0.3, 0.2], [0.25, 0.1]]
COUPLING = {"different": 0.0, "tied": 0.0, "coupled": 0.3}
USERS = np.array([[np.cos(angle), np.sin(angle)] for angle in (0.0, 0.4, 0.8, 2.0)])


@cache
def three_arms(case: str) -> Market:
    root = np.diag(np.sqrt([0.1, 0.2, 0.05]))
    between = root @ (np.eye(3) + COUPLING[case] * (1.0 - np.eye(3))) @ root
    prior = Prior.gaussian(np.array(MEANS[case]), np.kron(between, np.eye(2)))
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.5))


def views(market: Market, plan: Plan, *, n_worlds: int, seed: int, horizon: int = 60) -> list[View]:
    asked = Asked(notion=USER, epsilon=EPSILON, n_worlds=n_worlds, n_users=1, level=0.05, seed=seed, users=USERS)
    return plan_views(market, plan, asked, horizon=horizon, options=Exploiting(guard=False)).views


def all_cells(view: View) -> SharpCells:
    """Every cell in closed form, in doubt or not."""
    assert view.smoothed is not None
    doubtful = np.repeat((view.smoothed.fixed > 0.0)[:, :, None], 3, axis=2) & ~np.eye(3, dtype=bool)
    found = sharpened(view, doubtful, notion=USER, epsilon=EPSILON)
    assert found is not None
    return found


@pytest.mark.parametrize("case", MEANS)
def test_cells_in_closed_form_are_those_of_many_worlds(case: str):
    plan = rcb.fixed_plan(three_arms(case), n_per_arm=N, exploration_rate=0.2, epsilon=EPSILON)
    ours, theirs, errors, planted = [], [], [], []
    for view in views(three_arms(case), plan, n_worlds=6000, seed=1):
        if view.smoothed is None:
            continue
        cells = all_cells(view)
        user, arm, rival = cells.at
        terms = view.chances[arm, user] * (view.rewards[arm, user] - view.rewards[rival, user] + EPSILON)
        ours.append(cells.estimate)
        theirs.append(terms.mean(axis=1))
        errors.append(terms.std(axis=1) / np.sqrt(terms.shape[1]))
        # Planted: users explored a tenth too often.
        gap = view.prior_rewards[user, arm] - view.prior_rewards[user, rival] + EPSILON
        planted.append(cells.estimate + 0.1 * view.smoothed.fixed[user, arm] * gap)
    z = (np.concatenate(ours) - np.concatenate(theirs)) / np.concatenate(errors)
    assert np.abs(z).max() < 4.5
    off = (np.concatenate(planted) - np.concatenate(theirs)) / np.concatenate(errors)
    assert np.abs(off).max() > 4.5


@cache
def truth(case: str, rate: float, horizon: int) -> list[np.ndarray]:
    """Fixed shares, prior gaps, organic gains and shares of all cells, from a panel that leaves no error of its own."""
    plan = rcb.fixed_plan(three_arms(case), n_per_arm=N, exploration_rate=rate, epsilon=EPSILON)
    parts = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulator, "N_USERS", 200_000)
        for view in views(three_arms(case), plan, n_worlds=20_000, seed=99, horizon=horizon):
            if view.smoothed is None:
                continue
            for arm in np.flatnonzero(view.smoothed.fixed.any(axis=0)):
                form = view.smoothed.form(int(arm), np.arange(len(USERS)))
                for rival in set(range(3)) - {int(arm)}:
                    gap = view.prior_rewards[:, arm] - view.prior_rewards[:, rival]
                    gain = (form.chances * form.leads[rival]).mean(axis=1)
                    parts.append(np.stack([form.fixed / rate, gap, gain, form.chances.mean(axis=1)]))
    return [column / (1.0 if k < 2 else 1.0 - rate) for k, column in enumerate(np.concatenate(parts, axis=1))]


def lowest_margin(case: str, rate: float, horizon: int, *, at: float | None = None) -> float:
    """At a rate, by the law of designs at another, from which it hardly differs."""
    promoted, gap, gain, share = truth(case, rate, horizon)
    q = rate if at is None else at
    mass = q * promoted + (1 - q) * share
    return float(np.min((q * promoted * gap + (1 - q) * gain)[promoted > 0] / mass[promoted > 0]))


def plan_on_the_line(case: str, off: float = 0.0) -> tuple[Plan, int]:
    """A plan whose lowest margin is -epsilon, and a horizon at which hardly any cold start has ended."""
    market, rate, horizon = three_arms(case), 0.02, 60
    for _ in range(3):
        own = rcb.fixed_plan(market, n_per_arm=N, exploration_rate=rate, epsilon=EPSILON)
        horizon, low, high = max(round(0.1 * own.expected_cold_start), 3 * N), 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            above = lowest_margin(case, rate, horizon, at=middle) > -EPSILON + off
            low, high = (middle, high) if above else (low, middle)
        rate = low
    return rcb.fixed_plan(market, n_per_arm=N, exploration_rate=rate, epsilon=EPSILON), horizon


def stage_verdict(found: rcb.Audit) -> str:
    """Of the cold start alone: what epochs come to without a guard is another matter."""
    codes = np.stack([cells["verdict"].values for name, cells in found.margins.groupby("stage") if "epoch" not in name])
    return "fail" if (codes == 2).any() else "inconclusive" if (codes == 1).any() else "pass"


@pytest.mark.slow
@pytest.mark.parametrize("case", MEANS)
def test_on_the_line_hardly_anything_is_decided(case: str):
    plan, horizon = plan_on_the_line(case)
    counts = {"pass": 0, "fail": 0, "inconclusive": 0}
    for seed in range(200):
        found = rcb.audit(three_arms(case), plan, horizon=horizon, n_worlds=1000, users=USERS, seed=seed)
        counts[stage_verdict(found)] += 1
    assert max(counts["pass"], counts["fail"]) <= binom.ppf(0.999, 200, 0.05)


def test_errors_allow_for_the_panel_of_users():
    """Audits with panels of their own scatter by no more than they say; without the panel's part they scatter more."""
    plan = rcb.fixed_plan(three_arms("tied"), n_per_arm=N, exploration_rate=0.03, epsilon=EPSILON)
    n_worlds, found, overlap = 500, [], 0.0
    for seed in range(12):
        view = views(three_arms("tied"), plan, n_worlds=n_worlds, seed=seed, horizon=3 * N)[1]
        assert view.smoothed is not None
        cells, overlap = all_cells(view), view.smoothed.form(1, np.arange(1)).overlap
        found.append(np.stack([cells.estimate, cells.error]))
    estimates, errors = np.stack(found).transpose(1, 0, 2)  # (seeds, C) each
    scatter = float(np.sqrt((estimates.var(axis=0, ddof=1) / np.square(errors).mean(axis=0)).mean()))
    assert 0.4 < scatter < 1.2
    assert scatter * np.sqrt(1.0 + n_worlds * overlap) > 1.5  # planted: errors of the worlds alone
