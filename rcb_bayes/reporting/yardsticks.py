"""What a plan's regret is measured by: greedy, and everybody's own favourite, in the same worlds."""

from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.panel import make_panel
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.running.need import Beside, mean_of
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.wording import figure

if TYPE_CHECKING:
    import xarray as xr

PLAN, GREEDY, FAVOURITE = "this plan", "greedy, without incentives", "everybody's favourite, nothing learnt"
_AT_ONCE, _USERS = 100, 1024


def yardsticks(market: Market, beside: Beside | None, *, horizon: int, seed: int) -> "xr.Dataset | None":
    """The regret over a whole run of a plan and of what is done without one, and how far they are apart.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    beside : Beside, optional
        The plan and greedy in the same worlds, of ``check_need``, over as many rounds; None where no plan was run.
    horizon : int
        T.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Dataset or None
        ``regret`` by ``policy``, and ``apart``, what it is beyond the plan's, each with its ``_mcse``; ``apart`` is NaN
        where cold starts have not ended, ``n_late`` of the ``n_worlds``. None where nature is not what users believe,
        and without runs.
    """
    import xarray as xr

    if market.is_misspecified or beside is None:
        return None
    lost, error = _favourite(market, beside.worlds.beta, seed=seed)
    each = np.stack([beside.plan, beside.greedy, horizon * lost])
    regret, apart = (np.array([mean_of(values) for values in some]) for some in (each, each - beside.plan))
    for some in (regret, apart):  # the favourite's users are a sample, too
        some[2, 1] = np.hypot(some[2, 1], horizon * error)
    apart[0] = 0.0
    if beside.is_late:
        apart[1:] = np.nan
    found = {"regret": regret[:, 0], "regret_mcse": regret[:, 1], "apart": apart[:, 0], "apart_mcse": apart[:, 1]}
    return xr.Dataset(
        {name: ("policy", values) for name, values in found.items()},
        coords={"policy": [PLAN, GREEDY, FAVOURITE]},
        attrs={"horizon": horizon, "n_worlds": len(beside.plan), "n_late": beside.n_late},
    )


def _favourite(market: Market, beta: FloatArray, *, seed: int) -> tuple[FloatArray, float]:
    """What a user loses in a round by the arm that she expects most of before any data, (W,), and its users' error."""
    panel = make_panel(market, n_users=_USERS, rng=generator(seed, Stream.FAVOURITES))
    own = panel.prior_rewards.argmax(axis=1)
    lost = []
    by_user = np.zeros(panel.n_users)
    for start in range(0, len(beta), _AT_ONCE):
        rewards = market.noise.mean_reward(beta[start : start + _AT_ONCE] @ panel.users.T)  # (w, K, P)
        loss = rewards.max(axis=1) - rewards[:, own, np.arange(panel.n_users)]
        lost.append(loss @ panel.weights)
        by_user += loss.sum(axis=0) / len(beta)
    return np.concatenate(lost), panel.mean(by_user)[1]


YARDSTICKS = ["", "regret", "beyond the plan's"]


def compared_words(found: "xr.Dataset") -> str:
    """What is compared, and in which worlds."""
    n, late = found.attrs["n_worlds"], found.attrs["n_late"]
    told = (
        "Greedy recommends what looks best so far, and learns by luck. A favourite is the arm that a user expects most "
        f"of before any data. Everybody follows either of the two. All are run in the same {n:,} worlds."
    )
    untold = f" No difference is told: in {late:,} of them the cold start has not ended."
    return told + (untold if np.isnan(found["apart"]).any() and n > 1 else "")


def yardstick_rows(found: "xr.Dataset") -> list[list[str]]:
    """Each policy with its regret, and what it costs beyond the plan."""
    return [
        [
            str(name),
            figure(*(float(one[key]) for key in ("regret", "regret_mcse"))),
            "\u2013"
            if name == PLAN or np.isnan(one["apart"])
            else figure(*(float(one[key]) for key in ("apart", "apart_mcse"))),
        ]
        for name in found["policy"].values
        for one in (found.sel(policy=name),)
    ]
