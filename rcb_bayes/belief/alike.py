"""Which arms of a belief may change places: exchanging them leaves its joint law as it is.

A closed form is compared as it stands. Else the log density, or the Gaussian law given each draw of the scales, must be
the same at many draws of the belief and far outside of them after two arms have changed places. Arms whose prior means
differ, be it by Monte Carlo error, are not alike.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rcb_bayes.belief.prior import Prior

Classes = tuple[tuple[int, ...], ...]
_N_DRAWS = 64
_REACH = (1.0, 2.0, 5.0)  # deviations from the mean at which densities are compared, in those of a draw


def alike_arms(prior: "Prior") -> Classes:
    """Classes of arms that may change places, each arm in one."""
    if prior.law is not None and not prior.has_sigma:
        return prior.law.alike()
    classes: list[list[int]] = []
    for arm in range(prior.n_arms):
        same = next((members for members in classes if _may_change(prior, members[0], arm)), None)
        if same is None:
            classes.append([arm])
        else:
            same.append(arm)
    return tuple(tuple(members) for members in classes)


def _may_change(prior: "Prior", first: int, second: int) -> bool:
    mean = prior.mean.values
    if not np.array_equal(mean[first], mean[second]):
        return False
    order = np.arange(prior.n_arms)
    order[[first, second]] = second, first
    if prior.has_density and not prior.has_sigma:
        return _same_density(prior, order)
    return prior.is_conditionally_gaussian and _same_given_scales(prior, order)


def _same_density(prior: "Prior", order: np.ndarray) -> bool:
    mean = prior.mean.values
    away = prior.draw_arrays(_N_DRAWS, rng=np.random.default_rng(11))[0] - mean
    values = np.concatenate([mean + factor * away for factor in _REACH])
    before, after = (prior.group_log_density(part).sum(axis=1) for part in (values, values[:, order]))
    possible = np.isfinite(before)
    return bool((possible == np.isfinite(after)).all()) and np.allclose(
        before[possible], after[possible], rtol=1e-10, atol=1e-10
    )


def _same_given_scales(prior: "Prior", order: np.ndarray) -> bool:
    law = prior.conditional_law(_N_DRAWS).law
    k, d = prior.n_arms, prior.n_features
    mean, covariance = np.zeros((_N_DRAWS, k, d)), np.zeros((_N_DRAWS, k, d, k, d))
    for block in law.blocks:
        arms = list(block.arms)
        mean[:, arms] = block.means.reshape(_N_DRAWS, len(arms), d)
        tiles = block.covariances.reshape(_N_DRAWS, len(arms), d, len(arms), d)
        covariance[np.ix_(range(_N_DRAWS), arms, range(d), arms, range(d))] = tiles
    swapped = covariance[:, order][:, :, :, order]
    scale = np.abs(covariance).max(axis=(1, 2, 3, 4), keepdims=True)
    return np.array_equal(mean, mean[:, order]) and bool((np.abs(covariance - swapped) <= 1e-12 * scale).all())
