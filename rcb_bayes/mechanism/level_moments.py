r"""What rates at a level are computed from, by the pairs of promoted and recommended arm that occur.

A user has K^2 pairs of a promoted arm k and a recommended arm i, each with K rivals, and W worlds, in each of which one
arm is promoted to her and one is organic: at most W pairs occur, and few of them count. An arm that is never promoted
to her leaves nothing to be paid for, and so does one by which she loses at most epsilon. So only *rows* are kept, arms
that are promoted to her in some world and cost her something, and of the pairs (k, i) those whose i is a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcb_bayes.mechanism.choice import TIE, best_shares
from rcb_bayes.mechanism.kernel import best_arm
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.outlook import LinearOutlook, Outlook
from rcb_bayes.mechanism.promotion import Promotion, Sets
from rcb_bayes.schema import BoolArray, FloatArray

_CHUNK_VALUES = 500_000  # a few arrays of them stay in a core's own cache
_FEW_WORLDS = 50  # in which an arm is promoted: nothing is known of its rate with fewer


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Arms of users that may bind: R of them, by user and arm.

    Attributes
    ----------
    user, arm : (R,) each
    gap : U_ij + epsilon, as far as it is allowed for every unit of mass, for every rival, (R, K)
    loses : where recommending the arm in the place of the rival costs a user more than epsilon, (R, K)
    """

    user: np.ndarray
    arm: np.ndarray
    gap: FloatArray
    loses: BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Pairs of a promoted arm k and a recommended one i, which is a row: P of them, by user, k and i.

    Attributes
    ----------
    user, first, row : of each, (P,); ``first`` is k, of arms that tie the first
    explored : e_ki, (P,)
    organic : O^k_ij, (P, K), and ``squares``, the means of its squared terms
    """

    user: np.ndarray
    first: np.ndarray
    row: np.ndarray
    explored: FloatArray
    organic: FloatArray
    squares: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """What happens in worlds: E entries of a user, the arm promoted, the arm recommended, and how often that is.

    Attributes
    ----------
    user, first, arm : (E,) each
    often : a share of all worlds, (E,)
    value : what an entry gives, (E,); empty where nobody asks
    """

    user: np.ndarray
    first: np.ndarray
    arm: np.ndarray
    often: FloatArray
    value: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelMoments:
    """What rates are computed from, of U users.

    Attributes
    ----------
    rows, pairs : what constraints are made of
    together : how often each arm is promoted where k is the first to be, e_ki
    organic : which arm is organic where k is promoted, for users with rows
    costs : by which arms she may lose more than epsilon if she is explored, (U, K)
    often : how often each arm is the first to be promoted, (U, K)
    n_promoted : in how many worlds that is so, (U, K)
    admitted : for whom each arm is explored, (U, K); None where that is everybody
    fixed : what is allowed of epsilon whatever the mass
    n_worlds : W
    """

    rows: Rows
    pairs: Pairs
    together: Moves
    organic: Moves
    costs: BoolArray
    often: FloatArray
    n_promoted: np.ndarray
    fixed: float
    n_worlds: int
    admitted: BoolArray | None = None

    @property
    def n_users(self) -> int:
        """U, the number of users."""
        return len(self.costs)

    @property
    def is_seen(self) -> BoolArray:
        """Arms that are promoted in worlds enough for something to be known of their rates, (U, K)."""
        found = self.n_promoted >= min(_FEW_WORLDS, self.n_worlds)
        return found if self.admitted is None else found & self.admitted

    @property
    def is_harmless(self) -> BoolArray:
        """Arms that may be explored whatever is known of them, (U, K): she loses at most epsilon by any of them."""
        return ~self.costs if self.admitted is None else ~self.costs & self.admitted

    @cached_property
    def cost(self) -> FloatArray:
        """What a unit of the rate costs each cell of a pair's row, (P, K)."""
        pairs = self.pairs
        return pairs.organic - pairs.explored[:, None] * self.rows.gap[pairs.row]

    @cached_property
    def _by_row(self) -> tuple[np.ndarray, np.ndarray]:
        """The pairs in the order of their rows, and where each row's begin, (R + 1,)."""
        order = np.argsort(self.pairs.row, kind="stable")
        return order, np.searchsorted(self.pairs.row[order], np.arange(len(self.rows.user) + 1))

    @cached_property
    def turns(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of the first promoted arm of every user who has one, of the second, ...; where each user's begin."""
        pairs = self.pairs
        is_new = np.diff(pairs.user * self.costs.shape[1] + pairs.first, prepend=-1) != 0
        group = np.cumsum(is_new) - 1
        users = pairs.user[is_new]
        turn = (np.arange(len(users)) - np.searchsorted(users, users))[group]
        order = np.argsort(turn, kind="stable")
        ends = np.searchsorted(turn[order], np.arange(turn.max(initial=-1) + 1), side="right")
        parts = np.split(order, ends[:-1]) if len(ends) else []
        return [(some, np.flatnonzero(np.diff(group[some], prepend=-1))) for some in parts]

    def over_rows(self, of_pairs: FloatArray, values: FloatArray) -> FloatArray:
        """Sums over the pairs of each row, with factors (P,), of their values (P, K): (R, K)."""
        from scipy.sparse import csr_array

        order, begins = self._by_row
        shape = (len(self.rows.user), len(order))
        return csr_array((of_pairs[order], order, begins), shape=shape) @ values

    def paid(self, rates: FloatArray) -> FloatArray:
        """The explored part of the form at rates (U, K), (R, K)."""
        pairs = self.pairs
        mass = pairs.explored * rates[pairs.user, pairs.first]
        return np.bincount(pairs.row, weights=mass, minlength=len(self.rows.user))[:, None] * self.rows.gap

    def earned(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The organic part, and its standard deviation over worlds, (R, K) each."""
        pairs = self.pairs
        left = 1.0 - rates[pairs.user, pairs.first]
        mean = self.over_rows(left, pairs.organic)
        square = self.over_rows(left**2, pairs.squares) - mean**2
        return mean, np.sqrt(np.maximum(square, 0.0) * self.n_worlds / (self.n_worlds - 1))

    def secured(self, rates: FloatArray, is_usual: BoolArray) -> FloatArray:
        """The form at rates (U, K), (R, K), where worlds in which an unusual arm is promoted pay for no others."""
        pairs = self.pairs
        parts = pairs.organic - rates[pairs.user, pairs.first][:, None] * self.cost
        rare = ~is_usual[pairs.user, pairs.first]
        parts[rare] = np.minimum(parts[rare], 0.0)
        return self.fixed + self.over_rows(np.ones(len(parts)), parts)

    def least(self, values: FloatArray) -> FloatArray:
        """The least value of each user's rows, from (R,): (U,), infinite where she has none."""
        out = np.full(self.n_users, np.inf)
        np.minimum.at(out, self.rows.user, values)
        return out


def level_moments(
    outlook: Outlook,
    sets: Sets,
    users: FloatArray,
    *,
    prior_rewards: FloatArray,
    promoted_by: FloatArray,
    epsilon: float,
    notion: Notion,
    admitted: BoolArray | None = None,
    all_rows: bool = False,
) -> Iterator[LevelMoments]:
    """What rates are computed from, of some users at a time.

    Parameters
    ----------
    outlook, sets : W worlds, and the arms that are saturated in each
    users : (U, d), with their expectations before any data, (U, K), under the users' and the platform's belief
    admitted : for whom each arm is explored, (U, K), as ``promoted_by`` has it; everybody unless given
    all_rows : rows are all arms that are recommended to a user in some world, whether or not they may bind
    """
    n, k = prior_rewards.shape
    if isinstance(outlook, LinearOutlook):
        outlook = outlook.arms_first()
    step = max(1, _CHUNK_VALUES // (outlook.n_worlds * k))
    weights = np.ones(outlook.n_worlds) if outlook.weights is None else outlook.weights
    fixed, extra = notion.epsilon_parts(epsilon)
    waiting: list[LevelMoments] = []
    for start in range(0, max(n, 1), step):
        some = slice(start, start + step)
        make = _Chunk(
            outlook=outlook,
            users=users[some],
            prior_rewards=prior_rewards[some],
            promotion=sets.promotion(promoted_by[some]),
            weights=weights,
            fixed=fixed,
            extra=extra,
            admitted=None if admitted is None else admitted[some],
            all_rows=all_rows,
        )
        waiting.append(make.moments())
        if sum(part.pairs.organic.size + part.n_users * k for part in waiting) > _CHUNK_VALUES:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Chunk:
    """A few users, to whom arms are promoted as worlds have it."""

    outlook: Outlook
    users: FloatArray
    prior_rewards: FloatArray
    promotion: Promotion
    weights: FloatArray
    fixed: float
    extra: float
    admitted: BoolArray | None
    all_rows: bool

    def moments(self) -> LevelMoments:
        """Their moments."""
        (u, k), w = self.prior_rewards.shape, len(self.weights)
        together = self.promotion.together(self.weights)
        moves = Moves(user=together[0], first=together[1], arm=together[2], often=together[3], value=np.zeros(0))
        costs = self._costs()
        is_promoted = np.zeros((u, k), dtype=bool)
        is_promoted[moves.user, moves.arm] = True
        is_row = is_promoted & costs
        places = np.arange(u) if self.all_rows else np.flatnonzero(is_row.any(axis=1))
        organic, rewards = self._organic(places)
        if self.all_rows:
            is_row = is_promoted.copy()
            is_row[organic.user, organic.arm] = True
        rows = self._rows(is_row, is_promoted)
        return LevelMoments(
            rows=rows,
            pairs=self._pairs(is_row, moves, organic, rewards),
            together=moves,
            organic=organic,
            costs=costs,
            often=self.promotion.of_first(self.weights) / w,
            n_promoted=self.promotion.of_first(None).astype(np.int64),
            fixed=self.fixed,
            n_worlds=w,
            admitted=self.admitted,
        )

    def _scale(self) -> FloatArray:
        """Of the gaps of each user, (U,): what is zero up to rounding is zero."""
        reach = self.prior_rewards.max(axis=1) - self.prior_rewards.min(axis=1) + self.extra
        return np.maximum(reach, 1.0)

    def _costs(self) -> BoolArray:
        worst = self.prior_rewards - self.prior_rewards.max(axis=1, keepdims=True) + self.extra
        return worst < -TIE * self._scale()[:, None]

    def _rows(self, is_row: BoolArray, is_promoted: BoolArray) -> Rows:
        user, arm = np.nonzero(is_row)
        gap = self.prior_rewards[user, arm][:, None] - self.prior_rewards[user] + self.extra
        loses = (gap < -TIE * self._scale()[user][:, None]) & is_promoted[user, arm][:, None]
        return Rows(user=user, arm=arm, gap=gap, loses=loses)

    def _organic(self, places: np.ndarray) -> tuple[Moves, FloatArray]:
        """The organic arm of some users in every world, and what each of its worlds gives, (K, E).

        Posterior means do not tie, prior means may; then each of the tied arms has a share.
        """
        w, k = len(self.weights), self.prior_rewards.shape[1]
        users = self.users[places]
        rewards = self.outlook.rewards(users).reshape(k, -1)  # (K, u W)
        scores = rewards if len(self.outlook.tables) == 1 else self.outlook.acted_on(users).reshape(k, -1)
        if self.promotion.shares is None:
            arm = best_arm(scores).astype(np.int64)
            at, share = np.arange(len(arm)), np.ones(len(arm))
        else:
            shares = best_shares(scores, axis=0)
            at, arm = np.nonzero(shares.T)  # in the order of places
            share = shares[arm, at]
            rewards = rewards[:, at]
        found = Moves(
            user=places[at // w],
            first=self.promotion.first[places].reshape(-1)[at],
            arm=arm,
            often=share * self.weights[at % w] / w,
            value=rewards[arm, np.arange(len(arm))],
        )
        return found, rewards

    def _pairs(self, is_row: BoolArray, together: Moves, organic: Moves, rewards: FloatArray) -> Pairs:
        """Sums over the worlds of each pair, which are put side by side."""
        k, w = self.prior_rewards.shape[1], len(self.weights)

        def codes(moves: Moves, some: np.ndarray) -> np.ndarray:
            return (moves.user[some] * k + moves.first[some]) * k + moves.arm[some]

        counted = np.flatnonzero(is_row[together.user, together.arm])
        entries = np.flatnonzero(is_row[organic.user, organic.arm])
        of_entries = codes(organic, entries)
        order = np.argsort(of_entries, kind="stable")
        entries, of_entries = entries[order], of_entries[order]
        begins = np.flatnonzero(np.diff(of_entries, prepend=-1))
        explored_codes, organic_codes = codes(together, counted), of_entries[begins]
        every = np.union1d(explored_codes, organic_codes)
        explored, sums = np.zeros(len(every)), np.zeros((2, len(every), k))
        explored[np.searchsorted(every, explored_codes)] = together.often[counted]
        if len(entries):
            terms = organic.value[entries] + self.extra - rewards[:, entries]  # (K, E)
            terms *= organic.often[entries]
            at = np.searchsorted(every, organic_codes)
            sums[0, at] = np.add.reduceat(terms, begins, axis=1).T
            terms *= terms
            sums[1, at] = w * np.add.reduceat(terms, begins, axis=1).T
        user, first = every // k**2, every // k % k
        row_of = np.cumsum(is_row.reshape(-1)) - 1
        row = row_of[user * k + every % k]
        return Pairs(user=user, first=first, row=row, explored=explored, organic=sums[0], squares=sums[1])


def _joined(parts: list[LevelMoments]) -> LevelMoments:
    """Of all users together."""
    if len(parts) == 1:
        return parts[0]
    of_users = np.cumsum([0, *(part.n_users for part in parts)])
    of_rows = np.cumsum([0, *(len(part.rows.user) for part in parts)])

    def put(name: str, fields: tuple[str, ...]) -> dict[str, np.ndarray]:
        out = {}
        for item in fields:
            more = {"user": of_users, "row": of_rows}.get(item, np.zeros(len(parts) + 1, dtype=np.int64))
            values = [getattr(getattr(part, name), item) for part in parts]
            shifted = item in ("user", "row")
            out[item] = np.concatenate([value + more[k] for k, value in enumerate(values)] if shifted else values)
        return out

    moves = ("user", "first", "arm", "often", "value")
    admitted = [part.admitted for part in parts if part.admitted is not None]  # all have them, or none
    own = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("costs", "often", "n_promoted")}
    return LevelMoments(
        rows=Rows(**put("rows", ("user", "arm", "gap", "loses"))),
        pairs=Pairs(**put("pairs", ("user", "first", "row", "explored", "organic", "squares"))),
        together=Moves(**put("together", moves)),
        organic=Moves(**put("organic", moves)),
        fixed=parts[0].fixed,
        n_worlds=parts[0].n_worlds,
        admitted=np.concatenate(admitted) if admitted else None,
        **own,
    )
