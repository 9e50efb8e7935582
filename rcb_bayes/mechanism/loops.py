"""Inner loops over users and worlds, compiled: a user's worlds are gone through while they are near the processor.

Each function is compiled when it is first called, and kept on disk for the next process: Numba is not imported before.
A user's figures do not depend on who is asked for beside her. Arrays in single precision are summed in it.
"""

from functools import cache
from math import erfc, exp, pi, sqrt
from typing import Any

import numpy as np

from rcb_bayes.mechanism.choice import TIE
from rcb_bayes.posterior.kernels import compiled
from rcb_bayes.schema import BoolArray, FloatArray

_ROOT_2, _ROOT_2_PI = sqrt(2.0), sqrt(2.0 * pi)
_FAR = 25.0
_AT_ONCE = 128  # worlds: a few arrays of them, for every arm, stay in a core's own cache


def kernel_table(scores: FloatArray, gamma: FloatArray, guard: FloatArray | None) -> FloatArray:
    """Recommendation probabilities (K, U, W), those of ``ipgs_probabilities``: in double precision to the last bit.

    Parameters
    ----------
    scores : (K, U, W)
    gamma : the spread in every world, (W,)
    guard : factors of every user on what is not the best, (U, K)
    """
    kind = scores.dtype.type
    factors = np.ones((scores.shape[1], len(scores)), dtype=kind) if guard is None else guard.astype(kind, copy=False)
    out = np.empty(scores.shape, dtype=kind)
    _exactly()(np.ascontiguousarray(scores), gamma.astype(kind, copy=False), factors, kind(TIE), kind(1.0), out)
    return out


def kernel_sums(
    users: FloatArray, means: FloatArray, acted_on: FloatArray | None, gamma: FloatArray, *, extra: float
) -> tuple[FloatArray, BoolArray]:
    """Sums over worlds of what each arm gains where it is the best, and loses where it is not, under the kernel.

    With b the best arm and t = p_i (m_i - m_j + extra).

    Parameters
    ----------
    users : (U, d)
    means : by which users reckon, (W, K, d)
    acted_on : by which the best arm is chosen, where these are others
    gamma : the spread in every world, (W,)

    Returns
    -------
    sums : (4, U, K, K), of t and of t squared where b = i, and of t and of t squared where it is not
    never_lost : cells with no world in which b is not i and t is negative, (U, K, K)
    """
    k = means.shape[1]
    sums, least = np.zeros((4, len(users), k, k)), np.zeros((len(users), k, k))
    own, mine, other, _ = _arranged(users, means, acted_on)
    kind = own.dtype.type
    spreads, is_other = gamma.astype(kind, copy=False), acted_on is not None
    compiled(_kernel_sums)(own, mine, other, is_other, spreads, kind(extra), kind(TIE), sums, least)
    return sums, least >= 0.0


def lowest_forms(
    chances: FloatArray,
    rewards: FloatArray,
    prior_rewards: FloatArray,
    weights: FloatArray | None,
    *,
    fixed: float,
    extra: float,
    unseen: float,
) -> FloatArray:
    r"""The lowest form of each user, in its errors, over arms and rivals, (U,).

    With a_i the least chance of arm i in any world and :math:`t = \omega (p_i - a_i) (m_i - m_j + s)`, the form is
    :math:`a_i (\mu_i - \mu_j + s) + fixed + E[t]`, and the square of its error that of t's mean and
    :math:`(u / W)^2 Var(m_i - m_j)`, u being ``unseen``, worlds not seen in which the arm is the best. Arms whose forms
    cannot be the lowest are not gone through: with a_i = 0 and no t below zero no form is, and where arm i is never
    recommended it is ``fixed``.

    Parameters
    ----------
    chances, rewards : (K, U, W)
    prior_rewards : (U, K)
    weights : how much each world counts, (W,)
    extra : s
    """
    _, u, w = chances.shape
    kind = chances.dtype.type
    weighs = np.ones(w, dtype=kind) if weights is None else weights.astype(kind)
    out = np.empty(u)
    compiled(_lowest_forms)(
        np.ascontiguousarray(chances),
        np.ascontiguousarray(rewards.astype(kind, copy=False)),
        prior_rewards.astype(np.float64, copy=False),
        weighs,
        fixed,
        kind(extra),
        unseen,
        out,
    )
    return out


def visit_sums(
    panel: FloatArray,
    who: np.ndarray,
    means: FloatArray,
    gamma: FloatArray,
    guard: FloatArray | None,
    *,
    visits: FloatArray,
    uniforms: FloatArray,
    xtx: FloatArray,
    n: FloatArray,
) -> None:
    r"""X'X and the number of samples of every arm in an epoch, added to what is there.

    With P_i the chance of arms up to i, the first :math:`\lfloor v P_i + u \rfloor` of a user's v visits go to them.

    Parameters
    ----------
    panel : users, (P, d)
    who : of the panel comes in each world, (W, M)
    means, gamma : by which arms are recommended there, (W, K, d) and (W,)
    guard : factors of the panel's users, (P, K)
    visits : v of each comer, (M,)
    uniforms : u, (W, M)
    xtx, n : added to, (W, K, d, d) and (W, K)
    """
    factors = np.ones((1, means.shape[1])) if guard is None else np.ascontiguousarray(guard, dtype=np.float64)
    compiled(_visit_sums)(panel, who, means, gamma, factors, guard is not None, visits, uniforms, TIE, xtx, n)


def organic_sums(
    users: FloatArray,
    means: FloatArray,
    acted_on: FloatArray | None,
    weights: FloatArray | None,
    *,
    wanted: BoolArray,
    extra: float,
) -> tuple[FloatArray, FloatArray]:
    """Averages over worlds of t = s_i (m_i - m_j + extra), s_i being the share of arm i in being the best one.

    Parameters
    ----------
    users, means, acted_on : as in ``kernel_sums``
    weights : how much each world counts, (W,): s_i is multiplied by that
    wanted : arms i that are asked for, (U, K)

    Returns
    -------
    mean, square : of t and of t squared, (U, K, K); zero for arms that are not asked for
    """
    sums = np.zeros((2, len(users), means.shape[1], means.shape[1]))
    own, mine, other, weighs = _arranged(users, means, acted_on, weights)
    kind = own.dtype.type
    is_other = acted_on is not None
    compiled(_organic_sums)(own, mine, other, is_other, weighs, wanted, kind(extra), kind(TIE), sums)
    return sums[0] / len(means), sums[1] / len(means)


def organic_rows(
    users: FloatArray,
    means: FloatArray,
    acted_on: FloatArray | None,
    weights: FloatArray | None,
    *,
    pairs: tuple[np.ndarray, np.ndarray] | None = None,
    extra: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """What the best arm is worth in every world, sum_i s_i m_i, (U, W); or t of a pair of arms of each user.

    Last are the averages of s_i, (U, K), where no pair is given.
    """
    n, k = len(users), means.shape[1]
    out, shares = np.empty((n, len(means))), np.zeros((n, k))
    own, mine, other, weighs = _arranged(users, means, acted_on, weights)
    kind = own.dtype.type
    arms, rivals = (np.full(n, -1), np.full(n, -1)) if pairs is None else (np.asarray(part) for part in pairs)
    is_other = acted_on is not None
    compiled(_organic_rows)(own, mine, other, is_other, weighs, arms, rivals, kind(extra), kind(TIE), out, shares)
    return out, shares / len(means)


def below_settled(level: FloatArray, variance: FloatArray, chance: FloatArray, rewards: FloatArray) -> None:
    r"""Let an arm fall below a level: its chance is multiplied in, and its worth becomes what it is then.

    Of :math:`m \sim N(\mu, s^2)` these are :math:`\Phi(z)` and :math:`\mu - s \phi(z) / \Phi(z)` with
    :math:`z = (c - \mu) / s`. An arm that does not vary is no rival, whatever it is worth.

    Parameters
    ----------
    level, variance : c and s^2, (U, W)
    chance : changed in place, (U, W)
    rewards : likewise, mu to begin with, (U, W)
    """
    compiled(_below_settled)(level, variance, chance, rewards)


def _below_settled(level, variance, chance, rewards) -> None:
    for u in range(level.shape[0]):
        for w in range(level.shape[1]):
            if variance[u, w] > 0.0:
                spread = sqrt(variance[u, w])
                below = (rewards[u, w] - level[u, w]) / (_ROOT_2 * spread)
                tail = 0.5 * erfc(below)
                chance[u, w] *= tail
                if below < _FAR:
                    rewards[u, w] -= spread * exp(-below * below) / (_ROOT_2_PI * tail)
                else:  # where both underflow, by the first terms of Mills' ratio
                    z = _ROOT_2 * below
                    rewards[u, w] -= spread * (z + 1.0 / z - 2.0 / z**3)


def _arranged(
    users: FloatArray, means: FloatArray, acted_on: FloatArray | None, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Users, means of every arm and feature with worlds last, those that are acted on, and weights, as loops take them.

    All in the users' precision.
    """
    kind = users.dtype.type

    def turned(values: FloatArray) -> FloatArray:
        return np.ascontiguousarray(values.astype(kind, copy=False).transpose(1, 2, 0))

    mine = turned(means)
    other = mine if acted_on is None else turned(acted_on)
    weighs = np.ones(len(means), dtype=kind) if weights is None else weights.astype(kind)
    return np.ascontiguousarray(users), mine, other, weighs


@cache
def _exactly() -> Any:
    """The kernel as machine code that rounds as NumPy does: no sum in another order, nothing contracted."""
    from numba import njit

    return njit(cache=True, error_model="numpy")(_kernel_table)


def _kernel_table(scores, gamma, guard, tie, one, out) -> None:
    n_arms, n_users, n_worlds = scores.shape
    many = one * n_arms
    zero = one - one
    top = np.empty(n_worlds, dtype=scores.dtype)
    limit = np.empty(n_worlds, dtype=scores.dtype)
    taken = np.empty(n_worlds, dtype=scores.dtype)
    n_best = np.empty(n_worlds, dtype=scores.dtype)
    for u in range(n_users):
        for w in range(n_worlds):
            top[w] = scores[0, u, w]
            taken[w] = zero
            n_best[w] = zero
        for k in range(1, n_arms):
            for w in range(n_worlds):
                top[w] = max(top[w], scores[k, u, w])
        for w in range(n_worlds):
            limit[w] = top[w] - tie * max(abs(top[w]), one)
        for k in range(n_arms):
            factor = guard[u, k]
            for w in range(n_worlds):
                is_best = scores[k, u, w] >= limit[w]
                chance = one / ((top[w] - scores[k, u, w]) * gamma[w] + many) * factor
                out[k, u, w] = zero if is_best else chance
                taken[w] += out[k, u, w]
                n_best[w] += one if is_best else zero
        for w in range(n_worlds):
            taken[w] = (one - taken[w]) / n_best[w]
        for k in range(n_arms):
            for w in range(n_worlds):
                if scores[k, u, w] >= limit[w]:
                    out[k, u, w] = taken[w]


def _kernel_sums(users, means, acted_on, is_other, gamma, extra, tie, sums, least) -> None:
    n_arms, n_features, n_worlds = means.shape
    size = min(n_worlds, _AT_ONCE)
    kind = means.dtype
    rewards = np.empty((n_arms, size), dtype=kind)
    scores = np.empty((n_arms, size), dtype=kind) if is_other else rewards
    off_best = np.empty((n_arms, size), dtype=kind)
    top = np.empty(size, dtype=kind)
    limit = np.empty(size, dtype=kind)
    left = np.empty(size, dtype=kind)
    n_best = np.empty(size, dtype=kind)
    best = np.empty(size, dtype=np.int32)
    own = np.empty((2, n_arms, n_arms), dtype=kind)
    one = kind.type(1.0)
    zero = one - one
    many = kind.type(n_arms)
    for u in range(len(users)):
        for begun in range(0, n_worlds, size):
            n = min(size, n_worlds - begun)
            for k in range(n_arms):
                for w in range(n):
                    rewards[k, w] = users[u, 0] * means[k, 0, begun + w]
                for f in range(1, n_features):
                    for w in range(n):
                        rewards[k, w] += users[u, f] * means[k, f, begun + w]
                if is_other:
                    for w in range(n):
                        scores[k, w] = users[u, 0] * acted_on[k, 0, begun + w]
                    for f in range(1, n_features):
                        for w in range(n):
                            scores[k, w] += users[u, f] * acted_on[k, f, begun + w]
            for w in range(n):
                top[w] = scores[0, w]
                left[w] = one
                n_best[w] = zero
                best[w] = 0
            for k in range(1, n_arms):
                for w in range(n):
                    top[w] = max(top[w], scores[k, w])
            for w in range(n):
                limit[w] = top[w] - tie * max(abs(top[w]), one)
            for k in range(n_arms):
                for w in range(n):
                    is_best = scores[k, w] >= limit[w]
                    chance = one / ((top[w] - scores[k, w]) * gamma[begun + w] + many)
                    off_best[k, w] = zero if is_best else chance
                    left[w] -= off_best[k, w]
                    n_best[w] += one if is_best else zero
                    best[w] = np.int32(k) if is_best else best[w]
            own[:] = zero
            for w in range(n):
                share = left[w] / n_best[w]
                for i in range(best[w] if n_best[w] == one else 0, best[w] + 1):  # of arms that tie the last is known
                    if scores[i, w] >= limit[w]:
                        ahead = rewards[i, w] + extra
                        for j in range(n_arms):
                            gained = share * (ahead - rewards[j, w])
                            own[0, i, j] += gained
                            own[1, i, j] += gained * gained
            for i in range(n_arms):
                for j in range(n_arms):
                    sums[0, u, i, j] += own[0, i, j]
                    sums[1, u, i, j] += own[1, i, j]
                for j in range(n_arms):
                    if j == i:
                        continue
                    first = zero
                    second = zero
                    low = zero
                    for w in range(n):
                        lost = off_best[i, w] * (rewards[i, w] - rewards[j, w] + extra)
                        first += lost
                        second += lost * lost
                        low -= abs(lost) - lost  # exactly zero as long as nothing is lost
                    sums[2, u, i, j] += first
                    sums[3, u, i, j] += second
                    least[u, i, j] += low


def _lowest_forms(chances, rewards, prior_rewards, weights, fixed, extra, unseen, out) -> None:
    n_arms, n_users, n_worlds = chances.shape
    kind = chances.dtype
    moving = np.empty((n_arms, n_worlds), dtype=kind)
    always = np.empty(n_arms, dtype=kind)
    top = np.empty(n_worlds, dtype=kind)
    may_lose = np.empty(n_arms, dtype=np.bool_)
    zero = extra - extra
    for u in range(n_users):
        for w in range(n_worlds):
            top[w] = rewards[0, u, w]
        for i in range(1, n_arms):
            for w in range(n_worlds):
                top[w] = max(top[w], rewards[i, u, w])
        lowest = np.inf
        for i in range(n_arms):
            low = chances[i, u, 0]
            high = low
            for w in range(1, n_worlds):
                low = min(low, chances[i, u, w])
                high = max(high, chances[i, u, w])
            always[i] = low
            worst = zero
            for w in range(n_worlds):
                moving[i, w] = (chances[i, u, w] - low) * weights[w]
                worst = min(worst, moving[i, w] * (rewards[i, u, w] - top[w] + extra))
            may_lose[i] = low > zero or worst < zero or fixed < 0.0
            if high == zero and fixed == 0.0:
                lowest = 0.0
        for turn in range(2 * n_arms):  # first the arms that may lose
            i = turn % n_arms
            if may_lose[i] != (turn < n_arms) or (not may_lose[i] and lowest <= 0.0):
                continue
            for j in range(n_arms):
                if j == i:
                    continue
                near = rewards[i, u, 0] - rewards[j, u, 0]
                pivot = moving[i, 0] * (near + extra)
                first = zero
                second = zero
                lead = zero
                lead_square = zero
                for w in range(n_worlds):
                    ahead = rewards[i, u, w] - rewards[j, u, w]
                    term = moving[i, w] * (ahead + extra) - pivot
                    first += term
                    second += term * term
                    apart = ahead - near
                    lead += apart
                    lead_square += apart * apart
                mean = first / n_worlds
                spread = max(second / n_worlds - mean * mean, 0.0) / (n_worlds - 1)
                lead /= n_worlds
                of_lead = max(lead_square / n_worlds - lead * lead, 0.0)
                error = np.sqrt(spread + (unseen / n_worlds) ** 2 * of_lead)
                gap = prior_rewards[u, i] - prior_rewards[u, j] + extra
                form = always[i] * gap + fixed + pivot + mean
                z = form / error if error > 0.0 else (-np.inf if form < 0.0 else np.inf)
                lowest = min(lowest, z)
        out[u] = lowest


def _visit_sums(panel, who, means, gamma, guard, is_guarded, visits, uniforms, tie, xtx, n) -> None:
    n_worlds, n_arms, n_features = means.shape
    n_comers = who.shape[1]
    features = np.empty((n_features, n_comers))
    scores = np.empty((n_arms, n_comers))
    chances = np.empty((n_arms, n_comers))
    top = np.empty(n_comers)
    limit = np.empty(n_comers)
    left = np.empty(n_comers)
    n_best = np.empty(n_comers)
    upto = np.empty(n_comers)
    before = np.empty(n_comers)
    product = np.empty(n_comers)
    for w in range(n_worlds):
        for m in range(n_comers):
            user = who[w, m]
            for f in range(n_features):
                features[f, m] = panel[user, f]
        for k in range(n_arms):
            for m in range(n_comers):
                scores[k, m] = means[w, k, 0] * features[0, m]
            for f in range(1, n_features):
                for m in range(n_comers):
                    scores[k, m] += means[w, k, f] * features[f, m]
        for m in range(n_comers):
            top[m] = scores[0, m]
            left[m] = 1.0
            n_best[m] = 0.0
            upto[m] = 0.0
            before[m] = 0.0
        for k in range(1, n_arms):
            for m in range(n_comers):
                top[m] = max(top[m], scores[k, m])
        for m in range(n_comers):
            limit[m] = top[m] - tie * max(abs(top[m]), 1.0)
        for k in range(n_arms):
            for m in range(n_comers):
                is_best = scores[k, m] >= limit[m]
                chance = 1.0 / ((top[m] - scores[k, m]) * gamma[w] + n_arms)
                chances[k, m] = -1.0 if is_best else chance
                n_best[m] += 1.0 if is_best else 0.0
            if is_guarded:
                for m in range(n_comers):
                    chances[k, m] *= guard[who[w, m], k] if chances[k, m] > 0.0 else 1.0
            for m in range(n_comers):
                left[m] -= max(chances[k, m], 0.0)
        for m in range(n_comers):
            left[m] /= n_best[m]
        for k in range(n_arms):  # visits with each arm, in place of its chance
            last = k == n_arms - 1
            for m in range(n_comers):
                upto[m] += left[m] if chances[k, m] < 0.0 else chances[k, m]
                reached = visits[m] if last else min(np.floor(visits[m] * upto[m] + uniforms[w, m]), visits[m])
                chances[k, m] = reached - before[m]
                before[m] = reached
            total = 0.0
            for m in range(n_comers):
                total += chances[k, m]
            n[w, k] += total
        for f in range(n_features):
            for g in range(f + 1):
                for m in range(n_comers):
                    product[m] = features[f, m] * features[g, m]
                for k in range(n_arms):
                    total = 0.0
                    for m in range(n_comers):
                        total += chances[k, m] * product[m]
                    xtx[w, k, f, g] += total
                    if f != g:
                        xtx[w, k, g, f] += total


def _organic_sums(users, means, acted_on, is_other, weights, wanted, extra, tie, sums) -> None:
    n_arms, n_features, n_worlds = means.shape
    size = min(n_worlds, _AT_ONCE)
    kind = means.dtype
    rewards = np.empty((n_arms, size), dtype=kind)
    scores = np.empty((n_arms, size), dtype=kind) if is_other else rewards
    limit = np.empty(size, dtype=kind)
    n_best = np.empty(size, dtype=kind)
    share = np.empty(size, dtype=kind)
    one = kind.type(1.0)
    zero = one - one
    for u in range(len(users)):
        for begun in range(0, n_worlds, size):
            n = min(size, n_worlds - begun)
            for k in range(n_arms):
                for w in range(n):
                    rewards[k, w] = users[u, 0] * means[k, 0, begun + w]
                for f in range(1, n_features):
                    for w in range(n):
                        rewards[k, w] += users[u, f] * means[k, f, begun + w]
                if is_other:
                    for w in range(n):
                        scores[k, w] = users[u, 0] * acted_on[k, 0, begun + w]
                    for f in range(1, n_features):
                        for w in range(n):
                            scores[k, w] += users[u, f] * acted_on[k, f, begun + w]
            for w in range(n):
                limit[w] = scores[0, w]
                n_best[w] = zero
            for k in range(1, n_arms):
                for w in range(n):
                    limit[w] = max(limit[w], scores[k, w])
            for w in range(n):
                limit[w] -= tie * max(abs(limit[w]), one)
            for k in range(n_arms):
                for w in range(n):
                    n_best[w] += one if scores[k, w] >= limit[w] else zero
            for i in range(n_arms):
                if not wanted[u, i]:
                    continue
                ever = zero
                for w in range(n):
                    share[w] = weights[begun + w] / n_best[w] if scores[i, w] >= limit[w] else zero
                    ever += share[w]
                if ever == zero:
                    continue
                for j in range(n_arms):
                    first = zero
                    second = zero
                    for w in range(n):
                        term = share[w] * (rewards[i, w] - rewards[j, w] + extra)
                        first += term
                        second += term * term
                    sums[0, u, i, j] += first
                    sums[1, u, i, j] += second


def _organic_rows(users, means, acted_on, is_other, weights, arms, rivals, extra, tie, out, shares) -> None:
    n_arms, n_features, n_worlds = means.shape
    kind = means.dtype
    rewards = np.empty((n_arms, n_worlds), dtype=kind)
    scores = np.empty((n_arms, n_worlds), dtype=kind) if is_other else rewards
    limit = np.empty(n_worlds, dtype=kind)
    n_best = np.empty(n_worlds, dtype=kind)
    one = kind.type(1.0)
    zero = one - one
    for u in range(len(users)):
        for k in range(n_arms):
            for w in range(n_worlds):
                rewards[k, w] = users[u, 0] * means[k, 0, w]
            for f in range(1, n_features):
                for w in range(n_worlds):
                    rewards[k, w] += users[u, f] * means[k, f, w]
            if is_other:
                for w in range(n_worlds):
                    scores[k, w] = users[u, 0] * acted_on[k, 0, w]
                for f in range(1, n_features):
                    for w in range(n_worlds):
                        scores[k, w] += users[u, f] * acted_on[k, f, w]
        for w in range(n_worlds):
            limit[w] = scores[0, w]
            n_best[w] = zero
            out[u, w] = 0.0
        for k in range(1, n_arms):
            for w in range(n_worlds):
                limit[w] = max(limit[w], scores[k, w])
        for w in range(n_worlds):
            limit[w] -= tie * max(abs(limit[w]), one)
        for k in range(n_arms):
            for w in range(n_worlds):
                n_best[w] += one if scores[k, w] >= limit[w] else zero
        for w in range(n_worlds):
            n_best[w] = weights[w] / n_best[w]  # s of the best
        i, j = arms[u], rivals[u]
        if i >= 0:
            for w in range(n_worlds):
                term = (rewards[i, w] - rewards[j, w] + extra) * n_best[w]
                out[u, w] = term if scores[i, w] >= limit[w] else zero
            continue
        for k in range(n_arms):
            total = 0.0
            for w in range(n_worlds):
                share = n_best[w] if scores[k, w] >= limit[w] else zero
                total += share
                out[u, w] += share * rewards[k, w]
            shares[u, k] = total
