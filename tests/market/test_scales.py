"""Raw columns and 0/1 rewards: refused at once, with the column that does it."""

import numpy as np
import pytest

from rcb_bayes import calibrate, check_assumptions, check_need
from rcb_bayes.belief import Prior
from rcb_bayes.errors import MarketError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.market.scales import check_predictors
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
