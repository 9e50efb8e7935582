"""What users expect before any data, as an audit asks for it: again and again of the same users."""

from collections.abc import Callable

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.outlook import find_rows, places_of
from rcb_bayes.mechanism.panel import Panel, panel_of
from rcb_bayes.mechanism.regions import Regions
from rcb_bayes.schema import FloatArray

SeatsOf = Callable[[FloatArray], Panel]
"""Users (U, d) with what they expect before any data; those of a table as the table has them, in full precision."""


def seats_of(market: Market, panel: Panel, *, regions: Regions | None = None) -> SeatsOf:
    """Linear rewards are worked out; others are known for the users of a table, of whom they are looked up."""
    if market.noise.is_gaussian:
        return lambda users: panel_of(market, users).under(regions)
    exact = places_of(panel.users)
    short = places_of(panel.users.astype(np.float32))  # pyright: ignore[reportArgumentType]
    return lambda users: panel.take(np.array(find_rows(short if users.dtype == np.float32 else exact, users)))


def are_from_table(panel_users: FloatArray, users: FloatArray) -> bool:
    """Whether all users (U, d) are among those of a table."""
    known = places_of(panel_users)
    return all(row.tobytes() in known for row in np.ascontiguousarray(users) + 0.0)
