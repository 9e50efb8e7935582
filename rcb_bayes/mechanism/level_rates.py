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

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.level_moments import LevelMoments, level_moments
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.outlook import Outlook
from rcb_bayes.mechanism.promotion import Sets
from rcb_bayes.mechanism.rates import largest_rate
from rcb_bayes.schema import BoolArray, FloatArray

_USUAL = 0.02  # of the rounds of a level in which an arm is promoted to a user, for other levels to pay for it
_RARE = 1.5  # times the slack, for an arm that is rarer than that: few worlds, wide bands
_CUTS = 2


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
    always, own : the form if she were explored so, and at her rates with the organic part lowered, (U, K, K); of rates
        that are not given both lowered, and as far as other rounds may count on them
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
    admitted: BoolArray | None = None,
    forms: bool = False,
) -> LevelRates:
    """The rates of every user by herself, some users at a time.

    Parameters
    ----------
    outlook, sets : W worlds, and the arms that are saturated in each
    users : (U, d), with their expectations before any data, (U, K), under the users' and the platform's belief
    slack : standard deviations over worlds by which organic parts are lowered
    by_arm : rates that are given, (U, K): then only what they lead to is told
    admitted : for whom each arm is explored, (U, K), as ``promoted_by`` has it; everybody unless given. The rates of
        other arms are 0
    forms : whether ``always`` and ``own`` are told, by far the largest parts; else they are empty
    """
    parts: list[LevelRates] = []
    start = 0
    for moments in level_moments(
        outlook,
        sets,
        users,
        prior_rewards=prior_rewards,
        promoted_by=promoted_by,
        epsilon=epsilon,
        notion=notion,
        admitted=admitted,
        all_rows=forms or by_arm is not None,
    ):
        end = start + moments.n_users
        parts.append(_rates(moments, slack=slack, forms=forms, given=None if by_arm is None else by_arm[start:end]))
        start = end
    return LevelRates(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in LevelRates.__slots__}
    )


def _rates(moments: LevelMoments, *, slack: float, forms: bool, given: FloatArray | None = None) -> LevelRates:
    """Rates of users; those that are given, or the largest."""
    alone = _own(moments)
    ideal = _raised(moments, alone, slack=0.0)
    rates = _raised(moments, _cut(moments, alone, slack=slack), slack=slack) if given is None else given
    mean, spread = moments.earned(rates)
    own = moments.paid(rates) + moments.fixed + mean - slack * spread
    # How rare a rare arm is, is hardly known: other levels are not to pay for it, nor it for them. Once others are
    # raised it is explored as its own worlds pay for.
    is_usual = moments.is_seen & (moments.often >= _USUAL)
    alone = _cut(moments, alone, slack=_RARE * slack) if given is None else given
    most = np.where(is_usual | moments.is_harmless, 1.0, np.minimum(alone, rates))
    always, counted = moments.paid(most) + moments.fixed + moments.earned(most)[0], own
    if forms and given is None:
        always, counted = (moments.secured(each, is_usual) - slack * moments.earned(each)[1] for each in (most, rates))
    organic, value = _of_arms(moments, 1.0 - rates, organic=True)
    return LevelRates(
        by_arm=rates,
        rate=(moments.often * rates).sum(axis=1),
        ideal=(moments.often * ideal).sum(axis=1),
        explored=_of_arms(moments, rates, organic=False)[0],
        organic=organic,
        organic_value=value,
        most=most,
        most_rate=(moments.often * most).sum(axis=1),
        always=_spread_out(moments, always, forms=forms),
        own=_spread_out(moments, counted, forms=forms),
        **_binding(moments, own, mean, spread),
    )


def _of_arms(moments: LevelMoments, share: FloatArray, *, organic: bool) -> tuple[FloatArray, FloatArray]:
    """How often each arm is recommended in shares of the rounds, told by promoted arm, (U, K); the value, (U,)."""
    moves = moments.organic if organic else moments.together
    (u, k), mass = share.shape, moves.often * share[moves.user, moves.first]
    often = np.bincount(moves.user * k + moves.arm, weights=mass, minlength=u * k).reshape(u, k)
    value = np.bincount(moves.user, weights=mass * moves.value, minlength=u) if organic else np.zeros(0)
    return often, value


def _spread_out(moments: LevelMoments, of_rows: FloatArray, *, forms: bool) -> FloatArray:
    """Forms of all arms and rivals, (U, K, K), from those of rows, (R, K); empty unless asked for."""
    u, k = moments.costs.shape
    if not forms:
        return np.zeros((u, 0, k))
    out = np.full((u, k, k), moments.fixed)
    out[moments.rows.user, moments.rows.arm] = of_rows
    return out


def _binding(moments: LevelMoments, own: FloatArray, mean: FloatArray, spread: FloatArray) -> dict[str, np.ndarray]:
    """The arm and rival whose form is lowest for each user, and its organic part; the first of what is equal."""
    rows, u = moments.rows, moments.n_users
    where = np.where(rows.loses, own, np.inf)
    rival = where.argmin(axis=1)
    lowest = np.take_along_axis(where, rival[:, None], axis=1)[:, 0]
    order = np.lexsort((lowest, rows.user))
    first = order[np.flatnonzero(np.diff(rows.user[order], prepend=-1))]  # a row of each user who has any
    first = first[np.isfinite(lowest[first])]
    user, at = rows.user[first], (first, rival[first])
    out: dict[str, np.ndarray] = {name: np.zeros(u, dtype=np.int64) for name in ("arm", "rival")}
    out |= {"is_bound": np.zeros(u, dtype=bool), "gain": np.full(u, moments.fixed), "spread": np.zeros(u)}
    values = {"arm": rows.arm[first], "rival": rival[first], "is_bound": True}
    values |= {"gain": moments.fixed + mean[at], "spread": spread[at]}
    for name, found in values.items():
        out[name][user] = found
    return out


# --- the largest rates -----------------------------------------------------------------------------------------------


def _own(moments: LevelMoments) -> FloatArray:
    """What each arm's own worlds pay for by the point estimates, (U, K): 1 where nothing is lost by it.

    An arm that is promoted in hardly any world has none, unless nothing is lost by it.
    """
    pairs, rows = moments.pairs, moments.rows
    own = np.flatnonzero(rows.arm[pairs.row] == pairs.first)
    row = pairs.row[own]
    explored = np.minimum(pairs.explored[own, None] * rows.gap[row] + moments.fixed, 0.0)
    allowed = np.where(rows.loses[row], largest_rate(explored, pairs.organic[own] + moments.fixed), 1.0)
    rates = np.ones(moments.costs.shape)
    rates[pairs.user[own], pairs.first[own]] = allowed.min(axis=1, initial=1.0)
    return np.where(moments.is_seen | moments.is_harmless, rates, 0.0)


def _cut(moments: LevelMoments, rates: FloatArray, *, slack: float) -> FloatArray:
    """Rates lowered arm by arm to where the lowered organic part pays for them; what is lowered pays for others."""
    pairs, rows = moments.pairs, moments.rows
    some = np.flatnonzero(pairs.explored > 0.0)
    for _ in range(_CUTS):
        paid = moments.paid(rates)
        mean, spread = moments.earned(rates)
        usable = moments.fixed + mean - slack * spread
        short = rows.loses & (paid + usable < 0.0) & (paid < 0.0)
        kept = np.divide(usable, -paid, out=np.ones(paid.shape), where=short).clip(0.0, 1.0).min(axis=1, initial=1.0)
        # An arm that stands for others is lowered as far as any of them.
        together = np.ones(rates.shape)
        np.minimum.at(together, (pairs.user[some], pairs.first[some]), kept[pairs.row[some]])
        rates = rates * together
    return rates


def _raised(moments: LevelMoments, rates: FloatArray, *, slack: float) -> FloatArray:
    """Rates raised as far as every constraint allows: all above 0 by one share towards 1, then one after the other."""
    pairs, loses = moments.pairs, moments.rows.loses
    mean, spread = moments.earned(rates)
    form = moments.paid(rates) + moments.fixed + mean - slack * spread
    towards = np.where(rates > 0.0, 1.0 - rates, 0.0)
    cost = moments.over_rows(towards[pairs.user, pairs.first], moments.cost)
    share = moments.least(_room(form, cost, loses)).clip(0.0, 1.0)
    rates = rates + share[:, None] * towards
    form = form - share[moments.rows.user, None] * cost
    is_bare = moments.is_seen.copy()  # no constraint speaks of it
    is_bare[pairs.user, pairs.first] = False
    rates[is_bare] = 1.0
    # Users go side by side, the first arm of each, then the second.
    for some, begins in moments.turns:
        place = some[begins]
        user, first = pairs.user[place], pairs.first[place]
        row, cost = pairs.row[some], moments.cost[some]
        room = np.minimum.reduceat(_room(form[row], cost, loses[row]), begins)
        more = np.minimum(room.clip(0.0), 1.0 - rates[user, first])
        more = np.where(moments.is_seen[user, first], more, 0.0)
        rates[user, first] += more
        form[row] -= np.repeat(more, np.diff(begins, append=len(some)))[:, None] * cost
    return rates


def _room(form: FloatArray, cost: FloatArray, loses: BoolArray) -> FloatArray:
    """How many times each row can bear a cost, (R,), from (R, K); infinite where it costs nothing."""
    bears = np.divide(np.maximum(form, 0.0), cost, out=np.full(form.shape, np.inf), where=loses & (cost > 0.0))
    return bears.min(axis=1, initial=np.inf)
