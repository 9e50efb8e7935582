"""The posterior that the paper's algorithm acts on now, as ArviZ knows it."""

from typing import TYPE_CHECKING

from rcb_bayes.errors import RcbError
from rcb_bayes.running.heeding import Heeding
from rcb_bayes.running.oracle import PosteriorOracle, prior_tree
from rcb_bayes.running.policies import Rcb

if TYPE_CHECKING:
    import xarray as xr


def posterior_of(rcb: Rcb) -> "xr.DataTree":
    """The posterior behind the present stage; the prior where no arm has its samples yet.

    Raises
    ------
    RcbError
        An oracle that has no posterior.
    """
    exploitation, cold = rcb.exploitation, rcb.cold
    if exploitation is None:
        if cold.predictor is None:
            return prior_tree(cold.oracle)
        return cold.oracle.tree(cold.history, cold.saturated, cold.predictor)
    oracle = exploitation.oracle.oracle if isinstance(exploitation.oracle, Heeding) else exploitation.oracle
    if not isinstance(oracle, PosteriorOracle) or exploitation.predictor is None:
        raise RcbError(f"A {type(oracle).__name__} has no posterior to show. Use a PosteriorOracle.")
    used = oracle if exploitation.heeded else exploitation.oracle_after(exploitation.begins - exploitation.began)
    assert isinstance(used, PosteriorOracle)  # a prior that has loosened leaves it one
    return used.tree(exploitation.fed, range(rcb.market.n_arms), exploitation.predictor)
