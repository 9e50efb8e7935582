"""What paying users would cost instead of a plan: all of them see all data, and are paid what following costs them."""

from typing import TYPE_CHECKING

from rcb_bayes.baselines import Payments, bill
from rcb_bayes.gaps.estimation import mean_error
from rcb_bayes.market import Market
from rcb_bayes.mechanism.greedy import is_exact
from rcb_bayes.running.simulation import simulate
from rcb_bayes.telling.wording import figure, percent
from rcb_bayes.workers import Workers

if TYPE_CHECKING:
    import xarray as xr

_MOST_ROUNDS = 2_000_000  # of all worlds: a bill needs every one of them
_REFITS = 100  # of a run: what users see is made up as often


def payments(
    market: Market, *, epsilon: float, horizon: int, n_worlds: int, workers: Workers = None, seed: int
) -> "xr.Dataset | None":
    """The bill of Thompson sampling whose users see all data, by ``baselines.bill``.

    Parameters
    ----------
    market : Market
        Who believes what, who the users are, how rewards come about.
    epsilon : float
        What users put up with for nothing.
    horizon : int
        T.
    n_worlds : int
        Worlds behind the bill.
    workers : None, int, str, Client or Executor
        Who runs the worlds. The answer is the same.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Dataset or None
        What ``bill`` gives, with ``per_round`` and ``regret``, each with ``*_mcse``. None where posteriors have no
        closed form, where nature or the platform differ from what users believe, where there is a private history,
        and where rounds are too many to be kept one by one.
    """
    exact = is_exact(market) and market.prior.is_gaussian
    if not exact or market.is_misspecified or market.past is not None or horizon * n_worlds > _MOST_ROUNDS:
        return None
    batch = max(1, horizon // _REFITS)

    def paid(own: Market, own_seed: int) -> Payments:
        return Payments(own, epsilon=epsilon, batch=batch, seed=own_seed)

    runs = simulate(market, paid, horizon=horizon, n_worlds=n_worlds, workers=workers, seed=seed)
    found = bill(runs, epsilon=epsilon)
    total = runs["regret"].sum("t").values
    more = {
        "per_round": found["total"] / horizon,
        "per_round_mcse": found["total_mcse"] / horizon,
        "regret": float(total.mean()),
        "regret_mcse": float(mean_error(total, scale=0.0)),
    }
    return found.assign(more).assign_attrs(batch=batch, horizon=horizon, n_worlds=n_worlds)


def bill_rows(found: "xr.Dataset") -> list[tuple[str, str]]:
    """What the bill says, each figure with its error."""
    horizon = int(found.attrs["horizon"])
    value = {str(name): float(found[name]) for name in found.data_vars}
    return [
        ("paid a round", figure(value["per_round"], value["per_round_mcse"])),
        (f"paid over {horizon:,} rounds", figure(value["total"], value["total_mcse"])),
        ("users who are paid", percent(value["share_paid"], value["share_paid_mcse"])),
        (f"regret over {horizon:,} rounds", figure(value["regret"], value["regret_mcse"])),
    ]


def bill_words(found: "xr.Dataset") -> str:
    """How these figures come about."""
    batch, n = int(found.attrs["batch"]), int(found.attrs["n_worlds"])
    when = "after every round" if batch == 1 else f"after every {batch:,} rounds"
    return (
        "Users could be paid instead. They see all data then, and nothing is hidden from them. Thompson sampling "
        f"recommends; it learns what they see {when}. Every user is paid what she expects to lose by following beyond "
        f"epsilon = {found.attrs['allowed']:g}. The bill is in units of the reward, from {n:,} worlds of the users' "
        "belief."
    )


def bill_figures(found: "xr.Dataset") -> dict[str, float]:
    """Every figure, as plain values."""
    return {str(name): float(found[name]) for name in found.data_vars} | {
        name: found.attrs[name] for name in ("allowed", "batch", "horizon", "n_worlds")
    }
