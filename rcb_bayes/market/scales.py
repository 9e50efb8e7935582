"""Scales of a table's columns: does one decide nearly all that is expected, do 0/1 rewards leave room for chance?"""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import MarketError
from rcb_bayes.users import Empirical
from rcb_bayes.users.mending import drowning_note

if TYPE_CHECKING:
    from rcb_bayes.market.market import Market

_FARTHEST = 50.0  # of a linear predictor: the chance is 1e-22 there, or 1 less that


def check_predictors(market: "Market") -> None:
    """Refuse 0/1 rewards of users whose chances are 0 or 1 under nearly all that the belief holds possible.

    Raises
    ------
    MarketError
        With the column that does most of it. Engines would take hours, and their answers mean nothing.
    """
    users = market.covariates
    if market.noise.is_gaussian or not isinstance(users, Empirical) or market.prior.feature_map is not None:
        return
    spread = _coefficients(market)
    typical = float(np.median(np.sqrt((users.rows**2) @ spread**2)))
    if typical > _FARTHEST:
        heaviest = users.features[int(np.argmax(np.sqrt((users.rows**2).mean(axis=0)) * spread))]
        raise MarketError(
            f"Under this belief x'b is beyond {typical:,.0f}, up or down, for half of the users. Rewards are 0/1, so "
            f"that chances are all 0 or 1. '{heaviest}' does most of it. Standardise the columns (standardise=True "
            "where they are read), or give its coefficients a smaller scale."
        )


def scale_note(market: "Market") -> str | None:
    """A line for whoever reads the result; None where columns weigh alike, or users are no table.

    Raw scales (an age in years beside a share) make a belief of equal coefficients one about the largest column.
    """
    users = market.covariates
    if not isinstance(users, Empirical) or market.prior.feature_map is not None:
        return None
    return drowning_note(users.rows, users.features, _coefficients(market))


def _coefficients(market: "Market") -> np.ndarray:
    """Root mean square of each feature's coefficients under the belief, (d,)."""
    moments = market.prior.moments
    variance = np.einsum("kdkd->kd", moments["covariance"].values)
    return np.sqrt((moments["mean"].values ** 2 + variance).mean(axis=0))
