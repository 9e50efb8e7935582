"""Plans and policies side by side."""

from functools import cache

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes import Market, Prior, compare_plans
from rcb_bayes.errors import RcbError

pytestmark = pytest.mark.usefixtures("small_panels")


@cache
def market() -> Market:
    prior = Prior.gaussian([[0.3, 0.3], [0.0, 0.0]], 0.2)
    return Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))


def test_plans_run_in_the_same_worlds_and_are_audited():
    plan = rcb.calibrate(market(), n_per_arm=8, n_worlds=300, seed=1)
    table = compare_plans(
        market(),
        {
            "sampled": plan,
            "again": plan,
            "given": rcb.fixed_plan(market(), n_per_arm=8, exploration_rate=1.0),
            "greedy": lambda market, seed: rcb.baselines.Greedy(market, seed=seed, batch=20),
            "first arm": lambda market, seed: rcb.baselines.AlwaysArm(market, "arm_0", seed=seed),
        },
        horizon=120,
        n_worlds=6,
        audit_worlds=50,
    )
    one, two = table.sel(plan="sampled"), table.sel(plan="again")
    assert one["regret"].item() == two["regret"].item()
    assert two["extra_regret"].item() == 0.0
    assert two["extra_regret_mcse"].item() == 0.0
    runs = rcb.simulate(market(), plan, horizon=120, n_worlds=6, seed=1)
    assert one["regret"].item() == pytest.approx(runs["regret"].sum("t").mean().item())
    assert one["cold_start"].item() == pytest.approx(runs["cold_start_length"].mean().item())
    assert table["verdict"].sel(plan="given", notion="user").item() == "fail"  # everybody is explored
    assert table["worst_margin"].sel(plan="given", notion="user").item() < -0.1
    assert table["compliance"].sel(plan="given").item() < 1
    assert table["regret"].sel(plan="first arm").item() > table["regret"].sel(plan="greedy").item()
    assert np.isnan(table["n_per_arm"].sel(plan="greedy").item())


def test_plans_that_cannot_be_run_have_no_figures():
    strong = Market(
        prior=Prior.gaussian([[1.0, 1.0], [0.0, 0.0]], 0.02),
        covariates=rcb.Sphere(2),
        noise=rcb.GaussianNoise(0.05),
    )
    plan = rcb.calibrate(strong, personalised=False, n_per_arm=5, n_worlds=200, seed=1)
    assert not plan.feasible
    table = compare_plans(strong, [plan], horizon=50, n_worlds=2, audit_worlds=50)
    assert not table["feasible"].item()
    assert np.isnan(table["regret"].item())


def test_bad_input_is_refused():
    with pytest.raises(RcbError, match="no plans to compare"):
        compare_plans(market(), [])
    with pytest.raises(RcbError, match="n_worlds must be an integer of at least 2"):
        compare_plans(market(), [rcb.fixed_plan(market())], n_worlds=1)
