"""Theorem 1's constants against exact fractions and the figures for the paper's own settings."""

from fractions import Fraction
from math import ceil, inf, log2, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.theorem import RegretBound, TheoremConstants, theorem_constants

# The paper's Setting 1, with phi0 = 1 as if that were possible.
SETTING: dict[str, Any] = {
    "n_arms": 2,
    "n_features": 5,
    "sigma": 0.05,
    "phi0": 1.0,
    "epsilon": 0.05,
    "tau": 0.01,
    "rho": 0.95,
}


def constants(**changes: Any) -> TheoremConstants:
    return theorem_constants(**{**SETTING, **changes})


# --- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_arms", "samples", "cold_start"),
    [
        (2, 2_250, 40e3),
        (5, 35_157, 2.4e6),  # 35,156.25, and N is an integer
        (10, 281_250, 43e6),
    ],
)
def test_figures_of_setting_1(n_arms: int, samples: int, cold_start: float) -> None:
    plan = constants(n_arms=n_arms)
    assert plan.n_per_arm == samples
    assert plan.inverse_rate == pytest.approx(1 + 0.95 / 0.0595, rel=1e-12)
    assert plan.expected_cold_start == pytest.approx(samples * (1 + (n_arms - 1) * plan.inverse_rate), rel=1e-12)
    assert plan.expected_cold_start == pytest.approx(cold_start, rel=0.02)  # quoted to two digits
    assert plan.first_epoch == ceil(2 + log2(samples))


@pytest.mark.parametrize(("n_features", "samples"), [(70, 36_124), (93, 38_136)])  # 36,123.6 and 38,135.64
def test_figures_of_warfarin(n_features: int, samples: int) -> None:
    plan = constants(n_arms=3, n_features=n_features, sigma=0.054, tau=0.005, epsilon=0.025)
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
    tau=decimals,
    epsilon=decimals,
)
def test_n_is_the_exact_ceiling(
    n_arms: int, n_features: int, sigma: Fraction, phi0: Fraction, tau: Fraction, epsilon: Fraction
) -> None:
    exact = ceil((sigma**2 * n_features + 1) * n_arms**3 / (phi0 * (tau + epsilon) ** 2))
    plan = constants(
        n_arms=n_arms,
        n_features=n_features,
        sigma=float(sigma),
        phi0=float(phi0),
        tau=float(tau),
        epsilon=float(epsilon),
    )
    assert plan.n_per_arm == exact


@pytest.mark.parametrize(
    ("changes", "samples"),
    [
        ({"n_arms": 3, "sigma": 0.1, "tau": 0.02, "epsilon": 0.025}, 14_000),  # 14000.000000000002 in floats
        ({"n_arms": 9, "n_features": 70, "sigma": 0.1, "tau": 0.005, "epsilon": 0.0, "phi0": 0.1}, 495_720_000),
    ],
)
def test_a_rounding_error_costs_no_sample(changes: dict[str, Any], samples: int) -> None:
    plan = constants(**changes)
    assert plan.n_per_arm == samples
    args = {**SETTING, **changes}
    naive = (args["sigma"] ** 2 * args["n_features"] + 1) * args["n_arms"] ** 3
    assert ceil(naive / (args["phi0"] * (args["tau"] + args["epsilon"]) ** 2)) == samples + 1  # the planted error


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
        ({"sigma": 1e200}, "N exceeds every number for sigma = 1e+200"),
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
        ({"epsilon": 0.0, "tau": 1e-200}, "N exceeds every number"),
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


# --- plans -----------------------------------------------------------------------------------------------------------


def setting_1(n_arms: int = 5) -> rcb.Market:
    prior = rcb.Prior.gaussian(np.zeros((n_arms, 5)), 0.2)
    return rcb.Market(prior=prior, covariates=rcb.Sphere(5), noise=rcb.GaussianNoise(0.05))


def test_the_plan_of_setting_1_overruns_the_horizon_and_contradicts_the_belief() -> None:
    plan = rcb.theorem_plan(setting_1(), epsilon=0.05, tau=0.01, rho=0.95, phi0=1.0)
    assert plan.n_per_arm == 35_157
    assert plan.exploration_rate == pytest.approx(1 / plan.inverse_rate)
    assert not plan.feasible
    assert "of 100,000 there are" in plan.reason
    (note,) = plan.notes
    assert "rho = 0.95 contradicts the belief" in note
    assert "probability 0.05" in note  # reading 4: about .06 with four saturated arms
    assert plan.rate(np.ones(5)) == plan.exploration_rate
    assert plan.notion == "proof"


def test_phi0_comes_from_the_users_unless_given() -> None:
    assert rcb.theorem_plan(setting_1()).n_per_arm == constants(n_arms=5, phi0=0.2).n_per_arm


def test_constants_that_hold_are_not_called_a_contradiction() -> None:
    plan = rcb.theorem_plan(setting_1(2), rho=0.4, epsilon=5.0, horizon=10**6)
    assert plan.notes == ()
    assert plan.feasible
    assert plan.reason == ""


def test_a_theorem_s_plan_survives_json() -> None:
    plan = rcb.theorem_plan(setting_1())
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
    assert rcb.theorem_plan(flat, phi0=0.5).n_per_arm > 0


def test_an_unknown_noise_is_refused() -> None:
    prior = rcb.load_prior("unknown_noise", n_arms=2, n_features=2)
    with pytest.raises(RcbError, match="sigma, which this belief leaves open"):
        rcb.theorem_plan(rcb.Market(prior=prior, covariates=rcb.Sphere(2)))


# --- Theorem 2 -------------------------------------------------------------------------------------------------------


def bound(**changes: Any) -> RegretBound:
    plan = rcb.calibrate(setting_1(), n_per_arm=10, n_worlds=100)  # 50 rounds
    return rcb.regret_bound(setting_1(), plan, **{"horizon": 10**8, **changes})


def test_both_forms_of_the_regret_bound() -> None:
    found = bound()
    assert found.cold_start == 50
    assert found.learning == pytest.approx(151 * 0.05 * 5 * 1e4)
    assert found.learning_corrected == pytest.approx(found.learning * 5**0.5)
    assert found.deviation == pytest.approx((8 * (1e8 - 50) * np.log(40)) ** 0.5)
    assert found.total == pytest.approx(50 + found.learning + found.deviation)
    assert found.total < found.total_corrected


def test_the_horizon_bounds_regret_by_itself() -> None:
    assert bound(horizon=1000).total == 1000.0
    assert bound(horizon=20).cold_start == 20.0


@pytest.mark.parametrize(
    ("change", "message"), [({"horizon": 0}, "horizon"), ({"delta": 0.0}, "delta"), ({"delta": nan}, "delta")]
)
def test_bad_input_of_the_bound_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RcbError, match=message):
        bound(**change)
