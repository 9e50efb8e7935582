"""Plans with N and the rate as given."""

import numpy as np
import pytest

from rcb_bayes import GaussianNoise, Market, Plan, PosteriorOracle, Prior, Sphere, audit, fixed_plan, simulate
from rcb_bayes.errors import RcbError


@pytest.fixture
def market() -> Market:
    prior = Prior.gaussian([[0.3, 0.0], [0.0, 0.0], [-0.1, 0.0]], 0.2)
    return Market(prior=prior, covariates=Sphere(2), noise=GaussianNoise(0.1))


def test_it_is_as_given(market: Market) -> None:
    plan = fixed_plan(market, n_per_arm=7, exploration_rate=0.25, epsilon=0.1, notion="proof")
    assert (plan.kind, plan.n_per_arm, plan.exploration_rate, plan.inverse_rate) == ("fixed", 7, 0.25, 4.0)
    assert plan.feasible
    assert 3 * 7 < plan.expected_cold_start < 7 * (1 + 2 * 4)  # several arms fill at once
    np.testing.assert_array_equal(plan.rate(np.eye(2), saturated=["arm_0"]), 0.25)
    np.testing.assert_array_equal(plan.rate(np.eye(2), saturated=[]), 1.0)


def test_json_both_ways(market: Market) -> None:
    plan = fixed_plan(market, n_per_arm=7)
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    assert "fixed plan" in plan.summary()


def test_the_cold_start_takes_as_long_as_it_says(market: Market) -> None:
    plan = fixed_plan(market, n_per_arm=20, exploration_rate=0.3)
    runs = simulate(
        market, plan, horizon=600, n_worlds=60, oracle=PosteriorOracle(market.prior, market.noise, read="engine")
    )
    length = runs["cold_start_length"].values
    error = np.hypot(length.std(ddof=1) / np.sqrt(60), plan.expected_cold_start_mcse)
    assert abs(length.mean() - plan.expected_cold_start) < 4 * error
    one_by_one = 20 * (1 + 2 / 0.3)  # the planted error: phases that do not overlap
    assert abs(length.mean() - one_by_one) > 8 * error


def test_the_length_has_a_seed(market: Market) -> None:
    first, again, other = (fixed_plan(market, n_per_arm=7, seed=seed) for seed in (1, 1, 2))
    assert first.expected_cold_start == again.expected_cold_start != other.expected_cold_start
    assert (first.seed, other.seed) == (1, 2)


@pytest.mark.slow
def test_an_audit_tells_a_rate_that_users_follow_from_one_they_do_not(market: Market) -> None:
    kept = {
        rate: audit(
            market, fixed_plan(market, n_per_arm=20, exploration_rate=rate, epsilon=0.05), n_worlds=400, horizon=500
        )
        for rate in (0.02, 1.0)
    }
    assert kept[1.0].verdict == "fail"
    assert kept[0.02].margins["estimate"].min() > kept[1.0].margins["estimate"].min()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"exploration_rate": 0.0}, "exploration_rate"),
        ({"exploration_rate": 1.5}, "exploration_rate"),
        ({"n_per_arm": 0}, "n_per_arm"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"notion": "strong"}, "notion"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings(market: Market, values: dict, message: str) -> None:
    with pytest.raises(RcbError, match=message):
        fixed_plan(market, **values)
