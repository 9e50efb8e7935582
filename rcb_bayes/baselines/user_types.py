"""Users for whom constants of the predecessors are computed: one, where all are alike, or a panel of them."""

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.schema import FloatArray
from rcb_bayes.users import Empirical

_MOST = 256


def sole_user(market: Market, *, what: str) -> FloatArray:
    """The user that everybody is, (d,).

    Raises
    ------
    RcbError
        Users who differ.
    """
    found = panel_of(market)
    if len(found) > 1:
        raise RcbError(
            f"{what} is for users who are all alike, and these differ. "
            "Use covariates=Empirical([[1.0]]), or rcb.calibrate for a plan with covariates."
        )
    return found[0]


def panel_of(market: Market) -> FloatArray:
    """Distinct users (U, d): all of a short table, else a sample."""
    covariates = market.population
    if isinstance(covariates, Empirical):
        rows = np.unique(covariates.rows[covariates.weights > 0], axis=0)
        if len(rows) <= _MOST:
            return rows
    return np.unique(covariates.sample(_MOST, seed=0), axis=0)
