"""Gaps against closed forms and quadrature, errors against the spread over seeds, and the curve over n."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.gaps import estimation as module
from rcb_bayes.gaps.estimation import (
    estimate_gaps,
    estimate_separation,
    gap_curve,
    gap_values,
    mean_error,
    probability_error,
)
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.schema import FloatArray
from rcb_bayes.users import Covariates, Empirical, Sphere, Uniform
from tests.twins import gap_twins as twins
from tests.twins.gap_twins import Truth

TAUS = (0.05, 0.2)


def gaussian_market(
    mean: Any, cov: Any = 0.25, *, covariates: Covariates | None = None, sigma: float = 0.5, **labels: Any
) -> Market:
    prior = Prior.gaussian(np.asarray(mean, dtype=float), cov, **labels)
    return Market(prior=prior, covariates=covariates or Sphere(prior.n_features), noise=GaussianNoise(sigma))


# --- two arms, one feature, x = 1 ------------------------------------------------------------------------------------

# Prior means of the saturated and of the other arm, the former's sd, sigma, n.
SETTINGS = [
    ((0.0, 0.0), 0.5, 0.5, 4),
    ((0.3, 0.0), 0.5, 0.5, 4),
    ((0.3, 0.0), 0.5, 0.5, 400),
    ((0.3, 0.0), 0.5, 0.05, 1),
    ((-0.2, 0.0), 0.5, 1.0, 1),
    ((0.1, 0.6), 0.3, 0.2, 3),
    ((0.5, 0.1), 0.45, 0.4, 20),
    ((1.0, 0.0), 1.0, 2.0, 16),
    ((0.0, 0.02), 0.1, 0.3, 9),
    ((2.0, 2.5), 0.7, 0.1, 50),
]


@cache
def gaussian_gaps(setting: int) -> tuple[xr.Dataset, Truth]:
    mean, sd, sigma, n = SETTINGS[setting]
    market = twins.one_type(Prior.gaussian([[mean[0]], [mean[1]]], [sd**2, 0.09]), sigma=sigma)
    found = estimate_gaps(market, saturated=["arm_0"], n_per_arm=n, n_worlds=40_000, taus=TAUS, seed=setting)
    assert found["arm"].values.tolist() == ["arm_1"]
    return found.isel(arm=0), twins.gaussian_truth(mean, sd, sigma=sigma, n=n, taus=TAUS)


@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_gaussian_gaps_are_those_of_the_closed_form(setting: int) -> None:
    assert twins.worst_z(*gaussian_gaps(setting)) < 4


def test_a_planted_error_in_the_expected_gain_is_found() -> None:
    worst = [twins.worst_z(found, truth.with_gain(1.05)) for found, truth in map(gaussian_gaps, range(len(SETTINGS)))]
    assert max(worst) > 12
    assert sum(z > 4 for z in worst) >= 5


def test_prior_spread_for_the_spread_of_posterior_means_is_found() -> None:
    mean, sd, _, _ = SETTINGS[1]
    found, _ = gaussian_gaps(1)
    assert twins.worst_z(found, twins.normal_truth(mean[1] - mean[0], sd, TAUS)) > 4


# --- other beliefs, by quadrature ------------------------------------------------------------------------------------


@cache
def other_gaps(name: str, other: float, n_worlds: int) -> tuple[xr.Dataset, Truth]:
    """The gap of an arm of prior mean ``other`` over one with 6 samples, and what it should be."""
    model, parameters, belief = twins.BELIEFS[name]
    prior = load_prior(model, n_arms=2, n_features=1, **parameters(other))
    market = twins.one_type(prior, sigma=0.5)
    found = estimate_gaps(market, saturated=["arm_0"], n_per_arm=6, n_worlds=n_worlds, taus=TAUS, seed=7)
    assert found.attrs["n_not_vouched"] == 0
    return found.isel(arm=0), belief.truth(other, s=0.5 / np.sqrt(6), taus=TAUS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "gamma")) for name in twins.BELIEFS]
)
def test_gaps_of_other_beliefs_are_those_of_quadrature(name: str) -> None:
    found, truth = other_gaps(name, 0.7, 40_000 if name == "mixture" else 8000)
    assert twins.worst_z(found, truth) < 4
    assert twins.worst_z(found, truth.with_gain(1.1)) > 4


@pytest.mark.slow
@pytest.mark.parametrize(("name", "other"), [("laplace", 0.0), ("mixture", 0.1), ("gamma", 0.4), ("student_t", 0.0)])
def test_gaps_of_disliked_arms_of_other_beliefs_are_those_of_quadrature(name: str, other: float) -> None:
    found, truth = other_gaps(name, other, 80_000)
    assert twins.worst_z(found, truth) < 4
    assert twins.worst_z(found, truth.with_gain(1.05)) > 4


def test_gaps_of_bernoulli_rewards_are_those_of_the_exact_sum() -> None:
    prior = Prior.gaussian([[0.8], [0.2]], 1.0)
    market = Market(prior=prior, covariates=Empirical([[1.0]]), noise=BernoulliLogit())
    found = estimate_gaps(market, saturated=["arm_0"], n_per_arm=7, n_worlds=1500, taus=[0.031, 0.2], seed=2)
    truth = twins.logit_truth((0.8, 0.2), 1.0, n=7, taus=[0.031, 0.2])
    assert twins.worst_z(found.isel(arm=0), truth) < 4
    # The mean of b in place of the mean of the reward is another answer.
    gap = 1 / (1 + np.exp(-0.2)) - 1 / (1 + np.exp(-0.8))
    assert abs(found["expected_gain"].item() - max(gap, 0.0)) > 4 * found["expected_gain_mcse"].item()


# --- coupled arms ----------------------------------------------------------------------------------------------------

OFFSETS, SHARED, OWN, SIGMA, N = np.array([0.25, 0.0, 0.1]), 0.4, 0.3, 0.6, 5


@cache
def coupled_market() -> Market:
    prior = load_prior("hierarchical", n_arms=3, n_features=1, mean=OFFSETS.tolist(), scale=SHARED, tau=OWN)
    return twins.one_type(prior, sigma=SIGMA)


def law_of_means(saturated: list[int]) -> FloatArray:
    """Covariance of the three posterior means over the data on some arms."""
    prior = SHARED**2 + OWN**2 * np.eye(3)
    cross = prior[:, saturated]
    return cross @ np.linalg.solve(prior[np.ix_(saturated, saturated)] + SIGMA**2 / N * np.eye(len(saturated)), cross.T)


@pytest.mark.parametrize("arm", [1, 2])
def test_coupled_arms_have_the_gaps_of_the_joint_normal(arm: int) -> None:
    found = estimate_gaps(coupled_market(), saturated=["arm_0"], n_per_arm=N, n_worlds=40_000, taus=TAUS, seed=4)
    contrast = np.eye(3)[arm] - np.eye(3)[0]
    spread = np.sqrt(contrast @ law_of_means([0]) @ contrast)
    row = found.sel(arm=f"arm_{arm}")
    assert twins.worst_z(row, twins.normal_truth(contrast @ OFFSETS, spread, TAUS)) < 4
    # The prior mean for the unsaturated arm, as with independent arms, is another law.
    alone = np.sqrt(law_of_means([0])[0, 0])
    assert twins.worst_z(row, twins.normal_truth(contrast @ OFFSETS, alone, TAUS)) > 10


def test_two_coupled_saturated_arms_have_the_gaps_of_the_joint_normal() -> None:
    found = estimate_gaps(
        coupled_market(), saturated=["arm_2", "arm_1"], n_per_arm=N, n_worlds=40_000, taus=TAUS, seed=5
    )
    assert found.attrs["saturated"] == "arm_2, arm_1"
    contrasts = np.eye(3)[0] - np.eye(3)[[1, 2]]
    cov = contrasts @ law_of_means([1, 2]) @ contrasts.T
    truth = twins.least_of_normals(contrasts @ OFFSETS, cov, TAUS)
    assert twins.worst_z(found.isel(arm=0), truth) < 4
    assert twins.worst_z(found.isel(arm=0), truth.with_gain(1.05)) > 4


# --- the paper's Setting 1 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_saturated", "figure"), [(1, 0.49), (2, 0.24), (3, 0.12), (4, 0.06)])
def test_setting_1_cannot_have_rho_of_95_percent(n_saturated: int, figure: float) -> None:
    market = gaussian_market(np.zeros((5, 5)), 0.2, sigma=0.05)
    found = estimate_gaps(market, saturated=market.arms[:n_saturated], n_per_arm=50, n_worlds=4000, taus=[0.01], seed=1)
    # Posterior means of independent arms are nearly N(0, 1/5 - sigma^2 d/N) each.
    truth = float(stats.norm.cdf(-0.01 / np.sqrt(0.2 - 0.05**2 * 5 / 50))) ** n_saturated
    assert round(truth, 2) == figure
    assert (np.abs(found["rho"].values[:, 0] - truth) < 4 * found["rho_mcse"].values[:, 0]).all()
    assert (np.abs(found["rho"].values[:, 0] - 1.15 * truth) > 4 * found["rho_mcse"].values[:, 0]).all()


# --- what holds for every belief -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["student_t", "hierarchical", "gaussian"])
def test_posterior_means_average_to_the_prior_mean(name: str) -> None:
    """The tower property, for saturated and (coupled) unsaturated arms; and E[max(G, 0)] >= max(E[G], 0)."""
    more = {"tau": 0.3} if name == "hierarchical" else {}
    prior = load_prior(name, n_arms=3, n_features=2, mean=[0.4, 0.1, 0.0], **more)
    market = Market(prior=prior, covariates=Uniform([0, -1], [1, 1]), noise=GaussianNoise(0.5))
    stages = Stages(market, n_per_arm=6, n_worlds=2000, seed=3)
    users = np.array([[0.2, 0.5], [1.0, -1.0]])
    rewards = stages.rewards([0, 2], users=users)  # (K, U, W)
    error = np.maximum(rewards.std(axis=2) / np.sqrt(rewards.shape[2]), 1e-12)
    expected = prior.mean.values @ users.T
    assert (np.abs(rewards.mean(axis=2) - expected) / error).max() < 4
    assert (np.abs(rewards.mean(axis=2) - 1.3 * expected) / error)[0].max() > 4
    found = estimate_gaps(market, saturated=["arm_0", "arm_2"], n_per_arm=6, n_worlds=2000, users=users, seed=3)
    gap = gap_values(stages, [0, 2], users=users).mean(axis=2)[0]
    assert (found["expected_gain"].values[0] >= np.maximum(gap, 0.0)).all()
    # E[max over B of m_j] is at least the largest prior mean: news can only raise what the best of B promises.
    assert (gap <= expected[1] - expected[[0, 2]].max(axis=0) + 4 * error.max()).all()


def test_permuting_the_arms_permutes_the_answers() -> None:
    mean = np.array([[0.4, 0.1], [0.0, 0.3], [-0.2, 0.2]])
    cov = np.array([0.1, 0.3, 0.2])
    users = Uniform([0, 0], [1, 1])
    order = [2, 0, 1]
    market = gaussian_market(mean, cov, covariates=users, arms=["a", "b", "c"])
    permuted = gaussian_market(mean[order], cov[order], covariates=users, arms=np.array(["a", "b", "c"])[order])
    settings: dict[str, Any] = {"saturated": ["c", "a"], "n_per_arm": 5, "n_worlds": 8000, "taus": TAUS}
    one, two = estimate_gaps(market, seed=1, **settings), estimate_gaps(permuted, seed=2, **settings)
    for name in ("rho", "expected_gain", "prob_positive"):
        error = np.hypot(one[f"{name}_mcse"], two[f"{name}_mcse"])
        assert (np.abs(one[name] - two[name]) < 4 * error).all()
    settings["saturated"] = ["b", "a"]
    other = estimate_gaps(permuted, seed=2, **settings).isel(arm=0)
    assert abs(other["expected_gain"].item() - one["expected_gain"].item()) > 4 * one["expected_gain_mcse"].item()


def test_the_average_over_users_is_the_average_of_users() -> None:
    table = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, -1.0]])
    weights = np.array([0.8, 0.1, 0.1])
    market = gaussian_market(np.array([[0.4, 0.1], [0.0, 0.3]]), covariates=Empirical(table, weights=weights))
    settings: dict[str, Any] = {"saturated": ["arm_0"], "n_per_arm": 5, "n_worlds": 8000, "taus": TAUS, "seed": 3}
    averaged = estimate_gaps(market, **settings).isel(arm=0)
    by_user = estimate_gaps(market, users=table, **settings).isel(arm=0)
    assert by_user["rho"].dims == ("tau", "user")
    for name in ("rho", "expected_gain", "prob_positive"):
        share = xr.DataArray(weights, dims="user")
        error = np.hypot(averaged[f"{name}_mcse"], np.sqrt((by_user[f"{name}_mcse"] ** 2 * share**2).sum("user")))
        difference = np.abs(averaged[name] - (by_user[name] * share).sum("user"))
        assert (difference < 4 * error).all()
        assert (np.abs(averaged[name] - by_user[name].mean("user")) > 4 * error).any()  # equal weights are wrong


def test_one_user_has_the_closed_form() -> None:
    """By user, with two features and random designs: m(x) is normal given the design, whose law is averaged over."""
    market = gaussian_market(np.array([[0.4, 0.1], [0.0, 0.3]]), 0.25, covariates=Sphere(2), sigma=0.5)
    user = np.array([0.8, -0.6])
    found = estimate_gaps(
        market, saturated=["arm_0"], n_per_arm=8, n_worlds=20_000, taus=TAUS, users=user, seed=3
    ).isel(arm=0, user=0)
    rng = np.random.default_rng(9)
    x = rng.standard_normal((40_000, 8, 2))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    gram = x.swapaxes(1, 2) @ x / 0.5**2
    left = np.linalg.inv(gram + np.eye(2) / 0.25)
    spread = np.sqrt(0.25 * user @ user - np.einsum("i,wij,j->w", user, left, user))
    mean = float(user @ np.array([-0.4, 0.2]))
    parts = [twins.normal_truth(mean, sd, TAUS) for sd in np.quantile(spread, (np.arange(2000) + 0.5) / 2000)]
    truth = Truth(
        rho=tuple(np.mean([part.rho for part in parts], axis=0)),
        gain=float(np.mean([part.gain for part in parts])),
        positive=float(np.mean([part.positive for part in parts])),
    )
    assert twins.worst_z(found, truth) < 4


@pytest.mark.parametrize(("third", "possible"), [(-0.4, True), (0.15, False), (-0.1, True)])
def test_rivals_may_be_all_other_arms(third: float, possible: bool) -> None:
    prior = Prior.gaussian([[0.2], [0.0], [third]], 0.25)
    settings: dict[str, Any] = {"saturated": ["arm_0"], "n_per_arm": 4, "n_worlds": 8000, "taus": [0.05, 0.2]}
    every = estimate_gaps(twins.one_type(prior, sigma=0.5), rivals="all", seed=1, **settings).sel(arm="arm_1")
    some = estimate_gaps(twins.one_type(prior, sigma=0.5), seed=1, **settings).sel(arm="arm_1")
    lead = 0.0 - third  # over the unsaturated rival, known beforehand
    np.testing.assert_array_equal(every["rho"], np.where(lead >= every["tau"], some["rho"], 0.0))
    assert (every["prob_positive"].item() == some["prob_positive"].item()) == possible
    assert every["expected_gain"].item() <= some["expected_gain"].item()
    assert every.attrs["rivals"] == "all"


def test_separation_is_that_of_two_normals() -> None:
    """Assumption 2 with two arms: |N(D, v)|."""
    prior = Prior.gaussian([[0.3], [0.0]], 0.25)
    found = estimate_separation(twins.one_type(prior, sigma=0.5), n_per_arm=4, n_worlds=20_000, taus=TAUS, seed=1).isel(
        arm=0
    )
    spread = np.sqrt(2) * 0.25 / np.sqrt(0.25 + 0.25 / 4)
    for tau, rho, error in zip(TAUS, found["rho"].values, found["rho_mcse"].values, strict=True):
        truth = stats.norm.sf(tau, 0.3, spread) + stats.norm.cdf(-tau, 0.3, spread)
        assert abs(rho - truth) < 4 * error
        assert abs(rho - stats.norm.sf(tau, 0.3, spread)) > 4 * error
    assert found["prob_positive"].item() == 1.0


# --- tau -------------------------------------------------------------------------------------------------------------


def some_gaps(**more: Any) -> tuple[xr.Dataset, FloatArray]:
    market = gaussian_market(np.array([[0.3, 0.1], [0.0, 0.3], [0.1, 0.1]]), covariates=Uniform([0, 0], [1, 1]))
    found = estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=1000, seed=1, **more)
    stages = Stages(market, n_per_arm=5, n_worlds=1000, seed=1)
    return found, gap_values(stages, [0], users=more.get("users"))


def test_default_taus_span_the_bulk_of_the_positive_gaps() -> None:
    found, gaps = some_gaps()
    tau = found["tau"].values
    assert len(tau) == 25
    np.testing.assert_allclose(np.diff(np.log(tau)), np.log(tau[1] / tau[0]))
    low, high = np.quantile(gaps[gaps > 0], [0.02, 0.98])
    np.testing.assert_allclose(tau[[0, -1]], [low, high])
    assert (np.diff(found["rho"].values, axis=1) <= 0).all()
    np.testing.assert_allclose(found["rho"].values[0], [(gaps[0] >= t).mean() for t in tau])


def test_default_taus_without_positive_gaps_are_on_the_gaps_scale() -> None:
    market = gaussian_market([[5.0], [0.0]], 0.01, covariates=Empirical([[1.0]]))
    tau = estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=100)["tau"].values
    np.testing.assert_allclose(tau[[0, -1]], [0.05, 5.0], rtol=0.1)


def test_the_best_tau_maximises_tau_rho() -> None:
    found, gaps = some_gaps()
    for arm in range(2):
        flat = gaps[arm].reshape(-1)
        values = flat[flat > 0]
        product = values * (flat[None] >= values[:, None]).mean(axis=1)
        assert found["best_tau"].values[arm] == values[product.argmax()]
        np.testing.assert_allclose(found["best_tau"][arm] * found["best_rho"][arm], product.max())


def test_the_best_tau_by_user_is_each_user_s_own() -> None:
    users = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found, gaps = some_gaps(users=users)
    assert found["best_tau"].dims == ("arm", "user")
    for user in range(3):
        flat = gaps[1, user]
        product = flat * (flat[None] >= flat[:, None]).mean(axis=1)
        assert found["best_tau"].values[1, user] == flat[product.argmax()]
    assert len(np.unique(found["best_tau"].values[1])) == 3


def test_the_error_of_the_best_tau_is_its_spread_over_seeds() -> None:
    market = gaussian_market([[0.2], [0.0]], covariates=Empirical([[1.0]]))
    found = [estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=500, seed=seed) for seed in range(60)]
    spread = np.std([part["best_tau"].item() for part in found])
    claimed = np.mean([part["best_tau_mcse"].item() for part in found])
    assert 0.6 < claimed / spread < 1.7  # errors of a maximiser are rough; the square-root law would give .68 of it


def test_the_error_of_the_best_rho_reckons_with_that_of_its_tau() -> None:
    market = gaussian_market([[0.2], [0.0]], covariates=Empirical([[1.0]]))
    found = [estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=500, seed=seed) for seed in range(100)]
    rho = np.array([part["best_rho"].item() for part in found])
    claimed = np.sqrt(np.mean([part["best_rho_mcse"].item() ** 2 for part in found]))
    assert 0.8 < rho.std() / claimed < 1.25
    tau_known = np.sqrt(np.mean(rho * (1.0 - rho)) / 500)
    assert rho.std() / tau_known > 1.5  # what was claimed before: the band is not too wide to notice


def test_users_in_chunks_are_the_same_users(monkeypatch: pytest.MonkeyPatch) -> None:
    users = np.random.default_rng(1).uniform(size=(7, 2))
    whole, _ = some_gaps(users=users, taus=TAUS)
    monkeypatch.setattr(module, "_USERS_AT_A_TIME", 3)
    xr.testing.assert_allclose(some_gaps(users=users, taus=TAUS)[0], whole, rtol=1e-12)


# --- Monte Carlo errors ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_errors_are_the_spread_over_seeds_when_users_are_drawn_anew() -> None:
    market = gaussian_market(np.array([[0.3, 0.1], [0.0, 0.3]]), covariates=Uniform([0, 0], [1, 1]))
    found = [
        estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=200, taus=TAUS, seed=seed).isel(arm=0)
        for seed in range(400)
    ]
    joined = xr.concat(found, dim="seed")
    for name in ("rho", "expected_gain", "prob_positive"):
        ratio = joined[f"{name}_mcse"].mean("seed") / joined[name].std("seed", ddof=1)
        assert (np.abs(ratio - 1) < 4 / np.sqrt(2 * 399)).all(), name
    # Users of one world share its data: counting them as independent would claim a fraction of that.
    p = joined["prob_positive"].mean().item()
    naive = np.sqrt(p * (1 - p) / (200 * 16))
    assert naive / joined["prob_positive"].std("seed", ddof=1).item() < 0.5


@pytest.mark.parametrize("expected", [0.5, 1.0, 2.0, 4.0, 6.5, 10.0, 20.0])
def test_three_errors_cover_rare_events(expected: float) -> None:
    """The probability that the estimate plus three errors stays below the truth, exactly, over the number of events."""
    n = 2000
    p = expected / n
    count = np.arange(60)
    values = (np.arange(n) < count[:, None]).astype(float)  # a row for each number of events
    estimate = values.mean(axis=1)
    mass = stats.binom.pmf(count, n, p)
    below = estimate + 3 * probability_error(values) < p
    assert mass[below].sum() < 0.03
    plain = estimate + 3 * values.std(axis=1) / np.sqrt(n) < p
    assert (mass[plain].sum() > 0.03) == (expected <= 6.5)
    above = estimate - 3 * probability_error(values) > p
    assert mass[above].sum() < 0.01


def test_errors_are_symmetric_in_the_event_and_its_complement() -> None:
    values = (np.arange(100) < np.arange(0, 101, 5)[:, None]).astype(float)
    np.testing.assert_allclose(probability_error(values), probability_error(1 - values))


def test_errors_are_the_usual_ones_where_events_are_many() -> None:
    values = np.random.default_rng(1).gamma(2.0, size=(3, 500))
    np.testing.assert_allclose(mean_error(values, scale=9.0), values.std(axis=1, ddof=1) / np.sqrt(500))
    values[values < 3] = 0.0
    np.testing.assert_allclose(mean_error(values, scale=9.0), values.std(axis=1, ddof=1) / np.sqrt(500))


def test_errors_are_not_zero_for_want_of_events() -> None:
    market = gaussian_market([[5.0], [0.0]], 0.01, covariates=Empirical([[1.0]]))
    never = estimate_gaps(market, saturated=["arm_0"], n_per_arm=5, n_worlds=100).isel(arm=0)
    for name in ("rho", "prob_positive", "best_rho"):
        figure = never[name].values if name != "best_rho" else 0.0  # Pr(G >= 0), which is 0 too
        assert not np.any(figure)
        np.testing.assert_allclose(never[f"{name}_mcse"], 0.02)
    assert (never["expected_gain"].item(), never["best_tau"].item()) == (0.0, 0.0)
    assert 0 < never["expected_gain_mcse"].item() < 0.02
    always = estimate_gaps(market, saturated=["arm_1"], n_per_arm=5, n_worlds=100, taus=[0.1]).isel(arm=0)
    assert always["rho"].item() == 1.0
    assert always["rho_mcse"].item() == 0.02


# --- the curve over n ------------------------------------------------------------------------------------------------


def exact_rho(n: int, tau: float) -> float:
    return twins.gaussian_truth((0.3, 0.0), 0.5, sigma=1.0, n=n, taus=[tau]).rho[0]


def test_the_curve_over_n_finds_from_where_on_it_stays_above_the_floor() -> None:
    market = twins.one_type(Prior.gaussian([[0.3], [0.0]], 0.25), sigma=1.0)
    sizes = [1, 4, 16, 64, 256]
    rho = [exact_rho(n, 0.1) for n in sizes]  # rises with n: data are what may speak for the arm
    assert (np.diff(rho) > 0).all()
    curve = gap_curve(
        market, n_grid=sizes[::-1], tau=0.1, floor=(rho[1] + rho[2]) / 2, saturated=["arm_0"], n_worlds=8000
    )
    assert curve["n"].values.tolist() == sizes
    assert (np.abs(curve["rho"].values[:, 0] - rho) < 4 * curve["rho_mcse"].values[:, 0]).all()
    assert curve.attrs["n_from"] == 16
    assert "n_per_arm" not in curve.attrs
    for floor, n_from in ((0.99, -1), (rho[0] / 2, 1)):
        found = gap_curve(market, n_grid=sizes, tau=0.1, floor=floor, saturated=["arm_0"], n_worlds=4000)
        assert found.attrs["n_from"] == n_from


def test_a_curve_that_falls_below_the_floor_again_has_no_n() -> None:
    market = twins.one_type(Prior.gaussian([[0.0], [0.3]], 0.25), sigma=1.0)
    curve = gap_curve(market, n_grid=[1, 400], tau=0.1, floor=0.75, saturated=["arm_0"], n_worlds=4000)
    assert curve["rho"].values[0] > 0.75 > curve["rho"].values[1]
    assert curve.attrs["n_from"] == -1


def test_the_curve_of_assumption_2_is_that_of_the_best_arm() -> None:
    market = gaussian_market(np.zeros((3, 2)))
    curve = gap_curve(market, n_grid=[2, 50], tau=0.1, floor=0.5, n_worlds=500)
    assert curve["arm"].values.tolist() == ["best"]
    assert curve["rho"].values[1, 0] > curve["rho"].values[0, 0]


# --- labels, seeds, bad input ----------------------------------------------------------------------------------------


def test_the_dataset_says_what_it_is() -> None:
    market = gaussian_market(np.zeros((3, 2)), arms=["old", "new", "odd"])
    found = estimate_gaps(market, saturated="old", n_per_arm=4, n_worlds=30, taus=[0.2, 0.1, 0.1], seed=5)
    assert found["arm"].values.tolist() == ["new", "odd"]
    assert found["tau"].values.tolist() == [0.1, 0.2]
    figures = {"rho", "expected_gain", "prob_positive", "best_tau", "best_rho"}
    assert set(found.data_vars) == figures | {f"{name}_mcse" for name in figures}
    assert found["rho"].dims == ("arm", "tau")
    assert {"seed": 5, "n_worlds": 30, "n_per_arm": 4, "saturated": "old", "belief": "gaussian"}.items() <= dict(
        found.attrs
    ).items()
    assert found.attrs["engine"].startswith("exact")


def test_the_same_seed_gives_the_same_answer() -> None:
    market = gaussian_market(np.zeros((3, 2)))
    settings: dict[str, Any] = {"saturated": ["arm_1"], "n_per_arm": 4, "n_worlds": 600, "taus": TAUS}
    first = estimate_gaps(market, seed=5, **settings)
    xr.testing.assert_identical(first, estimate_gaps(market, seed=5, **settings))
    assert (first["expected_gain"] != estimate_gaps(market, seed=6, **settings)["expected_gain"]).all()


GOOD: dict[str, Any] = {"saturated": ["arm_0"], "n_per_arm": 5, "n_worlds": 50}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"saturated": ["arm_9"]}, RcbError, "There is no arm 'arm_9'. Did you mean 'arm_"),
        ({"saturated": ["x"]}, RcbError, "There is no arm 'x'. The arms are arm_0, arm_1, arm_2."),
        ({"saturated": []}, RcbError, "No arm is saturated: name at least one"),
        ({"saturated": ["arm_0", "arm_1", "arm_2"]}, RcbError, "All arms are saturated.*estimate_separation"),
        ({"n_per_arm": 0}, RcbError, "n_per_arm must be an integer of at least 1, got 0"),
        ({"n_per_arm": 2.5}, RcbError, "n_per_arm must be an integer"),
        ({"n_worlds": 1}, RcbError, "n_worlds must be an integer of at least 2, got 1"),
        ({"taus": [-0.1, 0.2]}, RcbError, "taus must be 0 or more, got -0.1"),
        ({"taus": [np.nan]}, DataError, "taus must be finite"),
        ({"taus": [np.inf]}, DataError, "taus must be finite"),
        ({"taus": []}, RcbError, "taus is empty"),
        ({"taus": "all"}, DataError, "taus must be numeric"),
        ({"users": [1.0, 2.0, 3.0]}, DataError, "users must have 2 features, got 3"),
        ({"users": np.zeros((0, 2))}, DataError, "users is empty"),
        ({"users": [[1.0, np.nan]]}, DataError, "users must be finite"),
        ({"rivals": "al"}, RcbError, "rivals must be 'saturated' or 'all', got 'al'. Did you mean 'all'"),
        ({"engine": "exat"}, RcbError, "There is no engine 'exat'. Did you mean 'exact'"),
        ({"seed": -1}, RcbError, "seed must be"),
    ],
)
def test_bad_input_is_refused_before_any_sampling(
    change: dict[str, Any], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sample(*_: object, **__: object) -> None:
        raise AssertionError("sampled before the input was checked")

    monkeypatch.setattr("rcb_bayes.gaps.stages.draw_worlds", sample)
    with pytest.raises(error, match=message):
        estimate_gaps(gaussian_market(np.zeros((3, 2))), **GOOD | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_grid": []}, "n_grid is empty"),
        ({"n_grid": [5, 0]}, "n_grid must be an integer of at least 1, got 0"),
        ({"tau": -1.0}, "taus must be 0 or more, got -1"),
        ({"tau": np.nan}, "taus must be finite"),
        ({"floor": 0.0}, "floor is a probability above 0 and at most 1, got 0.0"),
        ({"floor": 95}, "floor is a probability above 0 and at most 1, got 95"),
        ({"saturated": ["arm_7"]}, "There is no arm 'arm_7'"),
    ],
)
def test_bad_input_of_the_curve_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"n_grid": [5], "tau": 0.1, "floor": 0.1, "saturated": ["arm_0"], "n_worlds": 50}
    with pytest.raises(RcbError, match=message):
        gap_curve(gaussian_market(np.zeros((3, 2))), **good | change)
