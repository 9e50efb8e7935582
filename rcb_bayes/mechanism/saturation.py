"""In which order arms fill up in a cold start, and where their samples come from.

Promotion goes by prior means alone and organic rounds are not counted, so all this depends on the users, on ties and on
the exploration rates, never on rewards: it is simulated without any. Users arrive independently, so that arms fill up
like counters of independent Poisson processes whose rates are the shares of users who are sampled for each arm. A stage
of a cold start is then a few gamma variables, whatever N is.

One arm fills up at a time, so every cold start passes exactly one set of each size: level l is the stage with l
saturated arms. Level 0 is the most popular arm's (MPASC), where everybody is sampled.

Arms that are alike, independent with one and the same law, may change places. Paths name them in the order in which
they fill up, so that sets that differ only by such arms are one stage.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import TIE, best_shares, promotion_shares
from rcb_bayes.mechanism.panel import Panel, make_panel
from rcb_bayes.schema import FloatArray

_N_USERS = 5000
STUCK = -1  # in the place of a set: the stage before it never ends

Classes = tuple[tuple[int, ...], ...]
Sampling = Mapping[int, FloatArray]
"""For each saturated set, by its code: the chance that a round brings user u and a sample of arm i, (P, K)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """R cold starts, followed up to some level.

    Attributes
    ----------
    sets : the code of the saturated set at levels 0, ..., l, (l + 1, R); ``STUCK`` where a path does not get there
    taken : samples taken of each arm during levels 0, ..., l - 1, (l, R, K)
    """

    sets: np.ndarray
    taken: np.ndarray

    @property
    def level(self) -> int:
        """How many arms are saturated where the paths have got to."""
        return len(self.taken)

    def members(self) -> dict[int, np.ndarray]:
        """The paths that are now at each set, most frequented first."""
        found, inverse = np.unique(self.sets[-1], return_inverse=True)
        groups = {int(code): np.flatnonzero(inverse == k) for k, code in enumerate(found) if code != STUCK}
        return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))


def as_code(arms: "np.ndarray | list[int] | tuple[int, ...]") -> int:
    """A set of arms as a number with a bit for each."""
    return sum(1 << int(arm) for arm in arms)


def arms_of(code: int) -> tuple[int, ...]:
    """The arms of a set."""
    return tuple(arm for arm in range(int(code).bit_length()) if code >> arm & 1)


def sampling_of(panel: Panel, code: int, rates: FloatArray | float) -> FloatArray:
    """The chance that a round brings user u and, as she is explored, a sample of arm i: (P, K).

    ``rates`` (P,) is the exploration rate of each user at the stage, 1 at level 0.
    """
    open_arms = [arm for arm in range(panel.promoted_by.shape[1]) if not code >> arm & 1]
    explored = panel.weights * rates
    return explored[:, None] * promotion_shares(panel.promoted_by, open_arms)


def check_arms(n_arms: int) -> None:
    """Refuse more arms than a set's code has bits for."""
    if n_arms > 62:
        raise RcbError(f"A cold start is simulated for at most 62 arms, got {n_arms}. Plan for fewer arms at a time.")


def first_paths(n_paths: int) -> Paths:
    """Cold starts that have not begun."""
    return Paths(sets=np.zeros((1, n_paths), dtype=np.int64), taken=np.zeros((0, n_paths, 1), dtype=np.int64))


def follow(paths: Paths, sampling: Sampling, *, n_per_arm: int, rng: np.random.Generator, alike: Classes = ()) -> Paths:
    """All paths, until one more arm is full; of open arms that are ``alike`` the first is then said to be it."""
    n_arms = next(iter(sampling.values())).shape[1]
    n_paths = paths.sets.shape[1]
    before = paths.taken.sum(axis=0) if paths.level else np.zeros((n_paths, n_arms), dtype=np.int64)
    taken = np.zeros((n_paths, n_arms), dtype=np.int64)
    reached = np.full(n_paths, STUCK, dtype=np.int64)
    arm_names = np.tile(np.arange(n_arms), (n_paths, 1))
    for code, some in paths.members().items():
        shares = sampling[code].sum(axis=0)
        open_arms = [arm for arm in range(n_arms) if not code >> arm & 1]
        if not shares[open_arms].any():
            continue
        found, full = _race(n_per_arm - before[np.ix_(some, open_arms)], shares[open_arms], rng=rng)
        taken[np.ix_(some, open_arms)] = found
        first = np.array(open_arms)[full]
        named = _first_alike(open_arms, alike, n_arms=n_arms)[first]
        arm_names[some, first], arm_names[some, named] = named, first
        reached[some] = code | (1 << named)
    earlier = paths.taken if paths.level else np.zeros((0, n_paths, n_arms), dtype=np.int64)
    history = np.concatenate([earlier, taken[None]])
    return Paths(sets=np.vstack([paths.sets, reached]), taken=np.take_along_axis(history, arm_names[None], axis=2))


def _first_alike(open_arms: list[int], alike: Classes, *, n_arms: int) -> np.ndarray:
    """For each arm the first open one that is like it, (K,)."""
    first = np.arange(n_arms)
    for arms in alike:
        still = [arm for arm in arms if arm in open_arms]
        first[still] = still[0] if still else 0
    return first


def draw_rounds(paths: Paths, sampling: Sampling, *, thinning: float = 1.0, rng: np.random.Generator) -> FloatArray:
    """Rounds that each stage of each path takes, (l, R): infinite for a stage that never ends.

    ``thinning`` multiplies the rate of every stage but the first: one rate for all users changes nothing but the time.
    """
    rounds = np.full(paths.taken.shape[:2], np.inf)
    for level, sets in enumerate(paths.sets[:-1]):
        for code in np.unique(sets):
            chance = 0.0 if code == STUCK else float(sampling[int(code)].sum()) * (thinning if level else 1.0)
            if chance > 0:
                some = sets == code
                n = paths.taken[level, some].sum(axis=1)
                rounds[level, some] = n + rng.negative_binomial(n, min(chance, 1.0))
    return rounds


def draw_designs(
    paths: Paths, some: np.ndarray, sampling: Sampling, arm: int, *, n_per_arm: int, rng: np.random.Generator
) -> np.ndarray:
    """Which of the panel's users the samples of a saturated arm came from, in some of the paths: (len(some), N)."""
    design = np.empty((len(some), n_per_arm), dtype=np.int64)
    filled = np.zeros(len(some), dtype=np.int64)
    for level in range(paths.level):
        sets = paths.sets[level, some]
        for code in np.unique(sets):
            rows = np.flatnonzero(sets == code)
            counts = paths.taken[level, some[rows], arm]
            total = int(counts.sum())
            if total == 0:
                continue
            upto = np.cumsum(sampling[int(code)][:, arm])
            users = np.searchsorted(upto, rng.random(total) * upto[-1], side="right")
            row = np.repeat(rows, counts)
            place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            design[row, filled[row] + place] = np.minimum(users, len(upto) - 1)
            filled[rows] += counts
    return design


def saturated_sets(market: Market, *, n_per_arm: int, n_runs: int = 200, seed: int = 0) -> dict[tuple[int, ...], float]:
    """The sets of saturated arms that cold starts go through, with the share of runs that pass each.

    The empty set (the first phase) and the full set (the end) are left out.

    Applicability
    -------------
    Users are explored at one rate for all. A rate of each user's own changes how often an arm is promoted, and with it
    the order. The shares of users are exact for a table, else those of 5,000 users.
    """
    check_arms(market.n_arms)
    rng = np.random.default_rng(seed)
    panel = make_panel(market, n_users=_N_USERS, rng=rng)
    paths = first_paths(n_runs)
    seen: dict[tuple[int, ...], float] = {}
    for _ in range(market.n_arms - 1):
        sampling = {code: sampling_of(panel, code, 1.0) for code in paths.members()}
        paths = follow(paths, sampling, n_per_arm=n_per_arm, rng=rng)
        seen |= {arms_of(code): len(some) / n_runs for code, some in paths.members().items()}
    return dict(sorted(seen.items(), key=lambda item: (-item[1], item[0])))


def _race(needed: np.ndarray, shares: FloatArray, *, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples of each open arm when the first of them is full, (R, open), and which one that is, (R,).

    The last sample that arm k needs comes after a gamma time; the ones before it are uniform on the way there.
    """
    with np.errstate(divide="ignore"):
        full_at = rng.standard_gamma(needed) / shares
    full = full_at.argmin(axis=1)
    first = np.take_along_axis(full_at, full[:, None], axis=1)
    taken = rng.binomial(needed - 1, first / full_at)
    np.put_along_axis(taken, full[:, None], np.take_along_axis(needed, full[:, None], axis=1), axis=1)
    return taken, full


# --- how long a cold start takes at one rate for all ------------------------------------------------------------------

_N_REPLICATES = 10
_FEWEST_USERS = 500
_MOST_SHARES = 2e8  # promotion shares that may be computed: users, arms, stages and paths multiplied
_MOST_SAMPLES = 2**40
_MOST_ROUNDS = 1e15


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
    market: Market, *, n_per_arm: int, exploration_rate: float, n_paths: int = 400, seed: int = 0
) -> ColdStartLength:
    """How long a cold start takes that explores all users at one rate once an arm is saturated.

    Phases overlap, in the first one above all: users who differ, and arms that tie, fill several arms at once. So the
    length is simulated, a few gamma variables for each stage whatever N is. Every replicate has a panel of users of its
    own, and the error is the spread of the replicates; a table has all users, and the error is that of the paths.

    Applicability
    -------------
    Any number of arms. Promotion goes by prior means (the platform's), and organic rounds are not counted.
    """
    n_each = max(2, n_paths // _N_REPLICATES)
    draws = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(_N_REPLICATES)]
    n_users = _panel_size(market, n_paths=n_paths)
    panel = make_panel(market, n_users=n_users, rng=draws[0])
    is_exact = panel.is_exact
    lengths = []
    for place, rng in enumerate(draws):
        if place and not is_exact:
            panel = make_panel(market, n_users=n_users, rng=rng)
        lengths.append(_lengths(*_tastes(panel), n_per_arm=n_per_arm, rate=exploration_rate, n_paths=n_each, rng=rng))
    rounds = np.stack(lengths)
    mean, mcse = _mean_of(rounds, by_replicate=not is_exact)
    return ColdStartLength(rounds=rounds, mean=mean, mcse=mcse)


def _mean_of(values: FloatArray, *, by_replicate: bool) -> tuple[float, float]:
    spread = values.mean(axis=1) if by_replicate else values
    return float(values.mean()), float(spread.std(ddof=1) / np.sqrt(spread.size))


def _panel_size(market: Market, *, n_paths: int) -> int:
    """Users of a panel: fewer where there are very many arms, or expected rewards are averages over draws."""
    if not (market.noise.is_gaussian or market.prior.law is not None):
        return _FEWEST_USERS
    return int(np.clip(_MOST_SHARES / (n_paths * market.n_arms**2), _FEWEST_USERS, _N_USERS))


def _tastes(panel: Panel) -> tuple[FloatArray, FloatArray]:
    """The orders in which users rank arms, ties included, as numbers that rise with liking (O, K), and their shares.

    Promotion depends on nothing else, and there are fewer orders than users where arms tie.
    """
    order = panel.promoted_by.argsort(axis=1)
    ranked = np.take_along_axis(panel.promoted_by, order, axis=1)
    steps = np.diff(ranked, axis=1, prepend=ranked[:, :1]) > TIE * np.maximum(np.abs(ranked), 1.0)
    ranks = np.empty_like(ranked)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis=1).astype(float), axis=1)
    orders, place = np.unique(ranks, axis=0, return_inverse=True)
    return orders, np.bincount(place.ravel(), weights=panel.weights)


def _lengths(
    orders: FloatArray, shares: FloatArray, *, n_per_arm: int, rate: float, n_paths: int, rng: np.random.Generator
) -> FloatArray:
    """Rounds of each path, (R,). Open arms are kept as a mask, which any number of arms fits into."""
    n = min(int(n_per_arm), _MOST_SAMPLES)
    n_arms = orders.shape[1]
    needed = np.full((n_paths, n_arms), n, dtype=np.int64)
    rounds = np.zeros(n_paths)
    for level in range(n_arms):
        masks, inverse = np.unique(needed > 0, axis=0, return_inverse=True)
        for place, mask in enumerate(masks):
            some, open_arms = np.flatnonzero(inverse.ravel() == place), np.flatnonzero(mask)
            promoted = shares @ best_shares(orders[:, open_arms])
            taken, _ = _race(needed[np.ix_(some, open_arms)], promoted, rng=rng)
            needed[np.ix_(some, open_arms)] -= taken
            rounds[some] += _waiting(taken.sum(axis=1), rate if level else 1.0, rng=rng)
    # N beyond every number: by then the length is N times a constant.
    return rounds * (float(n_per_arm) / n)


def _waiting(n_samples: np.ndarray, chance: float, *, rng: np.random.Generator) -> FloatArray:
    """Rounds until there are so many samples, each round bringing one with this chance (negative binomial)."""
    others = rng.standard_gamma(n_samples) * (1.0 - chance) / chance
    whole = rng.poisson(np.minimum(others, _MOST_ROUNDS))
    return n_samples + np.where(others < _MOST_ROUNDS, whole, others)
