"""Theorem 1's constants of a belief: phi0 is the users' own unless another is given."""

import numpy as np
import pytest

from rcb_bayes.belief import Prior
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.studies.actg import constants_of
from rcb_bayes.users import Empirical

ROWS = np.array([[1.0, 0.5, 0.0], [1.0, -0.5, 0.0], [1.0, 0.2, 0.0]])  # the last feature is never visited


def market_of(n_features: int) -> Market:
    prior = Prior.gaussian(np.zeros((2, n_features)), 1.0)
    return Market(prior=prior, covariates=Empirical(ROWS[:, :n_features]), noise=GaussianNoise(0.5))


def test_phi0_is_the_users_own_unless_given() -> None:
    market = market_of(2)
    own = constants_of(market, epsilon=0.1, n_worlds=300, seed=1)
    assert own["phi0"] == market.population.phi0
    given = {phi0: constants_of(market, epsilon=0.1, phi0=phi0, n_worlds=300, seed=1) for phi0 in (own["phi0"], 1.0)}
    assert given[own["phi0"]] == own
    assert given[1.0]["phi0"] == 1.0
    assert given[1.0]["n_per_arm"] < own["n_per_arm"]
    changed = {name for name, value in own.items() if given[1.0][name] != value}
    assert changed == {"phi0", "n_per_arm"}


def test_without_variation_theorem_1_needs_a_phi0() -> None:
    market = market_of(3)
    with pytest.raises(RcbError, match="phi0 > 0"):
        constants_of(market, epsilon=0.1, n_worlds=300, seed=1)
    assert constants_of(market, epsilon=0.1, phi0=1.0, n_worlds=300, seed=1)["n_per_arm"] > 0
