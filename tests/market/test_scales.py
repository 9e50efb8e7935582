"""Raw columns and 0/1 rewards: refused at once, with the column that does it; gaps and samples by their size."""

import numpy as np
import pytest

from rcb_bayes import calibrate, check_assumptions, check_need
from rcb_bayes.belief import Prior
from rcb_bayes.errors import MarketError
from rcb_bayes.gaps.stages import Stages
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.market.scales import check_predictors, reward_sizes
from rcb_bayes.users import Empirical


def test_chances_of_0_or_1_are_refused_before_hours_are_spent():
    rows = np.column_stack([np.ones(20), np.linspace(10_000, 90_000, 20)])
    users = Empirical(rows, features=["base", "income"])
    raw = Market(prior=Prior.gaussian([[0.2, 0.0], [0.0, 0.0]], 0.25), covariates=users, noise=BernoulliLogit())
    for ask in (check_need, check_assumptions, calibrate):
        with pytest.raises(MarketError, match=r"'income' does most of it.*standardise"):
            ask(raw)
    known = Prior.gaussian([[0.2, 0.0], [0.0, 0.0]], np.diag([0.25, 1e-10]))
    check_predictors(Market(prior=known, covariates=users, noise=BernoulliLogit()))  # the belief knows of the scale
    check_predictors(Market(prior=raw.prior, covariates=users, noise=GaussianNoise(0.3)))


# --- what is large beside rewards ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_usual_gaps_and_samples_follow_the_unit_of_rewards(size: float) -> None:
    prior = Prior.gaussian(size * np.array([[0.5], [0.2]]), 0.25 * size**2)
    market = Market(prior=prior, covariates=Empirical([[1.0]]), noise=GaussianNoise(4.2 * size))
    found = reward_sizes(market)
    assert found.gap == pytest.approx(0.01 * size)  # a fiftieth of .5
    assert found.n_per_arm == 100  # the next step after 4.2^2 / .5^2, which have the belief's own variance
    assert found.event_rate is None
    told = check_assumptions(market, n_worlds=200, seed=1)[0].meaning
    assert f"by {0.01 * size:g}." in told


def test_samples_of_rare_rewards_hold_events_and_say_how_many() -> None:
    """A click rate of half a per cent: the gap was twice that, of 50 samples that hold a fourth of a click."""
    rate = 0.005
    logit = float(np.log(rate / (1.0 - rate)))
    prior = Prior.gaussian([[logit], [logit]], 0.04)
    market = Market(prior=prior, covariates=Empirical([[1.0]]), noise=BernoulliLogit())
    rng = np.random.default_rng(3)
    rates = 1.0 / (1.0 + np.exp(-(logit + 0.2 * rng.standard_normal(200_000))))
    found = reward_sizes(market)
    assert found.event_rate == pytest.approx(rates.mean(), rel=4 * rates.std() / rates.mean() / np.sqrt(2000))
    assert rates.std() / 100 < found.gap < rates.std() / 25
    assert found.n_per_arm == 2000
    few, usual = Stages(market, n_per_arm=50, n_worlds=2), Stages(market, n_per_arm=None, n_worlds=2)
    assert few.told_samples == "50 samples (of the rarer outcome some 0.25)"
    assert usual.attrs()["n_events"] == pytest.approx(2000 * rates.mean(), rel=0.05)
