"""Theorem 1's constants against exact fractions and the figures for the paper's own settings."""

from fractions import Fraction
from math import ceil, inf, log2, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_bayes.errors import RcbError
from rcb_bayes.theorem import TheoremConstants, theorem_constants

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
