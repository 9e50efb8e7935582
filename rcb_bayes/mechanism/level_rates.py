r"""Exploration rates where users know how many arms are saturated, but not which.

Worlds then have saturated sets of their own, and an arm is promoted to user x in some of them. Her rate may depend on
the arm k promoted to her, as the platform knows it: q_k(x). With world weights by the rounds spent at the level,
recommending i leaves

.. math:: H_{ij} = \sum_k q_k\, e_{ki}\, (U_{ij} + \epsilon) + \sum_k (1 - q_k)\, O^k_{ij}, \qquad
          O^k_{ij} = E[1\{k(w) = k\}\, 1\{a^* = i\} (m_i - m_j + \epsilon)],

where e_ki is the chance that i is promoted together with k: p_k for i = k, and 0 else unless they tie; then k stands
for all that tie. Promotion goes by prior means, so that the explored part needs no rewards.

The most that a user can be explored is a linear programme in her q. It is climbed from below. First every arm gets what
the worlds pay for in which it is itself promoted, :math:`O^k_{kj} / (O^k_{kj} - p_k (U_{kj} + \epsilon))`, which allows
as much as the stages by themselves: what differs between sets averages out. Then what the other worlds leave raises all
of a user's rates by one share, and then one after the other, always with every constraint in force.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.mechanism.choice import TIE, best_shares
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.outlook import Outlook
from rcb_bayes.mechanism.promotion import Promotion, Sets
from rcb_bayes.mechanism.rates import largest_rate
from rcb_bayes.schema import BoolArray, FloatArray

_CHUNK_VALUES = 500_000  # a few arrays of them stay in a core's own cache
_CHUNK_CELLS = 4_000_000
_FEW_WORLDS = 50  # in which an arm is promoted: nothing is known of its rate with fewer
_USUAL = 0.02  # of the rounds of a level in which an arm is promoted to a user, for other levels to pay for it
_CUTS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelMoments:
    """What rates are computed from, of U users.

    Attributes
    ----------
    gap : U_ij + epsilon, as far as it is allowed for every unit of mass, (U, K, K)
    fixed : what is allowed of epsilon whatever the mass
    explored : e_ki, (U, K, K)
    organic : O^k_ij, (U, K, K, K), and ``squares``, the means of its squared terms
    shares : how often k is promoted and i organic, (U, K, K), and ``values``, what that gives
    n_promoted : in how many worlds each arm is promoted, (U, K)
    n_worlds : W
    """

    gap: FloatArray
    fixed: float
    explored: FloatArray
    organic: FloatArray
    squares: FloatArray
    shares: FloatArray
    values: FloatArray
    n_promoted: np.ndarray
    n_worlds: int

    @property
    def costs(self) -> BoolArray:
        """Where recommending i in the place of j to a user who is explored costs her more than epsilon, (U, K, K)."""
        scale = np.maximum(np.abs(self.gap).max(axis=(1, 2), keepdims=True), 1.0)
        return self.gap < -TIE * scale

    @property
    def loses(self) -> BoolArray:
        """The same of arms that are promoted to her in some world."""
        return self.costs & (self.explored.sum(axis=1) > 0.0)[:, :, None]

    def paid(self, rates: FloatArray) -> FloatArray:
        """The explored part of the form at rates (U, K), (U, K, K)."""
        return np.einsum("uk,uki->ui", rates, self.explored)[:, :, None] * self.gap

    def earned(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The organic part, and its standard deviation over worlds, (U, K, K) each."""
        left = 1.0 - rates
        mean = np.einsum("uk,ukij->uij", left, self.organic)
        square = np.einsum("uk,ukij->uij", left**2, self.squares) - mean**2
        return mean, np.sqrt(np.maximum(square, 0.0) * self.n_worlds / (self.n_worlds - 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelRates:
    """Rates of U users at a level.

    Attributes
    ----------
    by_arm : the rate of each user where an arm is promoted to her, (U, K); of tied arms the first one's counts
    rate, ideal : averages over what is promoted to her, by the bound and by the point estimates, (U,)
    explored : how often each arm is recommended because she is explored, (U, K)
    organic : how often each arm is where she is not, (U, K), and ``organic_value``, what these rounds give her, (U,)
    most, most_rate : what other levels may raise her rates to, (U, K), and the average rate then, (U,)
    always, own : the form if she were explored so, and at her rates with the organic part lowered, (U, K, K)
    is_bound : whether some constraint binds her, (U,); ``arm``, ``rival`` is then the first
    gain, spread : the mean and the standard deviation over worlds of the organic part for that pair
    """

    by_arm: FloatArray
    rate: FloatArray
    ideal: FloatArray
    explored: FloatArray
    organic: FloatArray
    organic_value: FloatArray
    most: FloatArray
    most_rate: FloatArray
    always: FloatArray
    own: FloatArray
    is_bound: BoolArray
    arm: np.ndarray
    rival: np.ndarray
    gain: FloatArray
    spread: FloatArray


def level_rates(
    outlook: Outlook,
    sets: Sets,
    users: FloatArray,
    *,
    prior_rewards: FloatArray,
    promoted_by: FloatArray,
    epsilon: float,
    notion: Notion,
    slack: float,
    by_arm: FloatArray | None = None,
    forms: bool = True,
) -> LevelRates:
    """The rates of every user by herself, some users at a time.

    Parameters
    ----------
    outlook, sets : W worlds, and the arms that are saturated in each
    users : (U, d), with their expectations before any data, (U, K), under the users' and the platform's belief
    slack : standard deviations over worlds by which organic parts are lowered
    by_arm : rates that are given, (U, K): then only what they lead to is told
    forms : whether ``always`` and ``own`` are kept, by far the largest parts; else they are empty
    """
    asked = {"prior_rewards": prior_rewards, "promoted_by": promoted_by, "epsilon": epsilon, "notion": notion}
    parts: list[LevelRates] = []
    start = 0
    for moments in level_moments(outlook, sets, users, **asked):
        end = start + len(moments.gap)
        part = _rates(moments, slack=slack, given=None if by_arm is None else by_arm[start:end])
        parts.append(part if forms else replace(part, always=part.always[:, :0], own=part.own[:, :0]))
        start = end
    return LevelRates(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in LevelRates.__slots__}
    )


def level_moments(
    outlook: Outlook,
    sets: Sets,
    users: FloatArray,
    *,
    prior_rewards: FloatArray,
    promoted_by: FloatArray,
    epsilon: float,
    notion: Notion,
) -> Iterator[LevelMoments]:
    """What rates are computed from, of some users at a time."""
    n, k = prior_rewards.shape
    step = max(1, min(_CHUNK_VALUES // (outlook.n_worlds * k), _CHUNK_CELLS // k**3))
    for start in range(0, max(n, 1), step):
        some = slice(start, start + step)
        yield _moments(
            outlook, users[some], prior_rewards[some], sets.promotion(promoted_by[some]), epsilon=epsilon, notion=notion
        )


def _moments(
    outlook: Outlook,
    users: FloatArray,
    prior_rewards: FloatArray,
    promotion: Promotion,
    *,
    epsilon: float,
    notion: Notion,
) -> LevelMoments:
    """Of a few users, to whom arms are promoted as worlds have it.

    A world has one arm that is promoted and one that is organic, so that sums go by the pair of them: W K terms for a
    user, not W K^2.
    """
    from scipy.sparse import csc_array

    u, w = promotion.first.shape
    k = prior_rewards.shape[1]
    fixed, extra = notion.epsilon_parts(epsilon)
    rewards, weights = outlook.rewards(users), outlook.weights
    weights = np.ones(w) if weights is None else weights
    scores = rewards if len(outlook.tables) == 1 else outlook.acted_on(users)
    arm, place, share = _organic(scores, torn=promotion.shares is not None)
    of_arms = np.ascontiguousarray(rewards.reshape(k, u * w).T)  # (U W, K)
    of_arms = of_arms if len(place) == u * w else of_arms[place]
    given = np.take_along_axis(of_arms, arm[:, None], axis=1)
    lead = given - of_arms + extra  # (entries, K)
    user, counts = place // w, share * weights[place % w]
    group = (user * k + promotion.first.reshape(-1)[place]) * k + arm

    def summed(data: FloatArray, terms: FloatArray) -> FloatArray:
        each = csc_array((data, group, np.arange(len(arm) + 1)), shape=(u * k * k, len(arm)))
        return ((each @ terms) / w).reshape(u, k, k, -1)

    return LevelMoments(
        gap=prior_rewards[:, :, None] - prior_rewards[:, None, :] + extra,
        fixed=fixed,
        explored=promotion.together(weights),
        organic=summed(counts, lead),
        squares=summed(counts**2, lead**2),
        shares=np.bincount(group, weights=counts, minlength=u * k * k).reshape(u, k, k) / w,
        values=np.bincount(group, weights=counts * given[:, 0], minlength=u * k * k).reshape(u, k, k) / w,
        n_promoted=promotion.n_worlds_of_arms(),
        n_worlds=w,
    )


def _organic(scores: FloatArray, *, torn: bool) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """The organic arm of every user and world, from (K, U, W): the arm, the place u W + w, and its share of it.

    Posterior means do not tie, prior means may; then each of the tied arms has a share.
    """
    k, u, w = scores.shape
    if not torn:
        flat = scores.reshape(k, u * w)
        best, arm = flat.max(axis=0), np.zeros(u * w, dtype=np.int16)
        for place in range(1, k):  # arm by arm: along the first axis NumPy's own argmax takes seven times as long
            np.maximum(arm, (flat[place] == best) * np.int16(place), out=arm)
        return arm.astype(np.int64), np.arange(u * w), np.ones(u * w)
    shares = best_shares(scores.reshape(k, u * w), axis=0)
    place, arm = np.nonzero(shares.T)  # in the order of places
    return arm, place, shares[arm, place]


# --- rates -----------------------------------------------------------------------------------------------------------


def _rates(moments: LevelMoments, *, slack: float, given: FloatArray | None = None) -> LevelRates:
    """Rates of users; those that are given, or the largest."""
    loses = moments.loses
    ideal = _raised(moments, _own(moments, loses), loses, slack=0.0)
    if given is None:
        given = _raised(moments, _cut(moments, _own(moments, loses), loses, slack=slack), loses, slack=slack)
    rates = given
    mean, spread = moments.earned(rates)
    own = moments.paid(rates) + moments.fixed + mean - slack * spread
    u, k = rates.shape
    arm, rival = np.divmod(np.where(loses, own, np.inf).reshape(u, -1).argmin(axis=1), k)
    place = (np.arange(u), arm, rival)
    often = moments.explored.sum(axis=2)
    # How rare a rare arm is, is hardly known; other levels are not to pay for it.
    is_usual = _is_seen(moments) & (often >= _USUAL)
    most = np.where(is_usual | ~moments.costs.any(axis=2), 1.0, rates)
    left = (1.0 - rates)[:, :, None]
    return LevelRates(
        by_arm=rates,
        rate=(often * rates).sum(axis=1),
        ideal=(often * ideal).sum(axis=1),
        explored=np.einsum("uk,uki->ui", rates, moments.explored),
        organic=(left * moments.shares).sum(axis=1),
        organic_value=(left * moments.values).sum(axis=(1, 2)),
        most=most,
        most_rate=(often * most).sum(axis=1),
        always=moments.paid(most) + moments.fixed + moments.earned(most)[0],
        own=own,
        is_bound=loses.any(axis=(1, 2)),
        arm=arm,
        rival=rival,
        gain=moments.fixed + mean[place],
        spread=spread[place],
    )


def _own(moments: LevelMoments, loses: BoolArray) -> FloatArray:
    """What each arm's own worlds pay for by the point estimates, (U, K): 1 where nothing is lost by it.

    An arm that is promoted in hardly any world has none, unless nothing is lost by it.
    """
    k = loses.shape[1]
    arms = np.arange(k)
    of_arm = moments.explored[:, arms, arms]
    organic = moments.organic[:, arms, arms] + moments.fixed
    explored = np.minimum(of_arm[:, :, None] * moments.gap + moments.fixed, 0.0)
    rates = np.where(loses, largest_rate(explored, organic), 1.0).min(axis=2)
    return np.where(_is_seen(moments) | ~moments.costs.any(axis=2), rates, 0.0)


def _is_seen(moments: LevelMoments) -> BoolArray:
    """Arms that are promoted in worlds enough for something to be known of their rates, (U, K)."""
    return moments.n_promoted >= min(_FEW_WORLDS, moments.n_worlds)


def _cut(moments: LevelMoments, rates: FloatArray, loses: BoolArray, *, slack: float) -> FloatArray:
    """Rates lowered arm by arm to where the lowered organic part pays for them; what is lowered pays for others."""
    for _ in range(_CUTS):
        paid = moments.paid(rates)
        mean, spread = moments.earned(rates)
        usable = moments.fixed + mean - slack * spread
        short = loses & (paid + usable < 0.0) & (paid < 0.0)
        kept = np.divide(usable, -paid, out=np.ones(paid.shape), where=short).clip(0.0, 1.0).min(axis=2)  # (U, K)
        # An arm that stands for others is lowered as far as any of them.
        together = np.where(moments.explored > 0.0, kept[:, None], 1.0).min(axis=2)
        rates = rates * together
    return rates


def _raised(moments: LevelMoments, rates: FloatArray, loses: BoolArray, *, slack: float) -> FloatArray:
    """Rates raised as far as every constraint allows: all above 0 by one share towards 1, then one after the other."""
    mean, spread = moments.earned(rates)
    form = moments.paid(rates) + moments.fixed + mean - slack * spread
    towards = np.where(rates > 0.0, 1.0 - rates, 0.0)
    cost = np.einsum("uk,ukij->uij", towards, moments.organic)
    cost = cost - np.einsum("uk,uki->ui", towards, moments.explored)[:, :, None] * moments.gap
    share = _room(form, cost, loses).min(axis=(1, 2)).clip(0.0, 1.0)
    rates = rates + share[:, None] * towards
    form = form - share[:, None, None] * cost
    for arm in range(rates.shape[1]):
        left = 1.0 - rates[:, arm]
        if not left.any():
            continue
        cost = moments.organic[:, arm] - moments.explored[:, arm, :, None] * moments.gap
        more = np.minimum(_room(form, cost, loses).min(axis=(1, 2)).clip(0.0), left)
        more = np.where(_is_seen(moments)[:, arm], more, 0.0)
        rates[:, arm] += more
        form = form - more[:, None, None] * cost
    return rates


def _room(form: FloatArray, cost: FloatArray, loses: BoolArray) -> FloatArray:
    """How many times each cell can bear a cost, (U, K, K); infinite where it costs nothing."""
    bears = np.divide(np.maximum(form, 0.0), cost, out=np.full(form.shape, np.inf), where=loses & (cost > 0.0))
    return bears
