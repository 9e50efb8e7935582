r"""The guard: how much of an arm's off-best probability users will follow.

Inverse-proportional-gap sampling recommends arms that are not the best it knows of, and under a strong prior users lose
by that. Scaling p_i everywhere changes nothing, the ratio stays; so the guard cuts the *off-best* part only,
:math:`p_i \to c_i(x) p_i` where i is not the best arm b, and gives the mass to b. With

.. math:: g_{ij} = E[1\{b = i\} p_i (m_i - m_j + \epsilon)], \qquad l_{ij} = E[1\{b \ne i\} p_i (m_j - m_i - \epsilon)]

the constraint holds from :math:`c_i = \min_j g_{ij} / l_{ij}` down. It is taken as the largest c whose predicted audit
bound, mean less ``slack`` standard deviations over worlds, is not negative. It depends on the epoch and on x, never on
the data of the run at hand: a cut that did would tell users about them.

Of arms that are alike (``mechanism.exchange``) g and l are the same, whatever the user, and so are their guards:
moments are averages over all pairs of such arms and rivals.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.choice import is_best
from rcb_bayes.mechanism.exchange import Exchange
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.mechanism.loops import kernel_sums
from rcb_bayes.mechanism.margins import below_best, user_leads, world_leads
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.outlook import LinearOutlook
from rcb_bayes.mechanism.walk import Classes
from rcb_bayes.schema import BoolArray, FloatArray

_CHUNK_VALUES = 100_000  # a few arrays of them stay in a core's own cache
_CHUNK_CELLS = 2_000_000  # of users, arms and rivals: some twenty arrays of them are there at once


def users_guard(
    outlook: LinearOutlook,
    gamma: FloatArray,
    users: FloatArray,
    *,
    epsilon: float,
    notion: Notion,
    slack: float,
    alike: Classes | None = None,
) -> FloatArray:
    """c_i of each of the users (U, d) by herself, (U, K).

    Parameters
    ----------
    gamma : the spread in every world, (W,)
    slack : standard deviations over worlds that are left for the audit's bands
    alike : classes of arms that may change places
    """
    fixed, extra = notion.epsilon_parts(epsilon)
    exchange = Exchange.of(alike, outlook.means.shape[1])
    step = max(1, _CHUNK_CELLS // outlook.means.shape[1] ** 2)
    found = []
    for start in range(0, max(len(users), 1), step):
        some = users[start : start + step]
        sums, never_lost = kernel_sums(some, outlook.means, outlook.platform, gamma, extra=extra)
        moments = _user_moments(sums, never_lost, outlook.n_worlds, exchange)
        found.append(_factors(moments, fixed=fixed, slack=slack))
    return np.concatenate(found)


def users_room(
    outlook: LinearOutlook,
    gamma: FloatArray,
    users: FloatArray,
    given: FloatArray,
    *,
    epsilon: float,
    notion: Notion,
    slack: float,
    alike: Classes | None = None,
) -> FloatArray:
    """What is left of each user's bound at factors that are given, (U, K): below 0 where ``users_guard`` gives less.

    It is the least over rivals that an arm loses against in some world, and infinite where there is none of them.
    Factors jump where bounds change their sign; the bounds themselves do not, so that a search can follow them.
    """
    fixed, extra = notion.epsilon_parts(epsilon)
    sums, never_lost = kernel_sums(users, outlook.means, outlook.platform, gamma, extra=extra)
    moments = _user_moments(sums, never_lost, outlook.n_worlds, Exchange.of(alike, outlook.means.shape[1]))
    c = given[:, :, None]
    spread = moments.of_gain - 2.0 * c * moments.of_both + c**2 * moments.of_loss
    left = fixed + moments.gain - c * moments.loss - slack * np.sqrt(np.maximum(spread, 0.0))
    k = left.shape[1]
    left[:, range(k), range(k)] = np.inf
    left = np.where(c > 0.0, left, np.inf)
    doubtful = np.nonzero((left < 0.0) & (moments.loss <= 0.0))
    left[doubtful] = np.where(moments.never_lost[doubtful], np.inf, left[doubtful])
    return left.min(axis=2)


def crowd_guard(
    outlook: LinearOutlook,
    gamma: FloatArray,
    users: FloatArray,
    weights: FloatArray,
    *,
    epsilon: float,
    notion: Notion,
    slack: float,
    user_scale: float = 0.0,
    alike: Classes | None = None,
) -> FloatArray:
    """c_i for all users together, (K,): for a notion that averages over them with their weights (U,).

    ``user_scale`` is the number of an audit's worlds over that of its users, where these are a sample: then the spread
    over users counts beside that over worlds. It is 0 where they are all the users there are.
    """
    w, k, _ = outlook.means.shape
    fixed, extra = notion.epsilon_parts(epsilon)
    gained, lost = np.zeros((k, k, w)), np.zeros((k, k, w))
    of_users: list[FloatArray] = []
    start = 0
    for rewards, chances, best in _states(outlook, gamma, users):
        share = weights[start : start + rewards.shape[1], None]
        start += rewards.shape[1]
        below, at_best = below_best(rewards), chances * best
        gained += world_leads(at_best * share, below, extra)
        lost -= world_leads((chances - at_best) * share, below, extra)
        if user_scale:
            of_users.append(np.stack([user_leads(part, below, extra) for part in (at_best, at_best - chances)]))
    moments = _crowd_moments(gained, lost, np.concatenate(of_users, axis=1) if of_users else None, user_scale)
    exchange = Exchange.of(alike, k)
    moments = moments if exchange is None else moments.exchanged(exchange)
    return _factors(moments, fixed=fixed, slack=slack)[0]


def off_best_mass(outlook: LinearOutlook, gamma: FloatArray, users: FloatArray) -> FloatArray:
    """How often each arm is recommended to users (U, d) where it is not the best, before any cut, (U, K)."""
    return np.concatenate([(chances * ~best).mean(axis=2).T for _, chances, best in _states(outlook, gamma, users)])


def _states(
    outlook: LinearOutlook, gamma: FloatArray, users: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray, BoolArray]]:
    """Of some users at a time: what they expect, how often each arm is recommended, which is best; (K, u, W) each."""
    step = max(1, _CHUNK_VALUES // (outlook.n_worlds * outlook.means.shape[1]))
    for start in range(0, max(len(users), 1), step):
        some = users[start : start + step]
        rewards = outlook.rewards(some)
        scores = rewards if outlook.platform is None else outlook.acted_on(some)
        k, u, w = rewards.shape
        chances = ipgs_probabilities(scores.reshape(k, u * w), np.tile(gamma, u)).reshape(k, u, w)
        yield rewards, chances, is_best(scores, axis=0)


def _factors(moments: "_Moments", *, fixed: float, slack: float) -> FloatArray:
    """The largest cut that suits every rival, (U, K)."""
    cuts = _largest_cuts(moments, fixed=fixed, slack=slack)  # (U, K, K)
    k = cuts.shape[1]
    cuts[:, range(k), range(k)] = 1.0
    return cuts.min(axis=2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Moments:
    """Means, variances and covariance over worlds of what is gained (i best) and lost (i not best), (U, K, K) each.

    ``never_lost`` tells whether no world loses anything, (U, K, K).
    """

    gain: FloatArray
    loss: FloatArray
    of_gain: FloatArray
    of_loss: FloatArray
    of_both: FloatArray
    never_lost: BoolArray

    def exchanged(self, exchange: Exchange) -> "_Moments":
        """Averages over cells that exchanges of arms turn into one another."""
        own = (self.gain, self.loss, self.of_gain, self.of_loss, self.of_both)
        gain, loss, of_gain, of_loss, of_both = exchange.mean(np.stack(own))
        never_lost = exchange.all(self.never_lost)
        return _Moments(gain=gain, loss=loss, of_gain=of_gain, of_loss=of_loss, of_both=of_both, never_lost=never_lost)


def _user_moments(sums: FloatArray, never_lost: BoolArray, n: int, exchange: Exchange | None) -> _Moments:
    """Of each user by herself, from sums over n worlds, see ``kernel_sums``."""
    if exchange is not None:
        sums, never_lost = exchange.mean(sums), exchange.all(never_lost)
    gain, of_gain, minus_loss, of_loss = sums / n
    return _Moments(
        gain=gain,
        loss=-minus_loss,
        of_gain=(of_gain - gain**2) * n / (n - 1),
        of_loss=(of_loss - minus_loss**2) * n / (n - 1),
        of_both=n * gain * minus_loss / (n - 1),  # never both in one world
        never_lost=never_lost,
    )


def _crowd_moments(gained: FloatArray, lost: FloatArray, of_users: FloatArray | None, user_scale: float) -> _Moments:
    """Of the average user: gained and lost (K, K, W) are averages over users already, world by world.

    ``of_users`` (2, U, K, K) are each user's averages over worlds.
    """

    def covariance(one: FloatArray, other: FloatArray, axis: int) -> FloatArray:
        moved = (one - one.mean(axis=axis, keepdims=True)) * (other - other.mean(axis=axis, keepdims=True))
        return moved.sum(axis=axis) / (one.shape[axis] - 1)

    spread = [covariance(one, other, 2) for one, other in ((gained, gained), (lost, lost), (gained, lost))]
    if of_users is not None:
        gains, losses = of_users
        pairs = ((gains, gains), (losses, losses), (gains, losses))
        spread = [part + user_scale * covariance(*pair, 0) for part, pair in zip(spread, pairs, strict=True)]
    return _Moments(
        gain=gained.mean(axis=2)[None],
        loss=lost.mean(axis=2)[None],
        of_gain=spread[0][None],
        of_loss=spread[1][None],
        of_both=spread[2][None],
        never_lost=(lost <= 0.0).all(axis=2)[None],
    )


def _largest_cuts(moments: _Moments, *, fixed: float, slack: float) -> FloatArray:
    r"""The largest c in [0, 1] with mean(fixed + gained - c lost) - slack sd >= 0, (U, K, K); 0 if none.

    The bound is concave in c. Where it holds at 0 and not at 1, c is the smaller root of
    :math:`(A - c B)^2 = s^2 (v_g - 2 c v_{gl} + c^2 v_l)`.
    """
    gain, loss = fixed + moments.gain, moments.loss
    of_gain, of_loss, of_both = moments.of_gain, moments.of_loss, moments.of_both

    def bound(c: float) -> FloatArray:
        spread = of_gain - 2.0 * c * of_both + c**2 * of_loss
        return gain - c * loss - slack * np.sqrt(np.maximum(spread, 0.0))

    cut = np.ones(gain.shape)
    needed = bound(1.0) < 0.0
    doubtful = np.nonzero(needed & (loss <= 0.0))  # a cell that never loses needs no cut
    needed[doubtful] = ~moments.never_lost[doubtful]
    cells = np.nonzero(needed)
    if not len(cells[0]):
        return cut
    gain, loss, of_gain, of_loss, of_both = (part[cells] for part in (gain, loss, of_gain, of_loss, of_both))
    a = loss**2 - slack**2 * of_loss
    half = -(gain * loss - slack**2 * of_both)  # b / 2
    free = gain**2 - slack**2 * of_gain
    root = np.sqrt(np.maximum(half**2 - a * free, 0.0))
    turned = -(half + np.where(half >= 0.0, root, -root))
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([turned / a, free / turned])
    roots = np.where((roots >= 0.0) & (roots <= 1.0), roots, np.inf).min(axis=0)
    cut[cells] = np.where((bound(0.0) >= 0.0) & np.isfinite(roots), np.abs(roots), 0.0)  # no negative zeros
    return cut
