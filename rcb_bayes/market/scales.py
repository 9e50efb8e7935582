"""Whether one column of a table decides nearly all that a belief expects."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.users import Empirical
from rcb_bayes.users.mending import drowning_note

if TYPE_CHECKING:
    from rcb_bayes.market.market import Market


def scale_note(market: "Market") -> str | None:
    """A line for whoever reads the result; None where columns weigh alike, or users are no table.

    Raw scales (an age in years beside a share) make a belief of equal coefficients one about the largest column.
    """
    users = market.covariates
    if not isinstance(users, Empirical) or market.prior.feature_map is not None:
        return None
    moments = market.prior.moments
    variance = np.einsum("kdkd->kd", moments["covariance"].values)
    spread = np.sqrt((moments["mean"].values ** 2 + variance).mean(axis=0))  # (d,)
    return drowning_note(users.rows, users.features, spread)
