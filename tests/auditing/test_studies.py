"""Is an audit right, sharp and honest? Brute force, coverage, power, thin mass, variance."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom

import rcb_bayes as rcb
from rcb_bayes import Audit, Market, Plan, Prior
from rcb_bayes.auditing.averaging import averages_of
from rcb_bayes.auditing.judging import margins_under
from rcb_bayes.auditing.plan_views import plan_views
from rcb_bayes.auditing.view import Asked, View
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.margins import steadied_terms
from rcb_bayes.mechanism.notions import USER, as_notion
from rcb_bayes.mechanism.panel import Panel
from tests.auditing import plain
from tests.twins.gap_twins import normal_truth

SIGMA, N, VARIANCE, EPSILON = 0.3, 8, 0.2, 0.05


@cache
def market(mean: tuple[float, ...]) -> Market:
    prior = Prior.gaussian(np.array(mean)[:, None], VARIANCE)
    return Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(SIGMA))


def spread() -> float:
    """Standard deviation of a posterior mean."""
    return VARIANCE / np.sqrt(VARIANCE + SIGMA**2 / N)


def gamma(n_arms: int) -> float:
    """The posterior spread: the same in every world."""
    return 4 * np.sqrt(n_arms * (1 / VARIANCE + N / SIGMA**2))


# --- brute force -----------------------------------------------------------------------------------------------------


@cache
def three_arms() -> tuple[Plan, Audit]:
    own = market((0.3, 0.15, 0.1))
    plan = rcb.calibrate(own, notion="proof", personalised=False, n_per_arm=N, n_worlds=1000, guard=False, seed=1)
    horizon = round(plan.expected_cold_start) + 1
    return plan, rcb.audit(
        own, plan, notion="user", horizon=horizon, n_worlds=8000, options=rcb.Exploiting(guard=False), seed=3
    )


@cache
def three_arms_plainly() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A million worlds of the first epoch."""
    rng = np.random.default_rng(5)
    mean = np.array([0.3, 0.15, 0.1])
    truth, scores = plain.draw_worlds(mean, VARIANCE, SIGMA, n_per_arm=N, n_worlds=1_000_000, rng=rng)
    return plain.margins(truth, plain.kernel(scores, gamma(3)), rng=rng)


def test_three_arms_are_those_of_a_million_plain_worlds():
    mean, error, mass = three_arms_plainly()
    cells = three_arms()[1].margins.isel(user=0).sel(stage="epoch 0")
    for i in range(3):
        assert cells["mass"].values[i, 0 if i else 1] == pytest.approx(mass[i], abs=5e-3)
        for j in range(3):
            if i != j:
                own, ours = cells["estimate"].values[i, j], cells["mcse"].values[i, j]
                assert abs(own - mean[i, j]) < 4.5 * np.hypot(ours, error[i, j])
                assert abs(own - mean[i, j] - 0.05) > 4.5 * np.hypot(ours, error[i, j])  # a planted error is seen


def test_the_second_stage_is_that_of_a_million_plain_worlds():
    """The cold start with the first arm saturated: organic by posterior means, explored at the plan's rate."""
    plan, found = three_arms()
    rng = np.random.default_rng(6)
    mean = np.array([0.3, 0.15, 0.1])
    truth, scores = plain.draw_worlds(mean, VARIANCE, SIGMA, n_per_arm=N, n_worlds=1_000_000, rng=rng)
    scores[:, 1:] = mean[1:]
    q = plan.exploration_rate
    chances = (1 - q) * (scores == scores.max(axis=1, keepdims=True)) + q * np.array([0.0, 1.0, 0.0])
    gain, error, _ = plain.margins(truth, chances, rng=rng)
    cell = found.margins.isel(user=0).sel(stage="arm_0", arm="arm_1", rival="arm_0")
    assert abs(cell["estimate"].item() - gain[1, 0]) < 4.5 * np.hypot(cell["mcse"].item(), error[1, 0])


def test_at_equal_worlds_the_error_is_five_times_smaller_than_the_plain_one():
    """A reluctant user and noisy rewards, at the stage that explores: neither arm nor reward is drawn for her."""
    mean, variance, sigma, n_worlds, n_per_arm = np.array([0.3, 0.1]), VARIANCE, 1.0, 4000, N
    prior = Prior.gaussian(mean[:, None], variance)
    own = Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(sigma))
    plan = rcb.calibrate(own, n_per_arm=n_per_arm, n_worlds=1000, guard=False, seed=1)
    by_worlds = replace(own, platform_prior=Prior.gaussian(mean[:, None], variance))  # nothing is in closed form
    found = rcb.audit(by_worlds, plan, horizon=2 * N, n_worlds=n_worlds, seed=3)
    ours = found.margins.isel(user=0).sel(stage="arm_0", arm="arm_1", rival="arm_0")["mcse"].item()
    rng = np.random.default_rng(7)
    truth, scores = plain.draw_worlds(mean, variance, sigma, n_per_arm=n_per_arm, n_worlds=n_worlds, rng=rng)
    scores[:, 1] = mean[1]
    q = plan.exploration_rate
    chances = (1 - q) * (scores == scores.max(axis=1, keepdims=True)) + q * np.array([0.0, 1.0])
    observed = truth + sigma * rng.standard_normal(truth.shape)
    _, error, _ = plain.margins(observed, chances, rng=rng)
    assert error[1, 0] / ours > 5


# --- coverage --------------------------------------------------------------------------------------------------------


def stage_views(seeds: range, *, n_worlds: int, rate: float, gap: float) -> list[View]:
    """The stage with the first of two arms saturated, many times over, from its known law."""
    views = []
    for seed in seeds:
        rng = np.random.default_rng([seed, 77])
        first = spread() * rng.standard_normal(n_worlds)
        rewards = np.stack([first, np.full(n_worlds, -gap)])[:, None, :]  # (K, 1, W)
        organic = (rewards == rewards.max(axis=0)).astype(float)
        chances = rate * np.array([0.0, 1.0])[:, None, None] + (1 - rate) * organic
        view = View(name="stage", chances=chances, rewards=rewards, prior_rewards=np.array([[0.0, -gap]]), best=organic)
        views.append(averaged(view))
    return views


def averaged(view: View) -> View:
    """The view of a single user, who is the whole population, with what ``definition`` needs of it."""
    one = np.ones((1, 1))
    everybody = Panel(users=one, weights=np.ones(1), prior_rewards=one, promoted_by=one, is_exact=True)
    found = averages_of(lambda some: view, everybody, epsilon=EPSILON, n_worlds=view.n_worlds)
    return replace(view, averages=found)


def asked(notion: str, *, n_worlds: int, level: float = 0.05) -> Asked:
    return Asked(notion=as_notion(notion), epsilon=EPSILON, n_worlds=n_worlds, n_users=1, level=level, seed=1)


def judged(own: Market, view: View, notion: str) -> xr.Dataset:
    """The stage's margins under one notion."""
    question = asked(notion, n_worlds=view.n_worlds)
    return margins_under(own, [view], question, notions=(question.notion,))[notion].isel(stage=0)


def true_margins(rate: float, gap: float) -> dict[tuple[int, int], tuple[float, float]]:
    """Joint margin and mass of each arm against the other."""
    truth = normal_truth(-gap, spread(), [])
    second = rate * -gap + (1 - rate) * truth.gain
    mass = rate + (1 - rate) * truth.positive
    # E[m_0 - m_1] = gap is the sum of what either arm is recommended with.
    return {(1, 0): (second, mass), (0, 1): (gap + second, 1 - mass)}


@pytest.mark.parametrize("n_seeds", [60, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("notion", ["user", "proof", "definition"])
def test_bands_cover_the_exact_values_at_their_level(notion: str, n_seeds: int):
    rate, gap = 0.2, 0.2
    truth = true_margins(rate, gap)
    own = market((0.0, -0.2))
    missed, planted = 0, 0
    for view in stage_views(range(n_seeds), n_worlds=500, rate=rate, gap=gap):
        cells = judged(own, view, notion)
        cells = cells if notion == "definition" else cells.isel(user=0)
        for (i, j), (joint, mass) in truth.items():
            value = joint if notion == "proof" else joint / mass
            cell = cells.isel(arm=i, rival=j)
            lower, upper = cell["lower"].item(), cell["upper"].item()
            planted += not lower <= value - 0.1 <= upper
            if not lower <= value <= upper:
                missed += 1
                break
    # Two one-sided bands at .05 each: at most one miss in ten, up to the binomial's own spread.
    assert missed <= binom.ppf(0.999, n_seeds, 0.1)
    assert planted > 0.9 * n_seeds  # values that are off are seen
    assert missed >= 1 or n_seeds < 200  # bands that never miss are too wide to be of use


@pytest.mark.slow
def test_an_audit_covers_the_exact_values_over_200_seeds():
    """The same for whole audits: stage and first epoch together."""
    own = market((0.3, 0.1))
    plan = rcb.calibrate(own, notion="proof", personalised=False, n_per_arm=N, n_worlds=1000, seed=1)
    truth = normal_truth(-0.2, spread(), [])
    q = plan.exploration_rate
    stage = (q * -0.2 + (1 - q) * truth.gain) / (q + (1 - q) * truth.positive)
    nodes = np.linspace(-8, 8, 2401)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    one, two = np.meshgrid(0.3 + spread() * nodes, 0.1 + spread() * nodes, indexing="ij")
    scores = np.stack([one.ravel(), two.ravel()], axis=1)
    both = np.outer(weights, weights).ravel()[:, None] * plain.kernel(scores, gamma(2))
    epoch = [float(both[:, i] @ (scores[:, i] - scores[:, 1 - i]) / both[:, i].sum()) for i in range(2)]
    missed = 0
    for seed in range(200):
        found = rcb.audit(
            own, plan, notion="user", horizon=30, n_worlds=400, options=Exploiting(guard=False), seed=1000 + seed
        )
        cells = found.margins.isel(user=0)
        exact = [("arm_0", 1, stage), ("epoch 0", 0, epoch[0]), ("epoch 0", 1, epoch[1])]
        for name, arm, value in exact:
            cell = cells.sel(stage=name, arm=f"arm_{arm}", rival=f"arm_{1 - arm}")
            # The stage is known in closed form, and no band is left there: equal up to rounding.
            if not cell["lower"].item() - 1e-12 <= value <= cell["upper"].item() + 1e-12:
                missed += 1
                break
    assert missed <= binom.ppf(0.999, 200, 0.1)


# --- power and thin mass ---------------------------------------------------------------------------------------------


def verdicts(rate: float, gap: float, *, n_worlds: int, n_seeds: int) -> dict[str, float]:
    """How often the stage is passed, failed and left open under ``user``."""
    own = market((0.0, -gap))
    counts = {"pass": 0.0, "inconclusive": 0.0, "fail": 0.0}
    names = list(counts)
    for view in stage_views(range(n_seeds), n_worlds=n_worlds, rate=rate, gap=gap):
        code = judged(own, view, "user")["verdict"].isel(user=0, arm=1, rival=0).item()
        counts[names[code]] += 1 / n_seeds
    return counts


def rate_with_margin(margin: float, gap: float) -> float:
    """The rate at which the second arm's conditional margin is this."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        joint, mass = true_margins(middle, gap)[1, 0]
        low, high = (middle, high) if joint / mass > margin else (low, middle)
    return low


@pytest.mark.parametrize("n_seeds", [40, pytest.param(100, marks=pytest.mark.slow)])
def test_a_margin_off_by_02_is_decided_at_the_advertised_number_of_worlds(n_seeds: int):
    gap = 0.2
    often = binom.ppf(0.001, n_seeds, 0.94) / n_seeds  # what a share of .94 is at least, over so many seeds
    at = rate_with_margin(-EPSILON, gap)
    pilot = stage_views(range(1), n_worlds=1000, rate=at, gap=gap)[0]
    question = asked("user", n_worlds=1000)
    needed = advertised(margins_under(market((0.0, -gap)), [pilot], question, notions=(USER,))["user"])
    assert verdicts(rate_with_margin(-EPSILON - 0.02, gap), gap, n_worlds=needed, n_seeds=n_seeds)["fail"] >= often
    assert verdicts(rate_with_margin(-EPSILON + 0.02, gap), gap, n_worlds=needed, n_seeds=n_seeds)["pass"] >= often
    on_the_line = verdicts(at, gap, n_worlds=needed, n_seeds=n_seeds)
    assert on_the_line["inconclusive"] >= binom.ppf(0.001, n_seeds, 0.9) / n_seeds
    assert max(on_the_line["pass"], on_the_line["fail"]) <= binom.ppf(0.999, n_seeds, 0.05) / n_seeds
    few = needed // 10
    assert verdicts(rate_with_margin(-EPSILON + 0.02, gap), gap, n_worlds=few, n_seeds=n_seeds // 2)["pass"] < 0.8


def advertised(cells: xr.Dataset) -> int:
    """``Audit.worlds_needed`` of these cells alone, of 1,000 worlds."""
    made = Audit(
        verdict="inconclusive",
        notion="user",
        epsilon=EPSILON,
        by_notion={"user": cells},
        compliance=cells,
        users=np.ones((1, 1)),
        n_worlds=1000,
        n_random=1,
        level=0.05,
        seed=1,
    )
    return made.worlds_needed(0.02)


@pytest.mark.parametrize("n_seeds", [50, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mass", [1e-3, 4e-4])
def test_thin_mass_is_no_more_often_wrong_than_the_level_says(mass: float, n_seeds: int):
    """The arm is the best in so few of 1,000 worlds that hardly any is seen: what is not seen is not judged."""
    from scipy.special import ndtri

    gap = -float(ndtri(mass)) * spread()  # organic rounds alone give the arm this mass
    limit = binom.ppf(0.999, n_seeds, 0.05) / n_seeds
    # Off-best recommendations bring the true margin to just above, and to just below, -epsilon.
    for margin, wrong in ((-EPSILON + 1e-4, "fail"), (-EPSILON - 1e-4, "pass")):
        rate = rate_with_margin(margin, gap)
        assert true_margins(rate, gap)[1, 0][1] < 2 * mass
        found = verdicts(rate, gap, n_worlds=1000, n_seeds=n_seeds)
        assert found[wrong] <= limit
        assert found["inconclusive"] > 0.5


# --- all that drove the recommendations ------------------------------------------------------------------------------


def epoch_one(feed: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The second epoch played plainly: true rewards and probabilities (W, K), by this feed."""
    rng = np.random.default_rng(11)
    n_worlds, mean = 60_000, np.array([0.2, 0.15])
    truth = mean + np.sqrt(VARIANCE) * rng.standard_normal((n_worlds, 2))
    count = np.full((n_worlds, 2), float(N))
    total = N * truth + SIGMA * np.sqrt(N) * rng.standard_normal(truth.shape)
    precision = 1 / VARIANCE + count / SIGMA**2
    scores = (mean / VARIANCE + total / SIGMA**2) / precision
    first = plain.kernel(scores, gamma(2))
    fresh = rng.binomial(2 * N, first[:, 0])  # pulls of the first arm in the first epoch of 2 N rounds
    pulls = np.stack([fresh, 2 * N - fresh], axis=1).astype(float)
    got = pulls * truth + SIGMA * np.sqrt(pulls) * rng.standard_normal(truth.shape)
    fed, sums = (pulls, got) if feed == "last" else (count + pulls, total + got)
    precision = 1 / VARIANCE + fed / SIGMA**2
    scores = (mean / VARIANCE + sums / SIGMA**2) / precision
    error = (first / precision).sum(axis=1)
    spreads = np.maximum(4 * np.sqrt(2 / error), gamma(2))
    chances = plain.kernel(scores, spreads[:, None])
    return truth, chances, scores


def test_margins_use_the_full_history_when_only_the_last_epoch_is_fed():
    own = market((0.2, 0.15))
    plan = rcb.calibrate(own, notion="proof", personalised=False, n_per_arm=N, n_worlds=1000, guard=False, seed=1)
    found = rcb.audit(
        own, plan, notion="user", horizon=60, n_worlds=10_000, options=Exploiting(feed="last", guard=False), seed=4
    )
    cell = found.margins.isel(user=0).sel(stage="epoch 1", arm="arm_1", rival="arm_0")
    truth, chances, scores = epoch_one("last")
    mean, error, _ = plain.margins(truth, chances, rng=np.random.default_rng(12))
    assert abs(cell["estimate"].item() - mean[1, 0]) < 4 * np.hypot(cell["mcse"].item(), error[1, 0])
    # Expectations from the last epoch alone would say something else.
    by_last = float((chances[:, 1] * (scores[:, 1] - scores[:, 0])).sum() / chances[:, 1].sum())
    assert abs(cell["estimate"].item() - by_last) > 4 * np.hypot(cell["mcse"].item(), error[1, 0])


# --- cost ------------------------------------------------------------------------------------------------------------


def test_terms_are_those_of_the_views():
    """What is judged is what was looked at: the mean of the terms is the margin times its mass."""
    own = market((0.3, 0.1))
    plan = rcb.calibrate(own, n_per_arm=N, n_worlds=300, guard=False, seed=1)
    question = asked("user", n_worlds=200)
    views = plan_views(own, plan, question, horizon=30, options=Exploiting()).views
    found = margins_under(own, views, question)["user"]
    for k, view in enumerate(views):
        seen = view.chances[0], view.rewards, view.prior_rewards
        terms = steadied_terms(*seen, arm=0, epsilon=EPSILON, notion=USER)[1, 0]
        cell = found.isel(stage=k, user=0, arm=0, rival=1)
        assert terms.mean() == pytest.approx((cell["estimate"] + EPSILON).item() * cell["mass"].item(), abs=1e-12)
