r"""The largest exploration rate that users still follow, in closed form.

At a stage with saturated set B a user is explored with probability q: then she is recommended the promoted arm, else
the organic one. With pi_i the chance that arm i is promoted to her, U the prior gap of i over j, a* the organic arm and
M the mass of the notion, recommending i leaves

.. math:: H_{ij}(q) = q\, e_{ij} + (1 - q)\, o_{ij}, \qquad
          e_{ij} = \pi_i U + \epsilon M(\pi_i), \qquad
          o_{ij} = E[1\{a^* = i\}(m_i - m_j)] + \epsilon\, E[M(1\{a^* = i\})],

which must not be negative. So only e < 0 binds, and q* = min o / (o - e) over the arms and rivals where it does. A rate
that is to pass an independent audit must leave room for the audit's own bands: o is lowered by ``slack`` times its
standard deviation over worlds first.
"""

from dataclasses import dataclass, fields

import numpy as np

from rcb_bayes.mechanism.agenda import Agenda, is_popular
from rcb_bayes.mechanism.choice import TIE, promotion_shares
from rcb_bayes.mechanism.loops import organic_rows, organic_sums
from rcb_bayes.mechanism.margins import below_best, user_means
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.outlook import LinearOutlook, Outlook, organic_shares
from rcb_bayes.mechanism.regions import explored_at
from rcb_bayes.mechanism.smoothing import best_of, spread_of
from rcb_bayes.schema import BoolArray, FloatArray

_CHUNK_VALUES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserRates:
    """Rates of U users at a stage.

    Attributes
    ----------
    rate : the largest rate whose predicted audit bound holds, (U,); 0 for those who are not to be explored
    ideal : the largest rate by the point estimates
    is_free : whether she loses at most epsilon by any arm promoted to her, so that nothing needs hiding
    arm, rival : the pair that binds, -1 for free users
    gain : o_ij of that pair, before the slack; ``loss`` its -e_ij; ``spread`` the standard deviation of o over worlds
    """

    rate: FloatArray
    ideal: FloatArray
    is_free: np.ndarray
    arm: np.ndarray
    rival: np.ndarray
    gain: FloatArray
    loss: FloatArray
    spread: FloatArray


def explored_terms(prior_rewards: FloatArray, promoted: FloatArray, *, epsilon: float, notion: Notion) -> FloatArray:
    """e_ij of every user, arm and rival, (U, K, K); zero on the diagonal."""
    gap = prior_rewards[:, :, None] - prior_rewards[:, None, :]
    share = promoted[:, :, None]
    terms = notion.linear_form(share, gap, epsilon)
    # What is zero up to rounding is zero: the tie rule has the same tolerance.
    scale = np.maximum(np.abs(prior_rewards).max(axis=1), 1.0)[:, None, None]
    terms[(terms < 0.0) & (terms > -TIE * scale)] = 0.0
    k = prior_rewards.shape[1]
    terms[:, range(k), range(k)] = 0.0
    return terms


def is_free(prior_rewards: FloatArray, promoted: FloatArray, *, epsilon: float, notion: Notion) -> BoolArray:
    """Users who lose at most epsilon by any arm that may be promoted to them: no e_ij is negative, (U,).

    The best rival decides, whichever the arm.
    """
    gap = prior_rewards - prior_rewards.max(axis=1, keepdims=True)
    terms = notion.linear_form(promoted, gap, epsilon)
    scale = np.maximum(np.abs(prior_rewards).max(axis=1, keepdims=True), 1.0)
    return (terms > -TIE * scale).all(axis=1)


def first_rates(
    agenda: Agenda,
    prior_rewards: FloatArray,
    promoted_by: FloatArray,
    *,
    epsilon: float,
    notion: Notion,
    admitted: BoolArray | None = None,
) -> FloatArray | float:
    """How often users are sampled while no arm is saturated, (U,), or all of them: 1 or 0.

    Before any data every user knows her organic arm, so that nothing can be hidden: o_ij = 0 of all others. She is
    sampled where her most popular arm is explored, or she loses at most epsilon by the one that is. Among whom arms are
    explored is told by ``admitted``, (U, K), as ``promoted_by`` has it; None where that is everybody.
    """
    if agenda.is_plain:
        return 1.0
    promoted = promotion_shares(promoted_by, agenda.open_arms(agenda.begun))
    free = is_free(prior_rewards, promoted, epsilon=epsilon, notion=notion)
    asked = explored_at(promoted, admitted)
    free = free if asked is None else free & asked
    return (free | is_popular(agenda, promoted_by)).astype(float)


def organic_terms(
    rewards: FloatArray, shares: FloatArray, *, arm: int, rival: int, epsilon: float, notion: Notion
) -> FloatArray:
    """Terms whose mean over worlds is o_ij, from rewards and organic shares (K, ...): (...)."""
    return notion.linear_form(shares[arm], rewards[arm] - rewards[rival], epsilon)


def largest_rate(explored: FloatArray, organic: FloatArray) -> FloatArray:
    """The largest q in [0, 1] with q e + (1 - q) o >= 0, elementwise; 0 where there is none.

    With beliefs that agree o is never negative but for sampling error, so that e >= 0 leaves q = 1.
    """
    usable = np.maximum(organic, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = usable / (usable - explored)
    return np.where(explored >= 0.0, 1.0, np.where(usable > 0.0, rate, 0.0))


def user_rates(
    outlook: Outlook,
    users: FloatArray,
    *,
    prior_rewards: FloatArray,
    promoted: FloatArray,
    epsilon: float,
    notion: Notion,
    slack: float,
    asked: BoolArray | None = None,
) -> UserRates:
    """The rate of every user by herself.

    Parameters
    ----------
    users : (U, d), with their expectations before any data, (U, K)
    promoted : the chance that each arm is promoted to them, (U, K)
    slack : standard deviations over worlds by which o is lowered
    asked : who is to be explored at all, (U,); everybody unless given
    """
    explored = explored_terms(prior_rewards, promoted, epsilon=epsilon, notion=notion)
    n, k = prior_rewards.shape
    found = UserRates(
        rate=np.ones(n),
        ideal=np.ones(n),
        is_free=(explored >= 0.0).all(axis=(1, 2)),
        arm=np.full(n, -1),
        rival=np.full(n, -1),
        gain=np.zeros(n),
        loss=np.zeros(n),
        spread=np.zeros(n),
    )
    bound = np.flatnonzero(~found.is_free)
    step = max(1, _CHUNK_VALUES // (outlook.n_worlds * k))
    for start in range(0, len(bound), step):
        some = bound[start : start + step]
        wanted = (explored[some] < 0.0).any(axis=2)
        asked_of = {"prior_rewards": prior_rewards[some], "epsilon": epsilon, "notion": notion}
        organic, spread = organic_moments(outlook, users[some], wanted, **asked_of)
        _note(found, some, explored[some], organic, spread, slack=slack)
    return found if asked is None else _among(found, asked)


def _among(found: UserRates, asked: BoolArray) -> UserRates:
    """The rates where only some users are explored: of the others nothing is lost, and nothing binds them."""
    left = {name: np.where(asked, getattr(found, name), 0.0) for name in ("rate", "ideal", "gain", "loss", "spread")}
    pair = {name: np.where(asked, getattr(found, name), 0) for name in ("arm", "rival")}
    return UserRates(**left, **pair, is_free=found.is_free & asked)


def organic_moments(
    outlook: Outlook, users: FloatArray, wanted: BoolArray, *, prior_rewards: FloatArray, epsilon: float, notion: Notion
) -> tuple[FloatArray, FloatArray]:
    """o_ij of users (U, d), every arm and rival, and its standard deviation over worlds, (U, K, K).

    Of arms that are ``wanted``, (U, K), and that nobody has tried: nothing hides in those that are not promoted. Where
    the law of posterior means is known worlds differ by who was sampled only.
    """
    fixed, extra = notion.epsilon_parts(epsilon)
    n = outlook.n_worlds
    if isinstance(outlook, LinearOutlook) and outlook.law is not None:
        mean, spread = np.zeros((2, *wanted.shape, wanted.shape[1]))
        for arm in np.flatnonzero(wanted.any(axis=0)).tolist():
            some = np.flatnonzero(wanted[:, arm])
            terms = _untried_terms(outlook, users[some], prior_rewards[some], arm, extra=extra)  # (u, K, W)
            mean[some, arm], spread[some, arm] = terms.mean(axis=2), spread_of(terms)
        return fixed + mean, spread
    if isinstance(outlook, LinearOutlook):
        of_worlds = outlook.means, outlook.platform, outlook.weights
        mean, square = organic_sums(users, *of_worlds, wanted=wanted, extra=extra)
    else:
        below = below_best(outlook.rewards(users))
        mean, square = user_means(organic_shares(outlook, users), below, below * below, extra)
    return fixed + mean, np.sqrt(np.maximum(square - mean**2, 0.0) * n / (n - 1))


def _untried_terms(
    outlook: LinearOutlook, users: FloatArray, prior_rewards: FloatArray, arm: int, *, extra: float
) -> FloatArray:
    """What an untried arm's organic rounds leave against every rival in each world, all rewards averaged out."""
    assert outlook.law is not None  # asked for where it is
    best = best_of(outlook.law, users, prior_rewards, arm)
    return (best.chance * (best.leads + extra)).transpose(1, 0, 2)


def binding_terms(
    outlook: Outlook,
    users: FloatArray,
    rates: UserRates,
    *,
    prior_rewards: FloatArray,
    epsilon: float,
    notion: Notion,
) -> FloatArray:
    """The organic terms of the pair that binds for each of users who are not free, world by world, (W, U)."""
    if isinstance(outlook, LinearOutlook):
        fixed, extra = notion.epsilon_parts(epsilon)
        if outlook.law is not None:
            terms = np.empty((outlook.n_worlds, len(users)))
            step = max(1, _CHUNK_VALUES // (outlook.n_worlds * prior_rewards.shape[1]))
            for arm in np.unique(rates.arm).tolist():
                at = np.flatnonzero(rates.arm == arm)
                for some in (at[start : start + step] for start in range(0, len(at), step)):
                    found = _untried_terms(outlook, users[some], prior_rewards[some], arm, extra=extra)
                    terms[:, some] = fixed + found[np.arange(len(some)), rates.rival[some]].T
            return terms
        pairs, of_worlds = (rates.arm, rates.rival), (outlook.means, outlook.platform, outlook.weights)
        return fixed + organic_rows(users, *of_worlds, pairs=pairs, extra=extra)[0].T
    terms = np.empty((outlook.n_worlds, len(users)))
    step = max(1, _CHUNK_VALUES // (outlook.n_worlds * outlook.tables[0].shape[2]))
    for start in range(0, len(users), step):
        some = slice(start, start + step)
        rewards = outlook.rewards(users[some])
        shares = organic_shares(outlook, users[some])
        arms, rivals = rates.arm[some], rates.rival[some]
        for i, j in set(zip(arms.tolist(), rivals.tolist(), strict=True)):
            at = np.flatnonzero((arms == i) & (rivals == j))
            found = organic_terms(rewards[:, at], shares[:, at], arm=i, rival=j, epsilon=epsilon, notion=notion)
            terms[:, start + at] = found.T
    return terms


def organic_rounds(outlook: Outlook, users: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How often each arm is the organic one for users, (U, K), and what that gives them in every world, (W, U)."""
    if isinstance(outlook, LinearOutlook):
        values, shares = organic_rows(users, outlook.means, outlook.platform, outlook.weights)
        return shares, values.T
    parts, values = [], np.empty((outlook.n_worlds, len(users)))
    step = max(1, _CHUNK_VALUES // outlook.n_worlds)
    for start in range(0, max(len(users), 1), step):
        some = slice(start, start + step)
        shares = organic_shares(outlook, users[some])
        values[:, some] = (shares * outlook.rewards(users[some])).sum(axis=0).T
        parts.append(shares.mean(axis=2).T)
    return np.concatenate(parts), values


def broken_constraints(
    outlook: Outlook,
    users: FloatArray,
    rates: FloatArray,
    *,
    prior_rewards: FloatArray,
    promoted: FloatArray,
    epsilon: float,
    notion: Notion,
) -> np.ndarray:
    """Users for whom some constraint fails at their rates by more than three errors, (U,).

    Only a platform that believes otherwise than its users can get there: its organic arm is not their best one.
    """
    sense = {"epsilon": epsilon, "notion": notion}
    explored = explored_terms(prior_rewards, promoted, **sense)
    out = np.zeros(len(users), dtype=bool)
    k = prior_rewards.shape[1]
    step = max(1, _CHUNK_VALUES // (outlook.n_worlds * k))
    for start in range(0, len(users), step):
        some = slice(start, start + step)
        wanted = np.ones((len(users[some]), k), dtype=bool)
        organic, spread = organic_moments(outlook, users[some], wanted, prior_rewards=prior_rewards[some], **sense)
        q = rates[some, None, None]
        margin = q * explored[some] + (1.0 - q) * (organic + 3.0 * spread / np.sqrt(outlook.n_worlds))
        margin[:, range(k), range(k)] = 0.0
        out[some] = (margin < 0.0).any(axis=(1, 2))
    return out


def crowd_rate(
    explored: FloatArray,
    explored_error: FloatArray,
    organic: FloatArray,
    *,
    organic_error: FloatArray,
    critical: float,
    slack: float,
) -> tuple[float, int]:
    """The largest rate for all users together, on average over them, and the cell that binds.

    Parameters
    ----------
    explored, explored_error : averages of e over users, and their errors, (cells,)
    organic : averages over each world's users of the terms of o, (W, cells)
    organic_error : that an audit's own users leave in o, (cells,)
    critical : errors by which e is lowered; an audit's own users differ from these, hence twice
    slack : standard deviations over worlds by which o is lowered
    """
    low = organic.mean(axis=0) - slack * organic.std(axis=0, ddof=1) - 2.0 * critical * organic_error
    rates = largest_rate(explored - 2.0 * critical * explored_error, low)
    cell = int(rates.argmin())
    return float(rates[cell]), cell


def subset(rates: UserRates, some: np.ndarray) -> UserRates:
    """The rates of some of the users."""
    return UserRates(**{item.name: getattr(rates, item.name)[some] for item in fields(rates)})


def _note(
    found: UserRates, at: np.ndarray, explored: FloatArray, organic: FloatArray, spread: FloatArray, *, slack: float
) -> None:
    """Enter the rates of some users, and the pairs that bind them; cells are (u, K, K)."""
    k = explored.shape[1]
    rates = np.where(explored < 0.0, largest_rate(explored, organic - slack * spread), np.inf).reshape(len(at), k * k)
    ideal = np.where(explored < 0.0, largest_rate(explored, organic), np.inf)
    cell = rates.argmin(axis=1)
    users = np.arange(len(at))
    arm, rival = np.divmod(cell, k)
    found.rate[at], found.ideal[at] = rates[users, cell], ideal.min(axis=(1, 2))
    found.arm[at], found.rival[at] = arm, rival
    for name, values in (("gain", organic), ("loss", -explored), ("spread", spread)):
        getattr(found, name)[at] = values[users, arm, rival]
