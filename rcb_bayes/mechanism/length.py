"""How long cold starts take at one rate for all, and which sets of saturated arms they pass."""

from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda, as_agenda, is_popular
from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.mechanism.panel import Panel, make_panel
from rcb_bayes.mechanism.walk import Walk, arms_of, walk
from rcb_bayes.schema import FloatArray

_N_USERS = 5000
_N_REPLICATES = 10
_FEWEST_USERS = 500
_MOST_SHARES = 2e8  # promotion shares that may be computed: users, arms, stages and paths multiplied
_MOST_SAMPLES = 2**40


def saturated_sets(market: Market, *, n_per_arm: int, n_runs: int = 200, seed: int = 0) -> dict[tuple[int, ...], float]:
    """The sets of saturated arms that cold starts go through, with the share of runs that pass each.

    The empty set (the first phase) and the full set (the end) are left out.

    Applicability
    -------------
    Users are explored at one rate for all. A rate of each user's own changes how often an arm is promoted, and with it
    the order. The shares of users are exact for a table, else those of 5,000 users.
    """
    rng = np.random.default_rng(seed)
    panel = make_panel(market, n_users=_N_USERS, rng=rng)
    paths = _explored_alike(panel, as_agenda(n_per_arm, market.n_arms), n_paths=n_runs, rng=rng).paths
    seen = {
        arms_of(code): len(members) / n_runs
        for level in range(1, market.n_arms)
        for code, members in paths.members(level).items()
    }
    return dict(sorted(seen.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColdStartLength:
    """How many rounds cold starts take, as simulated.

    Attributes
    ----------
    rounds : of each of R cold starts in each of some replicates, (replicates, R)
    mean, mcse : their average and its Monte Carlo error, which covers the users whom a panel stands for
    """

    rounds: FloatArray
    mean: float
    mcse: float

    def share_within(self, horizon: int) -> tuple[float, float]:
        """The share of cold starts that end within so many rounds, with its error."""
        return _mean_of(np.asarray(self.rounds <= horizon, dtype=float), by_replicate=True)


def cold_start_rounds(
    market: Market, *, n_per_arm: int | Agenda, exploration_rate: float, n_paths: int = 400, seed: int = 0
) -> ColdStartLength:
    """How long a cold start takes that explores all users at one rate once an arm is saturated.

    Phases overlap, in the first one above all: users who differ, and arms that tie, fill several arms at once. So the
    length is simulated, a few gamma variables for each stage whatever N is. Every replicate has a panel of users of its
    own, and the error is the spread of the replicates; a table has all users, and the error is that of the paths.

    Applicability
    -------------
    Any number of arms. Promotion goes by prior means (the platform's), and organic rounds are not counted. While no arm
    is saturated, users whose most popular arm may be promoted are all sampled, others at the rate.
    """
    n_each = max(2, n_paths // _N_REPLICATES)
    # N beyond every number: by then the length is N times a constant.
    agenda = as_agenda(n_per_arm, market.n_arms)
    n_most = int(agenda.totals.max())
    agenda = agenda if n_most <= _MOST_SAMPLES else agenda.asking(_MOST_SAMPLES)
    draws = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(_N_REPLICATES)]
    n_users = _panel_size(market, n_paths=n_paths)
    panel = make_panel(market, n_users=n_users, rng=draws[0])
    is_exact = panel.is_exact
    lengths = []
    for place, rng in enumerate(draws):
        if place and not is_exact:
            panel = make_panel(market, n_users=n_users, rng=rng)
        walked = _explored_alike(_by_taste(panel), agenda, rate=exploration_rate, n_paths=n_each, rng=rng)
        rounds = walked.rounds(thinning=exploration_rate, rng=rng).sum(axis=0)
        lengths.append(rounds * max(float(n_most) / _MOST_SAMPLES, 1.0))
    rounds = np.stack(lengths)
    mean, mcse = _mean_of(rounds, by_replicate=not is_exact)
    return ColdStartLength(rounds=rounds, mean=mean, mcse=mcse)


def _explored_alike(panel: Panel, agenda: Agenda, *, rate: float = 1.0, n_paths: int, rng: np.random.Generator) -> Walk:
    """Everybody explored in every round: one rate for all changes the time alone, but in the first phase."""
    first = 1.0 if agenda.is_plain else np.where(is_popular(agenda, panel.promoted_by), 1.0, rate)
    return walk(panel, lambda *_: 1.0, n_per_arm=agenda, n_paths=n_paths, rng_of=lambda level: rng, first=first)


def _mean_of(values: FloatArray, *, by_replicate: bool) -> tuple[float, float]:
    spread = values.mean(axis=1) if by_replicate else values
    return float(values.mean()), float(spread.std(ddof=1) / np.sqrt(spread.size))


def _panel_size(market: Market, *, n_paths: int) -> int:
    """Users of a panel: fewer where there are very many arms, or expected rewards are averages over draws."""
    if not (market.noise.is_gaussian or market.prior.law is not None):
        return _FEWEST_USERS
    return int(np.clip(_MOST_SHARES / (n_paths * market.n_arms**2), _FEWEST_USERS, _N_USERS))


def _by_taste(panel: Panel) -> Panel:
    """One user for each order in which users rank arms, ties included; her ranking stands for what arms promise.

    Promotion depends on nothing else, and there are fewer orders than users where arms tie.
    """
    order = panel.promoted_by.argsort(axis=1)
    ranked = np.take_along_axis(panel.promoted_by, order, axis=1)
    steps = np.diff(ranked, axis=1, prepend=ranked[:, :1]) > TIE * np.maximum(np.abs(ranked), 1.0)
    ranks = np.empty_like(ranked)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis=1).astype(float), axis=1)
    orders, first, place = np.unique(ranks, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(place.ravel(), weights=panel.weights)
    return replace(panel.take(first, weights=weights, is_exact=panel.is_exact), promoted_by=orders)
