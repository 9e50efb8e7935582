"""Theorem 1's constants against exact fractions, the figures for the paper's own settings, and normal laws."""

import re
from fractions import Fraction
from math import ceil, inf, log2, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps.limiting import measured
from rcb_bayes.planning.theorem import TheoremConstants, TheoremInputs, theorem_constants

# The paper's Setting 1, with phi0 = 1 as if that were possible.
SETTING: dict[str, Any] = {
    "n_arms": 2,
    "n_features": 5,
    "sigma": 0.05,
    "phi0": 1.0,
    "epsilon": 0.05,
    "tau": 0.01,
    "rho": 0.95,
    "tau_star": 0.01,
}


def constants(**changes: Any) -> TheoremConstants:
    return theorem_constants(TheoremInputs(**{**SETTING, **changes}))


# --- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_arms", "samples"),
    [
        (2, 2_250),
        (5, 35_157),  # 35,156.25, and N is an integer
        (10, 281_250),
    ],
)
def test_figures_of_setting_1(n_arms: int, samples: int) -> None:
    plan = constants(n_arms=n_arms)
    assert plan.n_per_arm == samples
    assert plan.inverse_rate == pytest.approx(1 + 0.95 / 0.0595, rel=1e-12)
    assert plan.first_epoch == ceil(2 + log2(samples))


@pytest.mark.parametrize(("n_features", "samples"), [(70, 36_124), (93, 38_136)])  # 36,123.6 and 38,135.64
def test_figures_of_warfarin(n_features: int, samples: int) -> None:
    plan = constants(n_arms=3, n_features=n_features, sigma=0.054, tau_star=0.005, epsilon=0.025)
    assert plan.n_per_arm == samples


def test_users_on_the_sphere_take_d_times_more() -> None:
    assert constants(n_arms=10, phi0=0.2).n_per_arm == 5 * constants(n_arms=10).n_per_arm


# --- formulas --------------------------------------------------------------------------------------------------------

decimals = st.integers(1, 400).map(lambda k: Fraction(k, 1000))


@given(
    n_arms=st.integers(2, 12),
    n_features=st.integers(1, 100),
    sigma=decimals,
    phi0=decimals,
    tau_star=decimals,
    epsilon=decimals,
)
def test_n_is_the_exact_ceiling(
    n_arms: int, n_features: int, sigma: Fraction, phi0: Fraction, tau_star: Fraction, epsilon: Fraction
) -> None:
    exact = ceil((sigma**2 * n_features + 1) * n_arms**3 / (phi0 * (tau_star + epsilon) ** 2))
    plan = constants(
        n_arms=n_arms,
        n_features=n_features,
        sigma=float(sigma),
        phi0=float(phi0),
        tau_star=float(tau_star),
        epsilon=float(epsilon),
    )
    assert plan.n_per_arm == exact


@pytest.mark.parametrize(
    ("changes", "samples"),
    [
        ({"n_arms": 3, "sigma": 0.1, "tau_star": 0.02, "epsilon": 0.025}, 14_000),  # 14000.000000000002 in floats
        ({"n_arms": 9, "n_features": 70, "sigma": 0.1, "tau_star": 0.005, "epsilon": 0.0, "phi0": 0.1}, 495_720_000),
    ],
)
def test_a_rounding_error_costs_no_sample(changes: dict[str, Any], samples: int) -> None:
    plan = constants(**changes)
    assert plan.n_per_arm == samples
    args = {**SETTING, **changes}
    naive = (args["sigma"] ** 2 * args["n_features"] + 1) * args["n_arms"] ** 3
    assert ceil(naive / (args["phi0"] * (args["tau_star"] + args["epsilon"]) ** 2)) == samples + 1  # the planted error


def test_n_is_at_least_one() -> None:
    plan = constants(phi0=1e15)
    assert plan.n_per_arm == 1
    assert plan.first_epoch == 2


@pytest.mark.parametrize(
    ("changes", "rate"),
    [
        ({"epsilon": 1.0}, 1.0),
        ({"epsilon": 3.0}, 1.0),
        ({"prior_gap": 0.05}, 1.0),
        ({"prior_gap": 0.0}, 1.0),
        ({"tau": 0.0}, 1 + 0.95 / 0.05),
        ({"rho": 0.0}, 1 + 0.95 / 0.05),
        ({"epsilon": 0.0}, 1 + 1 / 0.0095),
        ({"prior_gap": 0.3}, 1 + 0.25 / 0.0595),
    ],
)
def test_l_is_at_least_one(changes: dict[str, Any], rate: float) -> None:
    assert constants(**changes).inverse_rate == pytest.approx(rate, rel=1e-12)
    assert constants(**changes).inverse_rate >= 1


def test_numpy_numbers_are_numbers() -> None:
    plan = constants(n_arms=np.int64(2), n_features=np.int32(5), phi0=np.float64(1.0), sigma=np.float64(0.05))
    assert plan == constants()
    assert type(plan.n_per_arm) is int


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phi0": 0.0}, "Theorem 1 needs phi0 > 0, got 0: some direction of the features is never visited. Drop"),
        ({"phi0": -0.1}, "phi0 must be a finite number of at least 0, got -0.1."),
        ({"phi0": nan}, "phi0 must be a finite number of at least 0, got nan."),
        ({"phi0": inf}, "phi0 must be a finite number"),
        ({"phi0": 1e-320}, "N exceeds every number"),
        ({"n_arms": 1}, "n_arms must be an integer of at least 2, got 1."),
        ({"n_arms": 2.0}, "n_arms must be an integer of at least 2, got 2.0."),
        ({"n_arms": True}, "n_arms must be an integer"),
        ({"n_features": 0}, "n_features must be an integer of at least 1, got 0."),
        ({"n_features": "5"}, "n_features must be an integer of at least 1, got '5'."),
        ({"sigma": -1.0}, "sigma must be a finite number of at least 0, got -1.0."),
        ({"sigma": None}, "sigma must be a finite number of at least 0, got None."),
        ({"sigma": 1e200}, "sigma must be a finite number"),
        ({"epsilon": -0.01}, "epsilon must be a finite number"),
        ({"epsilon": "0.05"}, "epsilon must be a finite number of at least 0, got '0.05'."),
        ({"tau": -0.01}, "tau must be a finite number"),
        ({"tau": nan}, "tau must be a finite number"),
        ({"rho": 1.1}, "rho is a probability: expected at most 1, got 1.1."),
        ({"rho": -0.1}, "rho must be a finite number of at least 0"),
        ({"prior_gap": nan}, "prior_gap must be a finite number"),
        ({"prior_gap": -1.0}, "prior_gap must be a finite number of at least 0"),
        ({"epsilon": 0.0, "tau": 0.0}, "divides by tau rho + epsilon, got 0. Give a positive epsilon, or positive tau"),
        ({"epsilon": 0.0, "rho": 0.0}, "divides by tau rho + epsilon"),
        ({"epsilon": 0.0, "tau_star": 1e-200}, "N exceeds every number"),
        ({"tau_star": -0.01}, "tau_star must be a finite number"),
    ],
)
def test_bad_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RcbError) as caught:
        constants(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- without the theorem's "+ 1" -------------------------------------------------------------------------------------


def test_without_the_plus_one_samples_scale_with_the_noise() -> None:
    assert constants(n_arms=5, plus_one=False).n_per_arm == ceil(Fraction(25, 10_000) * 5 * 125 / Fraction(36, 10_000))
    assert constants(n_arms=5, sigma=0.0, plus_one=False).n_per_arm == 1


# --- two constants, not one ------------------------------------------------------------------------------------------


def test_l_has_its_own_tau_and_n_the_other() -> None:
    usual = constants()
    assert constants(tau=0.3).n_per_arm == usual.n_per_arm
    assert constants(tau=0.3).inverse_rate < usual.inverse_rate
    assert constants(tau_star=0.3).n_per_arm < usual.n_per_arm
    assert constants(tau_star=0.3).inverse_rate == usual.inverse_rate


# --- plans -----------------------------------------------------------------------------------------------------------

PAPER: dict[str, Any] = {"epsilon": 0.05, "tau": 0.01, "rho": 0.95, "tau_star": 0.01, "prior_gap": 1.0}
ROUNDS = 100_000  # the paper's T


def setting_1(n_arms: int = 5, d: int = 5) -> rcb.Market:
    prior = rcb.Prior.gaussian(np.zeros((n_arms, d)), 0.2)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(d), noise=rcb.GaussianNoise(0.05))


def test_the_plan_of_setting_1_overruns_the_horizon_and_contradicts_the_belief() -> None:
    plan = rcb.theorem_plan(setting_1(), **PAPER, phi0=1.0, horizon=ROUNDS)
    assert plan.n_per_arm == 35_157
    assert plan.exploration_rate == pytest.approx(1 / plan.inverse_rate)
    assert not plan.feasible
    assert re.match(r"The cold start takes 19\d,\d{3} ± \d+ rounds, and there are 100,000: 0\.0 % of 400", plan.reason)
    speaks, note = plan.notes
    assert f"rho rho* = {plan.guarantee_probability:.3f}" in speaks
    assert plan.guarantee_probability == pytest.approx(0.926, abs=0.001)
    assert "rho = 0.95 contradicts the belief" in note
    assert "probability 0.05" in note  # reading 4: about .06 with four saturated arms
    assert plan.rate(np.ones(5)) == plan.exploration_rate
    assert plan.notion == "proof"


@pytest.mark.parametrize(
    ("n_arms", "d", "least", "most", "one_by_one"),
    [(2, 3, 14_500, 15_400, 120_680), (2, 5, 23_600, 24_900, 202_122), (3, 3, 73_000, 75_200, 791_891)],
)
def test_cold_starts_of_setting_1_end_within_the_horizon(
    n_arms: int, d: int, least: float, most: float, one_by_one: float
) -> None:
    plan = rcb.theorem_plan(setting_1(n_arms, d), **PAPER, horizon=ROUNDS)
    assert plan.feasible
    assert least < plan.expected_cold_start < most
    assert plan.expected_cold_start_mcse < 300
    assert plan.agenda.most * (1 + (n_arms - 1) * plan.inverse_rate) == pytest.approx(one_by_one, rel=1e-5)


def test_the_share_of_runs_that_end_in_time_is_told() -> None:
    plan = rcb.theorem_plan(setting_1(2, 3), **PAPER, horizon=15_000)
    assert plan.feasible
    assert re.search(r"ends within the 15,000 rounds in \d+\.\d ± \d\.\d % of runs", plan.notes[-1])


def test_phi0_comes_from_the_users_unless_given() -> None:
    assert rcb.theorem_plan(setting_1(), **PAPER).n_per_arm == constants(n_arms=5, phi0=0.2).n_per_arm


def test_constants_that_hold_are_not_called_a_contradiction() -> None:
    plan = rcb.theorem_plan(setting_1(2), rho=0.4, epsilon=5.0, horizon=10**6)
    assert len(plan.notes) == 1
    assert plan.feasible
    assert plan.reason == ""


def test_a_lead_that_the_belief_does_not_have_is_a_contradiction() -> None:
    plan = rcb.theorem_plan(setting_1(2), rho=0.4, tau_star=0.5, rho_star=0.9)
    assert "rho_star = 0.9 contradicts the belief" in plan.notes[1]
    assert "leads the second by 0.5" in plan.notes[1]


def test_very_many_arms_have_a_plan() -> None:
    prior = rcb.Prior.gaussian(np.linspace(0.0, 1.0, 70)[:, None], 0.2)
    many = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.05))
    plan = rcb.theorem_plan(many, **PAPER, n_worlds=50)
    one_by_one = plan.agenda.most * (1 + 69 * plan.inverse_rate)  # users who are all alike fill one arm at a time
    assert abs(plan.expected_cold_start - one_by_one) < 4 * plan.expected_cold_start_mcse
    assert not plan.feasible


# --- constants measured under the belief -----------------------------------------------------------------------------

SD = np.sqrt(0.2)  # of x'b for a user on the sphere


def test_measured_constants_are_those_of_the_normal_law() -> None:
    """Two arms: G is -x'b, and the best leads by |x'(b - c)|."""
    plan = rcb.theorem_plan(setting_1(2), tau=None, rho=None, n_worlds=20_000)
    grid = np.linspace(0.1, 3.0, 29_001)
    best = grid[(grid * norm.sf(grid)).argmax()]
    assert abs(plan.tau - SD * best) < 4 * plan.tau_mcse
    assert abs(plan.rho - norm.sf(plan.tau / SD)) < 4 * plan.rho_mcse
    assert plan.tau_mcse < 0.03
    tau_star = float(re.search(r"tau\* = (\S+) ±", plan.notes[0])[1])  # type: ignore[index]
    rho_star = plan.guarantee_probability / plan.rho
    assert tau_star == pytest.approx(np.sqrt(2) * SD * best, rel=0.05)
    assert rho_star == pytest.approx(2 * norm.sf(tau_star / (np.sqrt(2) * SD)), abs=0.01)
    assert plan.n_per_arm == pytest.approx((0.0025 * 5 + 1) * 8 / (0.2 * (tau_star + 0.05) ** 2), rel=0.01)
    one_tau = (0.0025 * 5 + 1) * 8 / (0.2 * (plan.tau + 0.05) ** 2)  # the planted error: one tau for both
    assert plan.agenda.most < 0.7 * one_tau


def test_the_half_that_is_not_given_is_measured() -> None:
    by_tau = rcb.theorem_plan(setting_1(2), tau=0.3, rho=None)
    assert abs(by_tau.rho - norm.sf(0.3 / SD)) < 4 * by_tau.rho_mcse
    by_rho = rcb.theorem_plan(setting_1(2), tau=None, rho=0.2)
    assert abs(by_rho.tau - SD * norm.isf(0.2)) < 4 * by_rho.tau_mcse
    assert by_rho.rho == 0.2
    assert 0 < by_rho.tau_mcse < 0.02


def test_a_gap_that_is_never_positive_is_measured_as_none() -> None:
    gaps = -np.ones((2, 4, 100))
    assert (measured(gaps, tau=None, rho=None).tau, measured(gaps, tau=None, rho=0.5).tau) == (0.0, 0.0)


def test_the_prior_gap_is_the_largest_of_the_users() -> None:
    prior = rcb.Prior.gaussian([[0.4, 0.1], [0.0, 0.3]], 0.2)
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]  # gaps .4, -.2 and .2
    users = rcb.Empirical(rows)
    table = rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(0.1))
    plan = rcb.theorem_plan(table, epsilon=0.05, tau=0.1, rho=0.2)
    assert plan.inverse_rate == pytest.approx(1 + 0.35 / 0.07)
    assert "largest prior gap of users 0.4" in plan.notes[0]
    assert rcb.theorem_plan(setting_1(2)).inverse_rate == 1.0  # nobody expects to lose anything


def test_coupled_arms_need_tau_and_rho() -> None:
    cov = 0.2 * np.eye(4) + 0.1 * np.kron(1 - np.eye(2), np.eye(2))
    prior = rcb.Prior.gaussian(np.zeros((2, 2)), cov)
    coupled = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.1))
    with pytest.raises(RcbError, match="these are coupled"):
        rcb.theorem_plan(coupled, tau=None)
    assert 0 < rcb.theorem_plan(coupled).guarantee_probability < 0.95


@pytest.mark.parametrize("name", ["tau", "rho", "tau_star", "rho_star", "prior_gap"])
def test_constants_that_are_no_numbers_are_refused(name: str) -> None:
    with pytest.raises(RcbError, match=name):
        rcb.theorem_plan(setting_1(2), **{**PAPER, name: -0.1})


def test_a_theorem_s_plan_survives_json() -> None:
    plan = rcb.theorem_plan(setting_1())
    assert rcb.Plan.from_json(plan.to_json()).guarantee_probability == plan.guarantee_probability
    assert rcb.Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    assert "theorem plan" in plan.summary()


def test_users_with_a_direction_never_visited_are_refused() -> None:
    flat = rcb.Market(
        prior=rcb.Prior.gaussian(np.zeros((2, 2)), 1.0),
        covariates=rcb.Empirical([[1.0, 1.0], [2.0, 2.0]]),
        noise=rcb.GaussianNoise(0.1),
    )
    with pytest.raises(RcbError, match="phi0 > 0"):
        rcb.theorem_plan(flat)
    assert rcb.theorem_plan(flat, phi0=0.5).agenda.most > 0


def test_an_unknown_noise_is_refused() -> None:
    prior = rcb.load_prior("unknown_noise", n_arms=2, n_features=2)
    with pytest.raises(RcbError, match="sigma, which this belief leaves open"):
        rcb.theorem_plan(rcb.Market(prior=prior, covariates=rcb.Sphere(2)))
