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

from rcb_bayes.choice import promotion_shares
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.panel import Panel, make_panel
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
