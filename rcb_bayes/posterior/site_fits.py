"""Posteriors under 0/1 rewards from the weighted draws of ``site_draws``: averages, and what is vouched for."""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.posterior.data import Rows, Tallies
from rcb_bayes.posterior.estimates import Estimates
from rcb_bayes.posterior.importance import N_REPLICATES, normalised
from rcb_bayes.posterior.logistic_means import Moments, few_of, logistic_means
from rcb_bayes.posterior.results import users_of
from rcb_bayes.posterior.site_draws import SiteSampler, Standardised
from rcb_bayes.posterior.vouching import Checked, between_halves, check_means
from rcb_bayes.schema import BoolArray, FloatArray
from rcb_bayes.telling.progress import track

_SETS = 32  # data sets at a time


@dataclass(frozen=True, slots=True)
class Rung:
    """Draws of each data set, the share of them that should count, ``kept``, with the flatter factor of the proposals,
    and whether the factor is found ``again`` under the scale that the data speak for."""

    n_draws: int
    kept: float
    again: bool = False


RUNGS = (Rung(512, 0.87), Rung(2048, 0.72, again=True), Rung(8192, 0.6, again=True), Rung(16384, 0.5, again=True))


def fit_sites(
    sampler: SiteSampler, data: Rows | Tallies, found: Estimates, *, users: FloatArray | None, seed: int
) -> None:
    """Answer for every data set; those that the first rung does not vouch for get the second's answer."""
    turn = data.fingerprints() % N_REPLICATES
    still = np.arange(data.n_sets)
    for rung in RUNGS:
        chunks = []
        for replicate in range(N_REPLICATES):
            members = still[turn[still] == replicate]
            chunks += [(replicate, members[k : k + _SETS]) for k in range(0, len(members), _SETS)]
        for replicate, chunk in track(chunks, description=f"posteriors, {rung.n_draws} draws each"):
            _answer(sampler, data.take(chunk), chunk, found, rung, users=users_of(users, chunk), seed=(seed, replicate))
        still = np.flatnonzero(~found.vouched)
        if not len(still):
            return


def draws_of(sampler: SiteSampler, data: Rows | Tallies, *, n_draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Weighted draws of every data set: coefficients (M, S, K d), and log weights of each group, (M, S, G)."""
    d = data.users.shape[1] if isinstance(data, Tallies) else data.x.shape[2]
    values = np.empty((data.n_sets, n_draws, data.n_arms * d))
    log_weight = np.empty((data.n_sets, n_draws, len(sampler.groups)))
    for m, replicate in enumerate(data.fingerprints() % N_REPLICATES):
        one = data.take(slice(m, m + 1))
        for g, group in enumerate(sampler.groups):
            key = (seed, int(replicate), n_draws, group.arms[0])
            u, weights = sampler.draw(
                group.cells(one), group, n_draws=n_draws, kept=RUNGS[0].kept, again=True, seed=key
            )
            index = [arm * d + i for arm in group.arms for i in range(d)]
            values[m][:, index], log_weight[m, :, g] = group.values(u[0]), weights[0]
    return values, log_weight


def _answer(
    sampler: SiteSampler,
    data: Rows | Tallies,
    chunk: np.ndarray,
    found: Estimates,
    rung: Rung,
    *,
    users: FloatArray | None,
    seed: tuple[int, int],
) -> None:
    """Average one chunk of data sets and write the results to their places."""
    worst = None
    for group in sampler.groups:
        cells = group.cells(data)
        key = (*seed, rung.n_draws, group.arms[0])
        u, log_weight = sampler.draw(cells, group, n_draws=rung.n_draws, kept=rung.kept, again=rung.again, seed=key)
        unseen = cells.n.sum(axis=(1, 2)) == 0
        checked = _average(group, u, log_weight, chunk, found, unseen=unseen, users=users)
        worst = checked if worst is None else worst.worse(checked)
    assert worst is not None  # a belief has arms
    found.put(worst, chunk, n_draws=rung.n_draws)


def _average(
    group: Standardised,
    u: FloatArray,
    log_weight: FloatArray,
    chunk: np.ndarray,
    found: Estimates,
    *,
    unseen: BoolArray,
    users: FloatArray | None,
) -> Checked:
    """Moments of a group, and what its draws show."""
    (k, d), n_sets = group.centre.shape, len(u)
    weight = normalised(log_weight)
    mean = (weight[:, None] @ u)[:, 0]
    mean[unseen] = 0.0  # known without the draws
    centred = u - mean[:, None]
    index = [arm * d + i for arm in group.arms for i in range(d)]
    found.mean[np.ix_(chunk, index)] = group.values(mean)
    if found.covariance is not None:
        joint = (weight[..., None] * centred).swapaxes(1, 2) @ centred
        back = np.kron(np.eye(k), group.map)
        found.covariance[np.ix_(chunk, index, index)] = back @ joint @ back.T
    checked = check_means(log_weight, weight, centred).of_known_means(unseen)
    if users is None:
        return checked
    shaped = centred.reshape(n_sets, -1, k, d).swapaxes(1, 2)  # (M, K, S, d)
    weighted = shaped * weight[:, None, :, None]
    moments = Moments(
        mean=mean.reshape(n_sets, k, d),
        covariance=weighted.swapaxes(2, 3) @ shaped,
        error=weighted.swapaxes(2, 3) @ weighted,
        apart=between_halves(weight, centred).reshape(n_sets, k, d),
    )
    few = np.take_along_axis(u, few_of(weight)[..., None], axis=1).reshape(n_sets, -1, k, d)
    x, offset = group.rows(users)
    rewards = logistic_means(moments, few, x, offset)
    if unseen.any():  # known without the draws
        own = (x[unseen], offset[:, unseen]) if x.ndim == 3 else (x, offset)
        rewards.mean[unseen] = group.prior_rewards(*own)
        rewards.error[unseen] = rewards.gap[unseen] = 0.0
    found.reward[chunk[:, None], :, list(group.arms)] = rewards.mean.swapaxes(1, 2)
    if found.reward_variance is not None:
        found.reward_variance[chunk[:, None], :, list(group.arms)] = rewards.variance.swapaxes(1, 2)
    return checked.with_rewards(rewards.error, rewards.gap)
