"""What a plan's regret is measured by: greedy, and everybody's own favourite, under the users' belief."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.gaps.estimation import mean_error
from rcb_bayes.market import Market
from rcb_bayes.mechanism.greedy import GreedyRuns
from rcb_bayes.mechanism.panel import make_panel
from rcb_bayes.mechanism.streams import Stream, generator
from rcb_bayes.mechanism.worlds import draw_worlds

if TYPE_CHECKING:
    import xarray as xr

GREEDY, FAVOURITE = "greedy, without incentives", "everybody's favourite, nothing learnt"
_WORLDS, _AT_ONCE, _USERS = 2000, 100, 1024


def yardsticks(market: Market, greedy: GreedyRuns, *, horizon: int, seed: int) -> "xr.Dataset | None":
    """The regret over a whole run of what is done without a plan; None where nature is not what users believe.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    greedy : GreedyRuns
        Of ``check_need``, over as many rounds.
    horizon : int
        T.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Dataset or None
        ``regret`` and ``regret_mcse`` by ``policy``.
    """
    import xarray as xr

    if market.is_misspecified:
        return None
    once, error = _favourite(market, seed=seed)
    found = {
        "regret": [float(greedy.regret.mean()), horizon * once],
        "regret_mcse": [float(mean_error(greedy.regret, scale=0.0)), horizon * error],
    }
    return xr.Dataset(
        {name: ("policy", values) for name, values in found.items()},
        coords={"policy": [GREEDY, FAVOURITE]},
        attrs={"horizon": horizon, "n_worlds": len(greedy.regret)},
    )


def _favourite(market: Market, *, seed: int) -> tuple[float, float]:
    """What a user loses in a round by the arm that she expects most of before any data, and its error."""
    rng = generator(seed, Stream.FAVOURITES)
    panel = make_panel(market, n_users=_USERS, rng=rng)
    beta = draw_worlds(market.prior, _WORLDS, rng=rng).beta
    own = panel.prior_rewards.argmax(axis=1)
    lost = []
    by_user = np.zeros(panel.n_users)
    for start in range(0, len(beta), _AT_ONCE):
        rewards = market.noise.mean_reward(beta[start : start + _AT_ONCE] @ panel.users.T)  # (w, K, P)
        loss = rewards.max(axis=1) - rewards[:, own, np.arange(panel.n_users)]
        lost.append(loss @ panel.weights)
        by_user += loss.sum(axis=0) / len(beta)
    worlds = np.concatenate(lost)
    return float(worlds.mean()), float(np.hypot(mean_error(worlds, scale=0.0), panel.mean(by_user)[1]))


def told(found: "xr.Dataset", *, own: tuple[float, float]) -> list[tuple[str, float, float]]:
    """Name, regret and error of each, the plan's own first."""
    rows: list[tuple[str, float, float]] = [("this plan", *own)]
    values: list[Any] = [found["policy"].values, found["regret"].values, found["regret_mcse"].values]
    return rows + [(str(name), float(value), float(error)) for name, value, error in zip(*values, strict=True)]
