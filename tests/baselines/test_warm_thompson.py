"""Thompson sampling after a warm start: how many samples, and whether users follow with them and without."""

from math import ceil, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import rcb_bayes as rcb
from rcb_bayes.baselines.warm_thompson import estimate_separations, warm_start_samples
from rcb_bayes.errors import RcbError
from rcb_bayes.running.simulation import simulate
from tests.baselines.runs import alike, drive, market

GAP, SD = 0.3, 0.5  # of mu_1 - mu_2 in the market of users who are alike


def test_the_formula():
    assert warm_start_samples(0.1, 0.2) == ceil(100 * log(5))
    assert warm_start_samples(0.1, 0.2, sigma=0.5, constant=2.0) == ceil(50 * log(5))
    assert warm_start_samples(10.0, 0.9) == 1


def test_separations_are_those_of_the_closed_form():
    gain, chance = estimate_separations(alike(), n_worlds=40_000)
    exact = SD * norm.pdf(GAP / SD) - GAP * norm.sf(GAP / SD)
    second = (GAP**2 + SD**2) * norm.sf(GAP / SD) - GAP * SD * norm.pdf(GAP / SD)  # E[((mu_2 - mu_1)+)^2]
    assert abs(gain - exact) < 4 * sqrt((second - exact**2) / 40_000)
    assert abs(chance - norm.sf(GAP / SD)) < 4 * sqrt(chance * (1 - chance) / 40_000)
    wrong = norm.sf(GAP / 0.3)  # planted: the first arm's deviation alone
    assert abs(chance - wrong) > 4 * sqrt(chance * (1 - chance) / 40_000)


def test_the_number_of_samples_is_that_of_the_belief():
    gain, chance = estimate_separations(alike())
    found = rcb.baselines.WarmThompson(alike(), collect="in turn")
    assert found.n_per_arm == warm_start_samples(gain, chance, sigma=0.2)
    assert rcb.baselines.WarmThompson(alike(), collect="in turn", constant=3.0).n_per_arm > 2 * found.n_per_arm


def margin(n_per_arm: int, look: int) -> tuple[float, float]:
    audit = rcb.audit(
        alike(),
        lambda m, seed: rcb.baselines.WarmThompson(m, n_per_arm=n_per_arm, collect="in turn", n_draws=20, seed=seed),
        horizon=look,
        n_worlds=400,
        n_users=1,
        epsilon=0.0,
    )
    cell = audit.margins.isel(user=0).sel(stage=f"round {look}", arm="arm_1", rival="arm_0")
    return cell["estimate"].item(), cell["mcse"].item()


def test_users_follow_after_the_warm_start():
    n = rcb.baselines.WarmThompson(alike(), collect="in turn").n_per_arm
    assert 2 * n < 32
    estimate, error = margin(n, 32)
    assert estimate > 4 * error


def test_they_do_not_without_one():
    audit = rcb.audit(
        alike(), lambda m, seed: rcb.baselines.LinThompson(m, n_draws=20, seed=seed), horizon=1, n_worlds=400, n_users=1
    )
    cell = audit.margins.isel(user=0).sel(stage="round 1", arm="arm_1", rival="arm_0")
    assert cell["estimate"].item() == pytest.approx(-GAP, abs=1e-6)
    assert audit.verdict == "fail"


def test_the_samples_of_the_warm_start_are_learnt():
    policy = rcb.baselines.WarmThompson(market(), n_per_arm=6, collect="in turn", seed=1)
    drive(policy, 40)
    assert policy.cold_start_length == 18
    assert policy.thompson.history.n_samples == 40
    assert (policy.history.n >= 6).all()


@pytest.mark.parametrize("batch", [1, 9])
def test_a_warm_start_can_be_hidden(batch: int):
    runs = simulate(
        alike(),
        lambda m, seed: rcb.baselines.WarmThompson(m, n_per_arm=5, inverse_rate=4.0, batch=batch, seed=seed),
        horizon=300,
        n_worlds=3,
    )
    assert (runs["cold_start_length"] > 10).all()
    assert np.isfinite(runs["regret"]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rcb.baselines.WarmThompson(alike(), collect="hiden"), "Did you mean 'hidden'?"),  # pyright: ignore
        (lambda: rcb.baselines.WarmThompson(alike(), constant=0.0), "constant must be a positive number"),
        (lambda: rcb.baselines.WarmThompson(alike(), n_per_arm=0), "n_per_arm must be"),
        (lambda: rcb.baselines.WarmThompson(alike((3.0, 0.0), (0.01, 0.01))), "hardly ever the best"),
        (lambda: warm_start_samples(0.1, 1.5), "chance is a probability"),
        (lambda: warm_start_samples(0.0, 0.5), "gain must be a positive number"),
    ],
)
def test_where_it_does_not_apply_it_says_so(make: Any, message: str):
    with pytest.raises(RcbError) as caught:
        make()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
